package node_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// ensemble runs the parts of a troupe with real workers: a loop for each member and one for the
// coordinator, which talk through queues. Only what lies between the machines of a cluster is missing.
type ensemble struct {
	*troupe
	members []*mailbox
	center  *mailbox
	atCap   chan sim.Time
	frames  atomic.Int64
	grants  int
	// told says that the loop of the run knows that the cap is reached.
	told bool
}

// must ends the test at once: a loop that ended alone would leave the others waiting.
func (e *ensemble) must(err error) {
	if err != nil {
		panic(err)
	}
}

// mailbox is an unbounded queue of things to do, for one loop.
type mailbox struct {
	mu   sync.Mutex
	todo []func()
	bell chan struct{}
	wake atomic.Bool
}

func newMailbox() *mailbox { return &mailbox{bell: make(chan struct{}, 1)} }

func (b *mailbox) put(f func()) {
	b.mu.Lock()
	b.todo = append(b.todo, f)
	b.mu.Unlock()
	b.ring()
}

func (b *mailbox) ring() {
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

func (b *mailbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	todo := b.todo
	b.todo = nil
	return todo
}

func newEnsemble(t testing.TB, members, each int, program func() *sim.Program, sink sim.Sink, observe bool) *ensemble {
	e := &ensemble{center: newMailbox(), atCap: make(chan sim.Time, 1)}
	for range members {
		e.members = append(e.members, newMailbox())
	}
	e.troupe = newTroupeOf(t, 1, members, each, program, sink, func(m int, o *node.PartOptions) {
		o.Wake = func() {
			e.members[m].wake.Store(true)
			e.members[m].ring()
		}
		o.Observe, o.Trace = observe, observe
	})
	return e
}

// run runs to the end and returns the outcome and how long the events took.
func (e *ensemble) run() (*node.Outcome, time.Duration) {
	var group sync.WaitGroup
	quit := make(chan struct{})
	loop := func(b *mailbox, after func()) {
		for {
			select {
			case <-quit:
				return
			case <-b.bell:
				for _, f := range b.take() {
					f()
				}
				after()
			}
		}
	}
	start := time.Now()
	for m, b := range e.members {
		e.parts[m].Start()
		group.Go(func() {
			loop(b, func() {
				if b.wake.Swap(false) {
					e.send(m)
				}
			})
		})
	}
	group.Go(func() { loop(e.center, e.solve) })
	e.late = nil
	e.center.put(func() {})
	for {
		floor := <-e.atCap
		if min(e.cap, floor) >= e.shape.End {
			break
		}
		done := make(chan struct{})
		e.center.put(func() {
			e.cut(floor)
			e.told = false
			close(done)
		})
		<-done
	}
	elapsed := time.Since(start)
	close(quit)
	group.Wait()
	for m, p := range e.parts {
		p.Stop()
		e.sendNow(m)
	}
	e.must(e.merger.Floor(e.shape.End, e.nextObs))
	return e.finish(), elapsed
}

func (e *ensemble) send(m int) {
	got := e.parts[m].Collect()
	e.must(got.Fault)
	for _, b := range got.Batches {
		e.frames.Add(1)
		e.members[b.To].put(func() { e.must(e.parts[b.To].Receive(m, b.Number, b.Data)) })
	}
	if got.Observations != nil {
		e.center.put(func() {
			e.nextObs[m]++
			e.must(e.merger.Take(m, e.nextObs[m], got.Observations))
		})
	}
	if got.Changed {
		e.center.put(func() { e.report(got.Reports) })
	}
}

func (e *ensemble) sendNow(m int) {
	if got := e.parts[m].Collect(); got.Observations != nil {
		e.nextObs[m]++
		e.must(e.merger.Take(m, e.nextObs[m], got.Observations))
	}
}

// solve sends the grants that let a region go on.
func (e *ensemble) solve() {
	e.late = nil
	if floor := e.solver.Floor(); floor >= e.cap && e.solver.Drained() {
		if !e.told {
			e.told = true
			e.atCap <- floor
		}
		return
	}
	for m := range e.parts {
		var list []lbts.Grant
		for i, owner := range e.owner {
			if owner != m {
				continue
			}
			if g := e.solver.Grant(i, nil); g.Bound > e.given(i) && g.Bound > e.solver.Effective(i) {
				e.last[i] = g.Bound
				list = append(list, g)
			}
		}
		if len(list) > 0 {
			e.grants++
			e.members[m].put(func() { e.must(e.parts[m].Grant(list)) })
		}
	}
}

func (c *troupe) given(i int) sim.Time {
	if c.last == nil {
		c.last = make([]sim.Time, len(c.owner))
	}
	return c.last[i]
}

// TestPartsWithWorkers runs storms in parts with workers and loops of their own.
func TestPartsWithWorkers(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		want := runReference(stormProgram(t, seed))
		got := &tape{}
		e := newEnsemble(t, 3, 2, func() *sim.Program { return stormProgram(t, seed) }, got, true)
		out, _ := e.run()
		if out.Digest != want.digest || out.Events != want.events {
			t.Errorf("seed %d: digest %x after %d events; reference %x, %d", seed, out.Digest, out.Events, want.digest, want.events)
		}
		if i := firstDifference(got.lines, want.tape.lines); i >= 0 {
			t.Fatalf("seed %d: observation %d: %s\nreference: %s", seed, i, lineAt(got.lines, i), lineAt(want.tape.lines, i))
		}
	}
}

// BenchmarkPHOLDParts is four members in one process, without a network between them, against two
// workers in one process: what dividing a run costs by itself.
func BenchmarkPHOLDParts(b *testing.B) {
	for _, n := range []int64{16384, 262144} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var ones, parts, ratios, frames []float64
			for range b.N {
				_, one := runPHOLD(b, n, pholdEnd(n), node.Options{Regions: 4, Workers: 2})
				runtime.GC()
				e := newEnsemble(b, 4, 1, func() *sim.Program { return pholdProgram(b, n, pholdEnd(n)) }, nil, false)
				runtime.GC()
				out, elapsed := e.run()
				rate := float64(out.Events-uint64(n)) / elapsed.Seconds()
				ones, parts, ratios = append(ones, one), append(parts, rate), append(ratios, rate/one)
				frames = append(frames, float64(out.Events)/float64(e.frames.Load()))
			}
			b.ReportMetric(median(ones)/1e6, "one-Mev/s")
			b.ReportMetric(median(parts)/1e6, "parts-Mev/s")
			b.ReportMetric(median(ratios), "x-one")
			b.ReportMetric(median(frames), "events/frame")
			b.ReportMetric(0, "ns/op")
		})
	}
}
