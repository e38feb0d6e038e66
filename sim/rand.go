package sim

import (
	"math"
	"math/rand/v2"
)

// Rand is the random stream of one entity: the generator PCG-DXSM with 128 bits of state
// (M. O'Neill, "PCG", 2014; the DXSM output function as in math/rand/v2). Its start derives from
// (seed, entity id); it is part of the entity's state, so draws do not depend on what other entities
// do. Continuous distributions are drawn by inversion where that is practical: one uniform a draw,
// monotone in it, so that common and antithetic random numbers work.
type Rand struct{ pcg rand.PCG }

// NewRand returns the stream of the entity id in a run with the given seed.
func NewRand(seed uint64, id EntityID) Rand {
	a := mix64(seed ^ 0x9e3779b97f4a7c15)
	return Rand{*rand.NewPCG(mix64(a+uint64(id)), mix64(a^mix64(uint64(id)+0x632be59bd9b4e019)))}
}

// mix64 is the output function of SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014): a bijection that spreads every bit.
func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Uint64 returns 64 uniform bits.
func (r *Rand) Uint64() uint64 { return r.pcg.Uint64() }

// Float64 returns a uniform number in [0, 1) with 53 bits.
func (r *Rand) Float64() float64 { return float64(r.pcg.Uint64()>>11) * 0x1p-53 }

// open returns a uniform number in (0, 1).
func (r *Rand) open() float64 { return (float64(r.pcg.Uint64()>>12) + 0.5) * 0x1p-52 }

// IntN returns a uniform integer in [0, n); n must be positive. Without bias (D. Lemire, "Fast
// random integer generation in an interval", 2019).
func (r *Rand) IntN(n int64) int64 {
	if n <= 0 {
		panic(breach("IntN(%d): the bound must be positive", n))
	}
	hi, lo := mul64(r.pcg.Uint64(), uint64(n))
	if lo < uint64(n) {
		for limit := -uint64(n) % uint64(n); lo < limit; {
			hi, lo = mul64(r.pcg.Uint64(), uint64(n))
		}
	}
	return int64(hi)
}

// Bernoulli returns true with probability p.
func (r *Rand) Bernoulli(p float64) bool { return r.Float64() < p }

// Uniform returns a uniform number in [a, b).
func (r *Rand) Uniform(a, b float64) float64 { return a + (b-a)*r.Float64() }

// Exp returns an exponential number with the given mean, by inversion.
func (r *Rand) Exp(mean float64) float64 { return -mean * math.Log(r.open()) }

// ExpDuration returns an exponential duration with the given mean, rounded to the nearest tick.
func (r *Rand) ExpDuration(mean Duration) Duration {
	x := -float64(mean) * math.Log(r.open())
	if x >= math.MaxInt64 {
		return Forever
	}
	return Duration(x + 0.5)
}

// Normal returns a normal number with the given mean and standard deviation, by inversion.
func (r *Rand) Normal(mean, sd float64) float64 {
	return mean + sd*math.Sqrt2*math.Erfinv(2*r.open()-1)
}

// LogNormal returns exp(Normal(mu, sigma)).
func (r *Rand) LogNormal(mu, sigma float64) float64 { return math.Exp(r.Normal(mu, sigma)) }

// Weibull returns a Weibull number with the given scale and shape, by inversion.
func (r *Rand) Weibull(scale, shape float64) float64 {
	return scale * math.Pow(-math.Log(r.open()), 1/shape)
}

// Triangular returns a triangular number on [a, b] with the given mode, by inversion.
func (r *Rand) Triangular(a, mode, b float64) float64 {
	u, cut := r.Float64(), (mode-a)/(b-a)
	if u < cut {
		return a + math.Sqrt(u*(b-a)*(mode-a))
	}
	return b - math.Sqrt((1-u)*(b-a)*(b-mode))
}

// Gamma returns a gamma number with the given shape and scale (G. Marsaglia, W. Tsang, "A simple
// method for generating gamma variables", 2000). Erlang-k is Gamma(k, mean/k).
func (r *Rand) Gamma(shape, scale float64) float64 {
	if shape < 1 {
		return r.Gamma(shape+1, scale) * math.Pow(r.open(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.Normal(0, 1)
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(r.open()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v * scale
		}
	}
}

// Poisson returns a Poisson count with the given mean: by inversion below 10, above by transformed
// rejection (W. Hörmann, "The transformed rejection method for generating Poisson random
// variables", 1993, algorithm PTRS).
func (r *Rand) Poisson(mean float64) int64 {
	if mean <= 0 {
		return 0
	}
	if mean < 10 {
		u, p := r.Float64(), math.Exp(-mean)
		k, sum := int64(0), p
		for u >= sum && k < 200 {
			k++
			p *= mean / float64(k)
			sum += p
		}
		return k
	}
	return r.poissonPTRS(mean)
}

func (r *Rand) poissonPTRS(mean float64) int64 {
	b := 0.931 + 2.53*math.Sqrt(mean)
	a := -0.059 + 0.02483*b
	invAlpha := 1.1239 + 1.1328/(b-3.4)
	vr := 0.9277 - 3.6224/(b-2)
	for {
		u, v := r.open()-0.5, r.open()
		us := 0.5 - math.Abs(u)
		k := math.Floor((2*a/us+b)*u + mean + 0.43)
		if us >= 0.07 && v <= vr {
			return int64(k)
		}
		if k < 0 || (us < 0.013 && v > us) {
			continue
		}
		lg, _ := math.Lgamma(k + 1)
		if math.Log(v)+math.Log(invAlpha)-math.Log(a/(us*us)+b) <= k*math.Log(mean)-mean-lg {
			return int64(k)
		}
	}
}

// Pick returns an index drawn with probability proportional to its weight; negative weights count
// as 0. It returns -1 if no weight is positive.
func (r *Rand) Pick(weights []float64) int {
	total := 0.0
	for _, w := range weights {
		total += max(w, 0)
	}
	if !(total > 0) {
		return -1
	}
	x, last := r.Float64()*total, -1
	for i, w := range weights {
		if w <= 0 {
			continue
		}
		last = i
		if x -= w; x < 0 {
			return i
		}
	}
	return last
}
