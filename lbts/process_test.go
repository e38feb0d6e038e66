package lbts

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

// This file plays a run of processes that hold several regions each: their regions share memory, they
// exchange numbered frames and report for all their regions at once. The coordinator is lost now and
// then; the next one freezes all, lets them drain and resumes.

// frame is what one process sends to another.
type frame struct {
	number uint64
	events []event // of all its regions, for all of the other's
}

// statement is what a process reports at one moment.
type statement []Report

type process struct {
	regions    []int
	sent, got  []uint64 // last frame to and from each process
	statements []statement
	grants     [][]Grant // messages from the coordinator, in order
}

// cell is a region of a process.
type cell struct {
	queue  []event
	out    []event    // for regions of other processes, not yet in a frame
	least  []sim.Time // by region: of what was put into frames since the last report
	in     []uint64   // by region: last frame that held something from it, 0 for nothing new
	grants []Grant    // waiting for what they need
	held   sim.Time
	dirty  bool
}

type processFault int

const (
	faultless processFault = iota
	forgetDelivered
	resumeUndrained
	dropUnreported
	regionsOneByOne
)

type cluster struct {
	*model
	place  []int // region of each entity
	owner  []int // process of each region
	ents   []entity
	cells  []cell
	procs  []process
	links  [][]frame // from*n+to
	solver *Solver
	closed *Matrix
	given  []sim.Time
	elect  int
	fault  processFault
	wrong  string
	tally  [5]int
}

func (c *cluster) fail(format string, args ...any) {
	if c.wrong == "" {
		c.wrong = fmt.Sprintf(format, args...)
	}
}

func randomCluster(r *rand.Rand, f processFault) *cluster {
	w := randomWorld(r, false, none)
	n := len(w.regions)
	if r.IntN(3) == 0 { // the same lookahead everywhere
		l := sim.Duration(1 + r.IntN(8))
		for a := range w.look {
			for b := range w.look[a] {
				w.look[a][b] = l
			}
		}
	}
	closed := w.model.direct(w.place, n)
	if err := closed.Close(); err != nil {
		panic(err)
	}
	c := &cluster{
		model: w.model, place: w.place, ents: w.model.entities(), closed: closed, fault: f,
		cells: make([]cell, n), owner: make([]int, n), given: make([]sim.Time, n), elect: r.IntN(4),
	}
	procs := 1 + r.IntN(min(n, 3))
	c.procs, c.links = make([]process, procs), make([][]frame, procs*procs)
	for i := range c.cells {
		c.owner[i] = min(i, r.IntN(procs))
		p := &c.procs[c.owner[i]]
		p.regions = append(p.regions, i)
		c.cells[i] = cell{least: make([]sim.Time, n), in: make([]uint64, n), dirty: true}
		for j := range n {
			c.cells[i].least[j] = sim.Never
		}
	}
	for p := range c.procs {
		c.procs[p].sent, c.procs[p].got = make([]uint64, procs), make([]uint64, procs)
	}
	for _, e := range w.model.first {
		q := &c.cells[c.place[e.dst]].queue
		*q = insert(*q, e)
	}
	c.solver = must(New(c.closed))
	return c
}

// step does one of the possible actions, false if there is none.
func (c *cluster) step(pick func(int) int) bool {
	var list []func()
	add := func(kind int, do func()) {
		list = append(list, func() { c.tally[kind]++; do() })
	}
	for i := range c.cells {
		if x := &c.cells[i]; first(x.queue) < x.held {
			add(0, func() { c.run(i) })
		}
	}
	for p := range c.procs {
		if c.unreported(p) {
			add(1, func() { c.report(p) })
		}
		if len(c.procs[p].statements) > 0 {
			add(2, func() { c.hear(p) })
		}
		if len(c.procs[p].grants) > 0 {
			add(3, func() { c.accept(p) })
		}
		for q := range c.procs {
			if len(c.links[p*len(c.procs)+q]) > 0 {
				add(4, func() { c.arrive(p, q) })
			}
		}
	}
	if len(list) == 0 {
		return false
	}
	if c.elect > 0 && pick(30) == 0 {
		c.elect--
		c.takeOver(pick)
		return true
	}
	list[pick(len(list))]()
	return true
}

func (c *cluster) unreported(p int) bool {
	for _, i := range c.procs[p].regions {
		if c.cells[i].dirty {
			return true
		}
	}
	return false
}

func (c *cluster) run(i int) {
	x := &c.cells[i]
	e := x.queue[0]
	x.queue = x.queue[1:]
	x.dirty = true
	c.handle(&c.ents[e.dst], e, func(f event) {
		j := c.place[f.dst]
		if c.owner[j] == c.owner[i] {
			if j == i {
				x.queue = insert(x.queue, f)
				return
			}
			c.put(j, f)
			c.cells[j].dirty = c.cells[j].dirty || c.fault != forgetDelivered
			return
		}
		x.out = append(x.out, f)
	})
}

