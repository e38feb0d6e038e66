package sim

import (
	"reflect"
	"unsafe"
)

// Kind is a kind of entities whose state is an S.
//
// S is plain data: booleans, numbers, strings, arrays, slices and structs of these. The engine
// copies, encodes and compares it without the author's help. Any other S must have, on *S, the
// methods of StateCodec.
type Kind[S any] struct {
	b  *Builder
	id uint16
}

// KindSet is a set of kinds, for queries; Kind.Set makes one, | joins them.
type KindSet uint64

// AnyKind is every kind.
const AnyKind = ^KindSet(0)

// maxKinds is how many kinds fit a KindSet.
const maxKinds = 64

// Set returns the set that holds this kind alone.
func (k Kind[S]) Set() KindSet { return 1 << k.id }

// StateCodec is the hook for states that are not plain data. AppendState appends a canonical
// encoding: equal states give equal bytes. LoadState replaces the state by what the bytes say.
type StateCodec interface {
	AppendState(dst []byte) []byte
	LoadState(data []byte) error
}

// Priority orders events at one entity and one time; the smaller runs first.
type Priority uint8

// The five classes (as in DEVS-style schedulers, system first, statistics last).
const (
	System Priority = iota
	Interaction
	State
	Planned
	Statistics
)

// String returns the name of the class.
func (p Priority) String() string {
	switch p {
	case System:
		return "system"
	case Interaction:
		return "interaction"
	case State:
		return "state"
	case Planned:
		return "planned"
	case Statistics:
		return "statistics"
	}
	return "unknown"
}

// None is the payload of an event that carries nothing.
type None struct{}

// Event is a type of event whose payload is a P: plain data of fixed size, without strings and
// slices. Payloads of at most 32 bytes travel inside the event; larger ones cost an allocation.
type Event[P any] struct {
	id   uint16
	prio Priority
	size uint32
	// runs are the stretches of memory that hold data, where P has padding between them.
	runs []run
}

// DefineKind declares a kind of entities.
func DefineKind[S any](b *Builder, name, doc string) Kind[S] {
	p := b.prog
	codec, err := newCodec(reflect.TypeFor[S]())
	if err != nil {
		b.fail("kind %s: state %v: %w", name, reflect.TypeFor[S](), err)
	}
	if len(p.Kinds) == maxKinds {
		b.fail("kind %s: a model has at most %d kinds", name, maxKinds)
	}
	for _, k := range p.Kinds {
		if k.Name == name {
			b.fail("kind %s is declared twice", name)
		}
	}
	info := &KindInfo{Name: name, Doc: doc, codec: codec, size: unsafe.Sizeof(*new(S)),
		newPage: func() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(make([]S, pageSize))) }}
	info.initial = info.NewStore()
	p.Kinds = append(p.Kinds, info)
	return Kind[S]{b, uint16(len(p.Kinds) - 1)}
}

// DefineEvent declares a type of event. The name appears in records and messages.
func DefineEvent[P any](b *Builder, name string, prio Priority) Event[P] {
	p := b.prog
	codec, err := newCodec(reflect.TypeFor[P]())
	switch {
	case err != nil:
		b.fail("event %s: payload %v: %w", name, reflect.TypeFor[P](), err)
	case !codec.plain():
		b.fail("event %s: payload %v must have a fixed size: no strings, slices or hooks", name, reflect.TypeFor[P]())
	case prio > Statistics:
		b.fail("event %s: priority %d: use one of the five classes", name, prio)
	case len(p.Events) == StartEvent:
		b.fail("event %s: a model has at most %d types of event", name, StartEvent)
	}
	size := unsafe.Sizeof(*new(P))
	p.Events = append(p.Events, &EventInfo{Name: name, Priority: prio, Size: int(size), codec: codec})
	e := Event[P]{id: uint16(len(p.Events) - 1), prio: prio, size: uint32(size)}
	if codec.fixed != int(size) {
		e.runs = codec.fields
	}
	return e
}

