package node

import (
	"context"
	"fmt"

	"github.com/simnode/simnode/sim"
)

// RestoredFrom says what a part begins from.
type RestoredFrom struct {
	// At is the simulated time of the checkpoint.
	At sim.Time
}

// Checkpoint begins checkpoint n of this member's regions at time at, that of a cut that has just ended, while no
// region runs. It returns at once; Capture.Write may be called from another goroutine while the regions run on.
func (p *Part) Checkpoint(n uint64, at sim.Time) (*Capture, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running > 0 || p.cutting >= 0 {
		return nil, fmt.Errorf("engine fault: checkpoint %d at %v while %d regions run", n, at, p.running)
	}
	for _, r := range p.own {
		if p.next[r.id] < at || len(p.inbox[r.id]) > 0 {
			return nil, fmt.Errorf("engine fault: checkpoint %d at %v while region %d is at %v", n, at, r.id, p.next[r.id])
		}
	}
	return p.capture(n, at)
}

// Restore reads regions of the checkpoint that the part begins from, of which this member is the source. What
// belongs to other members is handed to yield, for each of them in pieces of which the last is marked, also if
// this member has nothing for it. Each piece may be kept.
func (p *Part) Restore(ctx context.Context, regions []RegionChunks, yield func(to int, data []byte, last bool) error) error {
	if p.options.Restore == nil {
		return fmt.Errorf("engine fault: a part that begins with the scenario restores nothing")
	}
	x := newRestorer(p.w, p.options.Restore.At)
	// The lock is not held while pieces are handed over: that may wait for who calls TakeRestored.
	do := func(step func() error) error {
		p.mu.Lock()
		x.heard = p.heard()
		err := step()
		pieces := x.pieces()
		p.mu.Unlock()
		for _, piece := range pieces {
			if err == nil {
				err = yield(piece.to, piece.data, piece.last)
			}
		}
		return err
	}
	for _, chunks := range regions {
		if err := readRegion(ctx, len(p.w.prog.Kinds), x.at, chunks, x, do); err != nil {
			return fmt.Errorf("restoring the checkpoint at %v: %w", x.at, err)
		}
	}
	return do(func() error {
		x.finish()
		return nil
	})
}

func (p *Part) heard() map[heardID]bool {
	if p.restoring == nil {
		p.restoring = map[heardID]bool{}
	}
	return p.restoring
}

// TakeRestored takes in what another member restored for this one.
func (p *Part) TakeRestored(from int, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Restore == nil {
		return fmt.Errorf("engine fault: member %d restores for a part that begins with the scenario", from)
	}
	return p.w.takeGiven(p.heard(), from, data, p.options.Restore.At)
}

// EndRestore ends a restore when all members have handed over everything. A cut at the time of the checkpoint
// comes next: it shows the entities to the regions of all members that need ghosts of them.
func (p *Part) EndRestore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Restore == nil {
		return fmt.Errorf("engine fault: the end of a restore in a part that begins with the scenario")
	}
	at := p.options.Restore.At
	p.restoring = nil
	p.w.finishRestore(at)
	p.setCap(at)
	p.stopAsked = p.w.past.stop
	for _, r := range p.own {
		if next := r.next(); next < at {
			return fmt.Errorf("the checkpoint at %v holds an event for region %d at %v", at, r.id, next)
		}
	}
	p.lookAgain()
	return nil
}
