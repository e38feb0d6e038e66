package sim

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"pgregory.net/rapid"
)

// pcg is PCG-DXSM by big integers, from its definition: a 128-bit linear congruential generator and
// an output function that multiplies twice.
type pcg struct{ state, inc *big.Int }

func words(hi, lo uint64) *big.Int {
	x := new(big.Int).Lsh(new(big.Int).SetUint64(hi), 64)
	return x.Add(x, new(big.Int).SetUint64(lo))
}

func pcgMultiplier() *big.Int { return words(2549297995355413924, 4865540595714422341) }

func pcgDefaultIncrement() *big.Int { return words(6364136223846793005, 1442695040888963407) }

const pcgCheap = 0xda942042e4dd58b5

func low128(x *big.Int) *big.Int {
	return x.And(x, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1)))
}

func (p *pcg) step() {
	p.state = low128(new(big.Int).Add(new(big.Int).Mul(p.state, pcgMultiplier()), p.inc))
}

func (p *pcg) next() uint64 {
	p.step()
	hi := new(big.Int).Rsh(p.state, 64).Uint64()
	lo := new(big.Int).And(p.state, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	hi ^= hi >> 32
	hi *= pcgCheap
	hi ^= hi >> 48
	return hi * (lo | 1)
}

// streamFrom returns a stream whose next draw of 64 bits is first: it runs the generator backwards
// from a state that gives it.
func streamFrom(first uint64) *Rand {
	hi := first // The low word is 0, so the output is the high word times 1.
	hi ^= hi >> 48
	hi *= new(big.Int).ModInverse(new(big.Int).SetUint64(pcgCheap), new(big.Int).Lsh(big.NewInt(1), 64)).Uint64()
	hi ^= hi >> 32
	inverse := new(big.Int).ModInverse(pcgMultiplier(), new(big.Int).Lsh(big.NewInt(1), 128))
	before := words(hi, 0)
	before.Sub(before, pcgDefaultIncrement())
	before = low128(before.Mul(before, inverse))
	return &Rand{*rand.NewPCG(new(big.Int).Rsh(before, 64).Uint64(), new(big.Int).And(before, new(big.Int).SetUint64(math.MaxUint64)).Uint64())}
}

// extremes are draws at the ends and around the middle.
func extremes() []uint64 {
	out := []uint64{0, 1, 1 << 10, 1<<11 - 1, 1 << 11, 1 << 12, 1<<63 - 1, 1 << 63, 1<<63 + 1, ^uint64(0) - 1<<12, ^uint64(0) - 1, ^uint64(0)}
	for s := range 64 {
		out = append(out, 1<<s, ^uint64(0)>>s, ^(^uint64(0) >> s))
	}
	return out
}

func TestStreamFromGivesTheDrawAsked(t *testing.T) {
	for _, u := range extremes() {
		if got := streamFrom(u).Uint64(); got != u {
			t.Errorf("asked for %#x, drew %#x", u, got)
		}
	}
}

// The sequence of PCG-DXSM that the Go standard library is tested against, from the state (1, 2).
func TestPCGDXSMKnownAnswers(t *testing.T) {
	r := Rand{*rand.NewPCG(1, 2)}
	own := pcg{words(1, 2), pcgDefaultIncrement()}
	for i, want := range []uint64{
		0xc4f5a58656eef510, 0x9dcec3ad077dec6c, 0xc8d04605312f8088, 0xcbedc0dcb63ac19a, 0x3bf98798cae97950,
		0x0a8c6d7f8d485abc, 0x7ffa3780429cd279, 0x730ad2626b1c2f8e, 0x21ff2330f4a0ad99, 0x2f0901a1947094b0,
		0xa9735a3cfbe36cef, 0x71ddb0a01a12c84a, 0xf0e53e77a78453bb, 0x1f173e9663be1e9d, 0x657651da3ac4115e,
		0xc8987376b65a157b, 0xbb17008f5fca28e7, 0x8232bd645f29ed22, 0x12be8f07ad14c539, 0x54908a48e8e4736e,
	} {
		if got := r.Uint64(); got != want {
			t.Errorf("draw %d = %#x, not %#x", i, got, want)
		}
		if got := own.next(); got != want {
			t.Errorf("draw %d by the definition = %#x, not %#x", i, got, want)
		}
	}
}

// The output of the C++ reference pcg_engines::setseq_dxsm_128_64, stream 0, as published with
// NumPy's sister project randomgen (SeedSequence(0)): it confirms the definition that streams are
// compared with below.
func TestPCGDXSMDefinitionAgreesWithTheReference(t *testing.T) {
	p := pcg{words(15793235383387715774, 12390638538380655177), big.NewInt(1)}
	p.state.Add(p.state, p.inc)
	p.step()
	for i, want := range []uint64{
		0x3e8c8a3f7acfb7c7, 0x4ff241e54decae4, 0xb5a18bc6228755de, 0x51441a10549b9aff, 0xb0d1aab3db3d5756,
		0x4069d593777d2f75, 0x740cc29a20c647e6, 0xd109d27e4cb60098, 0xf2cb3ced4e3fb72d, 0xd4911e8a2eaa01a4,
	} {
		if got := p.next(); got != want {
			t.Errorf("draw %d = %#x, not %#x", i, got, want)
		}
	}
}

func TestRandFollowsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hi, lo := rapid.Uint64().Draw(t, "hi"), rapid.Uint64().Draw(t, "lo")
		r, p := Rand{*rand.NewPCG(hi, lo)}, pcg{words(hi, lo), pcgDefaultIncrement()}
		for i := range 5 {
			if got, want := r.Uint64(), p.next(); got != want {
				t.Fatalf("draw %d = %#x, not %#x", i, got, want)
			}
		}
	})
}

