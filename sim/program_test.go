package sim

import (
	"encoding/json"
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

type params struct{ N int }

type clock struct{ Ticks int64 }

// program sets up a model with the given setup and an end of one day.
func program(setup func(b *Builder)) (*Program, error) {
	m := Define(Model{Name: "trial"}, func(b *Builder, _ *params) error { setup(b); return nil })
	return NewProgram(m, m.NewParams(), Space{Kind: Plane, Dims: 2}, 1, Time(Day))
}

// one adds an entity, which every model needs.
func one(b *Builder) EntityID { return Add(DefineKind[clock](b, "clock", ""), Vec{}, clock{}) }

func TestEachFaultHasItsMessage(t *testing.T) {
	type row struct {
		A int64 `col:"a"`
		B int64 `col:"a"`
	}
	type untagged struct{ A int64 }
	type blankRow struct {
		_ int64 `col:"pad"`
	}
	type badColumn struct {
		A complex128 `col:"a"`
	}
	type badArray struct {
		A [4]int32 `col:"a"`
	}
	for _, c := range []struct {
		want  string
		setup func(b *Builder)
	}{
		{"model trial has no entity", func(b *Builder) {}},
		{"kind clock is declared twice", func(b *Builder) { one(b); one(b) }},
		{"event tick is declared twice", func(b *Builder) {
			one(b)
			DefineEvent[None](b, "tick", Planned)
			DefineEvent[None](b, "tick", State)
		}},
		{"series seen is declared twice", func(b *Builder) { one(b); DefineCounter(b, "seen", "", ""); DefineSample(b, "seen", "", "") }},
		{"event tick: priority 5: use one of the five classes", func(b *Builder) { one(b); DefineEvent[None](b, "tick", 5) }},
		{"kind clock handles event tick twice", func(b *Builder) {
			k, e := DefineKind[clock](b, "clock", ""), DefineEvent[None](b, "tick", Planned)
			Add(k, Vec{}, clock{})
			Handle(k, e, func(*Context, *clock, None) {})
			Handle(k, e, func(*Context, *clock, None) {})
		}},
		{"lookahead -1s is negative", func(b *Builder) { one(b); b.SetLimits(Limits{Lookahead: -Second}) }},
		{"range -1 m must be 0 or more", func(b *Builder) { one(b); b.SetLimits(Limits{Range: -1}) }},
		{"range NaN m", func(b *Builder) { one(b); b.SetLimits(Limits{Range: math.NaN()}) }},
		{"range +Inf m", func(b *Builder) { one(b); b.SetLimits(Limits{Range: math.Inf(1)}) }},
		{"speed -2 m/s must be 0 or more", func(b *Builder) { one(b); b.SetLimits(Limits{Speed: -2}) }},
		{"speed NaN m/s", func(b *Builder) { one(b); b.SetLimits(Limits{Speed: math.NaN()}) }},
		{"weight 1 of entity 2", func(b *Builder) { one(b); b.SetWeight(2, 1) }},
		{"weight 1 of entity 0", func(b *Builder) { one(b); b.SetWeight(0, 1) }},
		{"weight -1 of entity 1", func(b *Builder) { b.SetWeight(one(b), -1) }},
		{"weight NaN of entity 1", func(b *Builder) { b.SetWeight(one(b), math.NaN()) }},
		{"entity 1 of kind clock: weight +Inf is not finite", func(b *Builder) { b.SetWeight(one(b), 1e300) }},
		{"entity 2 of kind clock: position {0 NaN 0} is not finite", func(b *Builder) {
			k := DefineKind[clock](b, "clock", "")
			Add(k, Vec{}, clock{})
			Add(k, Vec{Y: math.NaN()}, clock{})
		}},
		{"entity 1 of kind clock: position {+Inf 0 0}", func(b *Builder) {
			Add(DefineKind[clock](b, "clock", ""), Vec{X: math.Inf(1)}, clock{})
		}},
		{"initial event tick of entity 2 at 0s", func(b *Builder) { one(b); DefineEvent[None](b, "tick", Planned).Init(b, 2, 0, None{}) }},
		{"initial event tick of entity 0 at 0s", func(b *Builder) { one(b); DefineEvent[None](b, "tick", Planned).Init(b, 0, 0, None{}) }},
		{"initial event tick of entity 1 at -1s", func(b *Builder) {
			DefineEvent[None](b, "tick", Planned).Init(b, one(b), Time(-Second), None{})
		}},
		{"initial event big: payloads of initial events are at most 32 bytes", func(b *Builder) {
			DefineEvent[[33]byte](b, "big", Planned).Init(b, one(b), 0, [33]byte{})
		}},
		{"table seen: column a", func(b *Builder) { one(b); DefineTable[row](b, "seen", "") }},
		{"table seen: field A has no col tag", func(b *Builder) { one(b); DefineTable[untagged](b, "seen", "") }},
		{"table seen: column pad", func(b *Builder) { one(b); DefineTable[blankRow](b, "seen", "") }},
		{"table seen: column a: type complex128", func(b *Builder) { one(b); DefineTable[badColumn](b, "seen", "") }},
		{"table seen: column a: type [4]int32", func(b *Builder) { one(b); DefineTable[badArray](b, "seen", "") }},
		{"table seen: a row is a struct with at least one field", func(b *Builder) { one(b); DefineTable[int64](b, "seen", "") }},
		{"table seen: a row is a struct with at least one field", func(b *Builder) { one(b); DefineTable[None](b, "seen", "") }},
		{"setup of model trial: IntN(0): the bound must be positive", func(b *Builder) { one(b); b.Stream("x").IntN(0) }},
	} {
		p, err := program(c.setup)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v does not say %q", err, c.want)
		}
		if p == nil {
			t.Errorf("%s: the program that was declared is lost", c.want)
		}
	}
}

