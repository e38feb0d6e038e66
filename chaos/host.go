package chaos

import (
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/simnode/simnode/cluster/link"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/lbts"
)

// clusterName is the same for all.
const clusterName = "chaos"

// host is a machine: processes of one node come and go on it.
type host struct {
	w       *world
	i       int
	name    string
	role    control.Role
	workers int
	rate    float64
	// boots counts its processes; p is the one that runs, nil if none does.
	boots int
	p     *process
	// deaths counts the processes that died.
	deaths int
	// pauses counts what stops it; slow and disk are how many times as slow it is.
	pauses     int
	slow, disk float64
	// jolts counts how often its clock jumped or stood.
	jolts int
	// lag counts what keeps the log from it.
	lag int
	// durable is how many commands its disk holds; platter are the checkpoints on it.
	durable int
	platter *platter
}

// running reports whether the host has a process that is not stopped.
func (h *host) running() bool { return h.p != nil && h.pauses == 0 }

// process is one process of a node.
type process struct {
	*host
	boot  string
	born  time.Duration
	over  bool
	agent *control.Agent
	coord *control.Coordinator
	exec  *executor
	peers []*peer // nil for itself
	// shift is by how much its clock has jumped.
	shift time.Duration

	inbox   []item
	pumping bool
	// stopped is what fell due while the process was stopped.
	stopped            []func()
	forAgent, forCoord []control.Input
	// hearing is what the agent is taking in, as it was sent; nil for other inputs than messages.
	hearing *control.Heard
	// term is the latest that the agent was told of in its epoch.
	term    uint64
	applied int
	epoch   uint64
	// last is what the agent said of itself before, newest the latest epoch that it was in.
	last   control.AgentStatus
	newest uint64
	// late is what a mutant states later; looked up, never iterated.
	late map[int][]lbts.Sent
}

// peer is a link to another node.
type peer struct {
	session *link.Session
	// waiting is what the link has no room for, or what it does not lead to yet: for any process of the node,
	// and for one of it.
	waiting, meant []payload
	bytes          int
	dirty          bool
	// armed is when the timer fires, 0 if it does not.
	armed time.Duration
	// seen remembers what frames brought, for a mutant that takes them in again.
	seen map[uint32][][]byte // looked up, never iterated
}

// payload is a message for a node, or for one process of it.
type payload struct {
	boot string
	data []byte
}

// item is something that comes to a process from outside.
type item struct {
	input control.Input
	// frame from a node; damaged says that it must be refused.
	frame   []byte
	damaged bool
	from    int
	sort    itemSort
}

type itemSort byte

const (
	isInput itemSort = iota
	isFrame
	isConnection
	isTimer
	isTick
	isTouch // only the links are to be looked at
)

// start starts a process.
func (h *host) start() {
	h.boots++
	p := &process{host: h, boot: fmt.Sprintf("%s.%d", h.name, h.boots), born: h.w.now}
	h.p = p
	h.w.note("%s starts", p.boot)
	p.exec = &executor{p: p, w: h.w}
	p.agent = control.NewAgent(h.name, p.boot, h.w.settings.config, p.exec)
	p.coord = control.NewCoordinator(h.name, h.w.mutant.config(h.w.settings.config))
	for j, o := range h.w.hosts {
		if j == h.i {
			p.peers = append(p.peers, nil)
			continue
		}
		self := link.Identity{Cluster: clusterName, Name: h.name, Boot: p.boot, Session: 1, Version: 1}
		s, err := link.New(self, o.name, h.w.settings.link)
		if err != nil {
			h.w.fail("link of %s to %s: %v", h.name, o.name, err)
		}
		p.peers = append(p.peers, &peer{session: s, dirty: true})
	}
	h.w.changed()
	h.w.log.started(p, h.durable)
	for j := range h.w.hosts {
		if h.boots > 1 {
			h.w.net.reset(h.i, j)
		}
	}
	p.tick()
}

// kill ends the process at once.
func (h *host) kill() {
	p := h.p
	if p == nil {
		return
	}
	h.w.note("%s dies", p.boot)
	p.over, h.p = true, nil
	h.deaths++
	h.durable = p.applied
	h.platter.crash(h.w.shots)
	h.w.log.died(h.i)
	h.w.gossip.forget(h.i)
	h.w.truth.died(p)
	h.w.changed()
}

// halt stops the process as SIGSTOP does; wake lets it go on.
func (h *host) halt() {
	h.pauses++
	h.w.changed()
}

func (h *host) wake() {
	if h.pauses--; h.pauses > 0 {
		return
	}
	h.w.changed()
	if p := h.p; p != nil {
		list := p.stopped
		p.stopped = nil
		for _, do := range list {
			h.w.after(0, func() { p.unlessOver(do) })
		}
		p.pump()
	}
}

