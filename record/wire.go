package record

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The encodings of saved states and spooled observations: whole numbers as varints, floats as the
// varint of their reversed bytes, which is short for round values, text with its length before it.

func appendFloat(b []byte, v float64) []byte {
	return binary.AppendUvarint(b, bits.ReverseBytes64(math.Float64bits(v)))
}

func appendFloats(b []byte, vs []float64) []byte {
	for _, v := range vs {
		b = appendFloat(b, v)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader takes an encoding apart. After the first thing that does not fit it is bad and gives zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) fail() {
	r.rest, r.bad = nil, true
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// integer reads a whole number up to most.
func (r *reader) integer(most int64) int64 {
	v := r.uvarint()
	if v > uint64(most) {
		r.fail()
		return 0
	}
	return int64(v)
}

// count reads the number of things to come, each of which takes at least one byte.
func (r *reader) count() int { return int(r.integer(int64(len(r.rest)))) }

func (r *reader) float() float64 {
	return math.Float64frombits(bits.ReverseBytes64(r.uvarint()))
}

// finite reads a float that is a number.
func (r *reader) finite() float64 {
	v := r.float()
	if math.IsNaN(v) || math.IsInf(v, 0) {
		r.fail()
		return 0
	}
	return v
}

func (r *reader) floats(vs []float64) {
	for i := range vs {
		vs[i] = r.float()
	}
}

// bytes returns the next n bytes, which stay part of the input.
func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.fail()
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) string() string { return string(r.bytes(r.count())) }
