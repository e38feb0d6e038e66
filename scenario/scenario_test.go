package scenario

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
)

func TestDefaultsAreBoundExactly(t *testing.T) {
	want := &towerParams{Radars: 3, Lookahead: 80 * sim.Millisecond, Reach: 5000, Speed: 231.5, Rate: 1.0 / 1200, Weight: 1000, Power: 2e6,
		Wait: 90, Seats: 100, Share: 0.5, Mode: "flat", Small: 7, Report: []int{1, 10}, Delays: []sim.Duration{sim.Second, 2 * sim.Minute},
		Levels: []float64{304.8}, Entities: 1}
	want.Plain = 4
	p := loadParams(t, "model: tower\nparams: {plain: 4}\n", nil)
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v\nwant %+v", p, want)
	}
}

func TestValuesOfEveryType(t *testing.T) {
	text := `
model: tower
params:
  airports: a/airports.csv
  radars: 1e1
  lookahead: 1m30s
  range: 250 km
  speed: "100km/h"
  rate: 2 kHz
  bearing: 3.14159265358979323846 rad
  weight: 5 g
  power: .5 kW
  wait: 1e3 ms
  seats: 12 seats
  share: +1.0
  loud: true
  mode: hourly
  label: "a: b"
  small: 255
  report: [5]
  delays: []
  levels:
    - 1 NM
    - 1 mi
  pattern: p.rle
  plain: -5
`
	p := loadParams(t, text, map[string]string{"p.rle": "bob$", "a/airports.csv": "latitude,extra,iata,longitude\n10,x,ABE,-20.5\n-90 deg,,\"B,C\",180\r\n"})
	want := &towerParams{
		Airports: []airport{{"ABE", 10, -20.5, 1, ""}, {"B,C", -90, 180, 1, ""}},
		Radars:   10, Lookahead: 90 * sim.Second, Reach: 250000, Speed: 100.0 / 3.6, Rate: 2000, Bearing: 180, Weight: 0.005, Power: 500, Wait: 1,
		Seats: 12, Share: 1, Loud: true, Mode: "hourly", Label: "a: b", Small: 255, Report: []int{5}, Delays: []sim.Duration{},
		Levels: []float64{1852, 1609.344}, Pattern: sim.File{Name: "p.rle", Data: []byte("bob$")}, Entities: 1, Plain: -5}
	p.Speed = math.Round(p.Speed*1e9) / 1e9
	want.Speed = math.Round(want.Speed*1e9) / 1e9
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v\nwant %+v", p, want)
	}
}

const plainParam = "model: tower\nparams: {plain: 0}\n"

func TestSections(t *testing.T) {
	s := mustLoad(t, `
model: tower
title: A tower
seed: 18446744073709551615
end: 2 h
space: {kind: torus, size: [10 km, 20 km], periodic: [y]}
params:
  plain: 1
record:
  level: raw
  formats: [parquet, csv]
  report: false
`, nil)
	space := sim.Space{Kind: sim.Torus, Dims: 2, Bounds: sim.Box{Max: sim.Vec{X: 1e4, Y: 2e4}}, Periodic: [3]bool{false, true, false}}
	switch {
	case s.Title != "A tower", s.Seed != math.MaxUint64, s.Program.Seed != math.MaxUint64, s.Program.End != sim.Time(2*sim.Hour):
		t.Errorf("got %+v", s)
	case s.Space != space || s.Program.Space != space:
		t.Errorf("space %+v", s.Space)
	case !reflect.DeepEqual(s.Record, Record{"raw", []string{"parquet", "csv"}, false}):
		t.Errorf("record %+v", s.Record)
	}
	d := mustLoad(t, plainParam, nil)
	if d.Seed != 1 || d.Program.End != sim.Time(sim.Hour) || d.Space.Kind != sim.Plane || !reflect.DeepEqual(d.Record, Record{"statistical", []string{"csv"}, true}) {
		t.Errorf("defaults: %+v", d)
	}
}