// The published sequence of SplitMix64 from the seed 1234567.
func TestSplitMix64KnownAnswers(t *testing.T) {
	state := uint64(1234567)
	for i, want := range []uint64{
		6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
	} {
		state += 0x9e3779b97f4a7c15
		if got := mix64(state); got != want {
			t.Errorf("number %d = %d, not %d", i, got, want)
		}
	}
}

func TestRandStateComesBack(t *testing.T) {
	r := NewRand(3, 4)
	r.Uint64()
	state := r.AppendState([]byte("before"))
	var back Rand
	if err := back.LoadState(state[len("before"):]); err != nil || back != r {
		t.Fatalf("state comes back as %v, %v", back, err)
	}
	for n := range len(state) - len("before") {
		if err := back.LoadState(state[len("before") : len("before")+n]); err == nil {
			t.Fatalf("%d bytes are taken for a state", n)
		}
	}
}

// mean and variance of a sample.
func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / float64(len(x)-1)
}

// Streams of neighbouring ids, and of neighbouring seeds, look independent: no correlation at the
// same draw, and first draws are uniform.
func TestNeighbouringStreamsAreIndependent(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		name   string
		stream func(i int) Rand
	}{
		{"ids", func(i int) Rand { return NewRand(1, EntityID(i+1)) }},
		{"seeds", func(i int) Rand { return NewRand(uint64(i), 1) }},
		{"seeds and ids against one another", func(i int) Rand { return NewRand(uint64(n-i), EntityID(i)) }},
		{"spawned", func(i int) Rand { return NewRand(1, ChildID(1, uint64(i))) }},
		{"ids in the high bits", func(i int) Rand { return NewRand(1, EntityID(i)<<40) }},
	} {
		for draw := range 3 {
			x := make([]float64, n)
			for i := range x {
				r := c.stream(i)
				for range draw {
					r.Uint64()
				}
				x[i] = r.Float64()
			}
			checkUniform(t, c.name, x)
			for lag := 1; lag <= 3; lag++ {
				sum := 0.0
				for i := range n - lag {
					sum += (x[i] - 0.5) * (x[i+lag] - 0.5)
				}
				// The correlation of n independent pairs deviates by 1/sqrt(n); 4.5 of these.
				if corr := 12 * sum / n; math.Abs(corr) > 4.5/math.Sqrt(n) {
					t.Errorf("%s, draw %d: correlation %.4f at lag %d", c.name, draw, corr, lag)
				}
			}
		}
	}
}

