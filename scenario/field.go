package scenario

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/simnode/simnode/sim"
)

type fieldKind uint8

const (
	boolField fieldKind = iota
	textField
	intField
	uintField
	floatField
	durationField
	fileField
	tableField
	listField
)

// field is a parameter or a column of a table, as the tags of sim.Define declare it.
type field struct {
	name, doc string
	kind      fieldKind
	typ       reflect.Type
	// index is the number of the struct field.
	index   int
	measure measure
	// fallback is the default in scenario text.
	fallback    string
	hasFallback bool
	// min, max and above are limits in scenario text, or nil.
	min, max, above *limit
	enum            []string
	// key and optional are of columns.
	key, optional bool
	// elem describes the elements of a list.
	elem *field
	// columns of a table.
	columns []*field
}

// limit is a bound of the allowed range.
type limit struct {
	text  string
	value float64
}

// paramFields reads the parameters that a model declares.
func paramFields(m sim.Model) (fields []*field, err error) {
	defer func() {
		// NewParams of a model that did not come from sim.Define has nothing to call.
		if recover() != nil {
			err = fmt.Errorf("model %s: make it with sim.Define", m.Name)
		}
	}()
	t := reflect.TypeOf(m.NewParams()).Elem()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("model %s: parameters must be a struct, not %v", m.Name, t)
	}
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		f, err := newField(sf, "param")
		if err != nil {
			return nil, fmt.Errorf("model %s: parameter %s: %w", m.Name, sf.Name, err)
		}
		if err := f.checkDefault(); err != nil {
			return nil, fmt.Errorf("model %s: parameter %s: %w", m.Name, f.name, err)
		}
		for _, other := range fields {
			if other.name == f.name {
				return nil, fmt.Errorf("model %s: two parameters are called %s", m.Name, f.name)
			}
		}
		f.index = i
		fields = append(fields, f)
	}
	return fields, nil
}

// newField reads the tags of one struct field; nameTag is "param" or "col".
func newField(sf reflect.StructField, nameTag string) (*field, error) {
	f := &field{name: sf.Tag.Get(nameTag), doc: sf.Tag.Get("doc"), typ: sf.Type, measure: newMeasure(sf.Tag.Get("unit"))}
	if f.name == "" {
		f.name = strings.ToLower(sf.Name)
	}
	f.fallback, f.hasFallback = sf.Tag.Lookup("default")
	f.key = sf.Tag.Get("key") == "yes"
	f.optional = sf.Tag.Get("optional") == "yes" || f.hasFallback
	if e := sf.Tag.Get("enum"); e != "" {
		for word := range strings.SplitSeq(e, ",") {
			f.enum = append(f.enum, strings.TrimSpace(word))
		}
	}
	if err := f.setKind(sf); err != nil {
		return nil, err
	}
	return f, f.setLimits(sf.Tag)
}

func (f *field) setKind(sf reflect.StructField) error {
	t := sf.Type
	if t == reflect.TypeFor[sim.File]() {
		f.kind = fileField
		return nil
	}
	if t.Kind() != reflect.Slice {
		return f.setScalarKind(t)
	}
	if sf.Tag.Get("table") == "yes" {
		f.kind = tableField
		return f.setColumns(t.Elem())
	}
	elem := *f
	elem.typ = t.Elem()
	if err := elem.setScalarKind(t.Elem()); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	f.kind, f.elem = listField, &elem
	return nil
}

func (f *field) setScalarKind(t reflect.Type) error {
	switch {
	case t == reflect.TypeFor[sim.Duration]():
		f.kind = durationField
		if f.measure.name == "" {
			f.measure = newMeasure("s")
		}
		if f.measure.dimension != duration {
			return fmt.Errorf("unit %q of a sim.Duration: use a unit of time or none", f.measure.name)
		}
	case t.Kind() == reflect.Bool:
		f.kind = boolField
	case t.Kind() == reflect.String:
		f.kind = textField
	case t.Kind() == reflect.Float64:
		f.kind = floatField
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64:
		f.kind = intField
	case t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64:
		f.kind = uintField
	default:
		return fmt.Errorf("type %v: use bool, string, integers, float64, sim.Duration, sim.File, slices of these or a table", t)
	}
	return nil
}

func (f *field) setColumns(row reflect.Type) error {
	if row.Kind() != reflect.Struct {
		return fmt.Errorf("rows of a table are structs, not %v", row)
	}
	for i := range row.NumField() {
		sf := row.Field(i)
		if !sf.IsExported() || sf.Tag.Get("col") == "" {
			continue
		}
		c, err := newField(sf, "col")
		if err != nil {
			return fmt.Errorf("column %s: %w", sf.Name, err)
		}
		if c.kind > durationField {
			return fmt.Errorf("column %s: type %v does not fit a cell", c.name, c.typ)
		}
		c.index = i
		f.columns = append(f.columns, c)
	}
	if len(f.columns) == 0 {
		return fmt.Errorf("row type %v has no field with a col tag", row)
	}
	return nil
}

