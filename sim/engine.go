package sim

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"
)

// Body is the payload of an event, in place.
type Body struct{ A, B, C, D uint64 }

// InlinePayload is the size of a Body: larger payloads are kept elsewhere.
const InlinePayload = 32

// StartEvent is the event type of OnStart.
const StartEvent = 1<<16 - 1

// TraceSeries is the series of the raw record of events.
const TraceSeries = 1<<16 - 1

// Message is an event on its way: 64 bytes without a pointer. The order of events is that of (Time,
// Key, Seq), compared as integers: time, priority, source entity, source sequence.
type Message struct {
	Time Time
	// Key is the priority in the top three bits and the source entity below.
	Key uint64
	// Seq is the source's sequence in the upper 48 bits and the type of event below.
	Seq uint64
	// Dst is the receiving entity, in a form that the engine chooses.
	Dst  uint64
	Body Body
}

// keyBits is how many bits of Message.Key hold the source.
const keyBits = 61

// MakeKey packs priority and source.
func MakeKey(p Priority, source EntityID) uint64 { return uint64(p)<<keyBits | uint64(source) }

// Source returns the entity that sent m.
func (m *Message) Source() EntityID { return EntityID(m.Key & (1<<keyBits - 1)) }

// Priority returns the class of m.
func (m *Message) Priority() Priority { return Priority(m.Key >> keyBits) }

// Event returns the type of m.
func (m *Message) Event() uint16 { return uint16(m.Seq) }

// Before reports whether m precedes o in the order of events.
func (m *Message) Before(o *Message) bool {
	if m.Time != o.Time {
		return m.Time < o.Time
	}
	if m.Key != o.Key {
		return m.Key < o.Key
	}
	return m.Seq < o.Seq
}

// ChildID returns the id of the entity that parent spawns with its sequence seq: 60 hashed bits, with
// the top bit of an id set, which no entity of the scenario has.
func ChildID(parent EntityID, seq uint64) EntityID {
	return EntityID(mix64(uint64(parent)*0x9e3779b97f4a7c15^mix64(seq))>>4 | 1<<(keyBits-1))
}

// Engine is what a Context acts on: one region of the engine that handles the event.
type Engine interface {
	Schedule(d Duration, event uint16, p Priority, b Body) Ref
	Again(d Duration) Ref
	Send(to EntityID, d Duration, event uint16, p Priority, b Body)
	Cancel(r Ref) bool
	// NewPayload makes room for a payload larger than a Body, zeroed, and notes it in b.
	NewPayload(b *Body, size int) []byte
	// Payload returns the payload of m that NewPayload made.
	Payload(m *Message) []byte
	Publish(m Motion, public Body)
	Hide()
	Position() Vec
	Near(radius float64, kinds KindSet) []Seen
	Nearest(k int, kinds KindSet) []Seen
	Within(box Box, kinds KindSet) []Seen
	Spawn(kind uint16, pos Vec) (EntityID, unsafe.Pointer)
	Remove()
	Stop()
	Observe(series uint16, op Op, v float64)
	// ObserveRow returns size bytes for a row of a table.
	ObserveRow(series uint16, size int) []byte
}

// NewContext returns a context of e, on cache lines of its own: it is written for every event, and a line
// shared with another region's context would travel between processors each time.
func NewContext(e Engine) *Context {
	padded := &struct {
		_ [128]byte
		Context
		_ [128]byte
	}{Context: Context{eng: e}}
	return &padded.Context
}

// Begin points the context at an event that is about to be handled.
func (c *Context) Begin(now Time, self EntityID, rng *Rand, m *Message) {
	c.now, c.self, c.rng, c.cur = now, self, rng, m
}

// Message returns the event being handled.
func (c *Context) Message() *Message { return c.cur }

// Handler handles one event; state points to the entity's state.
type Handler func(c *Context, state unsafe.Pointer, m *Message)

// KindInfo is a declared kind.
type KindInfo struct {
	Name, Doc string
	// Handlers by event type; nil or missing where there is none.
	Handlers []Handler
	// Start is the OnStart handler, or nil.
	Start Handler

	size    uintptr
	codec   *codec
	newPage func() unsafe.Pointer
	initial *Store
}

// EventInfo is a declared type of event.
type EventInfo struct {
	Name     string
	Priority Priority
	// Size of the payload in bytes.
	Size int

	codec *codec
}

// InitialEvent is an event of the scenario.
type InitialEvent struct {
	At     Time
	Entity EntityID
	Event  uint16
	Body   Body
}

