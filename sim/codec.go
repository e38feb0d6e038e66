package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"unsafe"
)

// codec encodes values of one type canonically: equal values give equal bytes, padding and blank
// fields are left out, numbers are little endian. Floats are equal when their bits are: -0 differs
// from 0, a NaN equals itself. An empty slice and a nil slice are equal; both load as nil. Types of
// fixed size are copied as runs of memory, which is why simnode runs on little-endian machines only;
// strings, slices and values with hooks have a length of 8 bytes before them.
type codec struct {
	typ    reflect.Type
	hook   bool
	fields []run
	// fixed is the encoded size if the type has a fixed one, otherwise -1.
	fixed int
	// least is the smallest size that an encoding can have.
	least int
}

// run is a stretch of memory to copy, or a field of variable size.
type run struct {
	offset, size uintptr
	// elem encodes the elements of a slice or string, or the whole field where that has hooks; nil
	// for a stretch of memory.
	elem *codec
	typ  reflect.Type
}

// newCodec compiles the codec of t, or says why t is not plain data.
func newCodec(t reflect.Type) (*codec, error) { return compile(t, "", nil) }

// compile compiles the codec of t, found at path within the types that are being compiled.
func compile(t reflect.Type, path string, within []reflect.Type) (*codec, error) {
	c := &codec{typ: t}
	if hasHooks(t) {
		c.hook, c.fixed, c.least = true, -1, 8
		return c, checkPromoted(t, path)
	}
	if slices.Contains(within, t) {
		return c, fmt.Errorf("field %s: type %v contains itself: give it the methods AppendState and LoadState", path, t)
	}
	if err := c.add(t, 0, path, append(within, t)); err != nil {
		return c, err
	}
	for _, f := range c.fields {
		switch {
		case f.elem != nil:
			c.fixed = -1
			c.least += 8
		default:
			c.least += int(f.size)
		}
	}
	if c.fixed == 0 {
		c.fixed = c.least
	}
	return c, nil
}

func hasHooks(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[StateCodec]())
}

// checkPromoted refuses the hooks that a struct has from an embedded field: they would leave its
// other fields out.
func checkPromoted(t reflect.Type, path string) error {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && (hasHooks(f.Type) || f.Type.Implements(reflect.TypeFor[StateCodec]())) {
			return fmt.Errorf("field %s: its methods AppendState and LoadState would stand for all of %v: give the field a name of its own instead of embedding it", join(path, f.Name), t)
		}
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// plain reports whether the type is numbers and booleans only, in a fixed place.
func (c *codec) plain() bool { return !c.hook && c.fixed >= 0 }

// solid reports whether values are one stretch of memory without padding.
func (c *codec) solid() bool { return c.plain() && uintptr(c.fixed) == c.typ.Size() }

func (c *codec) add(t reflect.Type, offset uintptr, path string, within []reflect.Type) error {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		c.addRun(offset, t.Size())
		return nil
	case reflect.Array:
		return c.addArray(t, offset, path+"[]", within)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" {
				continue
			}
			if err := c.addField(f.Type, offset+f.Offset, join(path, f.Name), within); err != nil {
				return err
			}
		}
		return nil
	case reflect.String, reflect.Slice:
		return c.addVariable(t, offset, path, within)
	}
	what := "type " + t.String()
	if path != "" {
		what = fmt.Sprintf("field %s of type %v", path, t)
	}
	return fmt.Errorf("%s is not plain data: use numbers, booleans, strings, arrays, slices and structs, or give the type the methods AppendState and LoadState", what)
}

// addField adds a part of the type that may have hooks of its own.
func (c *codec) addField(t reflect.Type, offset uintptr, path string, within []reflect.Type) error {
	if !hasHooks(t) {
		return c.add(t, offset, path, within)
	}
	e, err := compile(t, path, within)
	c.fields = append(c.fields, run{offset: offset, size: t.Size(), elem: e, typ: t})
	return err
}

func (c *codec) addArray(t reflect.Type, offset uintptr, path string, within []reflect.Type) error {
	if t.Len() == 0 {
		return nil
	}
	e, err := compile(t.Elem(), path, within)
	switch {
	case err != nil:
		return err
	case e.solid():
		c.addRun(offset, t.Size())
		return nil
	case e.least == 0:
		return nil
	case t.Len() > maxRuns/max(len(e.fields), 1):
		return fmt.Errorf("field %s: an array of %d elements of type %v is too long: use a slice, or an element type without padding, strings and slices", path, t.Len(), t.Elem())
	}
	for i := range t.Len() {
		if err := c.addField(t.Elem(), offset+uintptr(i)*t.Elem().Size(), path, within); err != nil {
			return err
		}
	}
	return nil
}

