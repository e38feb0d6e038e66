package control

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// This file is a program in miniature and an executor for it: entities that send events to one another
// with a lookahead, change regions at cuts, observe, ask for the end and fail.

type toyEvent struct {
	at       sim.Time
	src, dst int
	seq      uint64
	hops     int
}

func (e toyEvent) before(f toyEvent) bool {
	switch {
	case e.at != f.at:
		return e.at < f.at
	case e.src != f.src:
		return e.src < f.src
	}
	return e.seq < f.seq
}

type toyEntity struct {
	rng, seq, digest uint64
	ran              int
}

func (n *toyEntity) draw(k int) int {
	n.rng += 0x9e3779b97f4a7c15
	return int(toyMix(n.rng) % uint64(k))
}

func toyMix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

type toyModel struct {
	seed                uint64
	entities, regions   int
	ahead               sim.Duration
	end                 sim.Time
	cutEvery, stopEvery sim.Duration
	// stopper asks for the end when it has run stopAfter events; failers fail at their failAfter-th.
	stopper, stopAfter int
	failers            []int
	failAfter          int
	first              []toyEvent
	version            uint64
}

// place is the region of an entity after a cut.
func (m *toyModel) place(e int, cut sim.Time) int {
	return int(toyMix(uint64(e)<<32^uint64(cut)^m.seed) % uint64(m.regions))
}

func (m *toyModel) fresh() []toyEntity {
	list := make([]toyEntity, m.entities)
	for i := range list {
		list[i] = toyEntity{rng: toyMix(m.seed ^ uint64(i)<<40), seq: 1000}
	}
	return list
}

// handle runs an event; it reports a failure and whether the entity asks for the end.
func (m *toyModel) handle(n *toyEntity, e toyEvent, emit func(toyEvent)) (failed, stop bool) {
	n.digest = toyMix(n.digest ^ uint64(e.at))
	n.digest = toyMix(n.digest ^ uint64(e.src)<<20 ^ e.seq)
	n.ran++
	if n.ran == m.failAfter && slices.Contains(m.failers, e.dst) {
		return true, false
	}
	stop = e.dst == m.stopper && n.ran >= m.stopAfter
	if e.hops == 0 {
		return false, stop
	}
	for range n.draw(3) {
		dst := n.draw(m.entities)
		delay := sim.Duration(1 + n.draw(5)) // at once, an event could come before its cause in order
		if dst != e.dst {
			delay += m.ahead - 1
		}
		n.seq++
		emit(toyEvent{e.at.Add(delay), e.dst, dst, n.seq, e.hops - 1})
	}
	return false, stop
}

func toyInsert(queue []toyEvent, e toyEvent) []toyEvent {
	k := sort.Search(len(queue), func(i int) bool { return e.before(queue[i]) })
	return slices.Insert(queue, k, e)
}

func toyFirst(queue []toyEvent) sim.Time {
	if len(queue) == 0 {
		return sim.Never
	}
	return queue[0].at
}

func toyLine(e toyEvent) string { return fmt.Sprintf("%d:%d>%d#%d", int64(e.at), e.src, e.dst, e.seq) }

// toyOutcome is the end of a run.
type toyOutcome struct {
	at      sim.Time
	how     Ending
	digest  uint64
	events  int
	seen    []string
	failure string
}

func (o *toyOutcome) result() string {
	return fmt.Sprintf("at %d how %d digest %x events %d", int64(o.at), o.how, o.digest, o.events)
}

