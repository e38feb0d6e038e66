package airspace

import (
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

// newFrame returns a frame of the given width that shows the box.
func newFrame(b sim.Box, width int) frame {
	lat0 := (b.Min.Y + b.Max.Y) / 2 * math.Pi / 180
	f := frame{lon0: (b.Min.X + b.Max.X) / 2, sin0: math.Sin(lat0), cos0: math.Cos(lat0), unit: 1, width: width}
	minX, minY, maxX, maxY := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, p := range boxEdge(b) {
		x, y := f.project(p)
		minX, minY = math.Min(minX, x), math.Min(minY, y)
		maxX, maxY = math.Max(maxX, x), math.Max(maxY, y)
	}
	f.unit = float64(width) / (maxX - minX)
	f.left, f.top = minX*f.unit, minY*f.unit
	f.height = int((maxY - minY) * f.unit)
	return f
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

// view is the box that the picture shows: it holds all but the outer hundredth of the movements on
// each side, so that a few far airports do not make the rest small, and some land around them.
func (pl *places) view() sim.Box {
	const tail, margin = 0.02, 4
	quantile := func(at func(sim.Vec) float64, q float64) float64 {
		order := make([]int, len(pl.pos))
		total := int64(0)
		for i := range order {
			order[i] = i
			total += pl.movements[i]
		}
		slices.SortStableFunc(order, func(i, j int) int {
			switch a, b := at(pl.pos[i]), at(pl.pos[j]); {
			case a < b:
				return -1
			case a > b:
				return 1
			}
			return 0
		})
		left := int64(q * float64(total))
		for _, i := range order {
			if left -= pl.movements[i]; left < 0 {
				return at(pl.pos[i])
			}
		}
		return at(pl.pos[order[len(order)-1]])
	}
	lon := func(p sim.Vec) float64 { return p.X }
	lat := func(p sim.Vec) float64 { return p.Y }
	return sim.Box{
		Min: sim.Vec{X: math.Max(quantile(lon, tail)-margin, -180), Y: math.Max(quantile(lat, tail)-margin, -89)},
		Max: sim.Vec{X: math.Min(quantile(lon, 1-tail)+margin, 180), Y: math.Min(quantile(lat, 1-tail)+margin, 89)},
	}
}
