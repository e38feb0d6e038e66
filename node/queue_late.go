package node

import (
	"github.com/simnode/simnode/sim"
)

// The late heap: a 4-ary heap of refs to messages in slots.

func (q *queue) pushLate(m *sim.Message) {
	q.n++
	i := uint32(len(q.lateMsgs))
	if n := len(q.lateFree); n > 0 {
		i = q.lateFree[n-1]
		q.lateFree = q.lateFree[:n-1]
		q.lateMsgs[i] = *m
	} else {
		q.lateMsgs = append(q.lateMsgs, *m)
	}
	q.late = append(q.late, ref{m.Time, i})
	q.siftUp(len(q.late) - 1)
}

func (q *queue) lateFirst(m *sim.Message) bool {
	top := q.late[0]
	return top.t < m.Time || top.t == m.Time && q.lateMsgs[top.i].Before(m)
}

// popLate returns the first of the late events if it lies below bound.
func (q *queue) popLate(bound sim.Time) *sim.Message {
	top := q.late[0]
	if top.t >= bound {
		return nil
	}
	last := len(q.late) - 1
	q.late[0] = q.late[last]
	q.late = q.late[:last]
	if last > 0 {
		q.siftDown(0)
	}
	q.lateFree = append(q.lateFree, top.i)
	q.n--
	q.ran++
	q.ranLate++
	q.popped = q.lateMsgs[top.i]
	return &q.popped
}

func (q *queue) lateLess(a, b ref) bool {
	return a.t < b.t || a.t == b.t && q.lateMsgs[a.i].Before(&q.lateMsgs[b.i])
}

func (q *queue) siftUp(i int) {
	r := q.late[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !q.lateLess(r, q.late[parent]) {
			break
		}
		q.late[i] = q.late[parent]
		i = parent
	}
	q.late[i] = r
}

func (q *queue) siftDown(i int) {
	r := q.late[i]
	for {
		best, first := -1, 4*i+1
		for c := first; c < min(first+4, len(q.late)); c++ {
			if best < 0 || q.lateLess(q.late[c], q.late[best]) {
				best = c
			}
		}
		if best < 0 || !q.lateLess(q.late[best], r) {
			break
		}
		q.late[i] = q.late[best]
		i = best
	}
	q.late[i] = r
}