// sequential is the oracle: one queue in order, up to end.
func (m *toyModel) sequential(end sim.Time) *toyOutcome {
	o := &toyOutcome{at: m.end, how: EndReached}
	list := m.fresh()
	var queue []toyEvent
	for _, e := range m.first {
		queue = toyInsert(queue, e)
	}
	if end < m.end {
		o.at, o.how = end, EndInterrupted
	}
	for len(queue) > 0 && queue[0].at < o.at {
		e := queue[0]
		queue = queue[1:]
		failed, stop := m.handle(&list[e.dst], e, func(f toyEvent) { queue = toyInsert(queue, f) })
		if failed {
			o.at, o.how, o.failure = e.at, EndFailed, fmt.Sprintf("entity %d failed at %d", e.dst, int64(e.at))
			// What was observed at the time of the failure does not count.
			for len(o.seen) > 0 && strings.HasPrefix(o.seen[len(o.seen)-1], fmt.Sprintf("%d:", int64(e.at))) {
				o.seen = o.seen[:len(o.seen)-1]
			}
			return o
		}
		o.seen = append(o.seen, toyLine(e))
		if stop && m.stopEvery > 0 && o.how != EndStopped {
			every := sim.Time(m.stopEvery)
			if at := (e.at/every + 1) * every; at < m.end && at <= o.at {
				o.at, o.how = at, EndStopped
			}
		}
	}
	for _, n := range list {
		o.digest += toyMix(n.digest ^ uint64(n.ran))
		o.events += n.ran
	}
	return o
}

// toyRegion is a region of the executor.
type toyRegion struct {
	id      int
	queue   []toyEvent
	inbox   []toyEvent
	next    sim.Time // as others know it
	bound   sim.Time
	now     sim.Time
	waits   []lbts.Grant
	dirty   bool
	busy    bool
	out     []toyEvent // of the turn under way
	sent    []sim.Time
	got     []uint64
	failure *Failure
}

type toyExecutor struct {
	model *toyModel
	input func(Input) // what it began has ended
	wrong func(string, ...any)
	// refuse makes setting up fail.
	refuse string

	job      *Job
	me       int
	epoch    uint64
	held     bool
	ents     []toyEntity
	regions  []*toyRegion // nil for those of others
	cutAt    sim.Time
	cutting  bool
	frames   []uint64
	received []uint64
	outgoing [][]toyEvent
	lines    []string
	changes  bool
	events   uint64
	stop     bool
	failure  *Failure
	backlog  bool
	finished *toyOutcome

	// of the member that records
	waiting  []toyEvent
	seen     []string
	got      []uint64
	floor    sim.Time
	floors   []toyFloor
	lasts    int
	sum      toyOutcome
	dropped  string
	prepares int

	// disks are those of all nodes by name, self the own name.
	disks map[string]*toyDisk
	self  string
	// committed reports whether the log has committed a checkpoint of the job.
	committed func(n uint64) bool
	// open is the checkpoint that is neither committed nor given up, writing what is left to do for it.
	open    uint64
	writing *toyWriting
	// failSave makes writing fail.
	failSave bool
	// early is what is said to be durable and is not: "own" or "copy".
	early string
	// lastsIn counts the members whose pieces of a restore are in; retrieved says that the own are out.
	lastsIn             int
	retrieved, restored bool
}

// toyDisk is what a node has stored: parts by number of the checkpoint and part.
type toyDisk struct {
	parts map[[2]uint64][]byte
	// wiped says that it was lost once.
	wiped bool
}

// toyWriting is a checkpoint being written.
type toyWriting struct {
	number  uint64
	at      sim.Time
	partner int
	data    []byte
	own     bool // written here
	// lines are what was recorded up to at, on the recorder once known.
	lines  []string
	logged bool
}

type toyFloor struct {
	at     sim.Time
	frames []uint64
}

func (x *toyExecutor) Prepare(job *Job, me int) {
	*x = toyExecutor{model: x.model, input: x.input, wrong: x.wrong, refuse: x.refuse, prepares: x.prepares + 1, disks: x.disks, self: x.self, committed: x.committed, early: x.early}
	x.job, x.me, x.epoch = job, me, job.Epoch
	x.model.regions = len(job.Owner)
	n := len(job.Members)
	x.ents, x.regions = x.model.fresh(), make([]*toyRegion, len(job.Owner))
	x.frames, x.received, x.outgoing, x.got = make([]uint64, n), make([]uint64, n), make([][]toyEvent, n), make([]uint64, n)
	for i, owner := range job.Owner {
		if owner == me {
			x.regions[i] = &toyRegion{id: i, sent: make([]sim.Time, len(job.Owner)), got: make([]uint64, len(job.Owner)), now: -1}
			for j := range x.regions[i].sent {
				x.regions[i].sent[j] = sim.Never
			}
		}
	}
	if job.Restore != nil {
		x.ents, x.cutAt = make([]toyEntity, x.model.entities), job.Restore.At
		x.input(Prepared{Epoch: x.epoch, Err: x.refuse})
		return
	}
	for _, e := range x.model.first {
		if r := x.regions[x.model.place(e.dst, 0)]; r != nil {
			r.queue = toyInsert(r.queue, e)
		}
	}
	for _, r := range x.own() {
		r.next = toyFirst(r.queue)
	}
	x.input(Prepared{Epoch: x.epoch, Err: x.refuse})
}

