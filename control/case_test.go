package control

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// The tests of this file are faults and known ways to get conservative time management wrong, each with
// the right answer at the level of these machines.

// driver is a coordinator whose members the test plays.
type driver struct {
	t     testing.TB
	c     *Coordinator
	now   time.Duration
	state *State
	shape Shape
}

// newDriver has n members with one region each, which hold the next events given, and lets them go.
func newDriver(t testing.TB, shape Shape, next ...sim.Time) (*driver, []Output) {
	d := &driver{t: t, c: NewCoordinator("m000", Config{FloorEvery: time.Hour}), shape: shape}
	data := []byte("x")
	s := must(t, &State{}, Command{Key: "u", Upload: &Upload{Hash: hashOf(data), Size: 1, Data: data}})
	s = must(t, s, Command{Key: "s", Submit: &Submit{Bundle: hashOf(data)}})
	start := &Start{Job: "job-1"}
	for i := range next {
		start.Members, start.Boots, start.Owner = append(start.Members, fmt.Sprintf("m%03d", i)), append(start.Boots, "1"), append(start.Owner, i)
	}
	d.state = must(t, s, Command{Key: "st", Start: start})
	d.state = must(t, d.state, Command{Key: "r", Move: &Move{Job: "job-1", To: Running, Epoch: 1}})
	d.step(Applied{d.state})
	return d, d.lead(1, make([]sim.Time, len(next)), next)
}

// lead makes the coordinator begin a term with members that hold bounds and next events.
func (d *driver) lead(term uint64, held, next []sim.Time) (out []Output) {
	d.step(Lead{term})
	n := len(next)
	for i := range next {
		d.hear(i, &Frozen{Header: d.head(), Sent: make([]uint64, n), CutDone: true})
	}
	for i, t := range next {
		out = d.hear(i, &Full{Header: d.head(), Regions: []RegionState{{i, t, held[i]}}, Shape: d.shape})
	}
	return out
}

func (d *driver) head() Header { return d.c.header() }

func (d *driver) step(in Input) []Output {
	d.now += time.Millisecond
	return append([]Output(nil), d.c.Step(d.now, in)...)
}

func (d *driver) hear(i int, m Message) []Output {
	return d.step(Heard{fmt.Sprintf("m%03d", i), "1", m})
}

func (d *driver) report(i int, next sim.Time, more ...any) []Output {
	r := lbts.Report{Region: i, Next: next}
	for _, x := range more {
		switch x := x.(type) {
		case lbts.Sent:
			r.Sent = append(r.Sent, x)
		case lbts.Received:
			r.Received = append(r.Received, x)
		}
	}
	return d.hear(i, &Report{Header: d.head(), Regions: []lbts.Report{r}})
}

// granted lists the grants in outputs.
func granted(out []Output) string {
	var list []string
	for _, o := range out {
		if s, ok := o.(Send); ok {
			if g, ok := s.Message.(*Grants); ok {
				for _, x := range g.Grants {
					s := fmt.Sprintf("%d<%s", x.Region, showTime(x.Bound))
					for _, n := range x.Needs {
						s += fmt.Sprintf(" after %d#%d", n.From, n.Batch)
					}
					list = append(list, s)
				}
			}
		}
	}
	return strings.Join(list, ", ")
}

func (d *driver) want(out []Output, grants string) {
	d.t.Helper()
	if got := granted(out); got != grants {
		d.t.Errorf("granted %q, expected %q", got, grants)
	}
}

// chain is lookahead 1 from region 0 to 1 and 5 from 1 to 2.
func chain() Shape {
	f := sim.Forever
	return Shape{End: 1000, CutEvery: f, Lookahead: []sim.Duration{f, f, f, 1, f, f, f, 5, f}}
}

// A message is on the way while its sender already reports a later time.
func TestCase01TransientMessage(t *testing.T) {
	d, out := newDriver(t, chain(), 0, sim.Never, 3)
	d.want(out, "0<1000, 2<6")
	d.want(d.report(0, 101, lbts.Sent{To: 1, Batch: 1, Least: 1}), "1<102 after 0#1")
	d.want(d.report(2, 6), "") // 1 + 5 is as far as it may go
	d.want(d.report(1, 1, lbts.Received{From: 0, Batch: 1}), "")
	d.want(d.report(1, sim.Never), "2<107")
}

