package scenario

import (
	"strings"

	"github.com/simnode/simnode/sim"
)

// ParamDoc describes a parameter, or a column of a table, for people.
type ParamDoc struct {
	Name string
	// Type in words: "length", "whole number", "table (CSV file)".
	Type string
	// Unit that a plain number in a cell has, and that the model holds; empty for plain numbers.
	Unit string
	// Units are those that a value may name.
	Units []string
	// Default in scenario text; Required tells that there is none.
	Default  string
	Required bool
	// Allowed says which values: a range or the allowed words; empty if any.
	Allowed string
	// Unique tells a column without duplicates.
	Unique bool
	Doc    string
	// Columns of a table.
	Columns []ParamDoc
}

// Describe lists the parameters of a model in the order of their declaration. The error is a fault
// of the model's program.
func Describe(m sim.Model) ([]ParamDoc, error) {
	fields, err := paramFields(m)
	if err != nil {
		return nil, err
	}
	docs := make([]ParamDoc, len(fields))
	for i, f := range fields {
		docs[i] = f.describe()
	}
	return docs, nil
}

func (f *field) describe() ParamDoc {
	d := ParamDoc{Name: f.name, Type: f.typeText(), Unit: f.measure.name, Default: f.fallback,
		Required: !f.hasFallback && !f.optional, Allowed: f.allowedText(), Unique: f.key, Doc: f.doc}
	if f.measure.dimension != plain {
		d.Units = unitNames(f.measure.dimension)
	}
	for _, c := range f.columns {
		d.Columns = append(d.Columns, c.describe())
	}
	return d
}

// allowedText says which values are allowed.
func (f *field) allowedText() string {
	if f.elem != nil {
		f = f.elem
	}
	if len(f.enum) > 0 {
		return strings.Join(f.enum, ", ")
	}
	return f.rangeText()
}
