package sim

import (
	"fmt"
	"math/bits"
)

// Breach is a model's breach of the contract: an event in the past, a send below the lookahead, a
// query beyond the declared range. It ends the run; the engine adds entity, kind, event, simulated
// time and the model's source line.
type Breach struct{ Reason string }

func (b *Breach) Error() string { return b.Reason }

// breach makes the value that a method of the model's interface panics with. The engine recovers it.
func breach(format string, args ...any) *Breach { return &Breach{fmt.Sprintf(format, args...)} }

// ParamError is a fault in a model's parameters that only the model can see. The scenario package
// adds the place in the file.
type ParamError struct {
	// Path is the field, such as "params.radars".
	Path string
	// Row is the row of a table (the first data row is 1), or 0.
	Row int
	// Reason says what is wrong and what is allowed.
	Reason string
}

func (e *ParamError) Error() string {
	if e.Row > 0 {
		return fmt.Sprintf("%s: row %d: %s", e.Path, e.Row, e.Reason)
	}
	return fmt.Sprintf("%s: %s", e.Path, e.Reason)
}

// BadParam makes a ParamError.
func BadParam(path, format string, args ...any) error {
	return &ParamError{Path: path, Reason: fmt.Sprintf(format, args...)}
}

func mul64(a, b uint64) (hi, lo uint64) { return bits.Mul64(a, b) }