// Reports are taken at different moments.
func TestCase02ReportsAtDifferentMoments(t *testing.T) {
	f := sim.Forever
	d, out := newDriver(t, Shape{End: 1000, CutEvery: f, Lookahead: []sim.Duration{f, 1, f, f, f, f, 1, f, f}}, 10, 5, 4)
	d.want(out, "1<1000, 2<7")
	d.want(d.report(1, 20, lbts.Sent{To: 0, Batch: 1, Least: 6}), "0<21 after 1#1")
	d.want(d.report(2, 7), "")
	d.want(d.report(0, 6, lbts.Received{From: 1, Batch: 1}), "")
	d.want(d.report(0, 21), "2<22")
}

// A participant that is idle says so; one that does not report is named.
func TestCase03IdleParticipant(t *testing.T) {
	d, _ := newDriver(t, Shape{End: 100, CutEvery: sim.Forever, Lookahead: []sim.Duration{1}}, 5, sim.Never, 7)
	d.report(0, sim.Never)
	var text string
	for range 300 {
		d.now += 50 * time.Millisecond
		d.hear(0, &Pong{d.head(), "running"})
		d.hear(2, &Pong{d.head(), "running"})
		for _, o := range d.step(Tick{}) {
			if n, ok := o.(Note); ok {
				text += n.Text + " " + strings.Join(n.Fields, " ") + "\n"
			}
		}
	}
	for _, sign := range []string{
		"node m001 has been silent for 2s", "said Full", "region 2 of node m002 at 7ns",
		"no region has passed 7ns", "region 2 last reported at mark",
	} {
		if !strings.Contains(text, sign) {
			t.Errorf("%q is not told:\n%s", sign, text)
		}
	}
	if out := d.report(2, sim.Never); !finishes(out) {
		t.Errorf("all are idle, but the run does not end: %v", out)
	}
}

func finishes(out []Output) bool {
	for _, o := range out {
		if s, ok := o.(Send); ok {
			if _, ok := s.Message.(*Finish); ok {
				return true
			}
		}
	}
	return false
}

// What comes to a region at a cut may lie before the times of others, never before the cut.
func TestCase11Join(t *testing.T) {
	d, out := newDriver(t, Shape{End: 100, CutEvery: 10, Lookahead: []sim.Duration{2}}, 1, sim.Never, 30)
	d.want(out, "0<5")
	d.want(d.report(0, 21), "") // all have reached 10: a cut at 21
	for i, next := range []sim.Time{sim.Never, 22, 30} {
		out = d.hear(i, &CutDone{Header: d.head(), Number: 1, Next: []sim.Time{next}})
	}
	d.want(out, "1<26")
	for _, r := range d.c.Status().Regions {
		if r.Given < 21 {
			t.Errorf("a bound of %v after a cut at 21", r.Given)
		}
	}
	// A region that states something before the cut is refused.
	out = d.report(0, 20)
	if p, ok := out[len(out)-1].(Propose); !ok || p.Command.End == nil || !strings.Contains(p.Command.End.Reason, "node m000: report of region 0 refused") {
		t.Errorf("%+v", out)
	}
}

// Another coordinator begins from full reports; no bound that was given goes back.
func TestCase15CoordinatorChanges(t *testing.T) {
	d, out := newDriver(t, Shape{End: 1000, CutEvery: sim.Forever, Lookahead: []sim.Duration{3}}, 10, 11, 12)
	d.want(out, "0<14, 1<13, 2<13")
	out = d.lead(2, []sim.Time{14, 13, 13}, []sim.Time{15, 16, 12})
	d.want(out, "2<18")
	for i, r := range d.c.Status().Regions {
		if r.Given < []sim.Time{14, 13, 18}[i] {
			t.Errorf("region %d holds %v", i, r.Given)
		}
	}
	// Bounds that the reports contradict end the job.
	out = d.lead(3, []sim.Time{16, 13, 13}, []sim.Time{15, 16, 12})
	if p, ok := out[len(out)-1].(Propose); !ok || !strings.Contains(p.Command.End.Reason, "region 2 at 12ns can still reach it at 15ns") {
		t.Errorf("%+v", out)
	}
}

