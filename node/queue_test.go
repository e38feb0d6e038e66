package node

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/simnode/simnode/sim"
)

// plainQueue is what the queue is compared with: one sorted slice.
type plainQueue struct {
	list      []sim.Message
	cancelled map[eventID]bool
}

func (p *plainQueue) push(m sim.Message) {
	i, _ := slices.BinarySearchFunc(p.list, m, compareMessages)
	p.list = slices.Insert(p.list, i, m)
}

func compareMessages(a, b sim.Message) int {
	switch {
	case a.Before(&b):
		return -1
	case b.Before(&a):
		return 1
	}
	return 0
}

func (p *plainQueue) peek() sim.Time {
	if len(p.list) == 0 {
		return sim.Never
	}
	return p.list[0].Time
}

func (p *plainQueue) pop(bound sim.Time) (m sim.Message, ok bool) {
	for len(p.list) > 0 && p.list[0].Time < bound {
		m, p.list = p.list[0], p.list[1:]
		if id := (eventID{m.Key, m.Seq}); p.cancelled[id] {
			delete(p.cancelled, id)
			continue
		}
		return m, true
	}
	return sim.Message{}, false
}

func (p *plainQueue) pending(id eventID) bool {
	return !p.cancelled[id] && slices.ContainsFunc(p.list, func(m sim.Message) bool { return m.Key == id.key && m.Seq == id.seq })
}

// queueWorld drives a queue and a plainQueue side by side. floor is the time below which everything
// has run: nothing is pushed before it.
type queueWorld struct {
	t     *rapid.T
	q     *queue
	plain plainQueue
	floor sim.Time
	seq   uint64
	ran   []sim.Message
	scale sim.Duration
}

// message makes a message at a time; few sources, so that times and keys meet often.
func (w *queueWorld) message(at sim.Time, source uint64) sim.Message {
	w.seq++
	prio := sim.Priority(w.seq % 5)
	return sim.Message{Time: at, Key: sim.MakeKey(prio, sim.EntityID(source)), Seq: w.seq<<16 | source, Dst: w.seq, Body: sim.Body{A: w.seq, D: ^w.seq}}
}

func (w *queueWorld) push(at sim.Time, source uint64) {
	if at == sim.Never {
		at--
	}
	m := w.message(at, source)
	w.q.push(&m)
	w.plain.push(m)
}

// drawTime draws a time that is not before the floor: at it, near it, at a border of days, at the time
// of a pending event, far beyond the ring, or near the end of time.
func (w *queueWorld) drawTime() sim.Time {
	switch rapid.IntRange(0, 6).Draw(w.t, "when") {
	case 0:
		return w.floor
	case 1:
		return w.floor.Add(sim.Duration(rapid.Int64Range(0, 3).Draw(w.t, "ticks")))
	case 2:
		return max(w.floor, w.q.endOf(w.floor).Add(-sim.Duration(rapid.Int64Range(0, 2).Draw(w.t, "before the border"))))
	case 3:
		if len(w.plain.list) > 0 {
			return max(w.floor, w.plain.list[rapid.IntRange(0, len(w.plain.list)-1).Draw(w.t, "meet")].Time)
		}
		return w.floor
	case 4:
		return w.floor.Add(w.scale.Mul(rapid.Int64Range(0, 1<<20).Draw(w.t, "far")))
	case 5:
		return max(w.floor, sim.Never.Add(0)-1-sim.Time(rapid.Int64Range(0, 1<<16).Draw(w.t, "before never")))
	}
	return w.floor.Add(sim.Duration(rapid.Int64Range(0, int64(w.scale)).Draw(w.t, "within the scale")))
}

func (w *queueWorld) pushSome() {
	for range rapid.IntRange(1, 8).Draw(w.t, "pushes") {
		w.push(w.drawTime(), rapid.Uint64Range(1, 3).Draw(w.t, "source"))
	}
}

// popOne pops one event below a drawn bound; as its handler, pushes and cancels.
func (w *queueWorld) popOne() {
	bound := w.drawTime()
	want, ok := w.plain.pop(bound)
	got := w.q.pop(bound)
	if (got != nil) != ok || ok && *got != want {
		w.t.Fatalf("pop below %d gives %+v, want %+v %v", bound, got, want, ok)
	}
	if !ok {
		w.floor = max(w.floor, bound)
		return
	}
	w.floor = want.Time
	w.ran = append(w.ran, want)
	if rapid.Bool().Draw(w.t, "handler pushes") {
		w.pushSome()
	}
	for range rapid.IntRange(0, 3).Draw(w.t, "cancels") {
		w.cancelOne()
	}
	if *got != want {
		w.t.Fatalf("the event being handled changed under its handler: %+v, was %+v", got, want)
	}
}

