package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/simnode/simnode/summary"
)

// asProgram, set in the environment, makes the test binary a program with the test models.
const asProgram = "SIMNODE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	probing()
	if os.Getenv(asProgram) != "" {
		os.Args[0] = "simnode"
		Main(testModels()...)
	}
	goleak.VerifyTestMain(m)
}

type result struct {
	code           int
	stdout, stderr string
}

func simnode(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	code := Run(ctx, append([]string{"/usr/bin/simnode"}, args...), &out, &errs, testModels()...)
	return result{code, out.String(), errs.String()}
}

// probeFile writes a scenario of the probe model and returns its path and a folder for output.
func probeFile(t testing.TB, more string) (file, out string) {
	dir := folder(t, map[string]string{"probe.yaml": "model: probe\n" + more})
	return filepath.Join(dir, "probe.yaml"), filepath.Join(dir, "results")
}

func TestRunWritesWhatTheSummaryNames(t *testing.T) {
	for _, c := range []struct {
		level string
		want  []string
	}{
		{"off", nil},
		{"summary", []string{"dot.svg", "report.html", "summary.json"}},
		{"statistical", []string{"rows.csv", "series.csv", "timeline.csv", "dot.svg", "report.html", "summary.json"}},
		{"raw", []string{"rows.csv", "events.csv", "series.csv", "timeline.csv", "dot.svg", "report.html", "summary.json"}},
	} {
		t.Run(c.level, func(t *testing.T) {
			file, out := probeFile(t, "")
			r := simnode(t.Context(), "run", file, "--out", out, "--record", c.level, "-o", "json")
			if r.code != Done || r.stderr != "" {
				t.Fatalf("exit %d: %s", r.code, r.stderr)
			}
			var s summary.Summary
			if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, name := range c.want {
				want = append(want, filepath.Join(out, name))
			}
			if !slices.Equal(s.Outputs, want) && len(s.Outputs)+len(want) > 0 {
				t.Errorf("outputs %q, not %q", s.Outputs, want)
			}
			if got := names(t, out); !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
				t.Errorf("the folder holds %q, not %q", got, c.want)
			}
			if c.level != "off" {
				data, err := os.ReadFile(filepath.Join(out, "summary.json"))
				if err != nil || string(data) != r.stdout {
					t.Errorf("summary.json is not what was printed (%v)", err)
				}
			}
		})
	}
}

// names lists a folder without its lock; one that does not exist is empty.
func names(t testing.TB, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != lockFile {
			list = append(list, e.Name())
		}
	}
	return list
}

// mask replaces what differs between two runs of one scenario on other machines.
func mask(text string) string {
	for _, key := range []string{"wall_s", "events_per_s", "peak_rss_bytes"} {
		text = regexp.MustCompile(`"`+key+`": [0-9.e+-]+`).ReplaceAllString(text, `"`+key+`": 0`)
	}
	return text
}

func TestJSONHasFixedKeysInOrder(t *testing.T) {
	file, out := probeFile(t, "seed: 18446744073709551615\nrecord: {level: summary, report: false}\n")
	t.Chdir(filepath.Dir(out))
	r := simnode(t.Context(), "run", filepath.Base(file), "--regions", "3", "--workers", "2", "-o", "json")
	got := regexp.MustCompile(`"digest": "[0-9a-f]{16}"`).ReplaceAllString(mask(r.stdout), `"digest": "D"`)
	got = regexp.MustCompile(`"events": [0-9]+`).ReplaceAllString(got, `"events": E`)
	const want = `{
  "scenario": "probe.yaml",
  "model": "probe",
  "seed": 18446744073709551615,
  "regions": 3,
  "workers": 2,
  "end_time_s": 10,
  "events": E,
  "entities": 20,
  "digest": "D",
  "wall_s": 0,
  "events_per_s": 0,
  "peak_rss_bytes": 0,
  "outputs": [
    "out/probe/summary.json"
  ],
  "results": {
    "answer": 42,
    "by_year": {
      "10": 2,
      "9": 1,
      "x": 3
    },
    "list": [
      1,
      2
    ],
    "text": "a<b"
  }
}
`
	if r.code != Done || got != want {
		t.Fatalf("exit %d\n%s%s\nwant\n%s", r.code, r.stderr, got, want)
	}
}

