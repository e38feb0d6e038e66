package spatial

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

func TestNewRefusesBadSpaces(t *testing.T) {
	plane := func(b sim.Box, dims int) sim.Space { return sim.Space{Kind: sim.Plane, Dims: dims, Bounds: b} }
	cases := []struct {
		name  string
		spec  sim.Space
		field string
	}{
		{"no space", sim.Space{Dims: 2, Bounds: box(0, 0, 0, 1, 1, 1)}, "kind"},
		{"unknown kind", sim.Space{Kind: 9, Dims: 2, Bounds: box(0, 0, 0, 1, 1, 1)}, "kind"},
		{"dims 1", plane(box(0, 0, 0, 1, 1, 1), 1), "dims"},
		{"dims 4", plane(box(0, 0, 0, 1, 1, 1), 4), "dims"},
		{"flat", plane(box(0, 0, 0, 1, 0, 1), 2), "bounds.y"},
		{"turned", plane(box(1, 0, 0, 0, 1, 1), 2), "bounds.x"},
		{"flat z", plane(box(0, 0, 0, 1, 1, 0), 3), "bounds.z"},
		{"NaN", plane(box(math.NaN(), 0, 0, 1, 1, 1), 2), "bounds.x"},
		{"infinite", plane(box(0, -inf, 0, 1, 1, 1), 2), "bounds.y"},
		{"too wide", plane(box(-1.7e308, 0, 0, 1.7e308, 1, 1), 2), "bounds.x"},
		{"periodic plane", sim.Space{Kind: sim.Plane, Dims: 2, Bounds: box(0, 0, 0, 1, 1, 1), Periodic: [3]bool{true}}, "periodic"},
		{"periodic z of two", sim.Space{Kind: sim.Torus, Dims: 2, Bounds: box(0, 0, 0, 1, 1, 1), Periodic: [3]bool{true, true, true}}, "periodic"},
		{"torus without", sim.Space{Kind: sim.Torus, Dims: 2, Bounds: box(0, 0, 0, 1, 1, 1)}, "periodic"},
		{"torus without width", sim.Space{Kind: sim.Torus, Dims: 2, Bounds: box(0, 0, 0, 0, 1, 1), Periodic: [3]bool{true}}, "bounds.x"},
		{"earth of two", sim.Space{Kind: sim.Earth, Dims: 2, Bounds: box(-180, -90, 0, 180, 90, 0)}, "dims"},
		{"lon 181", sim.Space{Kind: sim.Earth, Dims: 3, Bounds: box(-181, -90, 0, 180, 90, 0)}, "bounds.x"},
		{"lat 91", sim.Space{Kind: sim.Earth, Dims: 3, Bounds: box(-180, -90, 0, 180, 91, 0)}, "bounds.y"},
		{"lat turned", sim.Space{Kind: sim.Earth, Dims: 3, Bounds: box(-180, 20, 0, 180, 10, 0)}, "bounds.y"},
		{"lon equal", sim.Space{Kind: sim.Earth, Dims: 3, Bounds: box(10, 0, 0, 10, 10, 0)}, "bounds.x"},
	}
	for _, c := range cases {
		_, err := New(c.spec)
		var e *Error
		if !errors.As(err, &e) || e.Field != c.field || e.Reason == "" {
			t.Errorf("%s: got %v, want a fault of %s", c.name, err, c.field)
		}
	}
	pacific := sim.Space{Kind: sim.Earth, Dims: 3, Bounds: box(120, -60, 0, -80, 60, 0)}
	if s := mustSpace(t, pacific); s.Spec() != pacific {
		t.Error("bounds over the antimeridian are changed")
	}
}

