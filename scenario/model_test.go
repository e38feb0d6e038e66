package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
)

type airport struct {
	Code string  `col:"iata" key:"yes"`
	Lat  float64 `col:"latitude" unit:"deg" min:"-90 deg" max:"90 deg"`
	Lon  float64 `col:"longitude" unit:"deg" min:"-180" max:"180"`
	Size int32   `col:"size" default:"1" min:"0"`
	Note string  `col:"note" optional:"yes"`
}

// towerParams has a parameter of every type.
type towerParams struct {
	Airports  []airport      `param:"airports" table:"yes" default:"" doc:"where the towers are"`
	Radars    int            `param:"radars" default:"3" min:"0" max:"100" doc:"how many"`
	Lookahead sim.Duration   `param:"lookahead" default:"80 ms"`
	Reach     float64        `param:"range" unit:"m" default:"5 km" min:"0"`
	Speed     float64        `param:"speed" unit:"m/s" default:"450 kt" above:"0"`
	Rate      float64        `param:"rate" unit:"1/s" default:"3 1/h"`
	Bearing   float64        `param:"bearing" unit:"deg" default:"0 deg"`
	Weight    float64        `param:"weight" unit:"kg" default:"1 t"`
	Power     float64        `param:"power" unit:"W" default:"2 MW"`
	Wait      float64        `param:"wait" unit:"s" default:"90 s"`
	Seats     float64        `param:"seats" unit:"seats" default:"100 seats"`
	Share     float64        `param:"share" default:"0.5" min:"0" max:"1"`
	Loud      bool           `param:"loud" default:"false"`
	Mode      string         `param:"mode" default:"flat" enum:"flat, hourly"`
	Label     string         `param:"label" default:""`
	Small     uint8          `param:"small" default:"7"`
	Report    []int          `param:"report" default:"[1, 10]" min:"0"`
	Delays    []sim.Duration `param:"delays" default:"[1 s, 2 min]"`
	Levels    []float64      `param:"levels" unit:"m" default:"[1000 ft]"`
	Pattern   sim.File       `param:"pattern" default:""`
	Entities  int            `param:"entities" default:"1" min:"0" max:"1000"`
	X         float64        `param:"x" unit:"m" default:"0 m"`
	Fault     string         `param:"fault" default:""`
	Plain     int
}

type towerState struct{ N int64 }

func towerModel() sim.Model {
	m := sim.Model{Name: "tower", Summary: "a model with every type of parameter", Version: 1}
	return sim.Define(m, func(b *sim.Builder, p *towerParams) error {
		b.SetEnd(sim.Time(sim.Hour))
		b.SetSpace(sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Max: sim.Vec{X: 1e5, Y: 1e5}}})
		b.SetLimits(sim.Limits{Lookahead: p.Lookahead, Range: p.Reach, Speed: p.Speed})
		tick := sim.DefineEvent[sim.None](b, "tick", sim.Planned)
		k := sim.DefineKind[towerState](b, "tower", "")
		if p.Fault != "unhandled" {
			sim.Handle(k, tick, func(*sim.Context, *towerState, sim.None) {})
		}
		for range p.Entities {
			sim.Add(k, sim.Vec{X: p.X}, towerState{})
		}
		switch p.Fault {
		case "panic":
			var none []int
			_ = none[p.Radars]
		case "row":
			return &sim.ParamError{Path: "params.airports", Row: 2, Reason: "too close"}
		case "params":
			return errors.Join(sim.BadParam("params.radars", "more radars than airports"), sim.BadParam("params.report[1]", "too late"),
				sim.BadParam("params.mode", "odd"))
		case "breach":
			b.Stream("x").IntN(0)
		}
		return nil
	})
}

// strictModel has a parameter without a default, and no end, space or lookahead of its own.
func strictModel() sim.Model {
	type params struct {
		Need  float64 `param:"need" unit:"m" doc:"how far"`
		Table []struct {
			From string `col:"from"`
			N    uint8  `col:"n" max:"200"`
		} `param:"table" table:"yes" default:"rows.csv"`
	}
	return sim.Define(sim.Model{Name: "strict"}, func(b *sim.Builder, p *params) error {
		k := sim.DefineKind[towerState](b, "thing", "")
		sim.Add(k, sim.Vec{}, towerState{})
		return nil
	})
}

func testModels() []sim.Model { return []sim.Model{towerModel(), strictModel()} }

// folder writes files into a fresh folder and returns it.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// loadText loads a scenario of the given text with other files beside it.
func loadText(t testing.TB, text string, files map[string]string, set ...string) (*Scenario, error) {
	t.Helper()
	all := map[string]string{"s.yaml": text}
	for name, content := range files {
		all[name] = content
	}
	return Load(filepath.Join(folder(t, all), "s.yaml"), Options{Models: testModels(), Set: set})
}

func mustLoad(t testing.TB, text string, files map[string]string, set ...string) *Scenario {
	t.Helper()
	s, err := loadText(t, text, files, set...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantProblems loads and compares the problems, printed with the folder left out, one by one: each
// must begin with the text before "..." and hold what follows.
func wantProblems(t *testing.T, text string, files map[string]string, set []string, want ...string) {
	t.Helper()
	_, err := loadText(t, text, files, set...)
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("want problems, got error %v", err)
	}
	if len(problems) != len(want) {
		t.Fatalf("want %d problems, got %d:\n%v", len(want), len(problems), err)
	}
	for i, p := range problems {
		if !strings.HasPrefix(p.File, "--") {
			p.File = filepath.Base(p.File)
		}
		parts := strings.Split(want[i], "...")
		line := p.String()
		if !strings.HasPrefix(line, parts[0]) {
			t.Errorf("problem %d:\n got %s\nwant %s", i, line, want[i])
		}
		for _, part := range parts[1:] {
			if !strings.Contains(line, part) {
				t.Errorf("problem %d lacks %q:\n%s", i, part, line)
			}
		}
	}
}

// params finds what the loader filled, by running it once more.
func loadParams(t testing.TB, text string, files map[string]string, set ...string) *towerParams {
	t.Helper()
	all := map[string]string{"s.yaml": text}
	for name, content := range files {
		all[name] = content
	}
	path := filepath.Join(folder(t, all), "s.yaml")
	l := &loader{file: path, files: disk{path}, options: Options{Models: testModels(), Set: set}, scenario: &Scenario{}}
	l.root = parseYAML(path, []byte(text), &l.report)
	l.run()
	if err := l.report.err(); err != nil {
		t.Fatal(err)
	}
	return l.params.(*towerParams)
}
