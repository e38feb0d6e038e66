package spatial

import (
	"math"
	"slices"

	"github.com/simnode/simnode/sim"
)

// query is what the running query knows.
type query struct {
	now    sim.Time
	center sim.Vec
	radius float64
	box    sim.Box
	k      int
	found  int // hits of this query
	number uint64
	out    []Hit
	// On the earth: cosine of the centre's latitude, its direction, and the square of a chord that
	// no point in range exceeds.
	cos   float64
	up    vec3
	chord float64
}

// Near appends the entities no farther than radius metres from center at now, ordered by
// (distance, id).
func (ix *Index) Near(now sim.Time, center sim.Vec, radius float64, out []Hit) []Hit {
	ix.learn(radius)
	ix.begin(now, center, out)
	ix.query.radius = radius
	if ix.s.spec.Kind == sim.Earth {
		chord := 2*math.Sin(min(radius/EarthRadius, math.Pi)/2) + 1e-12
		ix.query.chord = chord * chord
	}
	if now < ix.now {
		ix.all(ix.nearVisit)
	} else {
		ix.search(ix.reach(ix.query.center, radius), ix.nearVisit)
	}
	return ix.finish(len(out), byDistance)
}

// Box appends the entities that are in b at now, ordered by id.
func (ix *Index) Box(now sim.Time, b sim.Box, out []Hit) []Hit {
	ix.begin(now, sim.Vec{}, out)
	ix.query.box = b
	if now < ix.now {
		ix.all(ix.boxVisit)
	} else {
		ix.search(ix.s.covered(&b), ix.boxVisit)
	}
	return ix.finish(len(out), byID)
}

// Nearest appends the k entities nearest to center at now, ordered by (distance, id), or all if there
// are fewer.
func (ix *Index) Nearest(now sim.Time, center sim.Vec, k int, out []Hit) []Hit {
	if k <= 0 {
		return out
	}
	if now < ix.now {
		first := len(out)
		out = ix.Near(now, center, math.Inf(1), out)
		return out[:min(first+k, len(out))]
	}
	ix.begin(now, center, out)
	ix.query.k, ix.query.found = k, 0
	ix.tree.Nearby(ix.bound, ix.nextVisit)
	first := len(out)
	out = ix.finish(first, byDistance)
	if out = out[:min(first+k, len(out))]; len(out) > first {
		ix.learn(out[len(out)-1].Dist)
	}
	return out
}

func (ix *Index) begin(now sim.Time, center sim.Vec, out []Hit) {
	ix.advance(now)
	center = ix.s.Wrap(center)
	q := &ix.query
	q.now, q.center, q.out = now, center, out
	q.number++
	if ix.s.spec.Kind == sim.Earth {
		q.cos = cosLatitude(center.Y)
		q.up, _, _ = frame(center.X, center.Y)
	}
}

func (ix *Index) finish(first int, order func(a, b Hit) int) []Hit {
	out := ix.query.out
	ix.query.out = nil
	slices.SortFunc(out[first:], order)
	return out
}

// all visits every entry that a query can find: the slow way, for a time that has gone by.
func (ix *Index) all(visit func(min, max [2]float32, i uint32) bool) {
	for i := range ix.entries {
		if ix.entries[i].indexed {
			visit([2]float32{}, [2]float32{}, uint32(i))
		}
	}
}

// search visits the entries whose boxes meet a, with its images on the circles.
func (ix *Index) search(a area, visit func(min, max [2]float32, i uint32) bool) {
	var images [2]float64
	for i := range 2 {
		ax := &ix.s.axes[i]
		switch {
		case !ax.periodic:
		case !(a.hi[i]-a.lo[i] < ax.period):
			a.lo[i], a.hi[i] = math.Inf(-1), math.Inf(1)
		default:
			images[i] = 1
			shift := ax.wrap(a.lo[i]/2+a.hi[i]/2) - (a.lo[i]/2 + a.hi[i]/2)
			a.lo[i] += shift
			a.hi[i] += shift
		}
	}
	for x := -images[0]; x <= images[0]; x++ {
		for y := -images[1]; y <= images[1]; y++ {
			if b, ok := ix.s.image(a, x, y); ok {
				r := b.round()
				ix.tree.Search(r.min, r.max, visit)
			}
		}
	}
}

// image returns a moved by whole periods, and whether anything in the tree may lie there.
func (s *Space) image(a area, x, y float64) (b area, ok bool) {
	for i, k := range [2]float64{x, y} {
		ax := &s.axes[i]
		if k == 0 {
			continue
		}
		a.lo[i] += k * ax.period
		a.hi[i] += k * ax.period
		if a.hi[i] < ax.lo-ax.period/2 || a.lo[i] > ax.hi+ax.period/2 {
			return a, false
		}
	}
	return a, true
}