// checkUniform is a chi-square test with 256 cells: mean 255, deviation sqrt(510) = 22.6.
func checkUniform(t *testing.T, name string, x []float64) {
	t.Helper()
	var cells [256]float64
	for _, v := range x {
		cells[int(v*256)]++
	}
	want, chi := float64(len(x))/256, 0.0
	for _, n := range cells {
		chi += (n - want) * (n - want) / want
	}
	if chi < 255-4.5*22.6 || chi > 255+5.5*22.6 {
		t.Errorf("%s: chi-square %.0f with 255 degrees of freedom", name, chi)
	}
}

func TestNeighbouringStreamsShareNoBits(t *testing.T) {
	flips := 0
	for id := range EntityID(10_000) {
		a, b := NewRand(9, id), NewRand(9, id+1)
		flips += bits.OnesCount64(a.Uint64() ^ b.Uint64())
	}
	if mean := float64(flips) / 10_000; mean < 31.8 || mean > 32.2 {
		t.Errorf("first draws of neighbours differ in %.2f bits, not 32", mean)
	}
}

func TestStreamsOfABuilderDiffer(t *testing.T) {
	b := &Builder{prog: &Program{Seed: 5}}
	seen := map[uint64]string{}
	for _, name := range []string{"", "a", "b", "ab", "ba", "a\x00", "weather", "weathers"} {
		first, again := b.Stream(name).Uint64(), b.Stream(name).Uint64()
		if first != again {
			t.Errorf("stream %q does not begin the same twice", name)
		}
		if other, ok := seen[first]; ok {
			t.Errorf("streams %q and %q are one", name, other)
		}
		seen[first] = name
	}
	for id := range EntityID(1000) {
		r := NewRand(5, id)
		if name, ok := seen[r.Uint64()]; ok {
			t.Errorf("stream %q is that of entity %d", name, id)
		}
	}
}

