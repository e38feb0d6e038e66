package node_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// troupe is a cluster in miniature: parts of one run on one thread, links that deliver at random moments
// in order, and a coordinator that does no more than lbts asks for.
type troupe struct {
	t      testing.TB
	rand   *sim.Rand
	parts  []*node.Part
	owner  []int
	solver *lbts.Solver
	shape  control.Shape

	links [][]func() // by from*(n+1)+to, to the coordinator at to = n
	late  []func()   // grants, which may overtake one another

	cap      sim.Time
	nextObs  []uint64
	merger   *node.Merger
	assembly *node.Assembly
	cuts     int
	last     []sim.Time // bounds sent, by region
	// after, if not nil, is called at the end of a cut; also are things that may be done at any moment: each is
	// left out once it returns false.
	after func(at sim.Time)
	also  []func() bool
	// keep, if not nil, is shown what goes to member 0.
	keep func(sort string, data []byte)
}

func (c *troupe) show(sort string, to int, data []byte) {
	if c.keep != nil && to == 0 {
		c.keep(sort, data)
	}
}

func newTroupe(t testing.TB, seed uint64, members, each int, program func() *sim.Program, sink sim.Sink) *troupe {
	return newTroupeOf(t, seed, members, each, program, sink, func(int, *node.PartOptions) {})
}

func newTroupeOf(t testing.TB, seed uint64, members, each int, program func() *sim.Program, sink sim.Sink, adjust func(m int, o *node.PartOptions)) *troupe {
	r := sim.NewRand(seed, 1234)
	c := &troupe{t: t, rand: &r, nextObs: make([]uint64, members)}
	for m := range members {
		for range each {
			c.owner = append(c.owner, m)
		}
	}
	for m := range members {
		o := node.PartOptions{Owner: c.owner, Me: m, Workers: 1, Observe: true, Trace: true, Bins: 10}
		adjust(m, &o)
		p, err := node.NewPart(context.Background(), program(), o)
		if err != nil {
			t.Fatal(err)
		}
		c.parts = append(c.parts, p)
	}
	c.shape = c.parts[0].Shape()
	for m, p := range c.parts {
		if p.Shape().Digest != c.shape.Digest {
			t.Fatalf("member %d sees another program", m)
		}
	}
	c.links = make([][]func(), members*(members+1))
	prog := program()
	c.merger, c.assembly = node.NewMerger(prog, members, sink), node.NewAssembly(prog, members)
	c.open()
	return c
}

func (c *troupe) open() {
	c.newSolver()
	c.reopen(0)
}

func (c *troupe) newSolver() {
	n := len(c.owner)
	m := lbts.NewMatrix(n)
	for to := range n {
		for from := range n {
			switch {
			case from == to:
			case len(c.shape.Lookahead) == 1:
				m.Set(from, to, c.shape.Lookahead[0])
			default:
				m.Set(from, to, c.shape.Lookahead[to*n+from])
			}
		}
	}
	c.must(m.Close())
	s, err := lbts.New(m)
	c.must(err)
	c.solver = s
}

// nexts lists the next event of every region.
func (c *troupe) nexts() (next []sim.Time) {
	for _, p := range c.parts {
		for _, s := range p.State() {
			next = append(next, s.Next)
		}
	}
	return next
}

func (c *troupe) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *troupe) reopen(at sim.Time) {
	c.must(c.solver.Reopen(at, nil, c.nexts()))
	c.cap = min(c.shape.End, at.Add(c.shape.CutEvery))
	c.solver.Cap(c.cap)
	c.grant()
}

// grant sends each region what it may do.
func (c *troupe) grant() {
	for i, m := range c.owner {
		g := c.solver.Grant(i, nil)
		c.late = append(c.late, func() { c.must(c.parts[m].Grant([]lbts.Grant{g})) })
	}
}

// flush collects what a part has to send and to report.
func (c *troupe) flush(m int) {
	n := len(c.parts)
	got := c.parts[m].Collect()
	c.must(got.Fault)
	if got.Failure != nil {
		c.t.Fatal(got.Failure.Text)
	}
	for _, b := range got.Batches {
		c.show("events", b.To, b.Data)
		c.links[m*(n+1)+b.To] = append(c.links[m*(n+1)+b.To], func() { c.must(c.parts[b.To].Receive(m, b.Number, b.Data)) })
	}
	if got.Observations != nil {
		c.nextObs[m]++
		c.show("observations", 0, got.Observations)
		c.must(c.merger.Take(m, c.nextObs[m], got.Observations))
	}
	if got.Changed {
		c.links[m*(n+1)+n] = append(c.links[m*(n+1)+n], func() {
			c.report(got.Reports)
			c.grant()
		})
	}
}

// report hands reports of one moment over: those that lower a region's next event first, since what
// lowered it has raised another's.
func (c *troupe) report(reports []lbts.Report) {
	slices.SortStableFunc(reports, func(a, b lbts.Report) int {
		lowers := func(r lbts.Report) int {
			if r.Next <= c.solver.Effective(r.Region) {
				return 0
			}
			return 1
		}
		return lowers(a) - lowers(b)
	})
	for _, r := range reports {
		c.must(c.solver.Report(r))
	}
}

