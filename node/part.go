package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// PartOptions say which share of a run a member of a cluster carries out, and how. But for Owner they do
// not change a result, and Owner does not either.
type PartOptions struct {
	// Owner is the member that owns each region.
	Owner []int
	// Me is the own member.
	Me int
	// Workers is how many regions are worked on at once; 0 means as many as there are processors, at
	// most one a region.
	Workers int
	// Observe says that what is observed is wanted, Trace that every event handled is.
	Observe, Trace bool
	// Bins and ChainLimit are those of Options.
	Bins       int
	ChainLimit uint32
	// Restore is the checkpoint to begin from, nil to begin with the scenario. Its entities come by Part.Restore
	// and Part.TakeRestored.
	Restore *RestoredFrom
	// Checkpoints says that Part.Checkpoint may be called.
	Checkpoints bool
	// TurnEvents is how many events a turn of a region handles at least; 0 lets their cost decide. With
	// it, and with Turn instead of Start, equal calls give equal frames: no wall time is measured.
	TurnEvents uint64
	// Wake is called when Collect may have something. It comes from any goroutine, with the lock of the
	// part held: it must neither block nor call the part.
	Wake func()
}

// flushAfter is for how long a part with work to do keeps what others wait for.
const flushAfter = 5 * time.Millisecond

// patience is for how long workers without a whole bucket to run wait for a better bound.
const patience = 300 * time.Microsecond

// Part is the share of a run that one member of a cluster carries out: the regions that it owns, under
// grants that come from the coordinator. Its methods are those of control.Executor; they may be called
// while workers run, from one goroutine at a time.
type Part struct {
	*crew
	shape   control.Shape
	options PartOptions
	group   sync.WaitGroup

	// By region of this member; unused for others.
	next   []sim.Time
	bounds []sim.Time
	// waiting are grants that need batches which have not come, largest bound last.
	waits [][]lbts.Grant
	dirty []bool
	// sent is the least time stamp of what was sent to each region since the last report; got is the
	// last frame of what was received from each. Both by region of this member, then the other.
	sent [][]sim.Time
	got  [][]uint64

	// By member: event frames sent and received, and what goes into the next one.
	frames, received []uint64
	outgoing         [][]*piece
	// spares are pieces that were sent, for their room.
	spares []*piece

	// stats of the regions, as their last turns left them.
	stats     []RegionStats
	stopAsked bool
	changes   bool
	flushed   time.Time
	// granted is when a bound was raised last. staffed says that there are workers, alarm wakes them when
	// they have waited long enough for a better bound.
	granted time.Time
	staffed bool
	alarm   *time.Timer
	// overdue reports receipts that have waited long enough.
	overdue *time.Timer
	// restoring tells publications apart that several members restore; nil after the restore.
	restoring map[heardID]bool
	// cutting is the time of the cut under way, or negative.
	cutting  sim.Time
	cuts     int
	migrated int
}

// NewPart sets up a member's share of a run. The program is set up whole on every member, so that all cut
// it in the same way; what other members own is then dropped.
func NewPart(ctx context.Context, p *sim.Program, o PartOptions) (*Part, error) {
	m, err := newMembers(o)
	if err != nil {
		return nil, err
	}
	options := Options{Regions: len(o.Owner), Workers: o.Workers, Trace: o.Trace, Bins: o.Bins, ChainLimit: o.ChainLimit}
	if o.Restore != nil {
		options.Restore = &Restore{At: o.Restore.At}
		if o.Restore.At >= p.End {
			return nil, fmt.Errorf("the checkpoint is at %v and the run ends at %v: nothing is left to run", o.Restore.At, p.End)
		}
	}
	if o.Observe || o.Trace {
		options.Sink = observed{}
	}
	if err := Check(p, options); err != nil {
		return nil, err
	}
	if err := p.Take(); err != nil {
		return nil, err
	}
	w, err := newWorld(ctx, p, options.withDefaults(), m)
	if err != nil {
		return nil, err
	}
	if m.ahead, err = w.closed(); err != nil {
		return nil, err
	}
	return newPart(w, o), nil
}

// observed stands for the recording member where only its presence matters.
type observed struct{}

