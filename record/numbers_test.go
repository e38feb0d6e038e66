package record

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/simnode/simnode/sim"
)

func TestGridAgainstBigIntegers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		end := rapid.Int64Min(1).Draw(rt, "end")
		g := newGrid(rapid.IntRange(1, maxBins).Draw(rt, "bins"), sim.Time(end))
		at := rapid.Int64Range(0, end-1).Draw(rt, "at")
		want := new(big.Int).Mul(big.NewInt(at), big.NewInt(int64(g.n)))
		want.Div(want, big.NewInt(end))
		i := g.bin(sim.Time(at))
		if int64(i) != want.Int64() {
			rt.Fatalf("bin %d, want %v", i, want)
		}
		if g.start(i) > sim.Time(at) || g.stop(i) <= sim.Time(at) {
			rt.Fatalf("%d is outside [%d, %d)", at, g.start(i), g.stop(i))
		}
		if i+1 < g.n && (g.stop(i) != g.start(i+1) || g.stop(i) <= g.start(i)) {
			rt.Fatalf("bin %d is [%d, %d), the next starts at %d", i, g.start(i), g.stop(i), g.start(i+1))
		}
	})
}

func TestCursorIsTheBin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newGrid(rapid.IntRange(1, 50).Draw(rt, "bins"), sim.Time(rapid.Int64Range(0, 1000).Draw(rt, "end")))
		c := g.cursor()
		times := rapid.SliceOf(rapid.Int64Range(0, 1100)).Draw(rt, "times")
		slices.Sort(times)
		for _, at := range times {
			if got := c.at(sim.Time(at)); got != g.bin(sim.Time(at)) {
				rt.Fatalf("cursor %d, bin %d", got, g.bin(sim.Time(at)))
			}
		}
	})
}

// exactQuantile is type 7 on sorted values.
func exactQuantile(sorted []float64, p float64) float64 {
	place := p * float64(len(sorted)-1)
	k := int(place)
	part := place - float64(k)
	return sorted[k]*(1-part) + sorted[min(k+1, len(sorted)-1)]*part
}

func TestQuantilesExactWhileFew(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e300, 1e300), 1, 100).Draw(rt, "values")
		var q quantiles
		for _, v := range values {
			q.add(v)
		}
		slices.Sort(values)
		for i, got := range q.values() {
			if want := exactQuantile(values, ranks()[i]); got != want {
				rt.Fatalf("quantile %g is %g, want %g", ranks()[i], got, want)
			}
		}
	})
}

// TestQuantilesOfMany: within the promised 0.1 % of the values around the quantile, for any order.
func TestQuantilesOfMany(t *testing.T) {
	shapes := map[string]func(r *sim.Rand) float64{
		"uniform":     func(r *sim.Rand) float64 { return r.Uniform(0, 1) },
		"exponential": func(r *sim.Rand) float64 { return r.Exp(1e-9) },
		"two signs":   func(r *sim.Rand) float64 { return r.Normal(0, 1e6) },
		"heavy tail":  func(r *sim.Rand) float64 { return r.LogNormal(0, 8) },
		"few values":  func(r *sim.Rand) float64 { return float64(r.IntN(3) - 1) },
		"zero":        func(*sim.Rand) float64 { return math.Copysign(0, -1) },
		"tiny":        func(r *sim.Rand) float64 { return float64(r.IntN(1000)) * 5e-324 },
	}
	for name, draw := range shapes {
		rng := sim.NewRand(1, 1)
		values := make([]float64, 20_000)
		for i := range values {
			values[i] = draw(&rng)
		}
		var forward, backward quantiles
		for i := range values {
			forward.add(values[i])
			backward.add(values[len(values)-1-i])
		}
		if forward.values() != backward.values() {
			t.Errorf("%s: the order of the values matters", name)
		}
		slices.Sort(values)
		for i, got := range forward.values() {
			want := exactQuantile(values, ranks()[i])
			if math.Abs(got-want) > 0.001*math.Abs(want)+5e-310 {
				t.Errorf("%s: quantile %g is %g, want %g", name, ranks()[i], got, want)
			}
		}
	}
}

func TestBucketsKeepOrderAndValue(t *testing.T) {
	finite := rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64)
	rapid.Check(t, func(rt *rapid.T) {
		a, b := finite.Draw(rt, "a")+0, finite.Draw(rt, "b")+0
		if a > b {
			a, b = b, a
		}
		if bucket(a) > bucket(b) {
			rt.Fatalf("buckets of %g and %g are out of order", a, b)
		}
		if m := middle(bucket(a)); math.Abs(m-a) > 0.001*math.Abs(a)+5e-310 {
			rt.Fatalf("%g stands for %g", m, a)
		}
		if bucket(middle(bucket(a))) != bucket(a) && middle(bucket(a)) != 0 {
			rt.Fatalf("the middle of the bucket of %g lies outside it", a)
		}
	})
}

func TestSumLosesNothing(t *testing.T) {
	var s sum
	for _, v := range []float64{1, 1e100, 1, -1e100} {
		s.add(v)
	}
	if s.value() != 2 {
		t.Errorf("sum %g, want 2", s.value())
	}
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.SliceOf(rapid.Float64Range(-1e15, 1e15)).Draw(rt, "values")
		var s sum
		exact := new(big.Float).SetPrec(2000)
		for _, v := range values {
			s.add(v)
			exact.Add(exact, new(big.Float).SetFloat64(v))
		}
		want, _ := exact.Float64()
		if math.Abs(s.value()-want) > 1e-15*math.Abs(want)+1e-15*float64(len(values)) {
			rt.Fatalf("sum %g, want %g", s.value(), want)
		}
	})
	s = sum{}
	s.add(math.MaxFloat64)
	s.add(math.MaxFloat64)
	if !math.IsInf(s.value(), 1) {
		t.Errorf("sum beyond the range is %g", s.value())
	}
}