func TestAllFaultsComeBackTogether(t *testing.T) {
	_, err := program(func(b *Builder) {
		one(b)
		one(b)
		b.SetLimits(Limits{Lookahead: -1, Range: -1, Speed: -1})
		DefineEvent[map[int]int](b, "scan", Planned)
		DefineEvent[None](b, "tick", 9)
		DefineCounter(b, "n", "", "")
		DefineGauge(b, "n", "", "", 0)
		b.SetWeight(99, 1)
		b.Stream("x").Exp(-1)
	})
	for _, want := range []string{"kind clock", "lookahead", "range", "speed", "event scan", "event tick", "series n", "entity 99", "Exp"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 9 {
		t.Errorf("9 faults give %d lines:\n%v", n, err)
	}
}

func TestTheModelsOwnErrorKeepsItsType(t *testing.T) {
	m := Define(Model{Name: "trial"}, func(b *Builder, _ *params) error {
		one(b)
		return BadParam("params.n", "must be at least %d", 3)
	})
	_, err := NewProgram(m, m.NewParams(), Space{}, 1, 1)
	var bad *ParamError
	if !errors.As(err, &bad) || bad.Path != "params.n" || err.Error() != "params.n: must be at least 3" {
		t.Errorf("got %v", err)
	}
	if got := (&ParamError{Path: "params.airports", Row: 4, Reason: "twice"}).Error(); got != "params.airports: row 4: twice" {
		t.Error(got)
	}
}

func TestAnotherPanicOfSetupIsNotSwallowed(t *testing.T) {
	defer func() {
		if r := recover(); r != "a fault of the model" {
			t.Errorf("recovered %v", r)
		}
	}()
	_, err := program(func(*Builder) { panic("a fault of the model") })
	t.Errorf("the panic became %v", err)
}

func TestWrongParametersAreAnError(t *testing.T) {
	m := Define(Model{Name: "trial"}, func(*Builder, *params) error { return nil })
	for _, p := range []any{nil, params{}, &clock{}, 3} {
		if _, err := NewProgram(m, p, Space{}, 1, 1); err == nil || !strings.Contains(err.Error(), "takes parameters of type") {
			t.Errorf("%T: %v", p, err)
		}
	}
	if _, err := NewProgram(Model{Name: "bare"}, nil, Space{}, 1, 1); err == nil || !strings.Contains(err.Error(), "sim.Define") {
		t.Errorf("a model without setup: %v", err)
	}
	if _, ok := m.NewParams().(*params); !ok {
		t.Errorf("NewParams gives %T", m.NewParams())
	}
}

func TestEnd(t *testing.T) {
	m := Define(Model{Name: "trial"}, func(b *Builder, p *params) error {
		one(b)
		if p.N > 0 {
			b.SetEnd(Time(Hour))
		}
		return nil
	})
	for _, c := range []struct {
		n    int
		end  Time
		want Time
		err  string
	}{
		{0, Never, 0, "end: missing"},
		{1, Never, Time(Hour), ""},
		{1, Time(Day), Time(Day), ""},
		{0, -1, 0, "end: -1ns is before the start"},
		{0, 0, 0, ""},
	} {
		p, err := NewProgram(m, &params{c.n}, Space{}, 1, c.end)
		if c.err == "" && (err != nil || p.End != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v: end %v, %v", c, p.End, err)
		}
	}
}

func TestSetSpace(t *testing.T) {
	torus, earth := Space{Kind: Torus, Dims: 2}, Space{Kind: Earth, Dims: 3}
	for _, c := range []struct {
		given Space
		late  bool
		want  SpaceKind
		err   string
	}{
		{Space{}, false, Torus, ""},
		{earth, false, Earth, ""},
		{earth, true, Earth, ""},
		{Space{}, true, NoSpace, "the space is set after 1 entities"},
	} {
		m := Define(Model{Name: "trial"}, func(b *Builder, _ *params) error {
			if c.late {
				one(b)
				b.SetSpace(torus)
				return nil
			}
			b.SetSpace(torus)
			one(b)
			return nil
		})
		p, err := NewProgram(m, m.NewParams(), c.given, 1, 1)
		if p.Space.Kind != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: space %v, %v", c, p.Space, err)
		}
		if p.Space.Kind != NoSpace && len(p.EntityPos) != len(p.EntityKind) {
			t.Errorf("%+v: %d positions of %d entities", c, len(p.EntityPos), len(p.EntityKind))
		}
	}
}