// Observe implements sim.Sink.
func (observed) Observe([]sim.Observation) error {
	return errors.New("engine fault: a part hands its observations to the recording member")
}

func newMembers(o PartOptions) (*members, error) {
	m := &members{owner: o.Owner, me: o.Me}
	for i, owner := range o.Owner {
		if owner < 0 || owner >= MaxRegions {
			return nil, fmt.Errorf("region %d is owned by member %d: members are 0 to %d", i, owner, MaxRegions-1)
		}
		m.n = max(m.n, owner+1)
	}
	if o.Me < 0 || o.Me >= m.n {
		return nil, fmt.Errorf("member %d of %d owns no region", o.Me, m.n)
	}
	return m, nil
}

func newPart(w *world, o PartOptions) *Part {
	p := &Part{options: o, cutting: -1}
	if p.options.Wake == nil {
		p.options.Wake = func() {}
	}
	own := len(w.local())
	workers := o.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	p.crew = newCrew(w, max(min(workers, own), 1), p)
	// Several processes may share the processors: a worker that waits for a grant must leave them alone.
	p.spin = false
	p.turnEvents = o.TurnEvents
	p.shape = w.shape()
	p.setCap(0)
	if o.Checkpoints {
		w.follow()
	}
	p.next, p.bounds = make([]sim.Time, w.regions), make([]sim.Time, w.regions)
	p.waits, p.dirty = make([][]lbts.Grant, w.regions), make([]bool, w.regions)
	p.sent, p.got = make([][]sim.Time, w.regions), make([][]uint64, w.regions)
	for _, r := range p.own {
		p.next[r.id] = r.next()
		p.got[r.id] = make([]uint64, w.regions)
		p.sent[r.id] = make([]sim.Time, w.regions)
		for j := range p.sent[r.id] {
			p.sent[r.id][j] = sim.Never
		}
	}
	p.stats = make([]RegionStats, w.regions)
	for _, r := range p.own {
		p.stats[r.id] = r.stats()
	}
	n := w.members.n
	p.frames, p.received, p.outgoing = make([]uint64, n), make([]uint64, n), make([][]*piece, n)
	return p
}

// setCap sets where regions will be stopped next after a cut at time t, as the coordinator does; it may stop
// them earlier.
func (p *Part) setCap(t sim.Time) {
	p.cap = min(p.shape.End, t.Add(p.shape.CutEvery))
	if every := p.shape.StopEvery; every > 0 {
		p.cap = min(p.cap, (t - t%sim.Time(every)).Add(every))
	}
}

// Start starts the workers.
func (p *Part) Start() {
	p.staffed = true
	for id := range p.workers {
		p.employ(&p.group, id)
	}
}

// Stop ends the workers and waits for them; a handler that is running is waited for.
func (p *Part) Stop() {
	p.stop()
	p.mu.Lock()
	for _, t := range []*time.Timer{p.alarm, p.overdue} {
		if t != nil {
			t.Stop()
		}
	}
	p.mu.Unlock()
	p.group.Wait()
}

// Turn runs one turn of one region on the caller's goroutine and reports whether there was one to run. It
// is for callers that want one thread of control, instead of Start.
func (p *Part) Turn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, bound := p.choose(0)
	if i < 0 {
		if p.hold {
			p.pace.held()
		} else {
			p.pace.idle()
		}
		return false
	}
	p.turn(i, bound)
	return true
}

// Shape returns what the coordinator must know of the program.
func (p *Part) Shape() control.Shape { return p.shape }

// effective implements pace.
func (p *Part) effective(i int) sim.Time { return p.next[i] }

// bound implements pace.
func (p *Part) bound(i int) sim.Time { return p.bounds[i] }

// delivered implements pace.
func (p *Part) delivered(_, to int, least sim.Time) {
	if least < p.next[to] {
		p.next[to] = least
		p.mark(to)
	}
}

// mark notes that a region has something to report.
func (p *Part) mark(i int) {
	p.dirty[i] = true
	p.changes = true
}

