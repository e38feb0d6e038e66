package lbts

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/simnode/simnode/sim"
)

// Matrix is the lookahead between regions: At(i, j) is the least delay of any effect of region i on
// region j, sim.Forever if there is none.
type Matrix struct {
	n      int
	d      []sim.Duration // of (from, to) at to*n+from, so that what can reach a region lies together
	bad    error          // the first wrong Set, told by Close
	closed bool
}

// NewMatrix returns the lookahead of n regions that cannot reach one another.
func NewMatrix(n int) *Matrix {
	if n < 1 {
		return &Matrix{bad: fmt.Errorf("lookahead of %d regions: there must be at least 1", n)}
	}
	m := &Matrix{n: n, d: make([]sim.Duration, n*n)}
	for i := range m.d {
		m.d[i] = sim.Forever
	}
	return m
}

// Regions returns the number of regions.
func (m *Matrix) Regions() int { return m.n }

// Set states the least delay of a direct effect of one region on another. A region out of range, a
// region paired with itself (what happens inside a region needs no lookahead) and a negative delay
// are errors that Close returns.
func (m *Matrix) Set(from, to int, d sim.Duration) {
	if err := m.check(from, to, d); err != nil {
		if m.bad == nil {
			m.bad = err
		}
		return
	}
	m.d[to*m.n+from] = d
	m.closed = false
}

func (m *Matrix) check(from, to int, d sim.Duration) error {
	switch {
	case m.bad != nil:
		return m.bad
	case from < 0 || from >= m.n || to < 0 || to >= m.n:
		return fmt.Errorf("lookahead from region %d to region %d: regions are 0 to %d", from, to, m.n-1)
	case from == to:
		return fmt.Errorf("lookahead from region %d to itself: state it between different regions only", from)
	case d < 0:
		return fmt.Errorf("lookahead from region %d to region %d is %d ns: it must be 0 or more", from, to, d)
	}
	return nil
}

// At returns the lookahead from one region to another; once closed, from a region to itself it is
// the shortest cycle through others.
func (m *Matrix) At(from, to int) sim.Duration { return m.d[to*m.n+from] }

// Close replaces each lookahead by that of the shortest path, and the diagonal by the shortest cycle
// (R. W. Floyd, "Algorithm 97: shortest path", 1962; sums saturate at sim.Forever). A cycle of
// lookahead zero is a *ZeroCycle. After an error the lookahead is as it was. Closing twice changes
// nothing.
func (m *Matrix) Close() error {
	if m.bad != nil {
		return m.bad
	}
	if m.closed {
		return nil
	}
	if c := m.zeroCycle(); c != nil {
		return c
	}
	if d, ok := m.alike(); ok {
		// No detour is shorter, and the shortest cycle is there and back.
		for i := range m.n {
			m.d[i*m.n+i] = d.Add(d)
		}
		m.closed = true
		return nil
	}
	for k := range m.n {
		for to := range m.n {
			m.through(k, to)
		}
	}
	m.closed = true
	return nil
}

// alike returns the lookahead that stands between all pairs of different regions, if one does.
func (m *Matrix) alike() (sim.Duration, bool) {
	if m.n < 2 {
		return 0, false
	}
	d := m.d[1]
	for to := range m.n {
		for from, x := range m.d[to*m.n : (to+1)*m.n] {
			if x != d && from != to {
				return 0, false
			}
		}
	}
	return d, true
}

// through shortens the ways to one region by those over region k.
func (m *Matrix) through(k, to int) {
	last := m.d[to*m.n+k]
	if last == sim.Forever {
		return
	}
	row, via := m.d[to*m.n:(to+1)*m.n], m.d[k*m.n:(k+1)*m.n]
	for from := range row {
		row[from] = min(row[from], via[from].Add(last))
	}
}

// ZeroCycle is the error of regions that affect one another in a circle without any delay: none of
// them could ever be sure that an event is next.
type ZeroCycle struct {
	// Regions of the cycle in order; the last affects the first.
	Regions []int
}

func (e *ZeroCycle) Error() string {
	var b strings.Builder
	b.WriteString("lookahead 0 all around the cycle of regions ")
	for _, r := range e.Regions {
		fmt.Fprintf(&b, "%d to ", r)
	}
	fmt.Fprintf(&b, "%d: no region of it can advance; give the model a lookahead of at least 1 ns or run it in one region", e.Regions[0])
	return b.String()
}

// zeroCycle finds the shortest cycle of zero lookahead through the first region that has one.
func (m *Matrix) zeroCycle() *ZeroCycle {
	for start := range m.n {
		if c := m.zeroCycleFrom(start); c != nil {
			return &ZeroCycle{c}
		}
	}
	return nil
}

// zeroCycleFrom searches breadth first along zero lookahead for a way back to start.
func (m *Matrix) zeroCycleFrom(start int) []int {
	before := make([]int, m.n)
	for i := range before {
		before[i] = -1
	}
	queue := []int{start}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for to := range m.n {
			if to == at || m.At(at, to) != 0 {
				continue
			}
			if to == start {
				return pathTo(before, start, at)
			}
			if before[to] < 0 {
				before[to] = at
				queue = append(queue, to)
			}
		}
	}
	return nil
}

// pathTo follows before from end back to start and returns the path in order.
func pathTo(before []int, start, end int) []int {
	var path []int
	for at := end; at != start; at = before[at] {
		path = append(path, at)
	}
	path = append(path, start)
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return path
}

// Spatial returns the lookahead of n regions in space, not yet closed:
//
//	L + max(0, gap - range - 2 slack) / speed
//
// in ticks, rounded down. l is the model's lookahead; gap(i, j) the least distance between the
// regions, never more than the true one; rng how far an entity can look or act; slack how far an
// entity may be outside its region before the next cut; speed its greatest speed. Lengths are in
// metres, speed in metres per second.
//
// The slack counts twice, since both the entity that acts and the one that feels it may be outside
// their regions, towards one another. The speed counts once, although both may move: the receiver's
// movement is within its slack until the next cut.
//
// Without a bound on speed (speed 0, negative, infinite or not a number), and wherever the rest is
// not a number, it is plain l. An infinite gap, with the rest finite, is sim.Forever. A negative range
// or slack counts as 0.
func Spatial(n int, l sim.Duration, gap func(i, j int) float64, rng, slack, speed float64) *Matrix {
	m := NewMatrix(n)
	for i := range m.n {
		for j := range m.n {
			if i != j {
				m.Set(i, j, l.Add(travel(gap(i, j), rng, slack, speed)))
			}
		}
	}
	return m
}

// travel returns the time to cover what is left of gap. It computes with exact rational numbers: a
// rounding error upwards of a single tick would make the lookahead unsafe.
func travel(gap, rng, slack, speed float64) sim.Duration {
	if !(speed > 0) || math.IsInf(speed, 0) || !finite(rng) || !finite(slack) || math.IsNaN(gap) || math.IsInf(gap, -1) {
		return 0
	}
	if math.IsInf(gap, 1) {
		return sim.Forever
	}
	rng, slack = max(rng, 0), max(slack, 0)
	if gap <= rng {
		return 0
	}
	way := rat(gap)
	way.Sub(way, rat(rng)).Sub(way, rat(slack)).Sub(way, rat(slack))
	if way.Sign() <= 0 {
		return 0
	}
	way.Quo(way, rat(speed)).Mul(way, new(big.Rat).SetInt64(int64(sim.Second)))
	ticks := new(big.Int).Quo(way.Num(), way.Denom())
	if !ticks.IsInt64() {
		return sim.Forever
	}
	return sim.Duration(ticks.Int64())
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func rat(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
