package node

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/simnode/simnode/sim"
)

// region is a cell of space with its own entities, event queue and view of the world: a logical
// process. One worker at a time runs it; everything in it is that worker's until it reports.
type region struct {
	_     apart
	id    int
	world *world
	queue *queue
	ents  table
	kinds []regionKind
	ctx   *sim.Context

	// The event being handled: its message, slot, entity.
	msg  *sim.Message
	slot uint32
	self *entity
	// observed counts the observations of the event being handled.
	observed uint32
	// crowded says that so much has been observed that the region should report.
	crowded bool

	// out holds what is sent to each other region since the last report.
	out []*outbox
	// pieces hold what was sealed for each other member, births and deaths the spawned entities that
	// other members have not been told of; unused in a run of one process.
	pieces []*piece
	births []birth
	deaths []sim.EntityID
	// view is what the region sees of published entities; nil without a space.
	view *view
	// pos is the place of entities that have not published, by slot; empty without a space.
	pos []sim.Vec

	blobs blobs
	obs   *obsBatch

	// events handled, dropped (for entities that are gone), and the wall time spent, for the report.
	events, dropped uint64
	busy            int64
	load            load
	// gone folds the digests of the entities that were removed.
	gone uint64
	// now is the time of the last event handled.
	now sim.Time
	// warmed keeps the compiler from dropping the reads of warm.
	warmed uint32
	// chained counts the events without delay that were sent at time chainedAt, with lookahead 0.
	chained   uint64
	chainedAt sim.Time
	// changed are the slots whose entity, or whose pending events, changed since the last checkpoint; empty if
	// none are taken. due are those that the capture under way has yet to save as they were at its time; nil
	// without one. track is what else is to be known for checkpoints.
	changed, due slotSet
	track        *tracker
	// stopAsked says that an entity wants the run to end.
	stopAsked bool
	// failure is set when a handler broke the contract.
	failure *Failure

	// published for progress, read by others at any time.
	shownEvents atomic.Uint64
	_           apart
}

// apart keeps what one worker writes all the time off the cache lines that another one uses.
type apart [128]byte

type regionKind struct {
	handlers []sim.Handler
	start    sim.Handler
	store    *sim.Store
}

// outbox collects what goes to one other region: events, with their large payloads, and publications.
type outbox struct {
	_     apart
	msgs  []sim.Message
	blobs [][]byte
	pubs  []publication
	least sim.Time
	_     apart
}

func newOutbox() *outbox { return &outbox{least: sim.Never} }

// takeIn takes in what other regions sent, and empties the batches.
func (r *region) takeIn(in []*outbox) {
	for _, o := range in {
		for i := range o.msgs {
			m := &o.msgs[i]
			if len(o.blobs) > 0 && r.isLarge(m) {
				m.Body.A = r.blobs.put(o.blobs[m.Body.A])
			}
			r.queue.push(m)
			r.mark(place(m.Dst).slot())
		}
		for i := range o.pubs {
			r.view.hear(&o.pubs[i])
		}
		o.reset()
	}
}

func newRegion(w *world, id int) *region {
	r := &region{id: id, world: w, queue: newQueue(w.widest()), out: make([]*outbox, w.regions)}
	r.ctx = sim.NewContext(r)
	for i := range r.out {
		if i != id {
			r.out[i] = newOutbox()
		}
	}
	r.queue.warm = r.warm
	r.queue.dropped = func(m *sim.Message) { r.freeBlob(m) }
	for _, k := range w.prog.Kinds {
		r.kinds = append(r.kinds, regionKind{k.Handlers, k.Start, nil})
	}
	r.obs = new(obsBatch)
	r.load = newLoad(w.bins, w.prog.End)
	return r
}

// run handles events strictly below bound in order, up to the end of the day in which the budget of
// events is used up; where a day goes on and on, as at an instant with very many events, only up to
// eight times the budget.
func (r *region) run(bound sim.Time, budget uint64) {
	first := r.events
	last := first + 8*budget
	r.crowded = false
	defer r.explain()
	for r.events-first < budget {
		end := min(bound, r.queue.dayEnd())
		for m := r.queue.pop(end); m != nil; m = r.queue.pop(end) {
			r.handle(m)
			if r.crowded || r.events >= last {
				break
			}
		}
		if r.crowded || end == bound || r.queue.peek() >= bound {
			break
		}
	}
	r.msg = nil
	r.shownEvents.Store(r.events)
}

// warmFrom is from how many entities on their headers and states do not stay in the cache between
// events.
const warmFrom = 1 << 14

// warm reads the headers and then the states of the receivers of events that are about to be handled.
// Nothing depends on these reads, so the processor has many of them under way at once, where the
// events themselves would wait for one after the other.
func (r *region) warm(refs []ref) {
	if r.ents.used < warmFrom {
		return
	}
	q := r.queue
	sum := uint32(0)
	for _, ref := range refs {
		if slot := place(q.open.at(ref.i).Dst).slot(); slot < r.ents.used {
			sum += r.ents.at(slot).state
		}
	}
	for _, ref := range refs {
		if slot := place(q.open.at(ref.i).Dst).slot(); slot < r.ents.used {
			if e := r.ents.at(slot); e.flags&flagLive != 0 {
				sum += uint32(*(*byte)(r.kinds[e.kind].store.At(e.state)))
			}
		}
	}
	r.warmed = sum
}

