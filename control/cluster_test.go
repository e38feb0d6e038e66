package control

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

// This file plays whole clusters: nodes with agents, coordinators and toy executors, links that keep order
// and delay at will, and a log whose leader changes.

type toyNode struct {
	name, boot string
	role       Role
	now        time.Duration
	agent      *Agent
	coord      *Coordinator
	exec       *toyExecutor
	inputs     []Input // of the executor, in order
	gathered   []Input // for the coordinator, where it takes several at once
	applied    int
	state      *State
	leads      bool
	stopped    bool // the process stands still
	notes      []Note
}

type toyCluster struct {
	cfg    Config
	nodes  []*toyNode
	links  map[[2]int][][]byte
	log    []Command
	latest *State    // after all of log
	unsure []Command // proposed, may be applied yet
	term   uint64
	leader int // -1: none
	held   map[string][]sim.Time
	epochs map[string]uint64
	wrong  string
	steps  int
	tally  map[string]int
	trace  func(string, ...any)
	// mutate changes a message on its way, nil loses it.
	mutate func(Message) Message
	// jump says that clocks jump.
	jump bool
	// harsh says that the leader changes often.
	harsh bool
	// gather says that coordinators take what comes to them several at once.
	gather bool
	// early is what executors say too early to be durable.
	early string
	// ends are how epochs ended.
	ends map[uint64]toyEnd
	// disks of the nodes by name.
	disks map[string]*toyDisk
	// crashes is how many processes are still to be killed, saves how often a user asks for a checkpoint.
	crashes, saves int
	// wipes is how many disks are still to be lost with a process, suspends how often the job is suspended.
	wipes, suspends int
	// stuck links keep what is sent on them.
	stuck map[[2]int]bool
}

func (c *toyCluster) fail(format string, args ...any) {
	if c.wrong == "" {
		c.wrong = fmt.Sprintf(format, args...)
	}
}

func newToyCluster(m *toyModel, names []string, roles []Role, cfg Config) *toyCluster {
	c := &toyCluster{cfg: cfg, links: map[[2]int][][]byte{}, leader: -1, latest: &State{}, held: map[string][]sim.Time{}, epochs: map[string]uint64{}, tally: map[string]int{}, disks: map[string]*toyDisk{}, ends: map[uint64]toyEnd{}}
	for i, name := range names {
		model := *m
		n := &toyNode{name: name, role: roles[i], boot: "1"}
		c.disks[name] = &toyDisk{parts: map[[2]uint64][]byte{}}
		n.exec = c.newExec(n, &model)
		n.agent, n.coord = NewAgent(name, n.boot, cfg, n.exec), NewCoordinator(name, cfg)
		n.state = &State{}
		c.nodes = append(c.nodes, n)
	}
	return c
}

func (c *toyCluster) newExec(n *toyNode, m *toyModel) *toyExecutor {
	return &toyExecutor{model: m, wrong: c.fail, disks: c.disks, self: n.name, early: c.early, committed: func(number uint64) bool {
		job := c.latest.Job(n.exec.job.ID)
		return job != nil && slices.ContainsFunc(job.Checkpoints, func(x Checkpoint) bool { return x.Number == number })
	}, input: func(in Input) {
		n.inputs = append(n.inputs, in)
		if r, ok := in.(Recording); ok {
			c.ends[r.Epoch] = toyEnd{n.exec.finished, slices.Clone(n.exec.seen)}
		}
	}}
}

// toyEnd is what the member that records had at the end of an epoch.
type toyEnd struct {
	finished *toyOutcome
	seen     []string
}

// restart replaces the process of a node: it forgets all but the log.
func (c *toyCluster) restart(i int) {
	n := c.nodes[i]
	n.boot += "'"
	n.gathered = nil
	n.inputs, n.applied, n.state, n.leads, n.stopped = nil, 0, &State{}, false, false
	model := *n.exec.model
	n.exec = c.newExec(n, &model)
	n.agent, n.coord = NewAgent(n.name, n.boot, c.cfg, n.exec), NewCoordinator(n.name, c.cfg)
	delete(c.held, n.name)
	delete(c.epochs, n.name)
	for j := range c.nodes {
		delete(c.links, [2]int{i, j})
		delete(c.links, [2]int{j, i})
	}
}

func (c *toyCluster) index(name string) int {
	return slices.IndexFunc(c.nodes, func(n *toyNode) bool { return n.name == name })
}