// cancelOne cancels a pending, a handled or an already cancelled event, as the event at floor would.
func (w *queueWorld) cancelOne() {
	list := w.plain.list
	if rapid.Bool().Draw(w.t, "one that has run") {
		list = w.ran
	}
	if len(list) == 0 {
		return
	}
	m := list[rapid.IntRange(0, len(list)-1).Draw(w.t, "which")]
	id := eventID{m.Key, m.Seq}
	want := w.plain.pending(id)
	if got := w.q.cancel(id, m.Time, w.floor); got != want {
		w.t.Fatalf("cancel of %+v at %d: %v, want %v", m, w.floor, got, want)
	}
	if want {
		w.plain.cancelled[id] = true
	}
}

// extract takes out the events of every second receiver, with what was cancelled among them.
func (w *queueWorld) extract() {
	mod := rapid.Uint64Range(1, 4).Draw(w.t, "taken of")
	var got, want, kept []sim.Message
	for _, m := range w.plain.list {
		if m.Dst%mod == 0 {
			want = append(want, m)
		} else {
			kept = append(kept, m)
		}
	}
	gone := 0
	w.q.extract(func(m *sim.Message, cancelled bool) bool {
		if m.Dst%mod != 0 {
			return false
		}
		id := eventID{m.Key, m.Seq}
		if cancelled != w.plain.cancelled[id] {
			w.t.Fatalf("extract says cancelled %v of %+v", cancelled, m)
		}
		if cancelled {
			gone++
		}
		delete(w.plain.cancelled, id)
		got = append(got, *m)
		return true
	})
	slices.SortFunc(got, compareMessages)
	if !slices.Equal(got, want) {
		w.t.Fatalf("extract took %d events with %d cancelled, want %d", len(got), gone, len(want))
	}
	w.plain.list = kept
}

func (w *queueWorld) check() {
	if got, want := w.q.peek(), w.plain.peek(); got != want {
		w.t.Fatalf("peek %d, want %d", got, want)
	}
	if got, want := w.q.len(), len(w.plain.list)-len(w.plain.cancelled); got != want {
		w.t.Fatalf("len %d, want %d", got, want)
	}
	if end := w.q.dayEnd(); end <= w.q.peek() && w.q.peek() != sim.Never {
		w.t.Fatalf("the day of %d ends at %d", w.q.peek(), end)
	}
}

func drawWidest() *rapid.Generator[sim.Duration] {
	return rapid.SampledFrom([]sim.Duration{1, 2, 7, 1000, sim.Millisecond, sim.Second, sim.Hour, 365 * sim.Day, sim.Forever})
}

func TestQueueEqualsSortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &queueWorld{t: t, q: newQueue(drawWidest().Draw(t, "widest")), plain: plainQueue{cancelled: map[eventID]bool{}}}
		w.scale = rapid.SampledFrom([]sim.Duration{1, 50, sim.Microsecond, sim.Second, sim.Day, 50 * 365 * sim.Day}).Draw(t, "scale")
		if rapid.IntRange(0, 5).Draw(t, "start late") == 0 {
			w.floor = sim.Never - 1 - sim.Time(rapid.Int64Range(0, 1<<40).Draw(t, "before never"))
		}
		for range rapid.IntRange(20, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2:
				w.pushSome()
			case 9:
				w.extract()
			default:
				w.popOne()
			}
			w.check()
		}
		for {
			want, ok := w.plain.pop(sim.Never)
			got := w.q.pop(sim.Never)
			if (got != nil) != ok || ok && *got != want {
				t.Fatalf("at the end: pop gives %+v, want %+v %v", got, want, ok)
			}
			if !ok {
				break
			}
		}
		if w.q.n != 0 || len(w.q.cancelled) != 0 || w.q.peek() != sim.Never {
			t.Fatalf("the empty queue holds %d events, %d cancelled", w.q.n, len(w.q.cancelled))
		}
	})
}

