package node

import (
	"slices"

	"github.com/simnode/simnode/sim"
)

// obsBatch collects the observations of one region between two reports.
type obsBatch struct {
	_    apart
	obs  []sim.Observation
	rows []byte
}

// hand returns what was observed and begins anew.
func (b *obsBatch) hand() []sim.Observation {
	if len(b.obs) == 0 {
		return nil
	}
	obs := b.obs
	b.obs = make([]sim.Observation, 0, len(obs))
	b.rows = b.rows[len(b.rows):]
	return obs
}

// Observe implements sim.Engine.
func (r *region) Observe(series uint16, op sim.Op, v float64) {
	if r.world.sink != nil {
		r.observe(series, op, v, nil)
	}
}

// ObserveRow implements sim.Engine.
func (r *region) ObserveRow(series uint16, size int) []byte {
	b := r.obs
	if cap(b.rows)-len(b.rows) < size {
		// Rows that stand already keep the old array.
		b.rows = make([]byte, 0, max(2*cap(b.rows), size, 4096))
	}
	n := len(b.rows)
	b.rows = b.rows[:n+size]
	row := b.rows[n : n+size : n+size]
	if r.world.sink != nil {
		r.observe(series, sim.OpRow, 0, row)
	}
	return row
}

func (r *region) observe(series uint16, op sim.Op, v float64, row []byte) {
	m := r.msg
	r.obs.obs = append(r.obs.obs, sim.Observation{
		Time: m.Time, Key: m.Key, Seq: m.Seq, Entity: r.self.id, Value: v, Row: row,
		Index: r.observed, Series: series, Kind: r.self.kind, Op: op,
	})
	r.observed++
	r.crowded = len(r.obs.obs) >= fullObservations
}

// collector brings the observations of all regions into one order and hands them to the sink. Which
// region made an observation, and when it was handed in, does not matter to the order.
type collector struct {
	// waiting holds, by region, what was handed in and is not below the floor yet, in order.
	waiting [][]sim.Observation
	ready   []sim.Observation
	heads   []int
}

func compareObs(a, b sim.Observation) int {
	if obsLess(&a, &b) {
		return -1
	}
	return 1
}

func obsLess(a, b *sim.Observation) bool {
	switch {
	case a.Time != b.Time:
		return a.Time < b.Time
	case a.Key != b.Key:
		return a.Key < b.Key
	case a.Seq != b.Seq:
		return a.Seq < b.Seq
	}
	return a.Index < b.Index
}

// add takes in what a region handed in. A region's events run in order of time; those of one time may
// run in another order where there is no delay between them.
func (c *collector) add(region int, obs []sim.Observation) {
	for len(c.waiting) <= region {
		c.waiting = append(c.waiting, nil)
		c.heads = append(c.heads, 0)
	}
	c.waiting[region] = append(c.waiting[region], obs...)
}

// take returns all observations before floor in order; valid until the next call.
func (c *collector) take(floor sim.Time) []sim.Observation {
	c.ready = c.ready[:0]
	ends := make([]int, len(c.waiting))
	for i, w := range c.waiting {
		end, _ := slices.BinarySearchFunc(w, floor, func(o sim.Observation, t sim.Time) int {
			if o.Time < t {
				return -1
			}
			return 1
		})
		part := w[:end]
		if !slices.IsSortedFunc(part, compareObs) {
			slices.SortFunc(part, compareObs)
		}
		ends[i] = end
	}
	c.merge(ends)
	for i, end := range ends {
		n := copy(c.waiting[i], c.waiting[i][end:])
		clear(c.waiting[i][n:])
		c.waiting[i] = c.waiting[i][:n]
	}
	return c.ready
}

// merge merges the first ends[i] observations of each region.
func (c *collector) merge(ends []int) {
	clear(c.heads)
	for {
		best := -1
		for i, end := range ends {
			h := c.heads[i]
			if h < end && (best < 0 || obsLess(&c.waiting[i][h], &c.waiting[best][c.heads[best]])) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		c.ready = append(c.ready, c.waiting[best][c.heads[best]])
		c.heads[best]++
	}
}