func (c *cluster) put(j int, e event) {
	x := &c.cells[j]
	if e.at < x.held {
		c.fail("late: event at %d came to region %d, which was free to run up to %d", e.at, j, x.held)
	}
	x.queue = insert(x.queue, e)
}

// flush sends what the regions of a process hold for others.
func (c *cluster) flush(p int) {
	n := len(c.procs)
	for q := range n {
		var events []event
		for _, i := range c.procs[p].regions {
			x := &c.cells[i]
			var rest []event
			for _, e := range x.out {
				j := c.place[e.dst]
				if c.owner[j] != q {
					rest = append(rest, e)
					continue
				}
				events = append(events, e)
				x.least[j] = min(x.least[j], e.at)
			}
			x.out = rest
		}
		if len(events) > 0 {
			c.procs[p].sent[q]++
			c.links[p*n+q] = append(c.links[p*n+q], frame{c.procs[p].sent[q], events})
		}
	}
}

func (c *cluster) report(p int) {
	c.flush(p)
	var list statement
	for _, i := range c.procs[p].regions {
		x := &c.cells[i]
		if !x.dirty {
			continue
		}
		x.dirty = false
		r := Report{Region: i, Next: first(x.queue)}
		for j := range c.cells {
			if x.least[j] < sim.Never {
				r.Sent = append(r.Sent, Sent{j, c.procs[p].sent[c.owner[j]], x.least[j]})
			}
			if x.in[j] > 0 {
				r.Received = append(r.Received, Received{j, x.in[j]})
			}
			x.least[j], x.in[j] = sim.Never, 0
		}
		list = append(list, r)
	}
	c.procs[p].statements = append(c.procs[p].statements, list)
}

func (c *cluster) hear(p int) {
	list := c.procs[p].statements[0]
	c.procs[p].statements = c.procs[p].statements[1:]
	var err error
	if c.fault == regionsOneByOne {
		for _, r := range list {
			if err == nil {
				err = c.solver.Report(r)
			}
		}
	} else {
		err = c.solver.ReportAll(list)
	}
	if err != nil {
		c.fail("honest frame refused: %v", err)
	}
	for i := range c.cells {
		if c.solver.Offer(i) > c.given[i] {
			c.give(i)
		}
	}
}

func (c *cluster) give(i int) {
	g := c.solver.Grant(i, nil)
	if g.Bound < c.given[i] {
		c.fail("bound of region %d went back from %d to %d", i, c.given[i], g.Bound)
	}
	if want, _ := boundOf(c.solver.closed, c.solver.eff, i); g.Bound > want && g.Bound > c.given[i] {
		c.fail("bound of region %d is %d, but by definition %d", i, g.Bound, want)
	}
	c.given[i] = g.Bound
	p := &c.procs[c.owner[i]]
	p.grants = append(p.grants, []Grant{g})
}

func (c *cluster) accept(p int) {
	for _, g := range c.procs[p].grants[0] {
		x := &c.cells[g.Region]
		x.grants = append(x.grants, g)
	}
	c.procs[p].grants = c.procs[p].grants[1:]
	c.refresh(p)
}

func (c *cluster) refresh(p int) {
	for _, i := range c.procs[p].regions {
		x := &c.cells[i]
		var keep []Grant
		for _, g := range x.grants {
			come := true
			for _, need := range g.Needs {
				come = come && c.procs[p].got[c.owner[need.From]] >= need.Batch
			}
			if come {
				x.held = max(x.held, g.Bound)
			} else {
				keep = append(keep, g)
			}
		}
		x.grants = keep
	}
}

func (c *cluster) arrive(p, q int) {
	link := &c.links[p*len(c.procs)+q]
	f := (*link)[0]
	*link = (*link)[1:]
	c.procs[q].got[p] = f.number
	for _, e := range f.events {
		j := c.place[e.dst]
		c.put(j, e)
		c.cells[j].in[c.place[e.src]] = f.number
		c.cells[j].dirty = true
	}
	c.refresh(q)
}

// takeOver loses the coordinator with all to and from it. Reports that were made are lost too: what
// regions sent and received before is in the full reports.
func (c *cluster) takeOver(pick func(int) int) {
	for p := range c.procs {
		if c.fault != dropUnreported || pick(2) == 0 {
			c.flush(p)
		}
		c.procs[p].statements, c.procs[p].grants = nil, nil
	}
	for p := range c.procs {
		for q := range c.procs {
			for len(c.links[p*len(c.procs)+q]) > 0 && c.fault != resumeUndrained {
				c.arrive(p, q)
			}
		}
	}
	held, next := make([]sim.Time, len(c.cells)), make([]sim.Time, len(c.cells))
	for i := range c.cells {
		x := &c.cells[i]
		for _, g := range x.grants {
			x.held = max(x.held, g.Bound)
		}
		x.grants, x.dirty = nil, false
		held[i], next[i] = x.held, first(x.queue)
		for j := range c.cells {
			x.least[j], x.in[j] = sim.Never, 0
		}
	}
	c.solver = must(New(c.closed))
	if err := c.solver.Resume(held, next); err != nil {
		c.fail("resume refused: %v", err)
		return
	}
	copy(c.given, held)
	for i := range c.cells {
		c.give(i)
	}
}