// checkDefault tries the default; that of a file is relative to the scenario and is tried there.
func (f *field) checkDefault() error {
	switch {
	case f.kind == tableField:
		for _, c := range f.columns {
			if c.fallback == "" {
				continue // The zero value.
			}
			if _, fault := c.parse(c.fallback, true); fault != nil {
				return fmt.Errorf("column %s: default %s: %s", c.name, quote(c.fallback), fault.text)
			}
		}
	case !f.hasFallback, f.kind == fileField:
	case f.kind == listField:
		return f.checkDefaultList()
	default:
		if _, fault := f.parse(f.fallback, false); fault != nil {
			return fmt.Errorf("default %s: %s", quote(f.fallback), fault.text)
		}
	}
	return nil
}

func (f *field) checkDefaultList() error {
	if f.fallback == "" {
		return nil // An empty list.
	}
	list := f.defaultList()
	if list == nil {
		return fmt.Errorf("default %s: it is not a list such as [1, 2]", quote(f.fallback))
	}
	for _, item := range list.items {
		if item.kind != scalarNode {
			return fmt.Errorf("default %s: its elements must be single values", quote(f.fallback))
		}
		if _, fault := f.elem.parse(item.text, false); fault != nil {
			return fmt.Errorf("default %s: %s", quote(f.fallback), fault.text)
		}
	}
	return nil
}

// defaultList parses the default of a list; nil if it is none.
func (f *field) defaultList() *node {
	var r report
	if n := parseYAML("", []byte(f.fallback), &r); n != nil && n.kind == listNode {
		return n
	}
	return nil
}

func (f *field) setLimits(tag reflect.StructTag) error {
	of := f
	if f.elem != nil {
		of = f.elem
	}
	var err error
	if of.min, err = f.limit(tag, "min"); err != nil {
		return err
	}
	if of.max, err = f.limit(tag, "max"); err != nil {
		return err
	}
	of.above, err = f.limit(tag, "above")
	return err
}

func (f *field) limit(tag reflect.StructTag, name string) (*limit, error) {
	text, ok := tag.Lookup(name)
	if !ok {
		return nil, nil
	}
	exact, fault := f.measure.parse(text, true)
	if fault != nil {
		return nil, fmt.Errorf("tag %s: %s", name, fault.text)
	}
	value, _ := exact.Float64()
	return &limit{text, value}, nil
}

// parse reads one scalar value; bare allows a number without its unit, as in the cells of a table.
func (f *field) parse(text string, bare bool) (reflect.Value, *fault) {
	switch f.kind {
	case boolField:
		return f.parseBool(text)
	case textField:
		return f.parseText(text)
	case floatField:
		return f.parseFloat(text, bare)
	case durationField:
		return f.parseDuration(text, bare)
	}
	return f.parseInt(text, bare)
}

func (f *field) parseBool(text string) (v reflect.Value, _ *fault) {
	switch text {
	case "true", "True", "TRUE", "yes", "on", "1":
		return reflect.ValueOf(true).Convert(f.typ), nil
	case "false", "False", "FALSE", "no", "off", "0":
		return reflect.ValueOf(false).Convert(f.typ), nil
	}
	return v, faultf("expected true or false", "%s is not true or false", quote(text))
}

func (f *field) parseText(text string) (v reflect.Value, _ *fault) {
	if len(f.enum) == 0 {
		return reflect.ValueOf(text).Convert(f.typ), nil
	}
	for _, e := range f.enum {
		if e == text {
			return reflect.ValueOf(text).Convert(f.typ), nil
		}
	}
	return v, faultf(choose(text, "values", f.enum), "%s is not one of the allowed words", quote(text))
}

func (f *field) parseFloat(text string, bare bool) (v reflect.Value, _ *fault) {
	x, err := 0.0, error(nil)
	number, rest := cutNumber(text)
	if bare && number != "" && rest == "" && len(number) <= maxNumberText {
		// The common cell of a large table: rounded to nearest just as an exact fraction would be.
		x, err = strconv.ParseFloat(number, 64)
		if err != nil {
			return v, faultf("", "%s is too large", quote(text))
		}
	} else {
		r, fault := f.measure.parse(text, bare)
		if fault != nil {
			return v, fault
		}
		if x, fault = toFloat(r, text); fault != nil {
			return v, fault
		}
	}
	if fault := f.inRange(x, text); fault != nil {
		return v, fault
	}
	return reflect.ValueOf(x).Convert(f.typ), nil
}