// settled implements pace.
func (p *Part) settled(r *region, next sim.Time) {
	if r.failure != nil && r.stopped() {
		next = max(next, r.failure.Time.Add(1)) // nothing at or below that time will run any more
	}
	p.next[r.id] = next
	p.mark(r.id)
	p.stats[r.id] = r.stats()
	p.stopAsked = p.stopAsked || r.stopAsked
	for m, piece := range r.pieces {
		if piece == nil || len(piece.data) == 0 {
			continue
		}
		for _, s := range piece.sent {
			p.sent[r.id][s.region] = min(p.sent[r.id][s.region], s.least)
		}
		p.outgoing[m] = append(p.outgoing[m], piece)
		r.pieces[m] = p.sparePiece()
	}
	if time.Since(p.flushed) > flushAfter {
		p.options.Wake()
	}
}

// sparePiece returns an empty piece with room, or nil if there is none.
func (p *Part) sparePiece() *piece {
	n := len(p.spares)
	if n == 0 {
		return nil
	}
	spare := p.spares[n-1]
	p.spares = p.spares[:n-1]
	return spare
}

// recycle takes back pieces that were copied into frames.
func (p *Part) recycle(outgoing [][]*piece) {
	if len(outgoing) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pieces := range outgoing {
		for _, piece := range pieces {
			piece.data, piece.sent = piece.data[:0], piece.sent[:0]
		}
		p.spares = append(p.spares, pieces...)
	}
}

// idle implements pace: no region can go on before something comes from outside.
func (p *Part) idle() bool {
	if p.changes || p.npending > 0 {
		p.options.Wake()
	}
	return true
}

// held implements pace.
func (p *Part) held() { p.options.Wake() }

// eager implements pace. What comes for a bucket that is open costs more than what comes before, and a
// better bound is mostly on its way: a part waits a little for it. Where buckets are small against the
// lookahead, some region of the run always has a whole one below its bound.
func (p *Part) eager(r *region) bool {
	if !p.staffed || r.queue.width() > p.w.lookahead/2 || time.Since(p.granted) >= patience {
		return true
	}
	if p.alarm == nil {
		p.alarm = time.AfterFunc(patience, func() {
			p.mu.Lock()
			p.alarm = nil
			p.changed()
			p.mu.Unlock()
		})
	}
	return false
}

// Grant raises the bounds of regions, of each once the batches that it needs have come.
func (p *Part) Grant(grants []lbts.Grant) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range grants {
		if g.Region < 0 || g.Region >= p.w.regions || !p.w.isLocal(g.Region) {
			return fmt.Errorf("grant for region %d, which member %d does not own", g.Region, p.options.Me)
		}
		for _, n := range g.Needs {
			if n.From < 0 || n.From >= p.w.regions {
				return fmt.Errorf("grant for region %d needs a batch of region %d of %d", g.Region, n.From, p.w.regions)
			}
		}
		p.accept(g)
	}
	p.changed()
	return nil
}

// accept raises the bound of a region now, or keeps the grant until it counts.
func (p *Part) accept(g lbts.Grant) {
	switch {
	case g.Bound <= p.bounds[g.Region]:
	case p.counts(g):
		p.bounds[g.Region] = g.Bound
		p.granted = time.Now()
	default:
		g.Needs = append([]lbts.Need(nil), g.Needs...)
		p.waits[g.Region] = append(p.waits[g.Region], g)
	}
}

// counts reports whether all batches that a grant needs have come.
func (p *Part) counts(g lbts.Grant) bool {
	for _, n := range g.Needs {
		if p.received[p.w.members.owner[n.From]] < n.Batch {
			return false
		}
	}
	return true
}

// reconsider looks at the grants that waited for batches.
func (p *Part) reconsider() {
	for _, r := range p.own {
		waits := p.waits[r.id]
		if len(waits) == 0 {
			continue
		}
		p.waits[r.id] = nil
		for _, g := range waits {
			p.accept(g)
		}
	}
}

// Hold keeps regions from being run, or lets them run again.
func (p *Part) Hold(on bool) {
	p.mu.Lock()
	p.hold = on
	p.changed()
	p.mu.Unlock()
}