func TestSixtyFourKindsFitAndNoMore(t *testing.T) {
	for _, n := range []int{64, 65, 100} {
		var all KindSet
		_, err := program(func(b *Builder) {
			for i := range n {
				k := DefineKind[clock](b, fmt.Sprint("kind-", i), "")
				if all&k.Set() != 0 {
					t.Errorf("kind %d shares its bit", i)
				}
				all |= k.Set()
				Add(k, Vec{}, clock{})
			}
		})
		if all != AnyKind {
			t.Errorf("%d kinds fill %x", n, all)
		}
		if n == 64 && err != nil || n > 64 && (err == nil || !strings.Contains(err.Error(), "kind kind-64: a model has at most 64 kinds")) {
			t.Errorf("%d kinds: %v", n, err)
		}
	}
}

func TestEntitiesOfTheScenario(t *testing.T) {
	p, err := program(func(b *Builder) {
		k, l := DefineKind[clock](b, "clock", "ticks"), DefineKind[texts](b, "label", "")
		for i := range 1000 {
			id := Add(k, Vec{X: float64(i)}, clock{int64(i)})
			if id2 := Add(l, Vec{Y: float64(i)}, texts{Name: fmt.Sprint(i)}); id != EntityID(2*i+1) || id2 != id+1 {
				t.Fatalf("ids %d and %d", id, id2)
			}
		}
		b.SetWeight(7, 2.5)
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		c := (*clock)(p.Kinds[p.EntityKind[2*i]].InitialStore().At(p.EntityState[2*i]))
		l := (*texts)(p.Kinds[p.EntityKind[2*i+1]].InitialStore().At(p.EntityState[2*i+1]))
		if c.Ticks != int64(i) || l.Name != fmt.Sprint(i) || p.EntityPos[2*i].X != float64(i) || p.EntityPos[2*i+1].Y != float64(i) {
			t.Fatalf("entity %d: %+v %+v", 2*i+1, c, l)
		}
	}
	if p.EntityWeight[6] != 2.5 || p.EntityWeight[5] != 1 || len(p.EntityWeight) != 2000 {
		t.Errorf("weights %v of %d", p.EntityWeight[:8], len(p.EntityWeight))
	}
}

// bench is an engine that keeps the last event; what a test does not need panics.
type bench struct {
	Engine
	last  Message
	large []byte
	row   []byte
	delay Duration
}

func (e *bench) Schedule(d Duration, event uint16, p Priority, b Body) Ref {
	e.delay = d
	e.last = Message{Key: MakeKey(p, 1), Seq: uint64(event), Body: b}
	return Ref{}
}

func (e *bench) Send(_ EntityID, d Duration, event uint16, p Priority, b Body) {
	e.Schedule(d, event, p, b)
}

func (e *bench) NewPayload(b *Body, size int) []byte {
	words := make([]uint64, (size+7)/8)
	e.large = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
	b.A = 77
	return e.large
}

func (e *bench) Payload(*Message) []byte { return e.large }

func (e *bench) ObserveRow(_ uint16, size int) []byte {
	e.row = make([]byte, size)
	return e.row
}

// trip sends a payload and hands it to its handler; it gives the payload that arrives and the bytes
// that a digest sees. fouled garbage lies in the padding of what is sent.
func trip[P any](t *rapid.T, fouled bool) {
	eng := &bench{}
	c := NewContext(eng)
	b := &Builder{prog: &Program{}}
	k, e := DefineKind[clock](b, "clock", ""), DefineEvent[P](b, "tick", State)
	var got P
	Handle(k, e, func(_ *Context, _ *clock, p P) { got = p })
	if len(b.errs) > 0 {
		t.Fatal(b.errs)
	}
	m := Message{}
	c.Begin(5, 1, nil, &m)

	var clean, foul P
	fill(t, reflect.ValueOf(&clean).Elem())
	if fouled {
		soil(unsafe.Pointer(&foul), unsafe.Sizeof(foul))
	}
	copyInto(reflect.ValueOf(&foul).Elem(), reflect.ValueOf(&clean).Elem())

	seen := func(p *P) []byte {
		e.Send(c, 2, Second, *p)
		info := b.prog.Events[0]
		if info.Size > InlinePayload {
			return info.AppendPayload(nil, eng.large)
		}
		body := eng.last.Body
		return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&body)), InlinePayload))
	}
	want, have := seen(&clean), seen(&foul)
	if string(want) != string(have) {
		t.Fatalf("%T: garbage in the padding reaches the digest:\n%x\n%x", clean, want, have)
	}
	b.prog.Kinds[0].Handlers[0](c, unsafe.Pointer(&clock{}), &eng.last)
	if !same(reflect.ValueOf(&got).Elem(), reflect.ValueOf(&clean).Elem()) {
		t.Fatalf("sent %+v, handled %+v", clean, got)
	}
}