func TestSpaces(t *testing.T) {
	for text, want := range map[string]sim.Space{
		"{kind: plane, max: [1 km, 2 km]}": {Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Max: sim.Vec{X: 1000, Y: 2000}}},
		"{kind: plane, min: [-1 km, -1 m, 0 m], max: [1 km, 2 km, 3 ft]}": {Kind: sim.Plane, Dims: 3,
			Bounds: sim.Box{Min: sim.Vec{X: -1000, Y: -1}, Max: sim.Vec{X: 1000, Y: 2000, Z: 0.9144}}},
		"{kind: torus, size: [20 km, 20 km, 30 km], min: [-1 m, 0 m, 0 m]}": {Kind: sim.Torus, Dims: 3,
			Bounds: sim.Box{Min: sim.Vec{X: -1}, Max: sim.Vec{X: 19999, Y: 20000, Z: 30000}}, Periodic: [3]bool{true, true, true}},
		"{kind: earth}": {Kind: sim.Earth, Dims: 3, Bounds: sim.Box{Min: sim.Vec{X: -180, Y: -90}, Max: sim.Vec{X: 180, Y: 90}}},
		"{kind: earth, west: 170 deg, east: -170 deg}": {Kind: sim.Earth, Dims: 3,
			Bounds: sim.Box{Min: sim.Vec{X: 170, Y: -90}, Max: sim.Vec{X: -170, Y: 90}}},
	} {
		s := mustLoad(t, plainParam+"space: "+text+"\n", nil)
		if s.Space != want {
			t.Errorf("%s: got %+v, want %+v", text, s.Space, want)
		}
	}
}

