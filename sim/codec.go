package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"unsafe"
)

// codec encodes values of one type canonically: equal values give equal bytes, padding is left out,
// numbers are little endian. Types of fixed size are copied as runs of memory, which is why simnode
// runs on little-endian machines only; strings and slices have a length of 8 bytes before them.
type codec struct {
	typ    reflect.Type
	hook   bool
	fields []run
	// fixed is the encoded size if the type has a fixed one, otherwise -1.
	fixed int
}

// run is a stretch of memory to copy, or a field of variable size.
type run struct {
	offset, size uintptr
	// elem encodes the elements of a slice or string; nil for a stretch of memory.
	elem *codec
	typ  reflect.Type
}

// newCodec compiles the codec of t, or says why t is not plain data.
func newCodec(t reflect.Type) (*codec, error) {
	c := &codec{typ: t}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[StateCodec]()) {
		c.hook, c.fixed = true, -1
		return c, nil
	}
	if err := c.add(t, 0, ""); err != nil {
		return c, err
	}
	for _, f := range c.fields {
		if f.elem != nil {
			c.fixed = -1
			return c, nil
		}
		c.fixed += int(f.size)
	}
	return c, nil
}

func (c *codec) plain() bool { return !c.hook && c.fixed >= 0 }

func (c *codec) add(t reflect.Type, offset uintptr, path string) error {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		c.addRun(offset, t.Size())
		return nil
	case reflect.Array:
		for i := range t.Len() {
			if err := c.add(t.Elem(), offset+uintptr(i)*t.Elem().Size(), path+"[]"); err != nil {
				return err
			}
		}
		return nil
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if err := c.add(f.Type, offset+f.Offset, path+"."+f.Name); err != nil {
				return err
			}
		}
		return nil
	case reflect.String, reflect.Slice:
		return c.addVariable(t, offset, path)
	}
	return fmt.Errorf("field %s of type %v is not plain data: use numbers, booleans, strings, arrays, slices and structs, or give the type the methods AppendState and LoadState", path, t)
}

func (c *codec) addRun(offset, size uintptr) {
	if n := len(c.fields); n > 0 && c.fields[n-1].elem == nil && c.fields[n-1].offset+c.fields[n-1].size == offset {
		c.fields[n-1].size += size
		return
	}
	c.fields = append(c.fields, run{offset: offset, size: size})
}

func (c *codec) addVariable(t reflect.Type, offset uintptr, path string) error {
	elem := reflect.TypeFor[byte]()
	if t.Kind() == reflect.Slice {
		elem = t.Elem()
	}
	e, err := newCodec(elem)
	if err != nil {
		return fmt.Errorf("elements of %s: %w", path, err)
	}
	c.fields = append(c.fields, run{offset: offset, size: t.Size(), elem: e, typ: t})
	return nil
}

// value returns the value of type t at p.
func value(t reflect.Type, p unsafe.Pointer) reflect.Value { return reflect.NewAt(t, p).Elem() }

// append appends the encoding of the value at p.
func (c *codec) append(dst []byte, p unsafe.Pointer) []byte {
	if c.hook {
		at := len(dst)
		dst = append(dst, make([]byte, 8)...)
		dst = reflect.NewAt(c.typ, p).Interface().(StateCodec).AppendState(dst)
		binary.LittleEndian.PutUint64(dst[at:], uint64(len(dst)-at-8))
		return dst
	}
	for _, f := range c.fields {
		q := unsafe.Add(p, f.offset)
		if f.elem == nil {
			dst = append(dst, unsafe.Slice((*byte)(q), f.size)...)
			continue
		}
		dst = f.appendVariable(dst, value(f.typ, q))
	}
	return dst
}

func (f *run) appendVariable(dst []byte, v reflect.Value) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(v.Len()))
	if v.Kind() == reflect.String {
		return append(dst, v.String()...)
	}
	for i := range v.Len() {
		dst = f.elem.append(dst, v.Index(i).Addr().UnsafePointer())
	}
	return dst
}

var errShort = errors.New("the encoding ends too early")

