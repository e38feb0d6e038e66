package chaos

import (
	"fmt"
	"time"
)

// Result is how the run of a seed went.
type Result struct {
	Seed uint64
	// Steps taken, and the simulated time that they took.
	Steps uint64
	Time  time.Duration
	// Hash covers every step.
	Hash uint64
	// Wrong says what was found wrong first, empty if nothing was; at which step and time.
	Wrong     string
	WrongStep uint64
	WrongTime time.Duration
	// Cluster and Faults tell what was played, Last are the last events.
	Cluster string
	Faults  []string
	Last    []string
	Counts  Counts
}

// Counts tell what happened in runs, so that one sees what they test.
type Counts struct {
	Nodes, Jobs, Lost, Failed           uint64
	Elections, Faults, Crashes          uint64
	Frames, FramesLost, Twice, Damaged  uint64
	Turns, Bounds, Cuts, Members, Epoch uint64
}

// Add sums counts up.
func (c *Counts) Add(o *Counts) {
	for _, x := range []struct{ a, b *uint64 }{
		{&c.Nodes, &o.Nodes}, {&c.Jobs, &o.Jobs}, {&c.Lost, &o.Lost}, {&c.Failed, &o.Failed},
		{&c.Elections, &o.Elections}, {&c.Faults, &o.Faults}, {&c.Crashes, &o.Crashes},
		{&c.Frames, &o.Frames}, {&c.FramesLost, &o.FramesLost}, {&c.Twice, &o.Twice}, {&c.Damaged, &o.Damaged},
		{&c.Turns, &o.Turns}, {&c.Bounds, &o.Bounds}, {&c.Cuts, &o.Cuts}, {&c.Members, &o.Members}, {&c.Epoch, &o.Epoch},
	} {
		*x.a += *x.b
	}
}

// play plays a cluster under a plan.
func play(seed uint64, s *settings, p *plan, m *Mutant, refs *references) *Result {
	w := newWorld(seed, s, p, m, refs)
	w.run()
	r := &Result{Seed: seed, Steps: w.steps, Time: w.now, Hash: w.trace.hash, Wrong: w.wrong, WrongStep: w.wrongStep, WrongTime: w.wrongAt}
	r.Cluster = fmt.Sprintf("%d nodes, %v", len(s.roles), s)
	for i := range p.faults {
		r.Faults = append(r.Faults, p.faults[i].String())
	}
	if w.wrong != "" {
		r.Last = w.trace.lines()
	}
	w.count(&r.Counts)
	return r
}

func (w *world) count(c *Counts) {
	c.Nodes, c.Jobs = uint64(len(w.hosts)), uint64(len(w.user.wanted))
	c.Elections, c.Faults = uint64(w.log.elections), uint64(len(w.plan.faults))
	c.Frames, c.FramesLost, c.Twice, c.Damaged = w.net.frames, w.net.lost, w.net.twice, w.net.harmed
	c.Turns, c.Bounds, c.Cuts = w.truth.turns, w.truth.granted, w.truth.cuts
	c.Lost, c.Failed = w.lost, w.failed
	for _, h := range w.hosts {
		c.Crashes += uint64(h.boots - 1)
	}
	for _, j := range w.truth.list {
		c.Members += uint64(len(j.procs))
		c.Epoch++
	}
}