func TestSpaceProblems(t *testing.T) {
	for text, want := range map[string]string{
		"{max: [1 km, 1 km]}":                                  "s.yaml:3:9: space.kind: missing... plane, torus, earth",
		"{kind: tours}":                                        `s.yaml:3:15: space.kind: unknown kind... did you mean "torus"?`,
		"{kind: plane}":                                        "s.yaml:3:9: space.max: missing",
		"{kind: plane, max: [1, 1 km]}":                        `s.yaml:3:28: space.max[0]: "1" has no unit... "250 km"`,
		"{kind: plane, max: [1 km]}":                           "s.yaml:3:27: space.max: 1 lengths",
		"{kind: plane, max: [0 km, 1 km]}":                     "s.yaml:3:27: space.max: bounds.x... below the upper",
		"{kind: plane, max: [1 m, 1 m], min: [0 m, 0 m, 0 m]}": "s.yaml:3:44: space.min: 3 lengths, and the space has 2",
		"{kind: plane, max: [1 m, 1 m], size: [1 m, 1 m]}":     "s.yaml:3:39: space.size: unknown key",
		"{kind: torus, size: [1 km, -1 km]}":                   "s.yaml:3:28: space.size: bounds.y",
		"{kind: torus, size: [40 km, 40 km], periodic: [a]}":   `s.yaml:3:55: space.periodic[0]: "a" is not one of... x, y`,
		"{kind: torus, size: [40 km, 40 km], periodic: []}":    "s.yaml:3:54: space.periodic: a torus needs at least one",
		"{kind: earth, west: 200 deg}":                         `s.yaml:3:28: space.west: "200 deg" is out of range; expected from -180 deg to 180 deg`,
		"{kind: earth, south: 10 deg, north: 5 deg}":           "s.yaml:3:29: space.south: from 10 to 5",
		"[1]": "s.yaml:3:8: space: expected a section of keys, not a list",
	} {
		t.Run(text, func(t *testing.T) { wantProblems(t, plainParam+"space: "+text+"\n", nil, nil, want) })
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	wantProblems(t, `model: tower
seed: -1
end: 0 s
tittle: x
space: {kind: plane, max: [1 km, 5]}
params:
  radars: many
  radrs: 5
  range: 250
  speed: 5 kg
  mode: hourli
  report: 3
  small: 256
  share: .nan
  share: 1
  pattern: nothing.rle
record:
  level: [1]
  format: csv
`, nil, nil,
		`s.yaml:2:7: seed: "-1" is out of range; expected a whole number from 0 to 18446744073709551615`,
		`s.yaml:3:6: end: the run ends when it starts`,
		`s.yaml:4:1: tittle: unknown key; did you mean "title"?`,
		`s.yaml:5:34: space.max[1]: "5" has no unit`,
		`s.yaml:6:1: params.plain: missing`,
		`s.yaml:7:11: params.radars: "many" is not a number`,
		`s.yaml:8:3: params.radrs: unknown key; did you mean "radars"? allowed: airports, radars`,
		`s.yaml:9:10: params.range: "250" has no unit; expected a length such as "250 km"`,
		`s.yaml:10:10: params.speed: "5 kg" is a mass, not a speed`,
		`s.yaml:11:9: params.mode: "hourli" is not one of the allowed words; did you mean "hourly"? allowed: flat, hourly`,
		`s.yaml:12:11: params.report: expected a list, not a single value`,
		`s.yaml:13:10: params.small: "256" is out of range; expected a whole number from 0 to 255`,
		`s.yaml:14:10: params.share: ".nan" is not a number`,
		`s.yaml:15:3: params.share: the key is given twice; the first is in line 14`,
		`s.yaml:16:12: params.pattern: there is no file`,
		`s.yaml:18:10: record.level: expected a single value, not a list`,
		`s.yaml:19:3: record.format: unknown key; did you mean "formats"?`,
	)
}

func TestUnknownModel(t *testing.T) {
	wantProblems(t, "model: towr\nparams: {x: 1}\n", nil, nil, `s.yaml:1:8: model: unknown model "towr"; did you mean "tower"? allowed: tower, strict`)
	wantProblems(t, "seed: 1\n", nil, nil, "s.yaml:1:1: model: missing; allowed: tower, strict")
	wantProblems(t, "model:\n", nil, nil, "s.yaml:1:8: model: expected a single value, not nothing")
}

// TestBadInput holds the kinds of broken files that users bring.
func TestBadInput(t *testing.T) {
	deep := strings.Repeat("[", 5000)
	bomb := "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
	var wide strings.Builder
	for i := range 30000 {
		fmt.Fprintf(&wide, "k%d: 1\n", i)
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty file", "", "s.yaml:1:1: the scenario is empty"},
		{"comments alone", "# nothing\n", "s.yaml:1:1: the scenario is empty"},
		{"unknown key", plainParam + "regions: 4\n", "s.yaml:3:1: regions: unknown key"},
		{"missing unit", "model: tower\nparams: {plain: 0, lookahead: 5}\n", `s.yaml:2:31: params.lookahead: "5" has no unit; expected a duration such as "80 ms"`},
		{"negative seed", plainParam + "seed: -1\n", "s.yaml:3:7: seed: "},
		{"seed with a fraction", plainParam + "seed: 1.5\n", `s.yaml:3:7: seed: "1.5" is not a whole number`},
		{"seed too large", plainParam + "seed: 18446744073709551616\n", "s.yaml:3:7: seed: "},
		{"end before start", plainParam + "end: -1 d\n", `s.yaml:3:6: end: "-1 d" is before the start`},
		{"end at start", plainParam + "end: 0 d\n", "s.yaml:3:6: end: the run ends when it starts"},
		{"end below a tick", plainParam + "end: 0.2 ns\n", `s.yaml:3:6: end: "0.2 ns" is shorter than half a tick`},
		{"end too far", plainParam + "end: 300000 d\n", "s.yaml:3:6: end: ...292 years"},
		{"end in metres", plainParam + "end: 5 km\n", `s.yaml:3:6: end: "5 km" is a length, not a duration`},
		{"two documents", plainParam + "---\nmodel: tower\n", "s.yaml:3:1: a scenario is one YAML document"},
		{"anchor", "model: &m tower\n", "s.yaml:1:8: anchors"},
		{"alias bomb", bomb, "s.yaml:1:4: anchors"},
		{"merge key", "model: tower\nparams:\n  <<: {plain: 1}\n", "s.yaml:3:3: anchors, aliases and merge"},
		{"tag", "model: !!str tower\n", "s.yaml:1:8: YAML tags"},
		{"complex key", "? model\n: tower\n", "s.yaml:1:1: complex keys"},
		{"directive", "%YAML 1.2\n---\nmodel: tower\n", "s.yaml:1:1: YAML directives"},
		{"tab", "model: tower\nparams:\n\tplain: 1\n", "s.yaml:3:1: not valid YAML: a tab where spaces are needed"},
		{"not UTF-8", "model: tower\ntitle: caf\xe9\n", "s.yaml:2:11: byte 0xe9 is not valid UTF-8"},
		{"binary", "model: tower\x00\n", "s.yaml:1:13: control character 0x00"},
		{"a list", "- model: tower\n", "s.yaml:1:1: a scenario is a section of keys, not a list"},
		{"a word", "tower\n", "s.yaml:1:1: a scenario is a section of keys, not a single value"},
		{"open bracket", "model: [tower\n", "s.yaml:1:8: not valid YAML"},
		{"open quote", "model: 'tower\n", "s.yaml:1:8: not valid YAML"},
		{"colon in text", "title: a: b\n", "s.yaml:1:8: not valid YAML: ...quotes"},
		{"deep nesting", "params: " + deep, "s.yaml:1:41: nested more than 32 deep"},
		{"deep dashes", strings.Repeat("- ", 5000), "s.yaml:1:65: nested more than 32 deep"},
		{"far indent", "params:\n" + strings.Repeat(" ", 300) + "a: 1\n", "s.yaml:2:301: this line is indented by more than"},
		{"many keys", wide.String(), "s.yaml:1:1: the file has"},
		{"infinity", "model: tower\nparams: {plain: 0, share: .inf}\n", `s.yaml:2:27: params.share: ".inf" is not a number`},
		{"huge number", "model: tower\nparams: {plain: 0, range: 1e999999999 km}\n", `s.yaml:2:27: params.range: the number "1e999999999" is too large or too small`},
		{"beyond float64", "model: tower\nparams: {plain: 0, range: 1e308 km}\n", `s.yaml:2:27: params.range: "1e308 km" is too large`},
		{"integer overflow", "model: tower\nparams: {plain: 9223372036854775808}\n", `s.yaml:2:17: params.plain: "9223372036854775808" is out of range`},
		{"no value", "model: tower\nparams:\n  plain: 0\n  radars:\n", `s.yaml:4:3: params.radars: has no value; give one, or leave the line out for the default "3"`},
		{"section for a value", "model: tower\nparams: {plain: {a: 1}}\n", "s.yaml:2:18: params.plain: expected a single value, not a section"},
		{"list element", "model: tower\nparams: {plain: 1, report: [1, -2]}\n", `s.yaml:2:32: params.report[1]: "-2" is out of range; expected at least 0`},
		{"a folder as file", "model: tower\nparams: {plain: 1, pattern: .}\n", `s.yaml:2:29: params.pattern: ...is a folder`},
		{"range larger than half a torus", "model: tower\nparams: {plain: 1, range: 6 km}\nspace: {kind: torus, size: [10 km, 90 km]}\n", "s.yaml:3:1: space: ...half"},
		{"position out of the earth", "model: tower\nparams: {plain: 1, x: 200 m}\nspace: {kind: earth}\n", "s.yaml:3:1: space: entity 1 of kind tower: "},
		{"no entity", "model: tower\nparams: {plain: 1, entities: 0}\n", "s.yaml:1:8: model: model tower has no entity"},
		{"setup panics", "model: tower\nparams: {plain: 1, fault: panic}\n", "s.yaml:1:8: model: the model's setup failed with a panic: ...index out of range...model_test.go:"},
		{"setup breaches", "model: tower\nparams: {plain: 1, fault: breach}\n", "s.yaml:1:8: model: setup of model tower: IntN(0)"},
		{"event without handler", "model: tower\nparams: {plain: 1, fault: unhandled}\n", "s.yaml:1:8: model: event tick is declared, but no kind handles it"},
	} {
		t.Run(c.name, func(t *testing.T) { wantProblems(t, c.text, nil, nil, c.want) })
	}
}

func TestBadInputLine100MB(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.yaml")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// A sparse file: one line of 100 MB.
	if err := file.Truncate(100 << 20); err != nil {
		t.Fatal(err)
	}
	_, err = Load(path, Options{Models: testModels()})
	if err == nil || !strings.Contains(err.Error(), "larger than 1 MB") || len(err.Error()) > 1000 {
		t.Errorf("got %.300v", err)
	}
}

// TestHostileText: text as long as a scenario may be ends in few problems, in time that does not grow
// with its square.
func TestHostileText(t *testing.T) {
	for _, unit := range []string{"[", "\"", "a: ", "- a\n", "é", "a:\n  b: 1\n"} {
		for _, size := range []int{maxScenario, maxTokens / 2} {
			text := strings.Repeat(unit, size/len(unit))
			_, err := load("s.yaml", []byte(text), Options{Models: testModels()})
			if err == nil || len(err.Error()) > 100_000 {
				t.Errorf("%q: got %.300v", unit, err)
			}
		}
	}
}

func TestMissingScenario(t *testing.T) {
	dir := folder(t, map[string]string{"airspace.yaml": ""})
	_, err := Load(filepath.Join(dir, "airspce.yaml"), Options{Models: testModels()})
	if err == nil || !strings.Contains(err.Error(), `did you mean "airspace.yaml"?`) {
		t.Errorf("got %v", err)
	}
	if _, err = Load(dir, Options{}); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("got %v", err)
	}
	if _, err = Load(filepath.Join(dir, "no", "x.yaml"), Options{}); err == nil || !strings.Contains(err.Error(), "there is no folder") {
		t.Errorf("got %v", err)
	}
}

