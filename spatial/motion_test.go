package spatial

import (
	"math"
	"testing"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

func TestPositionKnown(t *testing.T) {
	earth := mustSpace(t, earthSpec())
	torus := mustSpace(t, specs()["torus2"])
	plane := mustSpace(t, specs()["plane3"])
	quarter := math.Pi / 2 * EarthRadius / 1000 // speed that flies a quarter of the globe in 1000 s
	at := func(s float64) sim.Time { return sim.Time(sim.FromSeconds(s)) }
	for _, c := range []struct {
		s    *Space
		m    sim.Motion
		t    sim.Time
		want sim.Vec
	}{
		{plane, sim.Motion{Start: at(5), Stop: at(7), From: vec(1, 2, 3), Vel: vec(1, -2, 4)}, at(6), vec(2, 0, 7)},
		{plane, sim.Motion{Start: at(5), Stop: at(7), From: vec(1, 2, 3), Vel: vec(1, -2, 4)}, at(4), vec(1, 2, 3)},
		{plane, sim.Motion{Start: at(5), Stop: at(7), From: vec(1, 2, 3), Vel: vec(1, -2, 4)}, at(9), vec(3, -2, 11)},
		{plane, sim.Motion{Start: at(5), Stop: at(3), From: vec(1, 2, 3), Vel: vec(1, -2, 4)}, sim.Never, vec(1, 2, 3)},
		{torus, sim.Motion{Stop: sim.Never, From: vec(49, 3, 0), Vel: vec(1, -1, 1)}, at(2), vec(-49, 81, 0)},
		{earth, sim.Motion{Stop: sim.Never, From: vec(10, 0, 100), Vel: vec(90, quarter, 2)}, at(1000), vec(100, 0, 2100)},
		{earth, sim.Motion{Stop: sim.Never, From: vec(10, 0, 0), Vel: vec(270, quarter, 0)}, at(2000), vec(-170, 0, 0)},
		{earth, sim.Motion{Stop: sim.Never, From: vec(10, 0, 0), Vel: vec(0, quarter, 0)}, at(1000), vec(10, 90, 0)},
		{earth, sim.Motion{Stop: sim.Never, From: vec(10, 0, 0), Vel: vec(0, quarter, 0)}, at(1500), vec(-170, 45, 0)},
		{earth, sim.Motion{Stop: sim.Never, From: vec(33, 90, 0), Vel: vec(180, quarter, 0)}, at(500), vec(33, 45, 0)},
		{earth, sim.Motion{Stop: sim.Never, From: vec(10, 20, 5), Vel: vec(77, 0, 1)}, at(500), vec(10, 20, 505)},
	} {
		got := c.s.Position(c.m, c.t)
		if c.s.Distance(got, c.want) > 1e-6 || math.Abs(got.Z-c.want.Z) > 1e-6 && c.s.spec.Dims == 3 {
			t.Errorf("%v at %v: %v, want %v", c.m, c.t, got, c.want)
		}
	}
}

// TestPositionSpeed: a motion covers its way, and no straight line is longer.
func TestPositionSpeed(t *testing.T) {
	everywhere(t, func(w world) {
		m := w.motion(0)
		a := sim.Time(rapid.Int64Range(0, 1e10).Draw(w.t, "a"))
		b := a + sim.Time(rapid.Int64Range(0, 1e9).Draw(w.t, "b"))
		p, q := w.s.Position(m, a), w.s.Position(m, b)
		if w.s.Wrap(p) != p {
			w.t.Fatalf("%v is not canonical", p)
		}
		way := w.s.Speed(m) * b.Sub(a).Seconds()
		if d := w.s.Distance(p, q); d > way*(1+1e-9)+1e-6 {
			w.t.Fatalf("%v: %v in %v s at %v m/s", m, d, b.Sub(a).Seconds(), w.s.Speed(m))
		}
		if v := w.s.Velocity(m, b); m.Moving() && b >= m.Start && b < m.Stop {
			if got := w.s.Speed(sim.Motion{Vel: v}); math.Abs(got-w.s.Speed(m)) > 1e-9 {
				w.t.Fatalf("speed %v, was %v", got, w.s.Speed(m))
			}
		} else if v != (sim.Vec{}) {
			w.t.Fatalf("velocity %v of what stands", v)
		}
	})
}

// TestVelocityContinues: restarting a motion from where it is with its velocity changes nothing.
func TestVelocityContinues(t *testing.T) {
	everywhere(t, func(w world) {
		m := w.motion(0)
		m.Stop = sim.Never
		now := max(m.Start, 0) + sim.Time(rapid.Int64Range(0, 1e10).Draw(w.t, "now"))
		later := now + sim.Time(rapid.Int64Range(0, 1e10).Draw(w.t, "later"))
		n := sim.Motion{Start: now, Stop: sim.Never, From: w.s.Position(m, now), Vel: w.s.Velocity(m, now)}
		if w.s.spec.Kind == sim.Earth && math.Abs(n.From.Y) > 89.9999 {
			return // the course turns with the longitude there
		}
		p, q := w.s.Position(m, later), w.s.Position(n, later)
		if d := w.s.Distance(p, q); d > 1e-2 {
			w.t.Fatalf("%v at %v is %v; restarted at %v as %v it is %v, %v m off", m, later, p, now, n, q, d)
		}
	})
}

func TestTowardArrives(t *testing.T) {
	everywhere(t, func(w world) {
		from, to := w.position(), w.position()
		speed := rapid.OneOf(rapid.Float64Range(0.1, 1000), rapid.Float64Range(1e-3, 1)).Draw(w.t, "speed")
		start := sim.Time(rapid.Int64Range(0, 1e15).Draw(w.t, "start"))
		m := w.s.Toward(from, to, speed, start)
		if m.Stop == sim.Never {
			return // slower than time allows
		}
		d := w.s.Distance(from, to)
		if got := w.s.Position(m, m.Stop); w.s.Distance(got, to) > 1e-2 || math.Abs(got.Z-to.Z) > 1e-2 && w.s.spec.Kind == sim.Earth {
			w.t.Fatalf("%v to %v: %v arrives at %v", from, to, m, got)
		}
		if took := m.Stop.Sub(m.Start).Seconds(); d > 0 && math.Abs(took-d/speed) > 2e-9+1e-9*took {
			w.t.Fatalf("%v m at %v m/s in %v s", d, speed, took)
		}
		if d > 1e-100 && math.Abs(w.s.Speed(m)-speed) > 1e-9*speed {
			w.t.Fatalf("speed %v, asked %v", w.s.Speed(m), speed)
		}
	})
}

func TestTowardKnown(t *testing.T) {
	torus := mustSpace(t, specs()["torus2"])
	if m := torus.Toward(vec(49, 10, 0), vec(-49, 10, 0), 1, 0); m.Vel != vec(1, 0, 0) || m.Stop != sim.Time(2*sim.Second) {
		t.Errorf("over the seam: %v", m)
	}
	earth := mustSpace(t, earthSpec())
	if m := earth.Toward(vec(0, 0, 0), vec(0, 0, 100), 10, 0); m.Vel != vec(0, 0, 10) || m.Stop != sim.Time(10*sim.Second) {
		t.Errorf("straight up: %v", m)
	}
	if m := earth.Toward(vec(0, 0, 0), vec(0, 0, 0), 10, 7); m.Stop != 7 || m.Moving() {
		t.Errorf("nowhere: %v", m)
	}
	for _, v := range []float64{0, -1, math.NaN()} {
		if m := earth.Toward(vec(0, 0, 0), vec(1, 0, 0), v, 7); m.Stop != sim.Never || m.Moving() {
			t.Errorf("speed %v: %v", v, m)
		}
	}
}

// TestCrossingsAgreeWithSampling: at the tick found the state is as asked, at the tick before it is
// not, and at no sampled tick earlier.
func TestCrossingsAgreeWithSampling(t *testing.T) {
	everywhere(t, func(w world) {
		m, b := w.motion(0), w.box()
		from := sim.Time(rapid.Int64Range(-1e9, 1e10).Draw(w.t, "from"))
		for _, want := range []bool{true, false} {
			next := w.s.NextLeave
			if want {
				next = w.s.NextEnter
			}
			found := next(m, b, from)
			is := func(t sim.Time) bool { return w.s.Contains(b, w.s.Position(m, t)) == want }
			end := found
			if found == sim.Never {
				end = from + 4e10
			} else if !is(found) || found > from && is(found-1) || found < from {
				w.t.Fatalf("%v, %v from %v: state %v at %v is %v, the tick before %v", m, b, from, want, found, is(found), is(found-1))
			}
			for i := range 100 {
				if u := from + sim.Time(float64(end-from)*float64(i)/100); u < end && is(u) {
					if onBorder(w, m, b, u) {
						break
					}
					w.t.Fatalf("%v, %v from %v: state %v found at %v, sampled at %v", m, b, from, want, found, u)
				}
			}
		}
	})
}

// onBorder tells whether a motion on a circle or a curved path is on a side of the box but for
// rounding.
func onBorder(w world, m sim.Motion, b sim.Box, t sim.Time) bool {
	p := w.s.Position(m, t)
	for i, a := range w.s.axes {
		for _, side := range []float64{at(b.Min, i), at(b.Max, i), a.lo} {
			if a.periodic && finite(side) && a.apart(at(p, i), a.wrap(side)) < 1e-13*a.period {
				return true
			}
		}
	}
	if w.s.spec.Kind != sim.Earth {
		return false
	}
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-11 }
	return near(p.Y, b.Min.Y) || near(p.Y, b.Max.Y) || math.Abs(math.Abs(p.Y)-90) < 1e-6 ||
		near(math.Remainder(p.X-b.Min.X, 360), 0) || near(math.Remainder(p.X-b.Max.X, 360), 0)
}

