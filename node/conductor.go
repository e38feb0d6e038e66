package node

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

const (
	// turnTime is how long a turn of a region should at least take where others wait for its reports:
	// long against the cost of a report, short against a lookahead's worth of events.
	turnTime = 20 * time.Microsecond
	// fewest and most bound the events of a turn; nobody waits for a lone region's reports.
	fewest, most = 16, 4096
	loneTurn     = 1 << 15
	// fullObservations is how many observations wake whoever hands them to the sink; workers wait at
	// four times as many.
	fullObservations = 1 << 16
	// spins is how often a worker without work looks again before it sleeps.
	spins = 20000
)

// conductor shares the regions out to workers under grants. Everything in it is guarded by mu, but for
// a region while a worker runs it.
type conductor struct {
	w      *world
	mu     sync.Mutex
	wake   *sync.Cond
	solver *lbts.Solver

	workers int
	// spin says that every worker has a processor, so that one that waits may stay awake.
	spin    bool
	busy    []bool
	running int
	// inbox holds the batches sent to a region that it has not taken in.
	inbox [][]*outbox
	// taken holds the inbox that each region took in last, for its room.
	taken [][]*outbox
	spare []*outbox
	needs []lbts.Need
	// cap is the time of the next cut, or the end; no event at it or later runs.
	cap sim.Time
	// stopAt is the next time at which entities may end the run; stopped says that they did.
	stopAt  sim.Time
	stopped bool
	// version counts changes that may give a waiting worker something to do.
	version atomic.Uint64
	waiting int

	// halting says that the run is to end before its end; halted, that cap is the time at which.
	halting, halted bool

	over     bool
	finished chan struct{}
	failure  *Failure
	// fault is an error of the engine itself or of the sink.
	fault error

	pending  []pendingObs
	npending int
	full     chan struct{}
	collect  collector

	// turns counts how often a worker took a region.
	turns          int
	cuts, migrated int
}

// pendingObs is what a region observed, not yet taken by the collector.
type pendingObs struct {
	region int
	obs    []sim.Observation
}

func newConductor(w *world, o Options) (*conductor, error) {
	s, err := w.solver()
	if err != nil {
		return nil, err
	}
	c := &conductor{
		w: w, solver: s, workers: o.Workers, spin: runtime.GOMAXPROCS(0) >= o.Workers, busy: make([]bool, w.regions),
		inbox: make([][]*outbox, w.regions), taken: make([][]*outbox, w.regions), cap: w.prog.End,
		finished: make(chan struct{}), full: make(chan struct{}, 1),
	}
	c.wake = sync.NewCond(&c.mu)
	c.collect.waiting = make([][]sim.Observation, w.regions)
	c.collect.heads = make([]int, w.regions)
	c.setCut(0)
	return c, c.reopen(0)
}

// setCut sets the cut after one at time t.
func (c *conductor) setCut(t sim.Time) {
	c.cap = c.w.prog.End
	if c.w.regions > 1 {
		c.cap = min(c.cap, t.Add(c.w.cutEvery))
	}
	c.stopAt = sim.Never
	if every := c.w.prog.StopEvery; every > 0 {
		c.stopAt = (t - t%sim.Time(every)).Add(every)
		c.cap = min(c.cap, c.stopAt)
	}
	c.solver.Cap(c.cap)
}

// stopAsked reports whether an entity has asked for the end of the run.
func (c *conductor) stopAsked() bool {
	for _, r := range c.w.rs {
		if r.stopAsked {
			return true
		}
	}
	return false
}

// work is a worker: it runs until the run is over. It reports whether it did: a handler may end its
// goroutine.
func (c *conductor) work(id int, done *bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.over {
		if c.npending > 4*fullObservations {
			c.notifyFull()
			c.sleep()
			continue
		}
		if c.halting && !c.halted && c.running == 0 {
			c.setHalt()
		}
		if i, bound := c.choose(id); i >= 0 {
			c.turn(i, bound)
			continue
		}
		if c.running > 0 {
			c.wait()
			continue
		}
		c.advance()
	}
	*done = true
}