// TestFault02CoordinatorKilled loses the leader 20 times in one run, wherever it is.
func TestFault02CoordinatorKilled(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 4))
		m := drawToy(r)
		m.end, m.failAfter, m.stopper = 150, 0, -1
		for k := range m.first {
			m.first[k].hops = 30
		}
		c := newToyCluster(m, []string{"a", "b", "c", "d"}, []Role{Both, Both, Both, Coordinates}, patient())
		c.submit(Spec{Regions: 5, Nodes: 3})
		c.lead(3)
		killed := 0
		wrong := c.play(r.IntN, func() []toyAction {
			if r.IntN(60) > 0 || killed == 20 {
				return nil
			}
			return []toyAction{{"kill", func() {
				// What the old one sent and was sent is lost with it.
				killed++
				old := c.leader
				c.nodes[old].leads = false
				c.give(old, Follow{})
				c.unsure = nil
				c.lead(r.IntN(4))
			}}}
		})
		if wrong == "" {
			wrong = c.verdict(m)
		}
		if wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

// failedScene plays two members under coordinator c until a batch was sent.
func failedScene(t *testing.T) (*toyCluster, func()) {
	m := &toyModel{seed: 5, entities: 4, ahead: 2, end: 60, cutEvery: sim.Forever, stopper: -1}
	for e := range m.entities {
		m.first = append(m.first, toyEvent{sim.Time(1 + 3*e), e, e, uint64(e), 8})
	}
	c := newToyCluster(m, []string{"a", "b", "c", "d"}, []Role{Both, Both, Coordinates, Coordinates}, Config{})
	c.submit(Spec{Regions: 2, Nodes: 2})
	c.lead(2)
	k := 0
	settle := func() {
		for range 5000 {
			list := c.actions(3)
			if len(list) == 0 {
				return
			}
			k++
			list[k%len(list)].do()
		}
	}
	for range 5000 {
		if c.tally["Batch"] > 0 {
			return c, settle
		}
		list := c.actions(3)
		k++
		list[k%len(list)].do()
	}
	t.Fatal("no batch was sent")
	return nil, nil
}

func (c *toyCluster) ticks(d time.Duration, settle func()) {
	for ; d > 0; d -= 250 * time.Millisecond {
		for i, n := range c.nodes {
			if !n.stopped {
				c.give(i, Members{c.members()})
			}
		}
		c.tick(250 * time.Millisecond)
		settle()
	}
}

// TestFault09StoppedAndContinued: a member stands still for 30 s, the job goes on without it in a new epoch;
// when it goes on, all it sends is refused.
func TestFault09StoppedAndContinued(t *testing.T) {
	c, settle := failedScene(t)
	b := c.nodes[1]
	b.stopped = true
	c.ticks(30*time.Second, settle)
	job := c.job()
	if job.Phase != Done || job.Epoch != 2 || len(job.Losses) != 1 || !strings.Contains(job.Losses[0], "node b of job-1 was last heard 3") {
		t.Fatalf("%s in epoch %d: %s, %v", job.Phase, job.Epoch, job.Reason, job.Losses)
	}
	if wrong := c.verdict(c.nodes[0].exec.model); wrong != "" {
		t.Fatal(wrong)
	}
	before := c.nodes[0].agent.Counts().OtherEpoch
	// It wakes up, runs what it may, and sends before it reads the log.
	b.stopped = false
	b.now += 30 * time.Second
	for range 50 {
		for _, r := range b.exec.own() {
			if r.busy {
				b.exec.endTurn(r)
			} else if len(b.exec.runnable()) > 0 {
				b.exec.beginTurn(b.exec.runnable()[0], 5)
				break
			}
		}
		for len(b.inputs) > 0 {
			in := b.inputs[0]
			b.inputs = b.inputs[1:]
			c.give(1, in)
		}
	}
	c.links[[2]int{1, 0}] = append(c.links[[2]int{1, 0}], Append(nil, &Batch{Header{Epoch: 1}, 2, nil}))
	settle()
	if after := c.nodes[0].agent.Counts().OtherEpoch; after == before {
		t.Error("nothing was refused")
	}
	if b.agent.Status().Stage != Idle || b.exec.dropped == "" {
		t.Errorf("%+v", b.agent.Status())
	}
	if c.wrong != "" {
		t.Error(c.wrong)
	}
}

