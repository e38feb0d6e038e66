package node_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/simnode/simnode/models/phold"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// smallPHOLD is PHOLD in small, seeded.
func smallPHOLD(t testing.TB, seed uint64, edit func(p *phold.Params)) *sim.Program {
	t.Helper()
	p := &phold.Params{Entities: 300, Population: 2, Lookahead: 50 * sim.Millisecond, Mean: sim.Second, Remote: 0.5, Destinations: "uniform", Radius: 3}
	if edit != nil {
		edit(p)
	}
	prog, err := sim.NewProgram(phold.Model(), p, sim.Space{}, seed, sim.Time(5*sim.Second))
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// scenarios are the programs that are run in every way.
func scenarios() map[string]func(t testing.TB, seed uint64) *sim.Program {
	return map[string]func(t testing.TB, seed uint64) *sim.Program{
		"phold": func(t testing.TB, seed uint64) *sim.Program { return smallPHOLD(t, seed, nil) },
		"phold in space": func(t testing.TB, seed uint64) *sim.Program {
			return smallPHOLD(t, seed, func(p *phold.Params) { p.Destinations = "spatial" })
		},
		"storm": stormProgram,
	}
}

// TestOneDigest runs every scenario on all numbers of regions, workers and processors.
func TestOneDigest(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, program := range scenarios() {
		want := mustRun(t, program(t, 1), node.Options{Regions: 1, Workers: 1})
		for _, procs := range []int{1, 2, 8} {
			runtime.GOMAXPROCS(procs)
			for _, regions := range []int{1, 2, 3, 4, 8, 16} {
				for workers := 1; workers <= min(3, regions); workers++ {
					got := mustRun(t, program(t, 1), node.Options{Regions: regions, Workers: workers})
					compareOutcomes(t, fmt.Sprintf("%s: %d regions, %d workers, %d processors", name, regions, workers, procs), got, want)
				}
			}
		}
	}
}

func compareOutcomes(t *testing.T, name string, got, want *node.Outcome) {
	t.Helper()
	if got.Digest != want.Digest || got.Events != want.Events || got.Dropped != want.Dropped || got.Entities != want.Entities || got.End != want.End {
		t.Errorf("%s: digest %x, %d events, %d dropped, %d entities, end %v; want %x, %d, %d, %d, %v", name, got.Digest, got.Events,
			got.Dropped, got.Entities, got.End, want.Digest, want.Events, want.Dropped, want.Entities, want.End)
	}
}

// TestTenSeeds: each seed has one result of its own, with sink and trace on or off. Storms drop events
// for entities that are gone; as many everywhere.
func TestTenSeeds(t *testing.T) {
	for name, program := range scenarios() {
		digests, dropped := map[uint64]uint64{}, uint64(0)
		for seed := range uint64(10) {
			want := mustRun(t, program(t, seed), node.Options{})
			dropped += want.Dropped
			if other, twice := digests[want.Digest]; twice {
				t.Errorf("%s: seeds %d and %d give one digest", name, seed, other)
			}
			digests[want.Digest] = seed
			for i, o := range []node.Options{
				{Regions: 4, Workers: 2}, {Regions: 7, Workers: 3, Sink: &tape{}}, {Regions: 2, Workers: 2, Sink: &tape{}, Trace: true}, {Trace: true},
			} {
				compareOutcomes(t, fmt.Sprintf("%s, seed %d, options %d", name, seed, i), mustRun(t, program(t, seed), o), want)
			}
		}
		if name == "storm" && dropped == 0 {
			t.Error("no storm dropped an event")
		}
	}
}

// TestStormInside checks at every cut of random models who owns and who shows what.
func TestStormInside(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	cuts := 0
	for seed := range seeds {
		p := stormProgram(t, seed)
		var wrong error
		out, err := node.RunInside(context.Background(), p, node.Options{Regions: 5, Workers: 2}, func(in node.Inside, at sim.Time) {
			if wrong == nil && at < p.End {
				wrong = in.Check(at, true)
			}
		})
		if err != nil || wrong != nil {
			t.Fatalf("seed %d: %v %v", seed, err, wrong)
		}
		cuts += out.Cuts
	}
	if cuts == 0 {
		t.Error("no cut was looked at")
	}
}

// clock is an endless play: entities that send to one another and note it.
func clock(n int) *play {
	y := &play{Space: torus(100, 100), Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 5, Speed: 3}}
	r := sim.NewRand(11, 11)
	for range n {
		y.Actors = append(y.Actors, actor{Pos: at(r.Uniform(0, 100), r.Uniform(0, 100)),
			Start: func(c *sim.Context, _ *part, p *props) {
				wander(c, 3)
				p.cue.Schedule(c, c.Rand().ExpDuration(100*sim.Millisecond), 0)
			},
			Cue: func(c *sim.Context, s *part, p *props, n int64) {
				s.N++
				p.note(c, s.N)
				if n == 0 {
					p.cue.Send(c, sim.EntityID(c.Rand().IntN(int64(len(y.Actors)))+1), 20*sim.Millisecond, 1)
					c.Again(10*sim.Millisecond + c.Rand().ExpDuration(100*sim.Millisecond))
				}
			}})
	}
	return y
}

