package node

import (
	"context"
	"fmt"

	"github.com/simnode/simnode/sim"
)

// A restore reads the chunks of each region of a checkpoint and gives every entity, with what it has pending,
// to the region that it is in by the map of this run, be it here or at another member. How many regions and
// members there were does not matter.

// restorer takes in a checkpoint of time at.
type restorer struct {
	w  *world
	at sim.Time
	// out collects what goes to each other member; nil in a run of one process.
	out [][]byte
	// heard tells the publications of entities that are gone, which several regions have written, apart.
	heard map[heardID]bool
	// full are pieces of out that are to be handed over.
	full []givenPiece
}

type givenPiece struct {
	to   int
	data []byte
	last bool
}

type heardID struct {
	id  sim.EntityID
	seq uint64
}

// Records for other members.
const (
	givenEntity  byte = iota + 1 // region, a saved entity
	givenEvent                   // an event whose receiver is an id
	givenPlace                   // id, region of an entity of a third member
	givenHeard                   // a publication that is not visible yet
	givenRemnant                 // as in a chunk
)

// fullPiece is from how many bytes on what goes to a member is handed over.
const fullPiece = 256 << 10

// RegionChunks yields the chunks of one region of a checkpoint: the increments newest first, those of one in
// the order in which they were written.
type RegionChunks func(yield func(number uint64, kind byte, data []byte) error) error

// newEmptyWorld is newWorld without the scenario's entities and events: what a restore fills.
func (w *world) settleNothing() {
	for _, r := range w.local() {
		for k := range r.kinds {
			r.kinds[k].store = w.prog.Kinds[k].NewStore()
		}
		for range w.fixed(r.id) {
			r.ents.add()
		}
		if w.space != nil {
			r.pos = make([]sim.Vec, r.ents.used)
		}
	}
	dead := makePlace(w.local()[0].id, maxSlots, 1)
	for i := range w.dense {
		w.dir.set(sim.EntityID(i+1), dead)
	}
}

// fixed returns how many of the first slots of a region belong to entities of the scenario by their ids.
func (w *world) fixed(region int) uint64 {
	switch {
	case len(w.dir.starts) > 0:
		return w.dir.starts[region+1] - w.dir.starts[region]
	case w.regions == 1:
		return uint64(w.dense)
	}
	return 0
}

// fixedSlot returns the slot that belongs to an entity by its id.
func (w *world) fixedSlot(id sim.EntityID) (slot uint32, ok bool) {
	i := uint64(id) - 1
	switch {
	case i >= uint64(w.dense):
		return 0, false
	case len(w.dir.starts) > 0:
		return w.dir.computed(i).slot(), true
	}
	return uint32(i), w.regions == 1
}

// finishRestore frees the slots of entities that are gone and sets what follows from the time of the restore.
func (w *world) finishRestore(at sim.Time) {
	for _, r := range w.local() {
		for slot := range uint32(w.fixed(r.id)) {
			if r.ents.at(slot).flags&flagLive == 0 {
				r.ents.remove(slot)
			}
		}
		r.now = max(at-1, 0)
	}
}

func newRestorer(w *world, at sim.Time) *restorer {
	x := &restorer{w: w, at: at, heard: map[heardID]bool{}}
	if w.divided() {
		x.out = make([][]byte, w.members.n)
	}
	return x
}

// home returns the region that an entity is in.
func (x *restorer) home(s *saved) int {
	w := x.w
	switch {
	case w.regions == 1:
		return 0
	case w.space != nil && s.flags&savedPublished != 0:
		return w.pmap.Region(w.space.Position(s.motion, x.at))
	case w.space != nil:
		return w.pmap.Region(s.pos)
	case len(w.dir.starts) > 0 && uint64(s.id)-1 < uint64(w.dense):
		return w.dir.computed(uint64(s.id) - 1).region()
	}
	return int(uint64(s.id) % uint64(w.regions))
}

// finish makes last pieces of what is left for other members.
func (x *restorer) finish() {
	for m, data := range x.out {
		if m != x.w.members.me {
			x.full = append(x.full, givenPiece{m, data, true})
		}
	}
}

// pieces takes what is to be handed over.
func (x *restorer) pieces() []givenPiece {
	full := x.full
	x.full = nil
	return full
}

