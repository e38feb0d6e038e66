package node

import (
	"math"
	"slices"

	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
)

// view is the published world as one region sees it: its own entities and the ghosts of others', each
// by the last publication that is at least one lookahead old. It holds every entity that an entity of
// the region may be asked about, so that queries never leave the region.
type view struct {
	index *spatial.Index
	// seen holds what is visible, by slot of the index.
	seen []seenEntity
	free []uint32
	// known tells of each entity that the region is sent publications of: 1 + its slot in seen, or 0
	// while nothing of it is visible.
	known map[sim.EntityID]uint32
	// before, if not nil, is called before what is seen of an entity changes.
	before func(id sim.EntityID)
	// pending are publications that are not visible yet, a heap by (visible, id, seq).
	pending []publication

	// own holds what the region's entities published, by the index that pub gives for a slot (less 1);
	// pub ends with the last slot of an entity that published.
	own     []ownPublication
	ownFree []uint32
	pub     []uint32

	hits []spatial.Hit
	out  []sim.Seen
}

type seenEntity struct {
	motion sim.Motion
	public sim.Body
	kind   uint16
}

// publication is what an entity published, on its way to those who may see it.
type publication struct {
	visible sim.Time
	id      sim.EntityID
	seq     uint64
	motion  sim.Motion
	public  sim.Body
	kind    uint16
	// hide ends what was published before; final says that nothing will follow.
	hide, final bool
}

func (p *publication) before(o *publication) bool {
	if p.visible != o.visible {
		return p.visible < o.visible
	}
	if p.id != o.id {
		return p.id < o.id
	}
	return p.seq < o.seq
}

// ownPublication is the latest that an entity published, visible to others yet or not, and its
// boundary list: the regions that hold it or a ghost of it.
type ownPublication struct {
	motion sim.Motion
	slot   uint32
	hidden bool
	// settled says that the boundary list holds for as long as the motion does.
	settled bool
	// anchor is where the entity was when it published last, at anchorAt: bounds its next position.
	anchor   sim.Vec
	anchorAt sim.Time
	regions  regionSet
}

// regionSet is a set of regions.
type regionSet []uint64

func (s regionSet) has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }
func (s regionSet) add(i int)      { s[i>>6] |= 1 << (i & 63) }

func newView(w *world) *view {
	return &view{index: spatial.NewIndex(w.space), known: make(map[sim.EntityID]uint32)}
}

// place notes where an entity is that has not published.
func (r *region) place(slot uint32, pos sim.Vec) {
	for len(r.pos) <= int(slot) {
		r.pos = append(r.pos, sim.Vec{})
	}
	r.pos[slot] = pos
}

// position returns where the entity in a slot is at time t.
func (r *region) position(slot uint32, t sim.Time) sim.Vec {
	if i := r.view.published(slot); i > 0 {
		return r.world.space.Position(r.view.own[i-1].motion, t)
	}
	return r.pos[slot]
}

// Position implements sim.Engine.
func (r *region) Position() sim.Vec {
	r.needSpace("Position")
	return r.position(r.slot, r.msg.Time)
}

func (r *region) needSpace(what string) {
	if r.view == nil {
		r.breach("%s needs a space: the scenario or the model must set one", what)
	}
}

// Publish implements sim.Engine.
func (r *region) Publish(m sim.Motion, public sim.Body) {
	r.needSpace("Publish")
	now := r.msg.Time
	at := r.checkMotion(m, now)
	own := r.ownOf(r.slot)
	if r.world.limits.Speed > 0 {
		r.checkJump(own, at, now)
	}
	own.motion, own.hidden = m, false
	own.anchor, own.anchorAt = at, now
	if own.regions == nil {
		own.regions = make(regionSet, (r.world.regions+63)/64)
		r.world.reach(at, own.regions)
		own.regions.add(r.id)
	}
	own.settled = false
	r.announce(own, publication{
		visible: now.Add(r.world.lookahead), id: r.self.id, seq: r.nextSeq(),
		motion: m, public: public, kind: r.self.kind,
	})
}

// ownOf returns what the entity in a slot published, after making room for it if it is the first.
func (r *region) ownOf(slot uint32) *ownPublication {
	v := r.view
	if i := v.published(slot); i > 0 {
		return &v.own[i-1]
	}
	return v.adopt(ownPublication{slot: slot, anchor: r.pos[slot], anchorAt: r.msg.Time, motion: sim.At(r.pos[slot])})
}

// published returns 1 + the index of what the entity in a slot published, or 0 if it never did.
func (v *view) published(slot uint32) uint32 {
	if int(slot) < len(v.pub) {
		return v.pub[slot]
	}
	return 0
}

