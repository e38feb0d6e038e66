package control

import (
	"fmt"

	"github.com/simnode/simnode/sim"
)

// save is the last checkpoint that was begun here.
type save struct {
	number uint64
	at     sim.Time
	// open says that it is neither committed nor given up, as far as is known here; givenUp that it was.
	open, givenUp bool
	// stored is what was told of it, nil while it is being written.
	stored *Stored
	// told is the last committed one that the executor was told of with those that are kept.
	told uint64
}

// lastCommitted is the number of the newest checkpoint, 0 if there is none.
func (j *Job) lastCommitted() uint64 {
	if c := j.Newest(); c != nil {
		return c.Number
	}
	return 0
}

// works reports whether the share is one that the executor works on.
func (s *share) works() bool { return s.stage != Wrecked && s.stage != Replaced }

// doing is what the member does, for people.
func (s *share) doing() Stage {
	if s.retrieving && !s.restored && s.works() {
		return Restoring
	}
	return s.stage
}

// beginSave begins a checkpoint at the cut that has just ended. The one before may be unsettled here still: the
// log, or the word that it was given up, can be later than the cut.
func (a *Agent) beginSave(at sim.Time, c Saving) {
	s := a.share
	if s.save.open && s.save.number == c.Last {
		s.save.open = false
		a.exec.Committed(c.Last, nil)
	}
	a.abandon(s.save.number)
	s.save = save{number: c.Save, at: at, open: true, told: s.save.told}
	partner := -1
	if n := len(s.sent); n > 1 {
		partner = (s.me + 1) % n
	}
	a.exec.Checkpoint(c.Save, at, partner)
}

// abandon gives a checkpoint up unless it is settled.
func (a *Agent) abandon(number uint64) {
	if s := a.share; s.save.open && s.save.number == number {
		s.save.open, s.save.givenUp = false, true
		a.exec.Abandon(number)
	}
}

// saved tells that the own part is durable, or why not.
func (a *Agent) saved(in Saved) {
	s := a.share
	if !s.save.open || s.save.number != in.Number || s.save.stored != nil {
		return
	}
	in.Part.Member, in.Part.Boot = a.self, a.boot
	s.save.stored = &Stored{Number: in.Number, Part: in.Part, Err: in.Err}
	a.tellStored()
}

func (a *Agent) tellStored() {
	m := *a.share.save.stored
	m.Header = a.share.header()
	a.tell(&m)
}

// committed tells the executor of a checkpoint that the log committed.
func (a *Agent) committed(job *Job) {
	s := a.share
	c := job.Newest()
	if c == nil || c.Number <= s.save.told || !s.works() || s.stage == Preparing {
		return
	}
	s.save.told = c.Number
	if s.save.number == c.Number {
		s.save.open = false
	}
	a.exec.Committed(c.Number, job.Checkpoints)
}

// retrieve begins to read the checkpoint that the epoch begins from.
func (a *Agent) retrieve() {
	s := a.share
	switch {
	case s.restored:
		a.tell(&Retrieved{s.header()})
	case s.job.Restore == nil:
		a.wreck("engine fault: a checkpoint is to be restored in an epoch that begins without one")
	case s.unfit != nil:
		a.tellUnfit()
	case !s.retrieving:
		s.retrieving = true
		a.exec.Retrieve()
	}
}

func (a *Agent) restorePiece(in RestorePiece) {
	s := a.share
	if in.To < 0 || in.To >= len(s.sent) || in.To == s.me {
		a.wreck(fmt.Sprintf("engine fault: a piece of a checkpoint for member %d of %d", in.To, len(s.sent)))
		return
	}
	a.sendMember(in.To, &Restored{s.between(), in.Data, in.Last})
}

func (a *Agent) takeRestored(from int, m *Restored) {
	s := a.share
	if s.job.Restore == nil || s.restored {
		a.wreck(fmt.Sprintf("engine fault: node %s sent a piece of a checkpoint when all was in", s.job.Members[from]))
		return
	}
	a.try(a.exec.TakeRestored(from, m.Data, m.Last))
}

func (a *Agent) restoreEnded(in RestoreEnded) {
	s := a.share
	switch {
	case in.Err != "":
		s.elsewhere = in.Elsewhere
		a.wreck("the checkpoint cannot be restored: " + in.Err)
	case s.retrieving && !s.restored:
		s.restored = true
		a.tell(&Retrieved{s.header()})
	}
}

// unreadable tells that a part is not good here.
func (a *Agent) unreadable(in Unreadable) {
	a.share.unfit = &Unfit{Number: in.Number, Part: in.Part, Reason: in.Reason}
	a.tellUnfit()
}

func (a *Agent) tellUnfit() {
	m := *a.share.unfit
	m.Header = a.share.header()
	a.tell(&m)
}
