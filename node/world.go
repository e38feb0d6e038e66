package node

import (
	"context"
	"fmt"
	"math"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/partition"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
)

// world is what all regions of a run share. It does not change while events run; the directory and the
// regions' owners of entities change at cuts.
type world struct {
	prog *sim.Program
	// rs holds the regions; nil for those of other members.
	rs      []*region
	regions int
	// members tells who owns which region; nil in a run of one process.
	members *members
	dir     *directory
	// dense is how many entities the scenario has: their ids are 1 to dense.
	dense int

	limits     sim.Limits
	lookahead  sim.Duration
	localSends bool
	chainLimit uint32
	trace      bool
	sink       sim.Sink
	bins       int

	// space and pmap are nil without a space.
	space *spatial.Space
	pmap  *partition.Map
	// slack is how far an entity may be outside its region before the next cut, margin how far from
	// a region an entity may be for the region to need a ghost of it, both in metres; infinite if
	// positions may jump.
	slack, margin float64
	// tolerance is how far a published position may be from where it can be, for rounding.
	tolerance float64
	// cutEvery is the time between cuts; Forever if none are needed.
	cutEvery sim.Duration

	// past is what was counted before the checkpoint from which the run was restored.
	past counts
	// atCut, if not nil, is called at the end of a cut: a seam for tests.
	atCut func(t sim.Time)

	// buffers of the regions for encoding states.
	buffers [][]byte
}

func newSpace(p *sim.Program) (*spatial.Space, error) { return spatial.New(p.Space) }

// members tells which member of a cluster owns which region.
type members struct {
	owner []int
	me    int
	// n is how many members there are.
	n int
	// ahead is the lookahead between regions, closed over shortest paths.
	ahead *lbts.Matrix
	// digest covers the program and how it is cut: members must agree on it.
	digest uint64
}

// isLocal reports whether region i belongs to this process.
func (w *world) isLocal(i int) bool { return w.members == nil || w.members.owner[i] == w.members.me }

// divided reports whether other members own regions.
func (w *world) divided() bool { return w.members != nil && w.members.n > 1 }

// local lists the regions of this process.
func (w *world) local() (list []*region) {
	for _, r := range w.rs {
		if r != nil {
			list = append(list, r)
		}
	}
	return list
}

// newWorld cuts the program into regions and places the entities of those that belong to this process;
// m is nil if all do.
func newWorld(ctx context.Context, p *sim.Program, o Options, m *members) (*world, error) {
	w := &world{
		members: m,
		prog:    p, regions: o.Regions, dense: len(p.EntityKind), limits: p.Limits,
		lookahead: p.Limits.Lookahead, localSends: p.Limits.LocalSends,
		chainLimit: o.ChainLimit, trace: o.Trace && o.Sink != nil, sink: o.Sink, bins: o.Bins,
		cutEvery: sim.Forever, buffers: make([][]byte, o.Regions),
	}
	w.dir = newDirectory(w.dense, w.divided())
	if p.Space.Kind != sim.NoSpace {
		s, err := newSpace(p)
		if err != nil {
			return nil, err
		}
		w.space = s
	}
	owner, err := w.assign()
	if err != nil {
		return nil, err
	}
	if w.space != nil {
		w.measure()
	}
	if m != nil {
		w.note(owner)
	}
	for i := range w.regions {
		w.rs = append(w.rs, nil)
		if !w.isLocal(i) {
			continue
		}
		w.rs[i] = newRegion(w, i)
		if w.space != nil {
			w.rs[i].view = newView(w)
		}
	}
	if o.Restore != nil {
		w.settleNothing()
	} else if err := w.settle(ctx, owner); err != nil {
		return nil, err
	}
	p.Release()
	return w, nil
}

// assign returns the region of each entity of the scenario: by the partition map where there is a
// space, otherwise by id in stretches of equal weight.
func (w *world) assign() ([]int32, error) {
	p := w.prog
	owner := make([]int32, w.dense)
	if w.space == nil {
		w.assignByID(owner)
		w.dir.byID(owner, w.regions)
		return owner, nil
	}
	points := make([]partition.Point, w.dense)
	for i := range points {
		points[i] = partition.Point{Pos: w.space.Wrap(p.EntityPos[i]), Weight: w.weight(i)}
	}
	m, err := partition.Build(w.space, points, w.regions)
	if err != nil {
		return nil, err
	}
	w.pmap = m
	if w.regions > 1 {
		for i := range owner {
			owner[i] = int32(m.Region(points[i].Pos))
		}
	}
	return owner, nil
}

func (w *world) weight(i int) float64 {
	if i < len(w.prog.EntityWeight) {
		return float64(w.prog.EntityWeight[i])
	}
	return 1
}

func (w *world) assignByID(owner []int32) {
	total := 0.0
	for i := range owner {
		total += w.weight(i)
	}
	sum := 0.0
	for i := range owner {
		share := float64(i) / float64(len(owner))
		if total > 0 {
			share = sum / total
		}
		owner[i] = int32(min(int(share*float64(w.regions)), w.regions-1))
		sum += w.weight(i)
	}
}