// checkedSink checks that observations come in order, and counts them.
type checkedSink struct {
	last sim.Observation
	n    int
	err  error
}

func (s *checkedSink) Observe(obs []sim.Observation) error {
	for _, o := range obs {
		a, b := &s.last, &o
		before := a.Time < b.Time || a.Time == b.Time && (a.Key < b.Key || a.Key == b.Key && (a.Seq < b.Seq || a.Seq == b.Seq && a.Index < b.Index))
		if s.n > 0 && !before && s.err == nil {
			s.err = fmt.Errorf("observation %d at %v comes after one at %v", s.n, o.Time, s.last.Time)
		}
		s.last = o
		s.n++
	}
	return nil
}

// TestInterrupted stops runs in the middle: what was handed over is all that lies below the end, and the
// states are those of a run that ends there.
func TestInterrupted(t *testing.T) {
	const end = 10 * sim.Second
	// stopped adds an actor that calls stop at half-seconds.
	stopped := func(end sim.Duration, stop func(at sim.Time)) *sim.Program {
		y := clock(30)
		y.Actors = append(y.Actors, actor{Pos: at(50, 50),
			Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, sim.Second/2, 0) },
			Cue: func(c *sim.Context, _ *part, _ *props, n int64) {
				stop(c.Now())
				if n == 0 {
					c.Again(sim.Second / 2)
				}
			}})
		return y.program(t, end)
	}
	whole := &tape{}
	mustRun(t, stopped(end, func(sim.Time) {}), node.Options{Sink: whole, Trace: true})
	interrupted := 0
	for i := range 39 {
		ctx, cancel := context.WithCancel(context.Background())
		got := &tape{}
		p := stopped(end, func(at sim.Time) {
			if at == sim.Time(i%19+1)*sim.Time(sim.Second/2) {
				cancel()
				time.Sleep(5 * time.Millisecond)
			}
		})
		out, err := node.Run(ctx, p, node.Options{Regions: 1 + i%5, Workers: 1 + i%3, Sink: got, Trace: true})
		if err != nil {
			t.Fatal(err)
		}
		if out.Interrupted != (out.End < sim.Time(end)) {
			t.Fatalf("interrupted %v at %v", out.Interrupted, out.End)
		}
		if out.Interrupted {
			interrupted++
		}
		want := 0
		for want < len(whole.lines) && timeOf(whole.lines[want]) < out.End {
			want++
		}
		if len(got.lines) != want || firstDifference(got.lines, whole.lines[:want]) >= 0 {
			t.Fatalf("run %d ended at %v with %d observations, want %d", i, out.End, len(got.lines), want)
		}
		there := mustRun(t, stopped(sim.Duration(out.End), func(sim.Time) {}), node.Options{})
		if there.Digest != out.Digest || there.Events != out.Events {
			t.Fatalf("run %d stopped at %v: digest %x after %d events; a run that ends there: %x, %d", i, out.End, out.Digest, out.Events, there.Digest, there.Events)
		}
	}
	if interrupted < 5 {
		t.Errorf("%d of 39 runs were interrupted", interrupted)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if out, err := node.Run(ctx, clock(50).program(t, 1000*sim.Second), node.Options{Regions: 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("a run stopped before it began: %v, %+v", err, out)
	}
}

func timeOf(line string) (at sim.Time) {
	if _, err := fmt.Sscan(line, (*int64)(&at)); err != nil {
		panic(err)
	}
	return at
}

// TestProgress runs under a fake clock: a model that takes a second of wall time for each of its
// seconds is asked for progress ten times a second.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &play{Limits: sim.Limits{Lookahead: sim.Second}, Actors: []actor{{
			Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, sim.Second, 0) },
			Cue: func(c *sim.Context, _ *part, _ *props, _ int64) {
				time.Sleep(time.Second)
				c.Again(sim.Second)
			}}, {}}}
		var list []node.Progress
		start := time.Now()
		out := mustRun(t, y.program(t, 10*sim.Second), node.Options{Regions: 2, Workers: 1,
			Progress: func(p node.Progress) { list = append(list, p) }})
		if d := time.Since(start); d != 9*time.Second {
			t.Errorf("the run took %v of fake time", d)
		}
		if len(list) < 80 || len(list) > 91 {
			t.Errorf("%d reports of progress in 9 s", len(list))
		}
		for i, p := range list {
			if p.End != sim.Time(10*sim.Second) || p.Now > p.End || i > 0 && (p.Now < list[i-1].Now || p.Events < list[i-1].Events) {
				t.Errorf("report %d: %+v", i, p)
			}
		}
		if last := list[len(list)-1]; last.Now < sim.Time(5*sim.Second) || last.Events > out.Events || last.Events == 0 {
			t.Errorf("the last report: %+v of %d events", last, out.Events)
		}
	})
}