// employ runs a worker, and another in its place if a handler ends its goroutine.
func (c *conductor) employ(workers *sync.WaitGroup, id int) {
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
func (c *conductor) turn(i int, bound sim.Time) {
	r := c.w.rs[i]
	in := c.inbox[i]
	c.inbox[i] = c.taken[i][:0]
	c.busy[i] = true
	c.running++
	c.turns++
	c.mu.Unlock()
	// Deferred, since a handler may end the goroutine.
	defer func() {
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
	r.busy += int64(time.Since(start))
}

// budget returns how many events a turn of r should at least handle, by what its events have cost so
// far. It affects speed only.
func (c *conductor) budget(r *region) uint64 {
	if c.w.regions == 1 {
		return loneTurn
	}
	each := r.busy/int64(r.events+1) + 1
	return uint64(min(max(int64(turnTime)/each, fewest), most))
}

// settle puts what region r sent where its receivers find it, and reports.
func (c *conductor) settle(r *region) {
	for j := range r.out {
		o := r.out[j]
		if o == nil || len(o.msgs)+len(o.pubs) == 0 {
			continue
		}
		if len(o.msgs) > 0 {
			c.check(c.solver.Deliver(r.id, j, o.least))
		}
		c.inbox[j] = append(c.inbox[j], o)
		r.out[j] = c.newOutbox()
	}
	next := r.next()
	for _, o := range c.inbox[r.id] {
		next = min(next, o.least)
	}
	if r.failure != nil {
		next = min(next, r.failure.Time)
		if c.failure == nil || r.failure.before(c.failure) {
			c.failure = r.failure
		}
	}
	c.check(c.solver.Report(lbts.Report{Region: r.id, Next: next}))
	if obs := r.obs.hand(); len(obs) > 0 {
		c.pending = append(c.pending, pendingObs{r.id, obs})
		if c.npending += len(obs); c.npending > fullObservations {
			c.notifyFull()
		}
	}
}

// check ends the run if the engine broke its own rules.
func (c *conductor) check(err error) {
	if err != nil {
		c.end(fmt.Errorf("engine fault: %w; please report it", err))
	}
}

func (c *conductor) newOutbox() *outbox {
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
func (c *conductor) choose(id int) (int, sim.Time) {
	if c.halting && !c.halted {
		return -1, 0
	}
	best, bestBound, bestRank, bestNext := -1, sim.Time(0), 0, sim.Never
	for i, r := range c.w.rs {
		if c.busy[i] || r.failure != nil && r.stopped() {
			continue
		}
		next := c.solver.Effective(i)
		if next >= c.cap || c.failure != nil && next > c.failure.Time {
			continue
		}
		g := c.solver.Grant(i, c.needs[:0])
		bound := min(g.Bound, c.cap)
		if c.failure != nil {
			bound = min(bound, c.failure.Time.Add(1))
		}
		if next >= bound {
			continue
		}
		rank := c.rank(i, id, bound, min(r.queue.endOf(next), c.cap))
		if rank > bestRank || rank == bestRank && rank > 0 && next < bestNext {
			best, bestBound, bestRank, bestNext = i, bound, rank, next
		}
	}
	return best, bestBound
}

// rank says how much worker id should like to run region i: 0 not at all.
func (c *conductor) rank(i, id int, bound, whole sim.Time) int {
	mine := 0
	if i%c.workers == id {
		mine = 1
	}
	switch {
	case bound >= whole:
		return 2 + mine
	case c.running == 0:
		return 1
	}
	return 0
}

// advance goes on where no region can run: past a cut, or to the end.
func (c *conductor) advance() {
	floor := c.solver.Floor()
	switch {
	case c.failure != nil:
		c.end(nil)
	case floor < c.cap:
		c.end(fmt.Errorf("engine fault: no region can go on below %v: %s; please report it", c.cap, c.solver.Describe()))
	case c.stopAt <= floor && c.stopAt < c.w.prog.End && c.stopAsked():
		c.stopped = true
		c.end(nil)
	case c.halted || c.cap >= c.w.prog.End || floor >= c.w.prog.End:
		c.end(nil)
	default:
		c.cut(floor)
	}
}

// end ends the run.
func (c *conductor) end(fault error) {
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
func (c *conductor) stop() {
	c.mu.Lock()
	c.end(nil)
	c.mu.Unlock()
}

// halt lets the run end early, at one time everywhere.
func (c *conductor) halt() {
	c.mu.Lock()
	c.halting = true
	c.changed()
	c.mu.Unlock()
}

// setHalt bounds the run by the time that the region farthest ahead has reached. The others catch up
// with it, so that states, statistics and records all tell of the same time.
func (c *conductor) setHalt() {
	reached := sim.Time(0)
	for _, r := range c.w.rs {
		reached = max(reached, r.now)
	}
	c.cap = min(c.cap, reached.Add(1))
	c.halted = true
}

// changed lets waiting workers look again.
func (c *conductor) changed() {
	c.version.Add(1)
	if c.waiting > 0 {
		c.wake.Broadcast()
	}
}

// wait waits for a change: first awake, since it comes soon if others work, then asleep.
func (c *conductor) wait() {
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

func (c *conductor) sleep() {
	c.waiting++
	c.wake.Wait()
	c.waiting--
}

func (c *conductor) notifyFull() {
	select {
	case c.full <- struct{}{}:
	default:
	}
}

// deliver hands the sink all observations that can no longer be preceded.
func (c *conductor) deliver() error {
	c.mu.Lock()
	floor := min(c.solver.Floor(), c.w.prog.End)
	pending := c.pending
	c.pending, c.npending = nil, 0
	c.changed()
	c.mu.Unlock()
	if c.w.sink == nil {
		return nil
	}
	for _, p := range pending {
		c.collect.add(p.region, p.obs)
	}
	if obs := c.collect.take(floor); len(obs) > 0 {
		return c.w.sink.Observe(obs)
	}
	return nil
}

func (c *conductor) progress() Progress {
	c.mu.Lock()
	p := Progress{Now: min(c.solver.Floor(), c.w.prog.End), End: c.w.prog.End}
	c.mu.Unlock()
	for _, r := range c.w.rs {
		p.Events += r.shownEvents.Load()
	}
	return p
}
