package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/simnode/simnode/cluster/link"
	"github.com/simnode/simnode/control"
)

const (
	// tickEvery is between the ticks that the protocol's machines get. Nothing that a run waits for
	// waits for one.
	tickEvery = 50 * time.Millisecond
	// retryEvery is between attempts to hand over what a link had no room for.
	retryEvery = time.Millisecond
	// fullInputs is how many bytes of inputs may wait until what receives them waits.
	fullInputs = 64 << 20
	// fullOutputs is how many bytes may wait for links until the run slows down.
	fullOutputs = 8 << 20
	// fullFinals is how many pieces of a result may wait for the loop.
	fullFinals = 8
)

// links is what the loop needs of the links. Send queues without waiting; it returns link.ErrFull where
// there is no room. Boot is the process that a link leads to, "" while none is known.
type links interface {
	Send(to string, payload []byte) error
	Boot(of string) string
}

// lane is what goes to a node, or to one process of it; what goes on one keeps its order.
type lane struct{ to, boot string }

// loop is the one goroutine that owns the protocol's machines.
type loop struct {
	self, boot string
	agent      *control.Agent
	coord      *control.Coordinator
	exec       *executor
	links      links
	// propose appends a command to the log in the background.
	propose func(control.Command)
	log     *slog.Logger
	start   time.Time

	// woken says that the executor has something to collect.
	woken  atomic.Bool
	signal chan struct{}

	mu     sync.Mutex
	turned *sync.Cond
	inputs []control.Input
	bytes  int
	// state is an input that replaces the one before.
	state *control.State
	// finals counts pieces of a result among the inputs.
	finals int
	over   bool

	// Of the goroutine alone.
	forAgent, forCoord     []control.Input
	spareAgent, spareCoord []control.Input
	spare                  []control.Input
	epoch                  uint64
	waiting                map[lane][][]byte
	order                  []lane
	outputs                atomic.Int64
	// reported is when this node reported first since it was granted something; zero if it did not.
	reported time.Time
	answers  prometheus.Histogram

	shown atomic.Pointer[loopStatus]
}

// loopStatus is what the loop shows of itself.
type loopStatus struct {
	coord       control.CoordinatorStatus
	coordCounts control.CoordinatorCounts
	agent       control.AgentStatus
	agentCounts control.AgentCounts
	inputs      int
	outputs     int64
	at          time.Time
}

func newLoop(self, boot string, cfg control.Config, exec *executor, log *slog.Logger) *loop {
	l := &loop{
		self: self, boot: boot, agent: control.NewAgent(self, boot, cfg, exec), coord: control.NewCoordinator(self, cfg), exec: exec,
		log: log, start: time.Now(), signal: make(chan struct{}, 1), waiting: map[lane][][]byte{},
	}
	l.turned = sync.NewCond(&l.mu)
	l.answers = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "simnode_grant_wait_seconds", Help: "From a report of this node to the next bounds that it was granted.",
		Buckets: []float64{1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5},
	})
	l.show(0)
	return l
}

// wake says that the executor has something to collect. It does not block.
func (l *loop) wake() {
	if !l.woken.Swap(true) {
		l.notify()
	}
}

func (l *loop) notify() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// put adds an input. It does not wait.
func (l *loop) put(in control.Input) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(in, 0)
}

func (l *loop) add(in control.Input, size int) {
	if _, ok := in.(control.FinalPart); ok {
		l.finals++
	}
	if s, ok := in.(control.Applied); ok {
		l.state = s.State
	} else {
		l.inputs = append(l.inputs, in)
	}
	l.bytes += size
	l.notify()
}

// hear adds a message of another node, of so many bytes. It waits while too much waits already.
func (l *loop) hear(in control.Heard, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.bytes > fullInputs && !l.over {
		l.turned.Wait()
	}
	l.add(in, size)
}

// room waits until another piece of a result can be put in and sent.
func (l *loop) room(ctx context.Context, _ string) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		l.turned.Broadcast()
		l.mu.Unlock()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for (l.finals >= fullFinals || l.full()) && !l.over && ctx.Err() == nil {
		l.turned.Wait()
	}
	return ctx.Err()
}

// full reports whether more waits for the links than should.
func (l *loop) full() bool { return l.outputs.Load() > fullOutputs }

// run is the goroutine; it ends with ctx.
func (l *loop) run(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	defer l.close()
	for {
		ticked := false
		select {
		case <-ctx.Done():
			return
		case <-l.signal:
		case <-retry.C:
		case <-tick.C:
			ticked = true
		}
		for l.turn(ticked) {
			ticked = false
		}
		if l.flush(); len(l.order) > 0 {
			retry.Reset(retryEvery)
		}
	}
}

func (l *loop) close() {
	l.mu.Lock()
	l.over = true
	l.turned.Broadcast()
	l.mu.Unlock()
}

// turn takes all inputs that are there and reports whether there were any.
func (l *loop) turn(ticked bool) bool {
	inputs, state := l.take()
	woken := l.woken.Swap(false)
	if len(inputs) == 0 && state == nil && !woken && !ticked {
		return false
	}
	if state != nil {
		l.follow(state)
	}
	for _, in := range inputs {
		l.sort(in)
	}
	if woken && l.exec.share != nil {
		l.forAgent = append(l.forAgent, control.Progress{Epoch: l.exec.share.job.Epoch})
	}
	if ticked {
		l.forAgent = append(l.forAgent, control.Tick{})
		l.forCoord = append(l.forCoord, control.Tick{})
	}
	l.step()
	l.recycle(inputs)
	if ticked {
		l.show(len(inputs))
	}
	return true
}

