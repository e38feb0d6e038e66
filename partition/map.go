package partition

import (
	"fmt"
	"math"
	"slices"

	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
)

// MaxRegions bounds the regions of a map.
const MaxRegions = 1 << 16

// maxDepth bounds the cuts from the root to a region.
const maxDepth = 64

// Map cuts a space into regions, numbered from 0 in the order of the tree: along each cut, the
// regions below it come first. It is immutable.
type Map struct {
	space   *spatial.Space
	version uint64
	nodes   []node
	boxes   []sim.Box // by region
}

// node is a cut of the tree, or a region. Below the cut lies the next node in the list, at or above
// it the node upper.
type node struct {
	axis   int8 // 0, 1, 2; leaf for a region
	upper  int32
	region int32
	cut    float64
}

const leaf = -1

// Space returns the space that the map cuts.
func (m *Map) Space() *spatial.Space { return m.space }

// Version tells maps of one run apart; a map that Build made has version 1.
func (m *Map) Version() uint64 { return m.version }

// WithVersion returns the same map under another version.
func (m *Map) WithVersion(v uint64) *Map {
	c := *m
	c.version = v
	return &c
}

// Len returns the number of regions.
func (m *Map) Len() int { return len(m.boxes) }

// Region returns the region that p lies in. Any position has one; p is taken in its canonical form.
func (m *Map) Region(p sim.Vec) int {
	p = m.space.Wrap(p)
	i := int32(0)
	for {
		n := &m.nodes[i]
		switch {
		case n.axis == leaf:
			return int(n.region)
		case coordinate(p, int(n.axis)) < n.cut:
			i++
		default:
			i = n.upper
		}
	}
}

// Box returns the half-open box of region i. Outer sides are infinite where the space has no end.
func (m *Map) Box(i int) sim.Box { return m.boxes[i] }

// DrawBox returns the box of region i clipped to the bounds of the space, for pictures. It has no
// width if the region lies outside. Bounds that cross the antimeridian do not clip longitudes.
func (m *Map) DrawBox(i int) sim.Box {
	b, bounds := m.boxes[i], m.space.Spec().Bounds
	for a := range 3 {
		lo, hi := coordinate(bounds.Min, a), coordinate(bounds.Max, a)
		if lo > hi {
			continue
		}
		setCoordinate(&b.Min, a, min(max(coordinate(b.Min, a), lo), hi))
		setCoordinate(&b.Max, a, min(max(coordinate(b.Max, a), lo), hi))
	}
	return b
}

// Gap returns a lower bound of the distance in metres between any points of regions i and j: 0 if
// they are one region or touch.
func (m *Map) Gap(i, j int) float64 {
	if i == j {
		return 0
	}
	return m.space.Gap(m.boxes[i], m.boxes[j])
}

// Neighbours returns the regions that touch region i, ascending.
func (m *Map) Neighbours(i int) []int {
	var out []int
	for j := range m.boxes {
		if j != i && m.Gap(i, j) == 0 {
			out = append(out, j)
		}
	}
	return out
}

// Near appends every region with a point within r metres of p, ascending; p's own is always among
// them. A region that is farther by no more than rounding may be among them too.
func (m *Map) Near(p sim.Vec, r float64, out []int) []int {
	w := walk{m: m, p: m.space.Wrap(p), r: max(r, 0), out: out}
	w.near(0, m.space.Everywhere())
	if len(w.out) == len(out) { // p or r is not a number
		w.out = append(w.out, m.Region(p))
	}
	return w.out
}

// walk is a search through the tree.
type walk struct {
	m   *Map
	p   sim.Vec
	r   float64
	box sim.Box
	out []int
}

// near visits the tree below node i, whose box is b.
func (w *walk) near(i int32, b sim.Box) {
	if !(w.m.space.BoxDistance(w.p, b) <= w.r) {
		return
	}
	n := &w.m.nodes[i]
	if n.axis == leaf {
		w.out = append(w.out, int(n.region))
		return
	}
	lower, upper := cutBox(b, n)
	w.near(i+1, lower)
	w.near(n.upper, upper)
}

// Touching appends every region that b touches, ascending. Here the sides of b belong to it, so a
// box without width touches the region of its point. B may run over the seam of a torus or the
// antimeridian; over a pole it touches all longitudes.
func (m *Map) Touching(b sim.Box, out []int) []int {
	first := len(out)
	var buffer [8]sim.Box
	pieces := m.space.Pieces(b, buffer[:0])
	for _, piece := range pieces {
		w := walk{m: m, box: piece, out: out}
		w.touching(0)
		out = w.out
	}
	if len(pieces) > 1 {
		slices.Sort(out[first:])
		out = append(out[:first], slices.Compact(out[first:])...)
	}
	return out
}

func (w *walk) touching(i int32) {
	n := &w.m.nodes[i]
	if n.axis == leaf {
		w.out = append(w.out, int(n.region))
		return
	}
	if coordinate(w.box.Min, int(n.axis)) < n.cut {
		w.touching(i + 1)
	}
	if coordinate(w.box.Max, int(n.axis)) >= n.cut {
		w.touching(n.upper)
	}
}

// cutBox returns the two parts of a box below and above a cut.
func cutBox(b sim.Box, n *node) (lower, upper sim.Box) {
	lower, upper = b, b
	setCoordinate(&lower.Max, int(n.axis), n.cut)
	setCoordinate(&upper.Min, int(n.axis), n.cut)
	return lower, upper
}

// finish computes what follows from the tree, and checks that it is one: every cut strictly inside
// the box that it cuts, and no part deeper than maxDepth.
func (m *Map) finish() error {
	m.boxes = nil
	next, err := m.fill(0, m.space.Everywhere(), 0)
	if err == nil && int(next) != len(m.nodes) {
		err = fmt.Errorf("%d nodes belong to no region", len(m.nodes)-int(next))
	}
	return err
}

func (m *Map) fill(i int32, b sim.Box, depth int) (next int32, err error) {
	if int(i) >= len(m.nodes) {
		return 0, fmt.Errorf("the tree ends after %d nodes with a part missing", len(m.nodes))
	}
	n := &m.nodes[i]
	if n.axis == leaf {
		n.region = int32(len(m.boxes))
		m.boxes = append(m.boxes, b)
		return i + 1, nil
	}
	if depth >= maxDepth {
		return 0, fmt.Errorf("more than %d cuts from the root to a region", maxDepth)
	}
	lo, hi := coordinate(b.Min, int(n.axis)), coordinate(b.Max, int(n.axis))
	if math.IsInf(n.cut, 0) || !(lo < n.cut && n.cut < hi) {
		return 0, fmt.Errorf("node %d: cut at %v is not inside %v to %v", i, n.cut, lo, hi)
	}
	lower, upper := cutBox(b, n)
	if n.upper, err = m.fill(i+1, lower, depth+1); err != nil {
		return 0, err
	}
	return m.fill(m.nodes[i].upper, upper, depth+1)
}

func coordinate(v sim.Vec, axis int) float64 {
	switch axis {
	case 0:
		return v.X
	case 1:
		return v.Y
	}
	return v.Z
}

func setCoordinate(v *sim.Vec, axis int, x float64) {
	switch axis {
	case 0:
		v.X = x
	case 1:
		v.Y = x
	default:
		v.Z = x
	}
}
