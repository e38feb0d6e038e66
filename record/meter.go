package record

import (
	"math"
	"slices"

	"github.com/simnode/simnode/sim"
)

// meter makes the statistics of one series. bin is the interval of the observation's time.
type meter interface {
	observe(o *sim.Observation, bin int)
	stats(end sim.Time) sim.Stats
	// save appends the meter's state, and load reads it into a new meter; now is the time reached.
	save(b []byte) []byte
	load(r *reader, now sim.Time)
}

func newMeter(info *sim.SeriesInfo, g grid) meter {
	switch info.Kind {
	case sim.CounterSeries:
		return &counter{bins: make([]float64, g.n)}
	case sim.GaugeSeries:
		return &gauge{level: info.Start, min: info.Start, max: info.Start, asked: info.At, cursor: g.cursor(), bins: make([]float64, g.n)}
	case sim.SampleSeries:
		return &sample{sums: make([]float64, g.n), counts: make([]int64, g.n)}
	}
	return &counter{bins: make([]float64, g.n), rows: true}
}

// counter counts what is added or, for a table, the rows.
type counter struct {
	rows  bool
	count int64
	total sum
	bins  []float64
}

func (c *counter) observe(o *sim.Observation, bin int) {
	c.count++
	if c.rows {
		c.bins[bin]++
		return
	}
	c.total.add(o.Value)
	c.bins[bin] += o.Value
}

func (c *counter) stats(sim.Time) sim.Stats {
	total := c.total.value()
	return sim.Stats{Count: c.count, Sum: total, Last: total, Bins: c.bins}
}

// sample describes single values.
type sample struct {
	moments   moments
	total     sum
	quantiles quantiles
	last      float64
	sums      []float64
	counts    []int64
}

func (s *sample) observe(o *sim.Observation, bin int) {
	s.moments.add(o.Value, 1)
	s.total.add(o.Value)
	s.quantiles.add(o.Value)
	s.last = o.Value
	s.sums[bin] += o.Value
	s.counts[bin]++
}

func (s *sample) stats(sim.Time) sim.Stats {
	st := sim.Stats{Count: s.quantiles.n, Sum: s.total.value(), Mean: s.moments.mean, Min: s.quantiles.min,
		Max: s.quantiles.max, Last: s.last, Quantiles: s.quantiles.values(), Bins: make([]float64, len(s.sums))}
	if st.Count > 1 {
		st.Variance = s.moments.squares / float64(st.Count-1)
	}
	for i, n := range s.counts {
		st.Bins[i] = math.NaN()
		if n > 0 {
			st.Bins[i] = s.sums[i] / float64(n)
		}
	}
	return st
}

// gauge follows one level. Lengths of time are exact integers of ticks before they become floats.
type gauge struct {
	count    int64
	level    float64
	min, max float64
	// since is up to when the level is accounted for.
	since sim.Time
	// integral of the level over ticks: exact for whole levels while below 2^53.
	integral sum
	moments  moments
	// asked are the times still to come whose level is asked for.
	asked  []sim.Time
	at     []float64
	cursor cursor
	bins   []float64
}

func (g *gauge) observe(o *sim.Observation, _ int) {
	g.advance(o.Time)
	g.count++
	if o.Op == sim.OpAdd {
		g.level += o.Value
	} else {
		g.level = o.Value
	}
	g.min, g.max = min(g.min, g.level), max(g.max, g.level)
}

// advance accounts for the level up to t. What is asked for at t itself is the level before the
// events of t.
func (g *gauge) advance(t sim.Time) {
	for len(g.asked) > 0 && g.asked[0] <= t {
		g.at = append(g.at, g.level)
		g.asked = g.asked[1:]
	}
	if t <= g.since {
		return
	}
	span := float64(t.Sub(g.since))
	g.integral.add(float64(g.level * span))
	g.moments.add(g.level, span)
	for g.since < t {
		bin := g.cursor.at(g.since)
		stop := min(t, g.cursor.stop)
		g.bins[bin] += float64(g.level * float64(stop.Sub(g.since)))
		g.since = stop
	}
}

func (g *gauge) stats(end sim.Time) sim.Stats {
	g.advance(end)
	st := sim.Stats{Count: g.count, Sum: g.integral.value() / float64(sim.Second), Mean: g.level,
		Min: g.min, Max: g.max, Last: g.level, At: g.at, Bins: slices.Clone(g.bins)}
	for range g.asked {
		st.At = append(st.At, math.NaN())
	}
	if g.moments.weight > 0 {
		st.Mean = g.integral.value() / g.moments.weight
		st.Variance = g.moments.squares / g.moments.weight
	}
	for i := range st.Bins {
		start := g.cursor.grid.start(i)
		if stop := min(g.cursor.grid.stop(i), end); stop > start {
			st.Bins[i] /= float64(stop.Sub(start))
		}
	}
	return st
}