// TestFault10CoordinatorPaused: grants of a coordinator that slept while another one took over are
// refused, and it takes nobody for silent when it wakes up.
func TestFault10CoordinatorPaused(t *testing.T) {
	c, settle := failedScene(t)
	old := c.nodes[2]
	old.stopped = true
	c.lead(3)
	c.ticks(time.Second, settle)
	if job := c.job(); job.Phase != Done {
		t.Fatalf("%s: %s", job.Phase, job.Reason)
	}

	c, settle = failedScene(t)
	old = c.nodes[2]
	old.stopped = true
	c.lead(3)
	for range 40 { // up to where members answer to the new one
		list := c.actions(3)
		list[0].do()
	}
	old.stopped = false
	old.now += time.Hour
	c.outputs(2, old.coord.Step(old.now, Tick{}))
	c.outputs(2, old.coord.Step(old.now, Heard{"a", "1", &Report{Header: Header{1, 1}}}))
	c.links[[2]int{2, 0}] = append(c.links[[2]int{2, 0}], Append(nil, &Grants{Header: Header{1, 1}, Serial: 1000, Grants: []lbts.Grant{{Region: 0, Bound: sim.Never}}}))
	settle()
	if n := c.nodes[0].agent.Counts().OldTerm; n == 0 {
		t.Error("nothing of the old term was refused")
	}
	if s := old.coord.Status(); s.Job != "" {
		t.Errorf("it still coordinates: %+v", s)
	}
	for _, n := range old.notes {
		t.Errorf("it noted %s", n.Text)
	}
	if wrong := c.verdict(c.nodes[0].exec.model); wrong != "" || c.wrong != "" {
		t.Error(wrong, c.wrong)
	}
}

// TestFault14LossDuplicationReordering: links keep each message, once and in order. An event frame that
// comes twice or out of turn is a fault that is named at once; questions and answers may come twice.
func TestFault14LossDuplicationReordering(t *testing.T) {
	for name, x := range map[string]struct {
		numbers []uint64
		sign    string
	}{
		"twice":       {[]uint64{1, 1}, "event frame 1 of node b came where 2 was next"},
		"lost":        {[]uint64{2}, "event frame 2 of node b came where 1 was next"},
		"out of turn": {[]uint64{2, 1}, "event frame 2 of node b came where 1 was next"},
	} {
		t.Run(name, func(t *testing.T) {
			c, settle := failedScene(t)
			c.links = map[[2]int][][]byte{}
			for _, n := range x.numbers {
				c.links[[2]int{1, 0}] = append(c.links[[2]int{1, 0}], Append(nil, &Batch{Header{Epoch: 1}, n, nil}))
			}
			settle()
			if job := c.job(); job.Phase != Failed || !strings.Contains(job.Reason, "node a cannot go on with job-1: engine fault: "+x.sign) {
				t.Errorf("%s: %s", job.Phase, job.Reason)
			}
		})
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 8))
		c, m := drawCluster(r)
		var last [][2]int
		wrong := c.play(r.IntN, func() (list []toyAction) {
			if c.leader < 0 {
				return []toyAction{{"lead", func() { c.lead(r.IntN(len(c.nodes))) }}}
			}
			last = last[:0]
			for i := range c.nodes {
				for j := range c.nodes {
					if link := c.links[[2]int{i, j}]; len(link) > 0 && r.IntN(10) == 0 && repeatable(link[0]) {
						last = append(last, [2]int{i, j})
					}
				}
			}
			for _, k := range last {
				list = append(list, toyAction{"repeat", func() { c.links[k] = append([][]byte{c.links[k][0]}, c.links[k]...) }})
			}
			return list
		})
		if wrong == "" {
			wrong = c.verdict(m)
		}
		if wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

// repeatable tells questions and answers from what is counted.
func repeatable(data []byte) bool {
	m, _ := Parse(data)
	switch m.(type) {
	case *Assume, *Settle, *Cut, *Finish, *Grants, *Floor, *Frozen, *Full, *CutDone, *Recorded, *Ping, *Pong:
		return true
	}
	return false
}