// Program is a model set up for one run: what an engine executes.
type Program struct {
	Model  Model
	Seed   uint64
	End    Time
	Space  Space
	Limits Limits
	// StopEvery is between the times at which a run may be stopped by its entities; 0 means never.
	StopEvery Duration
	Kinds     []*KindInfo
	Events    []*EventInfo
	Series    []*SeriesInfo

	// The entities of the scenario, by id - 1: kind, place of the state in the kind's initial store,
	// position (empty without a space) and weight (empty if all weigh 1).
	EntityKind   []uint16
	EntityState  []uint32
	EntityPos    []Vec
	EntityWeight []float32
	// Initial events in the order in which they were declared.
	Initial []InitialEvent

	taken    bool
	results  func(*Final) (map[string]any, error)
	pictures func(*Final) ([]Picture, error)
}

// InitialStore gives the states that setup made. An engine may use the store as its own.
func (k *KindInfo) InitialStore() *Store { return k.initial }

// Take hands the entities and their states over to an engine: a program runs once, since the engine
// works on the states that setup made.
func (p *Program) Take() error {
	if p.taken {
		return errors.New("this program has run: set the model up again for another run")
	}
	p.taken = true
	return nil
}

// Release drops the columns of the entities, once an engine has placed them.
func (p *Program) Release() {
	p.EntityKind, p.EntityState, p.EntityPos, p.EntityWeight, p.Initial = nil, nil, nil, nil, nil
	for _, k := range p.Kinds {
		k.initial = nil
	}
}

// EventName returns the name of an event type.
func (p *Program) EventName(e uint16) string {
	switch {
	case e == StartEvent:
		return "start"
	case int(e) < len(p.Events):
		return p.Events[e].Name
	}
	return fmt.Sprintf("event-%d", e)
}

// ReadsStates reports whether the model makes results or pictures, for which it may look at final states.
func (p *Program) ReadsStates() bool { return p.results != nil || p.pictures != nil }

// Results returns the model's own results, or nil if it has none.
func (p *Program) Results(f *Final) (map[string]any, error) {
	if p.results == nil {
		return nil, nil
	}
	return p.results(f)
}

// Pictures returns the model's own pictures, or nil if it has none.
func (p *Program) Pictures(f *Final) ([]Picture, error) {
	if p.pictures == nil {
		return nil, nil
	}
	return p.pictures(f)
}

// AppendPayload appends the canonical encoding of a payload of m larger than a Body.
func (e *EventInfo) AppendPayload(dst []byte, payload []byte) []byte {
	return e.codec.append(dst, unsafe.Pointer(unsafe.SliceData(payload)))
}

// Op is what an observation does to its series.
type Op uint8

// OpAdd adds to a counter or gauge; OpSet sets a gauge or gives a sample's value; OpRow is a row.
const (
	OpAdd Op = iota
	OpSet
	OpRow
)

// Observation is one observed value, row or (series TraceSeries) handled event, with the key of the
// event in which it was made. Observations are in the order of (Time, Key, Seq, Index).
type Observation struct {
	Time Time
	// Key and Seq of the event, as in Message.
	Key, Seq uint64
	// Entity that handled the event.
	Entity EntityID
	Value  float64
	// Row of a table in the encoding that Column describes.
	Row []byte
	// Index counts the observations of one event.
	Index  uint32
	Series uint16
	// Kind of the entity.
	Kind uint16
	Op   Op
}

// Sink takes the observations of a run in order, from one goroutine. The slice and its rows are valid
// during the call. An error ends the run.
type Sink interface {
	Observe(obs []Observation) error
}

// Digest mixes words into a running 64-bit digest: each word is folded by one 64x64 to 128 bit
// multiplication, as in wyhash (Wang Yi, 2019).
func Digest(h, a, b uint64) uint64 {
	hi, lo := bits.Mul64(h^a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return hi ^ lo ^ h<<1
}

// DigestBytes folds bytes into a running digest.
func DigestBytes(h uint64, data []byte) uint64 {
	n := len(data)
	for len(data) >= 16 {
		h = Digest(h, word(data), word(data[8:]))
		data = data[16:]
	}
	var tail [16]byte
	copy(tail[:], data)
	return Digest(Digest(h, word(tail[:]), word(tail[8:])), uint64(n), 0)
}

func word(b []byte) uint64 {
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// Finish spreads a digest so that sums over entities keep their strength.
func Finish(h uint64, id EntityID) uint64 { return mix64(h ^ mix64(uint64(id))) }
