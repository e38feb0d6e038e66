package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// The menu of state types.
type (
	flat   struct{ A, B, C int64 }
	padded struct {
		A uint8
		B uint64
		C bool
		D float32
		E [3]struct {
			F uint8
			G uint16
		}
		H int8
		I complex128
	}
	empty struct{}
	blank struct {
		A uint32
		_ [4]byte
		B uint64
	}
	texts struct {
		Name string
		N    uint8
		Tags []string
	}
	nested struct {
		A     uint8
		Rows  []padded
		Grid  [][]float64
		Both  [2]texts
		Empty []empty
		Bytes []byte
		Flat  []flat
	}
	odd struct {
		F float64
		G float32
		T Time
		D Duration
		E EntityID
		P [2][3]uint16
	}
	hookedField struct {
		A uint8
		M counts
		B uint32
		L []counts
		R [2]Rand
	}
	wide struct {
		S    []struct{ A, B, C string }
		Pad  uint8
		Tail uint64
	}
)

// counts is not plain data: it encodes itself, in the order of keys.
type counts struct{ m map[uint16]int64 }

func (c *counts) AppendState(dst []byte) []byte {
	for _, k := range slices.Sorted(mapKeys(c.m)) {
		dst = binary.LittleEndian.AppendUint16(dst, k)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(c.m[k]))
	}
	return dst
}

func mapKeys(m map[uint16]int64) func(yield func(uint16) bool) {
	return func(yield func(uint16) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

var errCounts = errors.New("counts are pairs of 2 and 8 bytes")

func (c *counts) LoadState(data []byte) error {
	if len(data)%10 != 0 {
		return errCounts
	}
	c.m = nil
	for ; len(data) > 0; data = data[10:] {
		if c.m == nil {
			c.m = map[uint16]int64{}
		}
		c.m[binary.LittleEndian.Uint16(data)] = int64(binary.LittleEndian.Uint64(data[2:]))
	}
	return nil
}

// menu lists the state types, each with a way to check it.
func menu() []stateType {
	return []stateType{
		newStateType[flat]("flat"), newStateType[padded]("padded"), newStateType[empty]("empty"), newStateType[blank]("blank"),
		newStateType[texts]("texts"), newStateType[nested]("nested"), newStateType[odd]("odd"), newStateType[counts]("counts"),
		newStateType[hookedField]("hookedField"), newStateType[wide]("wide"), newStateType[string]("string"),
		newStateType[[]uint16]("slice"), newStateType[[5]padded]("array"), newStateType[float64]("float64"),
		newStateType[[][]empty]("slices of slices of nothing"), newStateType[[0]string]("empty array"), newStateType[Rand]("Rand"),
	}
}

type stateType struct {
	name  string
	typ   reflect.Type
	codec func(t failer) *codec
	// store makes a store through the public way: a kind of a program.
	kind func(t failer) *KindInfo
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newStateType[S any](name string) stateType {
	kind := func(t failer) *KindInfo {
		t.Helper()
		b := &Builder{prog: &Program{}}
		k := DefineKind[S](b, name, "")
		if len(b.errs) > 0 {
			t.Fatalf("%s: %v", name, b.errs)
		}
		return b.prog.Kinds[k.id]
	}
	return stateType{name, reflect.TypeFor[S](), func(t failer) *codec { t.Helper(); return kind(t).codec }, kind}
}

// fill sets v to a drawn value; strings and slices included, maps through their owner.
func fill(t *rapid.T, v reflect.Value) {
	// Unexported and blank fields are settable through their address.
	v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	switch p := v.Addr().Interface().(type) {
	case *counts:
		p.m = nil
		if m := rapid.MapOfN(rapid.Uint16(), rapid.Int64(), 0, 3).Draw(t, "map"); len(m) > 0 {
			p.m = m
		}
		return
	case *Rand:
		*p = NewRand(rapid.Uint64().Draw(t, "seed"), 1)
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1)})).Draw(t, "float"))
	case reflect.Complex128:
		v.SetComplex(complex(rapid.Float64().Draw(t, "re"), rapid.Float64().Draw(t, "im")))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, "length")
		if n == 0 {
			v.SetZero()
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "_" {
				fill(t, v.Field(i))
			}
		}
	default:
		t.Fatalf("fill: %v", v.Type())
	}
}