// give hands an input to both machines of a node.
func (c *toyCluster) give(i int, in Input) {
	n := c.nodes[i]
	switch x := in.(type) {
	case Lead, Follow, Members:
	case Heard:
		if !ForCoordinator(x.Message) {
			c.outputs(i, n.agent.Step(n.now, in))
		}
	default:
		c.outputs(i, n.agent.Step(n.now, in))
	}
	switch in.(type) {
	case Prepared, Progress, FinalPart, Recording, RestorePiece, RestoreEnded, Unreadable, Saved:
	default:
		if c.gather {
			n.gathered = append(n.gathered, in)
			break
		}
		c.outputs(i, n.coord.Step(n.now, in))
	}
	c.check(i)
}

func (c *toyCluster) outputs(i int, out []Output) {
	for _, o := range slices.Clone(out) {
		switch o := o.(type) {
		case Send:
			j := c.index(o.To)
			c.tally[strings.TrimPrefix(fmt.Sprintf("%T", o.Message), "*control.")]++
			c.show("%s -> %s %s", c.nodes[i].name, o.To, showMessage(o.Message))
			c.links[[2]int{i, j}] = append(c.links[[2]int{i, j}], Append(nil, o.Message))
		case Propose:
			c.show("%s proposes %s", c.nodes[i].name, showCommand(o.Command))
			data, err := MarshalCommand(o.Command)
			if err != nil {
				c.fail("command: %v", err)
			}
			cmd, err := UnmarshalCommand(data)
			if err != nil {
				c.fail("command: %v", err)
			}
			if c.leader == i {
				c.unsure = append(c.unsure, cmd)
			}
		case Note:
			c.show("%s notes: %s", c.nodes[i].name, o.Text)
			c.nodes[i].notes = append(c.nodes[i].notes, o)
		}
	}
}

func (c *toyCluster) show(format string, args ...any) {
	if c.trace != nil {
		c.trace(format, args...)
	}
}

// check looks at what must never happen.
func (c *toyCluster) check(i int) {
	n := c.nodes[i]
	s := n.agent.Status()
	before := c.held[n.name]
	if s.Stage == Idle {
		delete(c.held, n.name)
		return
	}
	for r, t := range before {
		if c.epochs[n.name] == s.Epoch && s.Held[r] < t {
			c.fail("bound of region %d at node %s went from %v to %v", r, n.name, t, s.Held[r])
		}
	}
	if s.Epoch < c.epochs[n.name] {
		c.fail("node %s went from epoch %d to %d", n.name, c.epochs[n.name], s.Epoch)
	}
	c.held[n.name], c.epochs[n.name] = s.Held, s.Epoch
}

func (c *toyCluster) commit(cmd Command) {
	c.log = append(c.log, cmd)
	before := c.latest
	var answer Answered
	c.latest, answer = before.Apply(cmd)
	if answer.Error == "" && c.latest != before {
		c.judge(before, &cmd)
	}
}

// judge looks at what a command that was applied must have found.
func (c *toyCluster) judge(before *State, cmd *Command) {
	if cmd.Recover != nil {
		c.tally["Recover"]++
		if cmd.Recover.Restore != nil {
			c.tally["recovered from a checkpoint"]++
		}
	}
	if cmd.Commit == nil {
		return
	}
	c.tally["Commit"]++
	job := c.latest.Job(cmd.Commit.Job)
	n := job.Newest()
	if was := before.Job(job.ID).Newest(); was != nil && (n.Number <= was.Number || n.At < was.At || n.Epoch < was.Epoch) {
		c.fail("checkpoint %d at %d of epoch %d after %d at %d of epoch %d", n.Number, n.At, n.Epoch, was.Number, was.At, was.Epoch)
	}
	for i := range n.Parts {
		p := &n.Parts[i]
		for _, name := range []string{p.Member, p.Partner} {
			if name == "" {
				continue
			}
			whole, ok := c.disks[name].parts[[2]uint64{n.Number, uint64(i)}]
			if !ok && c.disks[name].wiped {
				continue // after it had said so
			}
			if !ok {
				c.fail("checkpoint %d is committed and part %d is not on node %s", n.Number, i, name)
				return
			}
			size, rest := toyNumber(whole)
			if hashOf(slices.Concat(rest[:size], rest[size:])) != p.Root {
				c.fail("part %d of checkpoint %d on node %s is another one", i, n.Number, name)
			}
		}
	}
}