// TestSlowSink: a sink that takes long loses nothing and changes no order.
func TestSlowSink(t *testing.T) {
	y := clock(50)
	want := &tape{}
	mustRun(t, y.program(t, 40*sim.Second), node.Options{Sink: want, Trace: true})
	if len(want.lines) < 20_000 {
		t.Fatalf("only %d observations", len(want.lines))
	}
	for _, w := range [][2]int{{1, 1}, {4, 2}, {6, 3}} {
		got := &tape{}
		slow := sinkFunc(func(obs []sim.Observation) error {
			time.Sleep(5 * time.Millisecond)
			return got.Observe(obs)
		})
		mustRun(t, y.program(t, 40*sim.Second), node.Options{Regions: w[0], Workers: w[1], Sink: slow, Trace: true})
		if i := firstDifference(got.lines, want.lines); i >= 0 {
			t.Errorf("%v: observation %d of %d is %s, want %s", w, i, len(want.lines), lineAt(got.lines, i), lineAt(want.lines, i))
		}
	}
}

type sinkFunc func(obs []sim.Observation) error

func (f sinkFunc) Observe(obs []sim.Observation) error { return f(obs) }

// TestBackPressure: with a sink that is slower than the model, workers wait; what is on the way stays
// bounded.
func TestBackPressure(t *testing.T) {
	var made atomic.Int64
	y := &play{Limits: sim.Limits{Lookahead: sim.Millisecond}}
	for range 4 {
		y.Actors = append(y.Actors, actor{
			Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, sim.Millisecond, 0) },
			Cue: func(c *sim.Context, _ *part, p *props, _ int64) {
				for range 1000 {
					p.count.Add(c, 1)
				}
				made.Add(1000)
				c.Again(sim.Millisecond)
			}})
	}
	for regions := 1; regions < 3; regions++ {
		made.Store(0)
		taken, most := int64(0), int64(0)
		s := &checkedSink{}
		slow := sinkFunc(func(obs []sim.Observation) error {
			time.Sleep(time.Millisecond)
			most = max(most, made.Load()-taken)
			taken += int64(len(obs))
			return s.Observe(obs)
		})
		total := int64(4 * 999 * 1000)
		mustRun(t, y.program(t, sim.Second), node.Options{Regions: regions, Workers: 2, Sink: slow})
		if s.err != nil || taken != total {
			t.Errorf("%d regions: %d observations of %d, %v", regions, taken, total, s.err)
		}
		if most > 1_500_000 {
			t.Errorf("%d regions: %d observations were on the way at once", regions, most)
		}
	}
}