func TestCheckPosition(t *testing.T) {
	earth := mustSpace(t, earthSpec())
	plane := mustSpace(t, specs()["plane2"])
	for _, c := range []struct {
		s    *Space
		p    sim.Vec
		want string
	}{
		{earth, vec(180, 90, 0), ""}, {earth, vec(-180, -90, 1e5), ""},
		{earth, vec(180.1, 0, 0), "longitude"}, {earth, vec(0, -90.1, 0), "latitude"},
		{earth, vec(0, 0, inf), "altitude"}, {earth, vec(math.NaN(), 0, 0), "longitude"},
		{plane, vec(1e9, -1e9, math.NaN()), ""}, {plane, vec(0, math.NaN(), 0), "y"}, {plane, vec(-inf, 0, 0), "x"},
	} {
		err := c.s.CheckPosition(c.p)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want+":")) {
			t.Errorf("%v: got %v, want a fault of %q", c.p, err, c.want)
		}
	}
	if err := plane.CheckMotion(sim.Motion{Vel: vec(0, inf, 0)}); err == nil || !strings.Contains(err.Error(), "velocity.y") {
		t.Errorf("infinite velocity: %v", err)
	}
}

func TestCheckRange(t *testing.T) {
	torus := mustSpace(t, sim.Space{Kind: sim.Torus, Dims: 2, Bounds: box(0, 0, 0, 4, 10, 0), Periodic: [3]bool{true, true}})
	if err := torus.CheckRange(2); err != nil {
		t.Error(err)
	}
	err := torus.CheckRange(2.5)
	if err == nil || !strings.Contains(err.Error(), "larger than half a torus: 2.5 m on axis x of period 4 m") {
		t.Errorf("range 2.5 on period 4: %v", err)
	}
	for _, r := range []float64{-1, inf, math.NaN()} {
		if mustSpace(t, earthSpec()).CheckRange(r) == nil {
			t.Errorf("range %v allowed", r)
		}
	}
}

func TestWrapIsCanonical(t *testing.T) {
	everywhere(t, func(w world) {
		var p sim.Vec
		for i := range 3 {
			set(&p, i, w.coordinate(i)+float64(rapid.IntRange(-3, 3).Draw(w.t, "laps"))*180)
		}
		q := w.s.Wrap(p)
		if w.s.Wrap(q) != q {
			w.t.Fatalf("wrapping %v again gives %v", q, w.s.Wrap(q))
		}
		for i, a := range w.s.axes {
			if x := at(q, i); a.periodic && !(x >= a.lo && x < a.hi) {
				w.t.Fatalf("axis %d of %v is not canonical", i, q)
			}
		}
		if q.Y > 90 && w.s.spec.Kind == sim.Earth {
			w.t.Fatalf("latitude of %v", q)
		}
		if d := w.s.Distance(p, q); d > 1e-6 {
			w.t.Fatalf("%v and its canonical form %v are %v m apart", p, q, d)
		}
	})
}

func TestCaseRoundingAtTheWrap(t *testing.T) {
	s := mustSpace(t, specs()["tinyring"])
	for _, x := range []float64{-1e-9, -1e-18, -1e-300, 1, 1 + 1e-16, -1, 1e9 + 0.5, math.Nextafter(1, 0), math.Nextafter(0, -1)} {
		if y := s.Wrap(vec(x, 0, 0)).X; !(y >= 0 && y < 1) {
			t.Errorf("x = %v wraps to %v", x, y)
		}
	}
	// A million small steps: the walker is always inside exactly one of two halves.
	halves := [2]sim.Box{box(0, 0, 0, 0.5, 1, 0), box(0.5, 0, 0, 1, 1, 0)}
	p, step := vec(0.3, 0.2, 0), -1e-3-1e-9
	for i := range 1_000_000 {
		p.X += step
		p = s.Wrap(p)
		if s.Contains(halves[0], p) == s.Contains(halves[1], p) {
			t.Fatalf("step %d: %v is in both halves or none", i, p)
		}
	}
}

func TestWrapEarth(t *testing.T) {
	s := mustSpace(t, earthSpec())
	for _, c := range []struct{ in, want sim.Vec }{
		{vec(180, 10, 1), vec(-180, 10, 1)}, {vec(190, 0, 0), vec(-170, 0, 0)}, {vec(-540, 0, 0), vec(-180, 0, 0)},
		{vec(10, 100, 0), vec(-170, 80, 0)}, {vec(-10, -95, 0), vec(170, -85, 0)}, {vec(0, 270, 0), vec(0, -90, 0)},
		{vec(0, 360, 0), vec(0, 0, 0)}, {vec(5, 90, 0), vec(5, 90, 0)},
	} {
		if got := s.Wrap(c.in); s.Distance(got, c.want) > 1e-6 || math.Abs(got.X-c.want.X) > 1e-9 && math.Abs(got.Y) < 90 {
			t.Errorf("%v wraps to %v, want %v", c.in, got, c.want)
		}
	}
}

