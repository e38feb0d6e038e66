package node

import (
	"github.com/simnode/simnode/sim"
)

// cut is done at time t, below which every event has run, while no region runs: entities that left
// their region go to the one they are in, with their pending events, and boundary lists are made
// anew.
func (c *conductor) cut(t sim.Time) {
	w := c.w
	for _, r := range w.rs {
		c.takeInbox(r)
	}
	if t >= c.reshaped.Add(w.cutEvery) || t >= c.stopAt {
		migrated, _ := w.reshape(t)
		c.migrated += migrated
		c.cuts++
		c.reshaped = t
		c.check(c.reopen(t))
	} // else it is for a checkpoint, and nothing changes hands: what was granted beyond it stays granted
	if c.saver.isDue(t) {
		c.save(t)
	}
	if w.atCut != nil {
		w.atCut(t)
	}
	c.setCut(t)
	c.changed()
}

// reopen tells the solver the next event of every region at a cut, where events have changed hands.
func (c *conductor) reopen(t sim.Time) error {
	return c.solver.Reopen(t, nil, c.nexts())
}

// nexts lists the next event of every region.
func (c *conductor) nexts() []sim.Time {
	next := make([]sim.Time, len(c.w.rs))
	for i, r := range c.w.rs {
		next[i] = r.next()
	}
	return next
}

// reshape does the share of the process in a cut at time t: boundary lists are made anew for the time
// until the next cut, and entities that are in another region than the one that owns them are handed
// over. What is for other members is put into their parcels. It returns how many entities changed region.
func (w *world) reshape(t sim.Time) (migrated int, out []*parcel) {
	if w.members != nil {
		out = make([]*parcel, w.members.n)
		for i := range out {
			out[i] = new(parcel)
		}
	}
	if w.space == nil {
		return 0, out
	}
	for _, r := range w.local() {
		r.view.advance(t)
	}
	leaving := make([][]leaver, w.regions)
	for _, r := range w.local() {
		// All regions first: an entity that has been handed over must not be looked at again.
		leaving[r.id] = w.renewBoundaries(r, t, out)
	}
	for _, r := range w.local() {
		migrated += len(leaving[r.id])
		w.migrate(r, leaving[r.id], out)
	}
	return migrated, out
}

// leaver is an entity that has left its region.
type leaver struct {
	slot uint32
	to   int
}

// migrate hands over the entities that leave a region.
func (w *world) migrate(r *region, leaving []leaver, out []*parcel) {
	if len(leaving) == 0 {
		return
	}
	to := make(map[uint32]*destination, len(leaving)) // looked up, never iterated
	for _, l := range leaving {
		to[l.slot] = w.handOver(r, l, out)
	}
	r.queue.extract(func(m *sim.Message, cancelled bool) bool {
		d, ok := to[place(m.Dst).slot()]
		if ok && r.ents.at(place(m.Dst).slot()).gen == place(m.Dst).gen() {
			r.forward(m, d, cancelled)
			return true
		}
		return false
	})
	for _, l := range leaving {
		r.vacate(l.slot)
	}
}

// destination is where an entity goes: a place in a region of this process, or the parcel of a member.
type destination struct {
	at     place
	parcel *parcel
	index  int
}

// handOver hands an entity over to the region that it is in. The slot here stays until its events have
// been forwarded.
func (w *world) handOver(r *region, l leaver, out []*parcel) *destination {
	r.touch(l.slot)
	id := r.ents.at(l.slot).id
	for i, p := range out {
		if i != w.members.me {
			p.moves = append(p.moves, move{id, l.to})
		}
	}
	if w.isLocal(l.to) {
		return &destination{at: r.handOver(l.slot, w.rs[l.to])}
	}
	p := out[w.members.owner[l.to]]
	p.arrivals = append(p.arrivals, r.pack(l.slot, l.to))
	w.dir.set(id, makePlace(l.to, 0, 0))
	return &destination{parcel: p, index: len(p.arrivals) - 1}
}

// handOver copies an entity with its state and publication to another region and returns its place
// there. The slot here stays until its events have been forwarded.
func (r *region) handOver(slot uint32, to *region) place {
	e := r.ents.at(slot)
	there := to.settle(e.id, e.kind, r.pos[slot])
	n := to.ents.at(there)
	gen := n.gen
	*n = *e
	n.gen = gen
	n.state = to.kinds[e.kind].store.Take(r.kinds[e.kind].store, e.state)
	if i := r.view.published(slot); i > 0 {
		own := r.view.own[i-1]
		own.slot = there
		to.view.adopt(own)
	}
	at := makePlace(to.id, there, gen)
	r.world.dir.set(e.id, at)
	return at
}

