package node

import (
	"context"
	"fmt"
	"time"

	"github.com/simnode/simnode/sim"
)

// FoldEvent is for the reference in the tests, which shares the digest and nothing else.
var FoldEvent = foldEvent

// Inside shows the tests who holds what, at a cut or after a run.
type Inside struct{ w *world }

// RunInside is Run with a look inside: watch, if not nil, is called at the end of every cut and once
// after the run.
func RunInside(ctx context.Context, p *sim.Program, o Options, watch func(in Inside, t sim.Time)) (*Outcome, error) {
	c, err := prepare(ctx, p, o)
	if err != nil {
		return nil, err
	}
	if watch != nil {
		c.w.atCut = func(t sim.Time) { watch(Inside{c.w}, t) }
	}
	out, err := c.complete(ctx, o)
	if watch != nil {
		watch(Inside{c.w}, out.End)
	}
	return out, err
}

// RunPatient is Run in which every checkpoint that was begun is written to its end.
func RunPatient(ctx context.Context, p *sim.Program, o Options) (*Outcome, error) {
	c, err := prepare(ctx, p, o)
	if err != nil {
		return nil, err
	}
	c.patient = true
	if c.saver != nil && c.saver.Due != nil {
		go func() {
			for {
				select {
				case <-c.finished:
					return
				case <-time.After(20 * time.Microsecond):
					c.ask()
				}
			}
		}()
	}
	return c.complete(ctx, o)
}

// Owners returns the regions that own an entity.
func (in Inside) Owners(id sim.EntityID) (list []int) {
	for _, r := range in.w.rs {
		r.ents.each(func(_ uint32, e *entity) {
			if e.id == id {
				list = append(list, r.id)
			}
		})
	}
	return list
}

// Ghosts returns the regions that show an entity and do not own it.
func (in Inside) Ghosts(id sim.EntityID) (list []int) {
	for _, r := range in.w.rs {
		if r.view.known[id] > 0 && in.w.dir.find(id).region() != r.id {
			list = append(list, r.id)
		}
	}
	return list
}

// Shown returns how many entities a region shows, ghosts included.
func (in Inside) Shown(region int) int { return in.w.rs[region].view.index.Len() }

// Region returns the region that holds a position.
func (in Inside) Region(p sim.Vec) int { return in.w.pmap.Region(p) }

// Pending returns how many events are queued for an entity, by region.
func (in Inside) Pending(id sim.EntityID) []int {
	counts := make([]int, in.w.regions)
	for _, r := range in.w.rs {
		r.queue.extract(func(m *sim.Message, _ bool) bool {
			if at := place(m.Dst); at == in.w.dir.find(id) && at.region() == r.id {
				counts[r.id]++
			}
			return false
		})
	}
	return counts
}

// Check returns what is wrong with who owns and who shows what, or nil. Positions are looked at where a
// cut was made at time t.
func (in Inside) Check(t sim.Time, cut bool) error {
	w := in.w
	owner := map[sim.EntityID]int{}
	for _, r := range w.rs {
		var err error
		r.ents.each(func(slot uint32, e *entity) {
			at, twice := owner[e.id]
			switch {
			case twice:
				err = fmt.Errorf("entity %d has owners %d and %d", e.id, at, r.id)
			case w.dir.find(e.id) != makePlace(r.id, slot, e.gen):
				err = fmt.Errorf("entity %d is in region %d; the directory says otherwise", e.id, r.id)
			}
			owner[e.id] = r.id
		})
		if err != nil {
			return err
		}
	}
	if w.space == nil {
		return nil
	}
	for _, r := range w.rs {
		if err := in.checkView(r, owner, t, cut); err != nil {
			return err
		}
	}
	return nil
}

func (in Inside) checkView(r *region, owner map[sim.EntityID]int, t sim.Time, cut bool) error {
	visible := 0
	for id, i := range r.view.known {
		if i > 0 {
			visible++
		}
		if at, alive := owner[id]; alive {
			o := in.w.rs[at]
			own := o.view.published(in.w.dir.find(id).slot())
			if own == 0 || !o.view.own[own-1].regions.has(r.id) {
				return fmt.Errorf("region %d knows entity %d, whose boundary list leaves it out", r.id, id)
			}
		}
	}
	if n := r.view.index.Len(); n != visible {
		return fmt.Errorf("region %d shows %d entities and knows %d that are visible", r.id, n, visible)
	}
	for i := range r.view.own {
		own := &r.view.own[i]
		if own.regions == nil {
			continue
		}
		id := r.ents.at(own.slot).id
		if owner[id] != r.id {
			return fmt.Errorf("region %d publishes for entity %d of region %d", r.id, id, owner[id])
		}
		for j, o := range in.w.rs {
			// At the end of the run the first publication may still be on its way.
			if _, knows := o.view.known[id]; knows != own.regions.has(j) && (cut || knows) {
				return fmt.Errorf("entity %d: boundary list has region %d: %v, it knows of it: %v", id, j, own.regions.has(j), knows)
			}
		}
		if at := in.w.pmap.Region(in.w.space.Position(own.motion, t)); cut && at != r.id {
			return fmt.Errorf("after the cut entity %d is in region %d and owned by %d", id, at, r.id)
		}
	}
	return nil
}

// RunCountingTurns is Run that also counts how often a worker took a region.
func RunCountingTurns(p *sim.Program, o Options) (*Outcome, int, error) {
	c, err := prepare(context.Background(), p, o)
	if err != nil {
		return nil, 0, err
	}
	out, err := c.complete(context.Background(), o)
	return out, c.turns, err
}

// Kept returns how many records of publications the regions keep for entities of their own.
func (in Inside) Kept() (n int) {
	for _, r := range in.w.rs {
		n += len(r.view.own)
	}
	return n
}
