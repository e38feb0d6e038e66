package scenario

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/simnode/simnode/sim"
)

// object is a JSON object; encoding/json writes its keys in order.
type object = map[string]any

// Schema returns the JSON Schema (draft 2020-12) of scenario files that use the given models, for
// editors. What Load accepts is valid by it, but for quoted numbers; ranges across units, files and the
// models' own checks are beyond it.
func Schema(models []sim.Model) ([]byte, error) {
	definitions := object{}
	var names []string
	var rules []any
	for _, m := range models {
		fields, err := paramFields(m)
		if err != nil {
			return nil, err
		}
		definitions["params-"+m.Name] = paramsSchema(m, fields)
		names = append(names, m.Name)
		rules = append(rules, modelRule(m, fields))
	}
	schema := object{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "simnode scenario",
		"type":                 "object",
		"required":             []string{"model"},
		"additionalProperties": false,
		"properties": object{
			"model":  object{"enum": names, "description": "The model to run."},
			"title":  object{"type": scalarTypes(), "description": "A title for reports."},
			"seed":   object{"type": "integer", "minimum": 0, "maximum": uint64(math.MaxUint64), "default": 1, "description": "The seed of all random numbers."},
			"end":    withDoc(durationSchema(), "When the run ends, as a duration since its start, such as \"1 d\". May be left out if the model sets an end."),
			"space":  spaceSchema(),
			"params": object{"type": []string{"object", "null"}, "description": "The model's own parameters."},
			"record": recordSchema(),
		},
		"$defs": definitions,
	}
	if len(rules) > 0 {
		schema["allOf"] = rules
	}
	data, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(data, '\n'), nil
}

// modelRule ties params to the model that the file names.
func modelRule(m sim.Model, fields []*field) object {
	then := object{"properties": object{"params": object{"$ref": "#/$defs/params-" + m.Name}}}
	for _, f := range fields {
		if !f.hasFallback {
			then["required"] = []string{"params"}
		}
	}
	return object{
		"if":   object{"properties": object{"model": object{"const": m.Name}}, "required": []string{"model"}},
		"then": then,
	}
}

func paramsSchema(m sim.Model, fields []*field) object {
	properties := object{}
	var required []string
	for _, f := range fields {
		properties[f.name] = f.schema()
		if !f.hasFallback {
			required = append(required, f.name)
		}
	}
	s := object{"type": "object", "description": m.Summary, "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	} else {
		s["type"] = []string{"object", "null"}
	}
	return s
}

func scalarTypes() []string { return []string{"string", "number", "boolean"} }

func withDoc(s object, doc string) object {
	if doc != "" {
		s["description"] = doc
	}
	return s
}

// schema returns the schema of a parameter.
func (f *field) schema() object {
	s := f.typeSchema()
	doc := f.doc
	if f.kind == tableField {
		doc = sentence(doc, "A CSV file named relative to the scenario, with the columns "+f.columnList()+".")
	}
	if allowed := f.allowedText(); allowed != "" && len(f.enum) == 0 {
		doc = sentence(doc, "Allowed: "+allowed+".")
	}
	withDoc(s, doc)
	if f.hasFallback {
		s["default"] = f.defaultValue()
	}
	return s
}

// sentence appends a sentence to a text that may not end like one.
func sentence(doc, more string) string {
	if doc == "" {
		return more
	}
	return strings.TrimSuffix(doc, ".") + ". " + more
}

func (f *field) columnList() string {
	names := make([]string, len(f.columns))
	for i, c := range f.columns {
		names[i] = c.name
		if c.measure.name != "" {
			names[i] += " (" + c.measure.name + ")"
		}
	}
	return strings.Join(names, ", ")
}

// defaultValue returns the default as the JSON value that the file would hold.
func (f *field) defaultValue() any {
	switch f.kind {
	case boolField:
		v, fault := f.parseBool(f.fallback)
		return fault == nil && v.Bool()
	case intField, uintField, floatField:
		if f.measure.name == "" && json.Valid([]byte(f.fallback)) {
			return json.Number(f.fallback)
		}
	case listField:
		return f.defaultItems()
	}
	return f.fallback
}

func (f *field) defaultItems() []any {
	items := []any{}
	var r report
	n := parseYAML("", []byte(f.fallback), &r)
	if n == nil {
		return items
	}
	for _, i := range n.items {
		e := *f.elem
		e.fallback = i.text
		items = append(items, e.defaultValue())
	}
	return items
}