func TestSetupProblemsHavePlaces(t *testing.T) {
	wantProblems(t, "model: tower\nparams:\n  plain: 1\n  radars: 3\n  report: [1,\n    2]\n  fault: params\n", nil, nil,
		"s.yaml:2:1: params.mode: odd", // Not written: the section of the parameters.
		"s.yaml:4:11: params.radars: more radars than airports",
		"s.yaml:6:5: params.report[1]: too late")
	table := "iata,latitude,longitude\n\nAAA,1,1\n\"B\nB\",2,2\n"
	wantProblems(t, "model: tower\nparams: {plain: 1, airports: a.csv, fault: row}\n", map[string]string{"a.csv": table}, nil,
		"a.csv:4:1: params.airports: too close")
}

func TestMissingEnd(t *testing.T) {
	files := map[string]string{"rows.csv": "from,n\n"}
	wantProblems(t, "model: strict\nparams: {need: 1 m}\n", files, nil, "s.yaml:1:1: end: missing: say when")
	wantProblems(t, "model: strict\nend: 1 s\n", files, nil, "s.yaml:1:1: params.need: missing... a length such as... it means: how far")
	s := mustLoad(t, "model: strict\nend: 1 s\nparams: {need: 1 m}\n", files)
	if s.Program.End != sim.Time(sim.Second) || s.Space.Kind != sim.NoSpace {
		t.Errorf("got %+v", s.Program)
	}
}