// maxRuns is how many runs an array may be made of: elements with padding, or of variable size, cost
// at least one each.
const maxRuns = 1 << 16

func (c *codec) addRun(offset, size uintptr) {
	if size == 0 {
		return
	}
	if n := len(c.fields); n > 0 && c.fields[n-1].elem == nil && c.fields[n-1].offset+c.fields[n-1].size == offset {
		c.fields[n-1].size += size
		return
	}
	c.fields = append(c.fields, run{offset: offset, size: size})
}

func (c *codec) addVariable(t reflect.Type, offset uintptr, path string, within []reflect.Type) error {
	elem := reflect.TypeFor[byte]()
	if t.Kind() == reflect.Slice {
		elem = t.Elem()
	}
	e, err := compile(elem, path+"[]", within)
	if err != nil {
		return err
	}
	if e.least == 0 && elem.Size() > 0 {
		return fmt.Errorf("field %s: elements of type %v hold no data", path, elem)
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
		dst = f.appendVariable(dst, q)
	}
	return dst
}

func (f *run) appendVariable(dst []byte, p unsafe.Pointer) []byte {
	if f.elem.typ == f.typ {
		return f.elem.append(dst, p)
	}
	v := value(f.typ, p)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(v.Len()))
	if v.Kind() == reflect.String {
		return append(dst, v.String()...)
	}
	if f.elem.solid() {
		return append(dst, unsafe.Slice((*byte)(v.UnsafePointer()), v.Len()*f.elem.fixed)...)
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
		body, rest, err := cutLength(data)
		if err != nil {
			return nil, err
		}
		return rest, reflect.NewAt(c.typ, p).Interface().(StateCodec).LoadState(body)
	}
	for _, f := range c.fields {
		q := unsafe.Add(p, f.offset)
		if f.elem != nil {
			rest, err := f.loadVariable(q, data)
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

// cutLength reads a length in bytes and cuts as many off.
func cutLength(data []byte) (body, rest []byte, err error) {
	n, data, err := readCount(data, 1)
	if err != nil {
		return nil, nil, err
	}
	return data[:n:n], data[n:], nil
}

// readCount reads a count of elements of at least size encoded bytes each and makes sure that the
// data can hold them, so that a damaged count costs no memory.
func readCount(data []byte, size int) (n int, rest []byte, err error) {
	if len(data) < 8 {
		return 0, nil, errShort
	}
	count, rest := binary.LittleEndian.Uint64(data), data[8:]
	most := uint64(math.MaxInt)
	if size > 0 {
		most = uint64(len(rest) / size)
	}
	if count > most {
		return 0, nil, errShort
	}
	return int(count), rest, nil
}

func (f *run) loadVariable(p unsafe.Pointer, data []byte) ([]byte, error) {
	if f.elem.typ == f.typ {
		return f.elem.load(p, data)
	}
	v := value(f.typ, p)
	if v.Kind() == reflect.String {
		body, rest, err := cutLength(data)
		if err == nil {
			v.SetString(string(body))
		}
		return rest, err
	}
	n, data, err := readCount(data, f.elem.least)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		v.SetZero()
		return data, nil
	}
	v.Set(reflect.MakeSlice(f.typ, n, n))
	if f.elem.solid() {
		size := n * f.elem.fixed
		copy(unsafe.Slice((*byte)(v.UnsafePointer()), size), data)
		return data[size:], nil
	}
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
	if v == nil {
		b.fail("%s: an interface is not plain data: use a struct", what)
		return
	}
	c, err := newCodec(reflect.TypeOf(v))
	switch {
	case err != nil:
		b.fail("%s: %w", what, err)
	case !c.plain():
		b.fail("%s: %T must have a fixed size: no strings, slices or hooks", what, v)
	}
}

// tableColumns lists the columns of a row type.
func tableColumns(t reflect.Type) ([]Column, error) {
	if t.Kind() != reflect.Struct || t.NumField() == 0 {
		return nil, fmt.Errorf("a row is a struct with at least one field, not %v", t)
	}
	var columns []Column
	offset, seen := 0, map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("col")
		if name == "" {
			return nil, fmt.Errorf("field %s has no col tag", f.Name)
		}
		if f.Name == "_" || seen[name] {
			return nil, fmt.Errorf("column %s: each column needs a field with a name and a tag of its own", name)
		}
		seen[name] = true
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