// part encodes what the member's regions hold: entities with their events, and what was recorded.
func (x *toyExecutor) part() []byte {
	var p []byte
	for e, n := range x.ents {
		r := x.regions[x.model.place(e, x.cutAt)]
		if r == nil {
			continue
		}
		var events []toyEvent
		for _, ev := range r.queue {
			if ev.dst == e {
				events = append(events, ev)
			}
		}
		p = appendToyEntity(p, e, &n, events)
	}
	return p
}

func appendToyEntity(p []byte, e int, n *toyEntity, events []toyEvent) []byte {
	p = number(p, uint64(e))
	p = number(number(number(number(p, n.rng), n.seq), n.digest), uint64(n.ran))
	return blob(p, appendToys(nil, events))
}

func (x *toyExecutor) Checkpoint(n uint64, at sim.Time, partner int) {
	if x.open != 0 {
		x.wrong("checkpoint %d while %d is open", n, x.open)
	}
	if x.busy() || x.cutting || x.cutAt != at {
		x.wrong("checkpoint %d at %d of member %d that is not at that cut", n, at, x.me)
	}
	stop := number(nil, 0)
	if x.stop {
		stop = number(nil, 1)
	}
	x.open = n
	x.writing = &toyWriting{number: n, at: at, partner: partner, data: append(stop, x.part()...), logged: x.me != x.job.Recorder}
	x.pour()
}

// canWrite reports whether there is something to write for a checkpoint.
func (x *toyExecutor) canWrite() bool { return x.job != nil && x.writing != nil && x.writing.logged }

// write writes the next piece of a checkpoint: here, then at the partner.
func (x *toyExecutor) write() {
	w := x.writing
	lines := []byte(strings.Join(w.lines, "\n"))
	root := hashOf(slices.Concat(w.data, lines))
	part := CheckpointPart{Root: root, Base: w.number}
	key := [2]uint64{w.number, uint64(x.me)}
	whole := append(blob(nil, w.data), lines...)
	switch {
	case x.failSave:
		x.failSave, x.writing = false, nil
		x.input(Saved{Epoch: x.epoch, Number: w.number, Err: "the disk is full"})
		return
	case !w.own:
		if w.own = true; x.early != "own" {
			x.disks[x.self].parts[key] = whole
		}
		if w.partner >= 0 {
			return
		}
	default:
		part.Partner = x.job.Members[w.partner]
		if x.early != "copy" {
			x.disks[part.Partner].parts[key] = whole
		}
	}
	for i, m := range x.job.Owner {
		if m == x.me {
			part.Regions = append(part.Regions, i)
		}
	}
	x.writing = nil
	x.input(Saved{Epoch: x.epoch, Number: w.number, Part: part})
}

func (x *toyExecutor) Abandon(n uint64) {
	if x.committed(n) {
		x.wrong("checkpoint %d is committed and given up at member %d", n, x.me)
	}
	if x.open != n {
		x.wrong("checkpoint %d is given up while %d is open", n, x.open)
	}
	x.open, x.writing = 0, nil
	key := [2]uint64{n, uint64(x.me)}
	delete(x.disks[x.self].parts, key)
	delete(x.disks[x.job.Members[(x.me+1)%len(x.job.Members)]].parts, key)
	x.pour()
}

func (x *toyExecutor) Committed(n uint64, kept []Checkpoint) {
	if x.open == n {
		if x.writing != nil {
			x.wrong("checkpoint %d is committed and not written at member %d", n, x.me)
		}
		x.open = 0
	}
	if kept == nil {
		return
	}
	needed := Needed(kept)
	for key := range x.disks[x.self].parts {
		if key[0] <= n && !slices.Contains(needed, key[0]) {
			delete(x.disks[x.self].parts, key)
		}
	}
}

