package spatial

import (
	"math"

	"github.com/simnode/simnode/sim"
)

// span is the part of one axis that a box covers. On a circle it is in canonical coordinates and may
// run over the seam; comparisons need no arithmetic then, so neighbouring boxes share no point and
// leave none out.
type span struct {
	kind   spanKind
	lo, hi float64
}

type spanKind uint8

const (
	empty    spanKind = iota
	between           // lo <= x < hi
	crossing          // x >= lo or x < hi
	full              // the whole circle
)

// span returns what a box with these sides covers of the axis. A circle is covered from lo upwards to
// hi; a width of a period or more is all of it.
func (a *axis) span(lo, hi float64, reversed bool) span {
	if !a.periodic {
		if lo < hi {
			return span{between, lo, hi}
		}
		return span{}
	}
	inside := lo >= a.lo && lo < a.hi && hi >= a.lo && hi <= a.hi
	if reversed && lo > hi {
		if !inside {
			return a.span(lo, hi+a.period*math.Ceil((lo-hi)/a.period), false)
		}
		if hi == a.lo {
			return span{between, lo, a.hi}
		}
		return span{crossing, lo, hi}
	}
	switch width := hi - lo; {
	case !(width > 0):
		return span{}
	case inside && (lo > a.lo || hi < a.hi):
		return span{between, lo, hi} // however small the rest, it is not the whole circle
	case width >= a.period:
		return span{full, a.lo, a.hi}
	}
	return a.wrapSpan(lo, hi)
}

func (a *axis) wrapSpan(lo, hi float64) span {
	width := hi - lo
	lo, hi = a.wrap(lo), a.wrap(hi)
	if hi == a.lo {
		hi = a.hi
	}
	switch {
	case lo < hi:
		return span{between, lo, hi}
	case lo > hi:
		return span{crossing, lo, hi}
	case width > a.period/2:
		return span{full, a.lo, a.hi}
	}
	return span{}
}

func (s *Space) span(b *sim.Box, i int) span {
	return s.axes[i].span(at(b.Min, i), at(b.Max, i), s.spec.Kind == sim.Earth)
}

func (sp span) contains(x float64) bool {
	switch sp.kind {
	case between:
		return sp.lo <= x && x < sp.hi
	case crossing:
		return x >= sp.lo || x < sp.hi
	case full:
		return x == x
	}
	return false
}

// latitudes returns the range of latitudes of a box, and whether there are any. A box that ends at
// the north pole includes it, since nothing lies beyond.
func latitudes(b *sim.Box) (lo, hi float64, ok bool) {
	lo, hi = max(b.Min.Y, -90), min(b.Max.Y, 90)
	return lo, hi, lo < hi || lo == 90 && hi == 90
}

func holdsLatitude(b *sim.Box, y float64) bool {
	return b.Min.Y <= y && (y < b.Max.Y || b.Max.Y >= 90 && y <= 90)
}

// Contains tells whether p is in b, which is half-open in every used axis. Sides may be infinite. On
// a torus a box may run over the seam (Max beyond the period); on the earth it may cross the
// antimeridian (Min.X > Max.X), and one that ends at latitude 90 includes the pole. Altitude counts.
func (s *Space) Contains(b sim.Box, p sim.Vec) bool {
	p = s.Wrap(p)
	switch s.spec.Kind {
	case sim.Plane:
		return b.Min.X <= p.X && p.X < b.Max.X && b.Min.Y <= p.Y && p.Y < b.Max.Y &&
			(s.spec.Dims == 2 || b.Min.Z <= p.Z && p.Z < b.Max.Z)
	case sim.Earth:
		return s.overGround(&b, p) && b.Min.Z <= p.Z && p.Z < b.Max.Z
	}
	for i := range s.spec.Dims {
		if !s.span(&b, i).contains(at(p, i)) {
			return false
		}
	}
	return true
}

// overGround tells whether a canonical position of the earth is in b but for its altitude.
func (s *Space) overGround(b *sim.Box, p sim.Vec) bool {
	return holdsLatitude(b, p.Y) && s.span(b, 0).contains(p.X)
}

// BoxDistance returns a lower bound of the distance from p to any point of b in metres: 0 inside,
// infinite if b is empty. It is the distance to the nearest side, on the earth less a margin of a
// micrometre for rounding; altitude does not count there.
func (s *Space) BoxDistance(p sim.Vec, b sim.Box) float64 {
	p = s.Wrap(p)
	if s.spec.Kind == sim.Earth {
		lo, hi, ok := latitudes(&b)
		xs := s.span(&b, 0)
		if !ok || xs.kind == empty {
			return math.Inf(1)
		}
		return earthBoxDistance(p.Y, s.axes[0].toSpan(p.X, xs), lo, hi)
	}
	var d [3]float64
	for i := range s.spec.Dims {
		xs := s.span(&b, i)
		if xs.kind == empty {
			return math.Inf(1)
		}
		d[i] = s.axes[i].toSpan(at(p, i), xs)
	}
	return s.norm(d[0], d[1], d[2])
}

// toSpan returns how far x is from a span that is not empty.
func (a *axis) toSpan(x float64, sp span) float64 {
	switch {
	case sp.kind == full:
		return 0
	case sp.kind == crossing && (x >= sp.lo || x <= sp.hi):
		return 0
	case sp.kind == crossing:
		return a.shy(min(sp.lo-x, x-sp.hi))
	case !a.periodic:
		return max(sp.lo-x, x-sp.hi, 0)
	case sp.lo <= x && x <= sp.hi:
		return 0
	}
	return min(a.apart(x, sp.lo), a.apart(x, sp.hi))
}