// apply applies the next entry of the log at a node.
func (c *toyCluster) apply(i int) {
	n := c.nodes[i]
	next, answer := n.state.Apply(c.log[n.applied])
	if answer.Error != "" {
		c.show("%s: %s", n.name, answer.Error)
	}
	n.state = next
	n.applied++
	c.give(i, Applied{next})
}

// lead makes a node leader; the old one does not know.
func (c *toyCluster) lead(i int) {
	n := c.nodes[i]
	for n.applied < len(c.log) {
		c.apply(i)
	}
	c.term++
	c.leader, n.leads = i, true
	c.give(i, Members{c.members()})
	c.give(i, Lead{c.term})
}

func (c *toyCluster) members() (list []Node) {
	for _, n := range c.nodes {
		list = append(list, Node{Name: n.name, Boot: n.boot, Role: n.role, Workers: 1, Alive: !n.stopped})
	}
	slices.SortFunc(list, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// deliver hands over the next message from node i to j.
func (c *toyCluster) deliver(i, j int) {
	link := c.links[[2]int{i, j}]
	c.links[[2]int{i, j}] = link[1:]
	m, err := Parse(link[0])
	if err != nil {
		c.fail("message: %v", err)
		return
	}
	if c.mutate != nil {
		if m = c.mutate(m); m == nil {
			return
		}
	}
	c.give(j, Heard{c.nodes[i].name, c.nodes[i].boot, m})
}

// job returns the last job.
func (c *toyCluster) job() *Job {
	if len(c.latest.Jobs) == 0 {
		return nil
	}
	return c.latest.Jobs[len(c.latest.Jobs)-1]
}

// submit puts a job into the log.
func (c *toyCluster) submit(spec Spec) {
	data := []byte("a scenario")
	hash := hashOf(data)
	key := fmt.Sprint(len(c.log))
	c.commit(Command{Key: "upload" + key, Upload: &Upload{Hash: hash, Size: len(data), Data: data}})
	c.commit(Command{Key: "submit" + key, Submit: &Submit{Name: "toy", Bundle: hash, Spec: spec}})
}

type toyAction struct {
	name string
	do   func()
}

// actions lists what may happen next; user adds what people do.
func (c *toyCluster) actions(most int) (list []toyAction) {
	for i, n := range c.nodes {
		if n.stopped {
			continue
		}
		if len(n.inputs) > 0 {
			list = append(list, toyAction{"input", func() {
				in := n.inputs[0]
				n.inputs = n.inputs[1:]
				c.give(i, in)
			}})
		}
		if len(n.gathered) > 0 {
			list = append(list, toyAction{"gathered", func() {
				ins := n.gathered
				n.gathered = nil
				c.outputs(i, n.coord.StepAll(n.now, ins))
			}})
		}
		if n.applied < len(c.log) {
			list = append(list, toyAction{"apply", func() { c.apply(i) }})
		}
		if n.exec.canWrite() {
			list = append(list, toyAction{"write", func() { n.exec.write() }})
		}
		for _, r := range n.exec.runnable() {
			list = append(list, toyAction{"turn", func() { n.exec.beginTurn(r, most) }})
		}
		if n.exec.job != nil {
			for _, r := range n.exec.own() {
				if r.busy {
					list = append(list, toyAction{"end of turn", func() { n.exec.endTurn(r) }})
				}
			}
		}
		for j := range c.nodes {
			if len(c.links[[2]int{j, i}]) > 0 && !c.stuck[[2]int{j, i}] {
				list = append(list, toyAction{"deliver", func() { c.deliver(j, i) }})
			}
		}
		if n.leads && c.leader != i {
			list = append(list, toyAction{"depose", func() {
				n.leads = false
				c.give(i, Follow{})
			}})
		}
	}
	for k := range c.unsure {
		list = append(list, toyAction{"commit", func() {
			c.commit(c.unsure[k])
			c.unsure = slices.Delete(c.unsure, k, k+1)
		}})
	}
	return list
}

func (c *toyCluster) tick(d time.Duration) {
	for i, n := range c.nodes {
		if !n.stopped {
			n.now += d
			if c.jump && n.applied%3 == 0 {
				n.now += time.Duration(c.steps%7-3) * time.Hour
			}
			c.give(i, Members{c.members()})
			c.give(i, Tick{})
		}
	}
}

// play runs until the job has ended everywhere or nothing happens any more.
func (c *toyCluster) play(pick func(int) int, user func() []toyAction) string {
	idle := 0
	for c.wrong == "" {
		if c.steps++; c.steps > 50_000 {
			return "no end after 50,000 steps\n" + c.describe()
		}
		list := c.actions(1 + pick(8))
		if len(list) == 0 {
			if job := c.job(); job != nil && job.Phase.Ended() {
				break
			}
			if idle++; idle > 300 {
				return "nothing happens any more\n" + c.describe()
			}
		} else {
			idle = 0
		}
		if user != nil {
			list = append(list, user()...)
		}
		if len(list) == 0 || pick(40) == 0 {
			c.tick(time.Duration(pick(200)) * time.Millisecond)
			continue
		}
		a := list[pick(len(list))]
		c.tally[a.name]++
		a.do()
	}
	return c.wrong
}

func (c *toyCluster) describe() string {
	var b strings.Builder
	if j := c.job(); j != nil {
		fmt.Fprintf(&b, "job %s %s epoch %d %s\n", j.ID, j.Phase, j.Epoch, j.Reason)
	}
	for i, n := range c.nodes {
		fmt.Fprintf(&b, "%s: agent %+v\n", n.name, n.agent.Status())
		if i == c.leader {
			fmt.Fprintf(&b, "%s: coordinator %+v\n", n.name, n.coord.Status())
			if n.coord.run != nil && n.coord.run.solver != nil {
				b.WriteString(n.coord.run.solver.Describe())
			}
		}
	}
	return b.String()
}

// verdict compares the end of the job to one queue in order.
func (c *toyCluster) verdict(m *toyModel) string {
	job := c.job()
	if !job.Phase.Ended() {
		return fmt.Sprintf("the job is %s\n%s", job.Phase, c.describe())
	}
	if job.Phase == Failed && strings.Contains(job.Reason, "no good copy is left") && c.lostPart(job) {
		return ""
	}
	if job.Phase == Done && job.Reason == "stopped while it was suspended" && c.tally["suspend"] > 0 && c.tally["stop"] > 0 {
		return ""
	}
	rec := c.ends[job.Epoch]
	if rec.finished == nil {
		return fmt.Sprintf("the job is %s: %s", job.Phase, job.Reason)
	}
	end := m.end
	if rec.finished.how == EndInterrupted {
		end = rec.finished.at
	}
	want := m.sequential(end)
	if rec.finished.at != want.at || rec.finished.how != want.how || rec.finished.failure != want.failure {
		return fmt.Sprintf("ended at %d, %d, %q; expected %d, %d, %q", rec.finished.at, rec.finished.how, rec.finished.failure, want.at, want.how, want.failure)
	}
	if !slices.Equal(rec.seen, want.seen) {
		return fmt.Sprintf("observed %v\nexpected %v", rec.seen, want.seen)
	}
	if want.how == EndFailed {
		if job.Phase != Failed || job.Reason != want.failure {
			return fmt.Sprintf("the job is %s: %q", job.Phase, job.Reason)
		}
		return ""
	}
	if job.Phase != Done || string(job.Result) != want.result() {
		return fmt.Sprintf("the job is %s with %q, expected %q", job.Phase, job.Result, want.result())
	}
	return ""
}

// lostPart reports whether all copies of a part of the job's last checkpoint are gone with a disk.
func (c *toyCluster) lostPart(job *Job) bool {
	n := job.Newest()
	if n == nil || c.tally["wipe"] == 0 {
		return false
	}
	for i, p := range n.Parts {
		_, own := c.disks[p.Member].parts[[2]uint64{n.Number, uint64(i)}]
		copied := false
		if p.Partner != "" {
			_, copied = c.disks[p.Partner].parts[[2]uint64{n.Number, uint64(i)}]
		}
		if !own && !copied {
			return true
		}
	}
	return false
}

func drawToy(r *rand.Rand) *toyModel {
	m := &toyModel{seed: r.Uint64(), entities: 2 + r.IntN(8), ahead: sim.Duration(1 + r.IntN(6)), end: sim.Time(20 + r.IntN(150)), cutEvery: sim.Forever, stopper: -1}
	if r.IntN(3) > 0 {
		m.cutEvery = sim.Duration(2 + r.IntN(40))
	}
	if r.IntN(3) == 0 {
		m.stopEvery = sim.Duration(3 + r.IntN(30))
		m.stopper, m.stopAfter = r.IntN(m.entities), 1+r.IntN(10)
	}
	if r.IntN(4) == 0 {
		m.failAfter = 1 + r.IntN(8)
		for range 1 + r.IntN(3) {
			m.failers = append(m.failers, r.IntN(m.entities))
		}
	}
	for k := range 1 + r.IntN(3*m.entities) {
		m.first = append(m.first, toyEvent{sim.Time(r.IntN(30)), r.IntN(m.entities), r.IntN(m.entities), uint64(k), r.IntN(12)})
	}
	return m
}

func patient() Config {
	return Config{RetryAfter: 50 * time.Millisecond, LostAfter: time.Hour, GoneAfter: time.Hour, FloorEvery: time.Millisecond}
}

// drawCluster draws a cluster with a job.
func drawCluster(r *rand.Rand) (*toyCluster, *toyModel) {
	m := drawToy(r)
	var names []string
	var roles []Role
	workers := 1 + r.IntN(4)
	for i := range workers + r.IntN(3) {
		names = append(names, string(rune('a'+i)))
		roles = append(roles, Both)
		if i >= workers {
			roles[i] = Coordinates
		}
	}
	c := newToyCluster(m, names, roles, patient())
	spec := Spec{Regions: 1 + r.IntN(8), Nodes: workers}
	if r.IntN(2) == 0 {
		c.saves = 1 + r.IntN(4)
	}
	if r.IntN(3) == 0 {
		spec.Checkpoints.EverySim = sim.Duration(2 + r.IntN(40))
	}
	if r.IntN(4) == 0 {
		spec.Checkpoints.Every = int64(50 + r.IntN(1000))
	}
	spec.Checkpoints.KeepLast, spec.Checkpoints.KeepEvery = r.IntN(4), uint64(r.IntN(3))
	for range 1 + r.IntN(4)/3 {
		c.submit(spec)
	}
	if r.IntN(2) == 0 {
		c.crashes = 1 + r.IntN(4)
	}
	if r.IntN(4) == 0 {
		c.wipes = 1
	}
	if r.IntN(6) == 0 {
		c.suspends = 1 + r.IntN(2)
	}
	return c, m
}

// saveActions are checkpoints that a user asks for, and disks that fail to write one.
func (c *toyCluster) saveActions(pick func(int) int) (list []toyAction) {
	if c.saves > 0 {
		list = append(list, toyAction{"save", func() {
			c.saves--
			if job := c.latest.Current(); job != nil {
				c.commit(Command{Key: fmt.Sprint("save", c.saves), Save: &Save{Job: job.ID}})
			}
		}})
		if pick(2) == 0 {
			list = append(list, toyAction{"failing disk", func() { c.nodes[pick(len(c.nodes))].exec.failSave = true }})
		}
	}
	return list
}

// crash kills a process; another one of the node begins at once.
func (c *toyCluster) crash(i int) {
	led := c.leader == i
	c.restart(i)
	if led {
		c.leader = -1
		if c.nodes[i].role != Works {
			c.lead(i)
		}
	}
}

// schedule plays one random schedule with changes of the leader, pauses, slow disks and stops.
func schedule(r *rand.Rand, pick func(int) int) (*toyCluster, string) {
	c, m := drawCluster(r)
	return c, c.disturb(m, r, pick)
}

func (c *toyCluster) disturb(m *toyModel, r *rand.Rand, pick func(int) int) string {
	changes, pauses, stops := r.IntN(6), r.IntN(3), 0
	if r.IntN(5) == 0 {
		stops = 1
	}
	backlogs := r.IntN(3)
	c.gather = m.seed%2 == 1
	rarely := 10 + r.IntN(300)
	if c.harsh {
		changes, rarely = 20, 8
	}
	keys := 0
	propose := func(to Phase) func() {
		return func() {
			keys++
			c.commit(Command{Key: fmt.Sprint("user", keys), Move: &Move{Job: "job-1", To: to}})
		}
	}
	user := func() (list []toyAction) {
		if c.leader < 0 {
			return []toyAction{{"lead", func() { c.lead(r.IntN(len(c.nodes))) }}}
		}
		// What was held up goes on in any case.
		if job := c.latest.Job("job-1"); job != nil && job.Phase == Paused && pick(20) == 0 {
			return []toyAction{{"resume", propose(Running)}}
		}
		if job := c.latest.Job("job-1"); job != nil && job.Phase == Suspended && pick(20) == 0 {
			return []toyAction{{"revive", propose(Running)}}
		}
		for _, n := range c.nodes {
			if n.exec.backlog && pick(20) == 0 {
				return []toyAction{{"no backlog", func() { n.exec.backlog, n.exec.changes = false, true; n.exec.input(Progress{n.exec.epoch}) }}}
			}
		}
		if pick(rarely) > 0 {
			return nil
		}
		if changes > 0 {
			list = append(list, toyAction{"lead", func() { changes--; c.lead(pick(len(c.nodes))) }})
		}
		if pauses > 0 {
			list = append(list, toyAction{"pause", func() { pauses--; propose(Paused)() }})
		}
		list = append(list, c.saveActions(pick)...)
		if c.crashes > 0 {
			list = append(list, toyAction{"crash", func() {
				c.crashes--
				c.crash(pick(len(c.nodes)))
			}})
		}
		if c.wipes > 0 {
			list = append(list, toyAction{"wipe", func() {
				c.wipes--
				i := pick(len(c.nodes))
				d := c.disks[c.nodes[i].name]
				clear(d.parts)
				d.wiped = true
				c.crash(i)
			}})
		}
		if c.suspends > 0 {
			list = append(list, toyAction{"suspend", func() { c.suspends--; propose(Suspending)() }})
		}
		if stops > 0 {
			list = append(list, toyAction{"stop", func() { stops--; propose(Stopping)() }})
		}
		if backlogs > 0 {
			list = append(list, toyAction{"backlog", func() {
				backlogs--
				if n := c.nodes[pick(len(c.nodes))]; n.exec.job != nil {
					n.exec.backlog, n.exec.changes = true, true
					n.exec.input(Progress{n.exec.epoch})
				}
			}})
		}
		return list
	}
	if wrong := c.play(pick, user); wrong != "" {
		return wrong
	}
	if job := c.job(); job.Epoch == 0 && job.Phase == Done {
		return ""
	}
	return c.verdict(m)
}

// TestMutantsAreFound shows that the checks can fail: machines that forget part of the protocol, played by
// changing their messages, are caught.
func TestMutantsAreFound(t *testing.T) {
	cases := []struct {
		name   string
		mutate func(m Message) Message
	}{
		{"does not wait for frames on the way at a takeover", func(m Message) Message {
			if x, ok := m.(*Settle); ok {
				clear(x.Frames)
			}
			return m
		}},
		{"forgets what is on the way", func(m Message) Message {
			if x, ok := m.(*Report); ok {
				for i := range x.Regions {
					x.Regions[i].Sent = nil
				}
			}
			return m
		}},
		{"grants without what they need", func(m Message) Message {
			if x, ok := m.(*Grants); ok {
				for i := range x.Grants {
					x.Grants[i].Needs = nil
				}
			}
			return m
		}},
		{"takes a cut for complete at a takeover", func(m Message) Message {
			if x, ok := m.(*Frozen); ok {
				x.CutDone = true
			}
			return m
		}},
		{"forgets cuts at a takeover", func(m Message) Message {
			if x, ok := m.(*Frozen); ok {
				x.CutNumber, x.CutAt, x.CutDone = 0, 0, true
			}
			return m
		}},
		{"forgets the end at a takeover", func(m Message) Message {
			if x, ok := m.(*Frozen); ok {
				x.Finishing = nil
			}
			return m
		}},
		{"forgets bounds that were given at a takeover", func(m Message) Message {
			if x, ok := m.(*Full); ok {
				for i := range x.Regions {
					x.Regions[i].Held = 0
				}
			}
			return m
		}},
		{"passes the floor before observations are in", func(m Message) Message {
			if x, ok := m.(*Floor); ok {
				clear(x.Frames)
			}
			return m
		}},
		{"forgets failures", func(m Message) Message {
			if x, ok := m.(*Report); ok {
				x.Failure = nil
			}
			return m
		}},
		{"forgets that an entity asked for the end", func(m Message) Message {
			if x, ok := m.(*Report); ok {
				x.StopAsked = false
			}
			return m
		}},
		{"forgets at a cut that a checkpoint was committed", func(m Message) Message {
			switch x := m.(type) {
			case *Cut:
				x.Last = 0
			case *Parcel:
				x.Last = 0
			}
			return m
		}},
		{"loses what was restored", func(m Message) Message {
			if x, ok := m.(*Restored); ok {
				x.Data = nil
			}
			return m
		}},
		{"passes the time of a checkpoint without its floor", withoutFloor()},
		{"loses a batch", func(m Message) Message {
			if x, ok := m.(*Batch); ok && x.Number == 2 {
				return nil
			}
			return m
		}},
		{"reports a time too late", func(m Message) Message {
			if x, ok := m.(*Report); ok {
				for i := range x.Regions {
					x.Regions[i].Next = x.Regions[i].Next.Add(1)
				}
			}
			return m
		}},
	}
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			for seed := range uint64(3000) {
				r := rand.New(rand.NewPCG(seed, 3))
				c, m := drawCluster(r)
				c.mutate, c.harsh = x.mutate, true
				for _, n := range c.nodes {
					m.cutEvery = sim.Duration(3 + seed%8)
					n.exec.model.cutEvery = m.cutEvery
				}
				if wrong := c.disturb(m, r, r.IntN); wrong != "" {
					t.Logf("schedule %d: %.200s", seed, wrong)
					return
				}
			}
			t.Error("3000 schedules, none failed")
		})
	}
}

