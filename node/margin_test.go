package node_test

import (
	"math"
	"testing"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// rush is a model made to find a ghost that is missing: cars move head on at the full speed that is
// declared, far into each other's regions before the next cut, look as far as the range all the time,
// and some turn round now and then, so that what is seen of them is old.
type rush struct {
	Speed, Range float64
	Lookahead    sim.Duration
	Turns        bool
}

type car struct {
	Hash uint64
	Way  float64
}

func rushModel() sim.Model {
	return sim.Define(sim.Model{Name: "rush"}, func(b *sim.Builder, p *rush) error {
		b.SetSpace(sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Max: sim.Vec{X: 400, Y: 4}}})
		b.SetLimits(sim.Limits{Lookahead: p.Lookahead, Range: p.Range, Speed: p.Speed})
		k := sim.DefineKind[car](b, "car", "")
		look := sim.DefineEvent[sim.None](b, "look", sim.Planned)
		turn := sim.DefineEvent[sim.None](b, "turn", sim.State)
		drive := func(c *sim.Context, s *car) {
			c.Publish(sim.Motion{Start: c.Now(), Stop: sim.Never, From: c.Position(), Vel: sim.Vec{X: s.Way * p.Speed}})
		}
		again := func(c *sim.Context) sim.Duration {
			return p.Lookahead*2 + c.Rand().ExpDuration(p.Lookahead*8)
		}
		sim.OnStart(k, func(c *sim.Context, s *car) {
			drive(c, s)
			look.Schedule(c, 0, sim.None{})
			if p.Turns {
				turn.Schedule(c, again(c), sim.None{})
			}
		})
		sim.Handle(k, turn, func(c *sim.Context, s *car, _ sim.None) {
			s.Way = -s.Way
			drive(c, s)
			turn.Schedule(c, again(c), sim.None{})
		})
		sim.Handle(k, look, func(c *sim.Context, s *car, _ sim.None) {
			for _, o := range c.Near(p.Range, sim.AnyKind) {
				s.Hash = sim.Digest(s.Hash, uint64(o.ID), math.Float64bits(o.Distance))
			}
			c.Again(100 * sim.Millisecond)
		})
		for i := range 160 {
			sim.Add(k, sim.Vec{X: 2.5*float64(i) + 0.1, Y: float64(i % 4)}, car{Way: float64(1 - i%2*2)})
		}
		return nil
	})
}

// TestGhostsReachAsFarAsAnybodySees compares several regions with one, in which nothing can be missing.
func TestGhostsReachAsFarAsAnybodySees(t *testing.T) {
	for _, p := range []rush{
		{Speed: 1, Range: 4, Lookahead: sim.Millisecond},
		{Speed: 5, Range: 12, Lookahead: 10 * sim.Millisecond},
		{Speed: 1, Range: 1, Lookahead: 2 * sim.Second, Turns: true},
		{Speed: 3, Range: 2, Lookahead: sim.Second, Turns: true},
	} {
		program := func() *sim.Program {
			q := p
			prog, err := sim.NewProgram(rushModel(), &q, sim.Space{}, 3, sim.Time(40*sim.Second))
			if err != nil {
				t.Fatal(err)
			}
			return prog
		}
		want := mustRun(t, program(), node.Options{})
		for _, regions := range []int{2, 3, 5, 8, 16} {
			got := mustRun(t, program(), node.Options{Regions: regions})
			if got.Digest != want.Digest {
				t.Errorf("%+v: digest %x in %d regions, %x in one", p, got.Digest, regions, want.Digest)
			}
			if got.Cuts == 0 || got.Migrated == 0 {
				t.Errorf("%+v: %d cuts, %d migrations: the test needs them", p, got.Cuts, got.Migrated)
			}
		}
	}
}
