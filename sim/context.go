package sim

import (
	"reflect"
	"unsafe"
)

// Context is what a handler acts through. It is valid until the handler returns.
//
// A breach of the contract (an event in the past, a send below the lookahead, a query beyond the
// range) does not return: it ends the run with an error that names entity, kind, event, time and
// source line.
type Context struct {
	now  Time
	self EntityID
	rng  *Rand
	cur  *Message
	eng  Engine
}

// Ref names a scheduled event, for Cancel. It is plain data and may be kept in the state; the zero Ref
// names no event.
type Ref struct {
	// At is the time of the event.
	At Time
	// Key and Seq identify it among the entity's own.
	Key, Seq uint64
}

// Now returns the simulated time.
func (c *Context) Now() Time { return c.now }

// Self returns the id of the entity that handles the event.
func (c *Context) Self() EntityID { return c.self }

// Source returns the entity that sent the event being handled.
func (c *Context) Source() EntityID { return c.cur.Source() }

// Rand returns the entity's own random stream.
func (c *Context) Rand() *Rand { return c.rng }

// Schedule lets the entity itself handle e again after d >= 0.
func (e Event[P]) Schedule(c *Context, d Duration, payload P) Ref {
	return c.eng.Schedule(d, e.id, e.prio, e.body(c, &payload))
}

// ScheduleAt is Schedule at time t >= now.
func (e Event[P]) ScheduleAt(c *Context, t Time, payload P) Ref {
	return e.Schedule(c, t.Sub(c.now), payload)
}

// Send lets the entity to handle e after d, which must be at least the lookahead (unless to is the
// entity itself). An event to an entity that is gone is dropped and counted.
func (e Event[P]) Send(c *Context, to EntityID, d Duration, payload P) {
	c.eng.Send(to, d, e.id, e.prio, e.body(c, &payload))
}

func (e Event[P]) body(c *Context, payload *P) (b Body) {
	if e.size <= InlinePayload {
		e.put(unsafe.Pointer(&b), payload)
		return b
	}
	return e.largeBody(c, payload)
}

func (e Event[P]) largeBody(c *Context, payload *P) (b Body) {
	e.put(unsafe.Pointer(unsafe.SliceData(c.eng.NewPayload(&b, int(e.size)))), payload)
	return b
}

// Again schedules the event being handled once more for the entity itself after d, with the same
// payload.
func (c *Context) Again(d Duration) Ref { return c.eng.Again(d) }

// Cancel takes back an event that the entity scheduled for itself. It reports whether the event was
// still to come.
func (c *Context) Cancel(r Ref) bool { return c.eng.Cancel(r) }

// Publish makes the entity's motion visible to others from now + lookahead on, and is where the
// engine takes its position from. A motion that has begun before now is taken as it stands.
func (c *Context) Publish(m Motion) { c.eng.Publish(m, Body{}) }

// Hide ends the entity's publication: from now + lookahead on nobody sees it.
func (c *Context) Hide() { c.eng.Hide() }

// Position returns where the entity is now, by what it published or where it was added.
func (c *Context) Position() Vec { return c.eng.Position() }

// Seen is an entity as another one sees it: by what it published at least one lookahead ago, moved
// on to now.
type Seen struct {
	// ID is the entity.
	ID EntityID
	// Distance from the observer or the query's centre, in metres.
	Distance float64
	// Position now.
	Position Vec
	// Motion is the published segment; it is valid until the handler returns.
	Motion *Motion
	// Kind is the number of its kind; Kind.Is compares.
	Kind uint16
	// Public holds the published attributes; Public.Of reads them.
	Public Body
}

// Is reports whether s is of kind k.
func (k Kind[S]) Is(s *Seen) bool { return s.Kind == k.id }

// Near returns the visible entities of the given kinds within radius metres of the entity, itself
// left out, ordered by (distance, id). The radius must not exceed the declared range. The slice is
// valid until the next query or the end of the handler.
func (c *Context) Near(radius float64, kinds KindSet) []Seen { return c.eng.Near(radius, kinds) }

// Nearest returns the k visible entities of the given kinds that are nearest to the entity within
// the declared range, itself left out, ordered by (distance, id).
func (c *Context) Nearest(k int, kinds KindSet) []Seen { return c.eng.Nearest(k, kinds) }

// Within returns the visible entities of the given kinds that are in the box and within the declared
// range of the entity, itself left out, ordered by id; Distance is from the entity.
func (c *Context) Within(box Box, kinds KindSet) []Seen { return c.eng.Within(box, kinds) }

// Spawn adds an entity of kind k at pos, with the given state, now. Its OnStart handler runs at this
// time. Its id derives from the parent's id and sequence.
func Spawn[S any](c *Context, k Kind[S], pos Vec, state S) EntityID {
	id, p := c.eng.Spawn(k.id, pos)
	*(*S)(p) = state
	return id
}

// Remove takes the entity out of the run when the handler returns. Events still to come for it are
// dropped; others stop seeing it from now + lookahead on.
func (c *Context) Remove() { c.eng.Remove() }

// Stop ends the run at the next multiple of what Builder.SetStopEvery declared that lies after now, for
// all entities alike.
func (c *Context) Stop() { c.eng.Stop() }

// Public declares the attributes that entities publish beside their motion: plain data of at most 32
// bytes.
type Public[A any] struct {
	// runs are the stretches of memory that hold data, where A has padding between them.
	runs []run
}

// DefinePublic declares published attributes of type A.
func DefinePublic[A any](b *Builder) Public[A] {
	if unsafe.Sizeof(*new(A)) > InlinePayload {
		b.fail("published attributes %T: at most %d bytes", *new(A), InlinePayload)
	}
	b.mustBePlain("published attributes", *new(A))
	c, err := newCodec(reflect.TypeFor[A]())
	if err == nil && c.fixed != int(unsafe.Sizeof(*new(A))) {
		return Public[A]{c.fields}
	}
	return Public[A]{}
}

// Publish is Context.Publish with attributes.
func (p Public[A]) Publish(c *Context, m Motion, a A) {
	var b Body
	putPlain(unsafe.Pointer(&b), &a, p.runs)
	c.eng.Publish(m, b)
}

// Of returns the attributes that s published, or zero if it published none.
func (Public[A]) Of(s *Seen) A { return *(*A)(unsafe.Pointer(&s.Public)) }