// withoutFloor loses the floors at the times of checkpoints.
func withoutFloor() func(Message) Message {
	at := sim.Time(-1)
	return func(m Message) Message {
		switch x := m.(type) {
		case *Cut:
			if x.Save > 0 {
				at = x.At
			}
		case *Floor:
			if x.At == at {
				return nil
			}
		}
		return m
	}
}

// TestStoresThatLie plays executors that say too early that a part or its copy is durable.
func TestStoresThatLie(t *testing.T) {
	for _, early := range []string{"own", "copy"} {
		t.Run(early, func(t *testing.T) {
			for seed := range uint64(2000) {
				r := rand.New(rand.NewPCG(seed, 3))
				c, m := drawCluster(r)
				c.early = early
				for _, n := range c.nodes {
					n.exec.early = early
				}
				if wrong := c.disturb(m, r, r.IntN); wrong != "" {
					if !strings.Contains(wrong, "is not on node") {
						t.Errorf("schedule %d: %s", seed, wrong)
					}
					return
				}
			}
			t.Error("2000 schedules, none failed")
		})
	}
}

// TestFoundSchedules replays schedules that once failed.
func TestFoundSchedules(t *testing.T) {
	for _, x := range []struct {
		seed uint64
		why  string
	}{
		{17115, "the coordinator's word of a cut came after parcels of the cut after it"},
	} {
		r := rand.New(rand.NewPCG(x.seed, 3))
		if _, wrong := schedule(r, r.IntN); wrong != "" {
			t.Errorf("schedule %d (%s): %s", x.seed, x.why, wrong)
		}
	}
}

