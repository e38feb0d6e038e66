package control

import (
	"fmt"
	"time"
)

// Coordinator gives jobs their members, and regions their bounds, while its node leads the log. It is not
// safe for concurrent use.
type Coordinator struct {
	self  string
	cfg   Config
	clock clock
	state *State
	nodes []Node
	// gossip says that nodes were told.
	gossip  bool
	leading bool
	term    uint64
	run     *run
	counts  CoordinatorCounts
	// Of the last proposal: what for, when, and how many of the term.
	proposed  asking
	proposals uint64
	// awaySince is since when a suspended job is to go on, negative if none is.
	awaySince time.Duration
	// waiting says that it was noted what a job waits for.
	waiting string
	out     []Output
}

// CoordinatorCounts are what a Coordinator counted since it was made.
type CoordinatorCounts struct {
	// OtherEpoch and OtherTerm are messages ignored since they spoke of another epoch or answered
	// another term.
	OtherEpoch, OtherTerm uint64
	// Reports are frames of reports, Regions the reports of regions in them.
	Reports, Regions uint64
	// Messages of grants, and Grants in them.
	Messages, Grants uint64
	Cuts             uint64
	// Takeovers of jobs that had begun under another coordinator.
	Takeovers uint64
	// Saves are checkpoints begun, Abandoned those given up; Losses are how often a job had to go back.
	Saves, Abandoned, Losses uint64
}

// NewCoordinator returns the coordinator of a node, which leads nothing yet.
func NewCoordinator(self string, cfg Config) *Coordinator {
	cfg = cfg.withDefaults()
	return &Coordinator{self: self, cfg: cfg, clock: clock{most: cfg.SilentAfter / 2}, awaySince: -1}
}

// Counts returns what was counted so far.
func (c *Coordinator) Counts() CoordinatorCounts { return c.counts }

// Step takes an input at a time since the coordinator was made and returns what is to be done, in order.
// The outputs are valid until the next call.
func (c *Coordinator) Step(now time.Duration, in Input) []Output {
	c.clock.step(now)
	c.out = c.out[:0]
	c.take(in)
	c.drive()
	return c.out
}

// StepAll takes several inputs of one moment and works out once what follows from all of them: cheaper
// than one by one, and with fewer messages.
func (c *Coordinator) StepAll(now time.Duration, ins []Input) []Output {
	c.clock.step(now)
	c.out = c.out[:0]
	for _, in := range ins {
		c.take(in)
	}
	c.drive()
	return c.out
}

func (c *Coordinator) take(in Input) {
	switch in := in.(type) {
	case Applied:
		c.state = in.State
	case Members:
		c.nodes, c.gossip = in.Nodes, true
	case Lead:
		c.leading, c.term, c.run = true, in.Term, nil
		c.proposed, c.proposals, c.waiting, c.awaySince = asking{}, 0, "", -1
	case Follow:
		c.leading, c.run = false, nil
	case Heard:
		if c.run != nil && ForCoordinator(in.Message) {
			c.hear(in)
		}
	case Tick:
		if c.run != nil {
			c.watch()
		}
	}
}

// drive does what the state and what was heard call for.
func (c *Coordinator) drive() {
	if !c.leading || c.state == nil {
		return
	}
	job := c.state.Current()
	if c.run != nil && (job == nil || job.Epoch != c.run.job.Epoch || job.Away) {
		c.run, c.waiting = nil, ""
	}
	switch {
	case job == nil:
		return
	case job.Epoch == 0:
		c.begin(job)
		return
	case job.Away:
		c.revive(job)
		return
	case c.run == nil:
		c.run = newRun(job, c.clock.now)
		if job.Phase != Initialising {
			c.counts.Takeovers++
		}
		c.ask()
	}
	c.run.job = job
	c.goOn()
}

// begin proposes members for a job as soon as enough nodes are there.
func (c *Coordinator) begin(job *Job) {
	start, missing := assign(job, c.nodes, c.cfg.ExpectedNodes)
	if start == nil {
		if c.waiting != missing && c.gossip {
			c.waiting = missing
			c.note(Info, missing)
		}
		return
	}
	c.propose("start/"+job.ID, Command{Start: start})
}

// revive lets a suspended job go on when it is told to.
func (c *Coordinator) revive(job *Job) {
	if job.Phase == Suspended {
		c.awaySince = -1
		return
	}
	if c.awaySince < 0 {
		c.awaySince = c.clock.now
	}
	c.recover(job, &losing{since: c.awaySince}, func(Node) bool { return false })
}

// propose asks to append a command unless the same was asked for a short while ago.
func (c *Coordinator) propose(what string, cmd Command) { c.proposeBy(&c.proposed, what, cmd) }

// proposeBy is propose for what may be asked for beside the rest.
func (c *Coordinator) proposeBy(last *asking, what string, cmd Command) {
	if last.what == what && c.clock.now-last.at < c.cfg.AskEvery {
		return
	}
	last.what, last.at = what, c.clock.now
	c.proposals++
	cmd.Key = fmt.Sprintf("%s/%d/%d", what, c.term, c.proposals)
	c.out = append(c.out, Propose{cmd})
}

func (c *Coordinator) note(level Level, text string, fields ...string) {
	c.out = append(c.out, Note{level, text, fields})
}

func (c *Coordinator) send(m int, message Message) {
	c.out = append(c.out, Send{To: c.run.job.Members[m], Message: message})
}

func (c *Coordinator) header() Header { return Header{c.run.job.Epoch, c.term} }
