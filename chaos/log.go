package chaos

import (
	"fmt"
	"time"

	"github.com/simnode/simnode/control"
)

// replog is a model of a replicated log: what hashicorp/raft promises, and no more. Terms have one leader;
// a leader that is cut off believes that it leads until its lease ends, and one that was stopped until it
// finds out; what it proposed may be committed by the next one or be lost; followers lag.
type replog struct {
	w      *world
	r      *stream
	voters []int
	term   uint64
	leader int // -1: none
	// weak is since when the leader has no majority, negative if it has.
	weak time.Duration
	// patience is how long the voters wait this time.
	patience time.Duration
	// states[k] is the state after k commands.
	states  []*control.State
	answers []control.Answered
	// pending are proposals of the leader, or of the one before it, that are not committed.
	pending []proposal
	// believes is the term that a node's process believes to lead, 0 for none; alone is since when it has
	// no majority, negative if it has.
	believes  []uint64
	alone     []time.Duration
	elections int
}

type proposal struct {
	command control.Command
	by      int
	term    uint64
	// spread says that another voter has it.
	spread bool
}

func newReplog(w *world, seed uint64) *replog {
	l := &replog{w: w, r: newStream(seed, streamLog), leader: -1, states: []*control.State{{}}, answers: []control.Answered{{}}}
	for i, role := range w.settings.roles {
		if role != control.Works {
			l.voters = append(l.voters, i)
		}
		l.believes = append(l.believes, 0)
		l.alone = append(l.alone, -1)
	}
	l.patience = w.settings.election
	return l
}

// last is the newest state.
func (l *replog) last() *control.State { return l.states[len(l.states)-1] }

// reaches reports whether a node runs and reaches a majority of voters, itself included.
func (l *replog) reaches(i int) bool {
	if !l.w.hosts[i].running() {
		return false
	}
	n := 0
	for _, v := range l.voters {
		if v == i || l.w.net.connected(i, v) {
			n++
		}
	}
	return 2*n > len(l.voters)
}

// beat is a heartbeat: elections, leaders that step down, followers that catch up.
func (l *replog) beat() {
	now := l.w.now
	switch {
	case l.leader >= 0 && l.w.hosts[l.leader].p != nil && l.believes[l.leader] == l.term && l.reaches(l.leader):
		l.weak = -1
	case l.weak < 0:
		l.weak, l.patience = now, l.w.settings.election/2+l.r.in(0, l.w.settings.election)
	case now-l.weak > l.patience:
		l.elect()
	}
	for i := range l.believes {
		l.watchBelief(i)
	}
	for i := range l.w.hosts {
		l.tell(i)
	}
	l.w.after(l.w.settings.heartbeat, l.beat)
}

// watchBelief lets a node step down that leads no more, when it finds out.
func (l *replog) watchBelief(i int) {
	h := l.w.hosts[i]
	if l.believes[i] == 0 || !h.running() {
		return
	}
	deposed := l.believes[i] != l.term || l.leader != i
	if l.reaches(i) {
		l.alone[i] = -1
	} else if l.alone[i] < 0 {
		l.alone[i] = l.w.now
	}
	// Any majority has a voter that knows of the later term.
	told := deposed && (l.reaches(i) || l.leader >= 0 && l.w.net.connected(i, l.leader))
	if told || l.alone[i] >= 0 && l.w.now-l.alone[i] > l.w.settings.lease {
		l.stepDown(i)
	}
}

func (l *replog) stepDown(i int) {
	l.believes[i], l.alone[i] = 0, -1
	l.w.hosts[i].input(control.Follow{})
}

// elect lets a voter that reaches a majority lead, if there is one.
func (l *replog) elect() {
	var able []int
	for _, v := range l.voters {
		if l.reaches(v) && l.w.hosts[v].p != nil {
			able = append(able, v)
		}
	}
	if len(able) == 0 {
		return
	}
	l.elections++
	l.term += 1 + uint64(l.r.n(2))
	l.leader, l.weak = pick(l.r, able...), -1
	l.w.note("log: %s leads in term %d", nodeName(l.leader), l.term)
	if l.believes[l.leader] != 0 {
		l.stepDown(l.leader)
	}
	l.inherit()
	term, i, p := l.term, l.leader, l.w.hosts[l.leader].p
	l.believes[i] = term
	// It applies all there is before it leads.
	l.w.after(l.r.exp(l.w.settings.commit), func() {
		if p.over || l.believes[i] != term {
			return
		}
		l.catchUp(i)
		p.put(item{input: control.Lead{Term: term}})
	})
}