func (f *field) parseInt(text string, bare bool) (v reflect.Value, _ *fault) {
	r, fault := f.measure.parse(text, bare)
	if fault != nil {
		return v, fault
	}
	if !r.IsInt() {
		return v, faultf("expected a whole number", "%s is not a whole number", quote(text))
	}
	low, high := f.intBounds()
	n := r.Num()
	if n.Cmp(low) < 0 || n.Cmp(high) > 0 {
		return v, faultf(fmt.Sprintf("expected a whole number from %v to %v", low, high), "%s is out of range", quote(text))
	}
	x, _ := r.Float64()
	if fault := f.inRange(x, text); fault != nil {
		return v, fault
	}
	v = reflect.New(f.typ).Elem()
	if f.kind == uintField {
		v.SetUint(n.Uint64())
	} else {
		v.SetInt(n.Int64())
	}
	return v, nil
}

// intBounds returns the smallest and largest value that the Go type holds.
func (f *field) intBounds() (low, high *big.Int) {
	bits := uint(f.typ.Bits())
	one := big.NewInt(1)
	if f.kind == uintField {
		return new(big.Int), new(big.Int).Sub(new(big.Int).Lsh(one, bits), one)
	}
	high = new(big.Int).Lsh(one, bits-1)
	return new(big.Int).Neg(high), new(big.Int).Sub(high, one)
}

func (f *field) parseDuration(text string, bare bool) (v reflect.Value, _ *fault) {
	r, fault := f.measure.parse(text, bare)
	if fault != nil {
		return v, fault
	}
	x, _ := r.Float64()
	if fault := f.inRange(x, text); fault != nil {
		return v, fault
	}
	ticks := new(big.Rat).Mul(r, f.measure.ratio)
	ticks.Mul(ticks, new(big.Rat).SetInt64(int64(sim.Second)))
	d, fault := roundTicks(ticks, text)
	return reflect.ValueOf(d), fault
}

// roundTicks rounds to the nearest tick, ties away from zero.
func roundTicks(r *big.Rat, text string) (sim.Duration, *fault) {
	if r.Sign() < 0 {
		return 0, faultf("durations are 0 or more", "%s is negative", quote(text))
	}
	n := new(big.Int).Mul(r.Num(), big.NewInt(2))
	n.Add(n, r.Denom()).Quo(n, new(big.Int).Mul(r.Denom(), big.NewInt(2)))
	if !n.IsInt64() || n.Int64() == math.MaxInt64 {
		return 0, faultf("", "%s is beyond the largest simulated time (292 years)", quote(text))
	}
	return sim.Duration(n.Int64()), nil
}

func (f *field) inRange(x float64, text string) *fault {
	switch {
	case f.min != nil && x < f.min.value,
		f.max != nil && x > f.max.value,
		f.above != nil && x <= f.above.value:
		return faultf("expected "+f.rangeText(), "%s is out of range", quote(text))
	}
	return nil
}

// rangeText says which numbers are allowed, or nothing if all are.
func (f *field) rangeText() string {
	var parts []string
	if f.above != nil {
		parts = append(parts, "more than "+f.limitText(f.above))
	}
	switch {
	case f.min != nil && f.max != nil:
		parts = append(parts, "from "+f.limitText(f.min)+" to "+f.limitText(f.max))
	case f.min != nil:
		parts = append(parts, "at least "+f.limitText(f.min))
	case f.max != nil:
		parts = append(parts, "at most "+f.limitText(f.max))
	}
	return strings.Join(parts, " and ")
}

// limitText prints a limit with its unit.
func (f *field) limitText(l *limit) string {
	if _, rest := cutNumber(l.text); rest == "" && f.measure.name != "" {
		return l.text + " " + f.measure.name
	}
	return l.text
}

// typeText names the sort of value for people.
func (f *field) typeText() string {
	switch f.kind {
	case boolField:
		return "true or false"
	case textField:
		return "text"
	case intField, uintField:
		return "whole number"
	case durationField:
		return "duration"
	case fileField:
		return "file"
	case tableField:
		return "table (CSV file)"
	case listField:
		return "list of " + f.elem.plural()
	}
	if f.measure.dimension != plain {
		return string(f.measure.dimension)
	}
	return "number"
}

func (f *field) plural() string {
	if f.kind == boolField || f.kind == textField {
		return f.typeText()
	}
	return f.typeText() + "s"
}

// valueText names one value for a sentence.
func (f *field) valueText() string {
	if f.kind == boolField || f.kind == textField {
		return f.typeText()
	}
	return "a " + f.typeText()
}