// adopt keeps what an entity of the region published.
func (v *view) adopt(own ownPublication) *ownPublication {
	i := uint32(len(v.own))
	if n := len(v.ownFree); n > 0 {
		i = v.ownFree[n-1]
		v.ownFree = v.ownFree[:n-1]
	} else {
		v.own = append(v.own, ownPublication{})
	}
	v.own[i] = own
	if n := int(own.slot) + 1; n > len(v.pub) {
		v.pub = slices.Grow(v.pub, n-len(v.pub))[:n]
	}
	v.pub[own.slot] = i + 1
	return &v.own[i]
}

// announce sends a publication to every region of the boundary list.
func (r *region) announce(own *ownPublication, p publication) {
	for i := range r.world.regions {
		switch {
		case !own.regions.has(i):
		case i == r.id:
			r.view.hear(&p)
		default:
			r.out[i].pubs = append(r.out[i].pubs, p)
		}
	}
	if r.world.lookahead == 0 {
		r.view.advance(r.msg.Time)
	}
}

// Hide implements sim.Engine.
func (r *region) Hide() {
	r.needSpace("Hide")
	i := r.view.published(r.slot)
	if i == 0 || r.view.own[i-1].hidden {
		return
	}
	own := &r.view.own[i-1]
	own.hidden = true
	r.announce(own, publication{visible: r.msg.Time.Add(r.world.lookahead), id: r.self.id, seq: r.nextSeq(), hide: true})
}

// unpublish ends all that a removed entity published.
func (r *region) unpublish(slot uint32, e *entity) {
	i := r.view.published(slot)
	if i == 0 {
		return
	}
	own := &r.view.own[i-1]
	e.seq++
	r.announce(own, publication{visible: r.msg.Time.Add(r.world.lookahead), id: e.id, seq: e.seq, hide: true, final: true})
	r.view.drop(slot)
}

// drop forgets what the entity in a slot published, as its owner.
func (v *view) drop(slot uint32) {
	i := v.pub[slot]
	v.own[i-1] = ownPublication{}
	v.ownFree = append(v.ownFree, i-1)
	v.pub[slot] = 0
}

// checkMotion refuses motions that no entity may have and returns where the motion is now.
func (r *region) checkMotion(m sim.Motion, now sim.Time) sim.Vec {
	s := r.world.space
	for _, x := range [...]float64{m.From.X, m.From.Y, m.From.Z, m.Vel.X, m.Vel.Y, m.Vel.Z} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			r.breach("published motion is not finite: from %v with velocity %v", m.From, m.Vel)
		}
	}
	if m.Start > now {
		r.breach("published motion starts at %v, after now: publish it when it starts", m.Start)
	}
	if limit := r.world.limits.Speed; limit > 0 {
		if v := s.Speed(m); v > limit*(1+1e-9) {
			r.breach("published speed %g m/s is above the %g m/s that the model declares", v, limit)
		}
	}
	return s.Position(m, now)
}

// checkJump refuses a position that the entity cannot have reached since it published last.
func (r *region) checkJump(own *ownPublication, at sim.Vec, now sim.Time) {
	limit := r.world.limits.Speed
	far := r.world.space.Distance(own.anchor, at)
	if reach := limit*now.Sub(own.anchorAt).Seconds() + r.world.tolerance; far > reach {
		r.breach("published position jumps %g m in %v, more than the declared speed of %g m/s allows; declare speed 0 if positions may jump",
			far, now.Sub(own.anchorAt), limit)
	}
}

// checkBirth refuses to spawn an entity where its parent is not: it could not see what is around it
// before the next cut.
func (r *region) checkBirth(pos sim.Vec) {
	for _, x := range [...]float64{pos.X, pos.Y, pos.Z} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			r.breach("entity spawned at %v, which is not finite", pos)
		}
	}
	if r.world.limits.Speed <= 0 {
		return
	}
	if far := r.world.space.Distance(r.Position(), pos); far > r.world.tolerance {
		r.breach("entity spawned %g m away from its parent: with a declared speed, entities are spawned where the parent is", far)
	}
}

// checkReach refuses a send to an entity that is not visible within the range.
func (r *region) checkReach(to sim.EntityID, event uint16) {
	v := r.view
	v.advance(r.msg.Time)
	far := math.Inf(1)
	if i := v.known[to]; i > 0 {
		far = r.world.space.Distance(r.Position(), r.world.space.Position(v.seen[i-1].motion, r.msg.Time))
	}
	if far > r.world.limits.Range {
		r.breach("event %s sent to entity %d, which is not visible within the range of %g m; the model declares that sends are local",
			r.world.prog.EventName(event), to, r.world.limits.Range)
	}
}