// take takes the inputs that are there.
func (l *loop) take() (inputs []control.Input, state *control.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	inputs, state = l.inputs, l.state
	l.inputs, l.state = l.spare, nil
	l.spare = nil
	l.bytes, l.finals = 0, 0
	l.turned.Broadcast()
	return inputs, state
}

// recycle keeps the room of inputs that were taken.
func (l *loop) recycle(inputs []control.Input) {
	clear(inputs)
	l.spare = inputs[:0]
}

// follow hands both machines a new state. What waits for links in a run that has ended is dropped.
func (l *loop) follow(state *control.State) {
	in := control.Applied{State: state}
	l.forAgent, l.forCoord = append(l.forAgent, in), append(l.forCoord, in)
	epoch := uint64(0)
	if job := state.Current(); job != nil {
		epoch = job.Epoch
	}
	if epoch != l.epoch {
		l.epoch = epoch
		l.forget()
	}
}

// sort puts an input before the machine that it concerns.
func (l *loop) sort(in control.Input) {
	switch in := in.(type) {
	case control.Heard:
		if control.ForCoordinator(in.Message) {
			l.forCoord = append(l.forCoord, in)
			return
		}
		if _, ok := in.Message.(*control.Grants); ok && !l.reported.IsZero() {
			l.answers.Observe(time.Since(l.reported).Seconds())
			l.reported = time.Time{}
		}
	case control.Lead, control.Follow, control.Members:
		l.forCoord = append(l.forCoord, in)
		return
	}
	l.forAgent = append(l.forAgent, in)
}

// step lets both machines work until neither has an input, since one speaks to the other without a link
// between.
func (l *loop) step() {
	now := time.Since(l.start)
	for len(l.forAgent)+len(l.forCoord) > 0 {
		agent := l.forAgent
		l.forAgent = l.spareAgent[:0]
		for _, in := range agent {
			l.perform(l.agent.Step(now, in))
		}
		clear(agent)
		l.spareAgent = agent
		if len(l.forCoord) == 0 {
			continue
		}
		coord := l.forCoord
		l.forCoord = l.spareCoord[:0]
		l.perform(l.coord.StepAll(now, coord))
		clear(coord)
		l.spareCoord = coord
	}
}

// perform does what a machine asks for.
func (l *loop) perform(outputs []control.Output) {
	for _, out := range outputs {
		switch out := out.(type) {
		case control.Send:
			l.send(out)
		case control.Propose:
			l.propose(out.Command)
		case control.Note:
			l.note(out)
		}
	}
}

func (l *loop) note(n control.Note) {
	level := map[control.Level]slog.Level{control.Info: slog.LevelInfo, control.Warn: slog.LevelWarn, control.Alarm: slog.LevelError}[n.Level]
	fields := make([]any, len(n.Fields))
	for i, f := range n.Fields {
		fields[i] = f
	}
	l.log.Log(context.Background(), level, n.Text, fields...)
}

// send puts a message on its link, or before the machine of this node.
func (l *loop) send(s control.Send) {
	if _, ok := s.Message.(*control.Report); ok && l.reported.IsZero() {
		l.reported = time.Now()
	}
	if s.To == l.self {
		l.sort(control.Heard{From: l.self, Boot: l.boot, Message: s.Message})
		return
	}
	to, payload := lane{s.To, s.Boot}, control.Append(make([]byte, 1, 64), s.Message)
	payload[0] = payloadControl
	if len(l.waiting[to]) == 0 && l.offer(to, payload) {
		return
	}
	if len(l.waiting[to]) == 0 {
		l.order = append(l.order, to)
	}
	l.waiting[to] = append(l.waiting[to], payload)
	l.outputs.Add(int64(len(payload)))
}

// offer hands a payload to a link and reports whether it is dealt with.
func (l *loop) offer(to lane, payload []byte) bool {
	if to.boot != "" && l.links.Boot(to.to) != to.boot {
		return false
	}
	err := l.links.Send(to.to, payload)
	if errors.Is(err, link.ErrFull) {
		return false
	}
	if err != nil {
		// The node is not there, or this one ends: the protocol finds out that nothing comes.
		l.log.Debug("a message was not sent", "to", to.to, "error", err)
	}
	return true
}

// flush offers what waits for links again.
func (l *loop) flush() {
	if len(l.order) == 0 {
		return
	}
	before := l.full()
	still := l.order[:0]
	for _, to := range l.order {
		list := l.waiting[to]
		for len(list) > 0 && l.offer(to, list[0]) {
			l.outputs.Add(-int64(len(list[0])))
			list[0] = nil
			list = list[1:]
		}
		if len(list) > 0 {
			l.waiting[to] = list
			still = append(still, to)
			continue
		}
		delete(l.waiting, to)
	}
	l.order = still
	if before && !l.full() {
		l.mu.Lock()
		l.turned.Broadcast()
		l.mu.Unlock()
		l.wake() // a backlog may have ended
	}
}

// forget drops what waits for links.
func (l *loop) forget() {
	clear(l.waiting)
	l.order = l.order[:0]
	l.outputs.Store(0)
}

// show publishes what the machines are doing.
func (l *loop) show(inputs int) {
	l.shown.Store(&loopStatus{l.coord.Status(), l.coord.Counts(), l.agent.Status(), l.agent.Counts(), inputs, l.outputs.Load(), time.Now()})
}
