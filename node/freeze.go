package node

import (
	"maps"
	"slices"

	"github.com/simnode/simnode/sim"
)

// frozenQueue is the content of a queue at a moment, readable while the queue goes on: the chunks are those of
// the queue, which does not use them again as long as it is frozen, and adds to them only behind what counts.
type frozenQueue struct {
	buckets []frozenBucket
	late    []sim.Message
	// cancelled are the events that were taken back.
	cancelled map[eventID]sim.Time
	n         int
}

// frozenBucket is a list of events in chunks; refs, if there are any, are the ones that count.
type frozenBucket struct {
	chunks []*chunk
	n      uint32
	refs   []ref
}

// freeze returns the content of the queue, until thaw. It copies pointers only, but for the open bucket and the
// late events.
func (q *queue) freeze() *frozenQueue {
	f := &frozenQueue{cancelled: maps.Clone(q.cancelled), n: q.n}
	for i := range q.ring {
		f.add(&q.ring[i])
	}
	f.add(&q.far)
	if q.next < len(q.refs) {
		f.buckets = append(f.buckets, frozenBucket{chunks: slices.Clone(q.open.chunks), refs: slices.Clone(q.refs[q.next:])})
	}
	for _, r := range q.late {
		f.late = append(f.late, q.lateMsgs[r.i])
	}
	q.frozen = true
	return f
}

func (f *frozenQueue) add(b *bucket) {
	if b.n > 0 {
		f.buckets = append(f.buckets, frozenBucket{chunks: b.chunks[:len(b.chunks):len(b.chunks)], n: uint32(b.n)})
	}
}

// thaw lets the queue use its chunks again.
func (q *queue) thaw() { q.frozen = false }

// recycle keeps chunks for later use, unless someone may still read them.
func (q *queue) recycle(chunks ...*chunk) {
	if !q.frozen {
		q.pool = append(q.pool, chunks...)
	}
}

// each calls f for the events of a bucket until it returns false.
func (b *frozenBucket) each(f func(m *sim.Message) bool) bool {
	at := func(i uint32) *sim.Message { return &b.chunks[i/chunkEvents][i%chunkEvents] }
	for _, r := range b.refs {
		if !f(at(r.i)) {
			return false
		}
	}
	for i := range b.n {
		if !f(at(i)) {
			return false
		}
	}
	return true
}

// isCancelled reports whether an event was taken back.
func (f *frozenQueue) isCancelled(m *sim.Message) bool {
	if len(f.cancelled) == 0 {
		return false
	}
	_, ok := f.cancelled[eventID{m.Key, m.Seq}]
	return ok
}
