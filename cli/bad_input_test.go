package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	airportsCSV = "iata,name,city,state,country,latitude,longitude\nAAA,A,A,A,US,40,-100\nBBB,B,B,B,US,41,-99\n"
	flightsCSV  = "origin,destination,count\nAAA,BBB,5000\nBBB,AAA,5000\n"
	traffic     = "model: airspace\nend: 1 h\nparams: {radars: 1, airports: airports.csv, flights: flights.csv}\n"
)

// The scenario of these tables is fine: what the tests below refuse is what they change.
func TestSmallAirspaceIsFine(t *testing.T) {
	dir := folder(t, map[string]string{"s.yaml": traffic, "airports.csv": airportsCSV, "flights.csv": flightsCSV})
	if r := simnode(t.Context(), "validate", filepath.Join(dir, "s.yaml")); r.code != Done {
		t.Fatal(r.stderr)
	}
}

func TestBadInput(t *testing.T) {
	table := func(old, new string) map[string]string {
		return map[string]string{"s.yaml": traffic, "airports.csv": strings.Replace(airportsCSV, old, new, 1), "flights.csv": flightsCSV}
	}
	text := func(s string) map[string]string { return map[string]string{"s.yaml": s} }
	for _, c := range []struct {
		name  string
		files map[string]string
		args  []string
		// want are parts of the one line of error.
		want []string
	}{
		{name: "unknown key", files: text("model: probe\nparams: {entites: 3}\n"), want: []string{"s.yaml:2:10", "params.entites", "unknown key", `did you mean "entities"?`}},
		{name: "unknown key at the top", files: text("model: probe\nsed: 3\n"), want: []string{"s.yaml:2:1", "sed", "unknown key", `did you mean "seed"?`}},
		{name: "missing unit", files: text("model: probe\nend: 5\n"), want: []string{"s.yaml:2:6", "end", "unit"}},
		{name: "wrong unit", files: text("model: probe\nparams: {reach: 3 s}\n"), want: []string{"s.yaml:2:17", "params.reach"}},
		{name: "regions with lookahead 0", files: text("model: probe\nparams: {lookahead: 0 s}\n"), args: []string{"--regions", "2"}, want: []string{"regions 2", "lookahead 0", "use 1 region"}},
		{name: "range beyond half a torus", files: text("model: probe\nparams: {reach: 51 m}\n"), want: []string{"range", "half"}},
		{name: "CSV without a column", files: table("latitude", "lat"), want: []string{"airports.csv:1:", "latitude", `the table has no column "latitude"`}},
		{name: "coordinate out of range", files: table("40,", "140,"), want: []string{"airports.csv:2:", "latitude", "140"}},
		{name: "coordinate not a number", files: table("40,", "NaN,"), want: []string{"airports.csv:2:", "latitude", "NaN"}},
		{name: "setup ends its goroutine", files: text("model: probe\nparams: {mode: setup-goexit}\n"), want: []string{"s.yaml", "runtime.Goexit", "fault of the model's code"}},
		{name: "a space for phold", files: text("model: phold\nspace: {kind: plane, max: [1 km, 1 km]}\n"), want: []string{"s.yaml:2:", "phold makes its own space"}},
		{name: "phold beyond memory", files: text("model: phold\nparams: {entities: 200000000}\n"), want: []string{"s.yaml:2:20", "params.entities", "from 1 to 50000000"}},
		{name: "traffic beyond memory", files: map[string]string{"s.yaml": strings.Replace(traffic, "{", "{year_days: 1e-300, ", 1), "airports.csv": airportsCSV, "flights.csv": flightsCSV},
			want: []string{"params.traffic", "year_days 1e-300", "aircraft in the air"}},
		{name: "duplicate pair", files: map[string]string{"s.yaml": traffic, "airports.csv": airportsCSV,
			"flights.csv": flightsCSV + "\n" + strings.Split(flightsCSV, "\n")[1] + "\n"}, want: []string{"flights.csv:", "duplicate", "lines 2 and"}},
		{name: "duplicate airport", files: table("BBB", "AAA"), want: []string{"airports.csv:3:", "AAA"}},
		{name: "end before start", files: text("model: probe\nend: -1 s\n"), want: []string{"s.yaml:2:6", "end", "before the start"}},
		{name: "end before start by flag", files: text("model: probe\n"), args: []string{"--end=-1s"}, want: []string{"--end", "before the start"}},
		{name: "negative seed", files: text("model: probe\nseed: -1\n"), want: []string{"s.yaml:2:7", "seed", "-1"}},
		{name: "negative seed by flag", files: text("model: probe\n"), args: []string{"--seed", "-1"}, want: []string{"--seed", "-1", "whole number"}},
		{name: "regions 0", files: text("model: probe\n"), args: []string{"--regions", "0"}, want: []string{"--regions", `"0"`, "from 1 to"}},
		{name: "too many regions", files: text("model: probe\n"), args: []string{"--regions", "1000000"}, want: []string{"--regions", "from 1 to"}},
		{name: "regions in words", files: text("model: probe\n"), args: []string{"--regions", "two"}, want: []string{"--regions", `"two"`, "from 1 to"}},
		{name: "workers 0", files: text("model: probe\n"), args: []string{"--workers", "0"}, want: []string{"--workers", "from 1 to"}},
		{name: "unwritable folder", files: text("model: probe\n"), args: []string{"--out", "s.yaml/below"}, want: []string{"output folder", "s.yaml/below", "cannot be written to"}},
		{name: "unwritable profile", files: text("model: probe\n"), args: []string{"--cpuprofile", "s.yaml/p"}, want: []string{"--cpuprofile"}},
		{name: "empty file", files: text(""), want: []string{"s.yaml", "empty"}},
		{name: "unknown level", files: text("model: probe\n"), args: []string{"--record", "ra"}, want: []string{"--record", `did you mean "raw"?`}},
		{name: "unknown format", files: text("model: probe\n"), args: []string{"-o", "yaml"}, want: []string{"--output", "text, json"}},
		{name: "unknown flag", files: text("model: probe\n"), args: []string{"--worker", "2"}, want: []string{"--worker", "did you mean --workers?", "--help"}},
		{name: "set of an unknown key", files: text("model: probe\n"), args: []string{"--set", "params.mod=fine"}, want: []string{"--set", "params.mod", `"mode"`}},
		{name: "set without a value", files: text("model: probe\n"), args: []string{"--set", "params.mode"}, want: []string{"--set", "params.mode"}},
		{name: "second file", files: text("model: probe\n"), args: []string{"t.yaml"}, want: []string{"one scenario file", "t.yaml"}},
		{name: "unknown model", files: text("model: prob\n"), want: []string{"s.yaml:1:8", `did you mean "probe"?`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(folder(t, c.files))
			r := simnode(t.Context(), append([]string{"run", "s.yaml", "-o", "json"}, c.args...)...)
			if r.code != BadUsage || r.stdout != "" {
				t.Fatalf("exit %d, output %q, %s", r.code, r.stdout, r.stderr)
			}
			for _, w := range c.want {
				if !strings.Contains(r.stderr, w) {
					t.Errorf("no %q in: %s", w, r.stderr)
				}
			}
			if strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("not one line: %s", r.stderr)
			}
			if got := names(t, "."); len(got) != len(c.files) {
				t.Errorf("something was written: %q", got)
			}
		})
	}
}