// TestThousandRuns: heap stays flat over many runs in one process.
func TestThousandRuns(t *testing.T) {
	run := func(n int) {
		for i := range n {
			p := smallPHOLD(t, uint64(i), func(p *phold.Params) { p.Entities = 20 })
			p.End = sim.Time(200 * sim.Millisecond)
			mustRun(t, p, node.Options{Regions: 1 + i%3, Sink: &tape{}})
		}
	}
	n := 1000
	if testing.Short() {
		n = 200
	}
	run(20)
	before := heapInUse()
	run(n)
	if after := heapInUse(); int64(after)-int64(before) > 200_000 {
		t.Errorf("the heap grew from %d to %d bytes over %d runs", before, after, n)
	}
}

// TestTwoEnginesAtOnce: runs in one process do not know of one another.
func TestTwoEnginesAtOnce(t *testing.T) {
	list := scenarios()
	var group sync.WaitGroup
	for name, program := range list {
		for seed := range uint64(3) {
			want := mustRun(t, program(t, seed), node.Options{})
			p, q := program(t, seed), program(t, seed)
			for i, prog := range []*sim.Program{p, q} {
				group.Go(func() {
					out, err := node.Run(context.Background(), prog, node.Options{Regions: 2 + i, Workers: 2})
					if err != nil || out.Digest != want.Digest {
						t.Errorf("%s, seed %d: %v", name, seed, err)
					}
				})
			}
		}
	}
	group.Wait()
}

// TestMallocsPerEvent compares a long run with a short one: what the longer one allocates more, for
// each event more.
func TestMallocsPerEvent(t *testing.T) {
	measure := func(end sim.Duration, o node.Options) (mallocs, events uint64) {
		p := smallPHOLD(t, 1, func(p *phold.Params) { p.Entities = 5000 })
		p.End = sim.Time(end)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := mustRun(t, p, o)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs, out.Events
	}
	for _, o := range []node.Options{{}, {Regions: 2, Workers: 1}, {Regions: 4, Workers: 2}} {
		m1, e1 := measure(20*sim.Second, o)
		m2, e2 := measure(60*sim.Second, o)
		if per := (float64(m2) - float64(m1)) / float64(e2-e1); per > 0.001 {
			t.Errorf("%d regions: %.5f allocations per event", o.Regions, per)
		}
	}
}

// TestLargePayloads sends payloads that do not fit a message, to oneself and others, with cancels,
// entities that are gone, and moves between regions.
func TestLargePayloads(t *testing.T) {
	y := &play{Space: torus(40, 40), Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 5, Speed: 8}}
	for i := range 30 {
		y.Actors = append(y.Actors, actor{Pos: at(float64(i), float64(i*7%40)),
			Start: func(c *sim.Context, _ *part, p *props) {
				wander(c, 8)
				p.cue.Schedule(c, c.Rand().ExpDuration(sim.Second), 0)
			},
			Cue: func(c *sim.Context, s *part, p *props, n int64) {
				var words [64]int64
				for k := range words {
					words[k] = int64(c.Rand().Uint64())
				}
				p.large.Send(c, sim.EntityID(c.Rand().IntN(30)+1), c.Rand().ExpDuration(sim.Second)+10*sim.Millisecond, words)
				keep, drop := p.large.Schedule(c, 3*sim.Second, words), p.large.Schedule(c, 4*sim.Second, words)
				if !c.Cancel(drop) || c.Cancel(drop) {
					s.X = -1
				}
				s.Ref = keep
				wander(c, 8)
				if n == 12 && c.Self()%5 == 0 {
					c.Remove()
				}
				p.cue.Schedule(c, c.Rand().ExpDuration(sim.Second), n+1)
			}})
	}
	all := stageAll(t, y, 30*sim.Second, 1, 2, 3, 8)
	if last := all[len(all)-1]; last.Migrated == 0 || last.Dropped == 0 || last.Entities == 30 {
		t.Errorf("%d migrated, %d dropped, %d entities left", last.Migrated, last.Dropped, last.Entities)
	}
}