// later does something in the process after a while of its running.
func (p *process) later(d time.Duration, do func()) {
	p.w.after(d, func() { p.unlessOver(do) })
}

func (p *process) unlessOver(do func()) {
	switch {
	case p.over:
	case p.pauses > 0:
		p.stopped = append(p.stopped, do)
	default:
		do()
	}
}

// now is the time of the machines' clock, which jumps; steady that of the links, which does not.
func (p *process) now() time.Duration    { return p.steady() + p.shift }
func (p *process) steady() time.Duration { return time.Duration(float64(p.w.now-p.born) * p.rate) }

func (p *process) tick() {
	p.put(item{sort: isTick})
	p.later(p.w.settings.tick, p.tick)
}

// arrive takes a frame from the network; a stopped process finds it when it goes on.
func (h *host) arrive(from int, frame []byte, damaged bool) {
	if h.p != nil {
		h.p.put(item{sort: isFrame, from: from, frame: frame, damaged: damaged})
	}
}

func (h *host) reconnected(from int) {
	if h.p != nil {
		h.p.put(item{sort: isConnection, from: from})
	}
}

func (h *host) input(in control.Input) {
	if h.p != nil {
		h.p.put(item{input: in})
	}
}

func (p *process) put(it item) {
	p.inbox = append(p.inbox, it)
	p.pump()
}

// pump has the process take its inputs, soon.
func (p *process) pump() {
	if p.pumping || len(p.inbox) == 0 || p.pauses > 0 {
		return
	}
	p.pumping = true
	p.later(p.w.work.exp(p.w.settings.step), func() {
		p.pumping = false
		p.turn()
		p.pump()
	})
}

// turn takes all inputs that are there.
func (p *process) turn() {
	list := p.inbox
	p.inbox = nil
	for i := range list {
		p.take(&list[i])
	}
	p.step()
	p.flush()
	p.w.truth.watch(p)
}

func (p *process) take(it *item) {
	switch it.sort {
	case isInput:
		p.sort(it.input)
	case isTick:
		p.forAgent = append(p.forAgent, control.Tick{})
		p.forCoord = append(p.forCoord, control.Tick{})
	case isFrame:
		p.receive(it)
	case isConnection:
		l := p.peers[it.from]
		l.session.Reconnected(p.steady())
		l.dirty = true
	case isTimer:
		l := p.peers[it.from]
		l.session.Tick(p.steady())
		l.dirty = true
	}
}

// receive takes in a frame of a link.
func (p *process) receive(it *item) {
	l := p.peers[it.from]
	l.dirty = true
	arrival, err := l.session.Receive(p.steady(), it.frame)
	switch {
	case it.damaged && err == nil:
		p.w.fail("%s took a damaged frame of %s", p.boot, nodeName(it.from))
	case err != nil && !it.damaged && !errors.Is(err, link.ErrStale):
		p.w.fail("%s refused a frame of %s: %v", p.boot, nodeName(it.from), err)
	}
	if err != nil {
		return
	}
	if arrival.Replaced {
		p.w.note("%s learns of %s", p.boot, l.session.Peer())
	}
	messages := p.w.mutant.received(l, it.frame, arrival.Messages)
	for _, data := range messages {
		if len(data) > 0 && data[0] == copyMark {
			p.hearCopy(it.from, l.session.Peer(), data[1:])
			continue
		}
		m, err := control.Parse(data)
		if err != nil {
			p.w.fail("%s got a message of %s that cannot be read: %v", p.boot, nodeName(it.from), err)
			return
		}
		p.sort(control.Heard{From: p.w.hosts[it.from].name, Boot: l.session.Peer(), Message: m})
	}
}

// sort puts an input before the machine that it concerns.
func (p *process) sort(in control.Input) {
	switch in := in.(type) {
	case control.Heard:
		if control.ForCoordinator(in.Message) {
			p.w.truth.told(p, in)
			p.forCoord = append(p.forCoord, in)
			return
		}
	case control.Lead, control.Follow, control.Members:
		p.forCoord = append(p.forCoord, in)
		return
	case control.Applied:
		p.forCoord = append(p.forCoord, in)
		p.followed(in.State)
	}
	p.forAgent = append(p.forAgent, in)
}

// followed drops what waits for links in a run that has ended.
func (p *process) followed(state *control.State) {
	epoch := uint64(0)
	if job := state.Current(); job != nil {
		epoch = job.Epoch
	}
	if epoch == p.epoch {
		return
	}
	p.epoch = epoch
	for _, l := range p.peers {
		if l != nil {
			l.waiting, l.meant, l.bytes = nil, nil, 0
		}
	}
}

