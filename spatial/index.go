package spatial

import (
	"cmp"

	"github.com/simnode/simnode/sim"
	"github.com/tidwall/rtree"
)

// Hit is an entity that a query found.
type Hit struct {
	ID sim.EntityID
	// Slot is what the entity was put with.
	Slot uint32
	// Dist is the distance from the centre of the query in metres; 0 in a box query.
	Dist float64
	// Pos is the position at the time of the query.
	Pos sim.Vec
}

// Index finds moving entities by where they are. It has one owner at a time and is not safe for
// concurrent use.
//
// Each entity stands in an R-tree (A. Guttman, "R-trees: a dynamic index structure for spatial
// searching", 1984) with the box that it sweeps until some time ahead, and is moved there only when
// that time has come. The tree proposes; Space.Position and Space.Distance decide. So the
// answer depends on the motions alone.
//
// Queries append to out and allocate nothing else once they have warmed up. The time of the calls
// never goes back.
type Index struct {
	s       *Space
	now     sim.Time // the latest of all calls
	tree    rtree.RTreeGN[float32, uint32]
	slots   map[sim.EntityID]uint32 // looked up, never iterated
	entries []entry
	free    []uint32
	due     dueHeap
	scale   float64 // a typical range of the queries, in metres
	query   query

	nearVisit func(min, max [2]float32, i uint32) bool
	boxVisit  func(min, max [2]float32, i uint32) bool
	bound     func(min, max [2]float32, i uint32, item bool) float64
	nextVisit func(min, max [2]float32, i uint32, d float64) bool
}

// entry is one entity of the index.
type entry struct {
	track   track
	box     rect // as it stands in the tree
	id      sim.EntityID
	until   sim.Time // the box holds the position until then
	seen    uint64   // the last query that looked at it
	slot    uint32
	heapPos int32 // where it stands in the heap of due times, or -1
	used    bool
	indexed bool
}

// NewIndex returns an empty index.
func NewIndex(s *Space) *Index {
	ix := &Index{s: s, slots: map[sim.EntityID]uint32{}, scale: defaultScale(s)}
	ix.nearVisit = func(_, _ [2]float32, i uint32) bool { ix.tryNear(i); return true }
	ix.boxVisit = func(_, _ [2]float32, i uint32) bool { ix.tryBox(i); return true }
	ix.bound = ix.lowerBound
	ix.nextVisit = ix.takeNearest
	return ix
}

// Len returns the number of entities.
func (ix *Index) Len() int { return len(ix.slots) }

// Put inserts an entity, or replaces its motion and slot. A motion that is not finite is kept
// but found by no query; CheckMotion tells beforehand.
func (ix *Index) Put(id sim.EntityID, slot uint32, m sim.Motion, now sim.Time) {
	ix.now = max(ix.now, now)
	i, known := ix.slots[id]
	if !known {
		i = ix.newEntry()
		ix.slots[id] = i
	}
	e := &ix.entries[i]
	e.id, e.slot, e.track = id, slot, ix.s.track(m)
	if !ix.s.finiteMotion(&m) {
		ix.drop(i)
		return
	}
	ix.place(i, known)
}

func (ix *Index) newEntry() uint32 {
	if n := len(ix.free); n > 0 {
		i := ix.free[n-1]
		ix.free = ix.free[:n-1]
		ix.entries[i] = entry{heapPos: -1, used: true}
		return i
	}
	ix.entries = append(ix.entries, entry{heapPos: -1, used: true})
	return uint32(len(ix.entries) - 1)
}

// Remove takes an entity out, if it is there.
func (ix *Index) Remove(id sim.EntityID) {
	i, ok := ix.slots[id]
	if !ok {
		return
	}
	ix.drop(i)
	delete(ix.slots, id)
	ix.entries[i] = entry{heapPos: -1}
	ix.free = append(ix.free, i)
}

// Motion returns what an entity was put with. The start is in canonical form.
func (ix *Index) Motion(id sim.EntityID) (sim.Motion, uint32, bool) {
	i, ok := ix.slots[id]
	if !ok {
		return sim.Motion{}, 0, false
	}
	return ix.entries[i].track.m, ix.entries[i].slot, true
}

