package node

import (
	"math/bits"

	"github.com/simnode/simnode/sim"
)

// How wide the days of the ring are.

// narrow makes days shorter when one of them holds far too many events; false if it cannot help,
// because they are all at nearly one time.
func (q *queue) narrow(b *bucket) bool {
	over := bits.Len32(uint32(b.n) / bucketTarget)
	if q.shift == 0 || q.patience > 0 {
		return false
	}
	hi := b.min
	for i := range uint32(b.n) {
		hi = max(hi, b.at(i).Time)
	}
	shift := q.shift - min(q.shift, uint(over))
	if hi-b.min < 1<<shift {
		return false
	}
	q.reshape(shift)
	q.patience = 64
	return true
}

// adjust fits the width of a day to the number of events that the opened days held.
func (q *queue) adjust() {
	if q.opened < 16 {
		return
	}
	per := q.ran / q.opened
	shift := q.shift
	switch {
	case per > 2*bucketTarget && shift > 0:
		shift--
	case per < bucketTarget/4 && shift < q.maxShift && q.ranLate < q.ran/4:
		shift++
	case q.ranLate > q.ran/2 && per > 64 && shift > 0:
		shift--
	}
	q.opened, q.ran, q.ranLate, q.moved, q.spreads = 0, 0, 0, 0, 0
	if shift != q.shift {
		q.reshape(shift)
	}
}

// widen makes days longer than the lookahead asks for where the ring is so short against the distances
// between events that the far ones are looked at again and again; false if it is not.
func (q *queue) widen() bool {
	if q.spreads < 4 || q.moved <= 8*q.ran || q.shift == maxShift {
		return false
	}
	q.opened, q.ran, q.ranLate, q.moved, q.spreads = 0, 0, 0, 0, 0
	q.reshape(q.shift + 1)
	return true
}

// reshape gives days another width. The open bucket stays as it is: its events and the late ones run
// before everything else, so they must lie before the first day of the new ring.
func (q *queue) reshape(shift uint) {
	end := q.openEnd()
	all := bucket{min: sim.Never}
	for i := range q.ring {
		b := &q.ring[i]
		if b.n > 0 {
			all.chunks = q.gather(all.chunks, &all.n, b)
		}
	}
	all.chunks = q.gather(all.chunks, &all.n, &q.far)
	clear(q.filled)
	q.shift = shift
	q.day = int64(end)>>shift - 1
	q.limit = windowEnd(q.day)
	q.pushAll(&all)
}

// openEnd is the first time after the open day.
func (q *queue) openEnd() sim.Time { return sim.Time((q.day + 1) << q.shift) }

// gather appends the events of b to a list of n events in chunks and empties b.
func (q *queue) gather(chunks []*chunk, n *int32, b *bucket) []*chunk {
	for i := range uint32(b.n) {
		if *n&(chunkEvents-1) == 0 {
			chunks = append(chunks, q.newChunk())
		}
		chunks[len(chunks)-1][*n&(chunkEvents-1)] = *b.at(i)
		*n++
		if i%chunkEvents == chunkEvents-1 {
			q.recycle(b.chunks[i/chunkEvents])
		}
	}
	if b.n%chunkEvents != 0 {
		q.recycle(b.chunks[len(b.chunks)-1])
	}
	q.empty(b)
	return chunks
}
