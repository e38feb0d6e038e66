package node

import (
	"math"
	"math/bits"

	"github.com/simnode/simnode/sim"
)

const (
	// chunkEvents is how many events a chunk holds (2 KiB).
	chunkEvents = 32
	// ringDays is how many buckets the ring has.
	ringDays = 4096
	// bucketTarget is how many events a bucket should hold: few enough to stay in the second-level
	// cache while it is sorted and run, many enough to pay for opening it.
	bucketTarget = 4096
	// warmBatch is for how many events ahead the receivers are read into the cache.
	warmBatch = 128
	// smallSort is up to how many events insertion sort is used alone.
	smallSort = 24
	// maxShift keeps bucket numbers of all times within reach of an int64.
	maxShift = 50
)

type chunk [chunkEvents]sim.Message

// bucket holds the events of one day of the ring, unsorted.
type bucket struct {
	// tail is the last chunk, which is being filled.
	tail *chunk
	n    int32
	// min is the least time in the bucket.
	min    sim.Time
	chunks []*chunk
}

// ref is an event by its time and its place in the open bucket or among the late.
type ref struct {
	t sim.Time
	i uint32
}

// queue is a region's event queue: a ring of buckets, each a day of 2^shift ticks, sorted when it is
// opened; a heap for events that fall into the open day or before it (late); and a list for what lies
// beyond the ring (far). It is a calendar queue (R. Brown, 1988) with the lazy sorting of the ladder
// queue (Tang, Goh, Thng, 2005). Pushing costs a copy to the end of a chunk, popping an amortised
// share of one sort; there is no allocation once chunks are in the pool.
//
// The width of a day follows the number of events, bounded by the lookahead so that what other regions
// send falls into days that are not open yet. Nothing about it affects the order in which events come
// out: that is always (time, key, seq).
type queue struct {
	_        apart
	shift    uint
	maxShift uint
	// day is the open day; events of days up to it are in open or late.
	day int64
	// limit is the first day that the ring does not hold.
	limit int64
	ring  []bucket
	// filled has a bit for each bucket of the ring that holds events.
	filled []uint64
	far    bucket
	pool   []*chunk
	// frozen says that someone reads the chunks that the queue had at a moment: they are not used again.
	frozen bool
	// lists are lists of chunks for buckets that are filled for the first time.
	lists [][]*chunk

	open     bucket
	refs     []ref
	next     int
	scratch  []ref
	counts   []uint32
	late     []ref
	lateMsgs []sim.Message
	lateFree []uint32
	// popped is the late event that is being handled: its slot may be reused meanwhile.
	popped sim.Message

	n int
	// cancelled holds the identity of events that were taken back and are still queued.
	cancelled map[eventID]sim.Time
	// warm is called with events that are about to be popped, warmBatch at a time.
	warm func(refs []ref)
	// warmed is the place in refs up to which warm has been called.
	warmed int
	// dropped is called for a cancelled event when its turn comes.
	dropped func(m *sim.Message)

	// opened and ran count buckets and events since the width was last looked at.
	opened, ran, ranLate int
	// moved and spreads count the far events that were looked at again and how often, since then.
	moved, spreads int
	// patience is how many buckets to open before a crowded one makes days shorter again.
	patience int
	_        apart
}

// eventID identifies an event for ever: its source with priority, and the source's sequence.
type eventID struct{ key, seq uint64 }

// newQueue returns an empty queue. widest bounds the width of a day.
func newQueue(widest sim.Duration) *queue {
	q := &queue{
		maxShift:  widestShift(widest),
		ring:      make([]bucket, ringDays),
		filled:    make([]uint64, ringDays/64),
		cancelled: make(map[eventID]sim.Time),
		counts:    make([]uint32, 4096),
		far:       bucket{min: sim.Never},
	}
	for i := range q.ring {
		q.ring[i].min = sim.Never
	}
	q.shift = min(q.maxShift, 26)
	q.day, q.limit = -1, ringDays-1
	return q
}

func widestShift(widest sim.Duration) uint {
	if widest <= 0 || widest == sim.Forever {
		return maxShift
	}
	return min(maxShift, uint(bits.Len64(uint64(widest))-1))
}

// push adds a copy of m.
func (q *queue) push(m *sim.Message) {
	if s := q.slot(m.Time); s != nil {
		*s = *m
		return
	}
	q.pushLate(m)
}

// slot makes room for an event at time t, which the caller must write there at once, or returns nil if
// the event is a late one: then pushLate takes it. It saves a copy of what is sent most often.
func (q *queue) slot(t sim.Time) *sim.Message {
	day := int64(t) >> q.shift
	if day <= q.day {
		return nil
	}
	q.n++
	b := &q.far
	if day < q.limit {
		i := day & (ringDays - 1)
		b = &q.ring[i]
		if b.n == 0 {
			q.filled[i>>6] |= 1 << (i & 63)
		}
	}
	k := b.n & (chunkEvents - 1)
	if k == 0 {
		q.extend(b)
	}
	b.n++
	if t < b.min {
		b.min = t
	}
	return &b.tail[k]
}

