package server

import (
	"context"
	"fmt"
	"sync"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// saves are the checkpoints of a share.
type saves struct {
	mu sync.Mutex
	// open are those under way, chain those of this epoch that were committed.
	open  map[uint64]*saving
	chain []uint64
	// ending are those that were committed or given up and of which the regions are still to take note.
	ending sync.WaitGroup
}

// from lists the committed checkpoints from base on, on which the next one builds.
func (s *saves) from(base uint64) (chain []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.chain {
		if n >= base {
			chain = append(chain, n)
		}
	}
	s.chain = chain
	return chain
}

// saving is one.
type saving struct {
	capture *node.Capture
	cancel  context.CancelCauseFunc
	done    chan struct{}
	part    *checkpoint.Part
	err     error
}

// errAbandoned ends the writing of a checkpoint that was given up.
var errAbandoned = fmt.Errorf("the checkpoint was given up")

// beginSave begins checkpoint n at a cut that has just ended, and calls done when this member's part and its copy are
// durable, or cannot be.
func (e *executor) beginSave(s *share, n uint64, at sim.Time, partner string, done func(*checkpoint.Part, error)) error {
	if s.keeper == nil {
		return fmt.Errorf("%s was handed in to take no checkpoints: hand it in with --checkpoint-every", s.job.ID)
	}
	// They only wait for regions not to be run, which none is now.
	s.saves.ending.Wait()
	capture, err := s.part.Checkpoint(n, at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	v := &saving{capture: capture, cancel: cancel, done: make(chan struct{})}
	s.saves.mu.Lock()
	if s.saves.open == nil {
		s.saves.open = map[uint64]*saving{}
	}
	s.saves.open[n] = v
	s.saves.mu.Unlock()
	state := make(chan savedState, 1)
	if s.recording == nil {
		state <- savedState{}
	} else {
		s.recording.put(work{kind: saveWork, at: at, saved: func(r *recorded, err error) { state <- savedState{r, err} }})
	}
	e.group.Go(func() {
		defer close(v.done)
		v.err = guard("a checkpoint", func() (err error) {
			v.part, err = e.save(ctx, s, capture, partner, state)
			return err
		})
		done(v.part, v.err)
	})
	return nil
}

type savedState struct {
	rec *recorded
	err error
}

// save writes a checkpoint when the recording was saved.
func (e *executor) save(ctx context.Context, s *share, c *node.Capture, partner string, state <-chan savedState) (*checkpoint.Part, error) {
	select {
	case got := <-state:
		if got.err != nil {
			return nil, fmt.Errorf("the recording cannot be saved: %w", got.err)
		}
		return s.keeper.save(ctx, c, s.job.Epoch, s.me, partner, s.saves.from(c.Base()), got.rec)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// cancel gives up the writing of all that are under way.
func (s *saves) cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.open {
		v.cancel(errAbandoned)
	}
}

// endSave ends a checkpoint that was committed or given up.
func (e *executor) endSave(s *share, n uint64, kept bool) {
	s.saves.mu.Lock()
	v := s.saves.open[n]
	delete(s.saves.open, n)
	if last := len(s.saves.chain) - 1; kept && (last < 0 || s.saves.chain[last] < n) {
		s.saves.chain = append(s.saves.chain, n)
	}
	s.saves.mu.Unlock()
	if v == nil {
		return
	}
	if !kept {
		v.cancel(errAbandoned)
	}
	s.saves.ending.Add(1)
	e.group.Go(func() {
		defer s.saves.ending.Done()
		<-v.done
		v.cancel(nil)
		if kept && v.err == nil {
			v.capture.Keep()
		} else {
			v.capture.Abandon()
		}
	})
}