// forward puts a pending event into the queue of the region that its receiver went to. A cancelled one
// goes too, so that cancelling it once more gives the same answer there.
func (r *region) forward(m *sim.Message, d *destination, cancelled bool) {
	if d.parcel != nil {
		a := &d.parcel.arrivals[d.index]
		a.events = append(a.events, pendingEvent{*m, cancelled, nil})
		if r.blobs.used > 0 && r.isLarge(m) {
			a.events[len(a.events)-1].blob = r.blobs.take(m.Body.A)
		}
		return
	}
	to := r.world.rs[d.at.region()]
	n := *m
	n.Dst = uint64(d.at)
	if r.blobs.used > 0 && r.isLarge(m) {
		n.Body.A = to.blobs.put(r.blobs.take(m.Body.A))
	}
	to.queue.push(&n)
	if cancelled {
		to.queue.cancelled[eventID{m.Key, m.Seq}] = m.Time
	}
}

// vacate frees the slot of an entity that was handed over.
func (r *region) vacate(slot uint32) {
	if r.view.published(slot) > 0 {
		r.view.drop(slot)
	}
	r.ents.remove(slot)
}

// renewBoundaries makes the boundary lists of a region's published entities for the time until the next
// cut, shows them to the regions that come to them and takes them from those that left. It returns which
// entities have left the region.
func (w *world) renewBoundaries(r *region, t sim.Time, out []*parcel) (leaving []leaver) {
	want := make(regionSet, (w.regions+63)/64)
	var waiting map[sim.EntityID][]publication // looked up, never iterated
	for i := range r.view.own {
		own := &r.view.own[i]
		if own.regions == nil || own.settled {
			continue
		}
		at := w.space.Position(own.motion, t)
		to := w.pmap.Region(at)
		if to != r.id {
			leaving = append(leaving, leaver{own.slot, to})
		}
		clear(want)
		w.reach(at, want)
		want.add(to)
		own.settled = !own.motion.Moving() || own.motion.Stop <= t
		if sameRegions(want, own.regions) {
			continue
		}
		if waiting == nil {
			waiting = r.view.pendingByID()
		}
		w.renew(r, own, want, waiting, t, out)
	}
	return leaving
}

// pendingByID lists the publications that are not visible yet, by entity. The view of its owner has all
// those of an entity: an owner is in the boundary list.
func (v *view) pendingByID() map[sim.EntityID][]publication {
	list := make(map[sim.EntityID][]publication)
	for i := range v.pending {
		p := &v.pending[i]
		list[p.id] = append(list[p.id], *p)
	}
	return list
}

// renew changes the boundary list of one entity from own.regions to want.
func (w *world) renew(r *region, own *ownPublication, want regionSet, waiting map[sim.EntityID][]publication, t sim.Time, out []*parcel) {
	g := ghost{id: r.ents.at(own.slot).id, waiting: waiting[r.ents.at(own.slot).id]}
	if i := r.view.known[g.id]; i > 0 {
		g.visible, g.seen = true, r.view.seen[i-1]
	}
	for i := range w.regions {
		switch comes := want.has(i); {
		case comes == own.regions.has(i):
		case !w.isLocal(i):
			out[w.members.owner[i]].ghost(i, comes, &g)
		case comes:
			w.rs[i].view.welcome(&g, t)
		}
	}
	for i := range w.regions {
		if w.isLocal(i) && own.regions.has(i) && !want.has(i) {
			w.rs[i].view.forget(g.id)
		}
	}
	copy(own.regions, want)
}

// ghost is what a region that begins to show an entity must know of it.
type ghost struct {
	id      sim.EntityID
	visible bool
	seen    seenEntity
	waiting []publication
}

// welcome begins to show an entity.
func (v *view) welcome(g *ghost, t sim.Time) {
	v.known[g.id] = 0
	if g.visible {
		v.put(g.id, 0, g.seen, t)
	}
	for k := range g.waiting {
		v.hear(&g.waiting[k])
	}
}

func sameRegions(a, b regionSet) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