// handle lets the receiver of m handle it.
func (r *region) handle(m *sim.Message) {
	to := place(m.Dst)
	slot := to.slot()
	if slot >= r.ents.used {
		r.drop(m)
		return
	}
	e := r.ents.at(slot)
	if e.gen != to.gen() {
		r.drop(m)
		return
	}
	if w := slot >> 6; int(w) < len(r.changed) { // touch, by hand
		r.changed[w] |= 1 << (slot & 63)
		if r.due != nil && r.due.has(slot) {
			r.save(slot)
		}
	}
	r.msg, r.slot, r.self, r.observed = m, slot, e, 0
	if m.Time != e.last {
		if m.Time < e.last {
			panic(pastEvent(e, m))
		}
		e.last, e.zero = m.Time, 0
	}
	r.now = m.Time
	if m.Time >= r.load.next {
		r.load.open(m.Time, r.events)
	}
	r.events++
	r.fold(e, m)
	r.ctx.Begin(m.Time, e.id, &e.rng, m)
	k := &r.kinds[e.kind]
	event := m.Event()
	if r.world.trace {
		r.observe(sim.TraceSeries, sim.OpAdd, 0, nil)
	}
	switch {
	case int(event) < len(k.handlers) && k.handlers[event] != nil:
		k.handlers[event](r.ctx, k.store.At(e.state), m)
	case event == sim.StartEvent && k.start != nil:
		k.start(r.ctx, k.store.At(e.state), m)
	default:
		panic(&sim.Breach{Reason: "kind " + r.world.prog.Kinds[e.kind].Name + " has no handler for this event"})
	}
	if e.flags&flagRemoving != 0 {
		r.remove(slot, e)
	}
	if r.blobs.used > 0 {
		r.freeBlob(m)
	}
}

// drop counts an event whose receiver is gone.
func (r *region) drop(m *sim.Message) {
	r.dropped++
	r.freeBlob(m)
}

// fold adds a handled event to the entity's running digest: key, type and payload, in the order in
// which the entity handled its events.
func (r *region) fold(e *entity, m *sim.Message) {
	b := m.Body
	if r.blobs.used > 0 && r.isLarge(m) {
		b = sim.Body{A: r.digestBlob(m)}
	}
	e.digest = foldEvent(e.digest, m, &b)
}

// foldEvent mixes an event into a digest: independent 64x64 to 128 bit products (as in wyhash), then
// one that chains.
func foldEvent(h uint64, m *sim.Message, b *sim.Body) uint64 {
	x := mum(uint64(m.Time)^0xa0761d6478bd642f, m.Key^0xe7037ed1a0b428db) ^
		mum(m.Seq^0x8ebc6af09c88c6e3, b.A^0x589965cc75374cc3)
	if b.B|b.C|b.D != 0 {
		x ^= mum(b.B^0x1d8e4e27c47d124f, b.C^0xeb44accab455d165) ^ b.D*0x9fb21c651e98df25
	}
	return mum(h^x^0x9e3779b97f4a7c15, x^0xd6e8feb86659fd93) + bits.RotateLeft64(h, 23)
}

func mum(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// remove takes an entity out of the region for good.
func (r *region) remove(slot uint32, e *entity) {
	if r.view != nil {
		r.unpublish(slot, e)
	}
	r.gone += r.entityDigest(e)
	r.kinds[e.kind].store.Free(e.state)
	r.world.dir.forget(e.id)
	if r.world.divided() && e.id >= 1<<60 {
		r.deaths = append(r.deaths, e.id)
	}
	r.ents.remove(slot)
}

// entityDigest covers the events that an entity handled, its final state, its random stream and its
// sequence. Digests of entities are summed, so that regions do not matter.
func (r *region) entityDigest(e *entity) uint64 {
	buf := e.rng.AppendState(r.world.scratch(r.id))
	buf = r.kinds[e.kind].store.Append(buf, e.state)
	h := sim.DigestBytes(e.digest^uint64(e.kind), buf)
	r.world.keepScratch(r.id, buf)
	return sim.Finish(sim.Digest(h, e.seq, 1), e.id)
}

// digest returns the sum over the region's entities, those gone included. A state whose AppendState
// panics is an error.
func (r *region) digest() (sum uint64, err error) {
	var last *entity
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("entity %d of kind %s: its state could not be encoded at the end of the run: %v",
				last.id, r.world.prog.Kinds[last.kind].Name, v)
		}
	}()
	sum = r.gone
	r.ents.each(func(_ uint32, e *entity) {
		last = e
		sum += r.entityDigest(e)
	})
	return sum, nil
}

// next returns the time of the next event.
func (r *region) next() sim.Time { return r.queue.peek() }
