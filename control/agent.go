package control

import (
	"errors"
	"fmt"
	"time"

	"github.com/simnode/simnode/sim"
)

// Agent is a node's control part: it carries out what the coordinator asks, through an Executor. It is not
// safe for concurrent use.
type Agent struct {
	self, boot string
	exec       Executor
	clock      clock
	state      *State
	share      *share
	early      []Heard
	earlySize  int
	counts     AgentCounts
	out        []Output
}

// AgentCounts are what an Agent counted since it was made.
type AgentCounts struct {
	// OtherEpoch, OldTerm and OtherProcess are messages refused since they spoke of another epoch, came
	// from a coordinator of an earlier term, or from a process that is not the member's.
	OtherEpoch, OldTerm, OtherProcess uint64
	// Unkept are messages of an epoch yet to come for which there was no room.
	Unkept uint64
	// Batches and bytes of events, sent and received.
	BatchesOut, BytesOut, BatchesIn, BytesIn uint64
	// ObservedOut are observation frames handed to the member that records, ObservedBytes their size.
	ObservedOut, ObservedBytes uint64
	// Reports sent, and grants of a region taken.
	Reports, Grants uint64
}

// Stage is what an agent is doing for a job.
type Stage string

// Stages of an agent.
const (
	// Idle has no job.
	Idle Stage = "idle"
	// Preparing sets the job up.
	Preparing Stage = "setting the job up"
	// Ready waits for a coordinator.
	Ready Stage = "waiting for the coordinator"
	// Freezing waits for the turns under way to end.
	Freezing Stage = "ending turns for a new coordinator"
	// Stopped answered Frozen.
	Stopped Stage = "stopped for a new coordinator"
	// Settling waits for what other members sent.
	Settling Stage = "waiting for what other members sent"
	// Settled answered Full.
	Settled Stage = "waiting for grants"
	// Going runs.
	Going Stage = "running"
	// AtCut has begun a cut and has no grants beyond it.
	AtCut Stage = "at a cut"
	// Restoring reads the checkpoint that the epoch begins from, or waits for what others read.
	Restoring Stage = "restoring a checkpoint"
	// Finishing ends the run.
	Finishing Stage = "ending the run"
	// Wrecked cannot go on.
	Wrecked Stage = "unable to go on"
	// Replaced is a process that was started after the job: the job's is another one.
	Replaced Stage = "started after the job"
)

const (
	// maxEarly and maxEarlySize bound what is kept of an epoch yet to come.
	maxEarly     = 1024
	maxEarlySize = 4 << 20
)

// NewAgent returns the agent of a node; boot tells its process from earlier ones of that name.
func NewAgent(self, boot string, cfg Config, exec Executor) *Agent {
	cfg = cfg.withDefaults()
	return &Agent{self: self, boot: boot, exec: exec, clock: clock{most: cfg.SilentAfter / 2}}
}

// Step takes an input at a time since the agent was made and returns what is to be done, in order. The
// outputs are valid until the next call.
func (a *Agent) Step(now time.Duration, in Input) []Output {
	a.clock.step(now)
	a.out = a.out[:0]
	switch in := in.(type) {
	case Applied:
		a.follow(in.State)
	case Heard:
		a.hear(in)
	case Tick:
		a.tick()
	case Prepared:
		if s := a.at(in.Epoch); s != nil && s.stage == Preparing {
			a.prepared(in)
		}
	case Progress:
		if s := a.at(in.Epoch); s != nil {
			s.wanted = true
			a.progress()
		}
	case FinalPart:
		if s := a.at(in.Epoch); s != nil && s.stage == Finishing {
			a.finalPart(in)
		}
	case Recording:
		if s := a.at(in.Epoch); s != nil && s.stage == Finishing {
			a.recording(in)
		}
	case RestorePiece:
		if s := a.at(in.Epoch); s != nil && s.works() {
			a.restorePiece(in)
		}
	case RestoreEnded:
		if s := a.at(in.Epoch); s != nil && s.works() {
			a.restoreEnded(in)
		}
	case Unreadable:
		if s := a.at(in.Epoch); s != nil && s.works() {
			a.unreadable(in)
		}
	case Saved:
		if s := a.at(in.Epoch); s != nil && s.works() {
			a.saved(in)
		}
	}
	return a.out
}

// Counts returns what was counted so far.
func (a *Agent) Counts() AgentCounts { return a.counts }

// at returns the share if it is that of an epoch.
func (a *Agent) at(epoch uint64) *share {
	if a.share == nil || a.share.epoch != epoch {
		return nil
	}
	return a.share
}