type (
	small5 struct {
		A uint8
		B uint16
		C uint8
		D uint32
		E uint8
		F uint64
	}
	large struct {
		A uint8
		B [4]uint64
		C uint16
		D uint32
	}
)

func TestPayloadsArriveAndPaddingDoesNot(t *testing.T) {
	for _, c := range []struct {
		name string
		trip func(t *rapid.T, fouled bool)
	}{
		{"nothing", trip[None]}, {"one byte", trip[uint8]}, {"32 bytes", trip[[32]byte]}, {"33 bytes", trip[[33]byte]},
		{"40 bytes", trip[[5]uint64]}, {"1000 bytes", trip[[1000]byte]}, {"flat", trip[flat]}, {"odd", trip[odd]},
		{"padded in place", trip[small5]}, {"padded and large", trip[large]}, {"padded", trip[padded]}, {"blank", trip[blank]},
	} {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { c.trip(t, false) })
			rapid.Check(t, func(t *rapid.T) { c.trip(t, true) })
		})
	}
}

func TestInitialEventsKeepPaddingOut(t *testing.T) {
	p, err := program(func(b *Builder) {
		e := DefineEvent[small5](b, "tick", State)
		id := one(b)
		var foul small5
		soil(unsafe.Pointer(&foul), unsafe.Sizeof(foul))
		clean := small5{1, 2, 3, 4, 5, 6}
		copyInto(reflect.ValueOf(&foul).Elem(), reflect.ValueOf(&clean).Elem())
		e.Init(b, id, 0, clean)
		e.Init(b, id, 0, foul)
	})
	if err != nil {
		t.Fatal(err)
	}
	if p.Initial[0].Body != p.Initial[1].Body {
		t.Errorf("one payload, two bodies: %x %x", p.Initial[0].Body, p.Initial[1].Body)
	}
}