func TestSchedules(t *testing.T) {
	count := uint64(600)
	if testing.Short() {
		count = 150
	}
	if os.Getenv("SIMNODE_LONG_TESTS") == "1" {
		count = 30_000
	}
	tally := map[string]int{}
	for seed := range count {
		r := rand.New(rand.NewPCG(seed, 3))
		c, wrong := schedule(r, r.IntN)
		if wrong != "" {
			t.Fatalf("schedule %d: %s", seed, wrong)
		}
		for k, n := range c.tally {
			tally[k] += n
		}
	}
	for _, k := range []string{"lead", "pause", "stop", "backlog", "Cut", "Parcel", "Batch", "Frozen", "Full", "Grants", "Report", "Floor", "Finish", "Final", "Observed", "depose", "gathered", "save", "crash", "Commit", "Recover", "Retrieve", "Restored", "Abandon", "Stored", "wipe", "suspend", "revive", "recovered from a checkpoint"} {
		if tally[k] < int(count)/100 {
			t.Errorf("%s came %d times only in all schedules", k, tally[k])
		}
	}
	t.Logf("%v", tally)
}

func TestSchedulesShrinking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "world"), 3))
		choices := rapid.SliceOfN(rapid.IntRange(0, 1<<20), 0, 200).Draw(t, "choices")
		_, wrong := schedule(r, func(n int) int {
			if len(choices) == 0 {
				return r.IntN(n)
			}
			k := choices[0] % n
			choices = choices[1:]
			return k
		})
		if wrong != "" {
			t.Fatal(wrong)
		}
	})
}