func TestCrossingsKnown(t *testing.T) {
	earth := mustSpace(t, earthSpec())
	torus := mustSpace(t, specs()["torus2"])
	plane := mustSpace(t, specs()["plane2"])
	perDegree := degree * EarthRadius
	s := func(x float64) sim.Time { return sim.Time(sim.FromSeconds(x)) }
	ground := func(x0, y0, x1, y1 float64) sim.Box { return box(x0, y0, -inf, x1, y1, inf) }
	forever := func(from, vel sim.Vec) sim.Motion { return sim.Motion{Stop: sim.Never, From: from, Vel: vel} }
	for _, c := range []struct {
		name         string
		s            *Space
		m            sim.Motion
		b            sim.Box
		from         sim.Time
		enter, leave sim.Time
	}{
		{"inside until the side", plane, forever(vec(0, 0, 0), vec(2, 0, 0)), box(0, 0, 0, 10, 10, 0), 0, 0, s(5)},
		{"behind", plane, forever(vec(11, 0, 0), vec(2, 0, 0)), box(0, 0, 0, 10, 10, 0), 0, sim.Never, 0},
		{"lower side downwards", plane, forever(vec(1, 0, 0), vec(-1, 0, 0)), box(0, 0, 0, 10, 10, 0), 0, 0, s(1) + 1},
		{"one tick in a corner", plane, forever(vec(-1, -2, 0), vec(1e9, 2e9, 0)), box(0, 0, 0, 1, 1, 0), 0, 1, 0},
		{"stops before", plane, sim.Motion{Stop: s(0.5), From: vec(-1, 0, 0), Vel: vec(1, 0, 0)}, box(0, 0, 0, 1, 1, 0), 0, sim.Never, 0},
		{"stops on the side", plane, sim.Motion{Stop: s(1), From: vec(-1, 0, 0), Vel: vec(1, 0, 0)}, box(0, 0, 0, 1, 1, 0), 0, s(1), 0},
		{"starts later", plane, sim.Motion{Start: s(3), Stop: s(9), From: vec(-1, 0, 0), Vel: vec(1, 0, 0)}, box(0, 0, 0, 1, 1, 0), 0, s(4), 0},
		{"still inside", plane, sim.At(vec(0, 0, 0)), box(0, 0, 0, 1, 1, 0), 5, 5, sim.Never},
		{"still outside", plane, sim.At(vec(5, 0, 0)), box(0, 0, 0, 1, 1, 0), 5, sim.Never, 5},
		{"next lap", torus, forever(vec(30, 10, 0), vec(1, 0, 0)), box(0, 3, 0, 10, 83, 0), 0, s(70), 0},
		{"lap after lap", torus, forever(vec(30, 10, 0), vec(1, 0, 0)), box(0, 3, 0, 10, 83, 0), s(100_000), s(100_070), s(100_000)},
		{"never out of all", torus, forever(vec(30, 10, 0), vec(1, 1, 0)), box(-50, 3, 0, 50, 83, 0), 0, 0, sim.Never},
		{"rational, no meeting", torus, forever(vec(0, 3, 0), vec(100, 80, 0)), box(49, 3, 0, 50, 4, 0), 0, sim.Never, 0},
		{"over the antimeridian", earth, forever(vec(179, 0, 0), vec(90, perDegree, 0)), ground(-180, -1, -170, 1), 0, s(1), 0},
		{"out at the antimeridian", earth, forever(vec(-179, 0, 0), vec(270, perDegree, 0)), ground(-180, -1, -170, 1), 0, 0, s(1)},
		{"over the pole", earth, forever(vec(0, 80, 0), vec(0, perDegree, 0)), ground(90, 0, -90, 90), 0, s(10), 0},
		{"round the globe", earth, forever(vec(10, 0, 0), vec(90, perDegree, 0)), ground(0, -1, 5, 1), 0, s(350), 0},
		{"climb", earth, forever(vec(10, 0, 0), vec(0, 0, 2)), box(0, -1, 100, 20, 1, 200), 0, s(50), 0},
		{"climb out", earth, forever(vec(10, 0, 100), vec(0, 0, 2)), box(0, -1, 100, 20, 1, 200), 0, 0, s(50)},
	} {
		near := func(a, b sim.Time) bool {
			if c.s == earth && a != sim.Never {
				return math.Abs(float64(a-b)) < 100 // ticks; the path is rounded to about a nanometre
			}
			return a == b
		}
		if got := c.s.NextEnter(c.m, c.b, c.from); !near(got, c.enter) {
			t.Errorf("%s: enters at %d, want %d", c.name, got, c.enter)
		}
		if got := c.s.NextLeave(c.m, c.b, c.from); !near(got, c.leave) {
			t.Errorf("%s: leaves at %d, want %d", c.name, got, c.leave)
		}
	}
}