func TestCheckRun(t *testing.T) {
	fast := mustLoad(t, plainParam, nil)
	zero := mustLoad(t, "model: tower\nparams: {plain: 1, lookahead: 0 s}\n", nil)
	for _, c := range []struct {
		s                *Scenario
		regions, workers int
		want             string
	}{
		{fast, 1, 1, ""}, {fast, 16, 2, ""}, {zero, 1, 1, ""}, {zero, 1, 8, ""},
		{fast, 0, 1, "regions 0: use a number from 1"}, {fast, -1, 1, "regions -1"}, {fast, 1 << 30, 1, "regions"},
		{fast, 1, 0, "workers 0: use a number from 1"},
		{zero, 2, 1, "model tower has lookahead 0...use 1 region, or set params.lookahead (now 0 s)"},
	} {
		err := c.s.CheckRun(c.regions, c.workers)
		if c.want == "" {
			if err != nil {
				t.Errorf("%d regions, %d workers: %v", c.regions, c.workers, err)
			}
			continue
		}
		for part := range strings.SplitSeq(c.want, "...") {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%d regions, %d workers: got %v, want %q", c.regions, c.workers, err, part)
			}
		}
	}
}

func TestFlagsOverrideTheFile(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"s.yaml": plainParam + "seed: 3\nend: 1 h\n"}), "s.yaml")
	s, err := Load(path, Options{Models: testModels(), Seed: "9", End: "5 min"})
	if err != nil || s.Seed != 9 || s.Program.End != sim.Time(5*sim.Minute) {
		t.Errorf("got %+v, %v", s, err)
	}
	_, err = Load(path, Options{Models: testModels(), Seed: "-9", End: "-5 min"})
	want := "--end: \"-5 min\" is before the start; a run starts at time 0; expected a duration such as \"1 d\"\n" +
		"--seed: \"-9\" is out of range; expected a whole number from 0 to 18446744073709551615"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestManyProblemsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("model: tower\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	_, err := loadText(t, b.String(), nil)
	var p Problems
	if !errors.As(err, &p) || len(p) != maxProblems+1 || !strings.Contains(p[maxProblems].Text, "and 801 more problems") {
		t.Errorf("got %d problems, last %v", len(p), p[len(p)-1])
	}
}

