// Package phold is PHOLD, the standard benchmark of parallel discrete-event simulation (R. Fujimoto,
// "Performance of Time Warp under synthetic workloads", 1990): a fixed number of events is always in
// flight; whoever gets one sends one on, to itself or to another entity.
package phold

import (
	"math"

	"github.com/simnode/simnode/sim"
)

// Params are the parameters of PHOLD.
type Params struct {
	Entities     int64        `param:"entities" default:"16384" min:"1" max:"50000000" doc:"number of entities"`
	Population   int64        `param:"population" default:"1" min:"1" max:"1000000" doc:"events in flight per entity"`
	Lookahead    sim.Duration `param:"lookahead" default:"0.1 s" above:"0 s" doc:"least delay of an event"`
	Mean         sim.Duration `param:"mean" default:"1 s" above:"0 s" doc:"mean delay of an event, the lookahead included; what is above the lookahead is exponential"`
	Remote       float64      `param:"remote" default:"0.5" min:"0" max:"1" doc:"fraction of events that go to another entity"`
	Destinations string       `param:"destinations" default:"uniform" enum:"uniform,spatial" doc:"where remote events go: to any entity, or to one within the radius on a torus"`
	Radius       int64        `param:"radius" default:"3" min:"1" max:"1000" doc:"with spatial destinations, how many grid steps a remote event goes at most along each axis"`
}

// maxInFlight bounds the events in flight, and with them memory.
const maxInFlight = 100_000_000

// State is an entity's state.
type State struct {
	// Count of events handled.
	Count int64
}

// Model returns the model.
func Model() sim.Model {
	return sim.Define(sim.Model{
		Name:    "phold",
		Summary: "the standard benchmark of parallel discrete-event simulation",
		Doc: "A fixed number of events is always in flight. The entity that handles one draws a delay " +
			"(the lookahead plus an exponential) and sends it on: with probability remote to another " +
			"entity, otherwise to itself. It measures the engine and nothing else.",
		Source:  "R. Fujimoto, Performance of Time Warp under synthetic workloads, SCS Multiconference on Distributed Simulation, 1990",
		Check:   "The number of events agrees with renewal theory (D. Cox, 1962) within four standard deviations.",
		Version: 1,
	}, setup)
}

func setup(b *sim.Builder, p *Params) error {
	if p.Mean < p.Lookahead {
		return sim.BadParam("params.mean", "%v is below the lookahead of %v, which it includes", p.Mean, p.Lookahead)
	}
	if p.Entities > maxInFlight/p.Population {
		return sim.BadParam("params.population", "%d events in flight for each of %d entities are more than %d: lower population or entities", p.Population, p.Entities, maxInFlight)
	}
	b.SetLimits(sim.Limits{Lookahead: p.Lookahead})
	b.SetEnd(sim.Time(60 * sim.Second))
	pick := uniform(p.Entities)
	space, place := sim.Space{}, func(int64) sim.Vec { return sim.Vec{} }
	if p.Destinations == "spatial" {
		g := newGrid(p)
		b.SetSpace(g.space())
		space, pick, place = g.space(), g.pick, g.place
	}
	if b.Space() != space {
		return sim.BadParam("space", "phold makes its own space: leave space out and use params.destinations and radius")
	}
	hold := sim.DefineEvent[sim.None](b, "hold", sim.Planned)
	k := sim.DefineKind[State](b, "entity", "handles events and sends them on")
	above := p.Mean - p.Lookahead
	send := func(c *sim.Context) {
		r := c.Rand()
		to := c.Self()
		if p.Remote > 0 && r.Float64() < p.Remote {
			to = pick(c)
		}
		hold.Send(c, to, p.Lookahead+r.ExpDuration(above), sim.None{})
	}
	sim.OnStart(k, func(c *sim.Context, _ *State) {
		for range p.Population {
			hold.Schedule(c, c.Rand().ExpDuration(p.Mean), sim.None{})
		}
	})
	sim.Handle(k, hold, func(c *sim.Context, s *State, _ sim.None) {
		s.Count++
		send(c)
	})
	for i := range p.Entities {
		sim.Add(k, place(i), State{})
	}
	b.Results(func(f *sim.Final) (map[string]any, error) { return results(f, k), nil })
	b.Pictures(func(f *sim.Final) ([]sim.Picture, error) { return pictures(f, k) })
	return nil
}

// uniform picks any other entity.
func uniform(n int64) func(c *sim.Context) sim.EntityID {
	return func(c *sim.Context) sim.EntityID {
		if n == 1 {
			return c.Self()
		}
		to := sim.EntityID(c.Rand().IntN(n-1) + 1)
		if to >= c.Self() {
			to++
		}
		return to
	}
}

// grid arranges entities row by row on a torus, one a metre.
type grid struct {
	n, width, height, radius int64
}

func newGrid(p *Params) grid {
	w := int64(math.Ceil(math.Sqrt(float64(p.Entities))))
	return grid{p.Entities, w, (p.Entities + w - 1) / w, p.Radius}
}

func (g grid) space() sim.Space {
	return sim.Space{Kind: sim.Torus, Dims: 2, Periodic: [3]bool{true, true},
		Bounds: sim.Box{Max: sim.Vec{X: float64(g.width), Y: float64(g.height)}}}
}

func (g grid) place(i int64) sim.Vec {
	return sim.Vec{X: float64(i%g.width) + 0.5, Y: float64(i/g.width) + 0.5}
}

// pick picks an entity within the radius. Where the last row is short, the missing ones are skipped.
func (g grid) pick(c *sim.Context) sim.EntityID {
	self := int64(c.Self()) - 1
	x, y := self%g.width, self/g.width
	for range 64 {
		dx := c.Rand().IntN(2*g.radius+1) - g.radius
		dy := c.Rand().IntN(2*g.radius+1) - g.radius
		to := wrap(y+dy, g.height)*g.width + wrap(x+dx, g.width)
		if to < g.n && to != self {
			return sim.EntityID(to + 1)
		}
	}
	return c.Self()
}

func wrap(x, n int64) int64 { return ((x % n) + n) % n }

func results(f *sim.Final, k sim.Kind[State]) map[string]any {
	least, most, sum, n := int64(math.MaxInt64), int64(0), int64(0), int64(0)
	sim.Each(f, k, func(_ sim.EntityID, s *State) {
		least, most = min(least, s.Count), max(most, s.Count)
		sum += s.Count
		n++
	})
	return map[string]any{
		"events_held":         sum,
		"events_per_entity":   float64(sum) / float64(n),
		"least_by_one_entity": least,
		"most_by_one_entity":  most,
	}
}