func TestScheduleAtCountsFromNow(t *testing.T) {
	eng := &bench{}
	c := NewContext(eng)
	e := DefineEvent[None](&Builder{prog: &Program{}}, "tick", Planned)
	c.Begin(Time(Hour), 1, nil, &Message{})
	for at, want := range map[Time]Duration{Time(Hour): 0, Time(Day): 23 * Hour, Never: Forever, 0: -Hour} {
		if e.ScheduleAt(c, at, None{}); eng.delay != want {
			t.Errorf("at %v: a delay of %v, not %v", at, eng.delay, want)
		}
	}
}

// everyColumn has a column of each type, in an order that leaves padding.
type everyColumn struct {
	Bool bool     `col:"bool"`
	I    int      `col:"int" unit:"m"`
	I8   int8     `col:"int8"`
	I16  int16    `col:"int16"`
	I32  int32    `col:"int32"`
	I64  int64    `col:"int64"`
	U    uint     `col:"uint"`
	U8   uint8    `col:"uint8"`
	U16  uint16   `col:"uint16"`
	U32  uint32   `col:"uint32"`
	U64  uint64   `col:"uint64"`
	F32  float32  `col:"float32"`
	F64  float64  `col:"float64"`
	At   Time     `col:"at"`
	For  Duration `col:"for"`
	ID   EntityID `col:"id"`
	Code [5]byte  `col:"code"`
}

type kept struct {
	Measured
	rows [][]byte
}

func (k kept) Rows(_ int, yield func(t Time, e EntityID, data []byte) bool) {
	for i, r := range k.rows {
		if !yield(Time(i), EntityID(i+1), r) {
			return
		}
	}
}

func TestTableRowsComeBackColumnByColumn(t *testing.T) {
	b := &Builder{prog: &Program{}}
	table := DefineTable[everyColumn](b, "all", "")
	if len(b.errs) > 0 {
		t.Fatal(b.errs)
	}
	columns := b.prog.Series[0].Columns
	typ := reflect.TypeFor[everyColumn]()
	if len(columns) != typ.NumField() || columns[1].Unit != "m" {
		t.Fatalf("columns %+v", columns)
	}
	rapid.Check(t, func(t *rapid.T) {
		eng := &bench{}
		c := NewContext(eng)
		var row, foul everyColumn
		fill(t, reflect.ValueOf(&row).Elem())
		soil(unsafe.Pointer(&foul), unsafe.Sizeof(foul))
		copyInto(reflect.ValueOf(&foul).Elem(), reflect.ValueOf(&row).Elem())
		table.Write(c, row)
		first := eng.row
		table.Write(c, foul)
		if string(first) != string(eng.row) {
			t.Fatalf("padding reaches a row: %x %x", first, eng.row)
		}
		// Each column lies where it says.
		for i, col := range columns {
			field := reflect.ValueOf(&row).Elem().Field(i)
			there := reflect.New(col.Type)
			copy(unsafe.Slice((*byte)(there.UnsafePointer()), col.Type.Size()), eng.row[col.Offset:])
			if !same(there.Elem(), field) {
				t.Fatalf("column %s holds %v, not %v", col.Name, there.Elem(), field)
			}
		}
		back := table.Rows(&Final{Measured: kept{rows: [][]byte{first, eng.row}}})
		if len(back) != 2 || back[1].Time != 1 || back[1].Entity != 2 || !same(reflect.ValueOf(&back[1].Row).Elem(), reflect.ValueOf(&row).Elem()) {
			t.Fatalf("wrote %+v, read %+v", row, back)
		}
	})
}