// TestManyMigrations: entities that go to and fro between regions leave nothing behind.
func TestManyMigrations(t *testing.T) {
	commuters := func() *play {
		y := &play{Space: plane(10, 1), Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 0.1}}
		for i := range 50 {
			y.Actors = append(y.Actors, actor{Pos: at(float64(i)/5, 0.5),
				Start: func(c *sim.Context, s *part, p *props) {
					stand(c, s, p)
					p.cue.Schedule(c, sim.Second, 0)
				},
				Cue: func(c *sim.Context, _ *part, _ *props, _ int64) {
					c.Publish(sim.At(at(10-c.Position().X, 0.5)))
					c.Again(sim.Second)
				}})
		}
		return y
	}
	kept := 0
	out, err := node.RunInside(context.Background(), commuters().program(t, 128*sim.Second), node.Options{Regions: 2}, func(in node.Inside, _ sim.Time) {
		kept = in.Kept()
	})
	if err != nil {
		t.Fatal(err)
	}
	if out.Migrated < 2000 || kept > 250 {
		t.Errorf("after %d migrations the regions keep %d records of what 50 entities published", out.Migrated, kept)
	}
}

// TestWeights: entities that weigh more get regions of fewer entities, and the result stays.
func TestWeights(t *testing.T) {
	type nothing struct{ N int64 }
	program := func(space sim.Space, heavy bool) *sim.Program {
		m := sim.Define(sim.Model{Name: "weights"}, func(b *sim.Builder, _ *struct{}) error {
			b.SetSpace(space)
			b.SetLimits(sim.Limits{Lookahead: sim.Second, Range: 1, Speed: 1})
			k := sim.DefineKind[nothing](b, "one", "")
			e := sim.DefineEvent[sim.None](b, "e", sim.Planned)
			sim.Handle(k, e, func(c *sim.Context, s *nothing, _ sim.None) { s.N++ })
			for i := range 100 {
				id := sim.Add(k, at(float64(i)+0.5, 0.5), nothing{})
				e.Init(b, id, 5, sim.None{})
				if heavy && i < 10 {
					b.SetWeight(id, 9)
				}
			}
			return nil
		})
		p, err := sim.NewProgram(m, &struct{}{}, sim.Space{}, 1, sim.Time(sim.Second))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, space := range []sim.Space{{}, plane(100, 1)} {
		even := mustRun(t, program(space, false), node.Options{Regions: 2})
		heavy := mustRun(t, program(space, true), node.Options{Regions: 2})
		if n := even.Regions[0].Entities; n != 50 {
			t.Errorf("of even weight, %d and %d entities", n, even.Regions[1].Entities)
		}
		if n := min(heavy.Regions[0].Entities, heavy.Regions[1].Entities); n < 9 || n > 12 {
			t.Errorf("ten heavy ones: %d and %d entities", heavy.Regions[0].Entities, heavy.Regions[1].Entities)
		}
		if even.Digest != heavy.Digest || even.Events != 100 {
			t.Errorf("weights change the result, or %d events", even.Events)
		}
	}
}

// TestFewerEntitiesThanRegions without a space, down to one.
func TestFewerEntitiesThanRegions(t *testing.T) {
	for entities := int64(1); entities < 5; entities++ {
		program := func() *sim.Program {
			return smallPHOLD(t, 3, func(p *phold.Params) { p.Entities = entities })
		}
		want := mustRun(t, program(), node.Options{})
		for _, regions := range []int{2, 5, 16} {
			compareOutcomes(t, fmt.Sprintf("%d entities on %d regions", entities, regions), mustRun(t, program(), node.Options{Regions: regions, Workers: 2}), want)
		}
	}
}

// TestStatesInOrder: the states at the end come by id, those of spawned entities too, and reading may
// stop early.
func TestStatesInOrder(t *testing.T) {
	var first []sim.EntityID
	for _, regions := range []int{1, 2, 8} {
		out := mustRun(t, stormProgram(t, 4), node.Options{Regions: regions})
		var ids []sim.EntityID
		final := out.Final(nil)
		final.States(func(id sim.EntityID, _ uint16, state unsafe.Pointer) bool {
			if state == nil {
				t.Error("no state")
			}
			ids = append(ids, id)
			return true
		})
		if first == nil {
			first = ids
		}
		if len(ids) != out.Entities || !slices.IsSorted(ids) || !slices.Equal(ids, first) {
			t.Errorf("%d regions: %d states of %d entities", regions, len(ids), out.Entities)
		}
		n := 0
		final.States(func(sim.EntityID, uint16, unsafe.Pointer) bool {
			n++
			return n < 3
		})
		if n != 3 || final.Events != out.Events || final.End != out.End || len(final.Regions) != map[bool]int{true: regions}[out.Map != nil] {
			t.Errorf("%d regions: stopped after %d states; final %d events at %v, %d boxes", regions, n, final.Events, final.End, len(final.Regions))
		}
	}
	if len(first) == 0 || first[len(first)-1] < 1<<60 {
		t.Error("no spawned entity among the states")
	}
}

// TestEndIsExclusive: an event at the end does not run; one just before it does.
func TestEndIsExclusive(t *testing.T) {
	y := &play{Limits: sim.Limits{Lookahead: 1}, Actors: []actor{{
		Start: func(c *sim.Context, _ *part, p *props) {
			p.cue.Schedule(c, sim.Second, 1)
			p.cue.Schedule(c, sim.Second-1, 2)
			p.cue.Schedule(c, sim.Forever, 3)
			p.large.Schedule(c, sim.Forever, [64]int64{})
			p.cue.Send(c, 2, sim.Forever, 3)
		},
		Cue: func(_ *sim.Context, s *part, _ *props, n int64) { s.Log = append(s.Log, n) }}, {}}}
	for _, s := range stageAll(t, y, sim.Second, 1, 2) {
		if !slices.Equal(s.states[1].Log, []int64{2}) || s.End != sim.Time(sim.Second) {
			t.Errorf("%d regions: handled %v up to %v", s.regions, s.states[1].Log, s.End)
		}
	}
	// At time 0 nothing has begun.
	if out := mustRun(t, y.program(t, 0), node.Options{Regions: 2}); out.Events != 0 || out.Entities != 2 || out.Interrupted {
		t.Errorf("an empty run: %+v", out)
	}
	// Up to the last tick.
	y.Actors[0].Start = func(c *sim.Context, _ *part, p *props) {
		for i := range int64(5) {
			p.cue.ScheduleAt(c, sim.Never-2-sim.Time(i%3)*1e12, i)
		}
		p.cue.Send(c, 2, sim.Duration(sim.Never-3), 9)
	}
	for _, s := range stageAll(t, y, sim.Duration(math.MaxInt64-1), 1, 2) {
		if !slices.Equal(s.states[1].Log, []int64{2, 1, 4, 0, 3}) {
			t.Errorf("%d regions: handled %v", s.regions, s.states[1].Log)
		}
	}
}

var errStop = errors.New("stop")

// TestSinkErrorWhileInterrupted: the sink's error is not lost when the run is stopped as well.
func TestSinkErrorWhileInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := sinkFunc(func([]sim.Observation) error {
		cancel()
		return errStop
	})
	if _, err := node.Run(ctx, clock(50).program(t, 1000*sim.Second), node.Options{Regions: 2, Sink: s}); !errors.Is(err, errStop) {
		t.Errorf("error %v", err)
	}
}

