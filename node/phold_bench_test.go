package node_test

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"testing"
	"time"

	"github.com/simnode/simnode/models/phold"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

func pholdProgram(t testing.TB, entities int64, end sim.Duration, edit func(*phold.Params)) *sim.Program {
	p := &phold.Params{Entities: entities, Population: 1, Lookahead: 100 * sim.Millisecond, Mean: sim.Second,
		Remote: 0.5, Destinations: "uniform", Radius: 3}
	if edit != nil {
		edit(p)
	}
	prog, err := sim.NewProgram(phold.Model(), p, sim.Space{}, 1, sim.Time(end))
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

func runPHOLD(t testing.TB, entities int64, end sim.Duration, o node.Options) (*node.Outcome, time.Duration) {
	prog := pholdProgram(t, entities, end, nil)
	start := time.Now()
	out, err := node.Run(context.Background(), prog, o)
	if err != nil {
		t.Fatal(err)
	}
	return out, time.Since(start)
}

// bareEvent is what the hand-written loop queues: when and for whom.
type bareEvent struct {
	t  int64
	to int64
}

// barePHOLD is PHOLD without an engine: a 4-ary heap of values, the states in one slice, the same
// draws in the same order.
func barePHOLD(entities int64, end int64) (events int64, elapsed time.Duration) {
	const lookahead, above = int64(100 * sim.Millisecond), sim.Duration(900 * sim.Millisecond)
	type state struct {
		rng   sim.Rand
		count int64
	}
	states := make([]state, entities)
	heap := make([]bareEvent, 0, entities+1)
	push := func(e bareEvent) {
		heap = append(heap, e)
		i := len(heap) - 1
		for i > 0 {
			parent := (i - 1) / 4
			if heap[parent].t <= e.t {
				break
			}
			heap[i] = heap[parent]
			i = parent
		}
		heap[i] = e
	}
	for i := range states {
		states[i].rng = sim.NewRand(1, sim.EntityID(i+1))
		push(bareEvent{int64(states[i].rng.ExpDuration(sim.Second)), int64(i)})
	}
	start := time.Now()
	for heap[0].t < end {
		e := heap[0]
		s := &states[e.to]
		s.count++
		events++
		to := e.to
		if s.rng.Float64() < 0.5 {
			to = s.rng.IntN(entities - 1)
			if to >= e.to {
				to++
			}
		}
		n := bareEvent{e.t + lookahead + int64(s.rng.ExpDuration(above)), to}
		// Replace the top and sift down.
		i := 0
		for {
			c := 4*i + 1
			if c >= len(heap) {
				break
			}
			best := c
			for k := c + 1; k < min(c+4, len(heap)); k++ {
				if heap[k].t < heap[best].t {
					best = k
				}
			}
			if heap[best].t >= n.t {
				break
			}
			heap[i] = heap[best]
			i = best
		}
		heap[i] = n
	}
	return events, time.Since(start)
}

var _ = fmt.Sprint
var _ = math.Pi
var _ = bits.Len

func TestQuick(t *testing.T) {
	for _, n := range []int64{1024, 16384, 262144, 1000000} {
		end := sim.Duration(3e6/float64(n)*1e9) + 2*sim.Second
		ev, el := barePHOLD(n, int64(end))
		t.Logf("%8d bare      %8d events %6.2f M/s", n, ev, float64(ev)/el.Seconds()/1e6)
		var digest uint64
		for _, rw := range [][2]int{{1, 1}, {2, 1}, {2, 2}, {4, 2}, {8, 2}} {
			out, el := runPHOLD(t, n, end, node.Options{Regions: rw[0], Workers: rw[1]})
			var busy time.Duration
			for _, r := range out.Regions {
				busy += r.Busy
			}
			t.Logf("%8d r%d w%d     %8d events %6.2f M/s %6.2f M/s busy  digest %x", n, rw[0], rw[1], out.Events, float64(out.Events)/el.Seconds()/1e6, float64(out.Events)/busy.Seconds()/1e6, out.Digest)
			if digest == 0 {
				digest = out.Digest
			}
			if out.Digest != digest {
				t.Error("digest differs")
			}
		}
	}
}
