package node

import (
	"math/bits"
	"slices"

	"github.com/simnode/simnode/sim"
)

// How a bucket is sorted when it is opened.

// sort fills refs with the events of the open bucket in order: one counting pass on the upper bits of
// the time within the day, then insertion within what shares them.
func (q *queue) sort() {
	n := int(q.open.n)
	q.refs = slices.Grow(q.refs[:0], n)[:n]
	if n <= smallSort {
		q.fill(q.refs)
		q.insertion(q.refs)
		return
	}
	q.scratch = slices.Grow(q.scratch[:0], n)[:n]
	q.fill(q.scratch)
	k := min(uint(bits.Len(uint(n))), 12, q.shift)
	down := q.shift - k
	base := sim.Time(q.day << q.shift)
	counts := q.counts[:1<<k]
	clear(counts)
	for _, r := range q.scratch {
		counts[uint64(r.t-base)>>down]++
	}
	sum, most := uint32(0), uint32(0)
	for i, c := range counts {
		counts[i] = sum
		sum += c
		most = max(most, c)
	}
	for _, r := range q.scratch {
		d := uint64(r.t-base) >> down
		q.refs[counts[d]] = r
		counts[d]++
	}
	if most <= smallSort {
		q.insertion(q.refs)
		return
	}
	q.sortGroups(counts)
}

// sortGroups sorts each group of refs that shares a digit; ends holds where each ends.
func (q *queue) sortGroups(ends []uint32) {
	start := uint32(0)
	for _, end := range ends {
		group := q.refs[start:end]
		start = end
		if len(group) <= smallSort {
			q.insertion(group)
			continue
		}
		slices.SortFunc(group, func(a, b ref) int {
			if q.less(a, b) {
				return -1
			}
			return 1
		})
	}
}

// fill writes the refs of the open bucket in the order of their places.
func (q *queue) fill(refs []ref) {
	for c, ch := range q.open.chunks {
		base := c * chunkEvents
		n := min(chunkEvents, len(refs)-base)
		for i := range ch[:n] {
			refs[base+i] = ref{ch[i].Time, uint32(base + i)}
		}
	}
}

func (q *queue) insertion(refs []ref) {
	for i := 1; i < len(refs); i++ {
		r := refs[i]
		j := i
		for j > 0 && (r.t < refs[j-1].t || r.t == refs[j-1].t && q.open.at(r.i).Before(q.open.at(refs[j-1].i))) {
			refs[j] = refs[j-1]
			j--
		}
		refs[j] = r
	}
}

func (q *queue) less(a, b ref) bool {
	if a.t != b.t {
		return a.t < b.t
	}
	return q.open.at(a.i).Before(q.open.at(b.i))
}
