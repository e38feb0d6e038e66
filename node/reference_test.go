package node_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
)

// The reference is an engine as plain as can be: one list of events in order, every query over all
// entities. It shares no code with the engine but the digest of an event.
type reference struct {
	prog  *sim.Program
	space *spatial.Space
	ctx   *sim.Context
	queue []refEvent
	ents  map[sim.EntityID]*refEntity
	order []sim.EntityID
	large map[uint64][]byte
	next  uint64

	msg      sim.Message
	self     *refEntity
	index    uint32
	events   uint64
	gone     uint64
	observed []sim.Observation
	stop     bool
}

type refEvent struct {
	m  sim.Message
	to sim.EntityID
}

type refEntity struct {
	id     sim.EntityID
	kind   uint16
	rng    sim.Rand
	seq    uint64
	digest uint64
	store  *sim.Store
	state  uint32
	pos    sim.Vec
	moving bool
	motion sim.Motion
	dead   bool
	out    bool
	pubs   []refPub
}

// refPub is a publication, or the end of one.
type refPub struct {
	visible sim.Time
	hidden  bool
	motion  sim.Motion
	public  sim.Body
}

type refOutcome struct {
	digest, events uint64
	entities       int
	tape           tape
}

func runReference(p *sim.Program) refOutcome {
	r := &reference{prog: p, ents: make(map[sim.EntityID]*refEntity), large: make(map[uint64][]byte)}
	r.ctx = sim.NewContext(r)
	if p.Space.Kind != sim.NoSpace {
		r.space, _ = spatial.New(p.Space)
	}
	for i, kind := range p.EntityKind {
		var pos sim.Vec
		if r.space != nil {
			pos = r.space.Wrap(p.EntityPos[i])
		}
		e := r.add(sim.EntityID(i+1), kind, pos)
		e.store, e.state = p.Kinds[kind].InitialStore(), p.EntityState[i]
	}
	for _, ev := range p.Initial {
		e := r.ents[ev.Entity]
		e.seq++
		r.push(refEvent{sim.Message{Time: ev.At, Key: sim.MakeKey(p.Events[ev.Event].Priority, e.id), Seq: e.seq<<16 | uint64(ev.Event), Body: ev.Body}, e.id})
	}
	for len(r.queue) > 0 && r.queue[0].m.Time < p.End {
		if every := sim.Time(p.StopEvery); r.stop && r.queue[0].m.Time >= (r.msg.Time/every+1)*every {
			break
		}
		ev := r.queue[0]
		r.queue = r.queue[1:]
		r.handle(ev)
	}
	return r.finish()
}

func (r *reference) finish() refOutcome {
	out := refOutcome{digest: r.gone, events: r.events}
	for _, id := range r.order {
		if e := r.ents[id]; !e.dead {
			out.digest += r.digestOf(e)
			out.entities++
		}
	}
	slices.SortStableFunc(r.observed, func(a, b sim.Observation) int {
		switch {
		case a.Time != b.Time:
			return int(a.Time - b.Time)
		case a.Key != b.Key:
			return map[bool]int{true: -1, false: 1}[a.Key < b.Key]
		case a.Seq != b.Seq:
			return map[bool]int{true: -1, false: 1}[a.Seq < b.Seq]
		}
		return int(a.Index) - int(b.Index)
	})
	out.tape.Observe(r.observed)
	return out
}

func (r *reference) add(id sim.EntityID, kind uint16, pos sim.Vec) *refEntity {
	e := &refEntity{id: id, kind: kind, pos: pos, rng: sim.NewRand(r.prog.Seed, id)}
	r.ents[id] = e
	r.order = append(r.order, id)
	if r.prog.Kinds[kind].Start != nil {
		r.push(refEvent{sim.Message{Time: r.msg.Time, Key: sim.MakeKey(sim.System, id), Seq: sim.StartEvent}, id})
	}
	return e
}

func (r *reference) push(ev refEvent) {
	if ev.m.Time == sim.Never {
		return
	}
	i, _ := slices.BinarySearchFunc(r.queue, ev, func(a, b refEvent) int {
		if a.m.Before(&b.m) {
			return -1
		}
		return 1
	})
	r.queue = slices.Insert(r.queue, i, ev)
}

func (r *reference) handle(ev refEvent) {
	e := r.ents[ev.to]
	if e == nil || e.dead {
		return
	}
	r.msg, r.self, r.index = ev.m, e, 0
	r.events++
	b := ev.m.Body
	if r.isLarge(ev.m.Event()) {
		b = sim.Body{A: sim.DigestBytes(0, r.large[ev.m.Body.A])}
	}
	e.digest = node.FoldEvent(e.digest, &ev.m, &b)
	r.ctx.Begin(ev.m.Time, e.id, &e.rng, &r.msg)
	r.observe(sim.TraceSeries, sim.OpAdd, 0, nil)
	k := r.prog.Kinds[e.kind]
	if ev.m.Event() == sim.StartEvent {
		k.Start(r.ctx, e.store.At(e.state), &r.msg)
	} else {
		k.Handlers[ev.m.Event()](r.ctx, e.store.At(e.state), &r.msg)
	}
	if e.out {
		if len(e.pubs) > 0 {
			e.seq++
		}
		e.pubs = append(e.pubs, refPub{visible: r.visible(), hidden: true})
		r.gone += r.digestOf(e)
		e.dead = true
	}
}

func (r *reference) isLarge(event uint16) bool {
	return int(event) < len(r.prog.Events) && r.prog.Events[event].Size > sim.InlinePayload
}

func (r *reference) digestOf(e *refEntity) uint64 {
	buf := e.store.Append(e.rng.AppendState(nil), e.state)
	return sim.Finish(sim.Digest(sim.DigestBytes(e.digest^uint64(e.kind), buf), e.seq, 1), e.id)
}

