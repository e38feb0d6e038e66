package scenario

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"math"
	"reflect"

	"github.com/simnode/simnode/sim"
)

// hash digests everything that can change a result, field by field with names and lengths, so that
// no two different scenarios have one encoding.
func (l *loader) hash() [32]byte {
	h := newHasher()
	p := l.scenario.Program
	h.text("simnode scenario 1")
	h.text(p.Model.Name)
	h.number(uint64(p.Model.Version))
	h.number(p.Seed)
	h.number(uint64(p.End))
	h.value(reflect.ValueOf(p.Space))
	params := reflect.ValueOf(l.params).Elem()
	for _, f := range l.fields {
		h.text(f.name)
		h.value(params.Field(f.index))
	}
	return h.sum()
}

type hasher struct {
	sha    hash.Hash
	buffer *bufio.Writer
}

func newHasher() *hasher {
	sha := sha256.New()
	return &hasher{sha, bufio.NewWriter(sha)}
}

func (h *hasher) sum() (sum [32]byte) {
	_ = h.buffer.Flush() // Writing to a hash cannot fail.
	h.sha.Sum(sum[:0])
	return sum
}

func (h *hasher) number(x uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], x)
	_, _ = h.buffer.Write(b[:])
}

func (h *hasher) text(s string) {
	h.number(uint64(len(s)))
	_, _ = io.WriteString(h.buffer, s)
}

// value digests a value of the types that parameters have.
func (h *hasher) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		x := uint64(0)
		if v.Bool() {
			x = 1
		}
		h.number(x)
	case reflect.String:
		h.text(v.String())
	case reflect.Float64:
		h.number(math.Float64bits(v.Float()))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		h.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		h.number(v.Uint())
	case reflect.Struct:
		if f, ok := v.Interface().(sim.File); ok {
			h.text(f.Name)
			h.text(string(f.Data))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				h.text(v.Type().Field(i).Name)
				h.value(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		h.number(uint64(v.Len()))
		for i := range v.Len() {
			h.value(v.Index(i))
		}
	default:
		h.text(v.Type().String())
	}
}