func (c *cluster) play(pick func(int) int) string {
	for steps := 0; c.wrong == "" && c.step(pick); steps++ {
		if steps > 20000 {
			return "no end after 20000 steps"
		}
	}
	if c.wrong != "" {
		return c.wrong
	}
	for i := range c.cells {
		if len(c.cells[i].queue)+len(c.cells[i].out) > 0 {
			return "deadlock: events are left and nobody can advance\n" + c.solver.Describe()
		}
	}
	if c.solver.Floor() != sim.Never {
		return "all has run, but the Solver does not see the end\n" + c.solver.Describe()
	}
	for i, want := range c.sequential() {
		if got := c.ents[i]; got.digest != want.digest || got.ran != want.ran {
			return fmt.Sprintf("entity %d ran %d events, %d expected, or in another order", i, got.ran, want.ran)
		}
	}
	return ""
}

func TestProcesses(t *testing.T) {
	var tally [5]int
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 9))
		c := randomCluster(r, faultless)
		if wrong := c.play(r.IntN); wrong != "" {
			t.Fatalf("schedule %d: %s", seed, wrong)
		}
		for k, n := range c.tally {
			tally[k] += n
		}
	}
	for k, n := range tally {
		if n < 500 {
			t.Errorf("action %d was done %d times only", k, n)
		}
	}
}

func TestProcessesShrinking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "world"), 9))
		c := randomCluster(r, faultless)
		choices := rapid.SliceOfN(rapid.IntRange(0, 1<<20), 0, 200).Draw(t, "choices")
		if wrong := c.play(func(n int) int {
			if len(choices) == 0 {
				return r.IntN(n)
			}
			k := choices[0] % n
			choices = choices[1:]
			return k
		}); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

func TestProcessFaultsAreFound(t *testing.T) {
	cases := []struct {
		name  string
		fault processFault
		sign  string
	}{
		{"does not report a region that was handed something in memory", forgetDelivered, ""},
		{"resumes while batches are on the way", resumeUndrained, ""},
		{"freezes with events that were never sent", dropUnreported, ""},
		{"holds each report of a frame against those before it", regionsOneByOne, "refused"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(3000) {
				r := rand.New(rand.NewPCG(seed, 9))
				if wrong := randomCluster(r, c.fault).play(r.IntN); wrong != "" && strings.Contains(wrong, c.sign) {
					return
				}
			}
			t.Error("3000 schedules, none failed")
		})
	}
}

func TestResumeRefusals(t *testing.T) {
	s := uniform(t, 3, 5)
	cases := []struct {
		held, next []sim.Time
		sign       string
	}{
		{[]sim.Time{0, 0}, []sim.Time{0, 0, 0}, "give one of each"},
		{[]sim.Time{0, 0, 0}, []sim.Time{0, -1, 0}, "no time is before the start"},
		{[]sim.Time{-2, 0, 0}, []sim.Time{0, 0, 0}, "no time is before the start"},
		{[]sim.Time{0, 0, 16}, []sim.Time{10, 20, 30}, "region 0 at 10ns can still reach it at 15ns"},
	}
	for _, c := range cases {
		before := s.text()
		err := s.Resume(c.held, c.next)
		if err == nil || !strings.Contains(err.Error(), c.sign) {
			t.Errorf("Resume(%v, %v): %v, want %q", c.held, c.next, err, c.sign)
		}
		if s.text() != before {
			t.Error("a refused Resume changed something")
		}
	}
	s.Cap(40)
	if err := s.Resume([]sim.Time{3, 0, 15}, []sim.Time{10, 20, sim.Never}); err != nil {
		t.Fatal(err)
	}
	wantBound(t, s, 0, 20)
	wantBound(t, s, 1, 15)
	wantBound(t, s, 2, 15)
}

func TestFramesAreCheckedWhole(t *testing.T) {
	s := uniform(t, 3, 5)
	mustReport(t, s, Report{Region: 2, Next: 3})
	before := s.text()
	for _, list := range [][]Report{
		{{Region: 0, Next: 4}, {Region: 3, Next: 4}},
		{{Region: 0, Next: 4}, {Region: 0, Next: 5}},
		{{Region: 0, Next: 4}, {Region: 1, Next: 4, Sent: []Sent{{2, 1, 4}}}},
	} {
		if err := s.ReportAll(list); err == nil {
			t.Errorf("%v was taken in", list)
		}
		if s.text() != before {
			t.Errorf("%v was refused and changed something", list)
		}
	}
	if err := s.ReportAll([]Report{{Region: 0, Next: 4}, {Region: 1, Next: 5}}); err != nil {
		t.Fatal(err)
	}
	wantBound(t, s, 2, 9)
}
