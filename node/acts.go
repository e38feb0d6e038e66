package node

import (
	"fmt"
	"unsafe"

	"github.com/simnode/simnode/sim"
)

// What an entity may do: region is the sim.Engine of the handlers that run in it.

// Schedule implements sim.Engine.
func (r *region) Schedule(d sim.Duration, event uint16, p sim.Priority, b sim.Body) sim.Ref {
	if d <= 0 {
		r.checkDelay(d, event, r.self)
	}
	e := r.self
	e.seq++
	t := r.msg.Time.Add(d)
	key := sim.MakeKey(p, e.id)
	seq := e.seq<<16 | uint64(event)
	r.enqueue(t, key, seq, makePlace(r.id, r.slot, e.gen), b)
	return sim.Ref{At: t, Key: key, Seq: seq}
}

// enqueue queues an event of the region; an event at no time is dropped.
func (r *region) enqueue(t sim.Time, key, seq uint64, at place, b sim.Body) {
	if t == sim.Never {
		r.freeBlob(&sim.Message{Seq: seq, Body: b})
		return
	}
	if s := r.queue.slot(t); s != nil {
		s.Time, s.Key, s.Seq, s.Dst, s.Body = t, key, seq, uint64(at), b
		return
	}
	r.queue.pushLate(&sim.Message{Time: t, Key: key, Seq: seq, Dst: uint64(at), Body: b})
}

func (r *region) nextSeq() uint64 {
	r.self.seq++
	return r.self.seq
}

// checkDelay refuses a delay below 0 and counts those of 0: a chain of events without delay that has
// no end would stop time for ever.
func (r *region) checkDelay(d sim.Duration, event uint16, to *entity) {
	if d < 0 {
		r.breach("event %s scheduled %v in the past, for %v: the earliest time is now",
			r.world.prog.EventName(event), -d, r.msg.Time.Add(d))
	}
	if r.world.lookahead == 0 {
		r.checkChain(event)
	}
	to.zero++
	if to.zero > r.world.chainLimit {
		r.breach("more than %d events without delay were sent to entity %d at one time: an endless chain; give some event of the chain a delay",
			r.world.chainLimit, to.id)
	}
}

// checkChain counts all events without delay at one time. With lookahead 0 a chain may go round very
// many entities, so that none of them is sent many; there is one region then, so the count is the same
// however a run is carried out.
func (r *region) checkChain(event uint16) {
	if r.chainedAt != r.msg.Time {
		r.chainedAt, r.chained = r.msg.Time, 0
	}
	r.chained++
	if limit := 4*uint64(r.world.chainLimit) + 100*uint64(r.ents.len()); r.chained > limit {
		r.breach("more than %d events without delay were sent at one time, the last of them %s: an endless chain; give some event of the chain a delay",
			limit, r.world.prog.EventName(event))
	}
}

// breach ends the handler and the run.
func (r *region) breach(format string, args ...any) {
	panic(&sim.Breach{Reason: fmt.Sprintf(format, args...)})
}

// Again implements sim.Engine.
func (r *region) Again(d sim.Duration) sim.Ref {
	b := r.msg.Body
	if r.blobs.used > 0 && r.isLarge(r.msg) {
		data := r.Payload(r.msg)
		copy(r.NewPayload(&b, len(data)), data)
	}
	if r.msg.Event() == sim.StartEvent {
		r.breach("the start of an entity cannot run again: schedule an event of its own")
	}
	return r.Schedule(d, r.msg.Event(), r.msg.Priority(), b)
}

// Send implements sim.Engine.
func (r *region) Send(to sim.EntityID, d sim.Duration, event uint16, p sim.Priority, b sim.Body) {
	if to == r.self.id {
		r.Schedule(d, event, p, b)
		return
	}
	w := r.world
	if d < w.lookahead {
		r.breach("event %s sent to entity %d for %v, %v from now: less than the lookahead of %v that the model declares",
			w.prog.EventName(event), to, r.msg.Time.Add(d), d, w.lookahead)
	}
	if w.localSends {
		r.checkReach(to, event)
	}
	r.self.seq++
	r.route(to, r.msg.Time.Add(d), sim.MakeKey(p, r.self.id), r.self.seq<<16|uint64(event), b)
}

