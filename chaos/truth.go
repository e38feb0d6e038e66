package chaos

import (
	"time"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// truth is what really is, on all nodes and on the way between them. The invariants are checked on it.
type truth struct {
	w    *world
	jobs map[uint64]*jobTruth // by epoch; looked up, never iterated
	list []*jobTruth
	// heard is when the coordinator of a node was last told something by another node; well is since when
	// two nodes have run and reached each other, negative while they do not.
	heard, well [][]time.Duration

	// turns and taken count turns of regions, and inputs that moved a run on; progress is their sum when
	// it changed last.
	turns, taken, progress uint64
	progressAt             time.Duration
	// granted counts bounds that were checked, cuts those completed.
	granted, cuts uint64
	// kills counts processes that were killed; commits, abandoned and unfit the checkpoints committed, given up
	// by a member, and parts that were found bad.
	kills                     Kills
	commits, abandoned, unfit uint64
	// restores counts epochs that began from a checkpoint and have all of it.
	restores uint64
	// takeovers counts how often another coordinator took over a job, midCut and atEnd how often while a
	// cut was under way, or the end.
	takeovers, midCut, atEnd uint64
}

func newTruth(w *world) *truth {
	t := &truth{w: w, jobs: map[uint64]*jobTruth{}}
	for range w.hosts {
		t.heard = append(t.heard, make([]time.Duration, len(w.hosts)))
		t.well = append(t.well, make([]time.Duration, len(w.hosts)))
	}
	return t
}

// survey looks who reaches whom.
func (t *truth) survey() {
	for i := range t.well {
		for j := range t.well {
			ok := t.w.net.connected(i, j)
			switch {
			case !ok:
				t.well[i][j] = -1
			case t.well[i][j] < 0:
				t.well[i][j] = t.w.now
			}
		}
	}
}

// jobTruth is what really is of a job in an epoch.
type jobTruth struct {
	t   *truth
	job *control.Job
	// procs own the regions of each member, shares are what they hold once set up.
	procs  []*process
	shares []*share
	// lost says that a member is gone, and what it held with it.
	lost bool
	// flights are the event frames on the way, by from*n+to; sent and got number them.
	flights   [][]flight
	sent, got []uint64
	// closed is the lookahead along shortest paths, of (from, to) at to*regions+from.
	closed []sim.Duration
	// ran is the time of the last event of each region, -1 if it had none.
	ran []sim.Time
	// eff is scratch.
	eff []sim.Time

	cutting   bool
	cutAt     sim.Time
	completed int
	entities  int

	// restored counts the members that have what the epoch begins from.
	restored int

	finish *control.Finish
	// term is that of the last coordinator that a member obeys.
	term uint64
}

// flight is an event frame on the way.
type flight struct {
	number, sum uint64
	contents    []node.Content
}

// claim notes that a process takes the regions of a member for its own.
func (t *truth) claim(p *process, job *control.Job, me int) *jobTruth {
	j := t.jobs[job.Epoch]
	if j == nil {
		n, regions := len(job.Members), len(job.Owner)
		j = &jobTruth{
			t: t, job: job, procs: make([]*process, n), shares: make([]*share, n), flights: make([][]flight, n*n),
			sent: make([]uint64, n*n), got: make([]uint64, n*n), ran: make([]sim.Time, regions), eff: make([]sim.Time, regions), cutAt: -1,
		}
		for i := range j.ran {
			j.ran[i] = -1
		}
		t.jobs[job.Epoch] = j
		t.list = append(t.list, j)
		t.w.disturb()
	}
	if was := j.procs[me]; was != nil && was != p {
		t.w.fail("%s takes the regions of member %d in epoch %d, which %s owns", p.boot, me, job.Epoch, was.boot)
	}
	if job.Boots[me] != p.boot {
		t.w.fail("%s takes the regions of member %d in epoch %d, which are those of %s", p.boot, me, job.Epoch, job.Boots[me])
	}
	j.procs[me] = p
	p.term = 0
	return j
}

// prepared notes that a member's share is set up.
func (j *jobTruth) prepared(s *share) {
	j.shares[s.me] = s
	j.t.taken++
	if j.closed == nil {
		j.closed = closure(len(j.job.Owner), s.part.Shape().Lookahead)
	}
}

// closure closes the lookahead over shortest paths, and over the shortest cycle for a region itself.
func closure(n int, direct []sim.Duration) []sim.Duration {
	d := make([]sim.Duration, n*n)
	for to := range n {
		for from := range n {
			switch {
			case from == to:
				d[to*n+from] = sim.Forever
			case len(direct) == 1:
				d[to*n+from] = direct[0]
			default:
				d[to*n+from] = direct[to*n+from]
			}
		}
	}
	for k := range n {
		for to := range n {
			for from := range n {
				d[to*n+from] = min(d[to*n+from], d[k*n+from].Add(d[to*n+k]))
			}
		}
	}
	return d
}

// dropped notes that a member has dropped its share, died that a process is gone.
func (j *jobTruth) dropped(s *share) {
	j.shares[s.me] = nil
	j.lost = true
}

func (t *truth) died(p *process) {
	for _, j := range t.list {
		for m, owner := range j.procs {
			if owner == p {
				j.shares[m] = nil
				j.lost = true
			}
		}
	}
	if s := p.exec.share; s != nil {
		s.gone = true
	}
}

// obeys checks that a process does nothing for another epoch, an earlier coordinator or another process
// than the member's.
func (t *truth) obeys(p *process, s *share, what string) {
	h := p.hearing
	if h == nil {
		return
	}
	head := headerOf(h.Message)
	switch h.Message.(type) {
	case *control.Batch, *control.Parcel, *control.Observed, *control.Final, *control.Restored:
		for m, name := range s.job.Members {
			if name == h.From && s.job.Boots[m] != h.Boot {
				t.w.fail("%s is made to %s in epoch %d by %s, which is not the member", p.boot, what, s.job.Epoch, h.Boot)
			}
		}
	default:
		if head.Term < p.term {
			t.w.fail("%s is made to %s by a coordinator of term %d after one of term %d", p.boot, what, head.Term, p.term)
		}
	}
	if head.Epoch != s.job.Epoch {
		t.w.fail("%s is made to %s in epoch %d by a message of epoch %d", p.boot, what, s.job.Epoch, head.Epoch)
	}
}

// told notes what a coordinator is told.
func (t *truth) told(p *process, h control.Heard) {
	if job := t.w.log.last().Current(); job != nil && headerOf(h.Message).Epoch == job.Epoch {
		t.heard[p.i][t.w.byName(h.From)] = t.w.now
	}
}

// sent notes a message that a machine sends.
func (t *truth) sent(p *process, to int, m control.Message) {
	b, ok := m.(*control.Batch)
	if !ok {
		return
	}
	s := p.exec.share
	if s == nil || s.job.Epoch != b.Epoch {
		t.w.fail("%s sends a batch of epoch %d, which is not its own", p.boot, b.Epoch)
		return
	}
	j, n := s.truth, len(s.job.Members)
	k := s.me*n + j.member(t.w.hosts[to].name)
	f := flight{number: b.Number, sum: checksum(b.Data), contents: t.contents(s, b.Data)}
	if j.sent[k]++; j.sent[k] != b.Number {
		t.w.fail("%s sends batch %d to %s after batch %d", p.boot, b.Number, nodeName(to), j.sent[k]-1)
	}
	j.flights[k] = append(j.flights[k], f)
}

func (j *jobTruth) member(name string) int {
	for m, x := range j.job.Members {
		if x == name {
			return m
		}
	}
	return -1
}

// contents reads an event frame.
func (t *truth) contents(s *share, data []byte) (list []node.Content) {
	if err := node.Contents(s.prog, data, func(c node.Content) { list = append(list, c) }); err != nil {
		t.w.fail("%s made an event frame that cannot be read: %v", s.p.boot, err)
	}
	return list
}

// assumed notes a coordinator.
func (j *jobTruth) assumed(term uint64) {
	if term <= j.term {
		return
	}
	if j.term > 0 {
		j.t.takeovers++
		switch {
		case j.finish != nil:
			j.t.atEnd++
		case j.cutting:
			j.t.midCut++
		}
	}
	j.term = term
}

// received checks an event frame that a member is about to take in: it is the next that was sent, as it was
// sent, and of a time that no region has run.
func (j *jobTruth) received(s *share, from int, number uint64, data []byte) {
	w, n := j.t.w, len(j.job.Members)
	j.t.taken++
	k := from*n + s.me
	list := j.flights[k]
	if len(list) == 0 || list[0].number != number || list[0].sum != checksum(data) {
		w.fail("%s takes in batch %d of member %d, which is not the next on the way (%d of %d taken)", s.p.boot, number, from, j.got[k], j.sent[k])
		return
	}
	j.got[k]++
	j.flights[k] = list[1:]
	for _, c := range list[0].contents {
		if c.To >= 0 && c.Events <= j.ran[c.To] {
			w.fail("an event at %v comes to region %d of %s, which has run up to %v", c.Events, c.To, s.p.boot, j.ran[c.To])
		}
	}
}

// turned checks what a turn did.
func (t *truth) turned(s *share) {
	t.turns++
	t.w.snipe()
	j := s.truth
	for _, x := range s.part.Stats() {
		if x.Events == 0 {
			continue
		}
		if x.Now < j.ran[x.Region] || x.Now >= x.Bound {
			t.w.fail("region %d of %s ran an event at %v, after %v and with a bound of %v", x.Region, s.p.boot, x.Now, j.ran[x.Region], x.Bound)
		}
		if j.cutting {
			if x.Now >= j.cutAt {
				t.w.fail("region %d of %s ran an event at %v while all cut at %v", x.Region, s.p.boot, x.Now, j.cutAt)
			}
		}
		j.ran[x.Region] = x.Now
	}
}

// survey computes the true effective time of every region: the least of its queue and of all that is on
// the way to it, in frames or not sent yet. It reports whether all members are there.
func (j *jobTruth) survey() bool {
	if j.lost {
		return false
	}
	for _, s := range j.shares {
		if s == nil {
			return false
		}
		for _, x := range s.part.State() {
			j.eff[x.Region] = x.Next
		}
	}
	for _, list := range j.flights {
		for i := range list {
			j.lower(list[i].contents)
		}
	}
	for _, s := range j.shares {
		s.part.Unsent(func(_ int, data []byte) { j.lower(j.t.contents(s, data)) })
	}
	return true
}

func (j *jobTruth) lower(contents []node.Content) {
	for _, c := range contents {
		if c.To >= 0 {
			j.eff[c.To] = min(j.eff[c.To], c.Events)
		}
	}
}

// granted checks bounds against the least time of anything that can still reach a region, computed from
// the definition, and that they name what they need.
func (j *jobTruth) granted(s *share, grants []lbts.Grant) {
	w := j.t.w
	j.t.taken++
	if !j.survey() {
		return
	}
	n := len(j.job.Owner)
	for _, g := range grants {
		j.t.granted++
		least := sim.Never
		for from := range n {
			least = min(least, j.eff[from].Add(j.closed[g.Region*n+from]))
		}
		if g.Bound > least {
			w.fail("region %d of %s is granted a bound of %v, but something can still reach it at %v (times %v)", g.Region, s.p.boot, g.Bound, least, j.eff)
			return
		}
		j.needs(s, g)
	}
}

// needs checks that a grant needs all that is on the way to its region below its bound.
func (j *jobTruth) needs(s *share, g lbts.Grant) {
	w, members := j.t.w, len(j.job.Members)
	for from := range members {
		needed := uint64(0)
		for _, x := range g.Needs {
			if j.job.Owner[x.From] == from {
				needed = max(needed, x.Batch)
			}
		}
		for _, f := range j.flights[from*members+s.me] {
			for _, c := range f.contents {
				if c.To == g.Region && c.Events < g.Bound && f.number > needed {
					w.fail("region %d of %s is granted a bound of %v without waiting for batch %d of member %d, which holds an event at %v",
						g.Region, s.p.boot, g.Bound, f.number, from, c.Events)
				}
			}
		}
	}
	for _, x := range j.shares {
		x.part.Unsent(func(_ int, data []byte) {
			for _, c := range j.t.contents(x, data) {
				if c.To == g.Region && c.Events < g.Bound {
					w.fail("region %d of %s is granted a bound of %v, but %s has not sent it an event at %v yet", g.Region, s.p.boot, g.Bound, x.p.boot, c.Events)
				}
			}
		})
	}
}

// beginCut checks that all have reached a cut and that nothing is on the way.
func (j *jobTruth) beginCut(s *share, at sim.Time) {
	w := j.t.w
	j.t.taken++
	if j.cutting {
		if at != j.cutAt {
			w.fail("%s cuts at %v while others cut at %v", s.p.boot, at, j.cutAt)
		}
		return
	}
	if at <= j.cutAt {
		w.fail("%s cuts at %v after a cut at %v", s.p.boot, at, j.cutAt)
	}
	w.stage()
	j.cutting, j.cutAt, j.completed, j.entities = true, at, 0, j.count()
	j.reached(at, "the cut")
}

// reached checks that every event below a time has run and none at it, and that nothing is on the way.
func (j *jobTruth) reached(at sim.Time, what string) {
	w := j.t.w
	if !j.survey() {
		return
	}
	for i, list := range j.flights {
		for _, f := range list {
			if len(f.contents) > 0 { // it tells of more than entities that are gone
				w.fail("%s at %v begins while batch %d of member %d is on the way to member %d", what, at, f.number, i/len(j.job.Members), i%len(j.job.Members))
			}
		}
	}
	for region, next := range j.eff {
		if next < at || j.ran[region] >= at {
			w.fail("%s at %v begins while region %d has run up to %v and has an event at %v", what, at, region, j.ran[region], next)
		}
	}
}

// count counts the entities of all members.
func (j *jobTruth) count() (n int) {
	for _, s := range j.shares {
		if s == nil {
			return -1
		}
		for _, x := range s.part.Stats() {
			n += x.Entities
		}
	}
	return n
}

// endCut checks, when the last member has completed a cut, that no entity was lost or doubled.
func (j *jobTruth) endCut(s *share) {
	w := j.t.w
	j.t.taken++
	if j.completed++; j.completed < len(j.job.Members) {
		return
	}
	j.cutting = false
	j.t.cuts++
	if n := j.count(); !j.lost && n != j.entities {
		w.fail("%d entities before the cut at %v, %d after it at %s", j.entities, j.cutAt, n, s.p.boot)
	}
}

// beginSave checks that a checkpoint is taken at the cut that has just ended.
func (j *jobTruth) beginSave(s *share, n uint64, at sim.Time) {
	if at != j.cutAt {
		j.t.w.fail("%s takes checkpoint %d at %v, the last cut was at %v", s.p.boot, n, at, j.cutAt)
	}
	if v := s.open; v != nil {
		j.t.w.fail("%s takes checkpoint %d while it does not know what became of %d", s.p.boot, n, v.key.number)
	}
}

// restoredAt notes that a member has what the epoch begins from.
func (j *jobTruth) restoredAt(*share) {
	if j.restored++; j.restored == len(j.job.Members) {
		j.t.restores++
	}
	j.t.taken++
}

// finished checks that all end at the same time, which all have reached.
func (j *jobTruth) finished(s *share, at sim.Time, how control.Ending, reason string) {
	w := j.t.w
	j.t.taken++
	f := &control.Finish{At: at, How: how, Reason: reason}
	if was := j.finish; was != nil {
		if was.At != at || was.How != how || was.Reason != reason {
			w.fail("%s ends at %v (%v), others at %v (%v)", s.p.boot, at, how, was.At, was.How)
		}
		return
	}
	j.finish = f
	w.stage()
	if how == control.EndFailed || !j.survey() {
		return
	}
	for region, next := range j.eff {
		if next < at || j.ran[region] >= at {
			w.fail("the run ends at %v while region %d has run up to %v and has an event at %v", at, region, j.ran[region], next)
		}
	}
}

// watch checks that nothing has gone back at a process.
func (t *truth) watch(p *process) {
	if p.over {
		return
	}
	was, is := &p.last, p.agent.Status()
	if is.Epoch != 0 && is.Epoch < p.newest {
		t.w.fail("%s goes from epoch %d back to %d", p.boot, p.newest, is.Epoch)
	}
	p.newest = max(p.newest, is.Epoch)
	if is.Epoch != 0 && is.Epoch == was.Epoch {
		if is.Term < was.Term || is.Cut < was.Cut || is.CutAt < was.CutAt || is.Observed < was.Observed {
			t.w.fail("%s goes back from term %d, cut %d at %v to term %d, cut %d at %v", p.boot, was.Term, was.Cut, was.CutAt, is.Term, is.Cut, is.CutAt)
		}
		for r := range is.Held {
			if is.Held[r] < was.Held[r] {
				t.w.fail("the bound of region %d at %s goes back from %v to %v", r, p.boot, was.Held[r], is.Held[r])
			}
		}
	}
	p.last = is
}

// rest checks a cluster that has nothing to do: no node holds on to a job.
func (t *truth) rest() {
	for _, h := range t.w.hosts {
		if !h.running() || h.lag > 0 || h.p.applied < len(t.w.log.states)-1 {
			continue
		}
		if s := h.p.agent.Status(); s.Stage != control.Idle || h.p.exec.share != nil {
			t.w.fail("%s is still %s in epoch %d when all is over", h.p.boot, s.Stage, s.Epoch)
		}
	}
}
