package node

import (
	"fmt"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// conductor runs a program in one process: it paces the crew by a solver of its own and makes the cuts.
type conductor struct {
	*crew
	solver *lbts.Solver
	needs  []lbts.Need

	// stopAt is the next time at which entities may end the run; stopped says that they did.
	stopAt  sim.Time
	stopped bool
	// halted says that the run is to end before its end, at cap.
	halted bool

	// saver takes checkpoints; nil if none are taken. reshaped is the time of the last cut at which entities
	// changed hands.
	saver    *saver
	reshaped sim.Time

	collect        collector
	cuts, migrated int
}

// newConductor returns what runs a world from time t on.
func newConductor(w *world, o Options, t sim.Time) (*conductor, error) {
	s, err := w.solver()
	if err != nil {
		return nil, err
	}
	c := &conductor{solver: s, saver: newSaver(o.Checkpoints, t), reshaped: t}
	c.crew = newCrew(w, o.Workers, c)
	if c.saver != nil {
		w.follow()
	}
	c.setCut(t)
	if t == 0 {
		return c, c.reopen(0)
	}
	w.reshape(t)
	held := make([]sim.Time, len(w.rs))
	for i := range held {
		held[i] = t
	}
	return c, c.solver.Resume(held, c.nexts())
}

// effective implements pace.
func (c *conductor) effective(i int) sim.Time { return c.solver.Effective(i) }

// bound implements pace.
func (c *conductor) bound(i int) sim.Time {
	return min(c.solver.Grant(i, c.needs[:0]).Bound, c.cap)
}

// delivered implements pace.
func (c *conductor) delivered(from, to int, least sim.Time) {
	c.check(c.solver.Deliver(from, to, least))
}

// settled implements pace.
func (c *conductor) settled(r *region, next sim.Time) {
	if r.failure != nil {
		next = min(next, r.failure.Time)
	}
	c.check(c.solver.Report(lbts.Report{Region: r.id, Next: next}))
}

// eager implements pace: no better bound comes unless a region is run.
func (c *conductor) eager(*region) bool { return true }

// held implements pace: no region runs, so that the end of a halted run can be set, or the cut for a checkpoint.
func (c *conductor) held() {
	c.capHere()
	c.hold = false
}

// setCut sets the cut after one at time t.
func (c *conductor) setCut(t sim.Time) {
	c.cap = c.w.prog.End
	if c.w.regions > 1 {
		c.cap = min(c.cap, c.reshaped.Add(c.w.cutEvery))
	}
	c.stopAt = sim.Never
	if every := c.w.prog.StopEvery; every > 0 {
		c.stopAt = (t - t%sim.Time(every)).Add(every)
		c.cap = min(c.cap, c.stopAt)
	}
	if c.saver != nil {
		c.cap = min(c.cap, c.saver.next)
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

// idle implements pace: it goes on where no region can run, past a cut or to the end.
func (c *conductor) idle() bool {
	c.advance()
	return false
}

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

// halt lets the run end early, at one time everywhere.
func (c *conductor) halt() {
	c.mu.Lock()
	if !c.halted {
		c.hold, c.halted = true, true
	}
	c.changed()
	c.mu.Unlock()
}

// capHere bounds the run by the time that the region farthest ahead has reached. The others catch up
// with it, so that states, statistics and records all tell of the same time.
func (c *conductor) capHere() {
	reached := sim.Time(0)
	for _, r := range c.w.rs {
		reached = max(reached, r.now)
	}
	c.cap = min(c.cap, reached.Add(1))
}

// deliver hands the sink all observations that can no longer be preceded.
func (c *conductor) deliver() error {
	c.mu.Lock()
	floor := min(c.solver.Floor(), c.w.prog.End)
	var taken *Capture
	if c.saver != nil && c.saver.taken != nil {
		taken = c.saver.taken
		floor = min(floor, taken.at)
	}
	pending := c.pending
	c.pending, c.npending = nil, 0
	c.changed()
	c.mu.Unlock()
	if err := c.observe(pending, floor); err != nil {
		return err
	}
	if taken == nil {
		return nil
	}
	c.write()
	return c.deliver()
}

// observe hands the sink what was observed before floor.
func (c *conductor) observe(pending []pendingObs, floor sim.Time) error {
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
	p := Progress{Now: min(c.solver.Floor(), c.w.prog.End), End: c.w.prog.End, Events: c.w.past.events}
	c.mu.Unlock()
	for _, r := range c.w.rs {
		p.Events += r.shownEvents.Load()
	}
	return p
}

// check ends the run if the engine broke its own rules.
func (c *conductor) check(err error) {
	if err != nil {
		c.end(fmt.Errorf("engine fault: %w; please report it", err))
	}
}