func TestTextSummary(t *testing.T) {
	file, out := probeFile(t, "")
	r := simnode(t.Context(), "run", file, "--out", out, "--regions", "2", "--workers", "5", "--seed", "7", "--end", "90 s", "--set", "params.entities=30")
	if r.code != Done || r.stderr != "" {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	for _, want := range []string{"model      probe\n", "seed       7\n", "regions    2\n", "workers    2\n", "end        1m30s\n", "entities   30\n",
		"results\n  answer  42\n  by_year\n    9   1\n    10  2\n    x   3\n  list    1, 2\n  text    a<b\noutputs\n", "  " + filepath.Join(out, "report.html") + "\n"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
}

func TestReportPageHoldsSummaryPictureAndSeries(t *testing.T) {
	file, out := probeFile(t, "title: A trial\n")
	if r := simnode(t.Context(), "run", file, "--out", out, "--regions", "4"); r.code != Done {
		t.Fatal(r.stderr)
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"A trial", "A dot", "<circle", "level", "by_year", "map version", "region 3", "Event rate", "Load by region over simulated time"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestOtherFilesInTheFolderStay(t *testing.T) {
	file, out := probeFile(t, "")
	if err := os.MkdirAll(out, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"notes.txt": "mine", "rows.csv": "old", "summary.json": "old"} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if r := simnode(t.Context(), "run", file, "--out", out); r.code != Done {
		t.Fatal(r.stderr)
	}
	for name, stays := range map[string]bool{"notes.txt": true, "rows.csv": false, "summary.json": false} {
		data, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || (string(data) == "mine" || string(data) == "old") != stays {
			t.Errorf("%s: stays %v: %q, %v", name, stays, data, err)
		}
	}
}

// A second run that records less leaves nothing of the first.
func TestFolderHoldsOneRun(t *testing.T) {
	file, out := probeFile(t, "")
	for _, level := range []string{"raw", "summary"} {
		if r := simnode(t.Context(), "run", file, "--out", out, "--record", level); r.code != Done {
			t.Fatal(r.stderr)
		}
	}
	if got, want := names(t, out), []string{"dot.svg", "report.html", "summary.json"}; !slices.Equal(got, want) {
		t.Errorf("the folder holds %q, not %q", got, want)
	}
}

// A summary that names other files does not get them removed.
func TestForeignSummaryRemovesNothingElsewhere(t *testing.T) {
	file, out := probeFile(t, "")
	dir := filepath.Dir(file)
	if err := os.MkdirAll(out, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(dir, "keep.csv"):     "mine",
		filepath.Join(out, "keep.txt"):     "mine",
		filepath.Join(out, "summary.json"): `{"outputs": ["../keep.csv", "keep.txt", "..", "", "summary.json"]}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if r := simnode(t.Context(), "run", file, "--out", out); r.code != Done {
		t.Fatal(r.stderr)
	}
	for _, name := range []string{filepath.Join(dir, "keep.csv"), filepath.Join(out, "keep.txt")} {
		if data, err := os.ReadFile(name); err != nil || string(data) != "mine" {
			t.Errorf("%s is gone (%v)", name, err)
		}
	}
}

// A run that fails must not leave the summary of an earlier run beside its own files.
func TestFailedRunLeavesNoSummary(t *testing.T) {
	file, out := probeFile(t, "")
	if r := simnode(t.Context(), "run", file, "--out", out); r.code != Done {
		t.Fatal(r.stderr)
	}
	r := simnode(t.Context(), "run", file, "--out", out, "--set", "params.mode=panic")
	if r.code != Failed || r.stdout != "" {
		t.Fatalf("exit %d, output %q", r.code, r.stdout)
	}
	if got, want := names(t, out), []string{"rows.csv", "series.csv", "timeline.csv"}; !slices.Equal(got, want) {
		t.Errorf("the folder holds %q, not %q", got, want)
	}
}

func TestRunFailures(t *testing.T) {
	for mode, want := range map[string][]string{
		"panic":         {"index out of range", "entity", "counter", "tick", "model_test.go:"},
		"breach":        {"lookahead", "100ms", "counter", "model_test.go:"},
		"chain":         {"without delay", "counter"},
		"nan":           {"wait", "counter", "finite"},
		"results-error": {"probe", "results", "no results today"},
		"results-panic": {"probe", "results", "results in panic"},
		"results-nan":   {"probe", "results", "NaN"},
		"picture-error": {"probe", "pictures", "no picture today"},
		"picture-name":  {"probe", "pictures", "../dot"},
		"picture-panic": {"probe", "pictures", "picture in panic"},
	} {
		t.Run(mode, func(t *testing.T) {
			file, out := probeFile(t, "params: {mode: "+mode+"}\n")
			r := simnode(t.Context(), "run", file, "--out", out, "-o", "json", "--regions", "2")
			if r.code != Failed || r.stdout != "" {
				t.Fatalf("exit %d, output %q, %s", r.code, r.stdout, r.stderr)
			}
			for _, w := range want {
				if !strings.Contains(r.stderr, w) {
					t.Errorf("no %q in: %s", w, r.stderr)
				}
			}
			if strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("more than one line: %s", r.stderr)
			}
			for _, name := range names(t, out) {
				if strings.HasSuffix(name, ".partial") {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

func TestFullDiskFailsTheRun(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full here")
	}
	file, out := probeFile(t, "end: 2000 s\n")
	if err := os.MkdirAll(out, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", filepath.Join(out, "rows.csv.partial")); err != nil {
		t.Fatal(err)
	}
	r := simnode(t.Context(), "run", file, "--out", out, "-o", "json")
	if r.code != Failed || r.stdout != "" || !strings.Contains(r.stderr, "no space left on device") || !strings.Contains(r.stderr, "rows.csv") {
		t.Fatalf("exit %d, %q, %s", r.code, r.stdout, r.stderr)
	}
}

// failingWriter is a closed standard output.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestClosedOutputIsAnError(t *testing.T) {
	file, out := probeFile(t, "")
	for _, args := range [][]string{{"run", file, "--out", out}, {"validate", file}, {"validate", file, "-o", "json"}, {"models"}, {"models", "probe"}, {"schema"}, {"version"}} {
		var errs bytes.Buffer
		if code := Run(t.Context(), append([]string{"simnode"}, args...), failingWriter{}, &errs, testModels()...); code != Failed || errs.Len() == 0 {
			t.Errorf("%v: exit %d, %q", args, code, errs.String())
		}
	}
}

func TestDefaultRegions(t *testing.T) {
	f := &runFlags{}
	if r, w := regionsAndWorkers(f, 0); r != 1 || w != 1 {
		t.Errorf("lookahead 0: %d regions, %d workers", r, w)
	}
	if r, w := regionsAndWorkers(f, 5); w != runtime.GOMAXPROCS(0) || r != 2*w && r != 1 {
		t.Errorf("%d regions, %d workers", r, w)
	}
	for workers, regions := range map[int]int{1: 1, 2: 4, 5: 10} {
		f.workers.n = workers
		if r, w := regionsAndWorkers(f, 5); r != regions || w != workers {
			t.Errorf("%d workers: %d regions, %d workers", workers, r, w)
		}
	}
	f.regions.n, f.workers.n = 3, 8
	if r, w := regionsAndWorkers(f, 0); r != 3 || w != 3 {
		t.Errorf("given: %d regions, %d workers", r, w)
	}
}

func TestScenarioName(t *testing.T) {
	for file, want := range map[string]string{"a/b.yaml": "b", "b.c.yml": "b.c", "plain": "plain", "../.yaml": ".yaml"} {
		if got := scenarioName(file); got != want {
			t.Errorf("%s: %q, not %q", file, got, want)
		}
	}
}

func TestCPUProfile(t *testing.T) {
	file, out := probeFile(t, "")
	profile := filepath.Join(filepath.Dir(file), "cpu.prof")
	if r := simnode(t.Context(), "run", file, "--out", out, "--cpuprofile", profile); r.code != Done {
		t.Fatal(r.stderr)
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
		t.Errorf("no profile: %v", err)
	}
}

func TestRecordOffRemovesTheEarlierRun(t *testing.T) {
	file, out := probeFile(t, "")
	for _, level := range []string{"raw", "off"} {
		if r := simnode(t.Context(), "run", file, "--out", out, "--record", level); r.code != Done {
			t.Fatalf("exit %d: %s", r.code, r.stderr)
		}
		if level == "raw" {
			if err := os.WriteFile(filepath.Join(out, "notes.txt"), []byte("mine"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := names(t, out); !slices.Equal(got, []string{"notes.txt"}) {
		t.Errorf("the folder holds %q", got)
	}
}

func TestEmptyFlagsAreRefused(t *testing.T) {
	file, out := probeFile(t, "")
	for _, flag := range []string{"--seed=", "--end=", "--out=", "--record="} {
		r := simnode(t.Context(), "run", file, flag)
		if r.code != BadUsage || r.stdout != "" || strings.Contains(r.stderr, "allowed: ,") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: exit %d: %s%s", flag, r.code, r.stdout, r.stderr)
		}
	}
	if got := names(t, out); len(got) > 0 {
		t.Errorf("something was written: %q", got)
	}
	r := simnode(t.Context(), "run", file, "--record", "verbose")
	if r.code != BadUsage || !strings.Contains(r.stderr, "allowed: off, summary, statistical, raw") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}
