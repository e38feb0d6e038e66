package lbts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/simnode/simnode/sim"
)

// This file is a run in miniature: entities that send events to one another, regions that hold them,
// links that delay batches, and a Solver. Every step is one action out of those possible; a picker
// chooses, so that the same world serves random schedules, rapid and the exhaustive search.

type event struct {
	at       sim.Time
	prio     uint8
	src, dst int
	seq      uint64
	hops     int
}

func (e event) before(f event) bool {
	switch {
	case e.at != f.at:
		return e.at < f.at
	case e.prio != f.prio:
		return e.prio < f.prio
	case e.src != f.src:
		return e.src < f.src
	}
	return e.seq < f.seq
}

type entity struct {
	rng, seq, digest uint64
	ran              int
}

func (n *entity) draw(k int) int {
	n.rng += 0x9e3779b97f4a7c15
	return int(mix(n.rng) % uint64(k))
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// model is what happens, whatever the regions: look[a][b] is the least delay from entity a to b.
type model struct {
	look  [][]sim.Duration
	seed  uint64
	first []event
}

// handle runs e at entity n and calls emit for each event that follows.
func (m *model) handle(n *entity, e event, emit func(event)) {
	n.digest = mix(n.digest ^ uint64(e.at))
	n.digest = mix(n.digest ^ uint64(e.prio)<<40 ^ uint64(e.src)<<20 ^ e.seq)
	n.ran++
	if e.hops == 0 {
		return
	}
	for range n.draw(3) {
		dst, extra := n.draw(len(m.look)), sim.Duration(n.draw(4))
		delay := m.look[e.dst][dst]
		if dst == e.dst {
			delay = 0
		}
		if delay == sim.Forever {
			continue
		}
		prio := uint8(n.draw(3))
		if delay+extra == 0 && dst != e.dst {
			// Without any delay the key alone must say which is first, so it may not go back.
			prio = 3
		}
		n.seq++
		emit(event{e.at.Add(delay + extra), prio, e.dst, dst, n.seq, e.hops - 1})
	}
}

func (m *model) entities() []entity {
	list := make([]entity, len(m.look))
	for i := range list {
		list[i].rng = mix(m.seed ^ uint64(i)<<32)
		list[i].seq = 1000
	}
	return list
}

// sequential is the oracle: one queue in order.
func (m *model) sequential() []entity {
	list := m.entities()
	queue := insertAll(nil, m.first)
	for len(queue) > 0 {
		e := queue[0]
		queue = queue[1:]
		m.handle(&list[e.dst], e, func(f event) { queue = insert(queue, f) })
	}
	return list
}

func insert(queue []event, e event) []event {
	k := sort.Search(len(queue), func(i int) bool { return e.before(queue[i]) })
	return slices.Insert(queue, k, e)
}

func insertAll(queue, more []event) []event {
	for _, e := range more {
		queue = insert(queue, e)
	}
	return queue
}

func first(queue []event) sim.Time {
	if len(queue) == 0 {
		return sim.Never
	}
	return queue[0].at
}

func least(events []event) sim.Time {
	t := sim.Never
	for _, e := range events {
		t = min(t, e.at)
	}
	return t
}

type batch struct {
	number uint64
	events []event
}

type region struct {
	queue    []event
	out      [][]event  // not yet sent, by destination
	sent     []uint64   // last batch sent
	reported []uint64   // last batch stated in a report
	least    []sim.Time // of what was sent since the last report
	got      []uint64   // last batch received
	grants   []Grant    // waiting for what they need
	held     sim.Time   // the bound that counts
	dirty    bool       // something to report
	inbox    []event    // shared memory only: delivered, not yet in the queue
	running  bool       // shared memory only: between grant and report
}

// fault is a deliberate mistake in the use of the Solver; the checks must find each.
type fault int

const (
	none fault = iota
	forgetUnreceived
	runTheBoundToo
	leaveOpen
	ignoreNeeds
	reportBeforeSending
	skipInbox
)

type world struct {
	*model
	place   []int // region of each entity
	ents    []entity
	regions []region
	links   [][]batch  // from*n+to
	reports [][]Report // by region, in order
	grants  [][]Grant  // by region, any order
	given   []sim.Time
	solver  *Solver
	shared  bool // regions share memory
	limit   sim.Time
	cuts    int // still to come
	elect   int // changes of the coordinator still to come
	fault   fault
	steps   int
	tally   [kinds]int // actions done
	waits   int        // grants that needed batches
	pick    func(n int) int
	wrong   string
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

// direct is the lookahead between regions that a placement of the entities gives.
func (m *model) direct(place []int, n int) *Matrix {
	d := NewMatrix(n)
	for a, row := range m.look {
		for b, look := range row {
			if i, j := place[a], place[b]; i != j {
				d.Set(i, j, min(d.At(i, j), look))
			}
		}
	}
	return d
}

func newWorld(m *model, place []int, n int, f fault) *world {
	w := &world{model: m, ents: m.entities(), fault: f, limit: sim.Never}
	d := m.direct(place, n)
	w.close(d)
	w.solver = must(New(d))
	w.settle(place, n)
	for _, e := range m.first {
		r := &w.regions[place[e.dst]]
		r.queue = insert(r.queue, e)
	}
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w *world) close(d *Matrix) {
	if w.fault == leaveOpen {
		d.closed = true
		return
	}
	if err := d.Close(); err != nil {
		panic(err)
	}
}

// settle makes n empty regions.
func (w *world) settle(place []int, n int) {
	w.place = place
	w.regions, w.links = make([]region, n), make([][]batch, n*n)
	w.reports, w.grants = make([][]Report, n), make([][]Grant, n)
	w.given = make([]sim.Time, n)
	for i := range w.regions {
		r := &w.regions[i]
		r.out, r.sent, r.reported = make([][]event, n), make([]uint64, n), make([]uint64, n)
		r.least, r.got, r.dirty = make([]sim.Time, n), make([]uint64, n), true
		for j := range n {
			r.least[j] = sim.Never
		}
	}
}

type action struct{ kind, a, b int }

const (
	run = iota
	send
	report
	arrive
	hear
	ask
	grant
	cut
	raise
	elect
	wake
	finish
	kinds
)

func (w *world) actions() []action {
	var list []action
	for i := range w.regions {
		if w.shared {
			list = w.sharedActions(list, i)
		} else {
			list = w.remoteActions(list, i)
		}
	}
	if w.limit < sim.Never && w.solver.Reached(w.limit) && !w.anyRunning() {
		list = append(list, action{kind: raise})
		if w.solver.Drained() {
			list = append(list, action{kind: cut})
		}
	}
	if w.elect > 0 && w.steps > 20 {
		list = append(list, action{kind: elect})
	}
	return list
}

func (w *world) anyRunning() bool {
	return slices.ContainsFunc(w.regions, func(r region) bool { return r.running })
}

func (w *world) sharedActions(list []action, i int) []action {
	r := &w.regions[i]
	switch {
	case r.running && w.canRun(i):
		return append(list, action{run, i, 0}, action{finish, i, 0})
	case r.running:
		return append(list, action{finish, i, 0})
	case r.dirty || len(r.inbox) > 0 || w.canRun(i) || w.offer(i) > r.held:
		return append(list, action{wake, i, 0})
	}
	return list
}

func (w *world) remoteActions(list []action, i int) []action {
	r := &w.regions[i]
	if w.canRun(i) {
		list = append(list, action{run, i, 0})
	}
	for j := range w.regions {
		if len(r.out[j]) > 0 {
			list = append(list, action{send, i, j})
		}
		if len(w.links[i*len(w.regions)+j]) > 0 {
			list = append(list, action{arrive, i, j})
		}
	}
	if r.dirty {
		list = append(list, action{report, i, 0})
	}
	if len(w.reports[i]) > 0 {
		list = append(list, action{hear, i, 0})
	}
	if w.offer(i) > w.given[i] && len(w.grants[i]) < 3 {
		list = append(list, action{ask, i, 0})
	}
	for k := range w.grants[i] {
		list = append(list, action{grant, i, k})
	}
	return list
}

// offer is the bound that the Solver would give.
func (w *world) offer(i int) sim.Time { return min(w.solver.bound(i), w.solver.limit) }

func (w *world) canRun(i int) bool {
	t := first(w.regions[i].queue)
	return t < w.regions[i].held || (w.fault == runTheBoundToo && t == w.regions[i].held && t < sim.Never)
}

func (w *world) do(x action) {
	w.steps++
	w.tally[x.kind]++
	switch x.kind {
	case run:
		w.run(x.a)
	case send:
		w.send(x.a, x.b)
	case report:
		w.report(x.a)
	case arrive:
		w.arrive(x.a, x.b)
	case hear:
		r := w.reports[x.a][0]
		w.reports[x.a] = w.reports[x.a][1:]
		w.hear(r)
	case ask:
		w.ask(x.a)
	case grant:
		g := w.grants[x.a][x.b]
		w.grants[x.a] = slices.Delete(slices.Clone(w.grants[x.a]), x.b, x.b+1)
		w.regions[x.a].grants = append(w.regions[x.a].grants, g)
		w.refresh(x.a)
	case cut:
		w.cut()
	case raise:
		w.raise()
	case elect:
		w.newCoordinator()
	case wake:
		w.exchange(x.a)
		w.regions[x.a].running = w.canRun(x.a)
	case finish:
		w.regions[x.a].running = false
		w.exchange(x.a)
	}
}

func (w *world) run(i int) {
	r := &w.regions[i]
	e := r.queue[0]
	r.queue = slices.Clone(r.queue[1:])
	r.dirty = true
	w.handle(&w.ents[e.dst], e, func(f event) {
		if j := w.place[f.dst]; j != i {
			r.out[j] = append(slices.Clone(r.out[j]), f)
		} else {
			r.queue = insert(r.queue, f)
		}
	})
}

func (w *world) send(i, j int) {
	r := &w.regions[i]
	r.sent[j]++
	r.least[j] = min(r.least[j], least(r.out[j]))
	link := &w.links[i*len(w.regions)+j]
	*link = append(slices.Clone(*link), batch{r.sent[j], r.out[j]})
	r.out[j] = nil
}

func (w *world) report(i int) {
	r := &w.regions[i]
	rep := Report{Region: i, Next: first(r.queue)}
	for j := range w.regions {
		if len(r.out[j]) > 0 && w.fault != reportBeforeSending {
			w.send(i, j)
		}
		if r.sent[j] > r.reported[j] && w.fault != forgetUnreceived {
			rep.Sent = append(rep.Sent, Sent{j, r.sent[j], r.least[j]})
		}
		r.reported[j], r.least[j] = r.sent[j], sim.Never
		if r.got[j] > 0 {
			rep.Received = append(rep.Received, Received{j, r.got[j]})
		}
	}
	r.dirty = false
	w.reports[i] = append(slices.Clone(w.reports[i]), rep)
}

func (w *world) arrive(i, j int) {
	link := &w.links[i*len(w.regions)+j]
	b := (*link)[0]
	*link = (*link)[1:]
	r := &w.regions[j]
	w.take(j, b.events)
	r.got[i], r.dirty = b.number, true
	w.refresh(j)
}

// take puts events that came from elsewhere into the queue, unless one is late.
func (w *world) take(j int, events []event) {
	r := &w.regions[j]
	for _, e := range events {
		if e.at < r.held {
			w.fail("late: event at %d came to region %d, which was free to run up to %d", e.at, j, r.held)
		}
		r.queue = insert(slices.Clone(r.queue), e)
	}
}

func (w *world) hear(r Report) {
	if err := w.solver.Report(r); err != nil {
		w.fail("honest report refused: %v", err)
	}
}

func (w *world) ask(i int) {
	g := w.solver.Grant(i, nil)
	if g.Bound < w.given[i] {
		w.fail("bound of region %d went back from %d to %d", i, w.given[i], g.Bound)
	}
	w.given[i] = g.Bound
	if len(g.Needs) > 0 {
		w.waits++
	}
	w.honours(g)
	w.grants[i] = append(slices.Clone(w.grants[i]), g)
}

// honours checks a grant against the truth: what is on the way and below the bound must be needed.
func (w *world) honours(g Grant) {
	n := len(w.regions)
	for from := range n {
		need := uint64(0)
		for _, x := range g.Needs {
			if x.From == from {
				need = x.Batch
			}
		}
		for _, b := range w.links[from*n+g.Region] {
			if least(b.events) < g.Bound && b.number > need {
				w.fail("grant of region %d up to %d forgets batch %d from %d", g.Region, g.Bound, b.number, from)
			}
		}
		if least(w.regions[from].out[g.Region]) < g.Bound {
			w.fail("grant of region %d up to %d forgets what region %d has not sent yet", g.Region, g.Bound, from)
		}
	}
}

// refresh lets the grants count whose needs have arrived.
func (w *world) refresh(i int) {
	r := &w.regions[i]
	keep := []Grant{}
	for _, g := range r.grants {
		switch {
		case w.fault == ignoreNeeds || arrived(r, g.Needs):
			r.held = max(r.held, g.Bound)
		case g.Bound > r.held:
			keep = append(keep, g)
		}
	}
	r.grants = keep
}

func arrived(r *region, needs []Need) bool {
	for _, x := range needs {
		if r.got[x.From] < x.Batch {
			return false
		}
	}
	return true
}

// exchange is the critical section of regions that share memory.
func (w *world) exchange(i int) {
	r := &w.regions[i]
	for j := range w.regions {
		if len(r.out[j]) == 0 {
			continue
		}
		if err := w.solver.Deliver(i, j, least(r.out[j])); err != nil {
			w.fail("honest delivery refused: %v", err)
		}
		w.regions[j].inbox = append(slices.Clone(w.regions[j].inbox), r.out[j]...)
		r.out[j] = nil
	}
	if w.fault != skipInbox {
		w.take(i, r.inbox)
		r.inbox = nil
	}
	r.dirty = false
	w.hear(Report{Region: i, Next: first(r.queue)})
	w.take(i, r.inbox)
	r.inbox = nil
	w.ask(i)
	r.held = max(r.held, w.grants[i][0].Bound)
	w.grants[i] = nil
}

// raise goes on from a cut without changing anything.
func (w *world) raise() {
	w.checkCut()
	w.nextCut()
}

func (w *world) nextCut() {
	w.cuts--
	if w.cuts <= 0 {
		w.limit = sim.Never
	} else {
		w.limit = w.limit.Add(sim.Duration(1 + w.pick(10)))
	}
	w.solver.Cap(w.limit)
}

// checkCut checks against the truth that no event below the cut is left.
func (w *world) checkCut() {
	for i := range w.regions {
		t := min(first(w.regions[i].queue), least(w.regions[i].inbox))
		for j := range w.regions {
			t = min(t, least(w.regions[i].out[j]))
			for _, b := range w.links[i*len(w.regions)+j] {
				t = min(t, least(b.events))
			}
		}
		if t < w.limit {
			w.fail("cut at %d is said to be reached, but region %d or a channel out of it holds an event at %d", w.limit, i, t)
		}
	}
}

// cut hands entities over to a new number of regions.
func (w *world) cut() {
	w.checkCut()
	n := 1 + w.pick(5)
	place := make([]int, len(w.place))
	for e := range place {
		place[e] = w.pick(n)
	}
	d := w.direct(place, n)
	if w.fault != leaveOpen && d.Close() != nil {
		place, n = w.place, len(w.regions)
		d = w.direct(place, n)
	}
	w.close(d)
	var events []event
	for i := range w.regions {
		events = append(events, w.regions[i].queue...)
		events = append(events, w.regions[i].inbox...)
		for _, link := range w.links[i*len(w.regions) : (i+1)*len(w.regions)] {
			if len(link) > 0 {
				w.fail("channels said to be drained, but one out of region %d is not", i)
			}
		}
	}
	w.settle(place, n)
	for _, e := range events {
		r := &w.regions[place[e.dst]]
		r.queue = insert(r.queue, e)
	}
	next := make([]sim.Time, n)
	for i := range next {
		next[i] = first(w.regions[i].queue)
		w.regions[i].held, w.given[i] = w.limit, w.limit
	}
	if err := w.solver.Reopen(w.limit, d, next); err != nil {
		w.fail("reopen refused: %v", err)
	}
	w.nextCut()
}

// newCoordinator loses the Solver and everything to and from it; each region states all it knows.
func (w *world) newCoordinator() {
	w.elect--
	n := len(w.regions)
	w.solver = must(New(w.solver.closed))
	w.solver.Cap(w.limit)
	for i := range w.regions {
		w.reports[i], w.grants[i], w.given[i] = nil, nil, 0
		for j := range n {
			if len(w.regions[i].out[j]) > 0 {
				w.send(i, j)
			}
		}
	}
	for i := range w.regions {
		r := &w.regions[i]
		for j := range n {
			r.reported[j], r.least[j] = 0, sim.Never
			for _, b := range w.links[i*n+j] {
				r.least[j] = min(r.least[j], least(b.events))
			}
		}
		w.report(i)
	}
}

// finished reports whether nothing is left to run.
func (w *world) finished() bool {
	for i := range w.regions {
		if len(w.regions[i].queue)+len(w.regions[i].inbox) > 0 {
			return false
		}
	}
	return !slices.ContainsFunc(w.links, func(l []batch) bool { return len(l) > 0 })
}

// play runs to the end and returns what went wrong, "" if nothing did.
func (w *world) play(pick func(n int) int) string {
	w.pick = pick
	for w.wrong == "" {
		list := w.actions()
		if len(list) == 0 {
			break
		}
		if w.steps > 20000 {
			return "no end after 20000 steps"
		}
		w.do(list[w.pick(len(list))])
	}
	return w.verdict()
}

// verdict judges a world in which nothing can happen any more.
func (w *world) verdict() string {
	switch {
	case w.wrong != "":
		return w.wrong
	case !w.finished():
		return "deadlock: events are left and nobody can advance\n" + w.solver.Describe()
	case w.solver.Floor() != sim.Never:
		return "all has run, but the Solver does not see the end\n" + w.solver.Describe()
	}
	for i, want := range w.sequential() {
		if got := w.ents[i]; got.digest != want.digest || got.ran != want.ran {
			return fmt.Sprintf("entity %d ran %d events, %d expected, or in another order", i, got.ran, want.ran)
		}
	}
	return ""
}

// randomWorld draws a model, a placement in 2 to 5 regions and cuts.
func randomWorld(r *rand.Rand, shared bool, f fault) *world {
	n := 2 + r.IntN(4)
	count := n + r.IntN(n+1)
	m := &model{seed: r.Uint64(), look: make([][]sim.Duration, count)}
	absent, zero := r.IntN(3), r.IntN(4) == 0
	for a := range m.look {
		m.look[a] = make([]sim.Duration, count)
		for b := range m.look[a] {
			m.look[a][b] = sim.Duration(1 + r.IntN(8))
			switch {
			case r.IntN(4) < absent:
				m.look[a][b] = sim.Forever
			case zero && a < b && r.IntN(2) == 0:
				m.look[a][b] = 0
			}
		}
	}
	place := make([]int, count)
	for e := range place {
		place[e] = min(e, n-1)
		if e >= n {
			place[e] = r.IntN(n)
		}
	}
	if m.direct(place, n).Close() != nil { // a circle without lookahead
		for a := range m.look {
			for b := range m.look[a] {
				m.look[a][b] = max(1, m.look[a][b])
			}
		}
	}
	for k := range 1 + r.IntN(3*count) {
		m.first = append(m.first, event{sim.Time(r.IntN(30)), uint8(r.IntN(3)), r.IntN(count), r.IntN(count), uint64(k), r.IntN(8)})
	}
	w := newWorld(m, place, n, f)
	w.shared = shared
	w.cuts = r.IntN(4)
	if w.cuts > 0 {
		w.limit = sim.Time(r.IntN(20))
		w.solver.Cap(w.limit)
	}
	if !shared {
		w.elect = r.IntN(3)
	}
	return w
}