// plainHeap is a binary heap, for numbers of events that a sorted slice is too slow for.
type plainHeap []sim.Message

func (h *plainHeap) push(m sim.Message) {
	*h = append(*h, m)
	l := *h
	for i := len(l) - 1; i > 0 && l[i].Before(&l[(i-1)/2]); i = (i - 1) / 2 {
		l[i], l[(i-1)/2] = l[(i-1)/2], l[i]
	}
}

func (h *plainHeap) pop() sim.Message {
	l := *h
	top := l[0]
	l[0] = l[len(l)-1]
	l = l[:len(l)-1]
	*h = l
	for i := 0; ; {
		c := 2*i + 1
		if c+1 < len(l) && l[c+1].Before(&l[c]) {
			c++
		}
		if c >= len(l) || !l[c].Before(&l[i]) {
			return top
		}
		l[i], l[c] = l[c], l[i]
		i = c
	}
}

// TestQueueReshapes makes crowds and droughts, so that the width of days changes both ways with many
// events on the way, and compares with a heap.
func TestQueueReshapes(t *testing.T) {
	widths, seeds := []sim.Duration{1, 1000, 100 * sim.Millisecond, sim.Hour, sim.Forever}, uint64(3)
	if testing.Short() {
		widths, seeds = []sim.Duration{1, 100 * sim.Millisecond}, 1
	}
	changed := 0
	for _, widest := range widths {
		shapes := map[uint]bool{}
		for seed := range seeds {
			t.Run(fmt.Sprint(widest, " seed ", seed), func(t *testing.T) { reshapeOnce(t, widest, seed, shapes) })
		}
		if len(shapes) > 1 {
			changed++
		}
	}
	if changed < len(widths)/2 {
		t.Errorf("the width of days changed for %d of %d widths", changed, len(widths))
	}
}

func reshapeOnce(t *testing.T, widest sim.Duration, seed uint64, shapes map[uint]bool) {
	q, h, r := newQueue(widest), &plainHeap{}, sim.NewRand(seed, 5)
	seq, now := uint64(0), sim.Time(0)
	push := func(at sim.Time) {
		seq++
		m := sim.Message{Time: at, Key: sim.MakeKey(sim.Priority(seq%5), sim.EntityID(seq%97+1)), Seq: seq << 16, Body: sim.Body{A: seq}}
		q.push(&m)
		h.push(m)
	}
	pop := func() {
		m := q.pop(sim.Never)
		want := h.pop()
		if m == nil || *m != want {
			t.Fatalf("pop gives %+v, want %+v", m, want)
		}
		now = m.Time
		shapes[q.shift] = true
	}
	for phase := range 2 {
		// First a crowd within one day to come, then one at random.
		base, spread := q.endOf(now).Add(2<<q.shift), max(sim.Duration(1)<<q.shift/2, 1)
		crowd := 20_000
		if phase == 0 && widest >= 100*sim.Millisecond {
			crowd = 9 * bucketTarget // makes days shorter
		}
		if phase > 0 {
			base, spread = now, []sim.Duration{1, 100, sim.Microsecond, sim.Millisecond, sim.Second, 100 * sim.Day}[r.IntN(6)]
		}
		for range crowd {
			push(base.Add(sim.Duration(r.IntN(int64(spread)))))
		}
		for range crowd / 2 {
			pop()
			if r.Bernoulli(0.7) {
				push(now.Add(r.ExpDuration(spread)))
			}
		}
		for len(*h) > 10 {
			pop()
		}
	}
	for len(*h) > 0 {
		pop()
	}
	if q.pop(sim.Never) != nil || q.n != 0 {
		t.Fatalf("%d events left over", q.n)
	}
}

// TestQueueFarEventsStayCheap counts how often events are moved where days are tiny against the
// distance between events: a bound on the work of a pop that does not grow with what is pending.
func TestQueueFarEventsStayCheap(t *testing.T) {
	q, r := newQueue(1), sim.NewRand(1, 1)
	const pending = 20_000
	for i := range uint64(pending) {
		q.push(&sim.Message{Time: sim.Time(r.ExpDuration(sim.Second)), Key: i + 1, Seq: 1 << 16})
	}
	q.moved = 0
	const pops = 20_000
	for i := range uint64(pops) {
		m := *q.pop(sim.Never)
		q.push(&sim.Message{Time: m.Time.Add(r.ExpDuration(sim.Second)), Key: i + 1, Seq: 2 << 16})
	}
	if per := float64(q.moved) / pops; per > 50 {
		t.Errorf("%.0f events are moved for each that runs", per)
	}
}

