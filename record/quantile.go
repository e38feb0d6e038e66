package record

import (
	"math"
	"slices"
)

const (
	exactValues = 4096
	// mantissaBits of a value decide its bucket: a bucket is 2^-9 of its lower end wide.
	mantissaBits = 9
	dropBits     = 52 - mantissaBits
	pageBits     = 10
	pages        = 1 << (64 - dropBits - pageBits)
)

// ranks returns the quantiles that sim.Stats holds.
func ranks() [6]float64 { return [6]float64{0.05, 0.25, 0.5, 0.75, 0.95, 0.99} }

// quantiles keeps the first 4,096 values exactly and then counts values in buckets by sign, exponent
// and the first 9 bits of the mantissa (the log-linear histogram of G. Tene's HdrHistogram, over all
// of float64). The bucket is read from the bits of the value: no logarithm is rounded, so the result
// is the same on every machine and in any order of the values. Memory is 8 KB for each two octaves
// seen and at most 16 MB.
type quantiles struct {
	exact    []float64
	counts   *[pages]*[1 << pageBits]int64
	n        int64
	min, max float64
}

func (q *quantiles) add(v float64) {
	v += 0 // -0 and 0 are one value
	if q.n == 0 {
		q.min, q.max = v, v
	}
	q.min, q.max = min(q.min, v), max(q.max, v)
	q.n++
	if q.counts != nil {
		q.count(v)
		return
	}
	if len(q.exact) < exactValues {
		q.exact = append(q.exact, v)
		return
	}
	q.counts = new([pages]*[1 << pageBits]int64)
	for _, w := range q.exact {
		q.count(w)
	}
	q.exact = nil
	q.count(v)
}

func (q *quantiles) count(v float64) {
	b := bucket(v)
	page := &q.counts[b>>pageBits]
	if *page == nil {
		*page = new([1 << pageBits]int64)
	}
	(*page)[b&(1<<pageBits-1)]++
}

// bucket numbers the buckets in the order of the values.
func bucket(v float64) uint64 {
	b := math.Float64bits(v)
	if b>>63 == 1 {
		return ^b >> dropBits
	}
	return (b | 1<<63) >> dropBits
}

// middle returns the value that stands for a bucket: its middle, and 0 for the one at 0.
func middle(b uint64) float64 {
	low := b << dropBits
	high := low | (1<<dropBits - 1)
	switch {
	case low == 1<<63, high == 1<<63-1:
		return 0
	case low>>63 == 1:
		low, high = low&^(1<<63), high&^(1<<63)
	default:
		low, high = ^low, ^high
	}
	x, y := math.Float64frombits(low), math.Float64frombits(high)
	return x + (y-x)/2
}

// values returns the wanted quantiles, or zeros if there was no value.
func (q *quantiles) values() (out [6]float64) {
	if q.n == 0 {
		return out
	}
	sorted := slices.Clone(q.exact)
	slices.Sort(sorted)
	for i, p := range ranks() {
		place := p * float64(q.n-1)
		k := int64(place)
		part := place - float64(k)
		x, y := q.order(sorted, k), q.order(sorted, min(k+1, q.n-1))
		out[i] = float64(x*(1-part)) + float64(y*part)
	}
	return out
}

// order returns the k-th smallest value, k from 0.
func (q *quantiles) order(sorted []float64, k int64) float64 {
	switch {
	case q.counts == nil:
		return sorted[k]
	case k == 0:
		return q.min
	case k == q.n-1:
		return q.max
	}
	for i, page := range q.counts {
		if page == nil {
			continue
		}
		for j, c := range page {
			if k < c {
				return min(max(middle(uint64(i<<pageBits+j)), q.min), q.max)
			}
			k -= c
		}
	}
	return q.max
}