// ks checks a sample against a distribution function (Kolmogorov-Smirnov); 1.95/sqrt(n) is passed by
// 99.9 % of true samples, and the seeds are fixed.
func ks(t *testing.T, name string, x []float64, cdf func(float64) float64) {
	t.Helper()
	slices.Sort(x)
	worst, n := 0.0, float64(len(x))
	for i, v := range x {
		f := cdf(v)
		worst = max(worst, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
	}
	if !(worst < 1.95/math.Sqrt(n)) {
		t.Errorf("%s: the distribution is off by %.5f (%.2f/sqrt(n))", name, worst, worst*math.Sqrt(n))
	}
}

func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

func TestContinuousDistributions(t *testing.T) {
	const n = 50_000
	for _, c := range []struct {
		name           string
		draw           func(r *Rand) float64
		mean, variance float64
		// fourth is the central fourth moment over the variance squared; it sets how far the variance
		// of a sample may be off.
		fourth float64
		cdf    func(x float64) float64
	}{
		{"Float64", (*Rand).Float64, 0.5, 1.0 / 12, 1.8, func(x float64) float64 { return x }},
		{"open", (*Rand).open, 0.5, 1.0 / 12, 1.8, func(x float64) float64 { return x }},
		{"Uniform(-2, 4)", func(r *Rand) float64 { return r.Uniform(-2, 4) }, 1, 3, 1.8, func(x float64) float64 { return (x + 2) / 6 }},
		{"Exp(3)", func(r *Rand) float64 { return r.Exp(3) }, 3, 9, 9, func(x float64) float64 { return 1 - math.Exp(-x/3) }},
		{"ExpDuration(1 h)", func(r *Rand) float64 { return r.ExpDuration(Hour).Seconds() }, 3600, 3600 * 3600, 9,
			func(x float64) float64 { return 1 - math.Exp(-x/3600) }},
		{"Normal(5, 2)", func(r *Rand) float64 { return r.Normal(5, 2) }, 5, 4, 3, func(x float64) float64 { return normalCDF((x - 5) / 2) }},
		{"LogNormal(0, 0.25)", func(r *Rand) float64 { return r.LogNormal(0, 0.25) }, math.Exp(1.0 / 32), math.Expm1(1.0/16) * math.Exp(1.0/16), 4.1,
			func(x float64) float64 { return normalCDF(math.Log(x) / 0.25) }},
		{"Weibull(2, 1.5)", func(r *Rand) float64 { return r.Weibull(2, 1.5) }, 2 * math.Gamma(1+1/1.5),
			4 * (math.Gamma(1+2/1.5) - math.Pow(math.Gamma(1+1/1.5), 2)), 4.4, func(x float64) float64 { return 1 - math.Exp(-math.Pow(x/2, 1.5)) }},
		{"Weibull(1, 1) is Exp(1)", func(r *Rand) float64 { return r.Weibull(1, 1) }, 1, 1, 9, func(x float64) float64 { return 1 - math.Exp(-x) }},
		{"Triangular(1, 2, 5)", func(r *Rand) float64 { return r.Triangular(1, 2, 5) }, 8.0 / 3, (1 + 4 + 25 - 2 - 5 - 10) / 18.0, 2.4,
			func(x float64) float64 {
				if x < 2 {
					return (x - 1) * (x - 1) / 4
				}
				return 1 - (5-x)*(5-x)/12
			}},
		{"Triangular(0, 0, 1)", func(r *Rand) float64 { return r.Triangular(0, 0, 1) }, 1.0 / 3, 1.0 / 18, 2.4, func(x float64) float64 { return 1 - (1-x)*(1-x) }},
		{"Triangular(0, 1, 1)", func(r *Rand) float64 { return r.Triangular(0, 1, 1) }, 2.0 / 3, 1.0 / 18, 2.4, func(x float64) float64 { return x * x }},
		{"Gamma(0.3, 2)", func(r *Rand) float64 { return r.Gamma(0.3, 2) }, 0.6, 1.2, 23, func(x float64) float64 { return mathext.GammaIncReg(0.3, x/2) }},
		{"Gamma(1, 1)", func(r *Rand) float64 { return r.Gamma(1, 1) }, 1, 1, 9, func(x float64) float64 { return 1 - math.Exp(-x) }},
		{"Gamma(4, 0.5)", func(r *Rand) float64 { return r.Gamma(4, 0.5) }, 2, 1, 4.5, func(x float64) float64 { return mathext.GammaIncReg(4, 2*x) }},
		{"Gamma(1000, 1)", func(r *Rand) float64 { return r.Gamma(1000, 1) }, 1000, 1000, 3.1, func(x float64) float64 { return mathext.GammaIncReg(1000, x) }},
	} {
		r := NewRand(20, 26)
		x := make([]float64, n)
		for i := range x {
			x[i] = c.draw(&r)
		}
		mean, variance := moments(x)
		if sd := math.Sqrt(c.variance / n); math.Abs(mean-c.mean) > 4*sd {
			t.Errorf("%s: mean %g, not %g", c.name, mean, c.mean)
		}
		if sd := c.variance * math.Sqrt((c.fourth-1)/n); math.Abs(variance-c.variance) > 4.5*sd {
			t.Errorf("%s: variance %g, not %g", c.name, variance, c.variance)
		}
		ks(t, c.name, x, c.cdf)
	}
}

func poissonLog(k int, mean float64) float64 {
	lg, _ := math.Lgamma(float64(k) + 1)
	return float64(k)*math.Log(mean) - mean - lg
}

// Poisson counts against the probabilities, cells of small expectation joined.
func TestPoisson(t *testing.T) {
	const n = 50_000
	for _, mean := range []float64{1e-9, 0.01, 0.7, 5, 9.999, 10, 10.001, 35, 300, 1e4} {
		r := NewRand(6, 1)
		count := map[int64]int{}
		sum := 0.0
		for range n {
			k := r.Poisson(mean)
			if k < 0 {
				t.Fatalf("Poisson(%g) = %d", mean, k)
			}
			count[k]++
			sum += float64(k)
		}
		if got := sum / n; math.Abs(got-mean) > 4*math.Sqrt(mean/n)+1e-3*min(mean, 1e-3) {
			t.Errorf("Poisson(%g): mean %g", mean, got)
		}
		chi, cells, seen, want := 0.0, 0, 0.0, 0.0
		for k := int64(max(0, mean-12*math.Sqrt(mean)-2)); k <= int64(mean+12*math.Sqrt(mean)+20); k++ {
			seen += float64(count[k])
			want += n * math.Exp(poissonLog(int(k), mean))
			if want >= 20 {
				chi += (seen - want) * (seen - want) / want
				cells, seen, want = cells+1, 0, 0
			}
		}
		if free := float64(cells - 1); chi > free+5*math.Sqrt(2*free)+10 {
			t.Errorf("Poisson(%g): chi-square %.1f with %.0f degrees of freedom", mean, chi, free)
		}
	}
}

func TestPoissonOfLargeMeansIsNearlyNormal(t *testing.T) {
	for _, mean := range []float64{1e6, 1e9, 1e12} {
		r := NewRand(8, 2)
		x := make([]float64, 20_000)
		for i := range x {
			x[i] = (float64(r.Poisson(mean)) - mean) / math.Sqrt(mean)
		}
		ks(t, "Poisson of a large mean", x, normalCDF)
	}
}

func TestPoissonAtTheEnds(t *testing.T) {
	r := NewRand(1, 1)
	for _, mean := range []float64{0, math.Copysign(0, -1), -1, math.Inf(-1)} {
		if k := r.Poisson(mean); k != 0 {
			t.Errorf("Poisson(%g) = %d", mean, k)
		}
	}
	for _, mean := range []float64{math.SmallestNonzeroFloat64, 1e-300, 1e-9, 0.1, 1, 9.99} {
		last := int64(0)
		for _, u := range slices.Sorted(slices.Values(extremes())) {
			k := streamFrom(u).Poisson(mean)
			// By inversion: monotone, and at 2^-53 from 1 no farther out than the tail reaches.
			if k < last || k > 60 {
				t.Errorf("Poisson(%g) at the draw %#x = %d after %d", mean, u, k, last)
			}
			last = k
		}
	}
	if k := streamFrom(math.MaxUint64).Poisson(0.1); k > 15 {
		t.Errorf("Poisson(0.1) at the largest draw = %d", k)
	}
	for _, u := range extremes() {
		for _, mean := range []float64{10, 1e3, 1e12} {
			if k := streamFrom(u).Poisson(mean); k < 0 || float64(k) > mean+60*math.Sqrt(mean)+60 {
				t.Errorf("Poisson(%g) at the draw %#x = %d", mean, u, k)
			}
		}
	}
}

func TestDrawsAreFiniteAtTheExtremes(t *testing.T) {
	for _, u := range extremes() {
		for _, c := range []struct {
			name   string
			x      float64
			lo, hi float64
		}{
			{"Float64", streamFrom(u).Float64(), 0, math.Nextafter(1, 0)},
			{"open", streamFrom(u).open(), math.SmallestNonzeroFloat64, math.Nextafter(1, 0)},
			{"Uniform", streamFrom(u).Uniform(-1, 1), -1, 1},
			{"Exp(1)", streamFrom(u).Exp(1), 0, 40},
			{"Exp(0)", streamFrom(u).Exp(0), 0, 0},
			{"Exp(1e300)", streamFrom(u).Exp(1e300), 0, 1e302},
			{"Normal", streamFrom(u).Normal(0, 1), -9, 9},
			{"Normal(2, 0)", streamFrom(u).Normal(2, 0), 2, 2},
			{"LogNormal", streamFrom(u).LogNormal(0, 1), 0, 1e4},
			{"Weibull", streamFrom(u).Weibull(1, 0.5), 0, 1600},
			{"Weibull of infinite shape", streamFrom(u).Weibull(3, math.Inf(1)), 3, 3},
			{"Triangular", streamFrom(u).Triangular(1, 2, 3), 1, 3},
			{"Triangular, one point", streamFrom(u).Triangular(2, 2, 2), 2, 2},
			{"Gamma(1e-3)", streamFrom(u).Gamma(1e-3, 1), 0, 100},
			{"Gamma(1)", streamFrom(u).Gamma(1, 1), 0, 100},
			{"Gamma(1e300)", streamFrom(u).Gamma(1e300, 1), 0.9e300, 1.1e300},
		} {
			if !(c.x >= c.lo && c.x <= c.hi) {
				t.Errorf("%s at the draw %#x = %g, outside [%g, %g]", c.name, u, c.x, c.lo, c.hi)
			}
		}
	}
}

// Inversion keeps order: a larger uniform never gives a value on the other side of a smaller one's.
func TestInversionIsMonotone(t *testing.T) {
	u := extremes()
	slices.Sort(u)
	for _, c := range []struct {
		name string
		sign float64
		draw func(r *Rand) float64
	}{
		{"Exp", -1, func(r *Rand) float64 { return r.Exp(1) }},
		{"Normal", 1, func(r *Rand) float64 { return r.Normal(0, 1) }},
		{"Weibull", -1, func(r *Rand) float64 { return r.Weibull(1, 2) }},
		{"Triangular", 1, func(r *Rand) float64 { return r.Triangular(0, 1, 5) }},
		{"Uniform", 1, func(r *Rand) float64 { return r.Uniform(0, 5) }},
	} {
		last := math.Inf(-1)
		for _, v := range u {
			x := c.sign * c.draw(streamFrom(v))
			if x < last {
				t.Errorf("%s turns back at the draw %#x", c.name, v)
			}
			last = x
		}
	}
}

func TestExpDurationIsNeverNegative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := Duration(rapid.OneOf(rapid.Int64Range(0, math.MaxInt64), rapid.SampledFrom([]int64{0, 1, math.MaxInt64 - 1, math.MaxInt64})).Draw(t, "mean"))
		u := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom(extremes())).Draw(t, "draw")
		d := streamFrom(u).ExpDuration(mean)
		if d < 0 {
			t.Fatalf("ExpDuration(%d) at the draw %#x = %d", mean, u, d)
		}
		exact := -float64(mean) * math.Log(streamFrom(u).open())
		if exact < math.MaxInt64 && math.Abs(float64(d)-exact) > 0.5+exact*1e-15 {
			t.Fatalf("ExpDuration(%d) = %d, not %g to the nearest", mean, d, exact)
		}
		if exact >= math.MaxInt64 && d != Forever {
			t.Fatalf("ExpDuration(%d) = %d should saturate", mean, d)
		}
	})
	if d := streamFrom(0).ExpDuration(Forever); d != Forever {
		t.Errorf("36 times the largest duration = %d", d)
	}
}

func TestIntNIsInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64Range(1, math.MaxInt64), rapid.Int64Range(1, 10), rapid.SampledFrom([]int64{1 << 62, 1<<62 + 1, math.MaxInt64})).Draw(t, "n")
		u := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom(extremes())).Draw(t, "draw")
		if got := streamFrom(u).IntN(n); got < 0 || got >= n {
			t.Fatalf("IntN(%d) = %d", n, got)
		}
	})
}

// With n = 3 x 2^61 a remainder of 64 bits would make the first third twice as likely.
func TestIntNIsUnbiasedNearTheTop(t *testing.T) {
	for _, n := range []int64{3 << 61, 5 << 60, math.MaxInt64, 1<<62 + 1, 256 * 3, 256} {
		r := NewRand(11, 3)
		x := make([]float64, 50_000)
		for i := range x {
			x[i] = float64(r.IntN(n)) / float64(n)
			if x[i] >= 1 {
				x[i] = math.Nextafter(1, 0)
			}
		}
		checkUniform(t, "IntN", x)
	}
}

// For a small word size the method can be counted out; here the boundary of rejection: with
// n = 3, 2^64 mod 3 = 1, so exactly the draw 0 is drawn again.
func TestIntNRejectsExactlyTheSurplus(t *testing.T) {
	again := streamFrom(0)
	again.Uint64()
	second := again.Uint64()
	want, _ := bits.Mul64(second, 3)
	if got := streamFrom(0).IntN(3); got != int64(want) {
		t.Errorf("the draw 0 is not drawn again: %d, not %d", got, want)
	}
	// 3 x 0xaaaaaaaaaaaaaaab leaves 1, the first remainder that is kept.
	for _, u := range []uint64{1, 2, 0xaaaaaaaaaaaaaaab, math.MaxUint64, 1 << 63} {
		want, _ := bits.Mul64(u, 3)
		if got := streamFrom(u).IntN(3); got != int64(want) {
			t.Errorf("the draw %#x gives %d, not %d", u, got, want)
		}
	}
}