func TestLineOf100MB(t *testing.T) {
	line := bytes.Repeat([]byte("a"), 100<<20)
	for _, c := range []struct{ name, before string }{{"s.yaml", "model: "}, {"airports.csv", "iata,latitude,longitude\n"}} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, map[string]string{"s.yaml": traffic, "airports.csv": airportsCSV, "flights.csv": flightsCSV})
			if err := os.WriteFile(filepath.Join(dir, c.name), append([]byte(c.before), line...), 0o666); err != nil {
				t.Fatal(err)
			}
			r := simnode(t.Context(), "run", filepath.Join(dir, "s.yaml"), "--out", dir)
			if r.code != BadUsage || !strings.Contains(r.stderr, "larger than") && !strings.Contains(r.stderr, "longer than") || len(r.stderr) > 2000 {
				t.Fatalf("exit %d: %.2000s", r.code, r.stderr)
			}
		})
	}
}

func TestEveryProblemIsPrinted(t *testing.T) {
	dir := folder(t, map[string]string{"s.yaml": "model: probe\nseed: x\nend: 3\nspice: 1\nparams:\n  mode: odd\n  reach: 1\n"})
	for _, command := range []string{"run", "validate"} {
		r := simnode(t.Context(), command, filepath.Join(dir, "s.yaml"))
		if got := strings.Count(r.stderr, "\n"); r.code != BadUsage || got != 5 || r.stdout != "" {
			t.Errorf("%s: exit %d, %d lines:\n%s", command, r.code, got, r.stderr)
		}
	}
	r := simnode(t.Context(), "validate", filepath.Join(dir, "s.yaml"), "-o", "json")
	var v verdict
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil || r.code != BadUsage || r.stderr != "" {
		t.Fatalf("exit %d, %v, %s", r.code, err, r.stderr)
	}
	if v.OK || len(v.Problems) != 5 || v.Problems[0].Line != 2 || v.Problems[0].Field != "seed" || v.Problems[0].Text == "" {
		t.Errorf("%+v", v)
	}
}

func TestCommandLineErrors(t *testing.T) {
	for line, want := range map[string]string{
		"rum":               `unknown command "rum": did you mean "run"?`,
		"run":               "run needs a scenario file",
		"validate":          "validate needs a scenario file",
		"validate a b":      `"b" is one too many`,
		"models a b":        `"b" is one too many`,
		"models phld":       `did you mean "phold"?`,
		"schema x":          "takes no arguments",
		"version x":         "takes no arguments",
		"completion":        "bash, zsh or fish",
		"completion zs":     `did you mean "zsh"?`,
		"--verson":          "did you mean --version?",
		"models -o xml":     "allowed: text, json",
		"run no-such.yaml":  "there is no file",
		"validate --seed 1": "unknown flag: --seed",
		"run --regions":     "needs an argument",
	} {
		r := simnode(t.Context(), strings.Fields(line)...)
		if r.code != BadUsage || r.stdout != "" || !strings.Contains(r.stderr, want) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q", line, r.code, r.stdout, r.stderr)
		}
	}
}

// No command line ends in anything but a documented exit code. The file does not exist, so that
// nothing is run or written.
func FuzzCommandLine(f *testing.F) {
	for _, s := range []string{"run --regions 2", "validate -o json", "models phold", "--help", "run --set a=b --set", "completion bash", "help run", "run --seed=-1 -- -x", "-o", "__complete run --"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var out, errs bytes.Buffer
		args := append([]string{"simnode"}, strings.Fields(line)...)
		code := Run(t.Context(), append(args, "/no/such/file.yaml"), &out, &errs, testModels()...)
		if code != Done && code != BadUsage {
			t.Fatalf("exit %d: %s", code, errs.String())
		}
		if code == BadUsage && errs.Len()+out.Len() == 0 {
			t.Fatal("no word about what is wrong")
		}
	})
}