// TestFault17ClockJumps: clocks that jump back and forth by hours lose nobody and change nothing.
func TestFault17ClockJumps(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 5))
		c, m := drawCluster(r)
		c.jump = true
		cfg := Config{FloorEvery: time.Millisecond, LostAfter: time.Hour, GoneAfter: 2 * time.Hour}
		c.cfg = cfg
		for _, n := range c.nodes {
			n.agent, n.coord = NewAgent(n.name, n.boot, cfg, n.exec), NewCoordinator(n.name, cfg)
		}
		if wrong := c.disturb(m, r, r.IntN); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

// TestFault29ZombieAfterItsReplacement: a process that was replaced does no harm with what it still
// sends, and the job goes on with the new one.
func TestFault29ZombieAfterItsReplacement(t *testing.T) {
	c, settle := failedScene(t)
	zombie := Append(nil, &Batch{Header{Epoch: 1}, c.nodes[1].agent.Status().Sent[0] + 1, appendToys(nil, []toyEvent{{1, 1, 0, 1, 1}})})
	c.restart(1)
	c.nodes[0].boot, c.nodes[1].boot = "1", "1'"
	settle()
	before := c.nodes[0].agent.Counts()
	c.links[[2]int{1, 0}] = [][]byte{zombie} // from the new process, as far as the link knows
	settle()
	after := c.nodes[0].agent.Counts()
	if after.OtherProcess == before.OtherProcess && after.OtherEpoch == before.OtherEpoch {
		t.Error("the frame was not refused")
	}
	c.ticks(time.Second, settle)
	if job := c.job(); job.Phase != Done || len(job.Losses) != 1 || !strings.Contains(job.Losses[0], "node b was restarted") {
		t.Errorf("%s: %s, %v", job.Phase, job.Reason, job.Losses)
	}
	if wrong := c.verdict(c.nodes[0].exec.model); wrong != "" {
		t.Error(wrong)
	}
	// The new process is a member of the new epoch and never was one of the old.
	if s := c.nodes[1].agent.Status(); s.Stage != Idle || c.nodes[1].exec.prepares != 1 {
		t.Errorf("%d jobs were set up, %+v", c.nodes[1].exec.prepares, s)
	}
	if c.wrong != "" {
		t.Error(c.wrong)
	}
}

// A member that is silent is lost once gossip too takes it for gone, or after a long time in any case; one
// that answers pings never is.
func TestSilence(t *testing.T) {
	shape := Shape{End: 100, CutEvery: sim.Forever, Lookahead: []sim.Duration{1}}
	node := func(name, boot string, alive bool) Node {
		return Node{Name: name, Boot: boot, Role: Both, Workers: 1, Alive: alive}
	}
	for name, x := range map[string]struct {
		nodes []Node
		pongs bool
		after time.Duration // 0: never
	}{
		"gossip takes it for alive":     {[]Node{node("m000", "1", true), node("m001", "1", true)}, false, time.Minute},
		"gossip takes it for gone":      {[]Node{node("m000", "1", true), node("m001", "1", false)}, false, 3 * time.Second},
		"gossip knows it no more":       {[]Node{node("m000", "1", true)}, false, 3 * time.Second},
		"gossip knows another process":  {[]Node{node("m000", "1", true), node("m001", "2", true)}, false, 3 * time.Second},
		"gossip says nothing":           {nil, false, time.Minute},
		"it answers, whatever is said":  {[]Node{node("m000", "1", true), node("m001", "1", false)}, true, 0},
		"it answers and gossip is mute": {nil, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := newDriver(t, shape, 5, 7)
			if x.nodes != nil {
				d.step(Members{x.nodes})
			}
			// Without gossip, no node is known to go on with: then it is the note that tells.
			lost := func(o Output) (reason string, ok bool) {
				switch o := o.(type) {
				case Propose:
					return o.Command.Recover.Reason, true
				case Note:
					return o.Text, strings.Contains(o.Text, "goes back")
				}
				return "", false
			}
			begin := d.now
			for d.now < begin+90*time.Second {
				d.now += 200 * time.Millisecond
				d.hear(0, &Pong{d.head(), ""})
				if x.pongs {
					d.hear(1, &Pong{d.head(), "a long turn"})
				}
				for _, o := range d.step(Tick{}) {
					reason, ok := lost(o)
					if !ok {
						continue
					}
					after := d.now - begin
					if x.after == 0 || after < x.after || after > x.after+time.Second || !strings.Contains(reason, "node m001 of job-1 was last heard") {
						t.Fatalf("after %v: %s", after, reason)
					}
					return
				}
			}
			if x.after > 0 {
				t.Error("it was not lost")
			}
		})
	}
}