// place brings the box of an entry up to date. An entity that was put before is likely to be put
// again, so its box gets room to spare, and stays while the entity does not outgrow it.
func (ix *Index) place(i uint32, again bool) {
	e := &ix.entries[i]
	horizon := ix.horizon(&e.track)
	swept := ix.s.swept(&e.track, ix.now, horizon)
	tight := swept.round()
	ix.schedule(i, horizon)
	if e.indexed && e.box.holds(tight) {
		return
	}
	if again {
		tight = ix.s.widened(swept, ix.scale/4, e.track.m.From.Y).round()
	}
	if e.indexed {
		ix.tree.Delete(e.box.min, e.box.max, i)
	}
	e.box, e.indexed = tight, true
	ix.tree.Insert(tight.min, tight.max, i)
}

// drop takes an entry out of the tree and the heap.
func (ix *Index) drop(i uint32) {
	e := &ix.entries[i]
	ix.schedule(i, sim.Never)
	if e.indexed {
		ix.tree.Delete(e.box.min, e.box.max, i)
		e.indexed = false
	}
}

// schedule sets the time until which the box of an entry holds.
func (ix *Index) schedule(i uint32, until sim.Time) {
	e := &ix.entries[i]
	e.until = until
	switch {
	case until == sim.Never && e.heapPos >= 0:
		ix.due.remove(ix.entries, int(e.heapPos))
	case until == sim.Never:
	case e.heapPos >= 0:
		ix.due.fix(ix.entries, int(e.heapPos))
	default:
		ix.due.push(ix.entries, i)
	}
}

// advance brings all boxes up to date for a query at now. Puts alone do not: what nobody asks for
// costs nothing.
func (ix *Index) advance(now sim.Time) {
	if now < ix.now {
		return
	}
	ix.now = now
	for len(ix.due) > 0 && ix.entries[ix.due[0]].until < now {
		ix.place(ix.due[0], false)
	}
}

// dueHeap is a binary heap of entries by until. Order among equals is free: it decides nothing but
// the shape of the tree.
type dueHeap []uint32

func (h *dueHeap) push(es []entry, i uint32) {
	es[i].heapPos = int32(len(*h))
	*h = append(*h, i)
	h.up(es, len(*h)-1)
}

func (h *dueHeap) remove(es []entry, pos int) {
	last := len(*h) - 1
	es[(*h)[pos]].heapPos = -1
	moved := (*h)[last]
	*h = (*h)[:last]
	if pos == last {
		return
	}
	(*h)[pos] = moved
	es[moved].heapPos = int32(pos)
	h.fix(es, pos)
}

func (h *dueHeap) fix(es []entry, pos int) {
	if !h.up(es, pos) {
		h.down(es, pos)
	}
}

func (h *dueHeap) up(es []entry, pos int) (moved bool) {
	for pos > 0 {
		parent := (pos - 1) / 2
		if es[(*h)[parent]].until <= es[(*h)[pos]].until {
			break
		}
		h.swap(es, parent, pos)
		pos, moved = parent, true
	}
	return moved
}

func (h *dueHeap) down(es []entry, pos int) {
	for {
		child := 2*pos + 1
		if child >= len(*h) {
			return
		}
		if r := child + 1; r < len(*h) && es[(*h)[r]].until < es[(*h)[child]].until {
			child = r
		}
		if es[(*h)[pos]].until <= es[(*h)[child]].until {
			return
		}
		h.swap(es, pos, child)
		pos = child
	}
}

func (h *dueHeap) swap(es []entry, a, b int) {
	(*h)[a], (*h)[b] = (*h)[b], (*h)[a]
	es[(*h)[a]].heapPos, es[(*h)[b]].heapPos = int32(a), int32(b)
}

func byDistance(a, b Hit) int {
	if a.Dist < b.Dist {
		return -1
	}
	if a.Dist > b.Dist {
		return 1
	}
	return cmp.Compare(a.ID, b.ID)
}

func byID(a, b Hit) int { return cmp.Compare(a.ID, b.ID) }