func (f *field) typeSchema() object {
	switch f.kind {
	case boolField:
		return object{"type": "boolean"}
	case textField:
		if len(f.enum) > 0 {
			return object{"enum": f.enum}
		}
		return object{"type": scalarTypes()}
	case durationField:
		return durationSchema()
	case intField, uintField, floatField:
		return f.numberSchema()
	case listField:
		return object{"type": "array", "items": f.elem.typeSchema()}
	}
	return object{"type": "string"}
}

// numberSchema allows numbers, or text with a unit if the field has one. YAML 1.2 reads 1e6 as a
// number and some editors read it as text, so plain numbers may be both.
func (f *field) numberSchema() object {
	if f.measure.dimension == duration {
		return durationSchema()
	}
	if f.measure.name != "" {
		units := []string{f.measure.name}
		if !f.measure.own() {
			units = unitNames(f.measure.dimension)
		}
		return object{"type": "string", "pattern": `^\s*` + numberPattern() + `\s*(` + alternatives(units) + `)\s*$`,
			"examples": []string{f.measure.example()}}
	}
	s := object{"type": "number"}
	if f.kind != floatField {
		s["type"] = "integer"
		low, high := f.intBounds()
		s["minimum"], s["maximum"] = json.Number(low.String()), json.Number(high.String())
	}
	if f.min != nil {
		s["minimum"] = f.min.value
	}
	if f.max != nil {
		s["maximum"] = f.max.value
	}
	if f.above != nil {
		s["exclusiveMinimum"] = f.above.value
	}
	return s
}

// example shows a value in the unit.
func (m measure) example() string {
	if m.own() {
		return "5 " + m.name
	}
	return m.dimension.example()
}

func numberPattern() string { return `[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?` }

func alternatives(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = regexp.QuoteMeta(w)
	}
	return strings.Join(quoted, "|")
}

// durationSchema allows what sim.ParseDuration reads: one or more numbers, each with a unit.
func durationSchema() object {
	units := `ns|us|µs|μs|ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?`
	one := `([0-9]+(\.[0-9]*)?|\.[0-9]+) *(` + units + `)`
	return object{"type": "string", "pattern": `^\s*` + one + `( *` + one + `)*\s*$`, "examples": []string{"80 ms", "1h30m", "1 d"}}
}

func lengthSchema() object { return lengthField().typeSchema() }

func lengthsSchema(doc string) object {
	return object{"type": "array", "items": lengthSchema(), "minItems": 2, "maxItems": 3, "description": doc}
}

func spaceSchema() object {
	angle := func(doc string) object {
		f := field{kind: floatField, measure: newMeasure("deg")}
		return withDoc(f.typeSchema(), doc)
	}
	kind := func(name string) object { return object{"const": name} }
	plane := object{"kind": kind("plane"), "min": lengthsSchema("The lower corner; default 0."),
		"max": lengthsSchema("The upper corner. The bounds guide the first cut into regions.")}
	torus := object{"kind": kind("torus"), "min": lengthsSchema("The lower corner; default 0."), "size": lengthsSchema("The length of each axis."),
		"periodic": object{"type": "array", "items": object{"enum": []string{"x", "y", "z"}}, "minItems": 1, "description": "The axes that wrap around; default all."}}
	earth := object{"kind": kind("earth"), "west": angle("Default -180 deg."), "east": angle("Default 180 deg."),
		"south": angle("Default -90 deg."), "north": angle("Default 90 deg.")}
	section := func(properties object, required ...string) object {
		return object{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
	}
	return object{
		"description": "The space of the run. May be left out if the model sets one.",
		"oneOf": []any{
			section(plane, "kind", "max"), section(torus, "kind", "size"), section(earth, "kind"),
			object{"type": "null"},
		},
	}
}

func recordSchema() object {
	return object{
		"type": []string{"object", "null"}, "additionalProperties": false,
		"description": "What of the run is kept.",
		"properties": object{
			"level": object{"enum": recordLevels(), "default": "statistical",
				"description": "off: nothing; summary: the summary; statistical: also statistics and tables; raw: also every event."},
			"formats": object{"type": "array", "items": object{"enum": recordFormats()}, "minItems": 1, "uniqueItems": true, "default": []string{"csv"}, "description": "Formats of the files."},
			"report":  object{"type": "boolean", "default": true, "description": "Write report.html."},
		},
	}
}
