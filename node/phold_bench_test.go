package node_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/simnode/simnode/models/phold"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// The benchmarks compare within one run, in turn, since machines are shared and noisy: each iteration
// runs both sides once, and the medians of rates and ratios are reported. Repeat them with
//
//	go test ./node -run XXX -bench PHOLD -benchtime 7x -timeout 30m

func pholdProgram(t testing.TB, entities int64, end sim.Duration) *sim.Program {
	p := &phold.Params{Entities: entities, Population: 1, Lookahead: 100 * sim.Millisecond, Mean: sim.Second,
		Remote: 0.5, Destinations: "uniform", Radius: 3}
	prog, err := sim.NewProgram(phold.Model(), p, sim.Space{}, 1, sim.Time(end))
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// runPHOLD returns the outcome and the rate of events a second. Setting up is left out on both sides;
// the start event of each entity is not counted, though it takes its time.
func runPHOLD(t testing.TB, entities int64, end sim.Duration, o node.Options) (*node.Outcome, float64) {
	out, err := node.Run(context.Background(), pholdProgram(t, entities, end), o)
	if err != nil {
		t.Fatal(err)
	}
	return out, float64(out.Events-uint64(entities)) / out.Elapsed.Seconds()
}

// barePHOLD is PHOLD without an engine, as one would write it by hand: a 4-ary heap of values (when,
// for whom), the states in one slice, the same draws. It keeps neither a digest nor the order of
// simultaneous events.
func barePHOLD(entities, end int64) (events int64, rate float64) {
	const lookahead, above = int64(100 * sim.Millisecond), sim.Duration(900 * sim.Millisecond)
	states := make([]bareState, entities)
	heap := make(bareHeap, 0, entities)
	for i := range states {
		states[i].rng = sim.NewRand(1, sim.EntityID(i+1))
		heap = heap.push(bareEvent{int64(states[i].rng.ExpDuration(sim.Second)), int64(i)})
	}
	start := time.Now()
	for heap[0].t < end {
		e := heap[0]
		s := &states[e.to]
		s.count++
		events++
		to := e.to
		if s.rng.Float64() < 0.5 {
			if to = s.rng.IntN(entities - 1); to >= e.to {
				to++
			}
		}
		heap.replaceTop(bareEvent{e.t + lookahead + int64(s.rng.ExpDuration(above)), to})
	}
	return events, float64(events) / time.Since(start).Seconds()
}

type bareState struct {
	rng   sim.Rand
	count int64
}

type bareEvent struct {
	t  int64
	to int64
}

// bareHeap is a 4-ary heap by time.
type bareHeap []bareEvent

func (h bareHeap) push(e bareEvent) bareHeap {
	h = append(h, e)
	i := len(h) - 1
	for i > 0 && h[(i-1)/4].t > e.t {
		h[i] = h[(i-1)/4]
		i = (i - 1) / 4
	}
	h[i] = e
	return h
}

func (h bareHeap) replaceTop(e bareEvent) {
	i := 0
	for {
		c := 4*i + 1
		if c >= len(h) {
			break
		}
		best := c
		for k := c + 1; k < min(c+4, len(h)); k++ {
			if h[k].t < h[best].t {
				best = k
			}
		}
		if h[best].t >= e.t {
			break
		}
		h[i] = h[best]
		i = best
	}
	h[i] = e
}

// pholdEnd is how long to run n entities for some twelve million events, about a second.
func pholdEnd(n int64) sim.Duration {
	return sim.Duration(max(12e6/float64(n), 12) * float64(sim.Second))
}

func pholdSizes() []int64 { return []int64{1024, 16384, 262144, 1000000} }

// BenchmarkPHOLDOneRegion is one region on one worker against the bare loop.
func BenchmarkPHOLDOneRegion(b *testing.B) {
	for _, n := range pholdSizes() {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var bares, engines, ratios []float64
			for range b.N {
				_, bare := barePHOLD(n, int64(pholdEnd(n)))
				runtime.GC()
				_, engine := runPHOLD(b, n, pholdEnd(n), node.Options{Regions: 1, Workers: 1})
				runtime.GC()
				bares, engines, ratios = append(bares, bare), append(engines, engine), append(ratios, engine/bare)
			}
			b.ReportMetric(median(bares)/1e6, "bare-Mev/s")
			b.ReportMetric(median(engines)/1e6, "engine-Mev/s")
			b.ReportMetric(median(ratios), "x-bare")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkPHOLDTwoWorkers is two workers on one simulation against the ceiling of the machine: two
// independent runs of one worker each, side by side.
func BenchmarkPHOLDTwoWorkers(b *testing.B) {
	for _, n := range pholdSizes() {
		for _, regions := range []int{2, 4, 8} {
			b.Run(fmt.Sprintf("%d/regions=%d", n, regions), func(b *testing.B) {
				var ceilings, engines, ratios []float64
				for range b.N {
					ceiling := sideBySide(b, n)
					runtime.GC()
					_, engine := runPHOLD(b, n, pholdEnd(n), node.Options{Regions: regions, Workers: 2})
					runtime.GC()
					ceilings, engines, ratios = append(ceilings, ceiling), append(engines, engine), append(ratios, engine/ceiling)
				}
				b.ReportMetric(median(ceilings)/1e6, "ceiling-Mev/s")
				b.ReportMetric(median(engines)/1e6, "engine-Mev/s")
				b.ReportMetric(median(ratios), "x-ceiling")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// sideBySide returns the summed rate of two independent runs at once.
func sideBySide(b *testing.B, n int64) float64 {
	programs := [2]*sim.Program{pholdProgram(b, n, pholdEnd(n)), pholdProgram(b, n, pholdEnd(n))}
	var rates [2]float64
	var both sync.WaitGroup
	for i, p := range programs {
		both.Go(func() {
			if out, err := node.Run(context.Background(), p, node.Options{Regions: 1, Workers: 1}); err == nil {
				rates[i] = float64(out.Events-uint64(n)) / out.Elapsed.Seconds()
			}
		})
	}
	both.Wait()
	return rates[0] + rates[1]
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