// same compares by value; floats by their bits.
func same(a, b reflect.Value) bool {
	if a.CanAddr() {
		a = reflect.NewAt(a.Type(), a.Addr().UnsafePointer()).Elem()
		b = reflect.NewAt(b.Type(), b.Addr().UnsafePointer()).Elem()
	}
	switch a.Kind() {
	case reflect.Float32, reflect.Float64:
		return math.Float64bits(a.Float()) == math.Float64bits(b.Float())
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range a.NumField() {
			if a.Type().Field(i).Name != "_" && !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// copyInto sets the fields of dst, and nothing between them, to those of src.
func copyInto(dst, src reflect.Value) {
	dst = reflect.NewAt(dst.Type(), dst.Addr().UnsafePointer()).Elem()
	src = reflect.NewAt(src.Type(), src.Addr().UnsafePointer()).Elem()
	switch {
	case dst.Type() == reflect.TypeFor[counts](), dst.Type() == reflect.TypeFor[Rand]():
		dst.Set(src)
	case dst.Kind() == reflect.Struct:
		for i := range dst.NumField() {
			if dst.Type().Field(i).Name != "_" {
				copyInto(dst.Field(i), src.Field(i))
			}
		}
	case dst.Kind() == reflect.Array:
		for i := range dst.Len() {
			copyInto(dst.Index(i), src.Index(i))
		}
	case dst.Kind() == reflect.Slice && src.Len() > 0:
		dst.Set(reflect.MakeSlice(dst.Type(), src.Len(), src.Len()))
		if !pointerFree(dst.Type().Elem()) {
			for i := range dst.Len() {
				copyInto(dst.Index(i), src.Index(i))
			}
			return
		}
		soil(dst.UnsafePointer(), uintptr(dst.Len())*dst.Type().Elem().Size())
		for i := range dst.Len() {
			copyInto(dst.Index(i), src.Index(i))
		}
	default:
		dst.Set(src)
	}
}

func pointerFree(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return false
	case reflect.Array:
		return pointerFree(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !pointerFree(t.Field(i).Type) {
				return false
			}
		}
	}
	return true
}

// soil fills memory without pointers with garbage.
func soil(p unsafe.Pointer, size uintptr) {
	for i := range unsafe.Slice((*byte)(p), size) {
		*(*byte)(unsafe.Add(p, i)) = byte(0xa5 + i)
	}
}

func TestEncodeThenLoadIsIdentity(t *testing.T) {
	for _, st := range menu() {
		t.Run(st.name, func(t *testing.T) {
			c := st.codec(t)
			rapid.Check(t, func(t *rapid.T) {
				a, b := reflect.New(st.typ), reflect.New(st.typ)
				fill(t, a.Elem())
				fill(t, b.Elem()) // What was there before must not matter.
				data := c.append([]byte("x"), a.UnsafePointer())[1:]
				if len(data) < c.least || (c.fixed >= 0 && len(data) != c.fixed) {
					t.Fatalf("%d bytes, least %d, fixed %d", len(data), c.least, c.fixed)
				}
				rest, err := c.load(b.UnsafePointer(), append(slices.Clip(data), "rest"...))
				if err != nil || string(rest) != "rest" {
					t.Fatalf("load: %q, %v", rest, err)
				}
				if !same(a.Elem(), b.Elem()) {
					t.Fatalf("%+v comes back as %+v", a.Elem(), b.Elem())
				}
				if again := c.append(nil, b.UnsafePointer()); !bytes.Equal(again, data) {
					t.Fatalf("%x is encoded again as %x", data, again)
				}
			})
		})
	}
}

func TestEqualValuesGiveEqualBytesWhateverThePadding(t *testing.T) {
	for _, st := range menu() {
		t.Run(st.name, func(t *testing.T) {
			c := st.codec(t)
			rapid.Check(t, func(t *rapid.T) {
				a, b := reflect.New(st.typ), reflect.New(st.typ)
				fill(t, a.Elem())
				if pointerFree(st.typ) {
					soil(b.UnsafePointer(), st.typ.Size())
				}
				copyInto(b.Elem(), a.Elem())
				x, y := c.append(nil, a.UnsafePointer()), c.append(nil, b.UnsafePointer())
				if !bytes.Equal(x, y) {
					t.Fatalf("one value, two encodings:\n%x\n%x", x, y)
				}
				if c.plain() {
					z := make([]byte, c.fixed)
					c.put(z, b.UnsafePointer())
					if !bytes.Equal(x, z) {
						t.Fatalf("put writes %x, append %x", z, x)
					}
					back := reflect.New(st.typ)
					if c.get(back.UnsafePointer(), z); !same(a.Elem(), back.Elem()) {
						t.Fatalf("%+v: get gives %+v", a.Elem(), back.Elem())
					}
				}
			})
		})
	}
}

func TestDifferentValuesGiveDifferentBytes(t *testing.T) {
	for _, st := range menu() {
		t.Run(st.name, func(t *testing.T) {
			c := st.codec(t)
			rapid.Check(t, func(t *rapid.T) {
				a, b := reflect.New(st.typ), reflect.New(st.typ)
				fill(t, a.Elem())
				fill(t, b.Elem())
				x, y := c.append(nil, a.UnsafePointer()), c.append(nil, b.UnsafePointer())
				if bytes.Equal(x, y) != same(a.Elem(), b.Elem()) {
					t.Fatalf("%+v and %+v: %x and %x", a.Elem(), b.Elem(), x, y)
				}
			})
		})
	}
}

func TestFloatsAreComparedByTheirBits(t *testing.T) {
	c := newStateType[float64]("float64").codec(t)
	encode := func(x float64) string { return string(c.append(nil, unsafe.Pointer(&x))) }
	if encode(0) == encode(math.Copysign(0, -1)) {
		t.Error("0 and -0 have one encoding, though 1/x tells them apart")
	}
	if one, other := encode(math.NaN()), encode(math.NaN()); one != other {
		t.Error("a NaN differs from itself")
	}
	for _, bits := range []uint64{0x7ff8000000000001, 0x7ff0000000000001, 0xfff8000000000000, 1 << 63} {
		x, y := math.Float64frombits(bits), 1.0
		if _, err := c.load(unsafe.Pointer(&y), c.append(nil, unsafe.Pointer(&x))); err != nil || math.Float64bits(y) != math.Float64bits(x) {
			t.Errorf("%#x comes back as %#x, %v", bits, math.Float64bits(y), err)
		}
	}
}

func TestEncodingIsTheOneWrittenDown(t *testing.T) {
	v := struct {
		A uint8
		B uint16
		S string
		L []uint8
		C counts
	}{1, 0x0203, "hi", []byte{7}, counts{map[uint16]int64{5: 6}}}
	c, err := newCodec(reflect.TypeOf(v))
	if err != nil {
		t.Fatal(err)
	}
	want := "01" + "0302" + "0200000000000000" + "6869" + "0100000000000000" + "07" + "0a00000000000000" + "0500" + "0600000000000000"
	if got := fmt.Sprintf("%x", c.append(nil, unsafe.Pointer(&v))); got != want {
		t.Errorf("encoded as\n%s, not\n%s", got, want)
	}
}

func TestLoadRefusesEveryTruncation(t *testing.T) {
	for _, st := range menu() {
		t.Run(st.name, func(t *testing.T) {
			c := st.codec(t)
			rapid.Check(t, func(t *rapid.T) {
				a := reflect.New(st.typ)
				fill(t, a.Elem())
				data := c.append(nil, a.UnsafePointer())
				if len(data) == 0 {
					return
				}
				n := rapid.IntRange(0, len(data)-1).Draw(t, "length")
				if _, err := c.load(reflect.New(st.typ).UnsafePointer(), data[:n:n]); err == nil {
					t.Fatalf("%d of %d bytes load without an error", n, len(data))
				}
			})
		})
	}
}

// footprint is the memory behind a value, strings and slices included.
func footprint(v reflect.Value) int {
	v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	n := 0
	switch {
	case v.Type() == reflect.TypeFor[counts]():
		n = 20 * v.Addr().Interface().(*counts).len()
	case v.Kind() == reflect.String:
		n = v.Len()
	case v.Kind() == reflect.Slice:
		n = v.Cap() * int(v.Type().Elem().Size())
		if v.Type().Elem().Size() > 0 && !pointerFree(v.Type().Elem()) {
			for i := range v.Len() {
				n += footprint(v.Index(i))
			}
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			n += footprint(v.Index(i))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			n += footprint(v.Field(i))
		}
	}
	return n
}

func (c *counts) len() int { return len(c.m) }

func FuzzLoad(f *testing.F) {
	types := menu()
	huge := binary.LittleEndian.AppendUint64(nil, 1<<62)
	for i := range types {
		f.Add(uint8(i), []byte{})
		f.Add(uint8(i), bytes.Repeat([]byte{0xff}, 64))
		f.Add(uint8(i), append(make([]byte, 8), huge...))
		f.Add(uint8(i), append(slices.Clip(huge), huge...))
		f.Add(uint8(i), append([]byte{2, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 200)...))
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		st := types[int(which)%len(types)]
		c := st.codec(t)
		v := reflect.New(st.typ)
		rest, err := c.load(v.UnsafePointer(), data)
		// A string header is 16 bytes and its encoding 8; a row of the menu is at most 4 times as large
		// in memory as its least encoding.
		if got := footprint(v.Elem()); got > 4*len(data) {
			t.Fatalf("%d bytes of input allocate %d", len(data), got)
		}
		if err != nil {
			return
		}
		if st.name == "counts" || st.name == "hookedField" {
			return // Their own decoder takes keys in any order.
		}
		if again := c.append(nil, v.UnsafePointer()); !bytes.Equal(again, data[:len(data)-len(rest)]) {
			t.Fatalf("%x loads, and is encoded as %x", data, again)
		}
	})
}

func TestHugeCountsCostNothing(t *testing.T) {
	for _, st := range menu() {
		c := st.codec(t)
		for _, count := range []uint64{1 << 20, 1 << 40, 1 << 62, math.MaxInt64, 1 << 63, math.MaxUint64} {
			for at := 0; at <= 72; at++ {
				data := make([]byte, at, at+8)
				data = binary.LittleEndian.AppendUint64(data, count)
				v := reflect.New(st.typ)
				_, err := c.load(v.UnsafePointer(), data)
				if got := footprint(v.Elem()); got > 4*len(data) {
					t.Fatalf("%s: a count of %d at %d allocates %d bytes (%v)", st.name, count, at, got, err)
				}
			}
		}
	}
}

type (
	ring  struct{ Next []ring }
	ping  struct{ P []pong }
	pong  struct{ Q [2][]ping }
	loop  []loop
	stray struct {
		Rand
		Lost int64
	}
	behind struct {
		*counts
		Lost int64
	}
)

func TestCodecNamesTheFieldThatIsNotPlain(t *testing.T) {
	for _, c := range []struct {
		typ  reflect.Type
		want string
	}{
		{reflect.TypeFor[struct{ A map[int]int }](), "field A of type map[int]int is not plain data"},
		{reflect.TypeFor[struct{ A struct{ B *int } }](), "field A.B of type *int"},
		{reflect.TypeFor[struct{ A [2]chan int }](), "field A[] of type chan int"},
		{reflect.TypeFor[struct{ A []any }](), "field A[] of type interface {}"},
		{reflect.TypeFor[struct{ A []struct{ B []func() } }](), "field A[].B[] of type func()"},
		{reflect.TypeFor[struct{ A uintptr }](), "field A of type uintptr"},
		{reflect.TypeFor[struct{ A unsafe.Pointer }](), "field A of type unsafe.Pointer"},
		{reflect.TypeFor[struct{ A, B error }](), "field A of type error"},
		{reflect.TypeFor[any](), "type interface {} is not plain data"},
		{reflect.TypeFor[*int](), "type *int is not plain data"},
		{reflect.TypeFor[map[string]int](), "type map[string]int"},
		{reflect.TypeFor[ring](), "field Next[]: type sim.ring contains itself"},
		{reflect.TypeFor[ping](), "contains itself"},
		{reflect.TypeFor[loop](), "contains itself"},
		{reflect.TypeFor[stray](), "would stand for all of sim.stray"},
		{reflect.TypeFor[behind](), "would stand for all of sim.behind"},
		{reflect.TypeFor[struct{ In stray }](), "field In.Rand: its methods"},
		{reflect.TypeFor[struct{ A []struct{ _ int } }](), "hold no data"},
		{reflect.TypeFor[[1 << 20]padded](), "too long"},
		{reflect.TypeFor[[1 << 10][1 << 10]string](), "too long"},
	} {
		_, err := newCodec(c.typ)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v does not say %q", c.typ, err, c.want)
		}
	}
}