// FuzzGeometry: no floats, however odd, make a method panic or not end.
func FuzzGeometry(f *testing.F) {
	f.Add(uint8(0), 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, int64(0), int64(1))
	f.Add(uint8(6), 180.0, 90.0, math.NaN(), inf, -inf, 1e300, int64(math.MinInt64), int64(math.MaxInt64))
	f.Add(uint8(2), 1e308, -1e308, 1e-308, 50.0, -50.0, 1e18, int64(-5), int64(1)<<62)
	names := []string{"plane2", "plane3", "torus2", "torusX", "torusYZ", "torus3", "earth", "tinyring"}
	f.Fuzz(func(t *testing.T, kind uint8, a, b, c, d, e, g float64, start, now int64) {
		s := mustSpace(t, specs()[names[int(kind)%len(names)]])
		p, q := vec(a, b, c), vec(d, e, g)
		m := sim.Motion{Start: sim.Time(start), Stop: sim.Never, From: p, Vel: q}
		bx := sim.Box{Min: vec(a, e, c), Max: vec(d, b, g)}
		s.Distance(p, q)
		s.Position(m, sim.Time(now))
		s.Velocity(m, sim.Time(now))
		s.Toward(p, q, a, sim.Time(start))
		s.Contains(bx, p)
		s.BoxDistance(q, bx)
		s.Gap(bx, sim.Box{Min: q, Max: p})
		s.Pieces(bx, nil)
		s.NextEnter(m, bx, sim.Time(now))
		s.NextLeave(m, bx, sim.Time(now))
		ix := NewIndex(s)
		ix.Put(1, 2, m, sim.Time(start))
		ix.Put(2, 2, sim.At(q), sim.Time(start))
		ix.Near(sim.Time(now), p, a, nil)
		ix.Nearest(sim.Time(now), p, 3, nil)
		ix.Box(sim.Time(now), bx, nil)
		ix.Put(1, 2, sim.At(p), sim.Time(now))
		ix.Remove(1)
		ix.Remove(2)
		if ix.Len() != 0 || ix.tree.Len() != 0 {
			t.Fatalf("%d entities, %d in the tree", ix.Len(), ix.tree.Len())
		}
	})
}
