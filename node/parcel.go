package node

import (
	"fmt"

	"github.com/simnode/simnode/sim"
)

// parcel is what a member hands to another one at a cut.
type parcel struct {
	// moves tell which entities changed region, so that messages find them.
	moves []move
	// ghosts are shown by regions of the receiver from now on; gone are no longer.
	ghosts []ghostIn
	gone   []goneFrom
	// arrivals are the entities that regions of the receiver own from now on.
	arrivals []packed
}

type move struct {
	id sim.EntityID
	to int
}

type ghostIn struct {
	region int
	ghost  *ghost
}

type goneFrom struct {
	region int
	id     sim.EntityID
}

// packed is an entity on its way to a region of another member.
type packed struct {
	to     int
	header entity
	pos    sim.Vec
	state  []byte
	// own is what it published, if it did.
	own       ownPublication
	published bool
	events    []pendingEvent
}

// pendingEvent is an event that goes with its receiver. A cancelled one goes too, so that cancelling it
// once more gives the same answer there.
type pendingEvent struct {
	msg       sim.Message
	cancelled bool
	blob      []byte
}

// ghost notes that a region of the receiver begins to show an entity, or shows it no longer.
func (p *parcel) ghost(region int, comes bool, g *ghost) {
	if comes {
		p.ghosts = append(p.ghosts, ghostIn{region, g})
		return
	}
	p.gone = append(p.gone, goneFrom{region, g.id})
}

// pack copies an entity with its state and publication.
func (r *region) pack(slot uint32, to int) packed {
	e := r.ents.at(slot)
	a := packed{to: to, header: *e, pos: r.pos[slot]}
	a.state = r.kinds[e.kind].store.Append(nil, e.state)
	r.kinds[e.kind].store.Free(e.state)
	if i := r.view.published(slot); i > 0 {
		a.own, a.published = r.view.own[i-1], true
	}
	return a
}

// append appends the encoding of the parcel.
func (p *parcel) append(dst []byte) []byte {
	dst = le.AppendUint32(dst, uint32(len(p.moves)))
	for _, m := range p.moves {
		dst = le.AppendUint64(dst, uint64(m.id))
		dst = le.AppendUint16(dst, uint16(m.to))
	}
	dst = le.AppendUint32(dst, uint32(len(p.ghosts)))
	for _, g := range p.ghosts {
		dst = appendGhost(dst, &g)
	}
	dst = le.AppendUint32(dst, uint32(len(p.gone)))
	for _, g := range p.gone {
		dst = le.AppendUint16(dst, uint16(g.region))
		dst = le.AppendUint64(dst, uint64(g.id))
	}
	dst = le.AppendUint32(dst, uint32(len(p.arrivals)))
	for i := range p.arrivals {
		dst = p.arrivals[i].append(dst)
	}
	return dst
}

const leastGhost = 2 + 8 + 1 + 4

func appendGhost(dst []byte, g *ghostIn) []byte {
	dst = le.AppendUint16(dst, uint16(g.region))
	dst = le.AppendUint64(dst, uint64(g.ghost.id))
	if g.ghost.visible {
		dst = append(dst, 1)
		dst = appendMotion(dst, &g.ghost.seen.motion)
		dst = appendBody(dst, &g.ghost.seen.public)
		dst = le.AppendUint16(dst, g.ghost.seen.kind)
	} else {
		dst = append(dst, 0)
	}
	dst = le.AppendUint32(dst, uint32(len(g.ghost.waiting)))
	for i := range g.ghost.waiting {
		dst = appendPublication(dst, &g.ghost.waiting[i])
	}
	return dst
}

func (a *packed) append(dst []byte) []byte {
	e := &a.header
	dst = le.AppendUint16(dst, uint16(a.to))
	dst = le.AppendUint64(dst, uint64(e.id))
	dst = le.AppendUint16(dst, e.kind)
	dst = appendBytes(dst, e.rng.AppendState(nil))
	dst = le.AppendUint64(dst, e.seq)
	dst = le.AppendUint64(dst, e.digest)
	dst = le.AppendUint64(dst, uint64(e.last))
	dst = le.AppendUint32(dst, e.zero)
	dst = appendVec(dst, a.pos)
	dst = appendBytes(dst, a.state)
	dst = a.appendOwn(dst)
	dst = le.AppendUint32(dst, uint32(len(a.events)))
	for i := range a.events {
		ev := &a.events[i]
		ev.msg.Dst = uint64(e.id)
		dst = appendMessage(dst, &ev.msg, ev.blob, ev.cancelled)
	}
	return dst
}

