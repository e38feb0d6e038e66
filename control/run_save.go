package control

import (
	"fmt"
	"time"

	"github.com/simnode/simnode/sim"
)

// saves is what a coordinator knows of the checkpoints of a run.
type saves struct {
	// due says that one is wanted now, pressed that the cap was lowered for it.
	due, pressed bool
	// simAt is the simulated time at which the next is due, sim.Never if none is by it.
	simAt sim.Time
	// since is when the last one was committed or this coordinator took over; notBefore is when one may be
	// tried again.
	since, notBefore time.Duration
	// number is the one asked of the log for the next checkpoint, 0 for none; used is the highest that was
	// used.
	number, used uint64
	// final is the one that was taken in order to suspend the job, once it is committed.
	final  uint64
	asking asking
	open   *opened
	// last tells why the last one was given up, so that it is noted once.
	last string
}

// opened is a checkpoint under way.
type opened struct {
	number uint64
	at     sim.Time
	begun  time.Duration
	// asked says that a user asked for it, final that the job was to be suspended when it was begun.
	asked, final bool
}

// asking remembers what was proposed last, and when.
type asking struct {
	what string
	at   time.Duration
}

// inEpoch is the newest committed checkpoint of this epoch, 0 if there is none.
func (r *run) inEpoch() uint64 {
	if c := r.job.Newest(); c != nil && c.Epoch == r.job.Epoch {
		return c.Number
	}
	return 0
}

// savedAt is the time of the last checkpoint, before everything if there is none.
func (r *run) savedAt() sim.Time {
	if c := r.job.Newest(); c != nil {
		return c.At
	}
	return -1
}

// saveCap is up to where the run may go until a checkpoint is due by simulated time after one at t.
func (r *run) saveCap(t sim.Time) sim.Time {
	r.saves.simAt = sim.Never
	if every := r.job.Spec.Checkpoints.EverySim; every > 0 {
		r.saves.simAt = (t - t%sim.Time(every)).Add(every)
	}
	return r.saves.simAt
}

// schedule decides whether a checkpoint is due, and has the log give it a number.
func (c *Coordinator) schedule(floor sim.Time) {
	r := c.run
	s, spec := &r.saves, &r.job.Spec.Checkpoints
	if r.halted || r.failure != nil || s.open != nil || r.job.Phase == Initialising || floor >= r.shape.End {
		s.due = false
		return
	}
	// A run that stands still needs no other checkpoint of the same time.
	wall := spec.Every > 0 && floor > r.savedAt() && c.clock.now-s.since >= time.Duration(spec.Every)*time.Millisecond
	s.due = c.clock.now >= s.notBefore && (wall || r.job.Asked || r.job.Phase == Suspending || s.simAt <= floor)
	if (s.due || spec.EverySim > 0) && !r.numbered() {
		c.takeNumber()
	}
}

// takeNumber asks the log for a number.
func (c *Coordinator) takeNumber() {
	r := c.run
	s := &r.saves
	if s.number <= max(r.job.Begun, s.used) {
		s.number = max(r.job.Begun, s.used) + 1
	}
	c.proposeBy(&s.asking, fmt.Sprintf("begin/%s/%d/%d", r.job.ID, r.job.Epoch, s.number),
		Command{Begin: &Begin{Job: r.job.ID, Epoch: r.job.Epoch, Number: s.number}})
}

// numbered reports whether the log has given the next checkpoint its number.
func (r *run) numbered() bool { return r.saves.number > r.saves.used && r.saves.number == r.job.Begun }

// ready reports whether a checkpoint is due and can be taken at the next cut.
func (r *run) ready() bool { return r.saves.due && r.numbered() }

// press brings a cut about for a checkpoint that is ready, at the largest bound given so far.
func (r *run) press() {
	if r.ready() && !r.saves.pressed {
		r.saves.pressed = true
		r.cap = min(r.cap, max(r.reach(), r.cutAt.Add(1)))
	}
}

// openSave begins a checkpoint with the cut that is begun, if one is ready.
func (c *Coordinator) openSave() {
	r := c.run
	r.cutSaving = Saving{Last: r.inEpoch()}
	if !r.ready() {
		return
	}
	s := &r.saves
	s.open = &opened{number: s.number, at: r.cutAt, begun: c.clock.now, asked: r.job.Asked, final: r.job.Phase == Suspending}
	s.used = s.number
	r.cutSaving.Save = s.number
	for i := range r.members {
		r.members[i].stored = nil
	}
	c.counts.Saves++
}