func TestLongArraysCompileToOneRun(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[[1 << 30]byte](), reflect.TypeFor[[1 << 14][1 << 14]flat](),
		reflect.TypeFor[struct {
			A uint64
			B [1 << 28]flat
		}](),
	} {
		c, err := newCodec(typ)
		if err != nil || len(c.fields) != 1 || uintptr(c.fixed) != typ.Size() {
			t.Errorf("%v: %d runs, %d bytes, %v", typ, len(c.fields), c.fixed, err)
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[[1 << 40]struct{}](), reflect.TypeFor[[1 << 40]struct{ _ uint8 }]()} {
		if c, err := newCodec(typ); err != nil || len(c.fields) != 0 || c.fixed != 0 {
			t.Errorf("%v: %d runs, %d bytes, %v", typ, len(c.fields), c.fixed, err)
		}
	}
}

func TestHookErrorsComeThrough(t *testing.T) {
	c := newStateType[hookedField]("hookedField").codec(t)
	var v hookedField
	data := c.append(nil, unsafe.Pointer(&v))
	data[1] = 3 // The length of M, whose pairs take 10 bytes each.
	if _, err := c.load(unsafe.Pointer(&v), data); !errors.Is(err, errCounts) {
		t.Errorf("the hook's error is lost: %v", err)
	}
}