func (a *packed) appendOwn(dst []byte) []byte {
	if !a.published {
		return append(dst, 0)
	}
	flags := byte(1)
	if a.own.hidden {
		flags |= 2
	}
	if a.own.settled {
		flags |= 4
	}
	dst = append(dst, flags)
	dst = appendMotion(dst, &a.own.motion)
	dst = appendVec(dst, a.own.anchor)
	dst = le.AppendUint64(dst, uint64(a.own.anchorAt))
	for _, word := range a.own.regions {
		dst = le.AppendUint64(dst, word)
	}
	return dst
}

// unpack takes in the parcel of a member for the cut at time t. What is malformed is an error; the run
// cannot go on then.
func (w *world) unpack(from int, data []byte, t sim.Time) error {
	d := &reader{data: data}
	for range d.count(10) {
		id, to := sim.EntityID(d.u64()), d.region(w.regions)
		if d.err == nil && !w.isLocal(to) {
			w.dir.set(id, makePlace(to, 0, 0))
		}
	}
	for range d.count(leastGhost) {
		if w.readGhost(d, t); d.err != nil {
			break
		}
	}
	for range d.count(10) {
		region, id := d.localRegion(w), sim.EntityID(d.u64())
		if d.err != nil {
			break
		}
		w.rs[region].view.forget(id)
	}
	for range d.count(leastPacked) {
		if w.readPacked(d); d.err != nil {
			break
		}
	}
	if err := d.done(); err != nil {
		return fmt.Errorf("parcel of member %d for the cut at %v: %w", from, t, err)
	}
	return nil
}

// localRegion reads the number of a region of this process, which has a view.
func (d *reader) localRegion(w *world) int {
	region := d.region(w.regions)
	if d.err == nil && (!w.isLocal(region) || w.rs[region].view == nil) {
		d.fail("region %d is not one of this member's that shows entities", region)
	}
	return region
}

func (w *world) readGhost(d *reader, t sim.Time) {
	region := d.localRegion(w)
	g := ghost{id: sim.EntityID(d.u64())}
	if g.visible = d.u8() == 1; g.visible {
		g.seen = seenEntity{motion: d.motion(), public: d.body(), kind: d.kind(len(w.prog.Kinds))}
	}
	for range d.count(publicationSize) {
		g.waiting = append(g.waiting, d.publication(len(w.prog.Kinds)))
	}
	if d.err == nil {
		w.rs[region].view.welcome(&g, t)
	}
}

const leastPacked = 2 + 8 + 2 + 4 + 8 + 8 + 8 + 4 + 24 + 4 + 1 + 4

// readPacked takes in an entity that a region of this process owns from now on.
func (w *world) readPacked(d *reader) {
	to := d.localRegion(w)
	e := entity{id: sim.EntityID(d.u64()), kind: d.kind(len(w.prog.Kinds)), flags: flagLive}
	rng := d.bytes()
	e.seq, e.digest, e.last, e.zero = d.u64(), d.u64(), d.time(), d.u32()
	pos, state := d.vec(), d.bytes()
	if d.err != nil {
		return
	}
	if err := e.rng.LoadState(rng); err != nil {
		d.fail("random stream of entity %d: %v", e.id, err)
		return
	}
	r := w.rs[to]
	slot := r.settle(e.id, e.kind, pos)
	n := r.ents.at(slot)
	e.gen = n.gen
	store := r.kinds[e.kind].store
	e.state = store.Add()
	if err := store.Load(e.state, state); err != nil {
		d.fail("entity %d: %v", e.id, err)
		return
	}
	*n = e
	at := makePlace(to, slot, e.gen)
	w.dir.set(e.id, at)
	r.readOwn(d, slot)
	r.readEvents(d, at)
}

// readOwn takes in what an entity published.
func (r *region) readOwn(d *reader, slot uint32) {
	flags := d.u8()
	if flags == 0 {
		return
	}
	own := ownPublication{slot: slot, hidden: flags&2 != 0, settled: flags&4 != 0, motion: d.motion(), anchor: d.vec(), anchorAt: d.time()}
	own.regions = make(regionSet, (r.world.regions+63)/64)
	for i := range own.regions {
		own.regions[i] = d.u64()
	}
	if d.err == nil {
		r.view.adopt(own)
	}
}

// readEvents takes in the pending events of an entity.
func (r *region) readEvents(d *reader, at place) {
	for range d.count(leastMessage) {
		var m sim.Message
		blob, cancelled := d.message(&m)
		if d.err != nil {
			return
		}
		if err := r.world.checkBlob(&m, blob); err != nil {
			d.err, d.data = err, nil
			return
		}
		if m.Dst = uint64(at); blob != nil {
			m.Body.A = r.blobs.put(append(alignedBytes(len(blob))[:0], blob...))
		}
		r.queue.push(&m)
		if cancelled {
			r.queue.cancelled[eventID{m.Key, m.Seq}] = m.Time
		}
	}
}