// route puts an event on its way to another entity.
func (r *region) route(to sim.EntityID, t sim.Time, key, seq uint64, b sim.Body) {
	w := r.world
	if region, away := w.dir.away(to, w); away {
		r.post(region, &sim.Message{Time: t, Key: key, Seq: seq, Dst: uint64(to), Body: b})
		return
	}
	at := place(to) - 1
	if w.regions > 1 || uint64(to)-1 >= uint64(w.dense) {
		at = w.dir.find(to)
	} // else one region, where the scenario's entities sit in slots by id
	switch {
	case at == nowhere:
		r.checkExists(to, uint16(seq))
	case at.slot() == maxSlots:
		// It was gone when the run was restored: the event is dropped when its time comes, here, since the region
		// that it was in may be too far away for what is sent from this one.
		at = makePlace(r.id, maxSlots, 1)
	case at.region() != r.id:
		there := at.region()
		if !w.isLocal(there) {
			at = place(to) // its place is looked up where it arrives
		}
		r.post(there, &sim.Message{Time: t, Key: key, Seq: seq, Dst: uint64(at), Body: b})
		return
	case t == r.msg.Time:
		r.touch(at.slot())
		r.checkDelay(0, uint16(seq), r.ents.at(at.slot()))
	}
	r.mark(at.slot())
	r.enqueue(t, key, seq, at, b)
}

// checkExists refuses an id that no entity can ever have had.
func (r *region) checkExists(to sim.EntityID, event uint16) {
	if to == 0 || to < 1<<60 {
		r.breach("event %s sent to entity %d, which never existed: the scenario's entities are 1 to %d",
			r.world.prog.EventName(event), to, r.world.dense)
	}
}

// post puts a message into the outbox of another region.
func (r *region) post(region int, m *sim.Message) {
	if m.Time == sim.Never {
		r.freeBlob(m)
		return
	}
	o := r.out[region]
	if r.blobs.used > 0 && r.isLarge(m) {
		o.blobs = append(o.blobs, r.blobs.take(m.Body.A))
		m.Body.A = uint64(len(o.blobs) - 1)
	}
	o.msgs = append(o.msgs, *m)
	if m.Time < o.least {
		o.least = m.Time
	}
}

// Cancel implements sim.Engine.
func (r *region) Cancel(ref sim.Ref) bool {
	if ref == (sim.Ref{}) {
		return false
	}
	m := sim.Message{Key: ref.Key}
	if m.Source() != r.self.id {
		r.breach("entity %d cannot cancel what entity %d scheduled", r.self.id, m.Source())
	}
	return ref.At != sim.Never && r.queue.cancel(eventID{ref.Key, ref.Seq}, ref.At, r.msg.Time)
}

// Spawn implements sim.Engine.
func (r *region) Spawn(kind uint16, pos sim.Vec) (sim.EntityID, unsafe.Pointer) {
	id := sim.ChildID(r.self.id, r.nextSeq())
	w := r.world
	if w.dir.spawned(id) {
		r.breach("the id of the spawned entity is in use: entity %d spawned it twice", r.self.id)
	}
	if w.space != nil {
		r.checkBirth(pos)
		pos = w.space.Wrap(pos)
	}
	depth := uint32(0)
	if r.kinds[kind].start != nil {
		depth = r.checkBirths()
	}
	slot := r.settle(id, kind, pos)
	e := r.ents.at(slot)
	store := r.kinds[kind].store
	e.state = store.Add()
	e.last, e.zero = r.msg.Time, depth
	w.dir.set(id, makePlace(r.id, slot, e.gen))
	if w.divided() {
		r.births = append(r.births, birth{id, r.msg.Time})
	}
	if r.kinds[kind].start != nil {
		r.queue.push(startMessage(r.msg.Time, makePlace(r.id, slot, e.gen), id))
	}
	return id, store.At(e.state)
}

// checkBirths counts the entities that spawned one another at one time as a chain of events without
// delay and returns its length.
func (r *region) checkBirths() uint32 {
	if r.self.zero >= r.world.chainLimit {
		r.breach("entities spawned one another more than %d times at one time: an endless chain; let an entity wait before it spawns",
			r.world.chainLimit)
	}
	return r.self.zero + 1
}

// startMessage is the first event of an entity.
func startMessage(t sim.Time, at place, id sim.EntityID) *sim.Message {
	return &sim.Message{Time: t, Key: sim.MakeKey(sim.System, id), Seq: sim.StartEvent, Dst: uint64(at)}
}

// settle gives a new entity a slot.
func (r *region) settle(id sim.EntityID, kind uint16, pos sim.Vec) uint32 {
	slot := r.ents.add()
	if slot >= maxSlots {
		r.breach("region %d is full: it holds %d entities", r.id, maxSlots)
	}
	if r.track != nil {
		r.grow(slot + 1)
		r.touch(slot)
	}
	e := r.ents.at(slot)
	*e = entity{id: id, kind: kind, rng: sim.NewRand(r.world.prog.Seed, id), gen: e.gen, flags: flagLive}
	if r.view != nil {
		r.place(slot, pos)
	}
	return slot
}

// Stop implements sim.Engine.
func (r *region) Stop() {
	if r.world.prog.StopEvery == 0 {
		r.breach("Stop: the model must declare with SetStopEvery when a run may be stopped")
	}
	r.stopAsked = true
}

// Remove implements sim.Engine.
func (r *region) Remove() { r.self.flags |= flagRemoving }
