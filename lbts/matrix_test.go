package lbts

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

// drawMatrix draws lookahead of n regions, some absent, some 0, some near the largest duration.
func drawMatrix(t *rapid.T, n int) *Matrix {
	d := rapid.OneOf(
		rapid.Just(sim.Forever),
		rapid.Map(rapid.Int64Range(0, 20), func(x int64) sim.Duration { return sim.Duration(x) }),
		rapid.Map(rapid.Int64Range(0, 20), func(x int64) sim.Duration { return sim.Forever - sim.Duration(x) }),
	)
	m := NewMatrix(n)
	for i := range n {
		for j := range n {
			if i != j {
				m.Set(i, j, d.Draw(t, "d"))
			}
		}
	}
	return m
}

// walk is the least delay over all paths from one region to another that visit no region twice, by
// trying each.
func walk(m *Matrix, from, to int, visited []bool) sim.Duration {
	best := sim.Forever
	for k := range m.Regions() {
		if k == from || m.At(from, k) == sim.Forever {
			continue
		}
		if k == to {
			best = min(best, m.At(from, k))
		} else if !visited[k] {
			visited[k] = true
			best = min(best, m.At(from, k).Add(walk(m, k, to, visited)))
			visited[k] = false
		}
	}
	return best
}

func TestCloseEqualsAllPaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		m := drawMatrix(t, n)
		open := &Matrix{n: n, d: slices.Clone(m.d)}
		visited := make([]bool, n)
		paths := func(i, j int) sim.Duration {
			visited[i] = true
			defer func() { visited[i] = false }()
			return walk(open, i, j, visited)
		}
		err := m.Close()
		var zero *ZeroCycle
		if errors.As(err, &zero) {
			checkZeroCycle(t, open, zero.Regions)
			if !slices.Equal(m.d, open.d) {
				t.Fatal("a refused Close changed the lookahead")
			}
			return
		}
		for i := range n {
			for j := range n {
				if got, want := m.At(i, j), paths(i, j); got != want {
					t.Fatalf("closed lookahead %d to %d is %d, the shortest path %d", i, j, got, want)
				}
			}
			if m.At(i, i) == 0 {
				t.Fatalf("a cycle of lookahead 0 through %d was accepted", i)
			}
		}
		before := slices.Clone(m.d)
		if err := m.Close(); err != nil || !slices.Equal(before, m.d) {
			t.Fatalf("closing again changed something (%v)", err)
		}
	})
}

func checkZeroCycle(t *rapid.T, m *Matrix, cycle []int) {
	if len(cycle) < 2 {
		t.Fatalf("cycle %v is too short", cycle)
	}
	for k, from := range cycle {
		if to := cycle[(k+1)%len(cycle)]; m.At(from, to) != 0 {
			t.Fatalf("cycle %v: lookahead %d to %d is %d", cycle, from, to, m.At(from, to))
		}
		if slices.Contains(cycle[:k], from) {
			t.Fatalf("cycle %v passes region %d twice", cycle, from)
		}
	}
}

func TestZeroLookaheadOneWayIsAllowed(t *testing.T) {
	m := NewMatrix(3)
	m.Set(0, 1, 0)
	m.Set(1, 2, 0)
	m.Set(2, 0, 1)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if m.At(0, 2) != 0 || m.At(0, 0) != 1 {
		t.Errorf("0 to 2 is %d, the cycle %d; 0 and 1 expected", m.At(0, 2), m.At(0, 0))
	}
}

func TestWrongLookaheadIsToldByClose(t *testing.T) {
	cases := []struct {
		n, from, to int
		d           sim.Duration
		want        string
	}{
		{0, 0, 1, 1, "lookahead of 0 regions: there must be at least 1"},
		{-3, 0, 1, 1, "lookahead of -3 regions"},
		{2, 0, 2, 1, "from region 0 to region 2: regions are 0 to 1"},
		{2, -1, 0, 1, "from region -1 to region 0"},
		{2, 1, 1, 1, "from region 1 to itself"},
		{2, 0, 1, -5, "from region 0 to region 1 is -5 ns: it must be 0 or more"},
	}
	for _, c := range cases {
		m := NewMatrix(c.n)
		m.Set(c.from, c.to, c.d)
		err := m.Close()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c, err)
		}
		if _, err := New(m); err == nil {
			t.Errorf("%+v: New accepted it", c)
		}
	}
}

func TestNewRefusesAnOpenMatrix(t *testing.T) {
	m := NewMatrix(2)
	if _, err := New(m); err == nil || !strings.Contains(err.Error(), "not closed") {
		t.Errorf("error %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m.Set(0, 1, 5)
	if _, err := New(m); err == nil {
		t.Error("set after Close counts as closed")
	}
}

func TestSpatial(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	const l = 50 * sim.Millisecond
	cases := []struct {
		name                   string
		gap, rng, slack, speed float64
		want                   sim.Duration
	}{
		{"exact", 1000, 0, 0, 100, l + 10*sim.Second},
		{"range and slack twice", 1000, 300, 100, 100, l + 5*sim.Second},
		{"neighbours", 0, 300, 100, 100, l},
		{"within reach", 499, 300, 100, 100, l},
		{"just in reach", 500, 300, 100, 100, l},
		{"just beyond", 500.0000001, 300, 100, 100, l + 1},
		{"rounds down", 1, 0, 0, 3, l + 333_333_333},
		{"rounds 0.1 / 0.3 down", 0.1, 0, 0, 0.3, l + 333_333_333},
		{"no speed", 1000, 0, 0, 0, l},
		{"negative speed", 1000, 0, 0, -1, l},
		{"speed not a number", 1000, 0, 0, nan, l},
		{"any speed", 1000, 0, 0, inf, l},
		{"sees everything", 1000, inf, 0, 1, l},
		{"endless slack", 1000, 0, inf, 1, l},
		{"gap not a number", nan, 0, 0, 1, l},
		{"range not a number", 1000, nan, 0, 1, l},
		{"never meet", inf, 0, 0, 1, sim.Forever},
		{"never meet but sees everything", inf, inf, 0, 1, l},
		{"beyond all time", 1e300, 0, 0, 1e-300, sim.Forever},
		{"negative slack", 1000, 0, -100, 100, l + 10*sim.Second},
		{"negative range", 1000, -500, 0, 100, l + 10*sim.Second},
		{"negative gap", -1000, 0, 0, 100, l},
	}
	for _, c := range cases {
		m := Spatial(2, l, func(i, j int) float64 { return c.gap }, c.rng, c.slack, c.speed)
		if got := m.At(0, 1); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		if got := m.At(0, 0); got != sim.Forever {
			t.Errorf("%s: a region to itself: %d before closing", c.name, got)
		}
	}
}

func TestSpatialUsesEachPair(t *testing.T) {
	at := []float64{0, 100, 300}
	m := Spatial(3, 1, func(i, j int) float64 { return math.Abs(at[i] - at[j]) }, 0, 0, 1)
	if m.At(0, 1) != 1+100*sim.Second || m.At(2, 1) != 1+200*sim.Second || m.At(2, 0) != 1+300*sim.Second {
		t.Errorf("lookahead %v", m.d)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if m.At(2, 0) != 1+300*sim.Second || m.At(0, 0) != 2+200*sim.Second {
		t.Errorf("closed lookahead %v", m.d)
	}
}