func (r *reference) visible() sim.Time { return r.msg.Time.Add(r.prog.Limits.Lookahead) }

func (r *reference) Schedule(d sim.Duration, event uint16, p sim.Priority, b sim.Body) sim.Ref {
	r.self.seq++
	m := sim.Message{Time: r.msg.Time.Add(d), Key: sim.MakeKey(p, r.self.id), Seq: r.self.seq<<16 | uint64(event), Body: b}
	r.push(refEvent{m, r.self.id})
	return sim.Ref{At: m.Time, Key: m.Key, Seq: m.Seq}
}

func (r *reference) Again(d sim.Duration) sim.Ref {
	return r.Schedule(d, r.msg.Event(), r.msg.Priority(), r.msg.Body)
}

func (r *reference) Send(to sim.EntityID, d sim.Duration, event uint16, p sim.Priority, b sim.Body) {
	r.self.seq++
	r.push(refEvent{sim.Message{Time: r.msg.Time.Add(d), Key: sim.MakeKey(p, r.self.id), Seq: r.self.seq<<16 | uint64(event), Body: b}, to})
}

func (r *reference) Cancel(ref sim.Ref) bool {
	for i, ev := range r.queue {
		if ev.m.Key == ref.Key && ev.m.Seq == ref.Seq {
			r.queue = slices.Delete(r.queue, i, i+1)
			return true
		}
	}
	return false
}

func (r *reference) NewPayload(b *sim.Body, size int) []byte {
	r.next++
	b.A = r.next
	words := make([]uint64, (size+7)/8)
	r.large[r.next] = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:size]
	return r.large[r.next]
}

func (r *reference) Payload(m *sim.Message) []byte { return r.large[m.Body.A] }

func (r *reference) Publish(m sim.Motion, public sim.Body) {
	r.self.seq++
	r.self.motion, r.self.moving = m, true
	r.self.pubs = append(r.self.pubs, refPub{r.visible(), false, m, public})
}

func (r *reference) Hide() {
	if n := len(r.self.pubs); n == 0 || r.self.pubs[n-1].hidden {
		return
	}
	r.self.seq++
	r.self.pubs = append(r.self.pubs, refPub{visible: r.visible(), hidden: true})
}

func (r *reference) Position() sim.Vec {
	if r.self.moving {
		return r.space.Position(r.self.motion, r.msg.Time)
	}
	return r.self.pos
}

// look lists what the entity can see within a distance, by (distance, id).
func (r *reference) look(radius float64, kinds sim.KindSet) (list []sim.Seen) {
	pos := r.Position()
	for _, id := range r.order {
		e := r.ents[id]
		if id == r.self.id || kinds&(1<<e.kind) == 0 {
			continue
		}
		var now *refPub
		for i := range e.pubs {
			if e.pubs[i].visible <= r.msg.Time {
				now = &e.pubs[i]
			}
		}
		if now == nil || now.hidden {
			continue
		}
		at := r.space.Position(now.motion, r.msg.Time)
		if d := r.space.Distance(pos, at); d <= radius {
			m := now.motion
			list = append(list, sim.Seen{ID: id, Distance: d, Position: at, Motion: &m, Kind: e.kind, Public: now.public})
		}
	}
	slices.SortFunc(list, func(a, b sim.Seen) int {
		if a.Distance < b.Distance || a.Distance == b.Distance && a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list
}

func (r *reference) Near(radius float64, kinds sim.KindSet) []sim.Seen { return r.look(radius, kinds) }

func (r *reference) Nearest(k int, kinds sim.KindSet) []sim.Seen {
	list := r.look(r.prog.Limits.Range, kinds)
	return list[:min(k, len(list))]
}

func (r *reference) Within(box sim.Box, kinds sim.KindSet) (list []sim.Seen) {
	for _, s := range r.look(r.prog.Limits.Range, kinds) {
		if r.space.Contains(box, s.Position) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b sim.Seen) int { return map[bool]int{true: -1, false: 1}[a.ID < b.ID] })
	return list
}

func (r *reference) Spawn(kind uint16, pos sim.Vec) (sim.EntityID, unsafe.Pointer) {
	r.self.seq++
	if r.space != nil {
		pos = r.space.Wrap(pos)
	}
	e := r.add(sim.ChildID(r.self.id, r.self.seq), kind, pos)
	e.store = r.prog.Kinds[kind].NewStore()
	e.state = e.store.Add()
	return e.id, e.store.At(e.state)
}

func (r *reference) Stop() { r.stop = true }

func (r *reference) Remove() { r.self.out = true }

func (r *reference) Observe(series uint16, op sim.Op, v float64) { r.observe(series, op, v, nil) }

func (r *reference) ObserveRow(series uint16, size int) []byte {
	row := make([]byte, size)
	r.observe(series, sim.OpRow, 0, row)
	return row
}

func (r *reference) observe(series uint16, op sim.Op, v float64, row []byte) {
	r.observed = append(r.observed, sim.Observation{Time: r.msg.Time, Key: r.msg.Key, Seq: r.msg.Seq, Entity: r.self.id,
		Value: v, Row: row, Index: r.index, Series: series, Kind: r.self.kind, Op: op})
	r.index++
}

func mustRun(t testing.TB, p *sim.Program, o node.Options) *node.Outcome {
	t.Helper()
	out, err := node.Run(context.Background(), p, o)
	if err != nil {
		t.Fatalf("%d regions, %d workers: %v", o.Regions, o.Workers, err)
	}
	return out
}

var _ = fmt.Sprint
var _ = math.Pi