func TestDistanceIsAMetric(t *testing.T) {
	everywhere(t, func(w world) {
		a, b, c := w.position(), w.position(), w.position()
		ab, ba := w.s.Distance(a, b), w.s.Distance(b, a)
		if math.Float64bits(ab) != math.Float64bits(ba) {
			w.t.Fatalf("distance of %v and %v is not symmetric: %v, %v", a, b, ab, ba)
		}
		if d := w.s.Distance(a, a); d != 0 {
			w.t.Fatalf("%v is %v from itself", a, d)
		}
		if ac, cb := w.s.Distance(a, c), w.s.Distance(c, b); ab > (ac+cb)*(1+1e-12)+1e-6 || !(ab >= 0) {
			w.t.Fatalf("detour by %v is shorter: %v > %v + %v", c, ab, ac, cb)
		}
	})
}

// TestDistanceTorusByImages compares with the least distance over all images.
func TestDistanceTorusByImages(t *testing.T) {
	everywhere(t, func(w world) {
		if w.s.spec.Kind != sim.Torus {
			return
		}
		a, b := w.position(), w.position()
		least := inf
		for n := range 27 {
			q := b
			for i, k := range []int{n%3 - 1, n/3%3 - 1, n/9 - 1} {
				if w.s.axes[i].periodic {
					set(&q, i, at(q, i)+float64(k)*w.s.axes[i].period)
				}
			}
			d := 0.0
			for i := range w.s.spec.Dims {
				d += (at(a, i) - at(q, i)) * (at(a, i) - at(q, i))
			}
			least = min(least, math.Sqrt(d))
		}
		if got := w.s.Distance(a, b); math.Abs(got-least) > 1e-12*(1+least) {
			w.t.Fatalf("%v to %v: %v, by images %v", a, b, got, least)
		}
	})
}

func TestDistanceEarthKnown(t *testing.T) {
	s := mustSpace(t, earthSpec())
	half := math.Pi * EarthRadius
	for _, c := range []struct {
		a, b sim.Vec
		want float64
	}{
		{vec(0, 0, 0), vec(180, 0, 0), half}, {vec(0, 90, 0), vec(77, -90, 0), half}, {vec(0, 90, 0), vec(77, 90, 0), 0},
		{vec(30, 40, 0), vec(-150, -40, 0), half}, {vec(179.5, 0, 0), vec(-179.5, 0, 0), half / 180},
		{vec(0, 0, 0), vec(0, 1, 9000), half / 180}, {vec(0, 0, 0), vec(90, 0, 0), half / 2}, {vec(20, 0, 0), vec(20, 90, 0), half / 2},
		{vec(0, 60, 0), vec(180, 60, 0), half / 3},
		// One metre and a tenth of a micrometre along a meridian.
		{vec(10, 45, 0), vec(10, 45+180/half, 0), 1},
		{vec(10, 0, 0), vec(10, 1e-7*180/half, 0), 1e-7},
	} {
		if got := s.Distance(c.a, c.b); math.Abs(got-c.want) > 2e-9+1e-15*half {
			t.Errorf("%v to %v: %.12g m, want %.12g", c.a, c.b, got, c.want)
		}
	}
	// JFK to LAX: 2,145 nautical miles on the mean sphere.
	if d := s.Distance(vec(-73.7789, 40.6398, 0), vec(-118.4081, 33.9425, 0)); math.Abs(d-3974.3e3) > 2e3 {
		t.Errorf("New York to Los Angeles: %v m", d)
	}
}

