package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/simnode/simnode/sim"
)

// Capture is a checkpoint under way: the state of the regions of this process at a cut, which is written while
// they run on. An entity that is about to change is saved first; the others are saved bit by bit, between turns
// of their region.
//
// Next and Write are for one goroutine; Keep and Abandon for the one that calls the Part, or after Write.
type Capture struct {
	crew   *crew
	number uint64
	at     sim.Time
	shares []*share
	// current is the share being written: first the events of all of them, so that their queues are free again
	// soon, then the rest of one after the other.
	current int
	ended   bool
	// pauses are for how long regions were kept from running.
	pauses []time.Duration
	// sink says why the state of the sink could not be kept; final, that the run is over already.
	sink  error
	final bool
}

// share is a region's share of a capture.
type share struct {
	r     *region
	phase phase
	queue *frozenQueue
	// bucket is the next one of the frozen queue; the last is the late events.
	bucket int
	blobs  [][]byte
	taken  slotSet
	used   uint32

	counts   counts
	waiting  []publication
	remnants []remnant
	orphans  []sim.Time
	entities int
	buf      []byte
	info     CapturedRegion
}

type phase int

const (
	eventsPhase phase = iota
	entitiesPhase
	restPhase
)

// CapturedRegion describes a region in a checkpoint.
type CapturedRegion struct {
	Region int
	// Base is the oldest checkpoint whose increment is needed.
	Base uint64
	// Entities that exist and events that are pending.
	Entities, Events uint64
	// Digest of the region's state: those of all regions add up to that of the run at this time.
	Digest uint64
}

// Put takes a chunk of a region; the data may be kept.
type Put func(region int, kind byte, data []byte) error

// sliceEntities and sliceEvents are how many are saved at a time: about a tenth of a millisecond.
const (
	sliceEntities = 256
	sliceBuckets  = 64
)

// follow begins to take note of changes, which a first capture needs.
func (w *world) follow() {
	for _, r := range w.local() {
		r.track = new(tracker)
		r.grow(r.ents.used)
		if r.view != nil {
			r.view.before = r.beforeShown
		}
	}
}

// capture begins checkpoint n of the state at time t, below which every event has run, while no region runs.
func (c *crew) capture(n uint64, t sim.Time) (*Capture, error) {
	if c.captured != nil {
		return nil, fmt.Errorf("engine fault: checkpoint %d at %v while %d is being written", n, t, c.captured.number)
	}
	k := &Capture{crew: c, number: n, at: t}
	for i, r := range c.own {
		if r.track == nil {
			return nil, errors.New("engine fault: a checkpoint of a run that takes none")
		}
		begun := time.Now()
		s := r.freeze(n)
		k.pauses = append(k.pauses, time.Since(begun))
		if i == 0 {
			s.counts.add(c.w.past)
		}
		k.shares = append(k.shares, s)
	}
	c.captured = k
	return k, nil
}

// freeze begins a region's share of checkpoint n.
func (r *region) freeze(n uint64) *share {
	t := r.track
	r.flip(n)
	s := &share{
		r: r, queue: r.queue.freeze(), blobs: slices.Clone(r.blobs.data), taken: t.taken, used: r.ents.used,
		counts:   counts{r.events, r.dropped, r.gone, r.stopAsked},
		entities: r.ents.len(),
	}
	s.info = CapturedRegion{Region: r.id, Base: t.base, Entities: uint64(s.entities), Events: uint64(s.queue.n)}
	if r.view != nil {
		r.freezeView(s)
	}
	return s
}

// freezeView keeps the publications of the region's entities that are not visible yet, and what is still seen of
// entities that are gone. Those of other regions' entities are theirs to keep.
func (r *region) freezeView(s *share) {
	gone := map[sim.EntityID]bool{} // looked up, never iterated
	for i := range r.view.pending {
		if p := &r.view.pending[i]; p.final {
			gone[p.id] = true
			s.remnants = append(s.remnants, r.remnant(p.id))
		}
	}
	for i := range r.view.pending {
		p := &r.view.pending[i]
		if gone[p.id] || r.world.dir.find(p.id).region() == r.id {
			s.waiting = append(s.waiting, *p)
		}
	}
}

func (r *region) remnant(id sim.EntityID) remnant {
	m := remnant{id: id}
	if i := r.view.known[id]; i > 0 {
		m.visible, m.seen = true, r.view.seen[i-1]
	}
	return m
}

// beforeShown is called before what is seen of an entity changes: for its own region that is a change like any
// other, since what is seen stands with the entity.
func (r *region) beforeShown(id sim.EntityID) {
	if at := r.world.dir.find(id); at != nowhere && at.region() == r.id && at.slot() < r.ents.used {
		r.touch(at.slot())
	}
}

// Number of the checkpoint.
func (k *Capture) Number() uint64 { return k.number }

// At is its simulated time.
func (k *Capture) At() sim.Time { return k.at }

// Base is the oldest checkpoint whose increment this one needs.
func (k *Capture) Base() uint64 {
	base := k.number
	for _, s := range k.shares {
		base = min(base, s.info.Base)
	}
	return base
}

// Pauses lists for how long a region was kept from running at a time, for the benchmark: at the cut, and for each
// few entities that were saved.
func (k *Capture) Pauses() []time.Duration { return k.pauses }

// Write writes the checkpoint and returns what it holds, region by region.
func (k *Capture) Write(put Put) ([]CapturedRegion, error) {
	for {
		more, err := k.Next(put)
		if err != nil {
			return nil, err
		}
		if !more {
			return k.Regions(), nil
		}
	}
}