// Messages of an epoch that the log has not told of yet are kept, up to a bound.
func TestMessagesBeforeTheirEpoch(t *testing.T) {
	var inputs []Input
	exec := &toyExecutor{model: &toyModel{seed: 1, entities: 2, ahead: 1, end: 9, cutEvery: sim.Forever, stopper: -1}, wrong: t.Errorf, input: func(in Input) { inputs = append(inputs, in) }}
	a := NewAgent("m001", "1", Config{}, exec)
	d, _ := newDriver(t, Shape{End: 9, CutEvery: sim.Forever, Lookahead: []sim.Duration{1}}, 5, 7)
	if out := a.Step(0, Heard{"m000", "1", &Ping{Header{1, 1}}}); len(out) != 1 || showMessage(out[0].(Send).Message) != "Pong e1 t1 reading the log" {
		t.Errorf("%v", out)
	}
	a.Step(0, Heard{"m000", "1", &Assume{Header{1, 1}}})
	for range 2 * maxEarly {
		a.Step(0, Heard{"m000", "1", &Batch{Header{Epoch: 7}, 1, make([]byte, 8192)}})
	}
	if s := a.Status(); s.Early == 0 || s.Early*8192 > maxEarlySize+8192 || a.Counts().Unkept != uint64(2*maxEarly+1-s.Early) {
		t.Errorf("%d are kept, %d not", s.Early, a.Counts().Unkept)
	}
	a.Step(0, Applied{d.state})
	out := a.Step(0, inputs[0])
	if len(out) != 1 || !strings.HasPrefix(showMessage(out[0].(Send).Message), "Frozen e1 t1") {
		t.Errorf("%v", out)
	}
	if a.Step(0, Heard{"m000", "1", &Assume{Header{0, 1}}}); a.Counts().OtherEpoch != 1 {
		t.Errorf("%+v", a.Counts())
	}
}

// TestMembersNameTheProcess: what only one process of a member can use, and nobody sends again, names it.
func TestMembersNameTheProcess(t *testing.T) {
	job := &Job{Members: []string{"a", "b"}, Boots: []string{"1", "2"}, Epoch: 1}
	a := NewAgent("a", "1", Config{}, nil)
	a.share = newShare(job, 0)
	a.pass(&Collected{Batches: []Outgoing{{To: 1, Number: 1}}})
	a.share.job.Recorder = 1
	a.pass(&Collected{Observations: []byte{1}})
	a.finalPart(FinalPart{Epoch: 1})
	if len(a.out) != 3 {
		t.Fatalf("%d messages", len(a.out))
	}
	for _, out := range a.out {
		if s := out.(Send); s.To != "b" || s.Boot != "2" {
			t.Errorf("%T goes to process %q of %s", s.Message, s.Boot, s.To)
		}
	}
}

// TestMembersThatDiffer: nodes that would compute different things are named.
func TestMembersThatDiffer(t *testing.T) {
	m := &toyModel{seed: 5, entities: 2, ahead: 2, end: 60, cutEvery: sim.Forever, stopper: -1, first: []toyEvent{{1, 0, 0, 1, 3}}}
	c := newToyCluster(m, []string{"a", "b"}, []Role{Both, Both}, Config{})
	c.nodes[1].exec.model.version = 1
	c.submit(Spec{Regions: 2, Nodes: 2})
	c.lead(0)
	if wrong := c.play(func(n int) int { return n - 1 }, nil); wrong != "" {
		t.Fatal(wrong)
	}
	if job := c.job(); job.Phase != Failed || !strings.Contains(job.Reason, "nodes a and b set job-1 up differently") {
		t.Errorf("%s: %s", job.Phase, job.Reason)
	}
}

