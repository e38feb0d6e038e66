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
	// Nodes and jobs that were wanted; Epochs in which they ran, with Members; Recoveries are the epochs after
	// the first of a job; jobs that Failed as their model does.
	Nodes, Jobs, Epochs, Members, Recoveries, Failed uint64
	// Commits of checkpoints; parts Abandoned by a member; parts that were found Unfit at a restore; jobs that
	// Surrendered since a part had no good copy left.
	Commits, Abandoned, Unfit, Surrendered uint64
	// Restores of a checkpoint by all members of an epoch.
	Restores uint64
	// Kills of processes.
	Kills Kills
	// Faults, of which Crashes; Elections of the log; Takeovers of a job by another coordinator, in the
	// middle of a cut, and at the end of the run.
	Faults, Crashes, Elections, Takeovers, MidCut, AtEnd uint64
	// Frames on links; those lost, repeated, damaged.
	Frames, FramesLost, Repeated, Damaged uint64
	// Turns of regions, Bounds checked, Cuts completed.
	Turns, Bounds, Cuts uint64
}

// Add sums counts up.
func (c *Counts) Add(o *Counts) {
	theirs := o.all()
	for i, x := range c.all() {
		*x += *theirs[i]
	}
	for r := range c.Kills {
		for p := range c.Kills[r] {
			c.Kills[r][p] += o.Kills[r][p]
		}
	}
}

func (c *Counts) all() []*uint64 {
	return []*uint64{
		&c.Commits, &c.Abandoned, &c.Unfit, &c.Surrendered, &c.Restores,
		&c.Nodes, &c.Jobs, &c.Epochs, &c.Members, &c.Recoveries, &c.Failed,
		&c.Faults, &c.Crashes, &c.Elections, &c.Takeovers, &c.MidCut, &c.AtEnd,
		&c.Frames, &c.FramesLost, &c.Repeated, &c.Damaged, &c.Turns, &c.Bounds, &c.Cuts,
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
	t := w.truth
	*c = Counts{
		Nodes: uint64(len(w.hosts)), Jobs: uint64(len(w.user.wanted)), Epochs: uint64(len(t.list)), Recoveries: w.recoveries, Failed: w.failed,
		Faults: uint64(len(w.plan.faults)), Elections: uint64(w.log.elections), Takeovers: t.takeovers, MidCut: t.midCut, AtEnd: t.atEnd,
		Frames: w.net.frames, FramesLost: w.net.lost, Repeated: w.net.twice, Damaged: w.net.harmed,
		Turns: t.turns, Bounds: t.granted, Cuts: t.cuts,
		Commits: t.commits, Abandoned: t.abandoned, Unfit: t.unfit, Surrendered: w.surrendered, Restores: t.restores, Kills: t.kills,
	}
	for _, h := range w.hosts {
		c.Crashes += uint64(h.deaths)
	}
	for _, j := range t.list {
		c.Members += uint64(len(j.procs))
	}
}
