package spatial

import (
	"math"

	"github.com/simnode/simnode/sim"
)

// area is a rectangle in the coordinates of the tree: the first two axes. On a circle it may reach
// beyond the seam by up to a quarter of the period; if it would be wider it is the whole circle.
type area struct{ lo, hi [2]float64 }

// rect is an area rounded outwards to what the tree holds.
type rect struct{ min, max [2]float32 }

// farthest bounds the coordinates in the tree, so that the areas it compares stay finite. What lies
// beyond is taken to lie there, which keeps every overlap.
const farthest = 1e18

func (a area) round() rect {
	var r rect
	for i := range 2 {
		r.min[i], r.max[i] = roundDown(a.lo[i]), roundUp(a.hi[i])
	}
	return r
}

func roundDown(x float64) float32 {
	x = max(-farthest, min(farthest, x))
	f := float32(x)
	if float64(f) > x {
		f = math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return f
}

func roundUp(x float64) float32 { return -roundDown(-x) }

func (r rect) holds(o rect) bool {
	return r.min[0] <= o.min[0] && r.min[1] <= o.min[1] && r.max[0] >= o.max[0] && r.max[1] >= o.max[1]
}

// defaultScale is the typical range of a query before there was one.
func defaultScale(s *Space) float64 {
	if s.spec.Kind == sim.Earth {
		return 10e3
	}
	b := s.spec.Bounds
	return max(b.Max.X-b.Min.X, b.Max.Y-b.Min.Y) / 100
}

// learn adapts the scale to the ranges that are asked for, quickly to smaller ones.
func (ix *Index) learn(r float64) {
	if !(r > 0) || math.IsInf(r, 0) {
		return
	}
	if r < ix.scale {
		ix.scale -= (ix.scale - r) / 16
		return
	}
	ix.scale += (min(r, 1e12) - ix.scale) / 256
}

// horizon returns until when a box is to hold: the way of about two typical ranges, and at most a
// sixteenth of a circle.
func (ix *Index) horizon(k *track) sim.Time {
	if !k.m.Moving() || ix.now >= k.m.Stop {
		return sim.Never
	}
	var speed, way float64
	if ix.s.spec.Kind == sim.Earth {
		speed, way = math.Abs(k.m.Vel.Y), min(2*ix.scale, 2*math.Pi*EarthRadius/16)
	} else {
		speed, way = max(math.Abs(k.m.Vel.X), math.Abs(k.m.Vel.Y)), 2*ix.scale
		for i := range 2 {
			if a := &ix.s.axes[i]; a.periodic {
				way = min(way, a.period/16)
			}
		}
	}
	if speed == 0 {
		return sim.Never
	}
	from := max(ix.now, k.m.Start)
	h := from.Add(max(ticks(way/speed*float64(sim.Second)), 1))
	if h >= k.m.Stop {
		return sim.Never
	}
	return h
}

// swept returns an area that holds the position at every tick from t0 to t1.
func (s *Space) swept(k *track, t0, t1 sim.Time) area {
	p, q := s.position(k, t0), s.position(k, t1)
	if s.spec.Kind == sim.Earth {
		return s.sweptEarth(k, t0, t1, p, q)
	}
	dt0, dt1 := k.elapsed(t0), k.elapsed(t1)
	var a area
	for i := range 2 {
		from, to := at(p, i), at(q, i)
		if ax := &s.axes[i]; ax.periodic {
			v := at(k.m.Vel, i)
			to = from + v*(dt1-dt0)
			margin := 1e-14 * (math.Abs(ax.lo) + math.Abs(ax.hi) + math.Abs(v*dt1))
			a.lo[i], a.hi[i] = min(from, to)-margin, max(from, to)+margin
			continue
		}
		a.lo[i], a.hi[i] = min(from, to), max(from, to)
	}
	return s.bounded(a)
}

// sweptEarth is swept for the great circle from p to q. An arc shorter than half the circle sweeps
// less than 180 degrees of longitude; close to a pole all of them are taken.
func (s *Space) sweptEarth(k *track, t0, t1 sim.Time, p, q sim.Vec) area {
	const margin = 1e-9
	dt0, dt1 := k.elapsed(t0), k.elapsed(t1)
	a := area{[2]float64{p.X, min(p.Y, q.Y)}, [2]float64{p.X, max(p.Y, q.Y)}}
	if dt0 != dt1 && k.omega != 0 {
		north := math.Atan2(k.d0.z, k.p0.z)
		height := math.Hypot(k.p0.z, k.d0.z)
		top := math.Atan2(height, math.Sqrt(max(0, 1-height*height))) * radian
		from, to := k.omega*dt0, k.omega*dt1
		if passes(from, to, north) {
			a.hi[1] = top + 1e-5
		}
		if passes(from, to, north+math.Pi) {
			a.lo[1] = -top - 1e-5
		}
		a.lo[0], a.hi[0] = s.sweptLongitudes(k, p.X, q.X, math.Abs(to-from))
	}
	for i := range 2 {
		a.lo[i] -= margin
		a.hi[i] += margin
	}
	if a.hi[1] > 89.99 || a.lo[1] < -89.99 {
		a.lo[0], a.hi[0] = -180, 180
	}
	return s.bounded(a)
}

func (s *Space) sweptLongitudes(k *track, from, to, angle float64) (lo, hi float64) {
	way := math.Remainder(to-from, 360)
	// A climb without a turn of the globe has no sweep; half a circle or a path over the pole may have any.
	if angle > 3 || math.Abs(way) > 170 {
		return -180, 180
	}
	return min(from, from+way), max(from, from+way)
}

// passes tells whether the angle x, at any turn, may lie between from and to.
func passes(from, to, x float64) bool {
	lo, hi := min(from, to)-1e-9, max(from, to)+1e-9
	turn := 2 * math.Pi
	return x+turn*math.Ceil((lo-x)/turn) <= hi
}

// widened returns a with room of r metres on every side, at about latitude lat on the earth.
func (s *Space) widened(a area, r, lat float64) area {
	x, y := r, r
	if s.spec.Kind == sim.Earth {
		y = min(r/EarthRadius*radian, 5)
		x = min(y/max(cosLatitude(lat), 0.1), 20)
	}
	for i, d := range [2]float64{x, y} {
		if s.axes[i].periodic {
			d = min(d, s.axes[i].period/16)
		}
		a.lo[i] -= d
		a.hi[i] += d
	}
	return s.bounded(a)
}

// bounded takes the whole circle where an area reaches too far beyond its ends.
func (s *Space) bounded(a area) area {
	for i := range 2 {
		ax := &s.axes[i]
		if !ax.periodic {
			continue
		}
		room := ax.period / 4
		if !(a.lo[i] > ax.lo-room && a.hi[i] < ax.hi+room) {
			a.lo[i], a.hi[i] = ax.lo, ax.hi
		}
	}
	return a
}