// saving takes a checkpoint under way further.
func (c *Coordinator) saving() {
	r := c.run
	s := &r.saves
	o := s.open
	if o == nil || r.step != going && r.step != cutting {
		return
	}
	if r.job.lastCommitted() >= o.number {
		s.open = nil
		s.since, s.last = c.clock.now, ""
		if o.final {
			s.final = o.number
		}
		c.note(Info, fmt.Sprintf("checkpoint %d at %v is committed", o.number, o.at), "job", r.job.ID)
		return
	}
	commit := &Commit{Job: r.job.ID, Asked: o.asked, Checkpoint: Checkpoint{Number: o.number, Epoch: r.job.Epoch, At: o.at, Recorder: r.job.Recorder}}
	for i := range r.members {
		x := r.members[i].stored
		if x == nil || x.Number != o.number {
			continue
		}
		if x.Err != "" {
			c.giveUp(fmt.Sprintf("node %s cannot store its part: %s", r.members[i].name, x.Err))
			return
		}
		commit.Checkpoint.Parts = append(commit.Checkpoint.Parts, x.Part)
	}
	if len(commit.Checkpoint.Parts) < len(r.members) {
		if c.clock.now-o.begun >= c.cfg.SaveWait {
			c.giveUp(fmt.Sprintf("it was not durable everywhere after %v", c.cfg.SaveWait))
		}
		return
	}
	if err := c.checkCommit(commit); err != nil {
		c.giveUp("engine fault: " + err.Error())
		return
	}
	c.proposeBy(&s.asking, fmt.Sprintf("commit/%s/%d/%d", r.job.ID, r.job.Epoch, o.number), Command{Commit: commit})
}

// checkCommit reports why the log would refuse a checkpoint.
func (c *Coordinator) checkCommit(x *Commit) error {
	if err := x.check(); err != nil {
		return err
	}
	if err := x.Checkpoint.fits(c.run.job); err != nil {
		return err
	}
	_, err := c.run.job.chain(&x.Checkpoint)
	return err
}

// giveUp gives a checkpoint up that was not proposed to the log: some member has no part of it. The run goes on
// with the last one, and the next is tried later.
func (c *Coordinator) giveUp(why string) {
	r := c.run
	s := &r.saves
	number := s.open.number
	s.open, s.notBefore = nil, c.clock.now+c.cfg.RetryAfter
	c.counts.Abandoned++
	for i := range r.members {
		r.members[i].stored = nil
		c.send(i, &Abandon{c.header(), number})
	}
	if why != s.last {
		s.last = why
		c.note(Alarm, fmt.Sprintf("checkpoint %d was given up, the run goes on: %s", number, why), "job", r.job.ID)
	}
}

// inherit takes over what the coordinator before had begun of a checkpoint, as the members tell.
func (c *Coordinator) inherit() {
	r := c.run
	s := &r.saves
	newest := r.job.lastCommitted()
	for i := range r.members {
		f := r.members[i].frozen
		s.used = max(s.used, f.Save, f.CutSaving.Save)
		if f.CutNumber == r.cut {
			r.cutSaving = f.CutSaving
		}
		if f.Save > newest && (s.open == nil || f.Save > s.open.number) {
			s.open = &opened{number: f.Save, at: f.SaveAt, begun: c.clock.now}
		}
	}
	if n := r.cutSaving.Save; n > newest && r.cut > 0 && (s.open == nil || n > s.open.number) {
		s.open = &opened{number: n, at: r.cutAt, begun: c.clock.now}
	}
	if s.open == nil {
		return
	}
	for i := range r.members {
		m := &r.members[i]
		if f := m.frozen; f.Save == s.open.number && f.SaveGivenUp {
			c.giveUp(fmt.Sprintf("the coordinator before had given it up, as node %s tells", m.name))
			return
		}
	}
}

// suspended has the log note that the job's last checkpoint is committed, if it is to be suspended.
func (c *Coordinator) suspended() bool {
	r := c.run
	if r.job.Phase != Suspending || r.saves.final == 0 {
		return false
	}
	c.propose(fmt.Sprintf("suspended/%s/%d", r.job.ID, r.job.Epoch), Command{Move: &Move{Job: r.job.ID, To: Suspended, Epoch: r.job.Epoch}})
	return true
}