// measure chooses slack, ghost margin and the time between cuts.
func (w *world) measure() {
	l := w.limits
	// The same for any number of regions, since it decides what is refused.
	w.tolerance = 1e-6 * (l.Range + l.Speed)
	if w.space.Spec().Kind == sim.Earth {
		w.tolerance = 2
	}
	if w.regions == 1 {
		return
	}
	if l.Speed <= 0 {
		w.slack, w.margin = math.Inf(1), math.Inf(1)
		w.cutEvery = max(sim.Duration(w.prog.End)/128, w.lookahead, 1)
		return
	}
	aged := l.Speed * l.Lookahead.Seconds()
	w.slack = max(l.Range/4, w.width()/32, 8*aged)
	w.cutEvery = max(sim.FromSeconds(w.slack/l.Speed), 1)
	// Between cuts both the observer and the observed leave their places by up to slack, and what is
	// seen is up to one lookahead old; the tenth allows for tolerated rounding.
	w.margin = l.Range + 2*w.slack + 2*aged + 0.1*w.slack + 100*w.tolerance
}

// width is the mean side of a region in metres.
func (w *world) width() float64 {
	sum := 0.0
	for i := range w.regions {
		b := w.pmap.DrawBox(i)
		sum += w.space.Distance(b.Min, sim.Vec{X: b.Max.X, Y: b.Min.Y, Z: b.Min.Z}) +
			w.space.Distance(b.Min, sim.Vec{X: b.Min.X, Y: b.Max.Y, Z: b.Min.Z})
	}
	return sum / float64(2*w.regions)
}

// settle places the scenario's entities and their first events, unless ctx is done.
func (w *world) settle(ctx context.Context, owner []int32) error {
	p := w.prog
	for _, r := range w.local() {
		for k := range r.kinds {
			if w.regions == 1 {
				r.kinds[k].store = p.Kinds[k].InitialStore()
			} else {
				r.kinds[k].store = p.Kinds[k].NewStore()
			}
		}
	}
	w.makeRoom(owner)
	for i, kind := range p.EntityKind {
		if i&(1<<16-1) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r := w.rs[owner[i]]
		if r == nil {
			w.dir.set(sim.EntityID(i+1), makePlace(int(owner[i]), 0, 0))
			continue
		}
		id := sim.EntityID(i + 1)
		var pos sim.Vec
		if w.space != nil {
			pos = w.space.Wrap(p.EntityPos[i])
		}
		slot := r.settle(id, kind, pos)
		e := r.ents.at(slot)
		e.state = p.EntityState[i]
		if w.regions > 1 {
			e.state = r.kinds[kind].store.Take(p.Kinds[kind].InitialStore(), e.state)
		}
		at := makePlace(r.id, slot, 0)
		w.dir.set(id, at)
		if p.Kinds[kind].Start != nil {
			r.queue.push(startMessage(0, at, id))
		}
	}
	w.settleEvents()
	return nil
}

// settleEvents queues the scenario's first events.
func (w *world) settleEvents() {
	p := w.prog
	for _, ev := range p.Initial {
		at := w.dir.find(ev.Entity)
		r := w.rs[at.region()]
		if r == nil {
			continue
		}
		e := r.ents.at(at.slot())
		e.seq++
		if ev.At != sim.Never {
			r.queue.push(&sim.Message{
				Time: ev.At, Key: sim.MakeKey(p.Events[ev.Event].Priority, ev.Entity),
				Seq: e.seq<<16 | uint64(ev.Event), Dst: uint64(at), Body: ev.Body,
			})
		}
	}
}

// makeRoom gives each region room for the places of as many entities as it begins with.
func (w *world) makeRoom(owner []int32) {
	if w.space == nil {
		return
	}
	counts := make([]int, w.regions)
	for _, i := range owner {
		counts[i]++
	}
	for _, r := range w.local() {
		r.pos = make([]sim.Vec, 0, counts[r.id])
	}
}

// widest bounds a day of the queues: with several regions a fraction of the lookahead, so that regions
// report several times in each and need not wait for one another.
func (w *world) widest() sim.Duration {
	switch {
	case w.lookahead == 0:
		return sim.Forever
	case w.regions == 1:
		return w.lookahead
	}
	return max(w.lookahead/4, 1)
}

// reach adds the regions that need a ghost of an entity at p.
func (w *world) reach(p sim.Vec, set regionSet) {
	if w.regions == 1 || math.IsInf(w.margin, 1) {
		for i := range w.regions {
			set.add(i)
		}
		return
	}
	for _, i := range w.pmap.Near(p, w.margin, nil) {
		set.add(i)
	}
}

// nearer reports whether the lookahead between two regions depends on how far apart they are.
func (w *world) nearer() bool {
	return w.localSends && w.space != nil && !math.IsInf(w.margin, 1) && w.regions > 1
}

// matrix is the lookahead between regions, not closed.
func (w *world) matrix() *lbts.Matrix {
	if w.nearer() {
		return lbts.Spatial(w.regions, w.lookahead, w.pmap.Gap, w.margin, 0, w.limits.Speed)
	}
	m := lbts.NewMatrix(w.regions)
	for i := range w.regions {
		for j := range w.regions {
			if i != j {
				m.Set(i, j, w.lookahead)
			}
		}
	}
	return m
}

// closed is the lookahead closed over shortest paths.
func (w *world) closed() (*lbts.Matrix, error) {
	m := w.matrix()
	if err := m.Close(); err != nil {
		return nil, fmt.Errorf("model %s on %d regions: %w", w.prog.Model.Name, w.regions, err)
	}
	return m, nil
}

// solver makes the grants of a run in one process.
func (w *world) solver() (*lbts.Solver, error) {
	m, err := w.closed()
	if err != nil {
		return nil, err
	}
	return lbts.New(m)
}

// scratch lends a region a buffer; keepScratch gives it back.
func (w *world) scratch(region int) []byte          { return w.buffers[region][:0] }
func (w *world) keepScratch(region int, buf []byte) { w.buffers[region] = buf }