// taker takes in what a region of a checkpoint holds: an entity, then what it has pending. What is wrong is noted
// in the reader.
type taker interface {
	// entity takes in an entity; raw is its encoding.
	entity(d *reader, s *saved, raw []byte)
	// event takes in a pending event, whose Dst is the id of its receiver.
	event(d *reader, m *sim.Message, blob []byte, cancelled bool)
	// orphan takes in a pending event for nobody.
	orphan(t sim.Time)
	// rest takes in a record of what is neither entity nor event, when all entities and events are in.
	rest(d *reader)
}

// readRegion puts the increments of one region of a checkpoint at time at together. Each step of it is done by do.
func readRegion(ctx context.Context, kinds int, at sim.Time, chunks RegionChunks, to taker, do func(func() error) error) error {
	g := &regionReading{to: to, kinds: kinds, at: at, slots: map[uint32]*[pageOfSlots]slotRead{}}
	err := chunks(func(number uint64, kind byte, data []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return do(func() error { return g.chunk(number, kind, data) })
	})
	if err == nil {
		err = do(g.end)
	}
	return err
}

// now does a step.
func now(f func() error) error { return f() }

type regionReading struct {
	to     taker
	kinds  int
	at     sim.Time
	number uint64
	newest uint64
	// slots tells of each slot which increment it is from, and who is in it.
	slots map[uint32]*[pageOfSlots]slotRead
	// events of the present increment, rest of the newest.
	events, rest [][]byte
}

const pageOfSlots = 1 << 10

type slotRead struct {
	number uint64
	id     sim.EntityID // 0 if it is empty
	gen    uint32
}

func (g *regionReading) slot(slot uint32) *slotRead {
	p := g.slots[slot/pageOfSlots]
	if p == nil {
		p = new([pageOfSlots]slotRead)
		g.slots[slot/pageOfSlots] = p
	}
	return &p[slot%pageOfSlots]
}

func (g *regionReading) chunk(number uint64, kind byte, data []byte) error {
	if number != g.number {
		if g.number != 0 && number > g.number {
			return fmt.Errorf("increment %d of a region after %d: newer ones come first", number, g.number)
		}
		if err := g.flush(); err != nil {
			return err
		}
		g.number, g.newest = number, max(g.newest, number)
	}
	switch kind {
	case ChunkEntities:
		return g.entities(data)
	case ChunkEvents:
		g.events = append(g.events, append([]byte(nil), data...))
	case ChunkRegion:
		if number == g.newest {
			g.rest = append(g.rest, append([]byte(nil), data...))
		}
	default:
		return fmt.Errorf("chunk of kind %d", kind)
	}
	return nil
}

// entities takes in the entities of a chunk whose slots no newer increment has.
func (g *regionReading) entities(data []byte) error {
	d := &reader{data: data}
	for len(d.data) > 0 && d.err == nil {
		before := d.data
		s := d.saved(g.kinds)
		if d.err != nil {
			break
		}
		at := g.slot(s.slot)
		if at.number != 0 {
			continue
		}
		*at = slotRead{g.number, s.id, s.gen}
		if s.flags&savedLive != 0 {
			g.to.entity(d, &s, before[:len(before)-len(d.data)])
		}
	}
	return d.done()
}

// flush takes in the events of an increment that is complete.
func (g *regionReading) flush() error {
	events := g.events
	g.events = nil
	for _, data := range events {
		d := &reader{data: data}
		for len(d.data) > 0 && d.err == nil {
			var m sim.Message
			blob, cancelled := d.message(&m)
			if d.err != nil {
				break
			}
			g.event(d, &m, blob, cancelled)
		}
		if err := d.done(); err != nil {
			return err
		}
	}
	return nil
}

// event takes in a pending event if it counts.
func (g *regionReading) event(d *reader, m *sim.Message, blob []byte, cancelled bool) {
	to := place(m.Dst)
	at := g.slot(to.slot())
	switch {
	case at.number != g.number:
		// A newer increment says what is pending there.
	case m.Time < g.at:
		// Taken back, or for somebody who was gone: that its time passed changed nobody.
	case at.id == 0 || at.gen != to.gen():
		g.to.orphan(m.Time)
	default:
		m.Dst = uint64(at.id)
		g.to.event(d, m, blob, cancelled)
	}
}

// event gives a pending event to its receiver.
func (x *restorer) event(d *reader, m *sim.Message, blob []byte, cancelled bool) {
	region := x.w.dir.find(sim.EntityID(m.Dst)).region()
	if x.w.isLocal(region) {
		x.w.takeEvent(d, m, blob, cancelled)
		return
	}
	owner := x.w.members.owner[region]
	x.give(owner, appendMessage(append(x.out[owner], givenEvent), m, blob, cancelled))
}