// load fills the value at p from its encoding and returns what follows it.
func (c *codec) load(p unsafe.Pointer, data []byte) ([]byte, error) {
	if c.hook {
		body, rest, err := cutLength(data, 1)
		if err != nil {
			return nil, err
		}
		return rest, reflect.NewAt(c.typ, p).Interface().(StateCodec).LoadState(body)
	}
	for _, f := range c.fields {
		q := unsafe.Add(p, f.offset)
		if f.elem != nil {
			rest, err := f.loadVariable(value(f.typ, q), data)
			if err != nil {
				return nil, err
			}
			data = rest
			continue
		}
		if len(data) < int(f.size) {
			return nil, errShort
		}
		copy(unsafe.Slice((*byte)(q), f.size), data)
		data = data[f.size:]
	}
	return data, nil
}

// cutLength reads a count of elements of at least size bytes each and, for size 1, cuts them off.
func cutLength(data []byte, size int) (body, rest []byte, err error) {
	if len(data) < 8 {
		return nil, nil, errShort
	}
	n := binary.LittleEndian.Uint64(data)
	data = data[8:]
	if n > uint64(len(data)/max(size, 1)) {
		return nil, nil, errShort
	}
	return data[:n], data[n:], nil
}

func (f *run) loadVariable(v reflect.Value, data []byte) ([]byte, error) {
	if v.Kind() == reflect.String {
		body, rest, err := cutLength(data, 1)
		if err == nil {
			v.SetString(string(body))
		}
		return rest, err
	}
	smallest := max(f.elem.fixed, 0)
	if f.elem.fixed < 0 {
		smallest = 8
	}
	body, _, err := cutLength(data, smallest)
	if err != nil {
		return nil, err
	}
	n := len(body)
	data = data[8:]
	if n == 0 {
		v.SetZero()
		return data, nil
	}
	v.Set(reflect.MakeSlice(f.typ, n, n))
	for i := range n {
		if data, err = f.elem.load(v.Index(i).Addr().UnsafePointer(), data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// put writes a value of fixed size into dst, which has its encoded size.
func (c *codec) put(dst []byte, p unsafe.Pointer) {
	for _, f := range c.fields {
		copy(dst, unsafe.Slice((*byte)(unsafe.Add(p, f.offset)), f.size))
		dst = dst[f.size:]
	}
}

// get reads a value of fixed size that put wrote.
func (c *codec) get(p unsafe.Pointer, data []byte) {
	for _, f := range c.fields {
		copy(unsafe.Slice((*byte)(unsafe.Add(p, f.offset)), f.size), data)
		data = data[f.size:]
	}
}

// move copies a value to dst, pointers included.
func (c *codec) move(dst, src unsafe.Pointer) {
	if c.plain() {
		copy(unsafe.Slice((*byte)(dst), c.typ.Size()), unsafe.Slice((*byte)(src), c.typ.Size()))
		return
	}
	value(c.typ, dst).Set(value(c.typ, src))
}

func (c *codec) clear(p unsafe.Pointer) {
	if c.plain() {
		clear(unsafe.Slice((*byte)(p), c.typ.Size()))
		return
	}
	value(c.typ, p).SetZero()
}

func (b *Builder) mustBePlain(what string, v any) {
	c, err := newCodec(reflect.TypeOf(v))
	switch {
	case err != nil:
		b.fail("%s: %w", what, err)
	case !c.plain():
		b.fail("%s: %T must have a fixed size: no strings or slices", what, v)
	}
}

// tableColumns lists the columns of a row type.
func tableColumns(t reflect.Type) ([]Column, error) {
	if t.Kind() != reflect.Struct || t.NumField() == 0 {
		return nil, fmt.Errorf("a row is a struct with at least one field, not %v", t)
	}
	var columns []Column
	offset := 0
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("col")
		if name == "" {
			return nil, fmt.Errorf("field %s has no col tag", f.Name)
		}
		switch k := f.Type.Kind(); {
		case k == reflect.Array && f.Type.Elem().Kind() == reflect.Uint8:
		case k >= reflect.Bool && k <= reflect.Float64 && k != reflect.Uintptr:
		default:
			return nil, fmt.Errorf("column %s: type %v: use booleans, numbers, times, ids and byte arrays", name, f.Type)
		}
		columns = append(columns, Column{Name: name, Unit: f.Tag.Get("unit"), Type: f.Type, Offset: offset})
		offset += int(f.Type.Size())
	}
	return columns, nil
}
