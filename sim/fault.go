package sim

import "fmt"

// Fault is a fault of a model's own code that its setup shows, whatever the parameters are: a payload
// with a string, two kinds of one name.
type Fault struct{ Reason string }

func (f *Fault) Error() string { return f.Reason }

// DuplicateError is a ParamError of a row that repeats an earlier one. The scenario package turns the
// rows into lines.
type DuplicateError struct {
	// Path of the table, such as "params.flights".
	Path string
	// First and Row are the two rows; the first data row is 1.
	First, Row int
	// What stands twice, and what to do.
	What, Help string
}

func (e *DuplicateError) Error() string { return e.Unwrap().Error() }

// Unwrap returns the ParamError.
func (e *DuplicateError) Unwrap() error {
	return &ParamError{Path: e.Path, Row: e.Row, Reason: e.Reason("rows", e.First, e.Row)}
}

// Reason says what is wrong, with the places of the two as rows or lines.
func (e *DuplicateError) Reason(places string, first, second int) string {
	return fmt.Sprintf("duplicate %q: %s %d and %d; %s", e.What, places, first, second, e.Help)
}