func (x *toyExecutor) Retrieve() {
	n := len(x.job.Members)
	pieces := make([][]byte, n)
	for _, s := range x.job.Restore.Sources {
		if x.job.Members[x.me] != s.Node {
			continue
		}
		whole, ok := x.disks[x.self].parts[[2]uint64{x.job.Restore.Number, uint64(s.Part)}]
		if !ok {
			x.input(Unreadable{x.epoch, x.job.Restore.Number, s.Part, "it is not there"})
			return
		}
		size, rest := toyNumber(whole)
		data, lines := rest[:size], rest[size:]
		stop, data := toyNumber(data)
		if stop == 1 {
			for m := range pieces {
				pieces[m] = append(pieces[m], 2)
			}
		}
		for len(data) > 0 {
			var ent []byte
			e, left := toyNumber(data)
			for range 4 {
				_, left = toyNumber(left)
			}
			size, left := toyNumber(left)
			ent, data = data[:len(data)-len(left)+int(size)], left[size:]
			to := x.job.Owner[x.model.place(int(e), x.cutAt)]
			pieces[to] = blob(append(pieces[to], 1), ent)
		}
		newest := x.job.Newest()
		if s.Part == newest.Recorder {
			to := x.job.Recorder
			pieces[to] = blob(append(pieces[to], 3), lines)
		}
	}
	for to, data := range pieces {
		if to == x.me {
			x.takePieces(data)
			continue
		}
		x.input(RestorePiece{x.epoch, to, nil, false})
		x.input(RestorePiece{x.epoch, to, data, true})
	}
	x.retrieved = true
	x.whole()
}

func (x *toyExecutor) TakeRestored(from int, data []byte, last bool) error {
	x.takePieces(data)
	if last {
		x.lastsIn++
		x.whole()
	}
	return nil
}

func (x *toyExecutor) takePieces(data []byte) {
	if x.restored {
		x.wrong("a piece of a restore when all was in")
	}
	for len(data) > 0 {
		op := data[0]
		if data = data[1:]; op == 2 {
			x.stop = true
			continue
		}
		size, rest := toyNumber(data)
		piece := rest[:size]
		data = rest[size:]
		if op == 3 {
			if x.me != x.job.Recorder {
				x.wrong("what was recorded came to member %d", x.me)
			}
			if len(piece) > 0 {
				x.seen = strings.Split(string(piece), "\n")
			}
			continue
		}
		x.takeEntity(piece)
	}
}

// takeEntity takes in an entity with its events, and returns what follows.
func (x *toyExecutor) takeEntity(data []byte) []byte {
	e, rest := toyNumber(data)
	n := &x.ents[e]
	n.rng, rest = toyNumber(rest)
	n.seq, rest = toyNumber(rest)
	n.digest, rest = toyNumber(rest)
	ran, rest := toyNumber(rest)
	n.ran = int(ran)
	size, rest := toyNumber(rest)
	r := x.regions[x.model.place(int(e), x.cutAt)]
	if r == nil {
		x.wrong("entity %d came to member %d, which does not own it", e, x.me)
		return nil
	}
	for _, ev := range parseToys(rest[:size]) {
		r.queue = toyInsert(r.queue, ev)
	}
	return rest[size:]
}

// whole ends a restore when all is in.
func (x *toyExecutor) whole() {
	if !x.retrieved || x.lastsIn < len(x.job.Members)-1 || x.restored {
		return
	}
	x.restored = true
	for _, r := range x.own() {
		r.next, r.now = toyFirst(r.queue), x.cutAt-1
	}
	x.floor = x.cutAt
	x.input(RestoreEnded{Epoch: x.epoch})
}

func (x *toyExecutor) own() (list []*toyRegion) {
	for _, r := range x.regions {
		if r != nil {
			list = append(list, r)
		}
	}
	return list
}

// runnable lists the regions that a turn could begin with.
func (x *toyExecutor) runnable() (list []*toyRegion) {
	if x.held || x.cutting || x.job == nil {
		return nil
	}
	for _, r := range x.own() {
		if !r.busy && min(toyFirst(r.queue), toyFirst(r.inbox)) < x.stopAt(r) {
			list = append(list, r)
		}
	}
	return list
}