// TestDistanceEarthNearAntipode compares with a chord computed in 200 bits.
func TestDistanceEarthNearAntipode(t *testing.T) {
	s := mustSpace(t, earthSpec())
	rapid.Check(t, func(rt *rapid.T) {
		// On one meridian circle the angle is exact: from latitude x over the pole.
		lat := rapid.Float64Range(-89, 89).Draw(rt, "lat")
		off := rapid.Float64Range(-1e-3, 1e-3).Draw(rt, "off")
		other := -lat + off
		angle := new(big.Float).SetPrec(200).SetFloat64(lat)
		angle.Add(angle, new(big.Float).SetFloat64(other))
		exact, _ := angle.Float64()
		want := math.Pi*EarthRadius - math.Abs(exact)*degree*EarthRadius
		if got := s.Distance(vec(12, lat, 0), vec(-168, other, 0)); math.Abs(got-want) > 1e-8 {
			rt.Fatalf("latitudes %v and %v over the pole: %.12g, want %.12g", lat, other, got, want)
		}
	})
}

func TestCaseSeam(t *testing.T) {
	s := mustSpace(t, sim.Space{Kind: sim.Torus, Dims: 2, Bounds: box(0, 0, 0, 105, 105, 0), Periodic: [3]bool{true, true}})
	if d := s.Distance(vec(1, 0, 0), vec(104.5, 0, 0)); d != 1.5 {
		t.Errorf("over the seam: %v", d)
	}
	ix := NewIndex(s)
	ix.Put(1, 0, sim.At(vec(1, 0, 0)), 0)
	ix.Put(2, 0, sim.At(vec(104.5, 0, 0)), 0)
	for _, x := range []float64{1, 104.5} {
		if hits := ix.Near(0, vec(x, 0, 0), 10, nil); len(hits) != 2 || hits[0].Dist != 0 || hits[1].Dist != 1.5 {
			t.Errorf("from %v: %v", x, hits)
		}
	}
}

func TestCaseOrigin(t *testing.T) {
	s := mustSpace(t, sim.Space{Kind: sim.Plane, Dims: 2, Bounds: box(-50, -50, 0, 50, 50, 0)})
	ix := NewIndex(s)
	ix.Put(1, 0, sim.At(vec(-49, 0, 0)), 0)
	ix.Put(2, 0, sim.At(vec(-48, 0, 0)), 0)
	if hits := ix.Near(0, vec(-49, 0, 0), 2, nil); len(hits) != 2 || hits[1].ID != 2 || hits[1].Dist != 1 {
		t.Errorf("got %v", hits)
	}
}

func TestCaseSmallTorus(t *testing.T) {
	s := mustSpace(t, sim.Space{Kind: sim.Torus, Dims: 2, Bounds: box(0, 0, 0, 4, 4, 0), Periodic: [3]bool{true, true}})
	ix := NewIndex(s)
	for i := range 16 {
		ix.Put(sim.EntityID(i+1), 0, sim.At(vec(float64(i%4), float64(i/4), 0)), 0)
	}
	for i := range 16 {
		seen := map[sim.EntityID]int{}
		for _, h := range ix.Near(0, vec(float64(i%4), float64(i/4), 0), 4, nil) {
			seen[h.ID]++
		}
		if len(seen) != 16 {
			t.Fatalf("entity %d sees %d, itself included", i+1, len(seen))
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("entity %d sees %d %d times", i+1, id, n)
			}
		}
	}
}

func TestCaseThinRegions(t *testing.T) {
	s := mustSpace(t, sim.Space{Kind: sim.Plane, Dims: 2, Bounds: box(0, 0, 0, 10, 10, 0)})
	ix := NewIndex(s)
	var points []sim.Vec
	for i := range 100 {
		p := vec(4.9+0.2*float64(i)/99, 5+0.003*float64(i*37%100), 0)
		points = append(points, p)
		ix.Put(sim.EntityID(i), uint32(i), sim.At(p), 0)
	}
	pairs, want := 0, 0
	for _, p := range points {
		pairs += len(ix.Near(0, p, 0.1, nil))
		for _, q := range points {
			if s.Distance(p, q) <= 0.1 {
				want++
			}
		}
	}
	if pairs != want || ix.Len() != 100 || len(ix.Near(0, vec(5, 5, 0), 1, nil)) != 100 {
		t.Errorf("%d pairs, want %d; %d entities", pairs, want, ix.Len())
	}
}