// give sets what is to go to a member.
func (x *restorer) give(to int, data []byte) {
	if len(data) >= fullPiece {
		x.full = append(x.full, givenPiece{to, data, false})
		data = nil
	}
	x.out[to] = data
}

// entity gives an entity to the region that it is in; raw is its encoding.
func (x *restorer) entity(d *reader, s *saved, raw []byte) {
	w := x.w
	to := x.home(s)
	if w.isLocal(to) {
		w.takeEntity(d, s, to, x.at)
	} else {
		w.dir.set(s.id, makePlace(to, 0, 0))
	}
	for m := range x.out {
		switch {
		case m == w.members.me:
		case m == w.members.owner[to]:
			x.give(m, append(le.AppendUint16(append(x.out[m], givenEntity), uint16(to)), raw...))
		default:
			x.give(m, le.AppendUint16(le.AppendUint64(append(x.out[m], givenPlace), uint64(s.id)), uint16(to)))
		}
	}
}

// takeEntity takes in an entity that a region of this process owns from now on.
func (w *world) takeEntity(d *reader, s *saved, to int, at sim.Time) {
	r := w.rs[to]
	if old := w.dir.find(s.id); w.isHere(old, s.id) {
		d.fail("entity %d is there twice", s.id)
		return
	}
	slot, fixed := w.fixedSlot(s.id)
	if !fixed {
		slot = r.settle(s.id, s.kind, s.pos)
	} else if r.view != nil {
		r.place(slot, s.pos)
	}
	e := r.ents.at(slot)
	gen := e.gen
	*e = s.header
	e.gen, e.flags = gen, flagLive
	if err := e.rng.LoadState(s.stream); err != nil {
		d.fail("random stream of entity %d: %v", s.id, err)
		return
	}
	store := r.kinds[s.kind].store
	e.state = store.Add()
	if err := store.Load(e.state, s.state); err != nil {
		d.fail("entity %d: %v", s.id, err)
		return
	}
	w.dir.set(s.id, makePlace(to, slot, gen))
	if s.flags&savedPublished == 0 {
		return
	}
	if r.view == nil {
		d.fail("entity %d has published, and the program has no space", s.id)
		return
	}
	own := ownPublication{
		slot: slot, motion: s.motion, hidden: s.flags&savedHidden != 0, anchor: s.anchor, anchorAt: s.anchorAt,
		regions: make(regionSet, (w.regions+63)/64),
	}
	own.regions.add(to)
	r.view.adopt(own)
	r.view.welcome(&ghost{id: s.id, visible: s.flags&savedVisible != 0, seen: s.seen}, at)
}

// isHere reports whether an entity of this process sits at a place.
func (w *world) isHere(at place, id sim.EntityID) bool {
	if at == nowhere || at.region() >= w.regions || !w.isLocal(at.region()) {
		return false
	}
	r := w.rs[at.region()]
	return at.slot() < r.ents.used && r.ents.at(at.slot()).id == id && r.ents.at(at.slot()).flags&flagLive != 0
}

// takeEvent takes in a pending event for an entity of this process, whose id is its Dst.
func (w *world) takeEvent(d *reader, m *sim.Message, blob []byte, cancelled bool) {
	at := w.dir.find(sim.EntityID(m.Dst))
	if !w.isHere(at, sim.EntityID(m.Dst)) {
		d.fail("event at %v for entity %d, which is not there", m.Time, m.Dst)
		return
	}
	if err := w.checkBlob(m, blob); err != nil {
		d.err, d.data = err, nil
		return
	}
	r := w.rs[at.region()]
	if m.Dst = uint64(at); blob != nil {
		m.Body.A = r.blobs.put(append(alignedBytes(len(blob))[:0], blob...))
	}
	r.queue.push(m)
	if cancelled {
		r.queue.cancelled[eventID{m.Key, m.Seq}] = m.Time
	}
}

// orphan queues an event for nobody: it counts as dropped when its time comes.
func (x *restorer) orphan(t sim.Time) {
	r := x.w.local()[0]
	r.queue.push(&sim.Message{Time: t, Seq: sim.StartEvent, Dst: uint64(makePlace(r.id, maxSlots, 1))})
}

// end takes in the events of the oldest increment and the rest of the region.
func (g *regionReading) end() error {
	if err := g.flush(); err != nil {
		return err
	}
	for _, data := range g.rest {
		d := &reader{data: data}
		for len(d.data) > 0 && d.err == nil {
			g.to.rest(d)
		}
		if err := d.done(); err != nil {
			return err
		}
	}
	return nil
}

