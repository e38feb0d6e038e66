package airspace

import (
	"cmp"
	"math"
	"slices"

	"github.com/simnode/simnode/sim"
)

// frame maps longitude and latitude to the picture by Lambert's azimuthal equal-area projection (J.
// Snyder, "Map Projections: A Working Manual", 1987, p. 182), scaled to fit.
type frame struct {
	lon0, sin0, cos0 float64
	// unit is picture units for one earth radius; left and top are subtracted.
	unit, left, top float64
	width, height   int
}

// newFrame returns a frame with the given centre, true to scale there, that shows what fit adds.
func newFrame(centre sim.Vec) frame {
	sin, cos := math.Sincos(centre.Y * math.Pi / 180)
	return frame{lon0: centre.X, sin0: sin, cos0: cos, unit: 1}
}

// fit makes the frame show the given ranges of x and y of the unit sphere in a picture of width.
func (f *frame) fit(minX, maxX, minY, maxY float64, width int) {
	f.width = width
	f.unit = float64(width) / (maxX - minX)
	f.left, f.top = minX*f.unit, minY*f.unit
	f.height = int((maxY - minY) * f.unit)
}

// project returns where p is in the picture, y downwards.
func (f *frame) project(p sim.Vec) (x, y float64) {
	lon, lat := (p.X-f.lon0)*math.Pi/180, p.Y*math.Pi/180
	sin, cos := math.Sincos(lat)
	cosLon := math.Cos(lon)
	k := math.Sqrt(2 / math.Max(1+f.sin0*sin+f.cos0*cos*cosLon, 1e-9))
	return f.unit*k*cos*math.Sin(lon) - f.left, -f.unit*k*(f.cos0*sin-f.sin0*cos*cosLon) - f.top
}

// inside reports whether a point is in the picture, or within a margin of a tenth around it.
func (f *frame) inside(x, y float64) bool {
	m := float64(f.width) / 10
	return x > -m && y > -m && x < float64(f.width)+m && y < float64(f.height)+m
}

// boxEdge walks around a box of longitude and latitude, both ways of each side in 24 steps.
func boxEdge(b sim.Box) []sim.Vec {
	const steps = 24
	dx, dy := (b.Max.X-b.Min.X)/steps, (b.Max.Y-b.Min.Y)/steps
	corners := [5]sim.Vec{b.Min, {X: b.Max.X, Y: b.Min.Y}, b.Max, {X: b.Min.X, Y: b.Max.Y}, b.Min}
	signs := [4]sim.Vec{{X: dx}, {Y: dy}, {X: -dx}, {Y: -dy}}
	var out []sim.Vec
	for i, s := range signs {
		for k := range steps {
			out = append(out, sim.Vec{X: corners[i].X + s.X*float64(k), Y: corners[i].Y + s.Y*float64(k)})
		}
	}
	return append(out, b.Min)
}

// frame shows all but the outer fiftieth of the movements on each side, so that a few far airports do
// not make the rest small, and some land around them.
func (pl *places) frame(width int) frame {
	const tail, margin = 0.02, 0.13
	lon := func(p sim.Vec) float64 { return p.X }
	lat := func(p sim.Vec) float64 { return p.Y }
	f := newFrame(sim.Vec{
		X: (pl.quantile(lon, tail) + pl.quantile(lon, 1-tail)) / 2,
		Y: (pl.quantile(lat, tail) + pl.quantile(lat, 1-tail)) / 2,
	})
	right := func(p sim.Vec) float64 { x, _ := f.project(p); return x }
	down := func(p sim.Vec) float64 { _, y := f.project(p); return y }
	minX, maxX := pl.quantile(right, tail), pl.quantile(right, 1-tail)
	minY, maxY := pl.quantile(down, tail), pl.quantile(down, 1-tail)
	edge := math.Max(margin*math.Max(maxX-minX, maxY-minY), leastEdge)
	f.fit(minX-edge, maxX+edge, minY-edge, maxY+edge, width)
	return f
}

// leastEdge is the least margin around the airports, in earth radii: about 60 km.
const leastEdge = 0.01

// quantile returns the value of at below which the fraction q of all movements is.
func (pl *places) quantile(at func(sim.Vec) float64, q float64) float64 {
	order := make([]int, len(pl.pos))
	total := int64(0)
	for i := range order {
		order[i] = i
		total += pl.movements[i]
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(at(pl.pos[i]), at(pl.pos[j])) })
	left := int64(q * float64(total))
	for _, i := range order {
		if left -= pl.movements[i]; left < 0 {
			return at(pl.pos[i])
		}
	}
	return at(pl.pos[order[len(order)-1]])
}