// inherit decides what becomes of proposals that the last leader did not get committed: those up to some
// one are.
func (l *replog) inherit() {
	list := l.pending
	l.pending = nil
	most := 0
	for most < len(list) && (list[most].spread || list[most].by == l.leader) {
		most++
	}
	for _, p := range list[:l.r.n(most+1)] {
		l.commit(p.command)
	}
}

// propose takes a command of a node; nobody tells what becomes of it.
func (l *replog) propose(i int, c control.Command) {
	if l.believes[i] == 0 || l.believes[i] != l.term || l.leader != i {
		return
	}
	p := proposal{command: c, by: i, term: l.term, spread: len(l.voters) == 1}
	for _, v := range l.voters {
		p.spread = p.spread || v != i && l.w.net.connected(i, v)
	}
	l.pending = append(l.pending, p)
	l.w.after(l.r.exp(l.w.settings.commit), func() { l.complete(i, p.term) })
}

// complete commits what a leader proposed, as soon as it reaches a majority.
func (l *replog) complete(i int, term uint64) {
	if l.term != term || l.leader != i || len(l.pending) == 0 {
		return
	}
	if !l.reaches(i) {
		l.w.after(l.w.settings.heartbeat, func() { l.complete(i, term) })
		return
	}
	list := l.pending
	l.pending = nil
	for _, p := range list {
		l.commit(p.command)
	}
}

// user appends a command for a user, and reports whether there was a leader to take it.
func (l *replog) user(c control.Command) bool {
	if l.leader < 0 || l.believes[l.leader] != l.term || !l.reaches(l.leader) {
		return false
	}
	l.propose(l.leader, c)
	return true
}

// commit appends a command.
func (l *replog) commit(c control.Command) {
	data, err := control.MarshalCommand(c)
	if err != nil {
		l.w.fail("a command cannot be written: %v", err)
		return
	}
	if c, err = control.UnmarshalCommand(data); err != nil {
		l.w.fail("a command that was proposed is refused: %v", err)
		return
	}
	before := l.last()
	after, answer := before.Apply(c)
	l.states, l.answers = append(l.states, after), append(l.answers, answer)
	l.w.note("log: %d %s %s", len(l.states)-1, c.Key, answer.Error)
	l.w.trace.fold(uint64(len(l.states)), uint64(len(data)))
	l.w.user.learned(answer)
	l.w.judge(before, after)
	for i := range l.w.hosts {
		l.w.after(l.r.exp(l.w.settings.replicate), func() { l.tell(i) })
	}
}

// tell tells a node of what was committed, if it can be reached.
func (l *replog) tell(i int) {
	h := l.w.hosts[i]
	if h.p == nil || h.lag > 0 || h.p.applied == len(l.states)-1 {
		return
	}
	if i != l.leader && (l.leader < 0 || !l.w.net.connected(l.leader, i)) {
		return
	}
	l.catchUp(i)
}

// catchUp lets a node apply all that is committed, in one or more steps.
func (l *replog) catchUp(i int) {
	p := l.w.hosts[i].p
	for p.applied < len(l.states)-1 {
		step := 1
		if l.r.Bernoulli(0.5) {
			step = len(l.states) - 1 - p.applied
		}
		p.applied += step
		p.put(item{input: control.Applied{State: l.states[p.applied]}})
	}
}

// died notes that a node's process is gone.
func (l *replog) died(i int) {
	l.believes[i], l.alone[i] = 0, -1
}

// started gives a new process what its disk holds.
func (l *replog) started(p *process, durable int) {
	p.applied = l.r.n(durable + 1)
	data, err := control.MarshalState(l.states[p.applied])
	if err != nil {
		l.w.fail("a snapshot cannot be written: %v", err)
		return
	}
	state, err := control.UnmarshalState(data)
	if err != nil {
		l.w.fail("a snapshot cannot be read: %v", err)
		return
	}
	p.put(item{input: control.Applied{State: state}})
}

func (l *replog) String() string {
	return fmt.Sprintf("term %d, leader %d, %d commands", l.term, l.leader, len(l.states)-1)
}
