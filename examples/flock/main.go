// Command flock is a model to copy: birds that fly as their neighbours do (T. Vicsek et al., "Novel type
// of phase transition in a system of self-driven particles", 1995).
package main

import (
	"math"

	"github.com/simnode/simnode/cli"
	"github.com/simnode/simnode/sim"
)

type params struct {
	Birds int     `param:"birds" default:"1000" min:"1" max:"1000000" doc:"number of birds"`
	Side  float64 `param:"side" unit:"m" default:"1 km" min:"100 m" doc:"side of the torus they fly over"`
	Sight float64 `param:"sight" unit:"m" default:"40 m" above:"0 m" doc:"how far a bird sees"`
	Noise float64 `param:"noise" unit:"deg" default:"10 deg" min:"0 deg" doc:"standard deviation of a bird's error in its heading"`
}

type bird struct{ Heading float64 } // in radians, clockwise from +y

const speed = 10 // m/s

func model() sim.Model {
	return sim.Define(sim.Model{Name: "flock", Summary: "birds that fly as their neighbours do", Version: 1}, setup)
}

func setup(b *sim.Builder, p *params) error {
	b.SetSpace(sim.Space{Kind: sim.Torus, Dims: 2, Periodic: [3]bool{true, true}, Bounds: sim.Box{Max: sim.Vec{X: p.Side, Y: p.Side}}})
	b.SetLimits(sim.Limits{Lookahead: 100 * sim.Millisecond, Range: p.Sight, Speed: 1.001 * speed}) // a little more, for rounding
	birds := sim.DefineKind[bird](b, "bird", "flies straight and adjusts its heading once a second")
	look := sim.DefineEvent[sim.None](b, "look", sim.Planned)
	neighbours := sim.DefineSample(b, "neighbours", "birds", "birds that a bird sees when it looks around")

	sim.OnStart(birds, func(c *sim.Context, _ *bird) { look.Schedule(c, c.Rand().ExpDuration(sim.Second), sim.None{}) })
	sim.Handle(birds, look, func(c *sim.Context, s *bird, _ sim.None) {
		east, north := math.Sincos(s.Heading)
		seen := c.Near(p.Sight, birds.Set())
		for _, o := range seen {
			east, north = east+o.Motion.Vel.X/speed, north+o.Motion.Vel.Y/speed
		}
		s.Heading = math.Atan2(east, north) + c.Rand().Normal(0, p.Noise*math.Pi/180)
		east, north = math.Sincos(s.Heading)
		c.Publish(sim.Motion{Start: c.Now(), Stop: sim.Never, From: c.Position(), Vel: sim.Vec{X: speed * east, Y: speed * north}})
		neighbours.Observe(c, float64(len(seen)))
		c.Again(sim.Second)
	})
	place := b.Stream("places")
	for range p.Birds {
		sim.Add(birds, sim.Vec{X: place.Uniform(0, p.Side), Y: place.Uniform(0, p.Side)}, bird{Heading: place.Uniform(0, 2*math.Pi)})
	}
	b.Results(func(f *sim.Final) (map[string]any, error) {
		east, north := 0.0, 0.0
		sim.Each(f, birds, func(_ sim.EntityID, s *bird) { east, north = east+math.Sin(s.Heading), north+math.Cos(s.Heading) })
		return map[string]any{"order": math.Hypot(east, north) / float64(p.Birds)}, nil // 1 if all fly one way
	})
	return nil
}

func main() { cli.Main(model()) }
