package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/simnode/simnode/partition"
	"github.com/simnode/simnode/sim"
)

// Options say how to run a program. None of them changes a result.
type Options struct {
	// Regions is how many regions space is cut into; 0 means 1.
	Regions int
	// Workers is how many regions are worked on at once; 0 means as many as there are processors, at
	// most one a region.
	Workers int
	// Sink takes what is observed, in order; nil if nothing is to be observed.
	Sink sim.Sink
	// Trace hands every event that is handled to the sink as well.
	Trace bool
	// Bins is into how many equal intervals of the run the events of each region are counted; 0 counts
	// nothing.
	Bins int
	// Checkpoints to be taken; nil takes none. Restore is a checkpoint to begin from; nil begins with the
	// scenario.
	Checkpoints *Checkpoints
	Restore     *Restore
	// Progress, if not nil, is called several times a second from the goroutine that called Run.
	Progress func(Progress)
	// ChainLimit is how many events without delay an entity may be sent at one time; 0 means
	// 1,000,000.
	ChainLimit uint32
}

// Progress tells how far a run is.
type Progress struct {
	// Now is the time below which every event has run.
	Now sim.Time
	// End of the run.
	End sim.Time
	// Events handled so far.
	Events uint64
}

// Outcome is the end of a run.
type Outcome struct {
	// End is the simulated time reached: every event below it has run.
	End sim.Time
	// Stopped says that an entity ended the run before its end.
	Stopped bool
	// Interrupted says that the run was stopped from outside before its end.
	Interrupted bool
	// Events handled, and events dropped because their receiver was gone.
	Events, Dropped uint64
	// Entities that exist at the end.
	Entities int
	// Digest covers every event handled, in the order of each entity, and every final state.
	Digest uint64
	// Map is how space was cut; nil without a space.
	Map *partition.Map
	// Regions, by number.
	Regions []RegionLoad
	// Elapsed is the wall time from the first event to the last, without the time to set up.
	Elapsed time.Duration
	// Cuts is how many cuts there were, Migrated how many entities changed region at them.
	Cuts, Migrated int

	prog *sim.Program
	// states yields the final states, in the order of ids.
	states func(yield func(id sim.EntityID, kind uint16, state unsafe.Pointer) bool)
}

// RegionLoad is what one region did.
type RegionLoad struct {
	Events   uint64
	Entities int
	// Busy is the wall time for which a worker ran the region.
	Busy time.Duration
	// Bins holds the events in each of Options.Bins intervals.
	Bins []uint64
}

// MaxRegions is the largest number of regions.
const MaxRegions = maxRegions

// maxBins bounds Options.Bins.
const maxBins = 1 << 20

