package spatial

import (
	"math"
	"testing"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

func mustSpace(t testing.TB, s sim.Space) *Space {
	t.Helper()
	sp, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return sp
}

func vec(x, y, z float64) sim.Vec { return sim.Vec{X: x, Y: y, Z: z} }

func box(x0, y0, z0, x1, y1, z1 float64) sim.Box {
	return sim.Box{Min: vec(x0, y0, z0), Max: vec(x1, y1, z1)}
}

var inf = math.Inf(1)

func earthSpec() sim.Space {
	return sim.Space{Kind: sim.Earth, Dims: 3, Bounds: box(-180, -90, 0, 180, 90, 0)}
}

// specs are the spaces that every property is tried in.
func specs() map[string]sim.Space {
	return map[string]sim.Space{
		"plane2":   {Kind: sim.Plane, Dims: 2, Bounds: box(-50, 0, 0, 50, 80, 0)},
		"plane3":   {Kind: sim.Plane, Dims: 3, Bounds: box(-50, 0, 10, 50, 80, 70)},
		"torus2":   {Kind: sim.Torus, Dims: 2, Bounds: box(-50, 3, 0, 50, 83, 0), Periodic: [3]bool{true, true}},
		"torusX":   {Kind: sim.Torus, Dims: 2, Bounds: box(-50, 3, 0, 50, 83, 0), Periodic: [3]bool{true}},
		"torusYZ":  {Kind: sim.Torus, Dims: 3, Bounds: box(0.1, -7, 0, 90.3, 60, 33), Periodic: [3]bool{false, true, true}},
		"torus3":   {Kind: sim.Torus, Dims: 3, Bounds: box(0, 0, 0, 60, 60, 60), Periodic: [3]bool{true, true, true}},
		"earth":    earthSpec(),
		"tinyring": {Kind: sim.Torus, Dims: 2, Bounds: box(0, 0, 0, 1, 1, 0), Periodic: [3]bool{true, true}},
	}
}

// world draws positions, motions and boxes of one space, with a liking for edges.
type world struct {
	s *Space
	t *rapid.T
}

func (w world) coordinate(i int) float64 {
	if w.s.spec.Kind == sim.Earth {
		switch i {
		case 0:
			return rapid.OneOf(rapid.Float64Range(-180, 180), rapid.Float64Range(179, 180), rapid.Float64Range(-180, -179),
				rapid.SampledFrom([]float64{-180, 180, 0, 90, -90, 179.9999999})).Draw(w.t, "lon")
		case 1:
			return rapid.OneOf(rapid.Float64Range(-90, 90), rapid.Float64Range(89, 90), rapid.Float64Range(-90, -89.5),
				rapid.SampledFrom([]float64{-90, 90, 0, 45, 89.999999999})).Draw(w.t, "lat")
		}
		return rapid.Float64Range(0, 12000).Draw(w.t, "alt")
	}
	lo, hi := at(w.s.spec.Bounds.Min, i), at(w.s.spec.Bounds.Max, i)
	if i >= w.s.spec.Dims {
		return rapid.Float64Range(-5, 5).Draw(w.t, "unused")
	}
	return rapid.OneOf(rapid.Float64Range(lo, hi), rapid.SampledFrom([]float64{lo, hi, lo/2 + hi/2, math.Nextafter(hi, lo)}),
		rapid.Float64Range(lo, lo+(hi-lo)/20)).Draw(w.t, "coordinate")
}

func (w world) position() sim.Vec {
	return w.s.Wrap(vec(w.coordinate(0), w.coordinate(1), w.coordinate(2)))
}

func (w world) motion(now sim.Time) sim.Motion {
	m := sim.Motion{From: w.position(), Start: now, Stop: sim.Never}
	if rapid.IntRange(0, 4).Draw(w.t, "still") == 0 {
		return m
	}
	if rapid.Bool().Draw(w.t, "late") {
		m.Start += sim.Time(rapid.Int64Range(-1e9, 3e9).Draw(w.t, "start"))
	}
	if rapid.Bool().Draw(w.t, "stops") {
		m.Stop = m.Start + sim.Time(rapid.Int64Range(0, 2e10).Draw(w.t, "length"))
	}
	if w.s.spec.Kind == sim.Earth {
		m.Vel = vec(
			rapid.OneOf(rapid.Float64Range(-360, 720), rapid.SampledFrom([]float64{0, 90, 180, 270})).Draw(w.t, "course"),
			rapid.OneOf(rapid.Float64Range(0, 400), rapid.Float64Range(-1e6, 1e6)).Draw(w.t, "speed"),
			rapid.Float64Range(-10, 10).Draw(w.t, "climb"))
		return m
	}
	for i := range 3 {
		set(&m.Vel, i, rapid.OneOf(rapid.Float64Range(-30, 30), rapid.Just(0.0)).Draw(w.t, "v"))
	}
	return m
}

// box draws a box: anywhere, of any size, over the seam, with infinite sides.
func (w world) box() sim.Box {
	a, b := w.position(), w.position()
	out := sim.Box{Min: a, Max: b}
	for i := range 3 {
		lo, hi := at(a, i), at(b, i)
		ax := w.s.axes[i]
		switch {
		case w.s.spec.Kind == sim.Earth && i == 0:
			if rapid.IntRange(0, 5).Draw(w.t, "whole") == 0 {
				lo, hi = -180, 180
			}
		case lo > hi && ax.periodic:
			hi += ax.period
		case lo > hi:
			lo, hi = hi, lo
		}
		if !(w.s.spec.Kind == sim.Earth && i == 0) {
			switch rapid.IntRange(0, 8).Draw(w.t, "open") {
			case 0:
				lo = -inf
			case 1:
				hi = inf
			case 2:
				hi = at(w.s.spec.Bounds.Max, i)
				if w.s.spec.Kind == sim.Earth && i == 1 {
					hi = 90
				}
			}
		}
		if w.s.spec.Kind == sim.Earth && i == 2 {
			if rapid.Bool().Draw(w.t, "all altitudes") {
				lo, hi = -inf, inf
			}
		}
		set(&out.Min, i, lo)
		set(&out.Max, i, hi)
	}
	return out
}

// everywhere runs a property in each of the spaces.
func everywhere(t *testing.T, property func(w world)) {
	for name, spec := range specs() {
		t.Run(name, func(t *testing.T) {
			s := mustSpace(t, spec)
			rapid.Check(t, func(rt *rapid.T) { property(world{s, rt}) })
		})
	}
}