// TestHash: the hash covers what can change a result and nothing else.
func TestHash(t *testing.T) {
	files := map[string]string{"a.csv": "iata,latitude,longitude\nAAA,1,2\n", "p.rle": "x"}
	base := "model: tower\nend: 1 h\nparams: {plain: 1, airports: a.csv, pattern: p.rle, range: 250 km}\n"
	hash := func(text string, files map[string]string, set ...string) [32]byte {
		t.Helper()
		return mustLoad(t, text, files, set...).Hash
	}
	want := hash(base, files)
	same := map[string][32]byte{
		"comment, title, record": hash(base+"# c\ntitle: x\nrecord: {level: off}\n", files),
		"unit":                   hash(strings.Replace(strings.Replace(base, "250 km", "250000.0 m", 1), "1 h", "60 min", 1), files),
		"default written out":    hash(base+"seed: 1\n", files, "params.radars=3"),
		"column order":           hash(base, map[string]string{"a.csv": "latitude,x,longitude,iata\r\n1.0,9,2,AAA\r\n", "p.rle": "x"}),
	}
	for name, h := range same {
		if h != want {
			t.Errorf("%s changes the hash", name)
		}
	}
	seen := map[[32]byte]string{want: "base"}
	for name, h := range map[string][32]byte{
		"seed":    hash(base+"seed: 2\n", files),
		"end":     hash(strings.Replace(base, "1 h", "2 h", 1), files),
		"param":   hash(base, files, "params.radars=4"),
		"list":    hash(base, files, "params.report=[1]"),
		"list 2":  hash(base, files, "params.report=[1, 10, 0]"),
		"space":   hash(base+"space: {kind: plane, max: [1 km, 1 km]}\n", files),
		"cell":    hash(base, map[string]string{"a.csv": "iata,latitude,longitude\nAAA,1,2.5\n", "p.rle": "x"}),
		"row":     hash(base, map[string]string{"a.csv": "iata,latitude,longitude\nAAA,1,2\nB,1,2\n", "p.rle": "x"}),
		"content": hash(base, map[string]string{"a.csv": files["a.csv"], "p.rle": "y"}),
	} {
		if other, is := seen[h]; is {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[h] = name
	}
}

func TestSettings(t *testing.T) {
	s := mustLoad(t, "model: tower\nparams: {plain: 1, delays: [1 s, 5 s]}\n", nil, "params.radars=5")
	got := map[string]Setting{}
	for _, x := range s.Settings {
		got[x.Name] = x
	}
	if got["delays"] != (Setting{"delays", "[1 s, 5 s]", true}) || got["radars"] != (Setting{"radars", "5", true}) || got["speed"] != (Setting{"speed", "450 kt", false}) {
		t.Errorf("got %+v", s.Settings)
	}
	if len(s.Settings) != reflect.TypeFor[towerParams]().NumField() || s.Settings[0].Name != "airports" {
		t.Errorf("got %d settings, first %s", len(s.Settings), s.Settings[0].Name)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"radars", "range", "report", "seed"}
	for word, want := range map[string]string{"radrs": "radars", "Radars": "radars", "rnage": "range", "sede": "seed", "zzz": "", "": "", strings.Repeat("r", 1000): ""} {
		if got := nearest(word, words); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
}

func TestFaultyModels(t *testing.T) {
	type noTag struct{ A map[string]int }
	type twice struct {
		A int `param:"x"`
		B int `param:"x"`
	}
	type badLimit struct {
		A float64 `min:"5 kg" unit:"m" default:"1 m"`
	}
	type badList struct {
		A []int `default:"5"`
	}
	type badDefault struct {
		A float64 `unit:"m" default:"5"`
	}
	type badWord struct {
		A string `enum:"a,b" default:"c"`
	}
	type badElement struct {
		A []int `default:"[1, x]"`
	}
	type badColumn struct {
		A []struct {
			B int `col:"b" default:"x"`
		} `table:"yes" default:""`
	}
	for want, m := range map[string]sim.Model{
		"make it with sim.Define":     {Name: "m"},
		"parameter A: type map":       sim.Define(sim.Model{Name: "m"}, func(*sim.Builder, *noTag) error { return nil }),
		"two parameters are called x": sim.Define(sim.Model{Name: "m"}, func(*sim.Builder, *twice) error { return nil }),
		"tag min: \"5 kg\" is a mass": sim.Define(sim.Model{Name: "m"}, func(*sim.Builder, *badLimit) error { return nil }),
		"parameter a: default \"5\": it is not a list such as [1, 2]; this is a fault of the model's code":               sim.Define(sim.Model{Name: "m"}, func(*sim.Builder, *badList) error { return nil }),
		"s.yaml:1:8: model: model m: parameter a: default \"5\": \"5\" has no unit; this is a fault of the model's code": sim.Define(sim.Model{Name: "m"}, func(*sim.Builder, *badDefault) error { return nil }),
		"parameter a: default \"c\": \"c\" is not one of the allowed words; this is a fault of the model's code":         sim.Define(sim.Model{Name: "m"}, func(*sim.Builder, *badWord) error { return nil }),
		"parameter a: default \"[1, x]\": \"x\" is not a number; this":                                                   sim.Define(sim.Model{Name: "m"}, func(*sim.Builder, *badElement) error { return nil }),
		"parameter a: column b: default \"x\": \"x\" is not a number; this":                                              sim.Define(sim.Model{Name: "m"}, func(*sim.Builder, *badColumn) error { return nil }),
		"s.yaml:1:8: model: model m: event e: payload string must have a fixed size: no strings, slices or hooks; this is a fault of the model's code": sim.Define(sim.Model{Name: "m"}, func(b *sim.Builder, _ *struct{}) error {
			sim.DefineEvent[string](b, "e", sim.Planned)
			return nil
		}),
		"parameters must be a struct":  sim.Define(sim.Model{Name: "m"}, func(*sim.Builder, *int) error { return nil }),
		"setup failed with a panic: b": sim.Define(sim.Model{Name: "m"}, func(*sim.Builder, *struct{}) error { panic("b") }),
	} {
		path := filepath.Join(folder(t, map[string]string{"s.yaml": "model: m\n"}), "s.yaml")
		_, err := Load(path, Options{Models: []sim.Model{m}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestProgramProblems: what setup declares is checked too, and all of it at once.
func TestProgramProblems(t *testing.T) {
	m := sim.Define(sim.Model{Name: "odd"}, func(b *sim.Builder, p *struct {
		Space bool `default:"true"`
	}) error {
		b.SetEnd(0)
		b.SetLimits(sim.Limits{Range: 5})
		if p.Space {
			b.SetSpace(sim.Space{Kind: sim.Earth, Dims: 3, Bounds: sim.Box{Min: sim.Vec{X: -180, Y: -90}, Max: sim.Vec{X: 180, Y: 90}}})
		}
		tick := sim.DefineEvent[sim.None](b, "tick", sim.Planned)
		handler, idle := sim.DefineKind[towerState](b, "handler", ""), sim.DefineKind[towerState](b, "idle", "")
		sim.Handle(handler, tick, func(*sim.Context, *towerState, sim.None) {})
		for range 9 {
			tick.Init(b, sim.Add(idle, sim.Vec{Y: 95}, towerState{}), 0, sim.None{})
		}
		return nil
	})
	path := filepath.Join(folder(t, map[string]string{"s.yaml": "model: odd\n"}), "s.yaml")
	check := func(set []string, want ...string) {
		t.Helper()
		_, err := Load(path, Options{Models: []sim.Model{m}, Set: set})
		var p Problems
		if !errors.As(err, &p) || len(p) != len(want) {
			t.Fatalf("got %v", err)
		}
		for i, w := range want {
			if !strings.Contains(p[i].String(), w) {
				t.Errorf("problem %d: got %v, want %s", i, p[i], w)
			}
		}
	}
	check([]string{"params.space=false"}, "end: the run ends at 0s, not after its start",
		"entity 1 of kind idle begins with event tick, which its kind does not handle", "space: model odd looks around within 5 m but has no space")
	check(nil, "end: ", "space: entity 1 of kind idle: latitude", "entity 2", "entity 3", "entity 4", "entity 5",
		"and 4 more entities with wrong positions", "begins with event tick")
	check([]string{"space.kind=earth", "space.east=-180 deg"}, "--set space.west: from -180 to -180: the ends must differ")
}

func TestRepeatedFormatsAreRefused(t *testing.T) {
	wantProblems(t, "model: tower\nparams: {plain: 1}\nrecord:\n  formats: [csv, csv, parquet]\n", nil, nil,
		"s.yaml:4:18: record.formats[1]: csv is given twice; keep one")
}
