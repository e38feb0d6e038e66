package node

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/simnode/simnode/sim"
)

const (
	// turnTime is how long a turn of a region should at least take where others wait for its reports:
	// long against the cost of a report, short against a lookahead's worth of events.
	turnTime = 20 * time.Microsecond
	// fewest and most bound the events of a turn; nobody waits for a lone region's reports.
	fewest, most = 16, 4096
	loneTurn     = 1 << 15
	// capturingTurn is how many events a turn handles while entities of the region wait to be saved.
	capturingTurn = 1 << 11
	// fullObservations is how many observations wake whoever hands them on; workers wait at four times
	// as many.
	fullObservations = 1 << 16
	// spins is how often a worker without work looks again before it sleeps.
	spins = 20000
)

// pace tells a crew how far regions may run: a solver in the same process, or grants that come from a
// coordinator. It is called with the crew's lock held.
type pace interface {
	// effective is the time of the first event that region i has or may be sent without its knowing.
	effective(i int) sim.Time
	// bound is the time below which region i may run.
	bound(i int) sim.Time
	// settled takes in what a region did in a turn: what it sent, and the time of its next event. Batches
	// for regions of this process have been put into their inboxes.
	settled(r *region, next sim.Time)
	// delivered says that a batch was put into the inbox of region to.
	delivered(from, to int, least sim.Time)
	// idle is called where no region can run and none is running; it reports whether the worker should
	// wait for a change.
	idle() bool
	// eager reports whether a region should be run up to a bound inside a bucket, where nothing else can
	// be run.
	eager(r *region) bool
	// held is called while the crew is held and no region is running.
	held()
}

// crew shares regions out to workers. Everything in it is guarded by mu, but for a region while a worker
// runs it.
type crew struct {
	w    *world
	mu   sync.Mutex
	wake *sync.Cond
	pace pace

	// own are the regions of this process.
	own     []*region
	workers int
	// spin says that every worker has a processor, so that one that waits may stay awake.
	spin    bool
	busy    []bool
	running int
	// captured is the checkpoint being written. It saves entities of a region in slices, of which slicing are
	// under way; wants of them wait for their region, which is wanted and not given to workers. While barred,
	// none begins.
	captured       *Capture
	wanted         []bool
	wants, slicing int
	barred         bool
	// patient lets a checkpoint be written to its end though the run is over: a seam for tests.
	patient bool
	// inbox holds the batches sent to a region that it has not taken in.
	inbox [][]*outbox
	// taken holds the inbox that each region took in last, for its room.
	taken [][]*outbox
	spare []*outbox
	// version counts changes that may give a waiting worker something to do.
	version atomic.Uint64
	waiting int
	// hold keeps regions from being taken.
	hold bool
	// cap is the time of the next cut, or the end: running up to it is worth as much as running to the end
	// of a bucket.
	cap sim.Time

	over     bool
	finished chan struct{}
	failure  *Failure
	// fault is an error of the engine itself or of the sink.
	fault error

	pending  []pendingObs
	npending int
	full     chan struct{}

	// turns counts how often a worker took a region.
	turns int
	// turnEvents, if not 0, is how many events a turn handles at least, whatever they cost.
	turnEvents uint64
}

// pendingObs is what a region observed, not yet taken by the collector.
type pendingObs struct {
	region int
	obs    []sim.Observation
}

func newCrew(w *world, workers int, p pace) *crew {
	c := &crew{
		w: w, pace: p, own: w.local(), workers: workers, spin: runtime.GOMAXPROCS(0) >= workers,
		busy: make([]bool, w.regions), wanted: make([]bool, w.regions), inbox: make([][]*outbox, w.regions), taken: make([][]*outbox, w.regions),
		finished: make(chan struct{}), full: make(chan struct{}, 1),
	}
	c.wake = sync.NewCond(&c.mu)
	return c
}

// work is a worker: it runs until the run is over. It reports whether it did: a handler may end its
// goroutine.
func (c *crew) work(id int, done *bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.over {
		if c.npending > 4*fullObservations {
			c.notifyFull()
			c.sleep()
			continue
		}
		if c.hold && c.running == 0 {
			c.pace.held()
		}
		if i, bound := c.choose(id); i >= 0 {
			c.turn(i, bound)
			continue
		}
		if c.running+c.slicing+c.wants > 0 || c.pace.idle() {
			c.wait()
		}
	}
	*done = true
}

// employ runs a worker, and another in its place if a handler ends its goroutine.
func (c *crew) employ(workers *sync.WaitGroup, id int) {
	workers.Go(func() {
		done := false
		defer func() {
			if !done {
				c.employ(workers, id)
			}
		}()
		c.work(id, &done)
	})
}