// step lets both machines work until neither has an input, since one speaks to the other without a link.
func (p *process) step() {
	for len(p.forAgent)+len(p.forCoord) > 0 {
		agent := p.forAgent
		p.forAgent = nil
		for _, in := range agent {
			if h, ok := in.(control.Heard); ok {
				p.hears(&h)
				in = p.w.mutant.heard(p, h)
			}
			if s, ok := in.(control.Applied); ok {
				p.exec.state = s.State
			}
			p.perform(p.agent.Step(p.now(), in))
			p.hearing = nil
		}
		coord := p.forCoord
		p.forCoord = nil
		for i, in := range coord {
			if h, ok := in.(control.Heard); ok {
				coord[i] = p.w.mutant.heard(p, h)
			}
		}
		if p.w.settings.batched && len(coord) > 0 {
			p.perform(p.coord.StepAll(p.now(), coord))
			continue
		}
		for _, in := range coord {
			p.perform(p.coord.Step(p.now(), in))
		}
	}
}

// hears notes what the agent is about to be told.
func (p *process) hears(h *control.Heard) {
	p.hearing = h
	s := p.exec.share
	if m, ok := h.Message.(*control.Assume); ok && s != nil && m.Epoch == s.job.Epoch {
		p.term = max(p.term, m.Term)
		s.truth.assumed(m.Term)
	}
}

// perform does what a machine asks for.
func (p *process) perform(outputs []control.Output) {
	for _, out := range outputs {
		switch out := out.(type) {
		case control.Send:
			p.send(out)
		case control.Propose:
			p.w.log.propose(p.i, out.Command)
		case control.Note:
			p.w.truth.noted(p, out.Text)
			p.w.note("%s notes: %s %v", p.boot, out.Text, out.Fields)
		}
	}
}

// send puts a message on its link, or before the machine of this node.
func (p *process) send(s control.Send) {
	to := p.w.byName(s.To)
	if to < 0 {
		p.w.fail("%s sends a message to %q, which is no node", p.boot, s.To)
		return
	}
	p.w.traceMessage(p, to, s.Message)
	p.w.truth.sent(p, to, s.Message)
	m := p.w.mutant.sends(p, s.Message)
	switch {
	case m == nil:
		return
	case to == p.i:
		p.sort(control.Heard{From: p.name, Boot: p.boot, Message: m})
		return
	}
	l := p.peers[to]
	x := payload{s.Boot, control.Append(make([]byte, 0, 64), m)}
	if x.boot == "" || p.w.mutant.sendsToAny() {
		l.waiting = append(l.waiting, x)
	} else {
		l.meant = append(l.meant, x)
	}
	l.bytes += len(x.data)
	l.dirty = true
}

// flush hands links what waits for them, and the network what they have to send.
func (p *process) flush() {
	before := p.exec.crowded()
	for j, l := range p.peers {
		if l == nil || !l.dirty {
			continue
		}
		l.dirty = false
		l.waiting = p.offer(l, j, l.waiting)
		l.meant = p.offer(l, j, l.meant)
		for {
			f, ok := l.session.Next(p.steady())
			if !ok {
				break
			}
			p.w.net.transmit(p.i, j, f.AppendTo(make([]byte, 0, f.Len())))
		}
		p.arm(j, l)
	}
	if before && !p.exec.crowded() {
		p.exec.wake() // a backlog may have ended
	}
}

// offer hands a link what it has room for and leads to, and returns the rest. What is for one process does not
// hold up what is for another.
func (p *process) offer(l *peer, j int, list []payload) (left []payload) {
	for k := range list {
		x := &list[k]
		if x.boot != "" && l.session.Peer() != x.boot && !p.w.mutant.sendsToAny() {
			left = append(left, *x)
			continue
		}
		if err := l.session.Send(x.data); err != nil {
			if !errors.Is(err, link.ErrFull) {
				p.w.fail("%s cannot send to %s: %v", p.boot, nodeName(j), err)
			}
			return append(left, list[k:]...)
		}
		l.bytes -= len(x.data)
	}
	return left
}

// arm sets the timer of a link.
func (p *process) arm(j int, l *peer) {
	due, ok := l.session.Deadline()
	if !ok {
		return
	}
	at := p.w.now + max(time.Duration(float64(due-p.steady())/p.rate), 0) + time.Microsecond
	if l.armed > p.w.now && l.armed <= at {
		return
	}
	l.armed = at
	p.later(at-p.w.now, func() {
		if l.armed == at {
			l.armed = 0
			p.put(item{sort: isTimer, from: j})
		}
	})
}

// outgoing is how many bytes wait for links that are full.
func (p *process) outgoing() (n int) {
	for _, l := range p.peers {
		if l != nil {
			n += l.bytes
		}
	}
	return n
}

// checksum is for the trace.
func checksum(data []byte) uint64 { return uint64(crc32.ChecksumIEEE(data)) }