// Check reports why a program cannot run with these options, or nil. It is what Run checks first.
func Check(p *sim.Program, o Options) error {
	switch {
	case o.Regions < 0 || o.Regions > MaxRegions:
		return fmt.Errorf("%d regions: from 1 to %d are possible", o.Regions, MaxRegions)
	case o.Bins < 0 || o.Bins > maxBins:
		return fmt.Errorf("%d bins: from 0 to %d are possible", o.Bins, maxBins)
	case o.Workers < 0:
		return fmt.Errorf("%d workers: at least 1 is needed", o.Workers)
	case o.Regions > 1 && p.Limits.Lookahead == 0:
		return fmt.Errorf("model %s has lookahead 0 and runs in one region only: with %d regions, region 0 could send to region 1 and region 1 back without delay, and neither could ever go on; run it with 1 region or declare a lookahead",
			p.Model.Name, o.Regions)
	case p.Limits.Lookahead < 0:
		return fmt.Errorf("model %s has lookahead %v: at least one tick (1 ns) is needed, or 0 for one region", p.Model.Name, p.Limits.Lookahead)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Regions == 0 {
		o.Regions = 1
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	o.Workers = min(o.Workers, o.Regions)
	if o.ChainLimit == 0 {
		o.ChainLimit = 1_000_000
	}
	return o
}

// Run runs a program to its end. When ctx is done it ends early, all regions at one time, with what was
// observed up to it handed to the sink, and the outcome says Interrupted: it is that of a run whose end
// is Outcome.End. Where ctx is done before the first event, the error is that of ctx. A *Failure is the model's fault; the outcome then
// holds how far the run came.
func Run(ctx context.Context, p *sim.Program, o Options) (*Outcome, error) {
	c, err := prepare(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return c.complete(ctx, o)
}

// prepare cuts the program into regions and makes what runs them.
func prepare(ctx context.Context, p *sim.Program, o Options) (*conductor, error) {
	if err := Check(p, o); err != nil {
		return nil, err
	}
	if err := p.Take(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	w, err := newWorld(ctx, p, o, nil)
	if err != nil {
		return nil, err
	}
	at := sim.Time(0)
	if from := o.Restore; from != nil {
		if at = from.At; at >= p.End {
			return nil, fmt.Errorf("the checkpoint is at %v and the run ends at %v: nothing is left to run", at, p.End)
		}
		if err := w.restore(ctx, from); err != nil {
			return nil, err
		}
	}
	return newConductor(w, o, at)
}

// complete runs to the end.
func (c *conductor) complete(ctx context.Context, o Options) (*Outcome, error) {
	start := time.Now()
	err := c.conduct(ctx, o.withDefaults())
	elapsed := time.Since(start)
	out, broken := c.outcome()
	if err == nil {
		err = broken
	}
	out.Elapsed = elapsed
	if err == nil && ctx.Err() != nil && out.Interrupted {
		return out, nil
	}
	return out, err
}

// conduct runs the workers and, on the calling goroutine, hands over observations and progress.
func (c *conductor) conduct(ctx context.Context, o Options) error {
	var workers sync.WaitGroup
	for id := range o.Workers {
		c.employ(&workers, id)
	}
	err := c.attend(ctx, o)
	c.stop()
	workers.Wait()
	if err == nil {
		err = c.deliver()
	}
	if saved := c.lastSave(); err == nil {
		err = saved
	}
	if err == nil && c.failure != nil {
		err = c.failure
	}
	return errors.Join(err, c.fault)
}

// attend waits for the end of the run.
func (c *conductor) attend(ctx context.Context, o Options) error {
	done := ctx.Done()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			c.halt()
			done = nil
		case <-c.finished:
			return nil
		case <-c.full:
		case <-tick.C:
			c.ask()
			if o.Progress != nil {
				o.Progress(c.progress())
			}
		}
		if err := c.deliver(); err != nil {
			return err
		}
	}
}

// outcome sums the regions up. The workers have ended.
func (c *conductor) outcome() (*Outcome, error) {
	w := c.w
	out := &Outcome{End: min(c.solver.Floor(), w.prog.End), Map: w.pmap, Cuts: c.cuts, Migrated: c.migrated, prog: w.prog, states: w.states}
	if c.stopped {
		out.Stopped, out.End = true, c.stopAt
	}
	out.Interrupted = !out.Stopped && out.End < w.prog.End
	out.Events, out.Dropped, out.Digest = w.past.events, w.past.dropped, w.past.gone
	digests, broken := make([]uint64, w.regions), make([]error, w.regions)
	var group sync.WaitGroup
	for i, r := range w.rs {
		group.Go(func() { digests[i], broken[i] = r.digest() })
		out.Events += r.events
		out.Dropped += r.dropped
		out.Entities += r.ents.len()
		out.Regions = append(out.Regions, RegionLoad{r.events, r.ents.len(), time.Duration(r.busy), r.load.close(r.events)})
	}
	group.Wait()
	for _, d := range digests {
		out.Digest += d
	}
	return out, errors.Join(broken...)
}

// States calls yield for every entity that exists at the end, in the order of ids.
func (o *Outcome) States(yield func(id sim.EntityID, kind uint16, state unsafe.Pointer) bool) {
	o.states(yield)
}

// states calls yield for every entity of the regions of this process, in the order of ids.
func (w *world) states(yield func(id sim.EntityID, kind uint16, state unsafe.Pointer) bool) {
	type entry struct {
		id sim.EntityID
		at place
	}
	var list []entry
	for _, r := range w.local() {
		r.ents.each(func(slot uint32, e *entity) {
			list = append(list, entry{e.id, makePlace(r.id, slot, e.gen)})
		})
	}
	slices.SortFunc(list, func(a, b entry) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	for _, x := range list {
		r := w.rs[x.at.region()]
		e := r.ents.at(x.at.slot())
		if !yield(x.id, e.kind, r.kinds[e.kind].store.At(e.state)) {
			return
		}
	}
}

// Final returns the end of the run as the model's results and pictures see it.
func (o *Outcome) Final(m sim.Measured) *sim.Final {
	f := &sim.Final{End: o.End, Events: o.Events, Program: o.prog, States: o.States, Measured: m}
	if o.Map != nil {
		for i := range o.Map.Len() {
			f.Regions = append(f.Regions, o.Map.DrawBox(i))
		}
	}
	return f
}