// step does one thing at random; false if nothing is left to do.
func (c *troupe) step() bool {
	var todo []func()
	for i, l := range c.links {
		if len(l) > 0 {
			todo = append(todo, func() {
				c.links[i] = c.links[i][1:]
				l[0]()
			})
		}
	}
	if len(c.late) > 0 {
		todo = append(todo, func() {
			i := int(c.rand.IntN(int64(len(c.late))))
			what := c.late[i]
			c.late = slices.Delete(c.late, i, i+1)
			what()
		})
	}
	busy := len(todo) > 0
	for m, p := range c.parts {
		todo = append(todo, func() {
			if p.Turn() {
				busy = true
			}
			if c.rand.Bernoulli(0.5) {
				c.flush(m)
			}
		})
	}
	if len(c.also) > 0 {
		todo = append(todo, func() {
			busy = true
			if i := int(c.rand.IntN(int64(len(c.also)))); !c.also[i]() {
				c.also = slices.Delete(c.also, i, i+1)
			}
		})
	}
	todo[c.rand.IntN(int64(len(todo)))]()
	return busy
}

// settle lets everything come to rest: no turn to take, nothing on the way.
func (c *troupe) settle() {
	for quiet := 0; quiet < 1; {
		for c.step() {
		}
		moved := false
		for m, p := range c.parts {
			for p.Turn() {
				moved = true
			}
			c.flush(m)
		}
		for _, l := range c.links {
			moved = moved || len(l) > 0
		}
		if !moved && len(c.late) == 0 {
			quiet++
		}
	}
}

// run runs to the end and returns the outcome.
func (c *troupe) run() *node.Outcome {
	for {
		c.settle()
		floor := c.solver.Floor()
		if floor < c.cap || !c.solver.Drained() {
			c.t.Fatalf("stuck below %v: %s", c.cap, c.solver.Describe())
		}
		c.must(c.merger.Floor(min(floor, c.shape.End), c.nextObs))
		if c.cap >= c.shape.End || floor >= c.shape.End {
			return c.finish()
		}
		c.cut(floor)
	}
}

func (c *troupe) cut(at sim.Time) {
	c.cuts++
	c.late = nil
	parcels := make([][][]byte, len(c.parts))
	for m, p := range c.parts {
		out, err := p.Cut(at)
		c.must(err)
		parcels[m] = out
	}
	for from := range c.parts {
		for to, p := range c.parts {
			if to != from {
				c.show("parcel", to, parcels[from][to])
				c.must(p.TakeParcel(from, parcels[from][to]))
			}
		}
	}
	for _, p := range c.parts {
		_, err := p.EndCut()
		c.must(err)
	}
	if c.after != nil {
		c.after(at)
	}
	c.reopen(at)
}

func (c *troupe) finish() *node.Outcome {
	for len(c.also) > 0 {
		if !c.also[0]() {
			c.also = c.also[1:]
		}
	}
	for m, p := range c.parts {
		c.must(p.Result(c.shape.End, func(piece []byte, last bool) error {
			c.show("result", 0, piece)
			_, err := c.assembly.Take(m, piece, last)
			return err
		}))
	}
	out, err := c.assembly.Outcome(c.shape.End, control.EndReached)
	c.must(err)
	return out
}

// TestPartsEqualReference runs random models in parts under random schedules: digests and observations
// are those of the reference.
func TestPartsEqualReference(t *testing.T) {
	seeds := 100
	if n, err := strconv.Atoi(os.Getenv("STORM_SEEDS")); err == nil {
		seeds = n
	}
	if testing.Short() {
		seeds = 20
	}
	cuts, migrated := 0, 0
	for seed := range uint64(seeds) {
		want := runReference(stormProgram(t, seed))
		for _, shape := range [][2]int{{1, 2}, {2, 1}, {3, 2}} {
			got := &tape{}
			c := newTroupe(t, seed, shape[0], shape[1], func() *sim.Program { return stormProgram(t, seed) }, got)
			out := c.run()
			cuts, migrated = cuts+out.Cuts, migrated+out.Migrated
			name := fmt.Sprintf("seed %d, %d members with %d regions", seed, shape[0], shape[1])
			if out.Digest != want.digest || out.Events != want.events || out.Entities != want.entities {
				t.Errorf("%s: digest %x after %d events with %d entities; reference %x, %d, %d",
					name, out.Digest, out.Events, out.Entities, want.digest, want.events, want.entities)
			}
			if i := firstDifference(got.lines, want.tape.lines); i >= 0 {
				t.Fatalf("%s: observation %d of %d (reference %d):\n%s\nreference:\n%s", name, i,
					len(got.lines), len(want.tape.lines), lineAt(got.lines, i), lineAt(want.tape.lines, i))
			}
		}
	}
	if t.Logf("%d cuts, %d entities migrated", cuts, migrated); cuts == 0 || migrated == 0 {
		t.Error("the storms must bring about cuts and migrations between members")
	}
}
