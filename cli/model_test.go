package cli

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/simnode/simnode/models"
	"github.com/simnode/simnode/sim"
)

// probeParams choose what goes wrong.
type probeParams struct {
	Mode      string       `param:"mode" default:"fine" enum:"fine,slow,panic,breach,chain,results-error,results-panic,results-nan,picture-error,picture-panic,picture-name,hang,nan,setup-hang,setup-goexit" doc:"what goes wrong"`
	Lookahead sim.Duration `param:"lookahead" default:"100 ms"`
	Reach     float64      `param:"reach" unit:"m" default:"10 m"`
	Entities  int          `param:"entities" default:"20" min:"1"`
}

type probeState struct{ N int64 }

type probeRow struct {
	N int64 `col:"n"`
}

// probe is a model of entities that count and record, and do what the mode says in their third second.
func probe() sim.Model {
	return sim.Define(sim.Model{Name: "probe", Summary: "counts <and> records", Doc: "A model for tests.", Source: "none", Check: "none", Version: 1},
		func(b *sim.Builder, p *probeParams) error {
			if p.Mode == "setup-hang" {
				if err := os.WriteFile("setup-began", []byte("x"), 0o666); err != nil {
					return err
				}
				select {}
			}
			if p.Mode == "setup-goexit" {
				runtime.Goexit()
			}
			b.SetEnd(sim.Time(10 * sim.Second))
			b.SetSpace(sim.Space{Kind: sim.Torus, Dims: 2, Periodic: [3]bool{true, true}, Bounds: sim.Box{Max: sim.Vec{X: 100, Y: 100}}})
			b.SetLimits(sim.Limits{Lookahead: p.Lookahead, Range: p.Reach, Speed: 1})
			k := sim.DefineKind[probeState](b, "counter", "counts")
			tick := sim.DefineEvent[sim.None](b, "tick", sim.Planned)
			ticks := sim.DefineCounter(b, "ticks", "1", "how often")
			level := sim.DefineGauge(b, "level", "1", "how many", 0)
			wait := sim.DefineSample(b, "wait", "s", "how long")
			rows := sim.DefineTable[probeRow](b, "rows", "what was counted")
			sim.OnStart(k, func(c *sim.Context, _ *probeState) { tick.Schedule(c, c.Rand().ExpDuration(sim.Second), sim.None{}) })
			sim.Handle(k, tick, func(c *sim.Context, s *probeState, _ sim.None) {
				s.N++
				if p.Mode == "slow" {
					time.Sleep(5 * time.Millisecond)
				}
				if s.N >= 3 && p.Mode == "chain" {
					c.Again(0)
					return
				}
				ticks.Add(c, 1)
				level.Add(c, 1)
				wait.Observe(c, c.Rand().Exp(1))
				rows.Write(c, probeRow{s.N})
				if s.N >= 3 {
					misbehave(c, p.Mode, wait, tick)
				}
				tick.Send(c, sim.EntityID(c.Rand().IntN(int64(p.Entities))+1), p.Lookahead+c.Rand().ExpDuration(sim.Second), sim.None{})
			})
			for i := range p.Entities {
				sim.Add(k, sim.Vec{X: float64(i%10) * 10, Y: float64(i / 10 % 10 * 10)}, probeState{})
			}
			b.Results(func(*sim.Final) (map[string]any, error) {
				switch p.Mode {
				case "results-error":
					return nil, errors.New("no results today")
				case "results-panic":
					panic("results in panic")
				case "results-nan":
					return map[string]any{"mean": math.NaN()}, nil
				}
				return map[string]any{"answer": 42, "by_year": map[string]any{"9": 1, "10": 2, "x": 3}, "list": []int{1, 2}, "text": "a<b"}, nil
			})
			b.Pictures(func(*sim.Final) ([]sim.Picture, error) {
				switch p.Mode {
				case "picture-error":
					return nil, errors.New("no picture today")
				case "picture-panic":
					panic("picture in panic")
				case "picture-name":
					return []sim.Picture{{Name: "../dot"}}, nil
				}
				return []sim.Picture{{Name: "dot", Title: "A dot", SVG: []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2"><circle cx="1" cy="1" r="1"/></svg>`)}}, nil
			})
			return nil
		})
}

// misbehave does what the mode says.
func misbehave(c *sim.Context, mode string, wait sim.Sample, tick sim.Event[sim.None]) {
	switch mode {
	case "panic":
		var none []int
		_ = none[c.Self()]
	case "breach":
		tick.Send(c, c.Self()%20+1, 1, sim.None{})
	case "nan":
		wait.Observe(c, math.NaN())
	case "hang":
		if err := os.WriteFile("hangs", nil, 0o666); err != nil {
			panic(err)
		}
		select {}
	}
}

func testModels() []sim.Model { return append(models.All(), probe()) }

// folder makes a fresh folder with files in it.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
