package record

import (
	"math/bits"

	"github.com/simnode/simnode/sim"
)

// grid cuts the run [0, end) into n equal intervals, in integers: tick t is in bin floor(t*n/end).
// What happens at or after the end counts in the last bin.
type grid struct {
	n   int
	end sim.Time
}

// newGrid has no interval shorter than a tick.
func newGrid(n int, end sim.Time) grid {
	end = max(end, 1)
	return grid{n: int(min(int64(n), int64(end))), end: end}
}

// bin returns the interval of t.
func (g grid) bin(t sim.Time) int {
	if t >= g.end {
		return g.n - 1
	}
	hi, lo := bits.Mul64(uint64(max(t, 0)), uint64(g.n))
	i, _ := bits.Div64(hi, lo, uint64(g.end))
	return int(i)
}

// start returns the first tick of interval i: ceil(i*end/n).
func (g grid) start(i int) sim.Time {
	hi, lo := bits.Mul64(uint64(i), uint64(g.end))
	q, r := bits.Div64(hi, lo, uint64(g.n))
	if r > 0 {
		q++
	}
	return sim.Time(q)
}

// stop returns the first tick after interval i; the last one has no end.
func (g grid) stop(i int) sim.Time {
	if i >= g.n-1 {
		return sim.Never
	}
	return g.start(i + 1)
}

// cursor is the bin of a time that never decreases.
type cursor struct {
	grid grid
	bin  int
	// stop is the first tick after the bin.
	stop sim.Time
}

func (g grid) cursor() cursor { return cursor{grid: g, stop: g.stop(0)} }

// at moves to the bin of t and returns it.
func (c *cursor) at(t sim.Time) int {
	if t >= c.stop {
		c.bin = c.grid.bin(t)
		c.stop = c.grid.stop(c.bin)
	}
	return c.bin
}