// rest takes in a record of what is neither entity nor event.
func (x *restorer) rest(d *reader) {
	w := x.w
	switch kind := d.u8(); kind {
	case savedCounts:
		c := d.counts()
		if d.err == nil {
			w.past.add(c)
		}
	case savedWaiting:
		p := d.publication(len(w.prog.Kinds))
		if d.err == nil {
			x.hear(&p)
		}
	case savedRemnant:
		m := d.remnant(len(w.prog.Kinds))
		if d.err == nil {
			w.takeRemnant(&m, x.at)
			for to := range x.out {
				if to != w.members.me {
					x.give(to, m.append(append(x.out[to], givenRemnant)))
				}
			}
		}
	case savedOrphan:
		if t := d.time(); d.err == nil {
			x.orphan(t)
		}
	default:
		if d.err == nil {
			d.fail("record of kind %d", kind)
		}
	}
}

// hear gives a publication that is not visible yet to the region that owns the entity, or, if that is gone, to
// all that may still see it.
func (x *restorer) hear(p *publication) {
	w := x.w
	at := w.dir.find(p.id)
	for to := range x.out {
		if to != w.members.me && (!w.known(p.id) || w.members.owner[at.region()] == to) {
			x.give(to, appendPublication(append(x.out[to], givenHeard), p))
		}
	}
	w.takeHeard(x.heard, p)
}

// known reports whether an entity exists, here or elsewhere, as far as the restore has come.
func (w *world) known(id sim.EntityID) bool {
	at := w.dir.find(id)
	return at != nowhere && at.slot() != maxSlots
}

// takeHeard takes in a publication that is not visible yet.
func (w *world) takeHeard(heard map[heardID]bool, p *publication) {
	if at := w.dir.find(p.id); w.known(p.id) {
		if w.isHere(at, p.id) && w.rs[at.region()].view != nil {
			w.rs[at.region()].view.hear(p)
		}
		return
	}
	if heard[heardID{p.id, p.seq}] {
		return
	}
	heard[heardID{p.id, p.seq}] = true
	for _, r := range w.local() {
		if r.view != nil {
			r.view.hear(p)
		}
	}
}

// takeRemnant shows what is still seen of an entity that is gone. Every region shows it: those that are too far
// away to ask about it lose nothing but a little time until it vanishes.
func (w *world) takeRemnant(m *remnant, at sim.Time) {
	for _, r := range w.local() {
		if r.view == nil {
			continue
		}
		if _, known := r.view.known[m.id]; !known {
			r.view.welcome(&ghost{id: m.id, visible: m.visible, seen: m.seen}, at)
		}
	}
}

// takeGiven takes in what another member restored for this one.
func (w *world) takeGiven(heard map[heardID]bool, from int, data []byte, at sim.Time) error {
	d := &reader{data: data}
	for len(d.data) > 0 && d.err == nil {
		w.given(d, heard, at)
	}
	if err := d.done(); err != nil {
		return fmt.Errorf("member %d restores the checkpoint at %v: %w", from, at, err)
	}
	return nil
}

func (w *world) given(d *reader, heard map[heardID]bool, at sim.Time) {
	kinds := len(w.prog.Kinds)
	switch kind := d.u8(); kind {
	case givenEntity:
		to := d.region(w.regions)
		s := d.saved(kinds)
		switch {
		case d.err != nil:
		case !w.isLocal(to) || s.flags&savedLive == 0:
			d.fail("entity %d for region %d", s.id, to)
		default:
			w.takeEntity(d, &s, to, at)
		}
	case givenEvent:
		var m sim.Message
		blob, cancelled := d.message(&m)
		if d.err == nil {
			w.takeEvent(d, &m, blob, cancelled)
		}
	case givenPlace:
		id, to := sim.EntityID(d.u64()), d.region(w.regions)
		if d.err == nil && !w.isLocal(to) {
			w.dir.set(id, makePlace(to, 0, 0))
		}
	case givenHeard:
		p := d.publication(kinds)
		if d.err == nil {
			w.takeHeard(heard, &p)
		}
	case givenRemnant:
		if d.u8() != savedRemnant {
			d.fail("a remnant without its mark")
		}
		m := d.remnant(kinds)
		if d.err == nil {
			w.takeRemnant(&m, at)
		}
	default:
		if d.err == nil {
			d.fail("record of kind %d", kind)
		}
	}
}