// shy takes the rounding of a way over the seam off a distance.
func (a *axis) shy(d float64) float64 {
	return max(d-4e-16*(math.Abs(a.lo)+math.Abs(a.hi)), 0)
}

// betweenSpans returns the least way between two spans that are not empty.
func (a *axis) betweenSpans(s, t span) float64 {
	if s.kind > t.kind {
		s, t = t, s
	}
	switch {
	case t.kind == full || s.kind == crossing:
		return 0
	case t.kind == crossing:
		return a.shy(max(min(t.lo-s.hi, s.lo-t.hi), 0))
	case !a.periodic:
		return max(s.lo-t.hi, t.lo-s.hi, 0)
	case s.lo <= t.hi && t.lo <= s.hi:
		return 0
	}
	return min(a.apart(s.hi, t.lo), a.apart(t.hi, s.lo))
}

// Gap returns a lower bound of the distance between any point of a and any point of b in metres: 0 if
// they touch, infinite if one is empty.
func (s *Space) Gap(a, b sim.Box) float64 {
	var d [3]float64
	for i := range s.spec.Dims {
		if s.spec.Kind == sim.Earth && i > 0 {
			break
		}
		sa, sb := s.span(&a, i), s.span(&b, i)
		if sa.kind == empty || sb.kind == empty {
			return math.Inf(1)
		}
		d[i] = s.axes[i].betweenSpans(sa, sb)
	}
	if s.spec.Kind == sim.Earth {
		return earthGap(&a, &b, d[0])
	}
	return s.norm(d[0], d[1], d[2])
}

// earthBoxDistance returns a lower bound of the distance from latitude lat to the latitudes lo..hi
// of meridians at least dlon degrees away. The nearest point of a box that does not span the
// longitude lies on the nearer of its two meridians, at a corner or where the great circle meets it at a right angle.
func earthBoxDistance(lat, dlon, lo, hi float64) float64 {
	if dlon == 0 {
		return cautious(max(lo-lat, lat-hi, 0) * degree * EarthRadius)
	}
	return cautious(toMeridian(lat, dlon, lo, hi))
}

func toMeridian(lat, dlon, lo, hi float64) float64 {
	cos := cosLatitude(lat)
	d := min(arc(lat, cos, lo, cosLatitude(lo), dlon), arc(lat, cos, hi, cosLatitude(hi), dlon))
	foot := math.Atan2(math.Sin(lat*degree), cos*math.Cos(dlon*degree)) * radian
	if lo < foot && foot < hi {
		d = min(d, arc(lat, cos, foot, cosLatitude(foot), dlon))
	}
	return d
}

// earthGap is the distance of two boxes whose longitudes are dlon degrees apart. On two meridian arcs the
// closest pair has an end of one of them (cos d = (1+c)/2 cos(u-v) - (1-c)/2 cos(u+v) for latitudes
// u, v and c = cos dlon has no maximum inside).
func earthGap(a, b *sim.Box, dlon float64) float64 {
	alo, ahi, okA := latitudes(a)
	blo, bhi, okB := latitudes(b)
	if !okA || !okB {
		return math.Inf(1)
	}
	if dlon == 0 {
		return cautious(max(alo-bhi, blo-ahi, 0) * degree * EarthRadius)
	}
	return cautious(min(toMeridian(alo, dlon, blo, bhi), toMeridian(ahi, dlon, blo, bhi),
		toMeridian(blo, dlon, alo, ahi), toMeridian(bhi, dlon, alo, ahi)))
}

// cautious lowers a bound by more than rounding can have raised it.
func cautious(d float64) float64 { return max(d*(1-1e-12)-1e-6, 0) }

// Pieces appends to out the parts of b that do not run over a seam, in canonical coordinates, and
// returns it: one on a plane, up to two for each periodic axis elsewhere. A side of width 0 is kept, an
// empty one becomes +Inf to -Inf. On the earth a box that reaches over a pole covers every longitude.
func (s *Space) Pieces(b sim.Box, out []sim.Box) []sim.Box {
	if s.spec.Kind == sim.Earth {
		if b.Min.Y < -90 || b.Max.Y > 90 {
			b.Min.X, b.Max.X = -180, 180
		}
		b.Min.Y, b.Max.Y = max(b.Min.Y, -90), min(b.Max.Y, 90)
	}
	first := len(out)
	out = append(out, b)
	for i := range s.axes {
		if s.axes[i].periodic {
			out = s.cutAtSeam(out, first, i)
		}
	}
	return out
}

// cutAtSeam cuts the boxes of out from first on at the seam of a periodic axis.
func (s *Space) cutAtSeam(out []sim.Box, first, i int) []sim.Box {
	a := &s.axes[i]
	for j, n := first, len(out); j < n; j++ {
		sp := s.span(&out[j], i)
		if x := at(out[j].Min, i); x == at(out[j].Max, i) {
			sp = span{between, a.wrap(x), a.wrap(x)}
		}
		lo, hi := sp.lo, sp.hi
		if sp.kind == empty {
			lo, hi = math.Inf(1), math.Inf(-1)
		}
		if sp.kind == crossing {
			other := out[j]
			set(&other.Min, i, a.lo)
			set(&other.Max, i, hi)
			out = append(out, other)
			hi = a.hi
		}
		set(&out[j].Min, i, lo)
		set(&out[j].Max, i, hi)
	}
	return out
}