// Receive takes in event frame n of a member.
func (p *Part) Receive(from int, n uint64, data []byte) error {
	if from < 0 || from >= p.w.members.n || from == p.options.Me {
		return fmt.Errorf("event frame of member %d of %d at member %d", from, p.w.members.n, p.options.Me)
	}
	if want := p.received[from] + 1; n != want {
		return fmt.Errorf("event frame %d of member %d, but %d is next: a frame was lost or came twice", n, from, want)
	}
	list, births, err := p.w.readFrame(from, data, p.room)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received[from] = n
	more := len(births) > 0
	for _, a := range list {
		more = more || len(a.box.pubs) > 0
		p.inbox[a.to] = append(p.inbox[a.to], a.box)
		p.next[a.to] = min(p.next[a.to], a.box.least)
		p.got[a.to][a.from] = n
		p.dirty[a.to] = true
	}
	for _, region := range births {
		for _, r := range p.own {
			p.got[r.id][region] = n
			p.dirty[r.id] = true
		}
	}
	p.reconsider()
	p.receipt(more)
	p.changed()
	return nil
}

// receipt sees to it that a frame that was received is reported in time. The coordinator knows of it from
// its sender and reckons with the earliest thing in it until the receiver reports. If that is an event, the
// receiver reckons with it too: another bound could not come of a receipt, which can wait a little for the next
// report. It cannot wait if there is more in the frame than events, or if a cut waits for empty channels. Of cuts
// that the coordinator brings about for a checkpoint the part does not know before, so that no receipt waits long.
func (p *Part) receipt(more bool) {
	for _, r := range p.own {
		if !more && p.staffed && p.next[r.id] < p.cap {
			p.receiptLater()
			return
		}
	}
	p.changes = true
	if p.running == 0 {
		p.options.Wake()
	}
}

// receiptLater reports what was received in a while, if nothing else does before.
func (p *Part) receiptLater() {
	if p.overdue != nil {
		return
	}
	p.overdue = time.AfterFunc(flushAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.overdue = nil
		for _, r := range p.own {
			p.changes = p.changes || p.dirty[r.id]
		}
		if p.changes {
			p.options.Wake()
		}
	})
}

// room returns an empty batch.
func (p *Part) room() *outbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newOutbox()
}

// Collect takes what there is to send and to report since the last call.
func (p *Part) Collect() control.Collected {
	p.mu.Lock()
	c := control.Collected{
		Busy: p.running > 0, Changed: p.changes, StopAsked: p.stopAsked, Fault: p.fault,
	}
	outgoing := p.number(&c)
	if p.changes {
		c.Reports = p.reports()
		p.changes = false
	}
	if f := p.failure; f != nil {
		c.Failure = &control.Failure{Time: f.Time, Key: f.key, Seq: f.seq, Text: f.Error()}
	}
	pending := p.pending
	p.flushed = time.Now()
	if len(pending) > 0 {
		p.pending, p.npending = nil, 0
		p.changed() // workers may wait for room
	}
	c.Events = p.w.past.events
	p.mu.Unlock()
	for _, r := range p.own {
		c.Events += r.shownEvents.Load()
	}
	for i := range c.Batches {
		c.Batches[i].Data = join(outgoing[i])
	}
	p.recycle(outgoing)
	c.Observations = appendObservations(nil, pending)
	return c
}

// number numbers the event frames that go out now and returns the pieces of each.
func (p *Part) number(c *control.Collected) (outgoing [][]*piece) {
	for m, pieces := range p.outgoing {
		if len(pieces) == 0 {
			continue
		}
		p.frames[m]++
		c.Batches = append(c.Batches, control.Outgoing{To: m, Number: p.frames[m]})
		outgoing = append(outgoing, pieces)
		p.outgoing[m] = nil
	}
	return outgoing
}

func join(pieces []*piece) []byte {
	n := 0
	for _, p := range pieces {
		n += len(p.data)
	}
	data := make([]byte, 0, n)
	for _, p := range pieces {
		data = append(data, p.data...)
	}
	return data
}