// stopAt is the bound of a region, that of a failure included.
func (x *toyExecutor) stopAt(r *toyRegion) sim.Time {
	if x.failure != nil {
		return min(r.bound, x.failure.Time.Add(1))
	}
	return r.bound
}

// beginTurn runs up to most events of a region; they show when the turn ends.
func (x *toyExecutor) beginTurn(r *toyRegion, most int) {
	r.busy = true
	for _, e := range r.inbox {
		r.queue = toyInsert(r.queue, e)
	}
	r.inbox = nil
	for range most {
		if toyFirst(r.queue) >= x.stopAt(r) {
			break
		}
		e := r.queue[0]
		r.queue = r.queue[1:]
		if e.at < r.now {
			x.wrong("region %d ran an event at %d after one at %d", r.id, e.at, r.now)
		}
		r.now = e.at
		x.events++
		failed, stop := x.model.handle(&x.ents[e.dst], e, func(f toyEvent) {
			if x.model.place(f.dst, x.cutAt) == r.id {
				r.queue = toyInsert(r.queue, f)
			} else {
				r.out = append(r.out, f)
			}
		})
		x.stop = x.stop || stop
		if failed {
			f := &Failure{e.at, uint64(e.src), e.seq, fmt.Sprintf("entity %d failed at %d", e.dst, int64(e.at))}
			if r.failure == nil || f.before(r.failure) {
				r.failure = f
			}
			if x.failure == nil || f.before(x.failure) {
				x.failure = f
			}
			continue
		}
		x.lines = append(x.lines, string(appendToy(nil, e)))
	}
}

func (x *toyExecutor) endTurn(r *toyRegion) {
	r.busy = false
	for _, e := range r.out {
		j := x.model.place(e.dst, x.cutAt)
		if q := x.regions[j]; q != nil {
			x.deliver(q, e)
			continue
		}
		r.sent[j] = min(r.sent[j], e.at)
		x.outgoing[x.job.Owner[j]] = append(x.outgoing[x.job.Owner[j]], e)
	}
	r.out = nil
	r.next = min(toyFirst(r.queue), toyFirst(r.inbox))
	if r.failure != nil && r.next > r.failure.Time {
		r.next = max(r.next, r.failure.Time.Add(1))
	}
	r.dirty, x.changes = true, true
	x.input(Progress{x.epoch})
}

func (x *toyExecutor) deliver(q *toyRegion, e toyEvent) {
	if e.at < q.now {
		x.wrong("late: an event at %d came to region %d at %d", e.at, q.id, q.now)
	}
	q.inbox = toyInsert(q.inbox, e)
	q.next = min(q.next, e.at)
	q.dirty, x.changes = true, true
}

func (x *toyExecutor) Grant(grants []lbts.Grant) error {
	for _, g := range grants {
		r := x.regions[g.Region]
		if g.Bound <= r.bound {
			x.wrong("bound of region %d went from %d to %d", g.Region, r.bound, g.Bound)
		}
		r.waits = append(r.waits, g)
	}
	x.reconsider()
	return nil
}

func (x *toyExecutor) reconsider() {
	for _, r := range x.own() {
		var keep []lbts.Grant
		for _, g := range r.waits {
			come := true
			for _, n := range g.Needs {
				come = come && x.received[x.job.Owner[n.From]] >= n.Batch
			}
			if come {
				r.bound = max(r.bound, g.Bound)
			} else {
				keep = append(keep, g)
			}
		}
		r.waits = keep
	}
}

func (x *toyExecutor) Hold(on bool) { x.held = on }

func (x *toyExecutor) busy() bool {
	return slices.ContainsFunc(x.own(), func(r *toyRegion) bool { return r.busy })
}