// TestFullSpeed: entities that keep to the declared speed exactly are not refused for rounding,
// whatever the number of regions.
func TestFullSpeed(t *testing.T) {
	earth := sim.Space{Kind: sim.Earth, Dims: 3, Bounds: sim.Box{Min: at(-180, -90), Max: at(180, 90)}}
	for _, space := range []sim.Space{plane(1000, 1000), torus(1000, 1000), earth} {
		y := &play{Space: space, Limits: sim.Limits{Lookahead: sim.Millisecond, Range: 10, Speed: 7}}
		turn := func(c *sim.Context) {
			a := c.Rand().Uniform(0, 2*math.Pi)
			m := walk(c, 7*math.Cos(a), 7*math.Sin(a))
			if space.Kind == sim.Earth {
				m.Vel = sim.Vec{X: a * 57, Y: 7}
			}
			c.Publish(m)
		}
		for i := range 40 {
			y.Actors = append(y.Actors, actor{Pos: at(float64(i)/3, float64(i*7%90)),
				Start: func(c *sim.Context, _ *part, p *props) {
					turn(c)
					p.cue.Schedule(c, c.Rand().ExpDuration(sim.Second), 0)
				},
				Cue: func(c *sim.Context, _ *part, p *props, _ int64) {
					turn(c)
					p.cue.Schedule(c, c.Rand().ExpDuration(sim.Second), 0)
				}})
		}
		stageAll(t, y, 60*sim.Second, 1, 4)
	}
}
