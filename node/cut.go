package node

import (
	"github.com/simnode/simnode/sim"
)

// cut is done at time t, below which every event has run, while no region runs: entities that left
// their region go to the one they are in, with their pending events, and boundary lists are made
// anew.
func (c *conductor) cut(t sim.Time) {
	w := c.w
	for i, r := range w.rs {
		r.takeIn(c.inbox[i])
		c.spare = append(c.spare, c.inbox[i]...)
		c.inbox[i] = c.inbox[i][:0]
	}
	if w.space != nil {
		for _, r := range w.rs {
			r.view.advance(t)
		}
		c.migrated += w.migrate(t)
		w.renewBoundaries(t)
	}
	c.check(c.reopen(t))
	c.cuts++
	if w.atCut != nil {
		w.atCut(t)
	}
	c.setCut(t)
	c.changed()
}

// reopen tells the solver the next event of every region at a cut, where events have changed hands.
func (c *conductor) reopen(t sim.Time) error {
	next := make([]sim.Time, len(c.w.rs))
	for i, r := range c.w.rs {
		next[i] = r.next()
	}
	return c.solver.Reopen(t, nil, next)
}

// migrate hands over the entities that are in another region than the one that owns them.
func (w *world) migrate(t sim.Time) int {
	moved := 0
	for _, r := range w.rs {
		leaving := r.leaving(t)
		if len(leaving) == 0 {
			continue
		}
		moved += len(leaving)
		to := make(map[uint32]place, len(leaving)) // looked up, never iterated
		for _, l := range leaving {
			to[l.slot] = r.handOver(l.slot, w.rs[l.to])
		}
		r.queue.extract(func(m *sim.Message, cancelled bool) bool {
			p, ok := to[place(m.Dst).slot()]
			if ok && r.ents.at(place(m.Dst).slot()).gen == place(m.Dst).gen() {
				r.forward(m, p, cancelled)
				return true
			}
			return false
		})
		for _, l := range leaving {
			r.vacate(l.slot)
		}
	}
	return moved
}

// leaver is an entity that has left its region.
type leaver struct {
	slot uint32
	to   int
}

func (r *region) leaving(t sim.Time) (list []leaver) {
	for i := range r.view.own {
		own := &r.view.own[i]
		if own.regions == nil || own.settled {
			continue
		}
		if to := r.world.pmap.Region(r.world.space.Position(own.motion, t)); to != r.id {
			list = append(list, leaver{own.slot, to})
		}
	}
	return list
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
func (r *region) forward(m *sim.Message, at place, cancelled bool) {
	to := r.world.rs[at.region()]
	n := *m
	n.Dst = uint64(at)
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

// renewBoundaries makes the boundary lists of all published entities for the time until the next cut,
// shows them to the regions that come to them and takes them from those that left.
func (w *world) renewBoundaries(t sim.Time) {
	want := make(regionSet, (w.regions+63)/64)
	for _, r := range w.rs {
		var waiting map[sim.EntityID][]publication // looked up, never iterated
		for i := range r.view.own {
			own := &r.view.own[i]
			if own.regions == nil || own.settled {
				continue
			}
			clear(want)
			w.reach(w.space.Position(own.motion, t), want)
			want.add(r.id)
			own.settled = !own.motion.Moving() || own.motion.Stop <= t
			if sameRegions(want, own.regions) {
				continue
			}
			if waiting == nil {
				waiting = w.pendingByID()
			}
			w.renew(r, own, want, waiting, t)
		}
	}
}

// pendingByID lists the publications that are not visible yet, by entity, each once.
func (w *world) pendingByID() map[sim.EntityID][]publication {
	list := make(map[sim.EntityID][]publication)
	type key struct {
		id  sim.EntityID
		seq uint64
	}
	have := make(map[key]bool)
	for _, r := range w.rs {
		for _, p := range r.view.pending {
			if k := (key{p.id, p.seq}); !have[k] {
				have[k] = true
				list[p.id] = append(list[p.id], p)
			}
		}
	}
	return list
}

// renew changes the boundary list of one entity from own.regions to want.
func (w *world) renew(r *region, own *ownPublication, want regionSet, waiting map[sim.EntityID][]publication, t sim.Time) {
	id := r.ents.at(own.slot).id
	var from *view
	for i := range w.regions {
		if own.regions.has(i) {
			from = w.rs[i].view
			break
		}
	}
	for i := range w.regions {
		if want.has(i) && !own.regions.has(i) {
			w.rs[i].view.welcome(id, from, waiting[id], t)
		}
	}
	for i := range w.regions {
		if !want.has(i) && own.regions.has(i) {
			w.rs[i].view.forget(id)
		}
	}
	copy(own.regions, want)
}

// welcome begins to show an entity that another view knows.
func (v *view) welcome(id sim.EntityID, from *view, waiting []publication, t sim.Time) {
	v.known[id] = 0
	if i := from.known[id]; i > 0 {
		v.put(id, 0, from.seen[i-1], t)
	}
	for k := range waiting {
		v.hear(&waiting[k])
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