func (x *toyExecutor) Collect() Collected {
	c := Collected{Busy: x.busy(), Changed: x.changes, StopAsked: x.stop, Backlog: x.backlog, Events: x.events, Failure: x.failure}
	for m, events := range x.outgoing {
		if len(events) == 0 {
			continue
		}
		x.frames[m]++
		c.Batches = append(c.Batches, Outgoing{m, x.frames[m], appendToys(nil, events)})
		x.outgoing[m] = nil
	}
	for _, r := range x.own() {
		if !r.dirty {
			continue
		}
		r.dirty = false
		report := lbts.Report{Region: r.id, Next: r.next}
		for j, least := range r.sent {
			if least < sim.Never {
				report.Sent = append(report.Sent, lbts.Sent{To: j, Batch: x.frames[x.job.Owner[j]], Least: least})
			}
			r.sent[j] = sim.Never
		}
		for j, n := range r.got {
			if n > 0 {
				report.Received = append(report.Received, lbts.Received{From: j, Batch: n})
			}
			r.got[j] = 0
		}
		c.Reports = append(c.Reports, report)
	}
	x.changes = false
	if len(x.lines) > 0 {
		c.Observations = []byte(strings.Join(x.lines, ""))
		x.lines = nil
	}
	return c
}

func (x *toyExecutor) Receive(from int, n uint64, data []byte) error {
	if n != x.received[from]+1 {
		x.wrong("frame %d of member %d after %d", n, from, x.received[from])
	}
	if x.cutting {
		x.wrong("frame %d of member %d in the middle of a cut", n, from)
	}
	x.received[from] = n
	for _, e := range parseToys(data) {
		r := x.regions[x.model.place(e.dst, x.cutAt)]
		if r == nil {
			x.wrong("event for %d came to member %d, which does not own it", e.dst, x.me)
			continue
		}
		x.deliver(r, e)
		r.got[x.model.place(e.src, x.cutAt)] = n
	}
	x.reconsider()
	x.input(Progress{x.epoch})
	return nil
}

func (x *toyExecutor) Cut(t sim.Time) ([][]byte, error) {
	if x.busy() || x.cutting || len(slices.Concat(x.outgoing...)) > 0 {
		x.wrong("cut at %d of member %d that is busy, cutting or has something to send", t, x.me)
	}
	x.cutting = true
	before := x.cutAt
	x.cutAt = t
	parcels := make([][]byte, len(x.job.Members))
	for _, r := range x.own() {
		if r.next < t {
			x.wrong("cut at %d, but region %d is at %d", t, r.id, r.next)
		}
		for _, e := range r.inbox {
			r.queue = toyInsert(r.queue, e)
		}
		r.inbox = nil
	}
	// Entities that change regions take their events with them.
	for e := range x.ents {
		from, to := x.model.place(e, before), x.model.place(e, t)
		if x.regions[from] == nil || from == to {
			continue
		}
		var stay, leave []toyEvent
		for _, ev := range x.regions[from].queue {
			if ev.dst == e {
				leave = append(leave, ev)
			} else {
				stay = append(stay, ev)
			}
		}
		x.regions[from].queue = stay
		if q := x.regions[to]; q != nil {
			for _, ev := range leave {
				q.queue = toyInsert(q.queue, ev)
			}
			continue
		}
		m := x.job.Owner[to]
		n := &x.ents[e]
		parcels[m] = appendToyEntity(parcels[m], e, n, leave)
		*n = toyEntity{}
	}
	return parcels, nil
}

func (x *toyExecutor) TakeParcel(from int, data []byte) error {
	if !x.cutting {
		x.wrong("parcel of member %d outside a cut", from)
	}
	for len(data) > 0 {
		data = x.takeEntity(data)
	}
	return nil
}

func (x *toyExecutor) EndCut() ([]sim.Time, error) {
	x.cutting = false
	var list []sim.Time
	for _, r := range x.own() {
		r.next = toyFirst(r.queue)
		r.dirty = false
		list = append(list, r.next)
	}
	return list, nil
}

func (x *toyExecutor) Shape() Shape {
	return Shape{End: x.model.end, CutEvery: x.model.cutEvery, StopEvery: x.model.stopEvery, Lookahead: []sim.Duration{x.model.ahead}, Digest: x.model.seed ^ x.model.version}
}

func (x *toyExecutor) State() (list []RegionState) {
	for _, r := range x.own() {
		if len(r.waits) > 0 {
			x.wrong("region %d has a grant that waits for frames where all have come", r.id)
		}
		list = append(list, RegionState{r.id, r.next, r.bound})
	}
	return list
}