// extend gives b another chunk.
func (q *queue) extend(b *bucket) {
	if n := len(q.lists); b.chunks == nil && n > 0 {
		b.chunks, q.lists = q.lists[n-1], q.lists[:n-1]
	}
	b.tail = q.newChunk()
	b.chunks = append(b.chunks, b.tail)
}

func (q *queue) newChunk() *chunk {
	if n := len(q.pool); n > 0 {
		c := q.pool[n-1]
		q.pool = q.pool[:n-1]
		return c
	}
	return new(chunk)
}

// drain gives the chunks of b back.
func (q *queue) drain(b *bucket) {
	q.recycle(b.chunks...)
	q.empty(b)
}

// empty gives back the list of the chunks of b, which have gone elsewhere.
func (q *queue) empty(b *bucket) {
	if cap(b.chunks) > 0 && !q.frozen {
		q.lists = append(q.lists, b.chunks[:0])
	}
	*b = bucket{min: sim.Never}
}

func (b *bucket) at(i uint32) *sim.Message {
	return &b.chunks[i/chunkEvents][i%chunkEvents]
}

// peek returns the least time of a pending event, Never if there is none. An event that was cancelled
// counts until its time has passed.
func (q *queue) peek() sim.Time {
	t := sim.Never
	if q.next < len(q.refs) {
		t = q.refs[q.next].t
	}
	if len(q.late) > 0 {
		t = min(t, q.late[0].t)
	}
	if t != sim.Never {
		return t
	}
	if d := q.nextDay(); d >= 0 {
		return q.ring[d&(ringDays-1)].min
	}
	return q.far.min
}

// dayEnd returns the end of the day that the next event lies in: running up to there opens whole
// buckets only.
func (q *queue) dayEnd() sim.Time {
	return q.endOf(q.peek())
}

// width returns how long a day is.
func (q *queue) width() sim.Duration { return 1 << q.shift }

// endOf returns the end of the day that t lies in.
func (q *queue) endOf(t sim.Time) sim.Time {
	if t == sim.Never {
		return sim.Never
	}
	end := (int64(t)>>q.shift + 1) << q.shift
	if end <= 0 {
		return sim.Never
	}
	return sim.Time(end)
}

// nextDay returns the first day after the open one with events in the ring, or -1.
func (q *queue) nextDay() int64 {
	start := q.day + 1
	if start >= q.limit {
		return -1
	}
	first := start & (ringDays - 1)
	w := first >> 6
	bitsLeft := q.filled[w] &^ (1<<(first&63) - 1)
	for k := range int64(ringDays/64 + 1) {
		if bitsLeft != 0 {
			i := (w+k)&(ringDays/64-1)<<6 + int64(bits.TrailingZeros64(bitsLeft))
			return start + (i-first)&(ringDays-1)
		}
		bitsLeft = q.filled[(w+k+1)&(ringDays/64-1)]
	}
	return -1
}

// pop returns the first event if it lies below bound, or nil. The message is valid until the next
// call of pop.
func (q *queue) pop(bound sim.Time) *sim.Message {
	if q.next < len(q.refs) && len(q.late) == 0 && len(q.cancelled) == 0 {
		r := q.refs[q.next]
		if r.t >= bound {
			return nil
		}
		return q.takeNext(r)
	}
	for {
		m := q.popAny(bound)
		if m == nil || len(q.cancelled) == 0 || !q.takeCancelled(m) {
			return m
		}
	}
}

// takeNext takes the next event of the open bucket.
func (q *queue) takeNext(r ref) *sim.Message {
	if q.next == q.warmed {
		q.warmAhead()
	}
	q.next++
	q.n--
	q.ran++
	return q.open.at(r.i)
}

func (q *queue) takeCancelled(m *sim.Message) bool {
	id := eventID{m.Key, m.Seq}
	if _, ok := q.cancelled[id]; !ok {
		return false
	}
	delete(q.cancelled, id)
	if q.dropped != nil {
		q.dropped(m)
	}
	return true
}

func (q *queue) popAny(bound sim.Time) *sim.Message {
	for {
		if q.next < len(q.refs) {
			r := q.refs[q.next]
			m := q.open.at(r.i)
			if len(q.late) > 0 && q.lateFirst(m) {
				return q.popLate(bound)
			}
			if r.t >= bound {
				return nil
			}
			return q.takeNext(r)
		}
		if len(q.late) > 0 {
			return q.popLate(bound)
		}
		if q.peek() >= bound || !q.openNext() {
			return nil
		}
	}
}

// warmAhead calls warm with the events to come.
func (q *queue) warmAhead() {
	end := min(q.next+warmBatch, len(q.refs))
	if q.warm != nil {
		q.warm(q.refs[q.next:end])
	}
	q.warmed = end
}