// Handle sets what entities of kind k do on event e. An event that reaches a kind without a handler
// for it ends the run with an error.
func Handle[S, P any](k Kind[S], e Event[P], h func(c *Context, s *S, p P)) {
	info := k.b.prog.Kinds[k.id]
	for len(info.Handlers) <= int(e.id) {
		info.Handlers = append(info.Handlers, nil)
	}
	if info.Handlers[e.id] != nil {
		k.b.fail("kind %s handles event %s twice", info.Name, k.b.prog.Events[e.id].Name)
	}
	info.Handlers[e.id] = func(c *Context, state unsafe.Pointer, m *Message) {
		if e.size <= InlinePayload {
			h(c, (*S)(state), *(*P)(unsafe.Pointer(&m.Body)))
			return
		}
		blob := c.eng.Payload(m)
		h(c, (*S)(state), *(*P)(unsafe.Pointer(unsafe.SliceData(blob))))
	}
}

// OnStart sets what an entity of kind k does first: at time 0 for the scenario's entities, at the
// time of spawning for the others, before every other event of that time (class system).
func OnStart[S any](k Kind[S], h func(c *Context, s *S)) {
	if k.b.prog.Kinds[k.id].Start != nil {
		k.b.fail("kind %s has two start handlers", k.b.prog.Kinds[k.id].Name)
	}
	k.b.prog.Kinds[k.id].Start = func(c *Context, state unsafe.Pointer, _ *Message) { h(c, (*S)(state)) }
}

// Add adds an entity of kind k at the start of the run. pos is where it is; without a space it is
// ignored. An entity is seen by others only once it publishes.
func Add[S any](k Kind[S], pos Vec, state S) EntityID {
	i := k.b.add(k.id, pos)
	*(*S)(k.b.prog.Kinds[k.id].initial.At(i)) = state
	return EntityID(len(k.b.prog.EntityKind))
}

func (b *Builder) add(kind uint16, pos Vec) uint32 {
	p := b.prog
	i := p.Kinds[kind].initial.Add()
	p.EntityKind = append(p.EntityKind, kind)
	p.EntityState = append(p.EntityState, i)
	if p.Space.Kind != NoSpace {
		p.EntityPos = append(p.EntityPos, pos)
	}
	return i
}

// SetWeight tells how much work an entity is expected to make, relative to 1; the first cut into
// regions balances the weights.
func (b *Builder) SetWeight(id EntityID, weight float64) {
	p := b.prog
	for len(p.EntityWeight) < len(p.EntityKind) {
		p.EntityWeight = append(p.EntityWeight, 1)
	}
	if id == 0 || int(id) > len(p.EntityKind) || !(weight >= 0) {
		b.wrong("weight %g of entity %d: the entity must exist and the weight be 0 or more", weight, id)
		return
	}
	p.EntityWeight[id-1] = float32(weight)
}

// Init schedules event e of an entity of the scenario for itself at time at.
func (e Event[P]) Init(b *Builder, id EntityID, at Time, payload P) {
	p := b.prog
	if id == 0 || int(id) > len(p.EntityKind) || at < 0 {
		b.wrong("initial event %s of entity %d at %v: the entity must exist and the time be 0 or later",
			p.Events[e.id].Name, id, at)
		return
	}
	if e.size > InlinePayload {
		b.fail("initial event %s: payloads of initial events are at most %d bytes", p.Events[e.id].Name, InlinePayload)
		return
	}
	ev := InitialEvent{At: at, Entity: id, Event: e.id}
	e.put(unsafe.Pointer(&ev.Body), &payload)
	p.Initial = append(p.Initial, ev)
}

// put copies a payload to zeroed memory.
func (e Event[P]) put(dst unsafe.Pointer, payload *P) { putPlain(dst, payload, e.runs) }

// putPlain copies a plain value to zeroed memory without its padding: what padding holds is chance, and
// payloads are part of the digest. runs is nil where there is none.
func putPlain[T any](dst unsafe.Pointer, v *T, runs []run) {
	if runs == nil {
		*(*T)(dst) = *v
		return
	}
	for _, r := range runs {
		copy(unsafe.Slice((*byte)(unsafe.Add(dst, r.offset)), r.size),
			unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(v), r.offset)), r.size))
	}
}
