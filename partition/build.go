package partition

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
)

// Point is an entity as the map sees it: where it is and how much work it makes, in any unit.
type Point struct {
	Pos    sim.Vec
	Weight float64
}

// fair is how far the lighter side of a cut may be from its share, as a part of the whole, before a
// shorter axis with a better cut is preferred.
const fair = 0.05

// Build cuts the space into regions of about equal weight. Each step halves the number of regions
// (rounding down below the cut) and cuts, across the longest side of the points, where the weight is
// nearest to that proportion. Cuts lie between points; only where all points of a part are in one
// place is the part itself cut. A part whose weights are all zero counts each point as equal. There may be
// fewer points than regions, or none.
//
// The errors: a number of regions outside 1 to MaxRegions, a position that the space does not
// allow, a weight that is negative or not finite, a space too small for so many cuts.
func Build(s *spatial.Space, points []Point, regions int) (*Map, error) {
	if regions < 1 || regions > MaxRegions {
		return nil, fmt.Errorf("%d regions: allowed is 1 to %d", regions, MaxRegions)
	}
	sorted := make([]Point, len(points))
	total := 0.0
	for i, p := range points {
		if err := s.CheckPosition(p.Pos); err != nil {
			return nil, fmt.Errorf("point %d: %w", i, err)
		}
		if !(p.Weight >= 0) || math.IsInf(p.Weight, 0) {
			return nil, fmt.Errorf("point %d: weight %v: use a finite number, 0 or more", i, p.Weight)
		}
		total += p.Weight
		sorted[i] = Point{s.Wrap(p.Pos), p.Weight}
	}
	if math.IsInf(total, 0) {
		return nil, fmt.Errorf("the sum of the weights of %d points is not finite: use a smaller unit", len(points))
	}
	b := builder{space: s, m: &Map{space: s, version: 1}}
	b.axes = 2
	if s.Spec().Kind != sim.Earth {
		b.axes = s.Spec().Dims
	}
	if err := b.split(sorted, s.Everywhere(), regions); err != nil {
		return nil, fmt.Errorf("%d regions: %w", regions, err)
	}
	if err := b.m.finish(); err != nil {
		return nil, fmt.Errorf("%d regions: %w", regions, err)
	}
	return b.m, nil
}

type builder struct {
	space *spatial.Space
	m     *Map
	axes  int
}

// split appends the tree that cuts box, which holds the points, into regions.
func (b *builder) split(points []Point, box sim.Box, regions int) error {
	if regions == 1 {
		b.m.nodes = append(b.m.nodes, node{axis: leaf})
		return nil
	}
	lower := regions / 2
	share := float64(lower) / float64(regions)
	c, ok := b.cutPoints(points, box, share)
	if !ok {
		c, ok = b.cutSpace(points, box, share)
	}
	if !ok {
		return fmt.Errorf("no room for so many cuts from %v to %v: use fewer regions", box.Min, box.Max)
	}
	i := len(b.m.nodes)
	b.m.nodes = append(b.m.nodes, node{axis: int8(c.axis), cut: c.at})
	sortAlong(points, c.axis)
	below, _ := slices.BinarySearchFunc(points, c.at, func(p Point, x float64) int {
		return cmp.Compare(coordinate(p.Pos, c.axis), x)
	})
	low, high := cutBox(box, &b.m.nodes[i])
	if err := b.split(points[:below], low, lower); err != nil {
		return err
	}
	return b.split(points[below:], high, regions-lower)
}

// cut is a place to cut, and how far the weight below it is from its share.
type cut struct {
	axis int
	at   float64
	off  float64
}

// cutPoints returns the cut between two points: across the longest side that has a fair one, else
// the fairest of any. It is false if all points are in one place.
func (b *builder) cutPoints(points []Point, box sim.Box, share float64) (best cut, ok bool) {
	if len(points) == 0 {
		return cut{}, false
	}
	low, high := points[0].Pos, points[0].Pos
	for _, p := range points {
		low = sim.Vec{X: min(low.X, p.Pos.X), Y: min(low.Y, p.Pos.Y), Z: min(low.Z, p.Pos.Z)}
		high = sim.Vec{X: max(high.X, p.Pos.X), Y: max(high.Y, p.Pos.Y), Z: max(high.Z, p.Pos.Z)}
	}
	for _, axis := range b.longestFirst(low, high) {
		c, found := cutAlong(points, box, axis, share)
		if found && (!ok || c.off < best.off) {
			best, ok = c, true
		}
		if ok && best.off <= fair {
			break
		}
	}
	return best, ok
}