// turn runs region i below bound and reports for it.
func (c *crew) turn(i int, bound sim.Time) {
	r := c.w.rs[i]
	in := c.inbox[i]
	c.inbox[i] = c.taken[i][:0]
	c.busy[i] = true
	c.running++
	c.turns++
	c.mu.Unlock()
	// Deferred, since a handler may end the goroutine.
	defer func() {
		r.seal()
		c.mu.Lock()
		c.running--
		c.busy[i] = false
		c.spare = append(c.spare, in...)
		c.taken[i] = in
		c.settle(r)
		c.changed()
	}()

	start := time.Now()
	r.takeIn(in)
	r.run(bound, c.budget(r))
	if r.view != nil {
		r.view.advance(r.now)
	}
	if c.turnEvents == 0 {
		r.busy += int64(time.Since(start))
	}
}

// budget returns how many events a turn of r should at least handle, by what its events have cost so
// far. It affects speed only.
func (c *crew) budget(r *region) uint64 {
	switch {
	case c.turnEvents > 0:
		return c.turnEvents
	case r.due != nil:
		return capturingTurn
	case c.w.regions == 1:
		return loneTurn
	}
	each := r.busy/int64(r.events+1) + 1
	return uint64(min(max(int64(turnTime)/each, fewest), most))
}

// settle puts what region r sent where its receivers find it, and reports.
func (c *crew) settle(r *region) {
	for j := range r.out {
		o := r.out[j]
		if o == nil || len(o.msgs)+len(o.pubs) == 0 {
			continue
		}
		if len(o.msgs) > 0 {
			c.pace.delivered(r.id, j, o.least)
		}
		c.inbox[j] = append(c.inbox[j], o)
		r.out[j] = c.newOutbox()
	}
	next := r.next()
	for _, o := range c.inbox[r.id] {
		next = min(next, o.least)
	}
	if r.failure != nil && (c.failure == nil || r.failure.before(c.failure)) {
		c.failure = r.failure
	}
	c.pace.settled(r, next)
	if obs := r.obs.hand(); len(obs) > 0 {
		c.pending = append(c.pending, pendingObs{r.id, obs})
		if c.npending += len(obs); c.npending > fullObservations {
			c.notifyFull()
		}
	}
}

func (c *crew) newOutbox() *outbox {
	if n := len(c.spare); n > 0 {
		o := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return o
	}
	return newOutbox()
}

// choose returns the region that worker id should run and its bound, or -1. A region is worth running
// if its grant covers the whole bucket that its next event lies in; if there is none and nobody works,
// one that can run at all will do. Among those the worker takes one of its own if it can, and of these
// the one that is farthest behind.
func (c *crew) choose(id int) (int, sim.Time) {
	if c.hold {
		return -1, 0
	}
	best, bestBound, bestRank, bestNext := -1, sim.Time(0), 0, sim.Never
	for k, r := range c.own {
		i := r.id
		if c.busy[i] || c.wanted[i] || r.failure != nil && r.stopped() {
			continue
		}
		next := c.pace.effective(i)
		if c.failure != nil && next > c.failure.Time {
			continue
		}
		bound := c.pace.bound(i)
		if c.failure != nil {
			bound = min(bound, c.failure.Time.Add(1))
		}
		if next >= bound {
			continue
		}
		rank := c.rank(r, k%c.workers == id, bound, r.queue.endOf(next))
		if rank > bestRank || rank == bestRank && rank > 0 && next < bestNext {
			best, bestBound, bestRank, bestNext = i, bound, rank, next
		}
	}
	return best, bestBound
}

// rank says how much a worker should like to run a region: 0 not at all. whole is the end of the bucket
// of its next event.
func (c *crew) rank(r *region, mine bool, bound, whole sim.Time) int {
	switch {
	case bound >= min(whole, c.cap) && mine:
		return 3
	case bound >= min(whole, c.cap):
		return 2
	case c.running == 0 && c.pace.eager(r):
		return 1
	}
	return 0
}

// end ends the run.
func (c *crew) end(fault error) {
	if c.fault == nil {
		c.fault = fault
	}
	if !c.over {
		c.over = true
		close(c.finished)
	}
	c.changed()
}

// stop ends the run from outside.
func (c *crew) stop() {
	c.mu.Lock()
	c.end(nil)
	c.mu.Unlock()
}

// changed lets waiting workers look again.
func (c *crew) changed() {
	c.version.Add(1)
	if c.waiting > 0 {
		c.wake.Broadcast()
	}
}

// wait waits for a change: first awake, since it comes soon if others work, then asleep.
func (c *crew) wait() {
	seen := c.version.Load()
	if c.spin {
		c.mu.Unlock()
		for range spins {
			if c.version.Load() != seen {
				break
			}
			runtime.Gosched()
		}
		c.mu.Lock()
	}
	if c.version.Load() == seen {
		c.sleep()
	}
}

func (c *crew) sleep() {
	c.waiting++
	c.wake.Wait()
	c.waiting--
}

func (c *crew) notifyFull() {
	select {
	case c.full <- struct{}{}:
	default:
	}
}