func (a *Agent) send(to string, m Message) { a.out = append(a.out, Send{To: to, Message: m}) }

// sendMember sends a message to the process that is member m.
func (a *Agent) sendMember(m int, message Message) {
	job := a.share.job
	a.out = append(a.out, Send{job.Members[m], job.Boots[m], message})
}

// tell sends a message to the coordinator, if there is one.
func (a *Agent) tell(m Message) {
	if s := a.share; s.coordinator != "" {
		a.send(s.coordinator, m)
	}
}

// follow takes in the replicated state: a job that ended is dropped, one that began with this node as a
// member is set up.
func (a *Agent) follow(state *State) {
	a.state = state
	job := state.Current()
	if job != nil && (job.Epoch == 0 || job.Away) {
		job = nil
	}
	if s := a.share; s != nil && (job == nil || job.Epoch != s.epoch) {
		a.drop(s)
	}
	switch {
	case job == nil:
	case a.share == nil:
		a.join(job)
	default:
		a.committed(job)
	}
	a.hearEarly()
}

func (a *Agent) drop(s *share) {
	a.share = nil
	if s.stage == Replaced {
		return
	}
	reason := "the job is forgotten"
	if job := a.state.Job(s.job.ID); job != nil {
		reason = "the job is " + string(job.Phase)
		if job.Epoch != s.epoch {
			reason += fmt.Sprintf(" in epoch %d", job.Epoch)
		}
		if job.Reason != "" {
			reason += ": " + job.Reason
		}
	}
	a.exec.Drop(reason)
}

func (a *Agent) join(job *Job) {
	me := -1
	for i, name := range job.Members {
		if name == a.self {
			me = i
		}
	}
	if me < 0 {
		return
	}
	a.share = newShare(job, me)
	if job.Boots[me] != a.boot {
		a.share.stage = Replaced
		return
	}
	a.exec.Prepare(job, me)
}

// lastEpoch is that of the state as far as it was applied here.
func (a *Agent) lastEpoch() uint64 {
	if a.state == nil {
		return 0
	}
	return a.state.LastEpoch
}

// keep keeps a message of an epoch that the log has not told of here yet.
func (a *Agent) keep(h Heard) {
	if ping, ok := h.Message.(*Ping); ok {
		a.send(h.From, &Pong{ping.Header, "reading the log"})
		return
	}
	size := weight(h.Message)
	if len(a.early) >= maxEarly || a.earlySize+size > maxEarlySize {
		a.counts.Unkept++
		return
	}
	a.early = append(a.early, h)
	a.earlySize += size
}

// weight is about how much memory a message takes.
func weight(m Message) int {
	switch m := m.(type) {
	case *Batch:
		return len(m.Data)
	case *Parcel:
		return len(m.Data)
	case *Observed:
		return len(m.Data)
	case *Final:
		return len(m.Data)
	case *Restored:
		return len(m.Data)
	case *Grants:
		return 64 * len(m.Grants)
	}
	return 64
}

func (a *Agent) hearEarly() {
	early := a.early
	a.early, a.earlySize = nil, 0
	for _, h := range early {
		a.hear(h)
	}
}

// ForCoordinator reports whether a message is for the coordinator. The others are for the agent of the
// node that they are sent to.
func ForCoordinator(m Message) bool {
	switch m.(type) {
	case *Frozen, *Full, *Report, *CutDone, *Recorded, *Broken, *Pong, *Retrieved, *Unfit, *Stored:
		return true
	}
	return false
}

func (a *Agent) hear(h Heard) {
	if ForCoordinator(h.Message) {
		return
	}
	epoch := header(h.Message).Epoch
	switch {
	case epoch > a.lastEpoch():
		a.keep(h)
	case a.at(epoch) == nil:
		a.counts.OtherEpoch++
	default:
		switch m := h.Message.(type) {
		case *Batch, *Parcel, *Observed, *Final, *Restored:
			a.hearMember(h)
		case *Assume:
			a.assume(h.From, m)
		default:
			a.hearCoordinator(h)
		}
	}
}