// hear takes in a publication that is to become visible.
func (v *view) hear(p *publication) {
	if _, ok := v.known[p.id]; !ok {
		v.known[p.id] = 0
	}
	v.pending = append(v.pending, *p)
	i := len(v.pending) - 1
	for i > 0 && v.pending[i].before(&v.pending[(i-1)/2]) {
		v.pending[i], v.pending[(i-1)/2] = v.pending[(i-1)/2], v.pending[i]
		i = (i - 1) / 2
	}
}

// advance makes visible what is due at time now.
func (v *view) advance(now sim.Time) {
	for len(v.pending) > 0 && v.pending[0].visible <= now {
		v.show(&v.pending[0], now)
		v.popPending()
	}
}

func (v *view) popPending() {
	last := len(v.pending) - 1
	v.pending[0] = v.pending[last]
	v.pending = v.pending[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			return
		}
		if c+1 < last && v.pending[c+1].before(&v.pending[c]) {
			c++
		}
		if !v.pending[c].before(&v.pending[i]) {
			return
		}
		v.pending[i], v.pending[c] = v.pending[c], v.pending[i]
		i = c
	}
}

func (v *view) show(p *publication, now sim.Time) {
	if v.before != nil {
		v.before(p.id)
	}
	i, ok := v.known[p.id]
	if !ok {
		return // the region left the boundary list meanwhile
	}
	if p.hide {
		v.blank(p.id, i)
		if p.final {
			delete(v.known, p.id)
		}
		return
	}
	v.put(p.id, i, seenEntity{p.motion, p.public, p.kind}, now)
}

// put makes an entity visible as s.
func (v *view) put(id sim.EntityID, i uint32, s seenEntity, now sim.Time) {
	if i == 0 {
		if n := len(v.free); n > 0 {
			i = v.free[n-1] + 1
			v.free = v.free[:n-1]
		} else {
			v.seen = append(v.seen, seenEntity{})
			i = uint32(len(v.seen))
		}
		v.known[id] = i
	}
	v.seen[i-1] = s
	v.index.Put(id, i-1, s.motion, now)
}

// blank makes an entity invisible, which stays known.
func (v *view) blank(id sim.EntityID, i uint32) {
	if i > 0 {
		v.index.Remove(id)
		v.free = append(v.free, i-1)
		v.known[id] = 0
	}
}

// forget drops a ghost.
func (v *view) forget(id sim.EntityID) {
	v.blank(id, v.known[id])
	delete(v.known, id)
}

// Near implements sim.Engine.
func (r *region) Near(radius float64, kinds sim.KindSet) []sim.Seen {
	r.needSpace("Near")
	if !(radius <= r.world.limits.Range) {
		r.breach("looked %g m around: more than the range of %g m that the model declares", radius, r.world.limits.Range)
	}
	v, now := r.view, r.msg.Time
	v.advance(now)
	v.hits = v.index.Near(now, r.Position(), radius, v.hits[:0])
	return r.seenOf(kinds)
}

// Nearest implements sim.Engine.
func (r *region) Nearest(k int, kinds sim.KindSet) []sim.Seen {
	r.needSpace("Nearest")
	v, now := r.view, r.msg.Time
	v.advance(now)
	pos := r.Position()
	k = min(k, len(v.seen))
	for ask := k + 1; ; ask *= 2 {
		v.hits = v.index.Nearest(now, pos, ask, v.hits[:0])
		full := len(v.hits) == ask
		for n := len(v.hits); n > 0 && v.hits[n-1].Dist > r.world.limits.Range; n-- {
			v.hits, full = v.hits[:n-1], false
		}
		if out := r.seenOf(kinds); len(out) >= k || !full {
			return out[:min(max(k, 0), len(out))]
		}
	}
}

// Within implements sim.Engine.
func (r *region) Within(box sim.Box, kinds sim.KindSet) []sim.Seen {
	r.needSpace("Within")
	v, now := r.view, r.msg.Time
	v.advance(now)
	pos := r.Position()
	v.hits = v.index.Box(now, box, v.hits[:0])
	kept := v.hits[:0]
	for _, h := range v.hits {
		if h.Dist = r.world.space.Distance(pos, h.Pos); h.Dist <= r.world.limits.Range {
			kept = append(kept, h)
		}
	}
	v.hits = kept
	return r.seenOf(kinds)
}

// seenOf turns hits into what the model sees.
func (r *region) seenOf(kinds sim.KindSet) []sim.Seen {
	v := r.view
	v.out = v.out[:0]
	for i := range v.hits {
		h := &v.hits[i]
		s := &v.seen[h.Slot]
		if h.ID == r.self.id || kinds&(1<<s.kind) == 0 {
			continue
		}
		v.out = append(v.out, sim.Seen{ID: h.ID, Distance: h.Dist, Position: h.Pos, Motion: &s.motion, Kind: s.kind, Public: s.public})
	}
	return v.out
}
