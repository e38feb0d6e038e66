package node_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// warm is a model of which a tenth is busy and the rest waits: entities of 128 bytes, of which the busy ones send
// one another events as in PHOLD.
type warm struct{ sim.Limits }

type warmState struct {
	Words [15]uint64
	Hot   bool
}

const warmLookahead = 100 * sim.Millisecond

func warmModel(entities, hot int64) sim.Model {
	return sim.Define(sim.Model{Name: "warm"}, func(b *sim.Builder, p *warm) error {
		p.Limits.Lookahead = warmLookahead
		b.SetLimits(p.Limits)
		hit := sim.DefineEvent[sim.None](b, "hit", sim.State)
		k := sim.DefineKind[warmState](b, "cell", "waits or is busy")
		step := entities / hot
		sim.OnStart(k, func(c *sim.Context, s *warmState) {
			if !s.Hot {
				hit.Schedule(c, 1e6*sim.Second, sim.None{})
				return
			}
			hit.Schedule(c, c.Rand().ExpDuration(sim.Second), sim.None{})
		})
		sim.Handle(k, hit, func(c *sim.Context, s *warmState, _ sim.None) {
			s.Words[c.Rand().IntN(15)]++
			d := warmLookahead + c.Rand().ExpDuration(900*sim.Millisecond)
			to := sim.EntityID(1 + step*c.Rand().IntN(hot))
			if c.Rand().Bernoulli(0.5) || to == c.Self() {
				hit.Schedule(c, d, sim.None{})
				return
			}
			hit.Send(c, to, d, sim.None{})
		})
		for i := range entities {
			sim.Add(k, sim.Vec{}, warmState{Hot: i%step == 0})
		}
		return nil
	})
}

// BenchmarkCheckpoint compares a run of a million entities of 128 bytes, of which a tenth is busy, with and without
// a checkpoint every ten seconds, into a real store. What counts is processor time; the first checkpoint, which writes
// everything, does not.
//
//	CHECKPOINT_SECONDS=45 go test ./node -run XXX -bench 'Checkpoint$' -benchtime 1x -timeout 30m
func BenchmarkCheckpoint(b *testing.B) {
	entities, run := int64(1_000_000), 4*time.Second
	if n, err := strconv.Atoi(os.Getenv("CHECKPOINT_SECONDS")); err == nil {
		run = time.Duration(n) * time.Second
	}
	every := min(10*time.Second, run/4)
	if os.Getenv("CHECKPOINT_NONE") != "" {
		every = time.Hour // to see what taking note of changes costs
	}
	for b.Loop() {
		plain := runWarm(b, entities, run, nil)
		store, err := checkpoint.Open(checkpoint.Options{Dir: b.TempDir(), Job: "bench", Node: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		w := &warmSaver{b: b, store: store, every: every}
		saved := runWarm(b, entities, run, w)
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		w.report(plain, saved)
	}
}

// warmRun is what a run cost.
type warmRun struct {
	events  uint64
	elapsed time.Duration
	cpu     time.Duration
}

func (r warmRun) perEvent() float64 { return float64(r.cpu) / float64(r.events) }

func runWarm(b *testing.B, entities int64, d time.Duration, w *warmSaver) warmRun {
	prog, err := sim.NewProgram(warmModel(entities, entities/10), &warm{}, sim.Space{}, 1, sim.Time(1e5*sim.Second))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	o := node.Options{Regions: 4, Workers: 2}
	if w != nil {
		o.Checkpoints = &node.Checkpoints{Due: w.due, Number: w.store.Next, Save: w.save}
	}
	// The first checkpoint, which is taken at once and writes everything, is left out, and as much of the run without.
	var begun warmRun
	start := time.Now()
	o.Progress = func(p node.Progress) {
		if begun.events == 0 && (w == nil && time.Since(start) > d/8 || w != nil && w.taken.Load() > 0) {
			begun = warmRun{p.Events, time.Since(start), processorTime()}
		}
	}
	out, err := node.Run(ctx, prog, o)
	if err != nil {
		b.Fatal(err)
	}
	return warmRun{out.Events - begun.events, time.Since(start) - begun.elapsed, processorTime() - begun.cpu}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// warmSaver writes checkpoints and measures them.
type warmSaver struct {
	b       *testing.B
	store   *checkpoint.Store
	every   time.Duration
	last    time.Time
	chain   []uint64
	taken   atomic.Int64
	written []uint64
	took    []time.Duration
	pauses  []time.Duration
}

func (w *warmSaver) due() bool {
	if !w.last.IsZero() && time.Since(w.last) < w.every {
		return false
	}
	w.last = time.Now()
	return true
}

func (w *warmSaver) save(k *node.Capture, _ []byte) error {
	err := w.write(k)
	if err != nil && k.Number() < 100 {
		w.b.Logf("checkpoint %d: %v", k.Number(), err)
	}
	return err
}

func (w *warmSaver) write(k *node.Capture) error {
	begun := time.Now()
	for len(w.chain) > 0 && w.chain[0] < k.Base() {
		w.chain = w.chain[1:]
	}
	out, err := w.store.Write(k.Number(), 0, w.chain, 1<<20)
	if err != nil {
		return err
	}
	n := uint64(0)
	regions, err := k.Write(func(region int, kind byte, data []byte) error {
		n += uint64(len(data))
		return out.Put(region, kind, data)
	})
	if err != nil {
		out.Abort()
		return err
	}
	for _, r := range regions {
		if err := out.Describe(checkpoint.RegionPart{Region: r.Region, Base: r.Base, Entities: r.Entities, Events: r.Events, Digest: r.Digest}); err != nil {
			return err
		}
	}
	part, err := out.Close()
	if err != nil {
		return err
	}
	if err := w.store.Commit(&checkpoint.Manifest{Format: checkpoint.Format, Number: k.Number(), At: k.At(), Chain: append(slices.Clone(w.chain), k.Number()), Parts: []checkpoint.PartRef{part.Ref()}}); err != nil {
		return err
	}
	w.chain = append(w.chain, k.Number())
	w.taken.Add(1)
	w.written, w.took = append(w.written, n), append(w.took, time.Since(begun))
	w.pauses = append(w.pauses, k.Pauses()...)
	return nil
}

func (w *warmSaver) report(plain, saved warmRun) {
	w.b.Logf("without: %.2f M events/s, %.0f ns of processor time each", float64(plain.events)/plain.elapsed.Seconds()/1e6, plain.perEvent())
	w.b.Logf("with %d checkpoints: %.2f M events/s, %.0f ns of processor time each", len(w.took), float64(saved.events)/saved.elapsed.Seconds()/1e6, saved.perEvent())
	for i := range w.took {
		w.b.Logf("checkpoint %d: %.1f MB in %v", i+1, float64(w.written[i])/1e6, w.took[i].Round(time.Millisecond))
	}
	if len(w.pauses) > 0 {
		slices.Sort(w.pauses)
		w.b.ReportMetric(float64(w.pauses[len(w.pauses)*99/100].Microseconds()), "pause-p99-µs")
		w.b.ReportMetric(float64(w.pauses[len(w.pauses)-1].Microseconds()), "pause-max-µs")
	}
	w.b.ReportMetric(100*(1-plain.perEvent()/saved.perEvent()), "%-of-processor-time")
}
