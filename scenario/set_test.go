package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

func TestSet(t *testing.T) {
	text := "model: tower\nparams:\n  plain: 1\n  delays: [1 s, 2 s]\n  radars: many\n"
	p := loadParams(t, text, map[string]string{"p.rle": "x"}, "params.radars=5", "params.radars=6", "params.range=3 km", "params.delays[1]=5 ms",
		"params.report.0=7", "params.levels=[1 m, 2 km]", "params.mode=hourly", "params.label=a=b", "params.pattern=p.rle", "params.loud=true")
	want := []any{6, 3000.0, []sim.Duration{sim.Second, 5 * sim.Millisecond}, []int{7, 10}, []float64{1, 2000}, "hourly", "a=b", "p.rle", true}
	got := []any{p.Radars, p.Reach, p.Delays, p.Report, p.Levels, p.Mode, p.Label, p.Pattern.Name, p.Loud}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSetOutsideOfParams(t *testing.T) {
	s := mustLoad(t, "model: strict\nparams: {plain: 1}\n", nil, "model=tower", "seed=5", "end=2 s", "space.kind=plane", "space.max=[1 km, 1 km]", "record.level=off", "title=T")
	if s.Model.Name != "tower" || s.Seed != 5 || s.Program.End != sim.Time(2*sim.Second) || s.Space.Bounds.Max.X != 1000 || s.Record.Level != "off" || s.Title != "T" {
		t.Errorf("got %+v", s)
	}
	s = mustLoad(t, "", nil, "model=tower", "params.plain=1")
	if s.Model.Name != "tower" {
		t.Errorf("got %+v", s)
	}
}

func TestSetProblems(t *testing.T) {
	for set, want := range map[string]string{
		"params.radrs=5":           `--set params.radrs: unknown key; did you mean "radars"? allowed: airports, radars`,
		"param.radars=5":           `--set param: unknown key; did you mean "params"?`,
		"params.radars=-1":         `--set params.radars: "-1" is out of range; expected from 0 to 100`,
		"params.range=5":           `--set params.range: "5" has no unit`,
		"params.radars":            `--set params.radars: there is no "="`,
		"=5":                       `--set =5: there is no path before "="`,
		"params..radars=5":         `--set params..radars: "params..radars" is not a path`,
		"params.radars=":           `--set params.radars: has no value`,
		"params.radars=[1":         `--set params.radars: not valid YAML`,
		"params.radars=*x":         `--set params.radars: anchors`,
		"params.report[5]=1":       `--set params.report[5]: the list has 2 elements and none at "5"`,
		"params.report.x=1":        `--set params.report.x: the list has 2 elements and none at "x"`,
		"params.plain.x=1":         `--set params.plain.x: there is a single value above "x"`,
		"params.radars.x=1":        `--set params.radars: expected a single value, not a section`,
		"params.report[0]=-1":      `--set params.report[0]: "-1" is out of range`,
		"seed=-1":                  `--set seed: "-1" is out of range`,
		"model=towre":              `--set model: unknown model "towre"; did you mean "tower"?`,
		"params=5":                 `--set params: expected a section of keys`,
		"params.airports=none.csv": `--set params.airports: there is no file`,
	} {
		t.Run(set, func(t *testing.T) {
			if set == "params=5" {
				wantProblems(t, plainParam, nil, []string{set}, want, "--set params.plain: missing")
				return
			}
			wantProblems(t, plainParam, nil, []string{set}, want)
		})
	}
}

// TestSetEqualsWriting: a value that is set and one that is written give one scenario.
func TestSetEqualsWriting(t *testing.T) {
	values := map[string][]string{"radars": {"0", "7", "-1", "x"}, "range": {"1 km", "5", "7 NM"}, "report": {"[]", "[1, 2]", "[x]"}, "mode": {"flat", "odd"}}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"mode", "radars", "range", "report"}).Draw(t, "key")
		value := rapid.SampledFrom(values[key]).Draw(t, "value")
		a, err1 := load("s.yaml", []byte(plainParam), Options{Models: testModels(), Set: []string{"params." + key + "=" + value}})
		b, err2 := load("s.yaml", []byte("model: tower\nparams:\n  plain: 0\n  "+key+": "+value+"\n"), Options{Models: testModels()})
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("set: %v\nwritten: %v", err1, err2)
		}
		if err1 == nil && a.Hash != b.Hash {
			t.Fatal("two hashes")
		}
		if err1 != nil && err1.(Problems)[0].Text != err2.(Problems)[0].Text {
			t.Fatalf("set: %v\nwritten: %v", err1, err2)
		}
	})
}

// FuzzSet: any override ends in a scenario or in problems of bounded length.
func FuzzSet(f *testing.F) {
	for _, s := range []string{"params.radars=5", "params.report[0]=1", "a.b.c=[{x: 1}]", "=", "params.report.-1=2", "model=strict", "params]=1", "params[0]=1", "space.kind=earth"} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, set string) {
		_, err := load(filepath.Join(dir, "s.yaml"), []byte(plainParam), Options{Models: testModels(), Set: []string{set}})
		checkError(t, err)
	})
}

// FuzzLoad: any bytes end in a scenario or in problems of bounded length, always the same.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{plainParam, withTable, "model: strict\nend: 1 d\nparams: {need: 1 km}\nspace: {kind: torus, size: [1 km, 1 km]}\n",
		"a: [", "- - -\n", "? x\n", "\"\\x4\": |\n  a\n", "model: tower\nparams:\n  plain: 1\n  levels:\n  - 1 m\n  - >\n   2 m\n"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.csv"), []byte("iata,latitude,longitude\nA,1,2\n"), 0o644); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		path := filepath.Join(dir, "s.yaml")
		a, err := load(path, data, Options{Models: testModels()})
		checkError(t, err)
		b, err2 := load(path, data, Options{Models: testModels()})
		if !reflect.DeepEqual(err, err2) || a != nil && a.Hash != b.Hash {
			t.Errorf("two answers: %v and %v", err, err2)
		}
	})
}

func checkError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var p Problems
	if !errors.As(err, &p) || len(p) == 0 || len(p) > maxProblems+1 {
		t.Fatalf("got %T: %v", err, err)
	}
	for _, q := range p {
		line := q.String()
		if q.Text == "" || len(line) > 5000 || strings.ContainsAny(line, "\n\r") {
			t.Errorf("problem %q", line)
		}
	}
}