func TestContainsKnown(t *testing.T) {
	earth := mustSpace(t, earthSpec())
	torus := mustSpace(t, specs()["torus2"]) // x -50..50, y 3..83
	for _, c := range []struct {
		s    *Space
		b    sim.Box
		p    sim.Vec
		want bool
	}{
		{earth, box(170, -10, 0, -170, 10, 1e4), vec(180, 0, 5), true},
		{earth, box(170, -10, 0, -170, 10, 1e4), vec(170, -10, 0), true},
		{earth, box(170, -10, 0, -170, 10, 1e4), vec(-170, 0, 0), false},
		{earth, box(170, -10, 0, -170, 10, 1e4), vec(0, 0, 0), false},
		{earth, box(170, -10, 0, 190, 10, 1e4), vec(-175, 0, 0), true},
		{earth, box(-180, 80, -inf, 180, 90, inf), vec(3, 90, 0), true},
		{earth, box(-180, 80, -inf, 180, 89, inf), vec(3, 89, 0), false},
		{earth, box(-180, -90, -inf, 180, 90, inf), vec(-180, -90, -1e3), true},
		{earth, box(10, 0, 0, 20, 10, 100), vec(15, 5, 100), false},
		{earth, box(10, 0, 0, 10, 10, 100), vec(10, 5, 10), false},
		{torus, box(40, 3, 0, 60, 83, 0), vec(-45, 10, 0), true},
		{torus, box(40, 3, 0, 60, 83, 0), vec(-40, 10, 0), false},
		{torus, box(-inf, 3, 0, inf, 83, 0), vec(7, 3, 0), true},
		{torus, box(40, 3, 0, 140, 83, 0), vec(39.9, 3, 0), true},
		{torus, box(40, 3, 0, 30, 83, 0), vec(35, 10, 0), false},
		{torus, box(math.NaN(), 3, 0, 30, 83, 0), vec(35, 10, 0), false},
	} {
		if got := c.s.Contains(c.b, c.p); got != c.want {
			t.Errorf("%v in %v: %v", c.p, c.b, got)
		}
	}
}

// TestBoxDistanceIsALowerBound also asks that the bound be as near as many points of the box show.
func TestBoxDistanceIsALowerBound(t *testing.T) {
	everywhere(t, func(w world) {
		b, p := w.box(), w.position()
		d := w.s.BoxDistance(p, b)
		if w.s.Contains(b, p) && d != 0 {
			w.t.Fatalf("%v is in %v and yet %v away", p, b, d)
		}
		for range 8 {
			if q := w.position(); w.s.Contains(b, q) && d > w.s.Distance(p, q) {
				w.t.Fatalf("%v to %v: bound %v, distance %v to %v", p, b, d, w.s.Distance(p, q), q)
			}
		}
	})
}

func TestBoxDistanceIsTight(t *testing.T) {
	everywhere(t, func(w world) {
		b, p := w.box(), w.position()
		for i := range 3 {
			// Sample only boxes with finite sides of some size.
			lo, hi := at(b.Min, i), at(b.Max, i)
			if w.s.spec.Kind == sim.Earth && i == 0 && lo > hi {
				hi += 360
			}
			if !finite(lo) || !finite(hi) || hi-lo < 1e-6 {
				if i < w.s.spec.Dims && !(w.s.spec.Kind == sim.Earth && i == 2) {
					return
				}
				lo, hi = -1, 1
			}
			set(&b.Min, i, lo)
			set(&b.Max, i, hi)
		}
		d, least, step := w.s.BoxDistance(p, b), inf, 0.0
		const n = 24
		for c := range (n + 1) * (n + 1) * (n + 1) {
			if c >= (n+1)*(n+1) && (w.s.spec.Dims == 2 || w.s.spec.Kind == sim.Earth) {
				break
			}
			var q sim.Vec
			for i, k := range []int{c % (n + 1), c / (n + 1) % (n + 1), c / (n + 1) / (n + 1)} {
				set(&q, i, at(b.Min, i)+(at(b.Max, i)-at(b.Min, i))*float64(k)/n)
			}
			least = min(least, w.s.Distance(p, q))
		}
		for i := range w.s.spec.Dims {
			side := (at(b.Max, i) - at(b.Min, i)) / n
			if w.s.spec.Kind == sim.Earth {
				side *= degree * EarthRadius
			}
			if w.s.spec.Kind != sim.Earth || i < 2 {
				step += side
			}
		}
		if d > least+1e-9 || least-d > step+1e-5 {
			w.t.Fatalf("%v to %v: bound %v, sampled %v, step %v", p, b, d, least, step)
		}
	})
}

