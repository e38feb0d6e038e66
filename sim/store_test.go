package sim

import (
	"bytes"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// A store against a map: states stay what they are, where they are, through additions, removals and
// moves between two stores.
func TestStoreKeepsStatesInPlace(t *testing.T) {
	for _, st := range menu() {
		if !slices.Contains([]string{"flat", "padded", "empty", "nested", "hookedField"}, st.name) {
			continue
		}
		t.Run(st.name, func(t *testing.T) {
			kind := st.kind(t)
			rapid.Check(t, func(t *rapid.T) {
				w := &storeWorld{st: st, stores: [2]*Store{kind.NewStore(), kind.NewStore()}, held: [2]map[uint32]held{{}, {}}}
				t.Repeat(map[string]func(*rapid.T){
					"add":  w.add,
					"free": w.free,
					"take": w.take,
					"load": w.load,
					"":     w.check,
				})
			})
		})
	}
}

type storeWorld struct {
	st     stateType
	stores [2]*Store
	held   [2]map[uint32]held
}

// held is what a store must hold at an index.
type held struct {
	at    unsafe.Pointer
	bytes []byte
}

func (w *storeWorld) state(p unsafe.Pointer) reflect.Value { return reflect.NewAt(w.st.typ, p).Elem() }

func (w *storeWorld) keep(side int, i uint32) {
	s := w.stores[side]
	w.held[side][i] = held{s.At(i), s.Append(nil, i)}
}

func (w *storeWorld) add(t *rapid.T) {
	side := rapid.IntRange(0, 1).Draw(t, "store")
	// Enough at a time that pages fill up now and then.
	for range rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 1, 130}).Draw(t, "count") {
		i := w.stores[side].Add()
		if _, ok := w.held[side][i]; ok {
			t.Fatalf("index %d is given twice", i)
		}
		if !w.state(w.stores[side].At(i)).IsZero() {
			t.Fatalf("a new state is not zero: %+v", w.state(w.stores[side].At(i)))
		}
		w.keep(side, i)
	}
	i := w.some(t, side)
	fill(t, w.state(w.stores[side].At(i)))
	w.keep(side, i)
}

// some draws an index that is held.
func (w *storeWorld) some(t *rapid.T, side int) uint32 {
	if len(w.held[side]) == 0 {
		t.Skip("empty")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(w.held[side]))).Draw(t, "index")
}

func (w *storeWorld) free(t *rapid.T) {
	side := rapid.IntRange(0, 1).Draw(t, "store")
	i := w.some(t, side)
	w.stores[side].Free(i)
	delete(w.held[side], i)
}

func (w *storeWorld) take(t *rapid.T) {
	from := rapid.IntRange(0, 1).Draw(t, "from")
	i := w.some(t, from)
	want := w.held[from][i].bytes
	j := w.stores[1-from].Take(w.stores[from], i)
	if _, ok := w.held[1-from][j]; ok {
		t.Fatalf("index %d is given twice", j)
	}
	delete(w.held[from], i)
	w.keep(1-from, j)
	if got := w.held[1-from][j].bytes; !bytes.Equal(got, want) {
		t.Fatalf("moved %x, arrived %x", want, got)
	}
}

func (w *storeWorld) load(t *rapid.T) {
	from := w.some(t, 0)
	to := w.some(t, 1)
	if err := w.stores[1].Load(to, w.held[0][from].bytes); err != nil {
		t.Fatal(err)
	}
	w.keep(1, to)
	if got := w.held[1][to].bytes; !bytes.Equal(got, w.held[0][from].bytes) {
		t.Fatalf("loaded %x as %x", w.held[0][from].bytes, got)
	}
}

func (w *storeWorld) check(t *rapid.T) {
	for side, s := range w.stores {
		for i, h := range w.held[side] {
			if s.At(i) != h.at {
				t.Fatalf("the state at %d has moved", i)
			}
			if got := s.Append(nil, i); !bytes.Equal(got, h.bytes) {
				t.Fatalf("the state at %d was %x and is %x", i, h.bytes, got)
			}
		}
	}
}

func TestStoreReusesWhatIsFree(t *testing.T) {
	s := newStateType[flat]("flat").kind(t).NewStore()
	for range 1000 {
		i := s.Add()
		(*flat)(s.At(i)).A = 7
		s.Free(i)
	}
	if len(s.pages) != 1 || s.used != 1 {
		t.Errorf("one state at a time takes %d pages and %d places", len(s.pages), s.used)
	}
}

