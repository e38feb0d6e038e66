package control

import (
	"fmt"
	"slices"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// share is what an agent knows of the job that its node takes part in.
type share struct {
	job   *Job
	epoch uint64
	me    int
	stage Stage
	// reason says why it is Wrecked, elsewhere that another node might not be.
	reason    string
	elsewhere bool

	// term and coordinator that was assumed last; serial is that of its last grants.
	term        uint64
	coordinator string
	serial      uint64
	// froze says that Frozen was answered in this term.
	froze   bool
	waiting *Settle

	// Event frames to and from each member, observation frames from each.
	sent, got, observed []uint64
	asides              Asides
	held                []sim.Time
	// wanted says that the executor has something that was not collected.
	wanted bool

	cut  cut
	save save
	// retrieving says that the checkpoint to begin from is being read, restored that it is in; unfit is
	// what was told of it otherwise.
	retrieving, restored bool
	unfit                *Unfit

	// finishing is the Finish that was received; begun says that the executor was told.
	finishing *Finish
	begun     bool
	finals    []finalPiece
	recorded  *Recorded
}

// cut is the last cut that was begun, or is to be begun when no region is run.
type cut struct {
	number uint64
	at     sim.Time
	saving Saving
	// pending says that it waits until no region is run, done that it is complete here.
	pending, done bool
	// parcels of members, taken in order of member up to taken.
	parcels [][]byte
	have    []bool
	taken   int
	// next event of each region at its end.
	next []sim.Time
}

type finalPiece struct {
	from int
	data []byte
	last bool
}

func newShare(job *Job, me int) *share {
	n := len(job.Members)
	return &share{
		job: job, epoch: job.Epoch, me: me, stage: Preparing,
		sent: make([]uint64, n), got: make([]uint64, n), observed: make([]uint64, n), held: make([]sim.Time, len(job.Owner)),
		cut: cut{done: true}, save: save{told: job.lastCommitted()},
	}
}

// header of what goes to the coordinator.
func (s *share) header() Header { return Header{s.epoch, s.term} }

// between is the header of what goes to members.
func (s *share) between() Header { return Header{Epoch: s.epoch} }

func (s *share) member(name string) int { return slices.Index(s.job.Members, name) }

func (a *Agent) prepared(in Prepared) {
	s := a.share
	if in.Err != "" {
		s.elsewhere = in.Elsewhere
		a.wreck("the job cannot be set up: " + in.Err)
		return
	}
	a.exec.Hold(true)
	s.stage = Ready
	if s.term > 0 {
		a.freeze()
	}
}

// assume takes a coordinator for that of the job, unless it is an earlier one.
func (a *Agent) assume(from string, m *Assume) {
	s := a.share
	if m.Term < s.term || m.Term == s.term && from != s.coordinator {
		a.counts.OldTerm++
		return
	}
	again := m.Term == s.term
	s.term, s.coordinator = m.Term, from
	switch {
	case s.stage == Replaced:
		a.tell(&Broken{Header: s.header(), Reason: a.replaced()})
	case s.stage == Wrecked:
		a.tell(&Broken{s.header(), s.reason, s.elsewhere})
	case s.unfit != nil:
		a.tellUnfit()
	case s.stage == Preparing:
	case again && s.stage == Stopped || s.stage == Finishing:
		s.serial, s.froze = 0, true
		a.answerFrozen()
	case again && s.froze:
	default:
		s.serial, s.froze, s.waiting = 0, false, nil
		a.freeze()
	}
}

// freeze stops taking turns and answers Frozen when those under way have ended.
func (a *Agent) freeze() {
	a.exec.Hold(true)
	a.share.stage = Freezing
	a.collect()
}

func (a *Agent) answerFrozen() {
	s := a.share
	a.tell(&Frozen{
		Header: s.header(), Sent: slices.Clone(s.sent), Observed: s.asides.Observed,
		CutNumber: s.cut.number, CutAt: s.cut.at, CutDone: s.cut.done, CutSaving: s.cut.saving, Finishing: s.finishing,
		Save: s.save.number, SaveAt: s.save.at, SaveGivenUp: s.save.givenUp, Restored: s.restored,
	})
	if s.save.stored != nil && !s.save.givenUp {
		a.tellStored()
	}
}

// progress looks whether there is something to collect, and whether it is the time.
func (a *Agent) progress() {
	s := a.share
	switch {
	case s.stage == Freezing, s.cut.pending, s.finishing != nil && !s.begun:
		a.collect()
	case s.stage == Going && s.wanted:
		a.collect()
	}
}

// collect sends what the executor has to send and, while the job runs, reports. When no region is run any
// more, it does what waited for that.
func (a *Agent) collect() {
	s := a.share
	s.wanted = false
	c := a.exec.Collect()
	if c.Fault != nil {
		a.wreckBy(c.Fault)
		return
	}
	if s.finishing == nil {
		a.pass(&c)
	}
	if s.stage == Wrecked {
		return
	}
	if s.stage == Going && c.Changed {
		a.counts.Reports++
		a.tell(&Report{s.header(), c.Reports, s.asides})
	}
	if !c.Busy {
		a.calm()
	}
}

// pass sends frames on and notes what goes with reports.
func (a *Agent) pass(c *Collected) {
	s := a.share
	for _, b := range c.Batches {
		if b.To < 0 || b.To >= len(s.sent) || b.To == s.me || b.Number != s.sent[b.To]+1 {
			a.wreck(fmt.Sprintf("engine fault: event frame %d for member %d of %d", b.Number, b.To, len(s.sent)))
			return
		}
		s.sent[b.To] = b.Number
		a.counts.BatchesOut++
		a.counts.BytesOut += uint64(len(b.Data))
		a.sendMember(b.To, &Batch{s.between(), b.Number, b.Data})
	}
	if len(c.Observations) > 0 {
		s.asides.Observed++
		a.counts.ObservedOut++
		a.counts.ObservedBytes += uint64(len(c.Observations))
		if s.me == s.job.Recorder {
			if !a.try(a.exec.Record(s.me, s.asides.Observed, c.Observations)) {
				return
			}
		} else {
			a.sendMember(s.job.Recorder, &Observed{s.between(), s.asides.Observed, c.Observations})
		}
	}
	s.asides.StopAsked = s.asides.StopAsked || c.StopAsked
	s.asides.Backlog = c.Backlog
	s.asides.Events = max(s.asides.Events, c.Events)
	if f := c.Failure; f != nil && (s.asides.Failure == nil || f.before(s.asides.Failure)) {
		s.asides.Failure = f
	}
}

// before orders failures by the events that caused them.
func (f *Failure) before(o *Failure) bool {
	switch {
	case f.Time != o.Time:
		return f.Time < o.Time
	case f.Key != o.Key:
		return f.Key < o.Key
	}
	return f.Seq < o.Seq
}

// calm does what waits until no region is run.
func (a *Agent) calm() {
	s := a.share
	if s.finishing != nil {
		if !s.begun {
			a.beginFinish()
		}
		return
	}
	if s.cut.pending {
		a.beginCut()
	}
	if s.stage == Freezing {
		s.stage, s.froze = Stopped, true
		a.answerFrozen()
	}
}

// settle answers Full as soon as all that others sent is here.
func (a *Agent) settle(m *Settle) {
	s := a.share
	switch s.stage {
	case Settled:
		a.answerFull(m.Shape)
	case Stopped:
		if len(m.Frames) != len(s.got) {
			a.wreck(fmt.Sprintf("engine fault: frames of %d members to wait for, in a job of %d", len(m.Frames), len(s.got)))
			return
		}
		s.stage, s.waiting = Settling, m
		a.settled()
	}
}

func (a *Agent) settled() {
	s := a.share
	for m, n := range s.waiting.Frames {
		if m != s.me && s.got[m] < n {
			return
		}
	}
	// What there is to report stands in the full report.
	c := a.exec.Collect()
	s.wanted = false
	if len(c.Batches) > 0 || c.Busy {
		a.wreck("engine fault: a region ran while the member was stopped")
		return
	}
	if a.pass(&c); s.stage == Wrecked {
		return
	}
	s.stage = Settled
	a.answerFull(s.waiting.Shape)
}

func (a *Agent) answerFull(whole bool) {
	s := a.share
	shape := a.exec.Shape()
	if !whole {
		shape.Lookahead = nil
	}
	a.tell(&Full{s.header(), a.exec.State(), shape, s.asides})
}

// grants raises bounds and lets regions run. What would not raise one is left out.
func (a *Agent) grants(m *Grants) {
	s := a.share
	if s.stage != Settled && s.stage != Going && s.stage != AtCut || m.Cut != s.cut.number || !s.cut.done || m.Serial <= s.serial {
		a.counts.OldTerm++
		return
	}
	s.serial = m.Serial
	list := make([]lbts.Grant, 0, len(m.Grants))
	for _, g := range m.Grants {
		if g.Region < 0 || g.Region >= len(s.held) || s.job.Owner[g.Region] != s.me {
			a.wreck(fmt.Sprintf("engine fault: a grant for region %d, which is not of node %s", g.Region, a.self))
			return
		}
		if g.Bound > s.held[g.Region] {
			s.held[g.Region] = g.Bound
			list = append(list, g)
		}
	}
	a.counts.Grants += uint64(len(list))
	if len(list) > 0 && !a.try(a.exec.Grant(list)) {
		return
	}
	if s.stage != Going {
		s.stage = Going
		a.exec.Hold(false)
		if s.wanted {
			a.collect()
		}
	}
}

func (a *Agent) batch(from int, m *Batch) {
	s := a.share
	if s.finishing != nil {
		return // of a time after the end
	}
	if want := s.got[from] + 1; m.Number != want {
		a.wreck(fmt.Sprintf("engine fault: event frame %d of node %s came where %d was next: a link lost or repeated a message", m.Number, s.job.Members[from], want))
		return
	}
	if !a.try(a.exec.Receive(from, m.Number, m.Data)) {
		return
	}
	s.got[from] = m.Number
	a.counts.BatchesIn++
	a.counts.BytesIn += uint64(len(m.Data))
	if s.stage == Settling {
		a.settled()
	}
}

// hearCut begins a cut, or answers again for one that is complete.
func (a *Agent) hearCut(number uint64, at sim.Time, saving Saving) {
	s := a.share
	switch {
	case s.finishing != nil:
	case number < s.cut.number:
		// Parcels of other members were faster than the coordinator: this cut is long complete here.
	case number == s.cut.number && at == s.cut.at:
		if s.cut.done {
			a.answerCut()
		}
	case number == s.cut.number+1 && s.cut.done:
		a.openCut(number, at, saving)
	default:
		a.wreck(fmt.Sprintf("engine fault: cut %d at %v after cut %d at %v", number, at, s.cut.number, s.cut.at))
	}
}

func (a *Agent) openCut(number uint64, at sim.Time, saving Saving) {
	s := a.share
	n := len(s.sent)
	s.cut = cut{number: number, at: at, saving: saving, pending: true, parcels: make([][]byte, n), have: make([]bool, n)}
	a.exec.Hold(true)
	a.collect()
}

func (a *Agent) beginCut() {
	s := a.share
	s.cut.pending = false
	parcels, err := a.exec.Cut(s.cut.at)
	if err == nil && len(parcels) != len(s.sent) {
		err = fmt.Errorf("engine fault: %d parcels for %d members", len(parcels), len(s.sent))
	}
	if !a.try(err) {
		return
	}
	if s.stage == Going {
		s.stage = AtCut
	}
	for m, data := range parcels {
		if m != s.me {
			a.sendMember(m, &Parcel{s.between(), s.cut.number, s.cut.at, s.cut.saving, data})
		}
	}
	a.takeParcels()
}

// parcel takes in another member's parcel. It may come before the coordinator's word, and begins the cut.
func (a *Agent) parcel(from int, m *Parcel) {
	s := a.share
	if s.finishing != nil {
		return
	}
	if m.Number == s.cut.number+1 && s.cut.done {
		a.openCut(m.Number, m.At, m.Saving)
	}
	if s.stage == Wrecked {
		return
	}
	if m.Number != s.cut.number || m.At != s.cut.at || s.cut.done || s.cut.have[from] {
		a.wreck(fmt.Sprintf("engine fault: parcel of node %s for cut %d at %v came at cut %d at %v", s.job.Members[from], m.Number, m.At, s.cut.number, s.cut.at))
		return
	}
	s.cut.parcels[from], s.cut.have[from] = m.Data, true
	if !s.cut.pending {
		a.takeParcels()
	}
}

// takeParcels hands parcels to the executor in the order of members, and ends the cut after the last.
func (a *Agent) takeParcels() {
	s := a.share
	c := &s.cut
	for c.taken < len(c.parcels) && (c.taken == s.me || c.have[c.taken]) {
		if c.taken != s.me && !a.try(a.exec.TakeParcel(c.taken, c.parcels[c.taken])) {
			return
		}
		c.parcels[c.taken] = nil
		c.taken++
	}
	if c.taken < len(c.parcels) {
		return
	}
	next, err := a.exec.EndCut()
	if !a.try(err) {
		return
	}
	c.next, c.done = next, true
	if c.saving.Save > 0 {
		a.beginSave(c.at, c.saving)
	}
	a.answerCut()
}

func (a *Agent) answerCut() {
	s := a.share
	a.tell(&CutDone{s.header(), s.cut.number, s.cut.next, s.asides})
}

func (a *Agent) observed(from int, m *Observed) {
	s := a.share
	if s.me != s.job.Recorder || m.Number != s.observed[from]+1 {
		a.wreck(fmt.Sprintf("engine fault: observation frame %d of node %s came to node %s after frame %d", m.Number, s.job.Members[from], a.self, s.observed[from]))
		return
	}
	s.observed[from] = m.Number
	a.try(a.exec.Record(from, m.Number, m.Data))
}

// finish ends the run when no region is run any more.
func (a *Agent) finish(m *Finish) {
	s := a.share
	if s.finishing != nil {
		if s.recorded != nil {
			a.answerRecorded()
		}
		return
	}
	s.finishing, s.stage = m, Finishing
	a.exec.Hold(true)
	a.collect()
}

func (a *Agent) beginFinish() {
	s := a.share
	s.begun = true
	if s.save.open && (s.save.stored == nil || s.save.stored.Err != "") {
		a.abandon(s.save.number)
	}
	a.exec.Finish(s.finishing.At, s.finishing.How, s.finishing.Reason)
	pieces := s.finals
	s.finals = nil
	for _, p := range pieces {
		if !a.try(a.exec.RecordFinal(p.from, p.data, p.last)) {
			return
		}
	}
}

// final takes in a piece of a member's part of the result; those that come before the end has begun here
// wait for it.
func (a *Agent) final(from int, m *Final) {
	s := a.share
	switch {
	case s.me != s.job.Recorder:
		a.wreck(fmt.Sprintf("engine fault: node %s sent its part of the result to node %s, which does not record", s.job.Members[from], a.self))
	case !s.begun:
		s.finals = append(s.finals, finalPiece{from, m.Data, m.Last})
	default:
		a.try(a.exec.RecordFinal(from, m.Data, m.Last))
	}
}

func (a *Agent) finalPart(in FinalPart) {
	s := a.share
	if s.me == s.job.Recorder {
		a.try(a.exec.RecordFinal(s.me, in.Data, in.Last))
		return
	}
	a.sendMember(s.job.Recorder, &Final{s.between(), in.Data, in.Last})
}

func (a *Agent) recording(in Recording) {
	s := a.share
	switch {
	case in.Err != "":
		a.wreck("the results cannot be written: " + in.Err)
	case len(in.Result) > MaxResult:
		a.wreck(fmt.Sprintf("the summary of the results has %d bytes: %d are the most", len(in.Result), MaxResult))
	default:
		s.recorded = &Recorded{Result: in.Result}
		a.answerRecorded()
	}
}

func (a *Agent) answerRecorded() {
	s := a.share
	a.tell(&Recorded{s.header(), s.recorded.Result})
}
