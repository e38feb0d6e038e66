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

// AppendState appends the state of the stream.
func (r *Rand) AppendState(dst []byte) []byte {
	dst, _ = r.pcg.AppendBinary(dst)
	return dst
}

// LoadState sets the state that AppendState wrote.
func (r *Rand) LoadState(data []byte) error { return r.pcg.UnmarshalBinary(data) }

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

// need ends the run unless the parameter of a distribution is as it must be. NaN never is.
func need(ok bool, distribution, rule string, x float64) {
	if !ok {
		panic(breach("%s: %s, not %g", distribution, rule, x))
	}
}

// Exp returns an exponential number with the given mean of 0 or more, by inversion.
func (r *Rand) Exp(mean float64) float64 {
	need(mean >= 0, "Exp", "the mean must be 0 or more", mean)
	return -mean * math.Log(r.open())
}

// ExpDuration returns an exponential duration with the given mean of 0 or more, rounded to the
// nearest tick; it saturates at Forever.
func (r *Rand) ExpDuration(mean Duration) Duration {
	need(mean >= 0, "ExpDuration", "the mean must be 0 or more", float64(mean))
	x := -float64(mean) * math.Log(r.open())
	if x >= math.MaxInt64 {
		return Forever
	}
	return Duration(x + 0.5)
}

// Normal returns a normal number with the given mean and standard deviation of 0 or more, by
// inversion.
func (r *Rand) Normal(mean, sd float64) float64 {
	need(sd >= 0, "Normal", "the standard deviation must be 0 or more", sd)
	return mean + sd*math.Sqrt2*math.Erfinv(2*r.open()-1)
}

// LogNormal returns exp(Normal(mu, sigma)).
func (r *Rand) LogNormal(mu, sigma float64) float64 { return math.Exp(r.Normal(mu, sigma)) }

// Weibull returns a Weibull number with the given scale of 0 or more and positive shape, by
// inversion.
func (r *Rand) Weibull(scale, shape float64) float64 {
	need(scale >= 0, "Weibull", "the scale must be 0 or more", scale)
	need(shape > 0, "Weibull", "the shape must be positive", shape)
	return scale * math.Pow(-math.Log(r.open()), 1/shape)
}

// Triangular returns a triangular number on [a, b] with the given mode in it, by inversion.
func (r *Rand) Triangular(a, mode, b float64) float64 {
	need(a <= mode && mode <= b, "Triangular", "the mode must lie between the ends", mode)
	u, cut := r.Float64(), (mode-a)/(b-a)
	if u < cut {
		return a + math.Sqrt(u*(b-a)*(mode-a))
	}
	return b - math.Sqrt((1-u)*(b-a)*(b-mode))
}

// Gamma returns a gamma number with the given shape and scale (G. Marsaglia, W. Tsang, "A simple
// method for generating gamma variables", 2000); the shape is positive and finite, the scale 0 or
// more. Erlang-k is Gamma(k, mean/k).
func (r *Rand) Gamma(shape, scale float64) float64 {
	need(shape > 0 && shape <= math.MaxFloat64, "Gamma", "the shape must be positive and finite", shape)
	need(scale >= 0, "Gamma", "the scale must be 0 or more", scale)
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
// variables", 1993, algorithm PTRS). The mean is at most 1e12: beyond it the test of rejection drowns
// in rounding. A mean of 0 or less gives 0.
func (r *Rand) Poisson(mean float64) int64 {
	need(mean <= 1e12, "Poisson", "the mean must be at most 1e12", mean)
	if mean <= 0 {
		return 0
	}
	if mean < 10 {
		u, p := r.Float64(), math.Exp(-mean)
		k, sum := int64(0), p
		// The sum of all p may round to less than u; where adding changes nothing more is the end.
		for u >= sum && sum+p*mean/float64(k+1) != sum {
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

// Pick returns an index drawn with probability proportional to its weight; weights that are negative
// or NaN count as 0. It returns -1 if no weight is positive. The weights must be finite.
func (r *Rand) Pick(weights []float64) int {
	total, scale := 0.0, 1.0
	for _, w := range weights {
		need(w <= math.MaxFloat64 || math.IsNaN(w), "Pick", "weights must be finite", w)
		if w > 0 {
			total += w
		}
	}
	if total > math.MaxFloat64 {
		total, scale = 0, 0x1p-64
		for _, w := range weights {
			if w > 0 {
				total += w * scale
			}
		}
	}
	if total == 0 {
		return -1
	}
	x, last := r.Float64()*total, -1
	for i, w := range weights {
		if !(w > 0) {
			continue
		}
		last = i
		if x -= w * scale; x < 0 {
			return i
		}
	}
	return last
}