// TestSetupThatFails: a member that cannot set the job up ends it with its reason.
func TestSetupThatFails(t *testing.T) {
	m := &toyModel{seed: 5, entities: 2, ahead: 2, end: 60, cutEvery: sim.Forever, stopper: -1}
	c := newToyCluster(m, []string{"a", "b"}, []Role{Both, Both}, Config{})
	c.nodes[1].exec.refuse = "there is no model of that name"
	c.submit(Spec{Regions: 2, Nodes: 2})
	c.lead(0)
	if wrong := c.play(func(n int) int { return n - 1 }, nil); wrong != "" {
		t.Fatal(wrong)
	}
	if job := c.job(); job.Phase != Failed || job.Reason != "node b cannot go on with job-1: the job cannot be set up: there is no model of that name" {
		t.Errorf("%s: %s", job.Phase, job.Reason)
	}
}

func TestAssign(t *testing.T) {
	node := func(name string, workers int) Node {
		return Node{Name: name, Boot: "1", Role: Both, Workers: workers, Alive: true}
	}
	coordinator, dead, leaving := node("k", 4), node("d", 4), node("l", 4)
	coordinator.Role, dead.Alive, leaving.Leaving = Coordinates, false, true
	for _, x := range []struct {
		job      Job
		expected int
		nodes    []Node
		want     string
	}{
		{Job{}, 1, nil, "job-1 waits for 1 working nodes, 0 are there"},
		{Job{}, 3, []Node{node("a", 1), node("b", 1), coordinator, dead, leaving}, "job-1 waits for 3 working nodes, 2 are there"},
		{Job{}, 2, []Node{node("b", 1), node("a", 1)}, "[a b] [0 0 1 1]"},
		{Job{}, 1, []Node{node("a", 1), node("b", 3)}, "[a b] [0 0 1 1 1 1 1 1]"},
		{Job{Spec: Spec{Workers: 1}}, 1, []Node{node("a", 1), node("b", 3)}, "[a b] [0 0 1 1]"},
		{Job{Spec: Spec{Regions: 5}}, 1, []Node{node("a", 1), node("b", 1)}, "[a b] [0 0 0 1 1]"},
		{Job{MostRegions: 1}, 1, []Node{node("a", 1), node("b", 1)}, "[a] [0]"},
		{Job{Spec: Spec{Nodes: 2, Regions: 1}}, 9, []Node{node("a", 1), node("b", 1)}, "[a] [0]"},
	} {
		x.job.ID = "job-1"
		start, missing := assign(&x.job, x.nodes, x.expected)
		got := missing
		if start != nil {
			got = fmt.Sprint(start.Members, " ", start.Owner)
			if err := start.check(); err != nil {
				t.Error(err)
			}
		}
		if got != x.want {
			t.Errorf("%+v: %s, expected %s", x.job, got, x.want)
		}
	}
}

// A member that answers pings but not what it is asked for is named, whatever it is asked for.
func TestCase3SlowAnswerIsNamed(t *testing.T) {
	c := NewCoordinator("m000", Config{})
	state := &State{LastEpoch: 1, Jobs: []*Job{{
		ID: "job-1", Phase: Running, Epoch: 1, Members: []string{"m000", "m001"}, Boots: []string{"x", "x"}, Owner: []int{0, 1},
	}}}
	var notes []string
	now := time.Duration(0)
	step := func(in Input) {
		for _, o := range c.Step(now, in) {
			if n, ok := o.(Note); ok {
				notes = append(notes, n.Text+" "+strings.Join(n.Fields, " "))
			}
		}
	}
	step(Applied{state})
	step(Lead{Term: 2})
	for range 600 {
		now += 50 * time.Millisecond
		for _, name := range []string{"m000", "m001"} {
			step(Heard{name, "x", &Pong{Header{1, 2}, "setting the job up"}})
		}
		step(Tick{})
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "job-1 has waited for 10s") || !strings.Contains(notes[0], "m000, m001") {
		t.Errorf("told: %q", notes)
	}
}