func TestGapIsALowerBound(t *testing.T) {
	everywhere(t, func(w world) {
		a, b := w.box(), w.box()
		gap := w.s.Gap(a, b)
		if back := w.s.Gap(b, a); gap != back {
			w.t.Fatalf("gap of %v and %v: %v, back %v", a, b, gap, back)
		}
		var inA, inB []sim.Vec
		for range 10 {
			q := w.position()
			if w.s.Contains(a, q) {
				inA = append(inA, q)
				if w.s.BoxDistance(q, b) < gap*(1-1e-12)-2e-6 {
					w.t.Fatalf("%v of %v: distance to %v below the gap %v", q, a, b, gap)
				}
			}
			if w.s.Contains(b, q) {
				inB = append(inB, q)
			}
		}
		for _, p := range inA {
			for _, q := range inB {
				if gap > w.s.Distance(p, q) {
					w.t.Fatalf("gap %v of %v and %v, but %v to %v is %v", gap, a, b, p, q, w.s.Distance(p, q))
				}
			}
		}
	})
}

func TestGapKnown(t *testing.T) {
	earth := mustSpace(t, earthSpec())
	all := func(x0, y0, x1, y1 float64) sim.Box { return box(x0, y0, -inf, x1, y1, inf) }
	mdeg := degree * EarthRadius
	for _, c := range []struct {
		a, b sim.Box
		want float64
	}{
		{all(0, 0, 10, 10), all(10, 0, 20, 10), 0},
		{all(0, 0, 10, 10), all(10, 10, 20, 20), 0},
		{all(0, 0, 10, 10), all(0, 20, 10, 30), 10 * mdeg},
		{all(0, 60, 10, 90), all(100, 60, 120, 90), 0},           // both hold the pole
		{all(170, -10, 180, 10), all(-180, -10, -170, 10), 0},    // over the antimeridian
		{all(170, -10, 175, 10), all(-175, -20, -170, 0), 9.8e5}, // 10 degrees at about latitude 10
		{all(-10, 50, 10, 60), all(170, 50, -170, 60), 60 * mdeg * 1.0},
	} {
		got := earth.Gap(c.a, c.b)
		if c.want == 0 && got != 0 || math.Abs(got-c.want) > 0.14*c.want+1e-3 {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestPieces: pieces are canonical, and together they hold what the box holds.
func TestPieces(t *testing.T) {
	everywhere(t, func(w world) {
		b, p := w.box(), w.position()
		in := 0
		for _, piece := range w.s.Pieces(b, nil) {
			ok := true
			for i := range w.s.spec.Dims {
				x := at(p, i)
				ok = ok && at(piece.Min, i) <= x && (x < at(piece.Max, i) || w.s.spec.Kind == sim.Earth && i == 1 && x == 90 && at(piece.Max, i) == 90)
				if a := w.s.axes[i]; a.periodic && at(piece.Min, i) <= at(piece.Max, i) &&
					!(at(piece.Min, i) >= a.lo && at(piece.Max, i) <= a.hi) {
					w.t.Fatalf("piece %v of %v is not canonical", piece, b)
				}
			}
			if ok {
				in++
			}
		}
		// A box turned on the latitudes or one that is over a pole holds more in pieces.
		if want := w.s.Contains(b, p); want && in != 1 || !want && in != 0 && !(b.Min.Y < -90 || b.Max.Y > 90) {
			w.t.Fatalf("%v is in %d pieces of %v, contained: %v", p, in, b, want)
		}
	})
}