func TestBernoulli(t *testing.T) {
	r := NewRand(1, 9)
	hits := 0
	for range 100_000 {
		if r.Bernoulli(0.3) {
			hits++
		}
	}
	if math.Abs(float64(hits)-30_000) > 4*math.Sqrt(100_000*0.21) {
		t.Errorf("Bernoulli(0.3) is true %d times of 100,000", hits)
	}
	for _, u := range extremes() {
		if streamFrom(u).Bernoulli(0) || streamFrom(u).Bernoulli(-1) || streamFrom(u).Bernoulli(math.NaN()) {
			t.Errorf("draw %#x: true with probability 0", u)
		}
		if !streamFrom(u).Bernoulli(1) {
			t.Errorf("draw %#x: false with probability 1", u)
		}
	}
}

func TestPick(t *testing.T) {
	nan := math.NaN()
	for _, w := range [][]float64{nil, {}, {0}, {0, -1, nan}, {math.Inf(-1)}, {math.Copysign(0, -1)}} {
		r := NewRand(1, 1)
		if got := r.Pick(w); got != -1 {
			t.Errorf("Pick(%v) = %d", w, got)
		}
	}
	for _, c := range []struct {
		weights []float64
		allowed []int
	}{
		{[]float64{0, 1, 0}, []int{1}},
		{[]float64{-5, nan, 2, -1}, []int{2}},
		{[]float64{nan, 1, nan, 3}, []int{1, 3}},
		{[]float64{math.MaxFloat64, 0, math.MaxFloat64}, []int{0, 2}},
		{[]float64{math.SmallestNonzeroFloat64, 0}, []int{0}},
		{[]float64{1e308, 1e308, 1e308, 0}, []int{0, 1, 2}},
		{[]float64{0.1, 0.2, 0.3, 0}, []int{0, 1, 2}},
	} {
		seen := map[int]bool{}
		for _, u := range extremes() {
			seen[streamFrom(u).Pick(c.weights)] = true
		}
		for i := range seen {
			if !slices.Contains(c.allowed, i) {
				t.Errorf("Pick(%v) = %d", c.weights, i)
			}
		}
		if !seen[c.allowed[0]] || !seen[c.allowed[len(c.allowed)-1]] {
			t.Errorf("Pick(%v) never gives the first or the last", c.weights)
		}
	}
	r, n := NewRand(3, 3), [4]float64{}
	for range 100_000 {
		n[r.Pick([]float64{1, 0, 3, 6})]++
	}
	for i, want := range []float64{10_000, 0, 30_000, 60_000} {
		if math.Abs(n[i]-want) > 4.5*math.Sqrt(want) {
			t.Errorf("index %d is picked %g times, not %g", i, n[i], want)
		}
	}
}