// Regions describes what was written, after the end of Write.
func (k *Capture) Regions() (list []CapturedRegion) {
	for _, s := range k.shares {
		list = append(list, s.info)
	}
	return list
}

// Next writes a little more and reports whether there is more to write.
func (k *Capture) Next(put Put) (more bool, err error) {
	if err := k.hindered(); err != nil {
		return false, err
	}
	if k.current == len(k.shares) {
		return false, nil
	}
	s := k.shares[k.current]
	switch s.phase {
	case eventsPhase:
		if err = s.writeEvents(put); s.phase != eventsPhase {
			k.thaw(s)
			k.current = (k.current + 1) % len(k.shares)
		}
	case entitiesPhase:
		err = k.writeEntities(s, put)
	case restPhase:
		if err = s.writeRest(put); err == nil {
			k.current++
		}
	}
	if err != nil {
		return false, err
	}
	return k.current < len(k.shares), nil
}

// hindered says why the checkpoint cannot be written.
func (k *Capture) hindered() error {
	k.crew.mu.Lock()
	defer k.crew.mu.Unlock()
	switch {
	case k.sink != nil:
		return k.sink
	case k.ended, k.crew.over && !k.final && !k.crew.patient:
		return errOver
	}
	return nil
}

// writeEvents writes the pending events of a few buckets. It needs no lock: what is frozen does not change.
func (s *share) writeEvents(put Put) error {
	var err error
	take := func(m *sim.Message) bool {
		slot := place(m.Dst).slot()
		if slot >= s.used {
			s.orphans = append(s.orphans, m.Time)
			return true
		}
		if !s.taken.has(slot) {
			return true
		}
		var blob []byte
		if len(s.blobs) > 0 && s.r.isLarge(m) {
			blob = s.blobs[m.Body.A]
		}
		s.buf = appendMessage(s.buf, m, blob, s.queue.isCancelled(m))
		if len(s.buf) >= chunkSize {
			err = put(s.r.id, ChunkEvents, s.buf)
			s.buf = nil
		}
		return err == nil
	}
	f := s.queue
	for range sliceBuckets {
		if s.bucket >= len(f.buckets) || !f.buckets[s.bucket].each(take) {
			break
		}
		s.bucket++
	}
	if err != nil || s.bucket < len(f.buckets) {
		return err
	}
	for i := range f.late {
		if !take(&f.late[i]) {
			return err
		}
	}
	if len(s.buf) > 0 {
		err, s.buf = put(s.r.id, ChunkEvents, s.buf), nil
	}
	s.queue, s.blobs, s.phase = nil, nil, entitiesPhase
	return err
}

// writeEntities writes what was saved of a region's entities, and saves some more of them while no worker runs
// the region.
func (k *Capture) writeEntities(s *share, put Put) error {
	c := k.crew
	c.take(s.r.id)
	begun := time.Now()
	more, err := s.slice()
	k.pauses = append(k.pauses, time.Since(begun))
	chunks := s.r.track.harvest(!more)
	s.info.Digest = s.r.track.sum + s.counts.gone
	c.giveBack(s.r.id)
	if !more {
		s.phase = restPhase
	}
	for _, data := range chunks {
		if err == nil {
			err = put(s.r.id, ChunkEntities, data)
		}
	}
	return err
}

// thaw lets the queue of a region use its chunks again.
func (k *Capture) thaw(s *share) {
	k.crew.take(s.r.id)
	s.r.queue.thaw()
	k.crew.giveBack(s.r.id)
}

// slice saves a few entities.
func (s *share) slice() (more bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a state in region %d could not be encoded: %v", s.r.id, v)
		}
	}()
	return s.r.sweep(sliceEntities), nil
}

// writeRest writes what is not entities and events.
func (s *share) writeRest(put Put) error {
	var err error
	buf := s.counts.append(nil)
	full := func() {
		if len(buf) >= chunkSize && err == nil {
			err, buf = put(s.r.id, ChunkRegion, buf), nil
		}
	}
	// Remnants first: what an entity shows now comes before what it will.
	for i := range s.remnants {
		buf = s.remnants[i].append(buf)
		full()
	}
	for i := range s.waiting {
		buf = appendPublication(append(buf, savedWaiting), &s.waiting[i])
		full()
	}
	for _, t := range s.orphans {
		buf = le.AppendUint64(append(buf, savedOrphan), uint64(t))
		full()
	}
	if len(buf) > 0 && err == nil {
		err = put(s.r.id, ChunkRegion, buf)
	}
	return err
}

// take waits until no worker runs region i and keeps workers from it.
func (c *crew) take(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted[i] = true
	c.wants++
	for c.busy[i] || c.barred {
		c.sleep()
	}
	c.wanted[i] = false
	c.wants--
	c.busy[i] = true
	c.slicing++
}

func (c *crew) giveBack(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[i] = false
	c.slicing--
	c.changed()
}

// Keep ends a checkpoint that was committed.
func (k *Capture) Keep() { k.end((*region).keep) }

// Abandon ends a checkpoint that was given up: the next one writes what this one should have.
func (k *Capture) Abandon() { k.end((*region).abandon) }

func (k *Capture) end(how func(*region)) {
	c := k.crew
	for _, s := range k.shares {
		c.take(s.r.id)
		if !k.ended {
			how(s.r)
			s.r.queue.thaw()
		}
		c.giveBack(s.r.id)
	}
	k.ended = true
	c.mu.Lock()
	c.captured = nil
	c.mu.Unlock()
}