// hold fills a queue as PHOLD does and keeps it going until its shape is settled.
func hold(q *queue, pending, pops int) {
	r := sim.NewRand(3, 3)
	for i := range uint64(pending) {
		q.push(&sim.Message{Time: sim.Time(r.ExpDuration(sim.Second)), Key: i + 1, Seq: 1 << 16})
	}
	for range pops {
		m := *q.pop(sim.Never)
		m.Time = m.Time.Add(100*sim.Millisecond + r.ExpDuration(900*sim.Millisecond))
		m.Seq += 1 << 16
		q.push(&m)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestQueueBytesPerEvent(t *testing.T) {
	if testing.Short() {
		t.Skip("a million events")
	}
	const pending = 1_000_000
	before := heapInUse()
	q := newQueue(100 * sim.Millisecond)
	hold(q, pending, 2*pending)
	used := int(heapInUse() - before)
	t.Logf("%.1f bytes per pending event by its own count, %.1f by the runtime's", float64(q.bytes())/pending, float64(used)/pending)
	if used > 120*pending || q.bytes() > 120*pending {
		t.Errorf("%d bytes by its own count, %d by the runtime's, for %d events: more than 120 each", q.bytes(), used, pending)
	}
	if d := math.Abs(float64(used - q.bytes())); d > 0.1*float64(used) {
		t.Errorf("bytes says %d, the runtime %d", q.bytes(), used)
	}
	runtime.KeepAlive(q)
}

func TestQueueAllocatesNothingInSteadyState(t *testing.T) {
	q := newQueue(100 * sim.Millisecond)
	hold(q, 20_000, 400_000)
	r := sim.NewRand(4, 4)
	const pops = 100_000
	per := testing.AllocsPerRun(1, func() {
		for range pops {
			m := *q.pop(sim.Never)
			m.Time = m.Time.Add(100*sim.Millisecond + r.ExpDuration(900*sim.Millisecond))
			m.Seq += 1 << 16
			q.push(&m)
		}
	}) / pops
	if per > 0.001 {
		t.Errorf("%.4f allocations per event", per)
	}
}

// TestEntityOverhead measures what the engine keeps for each of a million entities, beside their
// states: what it holds more than for a thousand.
func TestEntityOverhead(t *testing.T) {
	if testing.Short() {
		t.Skip("a million entities")
	}
	square := sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Max: sim.Vec{X: 1000, Y: 1000}}}
	const few, many = 1000, 1_001_000
	for _, space := range []sim.Space{{}, square} {
		for _, regions := range []int{1, 2} {
			per := float64(heldBy(t, many, space, regions)-heldBy(t, few, space, regions)) / (many - few)
			t.Logf("space %d, %d regions: %.1f bytes per entity", space.Kind, regions, per)
			if per > 100 {
				t.Errorf("space %d, %d regions: %.1f bytes per entity beside its state, more than 100", space.Kind, regions, per)
			}
		}
	}
}

// heldBy returns how many bytes an engine with so many entities holds, without their states.
func heldBy(t *testing.T, entities int, space sim.Space, regions int) int {
	type state struct{ N uint64 }
	before := heapInUse()
	m := sim.Define(sim.Model{Name: "many"}, func(b *sim.Builder, _ *struct{}) error {
		b.SetSpace(space)
		b.SetLimits(sim.Limits{Lookahead: sim.Second, Range: 1, Speed: 1})
		k := sim.DefineKind[state](b, "one", "")
		for i := range entities {
			sim.Add(k, sim.Vec{X: float64(i % 1000), Y: float64(i/1000) * 0.9}, state{1})
		}
		return nil
	})
	p, err := sim.NewProgram(m, &struct{}{}, sim.Space{}, 1, sim.Time(sim.Second))
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(context.Background(), p, Options{Regions: regions, Workers: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	held := int(heapInUse()-before) - 8*entities
	runtime.KeepAlive(w)
	runtime.KeepAlive(p)
	return held
}

// len returns how many events are pending.
func (q *queue) len() int { return q.n - len(q.cancelled) }
