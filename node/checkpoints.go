package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/simnode/simnode/sim"
)

// Checkpoints say when a run in one process takes checkpoints, and who writes them. They change no result.
type Checkpoints struct {
	// Every is the simulated time between checkpoints; 0 takes none by it.
	Every sim.Duration
	// Due is asked several times a second whether one is to be taken now; nil takes none by it. A checkpoint
	// that is due while another is being written is taken after it.
	Due func() bool
	// Final says that a run that is interrupted takes one at its end.
	Final bool
	// Number returns the number of the next checkpoint: larger than all before it.
	Number func() uint64
	// Snapshot returns the state of the sink when it has been handed all observations before the time of a
	// checkpoint and none after; nil if there is nothing to keep.
	Snapshot func() ([]byte, error)
	// Save writes a checkpoint, by Capture.Write, and commits it; sink is what Snapshot returned. It runs beside
	// the simulation, which goes on whatever it returns: an error means that there is no such checkpoint.
	Save func(k *Capture, sink []byte) error
}

// Restore is a checkpoint that a run begins from instead of the scenario's beginning.
type Restore struct {
	// At is its simulated time.
	At sim.Time
	// Regions are those of the run that took it, in any order.
	Regions []RegionChunks
}

// errOver ends a checkpoint that was under way when the run ended.
var errOver = errors.New("the run ended before the checkpoint was written")

// saver takes the checkpoints of a conductor. All but the channel is guarded by the crew's lock.
type saver struct {
	Checkpoints
	// wanted says that one is to be taken at the next cut, next is when one is due by simulated time.
	wanted bool
	next   sim.Time
	// taken is the capture that waits for the sink's state; saving says that one is being written.
	taken  *Capture
	saving bool
	// saved is closed when the last one is written.
	saved chan struct{}
}

func newSaver(o *Checkpoints, at sim.Time) *saver {
	if o == nil {
		return nil
	}
	s := &saver{Checkpoints: *o, next: sim.Never, saved: make(chan struct{})}
	close(s.saved)
	s.setNext(at)
	return s
}

func (s *saver) setNext(t sim.Time) {
	if s.Every > 0 {
		s.next = (t - t%sim.Time(s.Every)).Add(s.Every)
	}
}

// isDue reports whether a cut at time t takes a checkpoint.
func (s *saver) isDue(t sim.Time) bool {
	if s == nil {
		return false
	}
	if t >= s.next {
		s.wanted = true
		s.setNext(t)
	}
	return s.wanted && !s.saving && s.taken == nil
}

// ask brings a cut about if a checkpoint is due.
func (c *conductor) ask() {
	s := c.saver
	if s == nil {
		return
	}
	due := s.Due != nil && s.Due()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.wanted = s.wanted || due; s.wanted && !s.saving && s.taken == nil && !c.halted && !c.over {
		c.hold = true
		c.changed()
	}
}

// save begins a checkpoint at the cut at time t.
func (c *conductor) save(t sim.Time) {
	s := c.saver
	s.wanted = false
	s.setNext(t)
	k, err := c.capture(s.Number(), t)
	if err != nil {
		c.check(err)
		return
	}
	s.taken = k
	c.notifyFull() // who hands observations over takes the sink's state
}

// write lets the capture that waits for the sink's state be written, now that the sink has all before it.
func (c *conductor) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.saver
	k := s.taken
	s.taken, s.saving, s.saved = nil, true, make(chan struct{})
	done := s.saved
	var state []byte
	var err error
	if s.Snapshot != nil {
		state, err = s.Snapshot()
	}
	go func() {
		defer close(done)
		c.written(k, state, err)
	}()
}

// written writes a checkpoint; broken says that the sink has no state to keep.
func (c *conductor) written(k *Capture, state []byte, broken error) {
	k.sink = broken
	if err := c.saver.Save(k, state); err != nil || broken != nil {
		k.Abandon()
	} else {
		k.Keep()
	}
	c.mu.Lock()
	c.saver.saving = false
	c.mu.Unlock()
}

// lastSave ends the checkpoints of a run that is over: one under way is given up, and an interrupted run takes a
// last one.
func (c *conductor) lastSave() error {
	s := c.saver
	if s == nil {
		return nil
	}
	<-s.saved
	if k := s.taken; k != nil {
		s.taken = nil
		k.Abandon()
	}
	if !s.Final || !c.halted || c.stopped || c.failure != nil || c.fault != nil || c.solver.Floor() < c.cap || c.cap >= c.w.prog.End {
		return nil
	}
	for _, r := range c.w.rs {
		c.takeInbox(r)
	}
	k, err := c.capture(s.Number(), c.cap)
	if err != nil {
		return err
	}
	k.final = true
	var state []byte
	if s.Snapshot != nil {
		if state, err = s.Snapshot(); err != nil {
			return fmt.Errorf("the last checkpoint: %w", err)
		}
	}
	if err := s.Save(k, state); err != nil {
		return fmt.Errorf("the last checkpoint: %w", err)
	}
	k.Keep()
	return nil
}

// restore fills the regions of a run in one process from a checkpoint.
func (w *world) restore(ctx context.Context, from *Restore) error {
	x := newRestorer(w, from.At)
	for _, chunks := range from.Regions {
		if err := readRegion(ctx, len(w.prog.Kinds), from.At, chunks, x, now); err != nil {
			return fmt.Errorf("restoring the checkpoint at %v: %w", from.At, err)
		}
	}
	w.finishRestore(from.At)
	if w.past.stop {
		w.rs[0].stopAsked = true
	}
	return nil
}
