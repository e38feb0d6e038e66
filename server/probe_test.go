package server

import (
	"errors"
	"math"
	"runtime"
	"time"

	"github.com/simnode/simnode/sim"
)

// probeParams choose what the model for tests does.
type probeParams struct {
	Mode string `param:"mode" default:"fine" enum:"fine,panic,breach,nan,slow,stop,setup-panic,setup-goexit,results-error,results-panic,results-goexit,picture-name" doc:"what goes wrong"`
	// Pause of wall time in each event, in microseconds, in mode slow.
	Pause     int          `param:"pause" default:"0" min:"0"`
	Lookahead sim.Duration `param:"lookahead" default:"100 ms"`
}

type probeState struct{ N int64 }

type probeRow struct {
	N int64 `col:"n"`
}

const probes = 40

// probe is a model of entities that count and record, and do what the mode says in their third event.
func probe() sim.Model {
	return sim.Define(sim.Model{Name: "probe", Summary: "counts <and> records", Doc: "A model for tests.", Source: "none", Check: "none", Version: 1}, setUpProbe)
}

func setUpProbe(b *sim.Builder, p *probeParams) error {
	switch p.Mode {
	case "setup-panic":
		panic("setup in panic")
	case "setup-goexit":
		runtime.Goexit()
	case "stop":
		b.SetStopEvery(sim.Second)
	}
	b.SetEnd(sim.Time(10 * sim.Second))
	b.SetSpace(sim.Space{Kind: sim.Torus, Dims: 2, Periodic: [3]bool{true, true}, Bounds: sim.Box{Max: sim.Vec{X: 100, Y: 100}}})
	b.SetLimits(sim.Limits{Lookahead: p.Lookahead, Range: 10, Speed: 1})
	k := sim.DefineKind[probeState](b, "counter", "counts")
	tick := sim.DefineEvent[sim.None](b, "tick", sim.Planned)
	ticks := sim.DefineCounter(b, "ticks", "1", "how often")
	wait := sim.DefineSample(b, "wait", "s", "how long")
	rows := sim.DefineTable[probeRow](b, "rows", "what was counted")
	sim.OnStart(k, func(c *sim.Context, _ *probeState) { tick.Schedule(c, c.Rand().ExpDuration(sim.Second), sim.None{}) })
	sim.Handle(k, tick, func(c *sim.Context, s *probeState, _ sim.None) {
		s.N++
		time.Sleep(time.Duration(p.Pause) * time.Microsecond)
		ticks.Add(c, 1)
		wait.Observe(c, c.Rand().Exp(1))
		rows.Write(c, probeRow{s.N})
		if s.N >= 3 {
			misbehave(c, p.Mode, wait, tick)
		}
		tick.Send(c, sim.EntityID(c.Rand().IntN(probes)+1), p.Lookahead+c.Rand().ExpDuration(sim.Second), sim.None{})
	})
	for i := range probes {
		sim.Add(k, sim.Vec{X: float64(i%10) * 10, Y: float64(i / 10 % 10 * 10)}, probeState{})
	}
	b.Results(func(*sim.Final) (map[string]any, error) {
		switch p.Mode {
		case "results-error":
			return nil, errors.New("no results today")
		case "results-panic":
			panic("results in panic")
		case "results-goexit":
			runtime.Goexit()
		}
		return map[string]any{"answer": 42, "text": "a<b"}, nil
	})
	b.Pictures(func(*sim.Final) ([]sim.Picture, error) {
		name := "dot"
		if p.Mode == "picture-name" {
			name = "../dot"
		}
		return []sim.Picture{{Name: name, Title: "A dot", SVG: []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2"><circle cx="1" cy="1" r="1"/></svg>`)}}, nil
	})
	return nil
}

// misbehave does what the mode says.
func misbehave(c *sim.Context, mode string, wait sim.Sample, tick sim.Event[sim.None]) {
	switch mode {
	case "panic":
		var none []int
		_ = none[c.Self()]
	case "breach":
		tick.Send(c, c.Self()%probes+1, 1, sim.None{})
	case "nan":
		wait.Observe(c, math.NaN())
	case "stop":
		c.Stop()
	}
}