// A bad parameter ends the run with a reason; it must not hang, recurse or give NaN.
func TestBadParametersAreBreaches(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		want string
		draw func(r *Rand)
	}{
		{"IntN(0)", func(r *Rand) { r.IntN(0) }},
		{"IntN(-3)", func(r *Rand) { r.IntN(-3) }},
		{"IntN(-9223372036854775808)", func(r *Rand) { r.IntN(math.MinInt64) }},
		{"Exp: the mean must be 0 or more, not -1", func(r *Rand) { r.Exp(-1) }},
		{"Exp: the mean", func(r *Rand) { r.Exp(nan) }},
		{"ExpDuration: the mean", func(r *Rand) { r.ExpDuration(-1) }},
		{"Normal: the standard deviation", func(r *Rand) { r.Normal(0, -1) }},
		{"Normal: the standard deviation", func(r *Rand) { r.LogNormal(0, nan) }},
		{"Weibull: the scale", func(r *Rand) { r.Weibull(-1, 1) }},
		{"Weibull: the shape", func(r *Rand) { r.Weibull(1, 0) }},
		{"Triangular: the mode", func(r *Rand) { r.Triangular(0, 2, 1) }},
		{"Triangular: the mode", func(r *Rand) { r.Triangular(0, nan, 1) }},
		{"Triangular: the mode", func(r *Rand) { r.Triangular(nan, 0, 1) }},
		{"Gamma: the shape", func(r *Rand) { r.Gamma(0, 1) }},
		{"Gamma: the shape", func(r *Rand) { r.Gamma(-1e18, 1) }},
		{"Gamma: the shape", func(r *Rand) { r.Gamma(nan, 1) }},
		{"Gamma: the shape", func(r *Rand) { r.Gamma(inf, 1) }},
		{"Gamma: the scale", func(r *Rand) { r.Gamma(1, -1) }},
		{"Poisson: the mean", func(r *Rand) { r.Poisson(nan) }},
		{"Poisson: the mean", func(r *Rand) { r.Poisson(inf) }},
		{"Poisson: the mean", func(r *Rand) { r.Poisson(1.1e12) }},
		{"Pick: weights must be finite", func(r *Rand) { r.Pick([]float64{1, inf}) }},
	} {
		err := breachOf(func() { r := NewRand(1, 1); c.draw(&r) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v", c.want, err)
		}
	}
}

// breachOf returns the Breach that f ends with, or nil.
func breachOf(f func()) (err error) {
	defer func() {
		if b, ok := recover().(error); ok && errors.As(b, new(*Breach)) {
			err = b
		}
	}()
	f()
	return nil
}

// The streams of 100 ids: a change here changes the answer of every scenario.
func TestStreamsGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/streams.golden")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var id EntityID
		var want [3]uint64
		if _, err := fmt.Sscanf(line, "%d %x %x %x", &id, &want[0], &want[1], &want[2]); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		r := NewRand(2026, id)
		if got := [3]uint64{r.Uint64(), r.Uint64(), r.Uint64()}; got != want {
			t.Errorf("entity %d draws %x, not %x", id, got, want)
		}
		lines++
	}
	if lines != 100 {
		t.Errorf("%d streams, not 100", lines)
	}
}
