package scenario

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compiled returns the schema of the test models, checked against the meta-schema.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := Schema(testModels())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("scenario.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON turns YAML into what a JSON Schema validator takes.
func asJSON(t *testing.T, text string) any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSchemaAgreesWithLoad: what the schema allows and refuses is what Load does.
func TestSchemaAgreesWithLoad(t *testing.T) {
	schema := compiled(t)
	files := map[string]string{"rows.csv": "from,n\n", "p.rle": "x"}
	for text, ok := range map[string]bool{
		plainParam:                                  true,
		"model: strict\nend: 1 d\n":                 false,
		"model: strict\nend: 1 d\nparams:\n":        false,
		"model: strict\nend: 1 d\nparams: {}\n":     false,
		"model: tower\n":                            false,
		"model: towr\n":                             false,
		"seed: 1\n":                                 false,
		plainParam + "seed: -1\n":                   false,
		plainParam + "seed: 18446744073709551615\n": true,
		plainParam + "seed: 1.5\n":                  false,
		plainParam + "end: 5\n":                     false,
		plainParam + "end: 5 km\n":                  false,
		plainParam + "end: 1h30m 5 s\n":             true,
		plainParam + "endd: 5 s\n":                  false,
		plainParam + "title: x\n":                   true,
		plainParam + "space: {kind: earth, west: -125 deg, east: -66 deg, south: 24deg, north: 50 deg}\n": true,
		plainParam + "space: {kind: earth, west: -125}\n":                                                 false,
		plainParam + "space: {kind: earth, max: [1 km, 1 km]}\n":                                          false,
		plainParam + "space: {kind: torus, size: [100 km, 100 km], periodic: [x, y]}\n":                   true,
		plainParam + "space: {kind: torus, size: [100 km, 100 km], periodic: [x, w]}\n":                   false,
		plainParam + "space: {kind: torus, size: [100 km]}\n":                                             false,
		plainParam + "space: {kind: plane, min: [0 m, 0 m], max: [1 km, 1 NM]}\n":                         true,
		plainParam + "space: {kind: plane, min: [0 m, 0 m]}\n":                                            false,
		plainParam + "space: {kind: cube}\n":                                                              false,
		plainParam + "space:\n":                                                                           true,
		plainParam + "record: {level: raw, formats: [csv, parquet], report: false}\n":                     true,
		plainParam + "record: {level: row}\n":                                                             false,
		plainParam + "record: {formats: csv}\n":                                                           false,
		plainParam + "record: {formats: []}\n":                                                            false,
		plainParam + "record:\n":                                                                          true,
		"model: tower\nparams: {plain: 1, radars: 5}\n":                                                   true,
		"model: tower\nparams: {plain: 1, radars: 500}\n":                                                 false,
		"model: tower\nparams: {plain: 1, radrs: 5}\n":                                                    false,
		"model: tower\nparams: {plain: 1, radars: many}\n":                                                false,
		"model: tower\nparams: {plain: 1.5}\n":                                                            false,
		"model: tower\nparams: {plain: 1, range: 5}\n":                                                    false,
		"model: tower\nparams: {plain: 1, range: 5 kg}\n":                                                 false,
		"model: tower\nparams: {plain: 1, range: 5e3 NM}\n":                                               true,
		"model: tower\nparams: {plain: 1, rate: 5 1/h, seats: 3 seats, bearing: 5°, power: .5 kW}\n":      true,
		"model: tower\nparams: {plain: 1, seats: 3}\n":                                                    false,
		"model: tower\nparams: {plain: 1, wait: 5 min, lookahead: 80ms}\n":                                true,
		"model: tower\nparams: {plain: 1, lookahead: 80}\n":                                               false,
		"model: tower\nparams: {plain: 1, share: 0.25}\n":                                                 true,
		"model: tower\nparams: {plain: 1, share: 1.25}\n":                                                 false,
		"model: tower\nparams: {plain: 1, mode: hourly}\n":                                                true,
		"model: tower\nparams: {plain: 1, mode: daily}\n":                                                 false,
		"model: tower\nparams: {plain: 1, loud: true}\n":                                                  true,
		"model: tower\nparams: {plain: 1, loud: loud}\n":                                                  false,
		"model: tower\nparams: {plain: 1, report: [1, 2], delays: [1 s], levels: [1 ft]}\n":               true,
		"model: tower\nparams: {plain: 1, report: [1, -2]}\n":                                             false,
		"model: tower\nparams: {plain: 1, delays: [1]}\n":                                                 false,
		"model: tower\nparams: {plain: 1, pattern: p.rle}\n":                                              true,
		"model: tower\nparams: {plain: 1, small: 256}\n":                                                  false,
		"model: tower\nparams: {plain: 1, small: -1}\n":                                                   false,
		"- model: tower\n": false,
	} {
		_, loadErr := loadText(t, text, files)
		schemaErr := schema.Validate(asJSON(t, text))
		if (loadErr == nil) != ok {
			t.Errorf("Load of %q: %v", text, loadErr)
		}
		if (schemaErr == nil) != ok {
			t.Errorf("schema of %q: %v", text, schemaErr)
		}
	}
}

func TestSchemaIsStableAndDescribed(t *testing.T) {
	a, err := Schema(testModels())
	b, _ := Schema(testModels())
	if err != nil || !bytes.Equal(a, b) {
		t.Fatal("two schemas", err)
	}
	var s struct {
		Defs map[string]struct {
			Properties map[string]struct {
				Default     any
				Description string
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(a, &s); err != nil {
		t.Fatal(err)
	}
	p := s.Defs["params-tower"].Properties
	for name, want := range map[string]any{"radars": 3.0, "range": "5 km", "loud": false, "mode": "flat", "report": []any{1.0, 10.0},
		"delays": []any{"1 s", "2 min"}, "share": 0.5, "plain": nil} {
		if !reflect.DeepEqual(p[name].Default, want) {
			t.Errorf("default of %s: got %v, want %v", name, p[name].Default, want)
		}
	}
	if d := p["radars"].Description; d != "how many. Allowed: from 0 to 100." {
		t.Errorf("description %q", d)
	}
	if d := p["airports"].Description; !strings.Contains(d, "iata, latitude (deg), longitude (deg), size, note") {
		t.Errorf("description %q", d)
	}
}

// TestDefaultsAreValid: the defaults that the schema names are valid by it.
func TestDefaultsAreValid(t *testing.T) {
	fields, err := paramFields(towerModel())
	if err != nil {
		t.Fatal(err)
	}
	params := map[string]any{}
	for _, f := range fields {
		if f.hasFallback {
			params[f.name] = f.defaultValue()
		}
	}
	params["plain"] = 1
	data, err := json.Marshal(map[string]any{"model": "tower", "params": params})
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled(t).Validate(v); err != nil {
		t.Error(err)
	}
}

func TestDescribe(t *testing.T) {
	docs, err := Describe(towerModel())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]ParamDoc{}
	for _, d := range docs {
		byName[d.Name] = d
	}
	want := ParamDoc{Name: "range", Type: "length", Unit: "m", Units: unitNames(length), Default: "5 km", Allowed: "at least 0 m"}
	if got := byName["range"]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	columns := byName["airports"].Columns
	if len(columns) != 5 || !columns[0].Unique || !columns[0].Required || columns[4].Required || columns[3].Default != "1" ||
		columns[2].Allowed != "from -180 deg to 180 deg" {
		t.Errorf("columns %+v", columns)
	}
	for name, typ := range map[string]string{"airports": "table (CSV file)", "radars": "whole number", "lookahead": "duration", "rate": "frequency",
		"loud": "true or false", "mode": "text", "report": "list of whole numbers", "delays": "list of durations", "levels": "list of lengths",
		"pattern": "file", "share": "number", "wait": "duration", "seats": "number"} {
		if byName[name].Type != typ {
			t.Errorf("%s: type %q, want %q", name, byName[name].Type, typ)
		}
	}
	if byName["mode"].Allowed != "flat, hourly" || !byName["plain"].Required {
		t.Errorf("mode %+v, plain %+v", byName["mode"], byName["plain"])
	}
}