// openNext opens the next day with events; false if there is none.
func (q *queue) openNext() bool {
	q.close()
	if q.limit-q.day < ringDays/2 {
		q.adjust()
		q.widen()
		q.spread()
	}
	d := q.nextDay()
	if d < 0 {
		if q.far.n == 0 {
			return false
		}
		if q.widen() {
			return q.openNext() // the ring may hold events now
		}
		q.day = int64(q.far.min)>>q.shift - 1
		q.spread()
		return q.openNext()
	}
	i := d & (ringDays - 1)
	if q.ring[i].n > 8*bucketTarget && q.narrow(&q.ring[i]) {
		return q.openNext()
	}
	q.opened++
	q.patience--
	q.day = d
	q.filled[i>>6] &^= 1 << (i & 63)
	q.open, q.ring[i] = q.ring[i], q.open
	q.sort()
	q.warmed = 0
	return true
}

// close gives back the open bucket, all of whose events have run.
func (q *queue) close() {
	q.drain(&q.open)
	q.refs, q.next = q.refs[:0], 0
}

// spread moves the window of the ring on to the open day and takes in what is no longer far.
func (q *queue) spread() {
	q.limit = windowEnd(q.day)
	q.moved += int(q.far.n)
	q.spreads++
	far := q.far
	q.far = bucket{min: sim.Never}
	q.pushAll(&far)
}

// windowEnd is the first day beyond a ring that begins after day.
func windowEnd(day int64) int64 {
	if day > math.MaxInt64-ringDays {
		return math.MaxInt64
	}
	return day + ringDays
}

// pushAll pushes the events of b again and gives its chunks back.
func (q *queue) pushAll(b *bucket) {
	for i := range uint32(b.n) {
		if i%chunkEvents == 0 && i > 0 {
			q.recycle(b.chunks[i/chunkEvents-1])
		}
		q.n--
		q.push(b.at(i))
	}
	if n := len(b.chunks); n > 0 {
		q.recycle(b.chunks[n-1])
	}
	q.empty(b)
}

// cancel takes back a pending event whose time is not before now; false if it is not pending.
func (q *queue) cancel(id eventID, at, now sim.Time) bool {
	if at < now {
		return false
	}
	if _, done := q.cancelled[id]; done {
		return false
	}
	if at == now && !q.pendingNow(id, at) {
		return false
	}
	q.cancelled[id] = at
	return true
}

// pendingNow looks for an event at the present time, which is the only one at which an event that has
// run cannot be told from one to come by its time.
func (q *queue) pendingNow(id eventID, at sim.Time) bool {
	for _, r := range q.refs[q.next:] {
		if r.t > at {
			break
		}
		if m := q.open.at(r.i); m.Key == id.key && m.Seq == id.seq {
			return true
		}
	}
	for _, r := range q.late {
		if m := &q.lateMsgs[r.i]; r.t == at && m.Key == id.key && m.Seq == id.seq {
			return true
		}
	}
	return false
}

// extract removes every event for which take returns true, after take has copied it. Whether an event
// was cancelled goes with it.
func (q *queue) extract(take func(m *sim.Message, cancelled bool) bool) {
	all := bucket{min: sim.Never}
	n := int32(0)
	for i := range q.ring {
		if b := &q.ring[i]; b.n > 0 {
			all.chunks = q.gather(all.chunks, &n, b)
		}
	}
	clear(q.filled)
	all.chunks = q.gather(all.chunks, &n, &q.far)
	rest := make([]sim.Message, 0, len(q.refs)-q.next+len(q.late))
	for _, r := range q.refs[q.next:] {
		rest = append(rest, *q.open.at(r.i))
	}
	for _, r := range q.late {
		rest = append(rest, q.lateMsgs[r.i])
	}
	q.close()
	q.late, q.lateMsgs, q.lateFree = q.late[:0], q.lateMsgs[:0], q.lateFree[:0]
	q.n = 0
	keep := func(m *sim.Message) {
		id := eventID{m.Key, m.Seq}
		_, gone := q.cancelled[id]
		switch {
		case !take(m, gone):
			q.push(m)
		case gone:
			delete(q.cancelled, id)
		}
	}
	for i := range rest {
		keep(&rest[i])
	}
	all.n = n
	for i := range uint32(n) {
		keep(all.at(i))
	}
	q.recycle(all.chunks...)
}

// bytes returns how much memory the queue holds.
func (q *queue) bytes() int {
	chunks := len(q.pool) + len(q.open.chunks) + len(q.far.chunks)
	lists := cap(q.open.chunks) + cap(q.far.chunks) + cap(q.pool) + 3*cap(q.lists)
	for _, l := range q.lists {
		lists += cap(l)
	}
	for i := range q.ring {
		chunks += len(q.ring[i].chunks)
		lists += cap(q.ring[i].chunks)
	}
	return chunks*chunkEvents*64 + lists*8 + (cap(q.refs)+cap(q.scratch)+cap(q.late))*16 +
		cap(q.lateMsgs)*64 + cap(q.lateFree)*4 + len(q.ring)*40 + cap(q.counts)*4
}
