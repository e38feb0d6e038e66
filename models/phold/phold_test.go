package phold

import (
	"context"
	"errors"
	"math"
	"testing"

	"gonum.org/v1/plot/plotter"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

func run(t *testing.T, p Params, regions int) *node.Outcome {
	t.Helper()
	prog, err := sim.NewProgram(Model(), &p, sim.Space{}, 1, sim.Time(60*sim.Second))
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.Run(context.Background(), prog, node.Options{Regions: regions})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The number of events is that of renewal theory (D. Cox, Renewal Theory, 1962), in any number of
// regions.
func TestEventsByRenewalTheory(t *testing.T) {
	for _, p := range []Params{
		{Entities: 4096, Population: 1, Lookahead: 100 * sim.Millisecond, Mean: sim.Second, Remote: 0.5, Destinations: "uniform", Radius: 3},
		{Entities: 1000, Population: 3, Lookahead: 500 * sim.Millisecond, Mean: sim.Second, Remote: 1, Destinations: "spatial", Radius: 2},
		{Entities: 1, Population: 2000, Lookahead: sim.Second, Mean: sim.Second, Remote: 1, Destinations: "uniform", Radius: 1},
		{Entities: 3, Population: 700, Lookahead: 1, Mean: 2 * sim.Second, Remote: 0, Destinations: "spatial", Radius: 9},
	} {
		flying := float64(p.Entities * p.Population)
		mean, above := p.Mean.Seconds(), (p.Mean - p.Lookahead).Seconds()
		variance := above * above
		expected := flying * (60/mean + (variance+mean*mean)/(2*mean*mean) - 1)
		// A lattice of delays without variance is off by less than one event each.
		allowed := 4*math.Sqrt(flying*60*variance/(mean*mean*mean)) + 4*math.Sqrt(flying)
		one := run(t, p, 1)
		held := float64(one.Events) - float64(p.Entities) // without the events of the start
		if math.Abs(held-expected) > allowed {
			t.Errorf("%+v: %g events, not %.0f within %.0f", p, held, expected, allowed)
		}
		for _, regions := range []int{2, 5} {
			if out := run(t, p, regions); out.Digest != one.Digest || out.Events != one.Events {
				t.Errorf("%+v: %d regions give another run", p, regions)
			}
		}
	}
}

func TestBadParametersAreRefused(t *testing.T) {
	plane := sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Max: sim.Vec{X: 9, Y: 9}}}
	for name, c := range map[string]struct {
		params Params
		space  sim.Space
		path   string
	}{
		"mean below the lookahead":  {Params{Entities: 1, Population: 1, Lookahead: 2, Mean: 1}, sim.Space{}, "params.mean"},
		"more events than memory":   {Params{Entities: 50_000_000, Population: 3, Lookahead: 1, Mean: 1}, sim.Space{}, "params.population"},
		"just above the bound":      {Params{Entities: 100_001, Population: 1000, Lookahead: 1, Mean: 1}, sim.Space{}, "params.population"},
		"a space that has no use":   {Params{Entities: 1, Population: 1, Lookahead: 1, Mean: 1, Destinations: "uniform"}, plane, "space"},
		"another space than it has": {Params{Entities: 1, Population: 1, Lookahead: 1, Mean: 1, Destinations: "spatial"}, plane, "space"},
	} {
		_, err := sim.NewProgram(Model(), &c.params, c.space, 1, 10)
		var param *sim.ParamError
		if !errors.As(err, &param) || param.Path != c.path {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every bar of the picture stands for as many counts as the others, none of them in two bars, and all
// entities are in one.
func TestHistogramHasWholeBars(t *testing.T) {
	for entities, each := range map[int64]int64{1: 1, 300: 1, 20: 1} {
		checkBars(t, Params{Entities: entities, Population: 1, Lookahead: sim.Second, Mean: 5 * sim.Second, Remote: 0.5, Destinations: "uniform", Radius: 1}, each)
	}
	checkBars(t, Params{Entities: 50, Population: 100, Lookahead: sim.Second, Mean: 5 * sim.Second, Remote: 1, Destinations: "uniform", Radius: 1}, 0)
}

// checkBars checks the histogram of a run; each of 0 is any but 1.
func checkBars(t *testing.T, p Params, each int64) {
	t.Helper()
	var bars []plotter.HistogramBin
	var got int64
	model := sim.Define(Model(), func(b *sim.Builder, p *Params) error {
		err := setup(b, p)
		b.Pictures(func(f *sim.Final) ([]sim.Picture, error) {
			bars, got = histogram(f, sim.Kind[State]{})
			return pictures(f, sim.Kind[State]{})
		})
		return err
	})
	prog, err := sim.NewProgram(model, &p, sim.Space{}, 1, sim.Time(60*sim.Second))
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.Run(context.Background(), prog, node.Options{Regions: 1})
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := prog.Pictures(out.Final(nil))
	if err != nil || len(drawn) != 1 || len(drawn[0].SVG) == 0 {
		t.Fatalf("%v, %d pictures", err, len(drawn))
	}
	if got != each && (each > 0 || got < 2) || len(bars) == 0 || len(bars) > 40 {
		t.Errorf("%d entities: %d bars of %d counts", p.Entities, len(bars), got)
	}
	sum := 0.0
	for i, b := range bars {
		sum += b.Weight
		if b.Max-b.Min != float64(got) || b.Min != bars[0].Min+float64(int64(i)*got) || b.Min+0.5 != math.Trunc(b.Min+0.5) {
			t.Errorf("bar %d is %+v", i, b)
		}
	}
	if sum != float64(p.Entities) || bars[0].Weight == 0 || bars[len(bars)-1].Weight == 0 {
		t.Errorf("%g entities in the bars, not %d", sum, p.Entities)
	}
}