// hearCoordinator takes in what comes from a coordinator that was assumed.
func (a *Agent) hearCoordinator(h Heard) {
	s := a.share
	head := header(h.Message)
	if ping, ok := h.Message.(*Ping); ok && head.Term >= s.term {
		a.pong(h.From, ping)
		return
	}
	if head.Term != s.term || h.From != s.coordinator {
		a.counts.OldTerm++
		return
	}
	if s.stage == Wrecked || s.stage == Replaced || s.stage == Preparing {
		return
	}
	switch m := h.Message.(type) {
	case *Settle:
		a.settle(m)
	case *Grants:
		a.grants(m)
	case *Cut:
		a.hearCut(m.Number, m.At, m.Saving)
	case *Retrieve:
		a.retrieve()
	case *Abandon:
		a.abandon(m.Number)
	case *Floor:
		if s.me == s.job.Recorder {
			a.try(a.exec.Floor(m.At, m.Frames))
		}
	case *Finish:
		a.finish(m)
	}
}

func (a *Agent) pong(to string, ping *Ping) {
	if s := a.share; s.stage == Replaced {
		a.send(to, &Broken{Header: ping.Header, Reason: a.replaced()})
		return
	}
	a.send(to, &Pong{ping.Header, string(a.share.doing())})
}

func (a *Agent) replaced() string {
	return fmt.Sprintf("the process of node %s that took part was replaced by another one", a.self)
}

// hearMember takes in what comes from another member.
func (a *Agent) hearMember(h Heard) {
	s := a.share
	from := s.member(h.From)
	if from < 0 || from == s.me || h.Boot != s.job.Boots[from] {
		a.counts.OtherProcess++
		return
	}
	if s.stage == Wrecked || s.stage == Replaced {
		return
	}
	if s.stage == Preparing {
		a.wreck(fmt.Sprintf("engine fault: node %s sent a frame before this node had set the job up", h.From))
		return
	}
	switch m := h.Message.(type) {
	case *Batch:
		a.batch(from, m)
	case *Parcel:
		a.parcel(from, m)
	case *Observed:
		a.observed(from, m)
	case *Final:
		a.final(from, m)
	case *Restored:
		a.takeRestored(from, m)
	}
}

func (a *Agent) tick() {
	if a.share != nil {
		a.progress()
	}
}

// try wrecks the share if the executor failed, and reports whether it did not.
func (a *Agent) try(err error) bool {
	if err != nil {
		a.wreckBy(err)
	}
	return err == nil
}

func (a *Agent) wreckBy(err error) {
	var unable *Unable
	a.share.elsewhere = errors.As(err, &unable)
	a.wreck(err.Error())
}

// wreck ends this member's part in the job.
func (a *Agent) wreck(reason string) {
	s := a.share
	if s.stage == Wrecked {
		return
	}
	if s.stage != Preparing {
		a.exec.Hold(true)
	}
	s.stage, s.reason = Wrecked, reason
	a.tell(&Broken{s.header(), reason, s.elsewhere})
}

// AgentStatus is what an Agent does at a moment.
type AgentStatus struct {
	Stage Stage
	// Job, Epoch, Member and Recorder are those of the job; the rest is zero if Idle.
	Job              string
	Epoch            uint64
	Member, Recorder int
	// Term and Coordinator that was assumed last.
	Term        uint64
	Coordinator string
	// Sent and Received are event frames to and from each member.
	Sent, Received []uint64
	// Observed are observation frames sent.
	Observed uint64
	// Cut is the last cut begun, CutAt its time.
	Cut   uint64
	CutAt sim.Time
	// Save is the last checkpoint begun, SaveAt its time, SaveOpen that it is neither committed nor given up.
	Save     uint64
	SaveAt   sim.Time
	SaveOpen bool
	// Restored says that what the epoch began from is in.
	Restored bool
	// Held is the largest bound that each region was granted by a coordinator, 0 for those of others.
	Held []sim.Time
	// Early is how many messages of an epoch yet to come are kept.
	Early int
	// Reason says why it is Wrecked.
	Reason string
}

// Status tells what the agent does. It shares nothing with the agent.
func (a *Agent) Status() AgentStatus {
	s := a.share
	if s == nil {
		return AgentStatus{Stage: Idle, Early: len(a.early)}
	}
	return AgentStatus{
		Stage: s.doing(), Job: s.job.ID, Epoch: s.epoch, Member: s.me, Recorder: s.job.Recorder,
		Term: s.term, Coordinator: s.coordinator,
		Sent: append([]uint64(nil), s.sent...), Received: append([]uint64(nil), s.got...), Observed: s.asides.Observed,
		Save: s.save.number, SaveAt: s.save.at, SaveOpen: s.save.open, Restored: s.restored,
		Cut: s.cut.number, CutAt: s.cut.at, Held: append([]sim.Time(nil), s.held...), Early: len(a.early), Reason: s.reason,
	}
}
