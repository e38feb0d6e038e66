package spatial

import (
	"math"
	"slices"

	"github.com/simnode/simnode/sim"
)

// maxLaps bounds the search for a time at which two or three axes of a torus are in a box at once: a
// path of rational slope may never meet the box and never end.
const maxLaps = 1 << 16

// NextEnter returns the first tick at or after from at which m is in b, or Never. On a torus the
// search gives up (Never) after 65,536 passes of the box along its axes.
//
// The answer agrees with Contains(b, Position(m, t)): true at the tick returned, false at the tick
// before. A stay shorter than the rounding of a position may be missed on a circle or the earth.
func (s *Space) NextEnter(m sim.Motion, b sim.Box, from sim.Time) sim.Time {
	c, done := s.crosser(m, b, from, true)
	if done {
		return c.t
	}
	if s.spec.Kind != sim.Earth {
		return c.enterAxes()
	}
	t := c.axisNext(2, c.t, true)
	if t == sim.Never {
		return sim.Never
	}
	gone := c.axisNext(2, t, false)
	if t = c.groundNext(t, true); t >= gone {
		return sim.Never
	}
	return t
}

// NextLeave returns the first tick at or after from at which m is outside b, or Never. See NextEnter.
func (s *Space) NextLeave(m sim.Motion, b sim.Box, from sim.Time) sim.Time {
	c, done := s.crosser(m, b, from, false)
	if done {
		return c.t
	}
	if s.spec.Kind == sim.Earth {
		return min(c.groundNext(c.t, false), c.axisNext(2, c.t, false))
	}
	t := sim.Never
	for i := range s.spec.Dims {
		t = min(t, c.axisNext(i, c.t, false))
	}
	return t
}

// crosser looks for the times at which one motion enters or leaves one box.
type crosser struct {
	s     *Space
	k     track
	box   sim.Box
	spans [3]span
	t     sim.Time // where the search starts
	end   sim.Time // the last tick at which anything changes
}

// crosser prepares a search for the state want. If it is over already, done is true and t the answer.
func (s *Space) crosser(m sim.Motion, b sim.Box, from sim.Time, want bool) (c crosser, done bool) {
	c = crosser{s: s, k: s.track(m), box: b, t: from, end: min(m.Stop, sim.Never-1)}
	if s.Contains(b, s.position(&c.k, from)) == want {
		return c, true
	}
	c.t = max(from, m.Start)
	if !m.Moving() || c.t >= c.end {
		c.t = sim.Never
		return c, true
	}
	for i := range s.axes {
		c.spans[i] = s.span(&b, i)
	}
	return c, false
}

// seconds and tick convert between ticks and seconds of movement.
func (c *crosser) seconds(t sim.Time) float64 { return t.Sub(c.k.m.Start).Seconds() }

func (c *crosser) tick(seconds float64) sim.Time {
	return min(c.k.m.Start.Add(ticks(seconds*float64(sim.Second))), c.end)
}

// enterAxes moves on to the next tick at which each axis is inside until all are.
func (c *crosser) enterAxes() sim.Time {
	t := c.t
	for range maxLaps {
		start := t
		for i := range c.s.spec.Dims {
			if t = c.axisNext(i, t, true); t == sim.Never {
				return sim.Never
			}
		}
		if t == start {
			return t
		}
	}
	return sim.Never
}

func (c *crosser) coordinate(i int, t sim.Time) float64 { return at(c.s.position(&c.k, t), i) }

// axisNext returns the first tick from t on at which axis i alone is inside (or outside) the box.
func (c *crosser) axisNext(i int, t sim.Time, inside bool) sim.Time {
	sp, v := c.spans[i], at(c.k.m.Vel, i)
	x := c.coordinate(i, t)
	if sp.contains(x) == inside {
		return t
	}
	if v == 0 || sp.kind == empty || sp.kind == full {
		return sim.Never
	}
	if c.s.axes[i].periodic {
		return c.circleNext(i, t, inside)
	}
	return c.lineNext(i, t, x, inside)
}

// lineNext is axisNext on an axis without an end. The coordinate is monotone in time, rounding
// included, so the tick is exact.
func (c *crosser) lineNext(i int, t sim.Time, x float64, inside bool) sim.Time {
	sp, v := c.spans[i], at(c.k.m.Vel, i)
	side := sp.lo
	if (v > 0) != inside {
		side = sp.hi
	}
	passed := func(t sim.Time) bool {
		y := c.coordinate(i, t)
		if v > 0 {
			return y >= side
		}
		return y < side
	}
	if passed(t) || !passed(c.end) {
		return sim.Never
	}
	t = firstTick(t, c.end, c.tick(c.seconds(t)+(side-x)/v), passed)
	if sp.contains(c.coordinate(i, t)) != inside {
		return sim.Never
	}
	return t
}

