package control

import (
	"fmt"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// setCap sets how far the run may go after a cut at time t: the end, the next cut, or the next time at
// which entities may end it.
func (r *run) setCap(t sim.Time) {
	r.cap = r.shape.End
	if len(r.job.Owner) > 1 {
		r.cap = min(r.cap, t.Add(r.shape.CutEvery))
	}
	r.stopAt = sim.Never
	if every := r.shape.StopEvery; every > 0 {
		r.stopAt = (t - t%sim.Time(every)).Add(every)
		r.cap = min(r.cap, r.stopAt)
	}
	r.cap = min(r.cap, r.saveCap(t))
	r.saves.pressed = false
	r.limit = -1
}

// advance goes past a cut or to the end where all regions are, and gives bounds.
func (c *Coordinator) advance() {
	r := c.run
	c.mark()
	if r.job.Phase == Initialising {
		c.propose(fmt.Sprintf("running/%s/%d", r.job.ID, r.job.Epoch), Command{Move: &Move{Job: r.job.ID, To: Running, Epoch: r.job.Epoch}})
	}
	if c.suspended() {
		return
	}
	floor := r.solver.Floor()
	c.schedule(floor)
	r.restrain()
	switch {
	case r.failure != nil:
		if floor > r.failure.Time {
			c.finishAt(r.failure.Time, EndFailed, r.failure.Text)
			return
		}
	case floor < r.cap || r.held(floor):
	case r.stopAt <= floor && r.stopAt < r.shape.End && r.stopAsked():
		c.finishAt(r.stopAt, EndStopped, "")
		return
	case r.halted || r.cap >= r.shape.End || floor >= r.shape.End:
		at, how := min(floor, r.shape.End), EndReached
		if at < r.shape.End {
			how = EndInterrupted
		}
		c.finishAt(at, how, "")
		return
	case r.saves.due && !r.ready(): // the log is about to give it a number
	case r.solver.Drained():
		c.openCut(floor)
		return
	}
	c.tellFloor(floor)
	if r.stirred {
		r.stirred = false
		c.grant()
	}
}

// stopAsked reports whether an entity has asked for the end of the run.
func (r *run) stopAsked() bool {
	for i := range r.members {
		if r.members[i].asides.StopAsked {
			return true
		}
	}
	return false
}

// restrain tells the solver how far bounds may go now.
func (r *run) restrain() {
	if r.job.Phase == Stopping && !r.halted {
		// The region farthest ahead may have run up to the largest bound given: all stop there.
		r.halted, r.cap = true, min(r.cap, r.reach())
	}
	r.press()
	braked := r.job.Phase == Paused || r.job.Phase == Suspending
	for i := range r.members {
		braked = braked || r.members[i].asides.Backlog
	}
	braked = braked && !r.halted
	if braked && !r.braked {
		r.brake = r.reach()
	}
	r.braked = braked
	limit := r.cap
	switch {
	case r.failure != nil:
		// An earlier failure can only be at that time or before it.
		limit = min(limit, r.failure.Time.Add(1))
	case r.braked && !r.saves.pressed:
		limit = min(limit, r.brake)
	}
	if limit != r.limit {
		r.limit, r.stirred = limit, true
		r.solver.Cap(limit)
	}
}

// held reports whether a pause or a backlog keeps a run from going past its cap. A checkpoint it does not, and
// a job to be suspended that is at its end ends.
func (r *run) held(floor sim.Time) bool {
	return r.braked && (!r.saves.pressed || floor >= r.shape.End) && r.job.Phase != Suspending
}

// reach returns the largest bound given.
func (r *run) reach() sim.Time {
	t := sim.Time(0)
	for i := range r.job.Owner {
		t = max(t, r.solver.Given(i))
	}
	return t
}

// grant sends bounds where they are useful.
func (c *Coordinator) grant() {
	r := c.run
	for i := range r.members {
		m := &r.members[i]
		useful, urgent := 0, m.greet
		for region := r.first[i]; region < r.first[i+1]; region++ {
			wanted, now := r.useful(region)
			if wanted {
				useful++
			}
			urgent = urgent || now
		}
		if !urgent {
			continue
		}
		m.greet = false
		r.serial++
		g := &Grants{Header: c.header(), Serial: r.serial, Cut: r.cut}
		if useful > 0 {
			g.Grants = make([]lbts.Grant, 0, useful)
		}
		for region := r.first[i]; region < r.first[i+1]; region++ {
			if wanted, _ := r.useful(region); wanted {
				g.Grants = append(g.Grants, r.solver.Grant(region, nil))
			}
		}
		c.counts.Messages++
		c.counts.Grants += uint64(len(g.Grants))
		c.send(i, g)
	}
}

// useful reports whether a region could go on with a larger bound, and whether it should be told at once:
// it has run all that it may, as far as is known, or the bound would more than double what is left to run.
func (r *run) useful(region int) (wanted, now bool) {
	bound, given, next := r.solver.Offer(region), r.solver.Given(region), r.solver.Effective(region)
	if bound <= given || bound <= next {
		return false, false
	}
	return true, next >= given || bound-given > given-next
}

// openCut begins a cut at time t, which all regions have reached with nothing on the way.
func (c *Coordinator) openCut(t sim.Time) {
	r := c.run
	r.cut++
	r.cutAt, r.step = t, cutting
	c.counts.Cuts++
	c.openSave()
	c.ask()
}

// reopen goes on from a cut that all members have completed.
func (c *Coordinator) reopen() {
	r := c.run
	next := make([]sim.Time, 0, len(r.job.Owner))
	for i := range r.members {
		next = append(next, r.members[i].next...)
		r.members[i].next, r.members[i].greet = nil, true
	}
	c.mark()
	if err := r.solver.Reopen(r.cutAt, nil, next); err != nil {
		c.fail(fmt.Sprintf("engine fault: %v; please report it", err))
		return
	}
	if r.cutSaving.Save > 0 {
		c.sendFloor(r.cutAt)
	}
	r.setCap(r.cutAt)
	r.braked, r.stirred, r.step = false, true, going
}

// tellFloor tells the member that records how far all regions are.
func (c *Coordinator) tellFloor(floor sim.Time) {
	r := c.run
	if floor > r.floor {
		r.floor, r.floorSince, r.floorNoted = floor, c.clock.now, false
	}
	// Nothing at the cap has run, and what ran beyond a failure does not count.
	floor = min(floor, r.cap)
	if r.failure != nil {
		floor = min(floor, r.failure.Time)
	}
	if floor <= r.told || c.clock.now-r.toldAt < c.cfg.FloorEvery {
		return
	}
	c.sendFloor(floor)
}

func (c *Coordinator) sendFloor(at sim.Time) {
	r := c.run
	r.told, r.toldAt = at, c.clock.now
	frames := make([]uint64, len(r.members))
	for i := range r.members {
		frames[i] = r.members[i].asides.Observed
	}
	c.send(r.job.Recorder, &Floor{c.header(), at, frames})
}

// finishAt ends the run at a time that all regions have reached.
func (c *Coordinator) finishAt(at sim.Time, how Ending, reason string) {
	c.run.finish = &Finish{At: at, How: how, Reason: reason}
	c.finishRun()
}

func (c *Coordinator) finishRun() {
	r := c.run
	c.sendFloor(r.finish.At)
	r.step = finishing
	c.ask()
}

// recorded ends the job with its results.
func (c *Coordinator) recorded(m *Recorded) {
	r := c.run
	end := &End{Job: r.job.ID, Epoch: r.job.Epoch, Phase: Done, Result: m.Result}
	if r.finish.How == EndFailed {
		end.Phase, end.Reason = Failed, r.finish.Reason
	}
	r.end, r.step = end, ending
}

// fail ends the job without results.
func (c *Coordinator) fail(reason string) {
	r := c.run
	if r.step == ending {
		return
	}
	r.end, r.step = c.failed(r.job, reason), ending
}

func (c *Coordinator) failed(job *Job, reason string) *End {
	reason = reason[:min(len(reason), maxText)]
	if c.waiting != reason {
		c.waiting = reason
		c.note(Alarm, reason, "job", job.ID)
	}
	return &End{Job: job.ID, Epoch: job.Epoch, Phase: Failed, Reason: reason}
}

// failJob ends a job that nobody may be running.
func (c *Coordinator) failJob(job *Job, reason string) {
	if c.run != nil {
		c.fail(reason)
		return
	}
	c.propose(fmt.Sprintf("end/%s/%d", job.ID, job.Epoch), Command{End: c.failed(job, reason)})
}