func (x *toyExecutor) Finish(at sim.Time, how Ending, reason string) {
	if x.busy() || x.finished != nil {
		x.wrong("finish of member %d that is busy or has finished", x.me)
	}
	x.finished = &toyOutcome{at: at, how: how, failure: reason}
	if x.writing != nil {
		x.wrong("the run ended while checkpoint %d was written", x.writing.number)
	}
	if how != EndFailed {
		for _, r := range x.own() {
			if min(toyFirst(r.queue), toyFirst(r.inbox)) < at {
				x.wrong("the run ended at %d, but region %d is at %d", at, r.id, toyFirst(r.queue))
			}
		}
	}
	var digest uint64
	var events int
	for e, n := range x.ents {
		if x.regions[x.model.place(e, x.cutAt)] != nil {
			digest += toyMix(n.digest ^ uint64(n.ran))
			events += n.ran
		}
	}
	x.input(FinalPart{x.epoch, number(nil, digest), false})
	x.input(FinalPart{x.epoch, number(nil, uint64(events)), true})
}

func (x *toyExecutor) Drop(reason string) {
	x.dropped = reason
	x.job = nil
}

func (x *toyExecutor) Record(from int, n uint64, data []byte) error {
	if n != x.got[from]+1 {
		x.wrong("observation frame %d of member %d after %d", n, from, x.got[from])
	}
	x.got[from] = n
	for _, e := range parseToys(data) {
		if e.at < x.floor {
			x.wrong("an observation at %d came after the floor %d", e.at, x.floor)
		}
		x.waiting = toyInsert(x.waiting, e)
	}
	x.pour()
	return nil
}

func (x *toyExecutor) Floor(at sim.Time, frames []uint64) error {
	x.floors = append(x.floors, toyFloor{at, frames})
	x.pour()
	return nil
}

// pour hands over what lies below floors whose frames are in.
func (x *toyExecutor) pour() {
	for len(x.floors) > 0 {
		f := x.floors[0]
		if w := x.writing; w != nil && !w.logged && f.at > w.at {
			x.wrong("floor %d before that of checkpoint %d at %d", f.at, w.number, w.at)
		}
		for m, n := range f.frames {
			if x.got[m] < n {
				return
			}
		}
		x.floors = x.floors[1:]
		x.floor = max(x.floor, f.at) // one of the coordinator before may come late
		for toyFirst(x.waiting) < f.at {
			x.seen = append(x.seen, toyLine(x.waiting[0]))
			x.waiting = x.waiting[1:]
		}
		if w := x.writing; w != nil && !w.logged && x.floor == w.at {
			w.lines, w.logged = slices.Clone(x.seen), true
		}
	}
}

func (x *toyExecutor) RecordFinal(from int, data []byte, last bool) error {
	if x.finished == nil {
		x.wrong("part of the result of member %d before the end", from)
		return nil
	}
	n, _ := toyNumber(data)
	if !last {
		x.sum.digest += n
		return nil
	}
	x.sum.events += int(n)
	if x.lasts++; x.lasts == len(x.job.Members) {
		if len(x.floors) > 0 {
			x.wrong("results are complete, but frames of observations are missing")
		}
		x.sum.at, x.sum.how = x.finished.at, x.finished.how
		x.input(Recording{Epoch: x.epoch, Result: []byte(x.sum.result())})
	}
	return nil
}

func appendToy(dst []byte, e toyEvent) []byte {
	return number(number(number(number(moment(dst, e.at), uint64(e.src)), uint64(e.dst)), e.seq), uint64(e.hops))
}

func appendToys(dst []byte, list []toyEvent) []byte {
	for _, e := range list {
		dst = appendToy(dst, e)
	}
	return dst
}

func parseToys(data []byte) (list []toyEvent) {
	var n [5]uint64
	for len(data) > 0 {
		for i := range n {
			n[i], data = toyNumber(data)
		}
		list = append(list, toyEvent{sim.Time(n[0]), int(n[1]), int(n[2]), n[3], int(n[4])})
	}
	return list
}

func toyNumber(data []byte) (uint64, []byte) {
	n, size := binary.Uvarint(data)
	if size <= 0 {
		panic("toy: no number")
	}
	return n, data[size:]
}