// longestFirst returns the axes by the length of the sides of a box in metres.
func (b *builder) longestFirst(low, high sim.Vec) []int {
	var size [3]float64
	var axes []int
	for i := range b.axes {
		axes = append(axes, i)
		size[i] = coordinate(high, i) - coordinate(low, i)
	}
	if b.space.Spec().Kind == sim.Earth {
		size[0] *= math.Cos((low.Y + high.Y) / 2 * math.Pi / 180)
	}
	slices.SortStableFunc(axes, func(i, j int) int { return cmp.Compare(size[j], size[i]) })
	return axes
}

// cutAlong returns the cut across an axis whose lower side comes nearest to its share of the weight.
func cutAlong(points []Point, box sim.Box, axis int, share float64) (best cut, ok bool) {
	sortAlong(points, axis)
	total := 0.0
	for _, p := range points {
		total += p.Weight
	}
	equal := total == 0
	if equal {
		total = float64(len(points))
	}
	below := 0.0
	for i := 1; i < len(points); i++ {
		if below += points[i-1].Weight; equal {
			below = float64(i)
		}
		from, to := coordinate(points[i-1].Pos, axis), coordinate(points[i].Pos, axis)
		if from == to {
			continue
		}
		x := between(from, to)
		if !(coordinate(box.Min, axis) < x && x < coordinate(box.Max, axis)) {
			continue // between a point at the north pole and one a rounding away
		}
		if off := math.Abs(below/total - share); !ok || off < best.off {
			best, ok = cut{axis, x, off}, true
		}
	}
	return best, ok
}

// between returns a number above from and at most to, half way if there is one.
func between(from, to float64) float64 {
	if x := from/2 + to/2; x > from && x <= to {
		return x
	}
	return to
}

// cutSpace cuts a part of space itself, across its longest side that has room. What has no end is
// taken to end at the bounds of the space, or where the points are.
func (b *builder) cutSpace(points []Point, box sim.Box, share float64) (cut, bool) {
	bounds := b.space.Spec().Bounds
	low, high := box.Min, box.Max
	for i := range b.axes {
		lo, hi := coordinate(low, i), coordinate(high, i)
		first, last := coordinate(bounds.Min, i), coordinate(bounds.Max, i)
		if len(points) > 0 {
			x := coordinate(points[0].Pos, i)
			first, last = min(first, x), max(last, x)
		}
		room := last - first
		if math.IsInf(lo, 0) {
			if lo = first; lo >= hi {
				lo = hi - room
			}
		}
		if math.IsInf(hi, 0) {
			if hi = last; hi <= lo {
				hi = lo + room
			}
		}
		setCoordinate(&low, i, lo)
		setCoordinate(&high, i, hi)
	}
	for _, axis := range b.longestFirst(low, high) {
		lo, hi := coordinate(low, axis), coordinate(high, axis)
		x := lo + (hi-lo)*share
		if coordinate(box.Min, axis) < x && x < coordinate(box.Max, axis) {
			return cut{axis: axis, at: x}, true
		}
	}
	return cut{}, false
}

// sortAlong sorts by one coordinate, then by all else, so that the order does not depend on the order before.
func sortAlong(points []Point, axis int) {
	slices.SortFunc(points, func(p, q Point) int {
		return cmp.Or(
			cmp.Compare(coordinate(p.Pos, axis), coordinate(q.Pos, axis)),
			cmp.Compare(p.Pos.X, q.Pos.X), cmp.Compare(p.Pos.Y, q.Pos.Y), cmp.Compare(p.Pos.Z, q.Pos.Z),
			cmp.Compare(p.Weight, q.Weight))
	})
}