func TestEachVisitsOneKindOnly(t *testing.T) {
	b := &Builder{prog: &Program{}}
	k, l := DefineKind[clock](b, "clock", ""), DefineKind[texts](b, "label", "")
	a, z := clock{1}, texts{Name: "x"}
	f := &Final{States: func(yield func(EntityID, uint16, unsafe.Pointer) bool) {
		_ = yield(1, k.id, unsafe.Pointer(&a)) && yield(2, l.id, unsafe.Pointer(&z)) && yield(3, k.id, unsafe.Pointer(&a))
	}}
	var ids []EntityID
	Each(f, k, func(id EntityID, s *clock) { ids = append(ids, id); s.Ticks++ })
	Each(f, l, func(id EntityID, s *texts) { ids = append(ids, id); s.N++ })
	if !slices.Equal(ids, []EntityID{1, 3, 2}) || a.Ticks != 3 || z.N != 1 {
		t.Errorf("visited %v: %+v %+v", ids, a, z)
	}
	if !k.Is(&Seen{Kind: k.id}) || k.Is(&Seen{Kind: l.id}) {
		t.Error("a kind does not know its own")
	}
}

type publisher struct {
	Engine
	body Body
}

func (p *publisher) Publish(_ Motion, b Body) { p.body = b }

func TestPublishedAttributesComeBack(t *testing.T) {
	b := &Builder{prog: &Program{}}
	pub := DefinePublic[small5](b)
	eng := &publisher{}
	c := NewContext(eng)
	want := small5{1, 2, 3, 4, 5, 6}
	pub.Publish(c, Motion{}, want)
	if got := pub.Of(&Seen{Public: eng.body}); got != want {
		t.Errorf("published %+v, seen %+v", want, got)
	}
	if got := pub.Of(&Seen{}); got != (small5{}) {
		t.Errorf("nothing published, seen %+v", got)
	}
	clean := eng.body
	fouled := new(small5)
	for i := range unsafe.Sizeof(*fouled) {
		*(*byte)(unsafe.Add(unsafe.Pointer(fouled), i)) = 0xff
	}
	f := reflect.ValueOf(fouled).Elem()
	for i := range f.NumField() {
		f.Field(i).Set(reflect.ValueOf(want).Field(i))
	}
	if pub.Publish(c, Motion{}, *fouled); eng.body != clean {
		t.Errorf("padding is published: %x, not %x", eng.body, clean)
	}
	if c.Publish(Motion{}); eng.body != (Body{}) {
		t.Error("a motion alone is published with attributes")
	}
}

func TestResultsAndPictures(t *testing.T) {
	p, err := program(func(b *Builder) { one(b) })
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Results(&Final{}); r != nil || err != nil {
		t.Errorf("no results: %v, %v", r, err)
	}
	if r, err := p.Pictures(&Final{}); r != nil || err != nil {
		t.Errorf("no pictures: %v, %v", r, err)
	}
	p, err = program(func(b *Builder) {
		one(b)
		DefineEvent[None](b, "tick", Planned)
		b.Results(func(f *Final) (map[string]any, error) { return map[string]any{"events": f.Events}, nil })
		b.Pictures(func(*Final) ([]Picture, error) { return []Picture{{Name: "map"}}, nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := p.Results(&Final{Events: 4})
	if text, err := json.Marshal(r); string(text) != `{"events":4}` || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	if pics, _ := p.Pictures(nil); len(pics) != 1 || pics[0].Name != "map" {
		t.Errorf("%v", pics)
	}
	if p.EventName(0) != "tick" || p.EventName(StartEvent) != "start" || p.EventName(7) != "event-7" {
		t.Error("events have other names")
	}
}

func TestNames(t *testing.T) {
	for p, want := range []string{"system", "interaction", "state", "planned", "statistics", "unknown"} {
		if got := Priority(p).String(); got != want {
			t.Errorf("priority %d is %q", p, got)
		}
	}
	for k, want := range []string{"counter", "gauge", "sample", "table"} {
		if got := SeriesKind(k).String(); got != want {
			t.Errorf("series %d is %q", k, got)
		}
	}
}

func TestMotion(t *testing.T) {
	at := At(Vec{X: 3})
	if at.Moving() || at.Stop != Never || at.From.X != 3 {
		t.Errorf("standing still is %+v", at)
	}
	if m := (Motion{Stop: 5, Vel: Vec{Z: 1}}); !m.Moving() {
		t.Error("a climb is no movement")
	}
	if m := (Motion{Start: 5, Stop: 5, Vel: Vec{Z: 1}}); m.Moving() {
		t.Error("a segment without length moves")
	}
}