// reach returns an area that holds every point within r metres of p.
func (ix *Index) reach(p sim.Vec, r float64) area {
	s := ix.s
	if s.spec.Kind == sim.Earth {
		return reachEarth(p, r)
	}
	var a area
	for i := range 2 {
		x := at(p, i)
		d := r + 1e-12*(r+math.Abs(x)+math.Abs(s.axes[i].period))
		a.lo[i], a.hi[i] = x-d, x+d
	}
	return a
}

// reachEarth returns the longitudes and latitudes of a cap: all longitudes if it holds a pole, else
// those up to where a meridian touches it.
func reachEarth(p sim.Vec, r float64) area {
	d := r/EarthRadius*radian*(1+1e-9) + 1e-9
	a := area{[2]float64{math.Inf(-1), p.Y - d}, [2]float64{math.Inf(1), p.Y + d}}
	if a.lo[1] > -90 && a.hi[1] < 90 {
		w := math.Asin(min(1, math.Sin(d*degree)/cosLatitude(p.Y)*(1+1e-12)))*radian*(1+1e-9) + 1e-9
		a.lo[0], a.hi[0] = p.X-w, p.X+w
	}
	return a
}

// covered returns an area that holds b. On a circle it may reach beyond the upper end.
func (s *Space) covered(b *sim.Box) area {
	var a area
	for i := range 2 {
		ax := &s.axes[i]
		a.lo[i], a.hi[i] = at(b.Min, i), at(b.Max, i)
		if !ax.periodic {
			continue
		}
		sp := s.span(b, i)
		a.lo[i], a.hi[i] = sp.lo, sp.hi
		if sp.kind == crossing {
			a.hi[i] += ax.period
		}
		margin := 1e-14 * (math.Abs(ax.lo) + math.Abs(ax.hi))
		a.lo[i] -= margin
		a.hi[i] += margin
	}
	return a
}

func (ix *Index) tryNear(i uint32) {
	e, q := &ix.entries[i], &ix.query
	if e.seen == q.number {
		return
	}
	e.seen = q.number
	var p sim.Vec
	var d float64
	if ix.s.spec.Kind == sim.Earth {
		dt := e.track.elapsed(q.now)
		up := e.track.direction(dt)
		if x, y, z := up.x-q.up.x, up.y-q.up.y, up.z-q.up.z; x*x+y*y+z*z > q.chord {
			return
		}
		p = earthPosition(&e.track, dt, up)
		d = earthDistance(q.center, q.cos, p, cosLatitude(p.Y))
	} else {
		p = ix.s.position(&e.track, q.now)
		d = ix.s.Distance(q.center, p)
	}
	if d <= q.radius {
		q.out = append(q.out, Hit{e.id, e.slot, d, p})
	}
}

func (ix *Index) tryBox(i uint32) {
	e, q := &ix.entries[i], &ix.query
	if e.seen == q.number {
		return
	}
	e.seen = q.number
	if p := ix.s.position(&e.track, q.now); ix.s.Contains(q.box, p) {
		q.out = append(q.out, Hit{ID: e.id, Slot: e.slot, Pos: p})
	}
}

// lowerBound orders the search for the nearest: the distance of an entity, for a node of the tree
// one that no entity in it falls below.
func (ix *Index) lowerBound(lo, hi [2]float32, i uint32, item bool) float64 {
	q := &ix.query
	if item {
		return ix.s.Distance(q.center, ix.s.position(&ix.entries[i].track, q.now))
	}
	var d [2]float64
	for i := range 2 {
		d[i] = ix.s.axes[i].toArea(at(q.center, i), float64(lo[i]), float64(hi[i]))
	}
	if ix.s.spec.Kind == sim.Earth {
		return earthBoxDistance(q.center.Y, d[0], max(-90, float64(lo[1])), min(90, float64(hi[1])))
	}
	return math.Sqrt(d[0]*d[0]+d[1]*d[1]) * (1 - 1e-12)
}

// toArea returns a lower bound of how far x is from lo..hi or any image of it. The outermost
// coordinates of the tree stand for all beyond.
func (a *axis) toArea(x, lo, hi float64) float64 {
	if lo <= -farthest {
		lo = math.Inf(-1)
	}
	if hi >= farthest {
		hi = math.Inf(1)
	}
	d := max(lo-x, x-hi, 0)
	if !a.periodic {
		return d
	}
	d = min(d, max(lo-x-a.period, x+a.period-hi, 0), max(lo-x+a.period, x-a.period-hi, 0))
	return max(d-1e-12*(math.Abs(a.lo)+math.Abs(a.hi)), 0)
}

// takeNearest takes the entities in the order of their distance until k are found and no other can
// be as near as the last of them.
func (ix *Index) takeNearest(_, _ [2]float32, i uint32, d float64) bool {
	q := &ix.query
	if q.found >= q.k && d > q.radius {
		return false
	}
	e := &ix.entries[i]
	q.out = append(q.out, Hit{e.id, e.slot, d, ix.s.position(&e.track, q.now)})
	q.found++
	q.radius = d
	return true
}