// circleNext is axisNext on a circle. It looks from lap to lap, since a stretch shorter than a tick
// may be stepped over.
func (c *crosser) circleNext(i int, t sim.Time, inside bool) sim.Time {
	a, sp, v := &c.s.axes[i], c.spans[i], at(c.k.m.Vel, i)
	width := math.Mod(sp.hi-sp.lo+a.period, a.period)
	if !inside {
		width = a.period - width
	}
	side := sp.lo
	if (v > 0) != inside {
		side = sp.hi
	}
	is := func(t sim.Time) bool { return sp.contains(c.coordinate(i, t)) == inside }
	for range maxLaps {
		x := c.coordinate(i, t)
		way := math.Mod(math.Copysign(1, v)*(side-x)+2*a.period, a.period)
		into := c.seconds(t) + way/math.Abs(v)
		middle := into + width/2/math.Abs(v)
		near := c.tick(into)
		for _, probe := range [...]sim.Time{near - 1, near, near.Add(1), near.Add(2), c.tick(middle)} {
			probe = min(probe, c.end)
			if probe <= t {
				continue
			}
			if is(probe) {
				return firstTick(t, probe, near, is)
			}
			t = probe
		}
		next := c.tick(into + width/math.Abs(v))
		if next <= t {
			next = t.Add(1)
		}
		if next > c.end {
			return sim.Never
		}
		if is(next) {
			return firstTick(t, next, next, is)
		}
		t = next
	}
	return sim.Never
}

// groundNext returns the first tick from t on at which the great circle is over (or not over) the
// box. Between two crossings of its sides nothing changes, and after one turn everything repeats.
func (c *crosser) groundNext(t sim.Time, over bool) sim.Time {
	is := func(t sim.Time) bool {
		return c.s.overGround(&c.box, c.s.position(&c.k, t)) == over
	}
	if is(t) {
		return t
	}
	if c.k.omega == 0 {
		return sim.Never
	}
	var buffer [16]float64
	now := c.seconds(t)
	times := append(c.sideCrossings(now, buffer[:0]), now+2*math.Pi/math.Abs(c.k.omega))
	slices.Sort(times)
	for i, crossing := range times {
		middle := crossing
		if i+1 < len(times) {
			middle = (crossing + times[i+1]) / 2
		}
		near := c.tick(crossing)
		for _, probe := range [...]sim.Time{near - 1, near, near.Add(1), c.tick(middle)} {
			probe = min(probe, c.end)
			if probe <= t {
				continue
			}
			if is(probe) {
				return firstTick(t, probe, near, is)
			}
			t = probe
		}
	}
	return sim.Never
}

// sideCrossings appends the times in seconds, within one turn after now, at which the great circle
// meets the parallels and meridians of the box's sides, and its northern- and southernmost points.
func (c *crosser) sideCrossings(now float64, out []float64) []float64 {
	p, d, omega := c.k.p0, c.k.d0, c.k.omega
	if omega < 0 {
		d, omega = vec3{-d.x, -d.y, -d.z}, -omega
	}
	add := func(angle float64) {
		rest := math.Mod(angle-omega*now, 2*math.Pi)
		if rest < 0 {
			rest += 2 * math.Pi
		}
		out = append(out, now+rest/omega)
	}
	top, height := math.Atan2(d.z, p.z), math.Hypot(p.z, d.z)
	add(top)
	add(top + math.Pi)
	for _, lat := range [...]float64{c.box.Min.Y, c.box.Max.Y} {
		if r := math.Sin(lat*degree) / height; math.Abs(lat) < 90 && math.Abs(r) < 1 {
			add(top + math.Acos(r))
			add(top - math.Acos(r))
		}
	}
	for _, lon := range [...]float64{c.spans[0].lo, c.spans[0].hi} {
		sin, cos := sincosDegrees(lon)
		a, b := p.y*cos-p.x*sin, d.y*cos-d.x*sin
		if math.Hypot(a, b) > 1e-12 {
			add(math.Atan2(-a, b))
			add(math.Atan2(-a, b) + math.Pi)
		}
	}
	return out
}

// firstTick returns the first tick in (lo, hi] for which is holds, which it does at hi and not at lo.
// It looks round guess first; with several changes in between it returns one of them.
func firstTick(lo, hi, guess sim.Time, is func(sim.Time) bool) sim.Time {
	for step := sim.Time(2); step < 1<<40; step *= 64 {
		below, above := guess-step, guess+step
		if below > lo && below < hi {
			if is(below) {
				hi = below
			} else {
				lo = below
			}
		}
		if above > lo && above < hi {
			if is(above) {
				hi = above
			} else {
				lo = above
			}
		}
		if uint64(hi-lo) <= uint64(2*step) {
			break
		}
	}
	for uint64(hi-lo) > 1 {
		middle := lo + sim.Time(uint64(hi-lo)/2)
		if is(middle) {
			hi = middle
		} else {
			lo = middle
		}
	}
	return hi
}