// reports tells of the regions that changed since the last time.
func (p *Part) reports() (list []lbts.Report) {
	for _, r := range p.own {
		i := r.id
		if !p.dirty[i] {
			continue
		}
		p.dirty[i] = false
		report := lbts.Report{Region: i, Next: p.next[i]}
		for j, least := range p.sent[i] {
			if least != sim.Never {
				report.Sent = append(report.Sent, lbts.Sent{To: j, Batch: p.frames[p.w.members.owner[j]], Least: least})
				p.sent[i][j] = sim.Never
			}
		}
		for j, n := range p.got[i] {
			if n > 0 {
				report.Received = append(report.Received, lbts.Received{From: j, Batch: n})
				p.got[i][j] = 0
			}
		}
		list = append(list, report)
	}
	return list
}

// State returns the state of the member's regions.
func (p *Part) State() (list []control.RegionState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.own {
		held := p.bounds[r.id]
		for _, g := range p.waits[r.id] {
			held = max(held, g.Bound)
		}
		list = append(list, control.RegionState{Region: r.id, Next: p.next[r.id], Held: held})
	}
	return list
}

// Cut does the member's share of a cut at time t and returns the parcel for each member.
func (p *Part) Cut(t sim.Time) ([][]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.barred = true; p.slicing > 0 {
		p.calm()
	}
	if p.running > 0 || p.cutting >= 0 {
		return nil, fmt.Errorf("engine fault: cut at %v while %d regions run and the cut at %v is under way", t, p.running, p.cutting)
	}
	for _, r := range p.own {
		if p.next[r.id] < t {
			return nil, fmt.Errorf("engine fault: cut at %v while region %d is at %v", t, r.id, p.next[r.id])
		}
		p.takeInbox(r)
	}
	p.cutting = t
	migrated, out := p.w.reshape(t)
	p.migrated += migrated
	parcels := make([][]byte, len(out))
	for m, parcel := range out {
		if m != p.options.Me {
			parcels[m] = parcel.append(nil)
		}
	}
	return parcels, nil
}

// takeInbox takes in what was sent to a region.
func (c *crew) takeInbox(r *region) {
	r.takeIn(c.inbox[r.id])
	c.spare = append(c.spare, c.inbox[r.id]...)
	c.inbox[r.id] = c.inbox[r.id][:0]
}

// TakeParcel takes in the parcel of another member for the cut under way.
func (p *Part) TakeParcel(from int, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutting < 0 {
		return fmt.Errorf("engine fault: parcel of member %d without a cut", from)
	}
	return p.w.unpack(from, data, p.cutting)
}

// EndCut ends a cut whose parcels are all taken in and returns the next event of each of the member's
// regions.
func (p *Part) EndCut() ([]sim.Time, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutting < 0 {
		return nil, errors.New("engine fault: the end of a cut that was not begun")
	}
	p.setCap(p.cutting)
	p.cutting = -1
	p.barred = false
	p.cuts++
	p.changed()
	return p.lookAgain(), nil
}

// lookAgain takes note of regions whose content changed in another way than by running; it returns the next
// event of each.
func (p *Part) lookAgain() (list []sim.Time) {
	for _, r := range p.own {
		p.next[r.id] = r.next()
		p.stats[r.id] = r.stats()
		list = append(list, r.next())
	}
	return list
}

// calm waits until no slice of a checkpoint is being saved.
func (c *crew) calm() {
	for c.slicing > 0 {
		c.sleep()
	}
}

// RegionStats tell people what a region is doing.
type RegionStats struct {
	Region int
	// Now is the time of the last event handled, Next that of the next one, Bound that below which it may
	// run.
	Now, Next, Bound sim.Time
	// Events handled, Queued events that are pending, entities that it owns and ghosts that it shows.
	Events                   uint64
	Queued, Entities, Ghosts int
}

func (r *region) stats() RegionStats {
	s := RegionStats{Region: r.id, Now: r.now, Events: r.events, Queued: r.queue.n, Entities: r.ents.len()}
	if r.view != nil {
		// What it shows and has not published itself.
		s.Ghosts = max(0, len(r.view.known)-(len(r.view.own)-len(r.view.ownFree)))
	}
	return s
}

// Stats returns what the member's regions are doing, as of the end of their last turns.
func (p *Part) Stats() (list []RegionStats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.own {
		s := p.stats[r.id]
		s.Next, s.Bound = p.next[r.id], p.bounds[r.id]
		list = append(list, s)
	}
	return list
}