func TestFreeLetsGoOfWhatTheStateHeld(t *testing.T) {
	s := newStateType[texts]("texts").kind(t).NewStore()
	i := s.Add()
	p := (*texts)(s.At(i))
	*p = texts{"name", 1, []string{"tag"}}
	s.Free(i)
	if p.Name != "" || p.Tags != nil {
		t.Errorf("a freed state still holds %+v", p)
	}
}

func TestStoreLoadNamesTheKind(t *testing.T) {
	s := newStateType[texts]("radar").kind(t).NewStore()
	i := s.Add()
	for _, c := range []struct {
		data []byte
		want string
	}{
		{nil, "state of kind radar: the encoding ends too early"},
		{append(s.Append(nil, i), 1, 2, 3), "state of kind radar: 3 bytes too many"},
	} {
		if err := s.Load(i, c.data); err == nil || err.Error() != c.want {
			t.Errorf("%x: %v, not %q", c.data, err, c.want)
		}
	}
}

func TestSlicesOfNothingKeepTheirLength(t *testing.T) {
	s := newStateType[[]empty]("nothing").kind(t).NewStore()
	i, j := s.Add(), s.Add()
	for _, n := range []int{0, 1, 1000, math.MaxInt} {
		*(*[]empty)(s.At(i)) = make([]empty, n)
		if err := s.Load(j, s.Append(nil, i)); err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		if got := len(*(*[]empty)(s.At(j))); got != n {
			t.Errorf("%d elements come back as %d", n, got)
		}
	}
}

// The sum of the digests of all states does not depend on where they lie.
func TestDigestOfStatesDoesNotDependOnTheirPlace(t *testing.T) {
	kind := newStateType[padded]("padded").kind(t)
	a, b := kind.NewStore(), kind.NewStore()
	digest := func(s *Store, i uint32) uint64 {
		id := EntityID((*padded)(s.At(i)).B)
		return Finish(DigestBytes(0, s.Append(nil, i)), id)
	}
	before, after := uint64(0), uint64(0)
	for n := range uint64(600) {
		i := a.Add()
		soil(a.At(i), unsafe.Sizeof(padded{}))
		copyInto(reflect.NewAt(kind.codec.typ, a.At(i)).Elem(), reflect.ValueOf(&padded{A: uint8(n), B: n}).Elem())
		before += digest(a, i)
	}
	for n := range uint32(600) {
		after += digest(b, b.Take(a, n*7%600))
	}
	if before != after {
		t.Errorf("moved to another store, the states' digest is %#x, not %#x", after, before)
	}
}

func TestBuilderRefusesWhatIsNotPlain(t *testing.T) {
	type withMap struct{ Seen map[int]bool }
	type withText struct{ Name string }
	for _, c := range []struct {
		declare func(b *Builder)
		want    string
	}{
		{func(b *Builder) { DefineKind[withMap](b, "radar", "") }, "kind radar: state sim.withMap: field Seen of type map[int]bool is not plain data"},
		{func(b *Builder) { DefineKind[any](b, "radar", "") }, "kind radar: state interface {}: type interface {} is not plain data"},
		{func(b *Builder) { DefineEvent[withMap](b, "scan", Planned) }, "event scan: payload sim.withMap: field Seen"},
		{func(b *Builder) { DefineEvent[withText](b, "scan", Planned) }, "event scan: payload sim.withText must have a fixed size"},
		{func(b *Builder) { DefineEvent[counts](b, "scan", Planned) }, "event scan: payload sim.counts must have a fixed size"},
		{func(b *Builder) { DefinePublic[withText](b) }, "published attributes: sim.withText must have a fixed size"},
		{func(b *Builder) { DefinePublic[any](b) }, "published attributes: an interface is not plain data"},
		{func(b *Builder) { DefinePublic[[33]byte](b) }, "at most 32 bytes"},
		{func(b *Builder) { DefineTable[any](b, "seen", "") }, "table seen: an interface is not plain data"},
		{func(b *Builder) { DefineTable[withText](b, "seen", "") }, "table seen: sim.withText must have a fixed size"},
	} {
		b := &Builder{prog: &Program{}}
		c.declare(b)
		if len(b.errs) == 0 || !strings.Contains(b.errs[0].Error(), c.want) {
			t.Errorf("%v does not say %q", b.errs, c.want)
		}
	}
}
