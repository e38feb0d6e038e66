package control

import (
	"fmt"
	"slices"
	"time"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// Step names what a coordinator waits for in a job.
type step string

const (
	assuming   step = "members to stop for this coordinator"
	mending    step = "members to complete a cut that the last coordinator began"
	settling   step = "members to take in what others sent them, and to state where they are"
	going      step = "reports"
	cutting    step = "members to complete a cut"
	recovering step = "nodes to go on with, from the last checkpoint"
	restoring  step = "members to read the checkpoint that the job goes on from"
	finishing  step = "the member that records to complete the results"
	ending     step = "the log to take in the end of the job"
)

// run is a job under one coordinator.
type run struct {
	job     *Job
	step    step
	members []member
	// first region of each member; regions of a member are consecutive.
	first []int
	// asked is when the members were asked last for what step waits for.
	asked time.Duration

	solver *lbts.Solver
	shape  Shape
	serial uint64
	// cut is the last cut begun, at cutAt.
	cut   uint64
	cutAt sim.Time
	// cap is the next cut, stop time or end: nothing at or above it runs. stopAt is the next time at which
	// entities may end the run.
	cap, stopAt sim.Time
	// limit is what the solver was told: cap, or less.
	limit sim.Time
	// braked says that no bounds beyond brake are given: a pause, or a member with a backlog.
	braked bool
	brake  sim.Time
	// halted says that cap is where a run that was stopped ends.
	halted bool
	// stirred says that something was reported or changed since grants were considered.
	stirred bool
	failure *Failure

	// told is the floor that the recording member knows, at toldAt.
	told   sim.Time
	toldAt time.Duration
	// floor is the last that was seen, since when.
	floor      sim.Time
	floorSince time.Duration
	floorNoted bool
	// waiting is what the run waits for besides reports, since when; waitingNoted says that people were told.
	waiting      string
	waitingSince time.Duration
	waitingNoted bool

	// cutSaving is what the last cut was begun with, saves the checkpoints, losing why the job goes back.
	cutSaving Saving
	saves     saves
	losing    losing

	finish *Finish
	end    *End
}

// member is what the coordinator knows of a member.
type member struct {
	name, boot string
	// heard is when it was last heard, ever says that it was at all; said is the kind of what it said.
	heard  time.Duration
	ever   bool
	said   byte
	pinged time.Duration
	// noted says that its silence was noted.
	noted bool
	// busy is what it said it does.
	busy string
	// frozen, full and cut are its answers; cut is the last cut that it completed.
	frozen *Frozen
	full   *Full
	cut    uint64
	next   []sim.Time
	// greet says that it waits for grants, be they none.
	greet  bool
	asides Asides
	// restored says that it has what the epoch begins from, stored is what it told of a checkpoint, gone
	// that it is lost.
	restored bool
	stored   *Stored
	gone     bool
}

func newRun(job *Job, now time.Duration) *run {
	r := &run{job: job, step: assuming, members: make([]member, len(job.Members)), first: make([]int, len(job.Members)+1), floorSince: now}
	r.saves.since = now
	for i := range r.members {
		r.members[i] = member{name: job.Members[i], boot: job.Boots[i], heard: now, pinged: now}
	}
	r.first[len(job.Members)] = len(job.Owner)
	for region := len(job.Owner) - 1; region >= 0; region-- {
		r.first[job.Owner[region]] = region
	}
	return r
}

// hear takes in what a member says.
func (c *Coordinator) hear(h Heard) {
	r := c.run
	i := r.find(h.From)
	head := header(h.Message)
	if i < 0 || head.Epoch != r.job.Epoch {
		c.counts.OtherEpoch++
		return
	}
	m := &r.members[i]
	if h.Boot != m.boot {
		r.losing.excluded = appendNew(r.losing.excluded, bootOf(Node{Name: m.name, Boot: m.boot})) // gossip may not know yet
		c.lose(i, fmt.Sprintf("node %s was restarted while it took part in %s", m.name, r.job.ID))
		return
	}
	m.gone = false // it may be a member of the next epoch
	m.heard, m.ever, m.said = c.clock.now, true, h.Message.kind()
	if m.noted {
		m.noted = false
		c.note(Info, fmt.Sprintf("node %s is heard again", m.name), "job", r.job.ID)
	}
	if pong, ok := h.Message.(*Pong); ok {
		m.busy = pong.Busy
		return
	}
	if head.Term != c.term {
		c.counts.OtherTerm++
		return
	}
	if err := c.answer(i, h.Message); err != nil {
		c.fail(fmt.Sprintf("engine fault: node %s: %v; please report it", m.name, err))
	}
}

// find returns the member of a name, -1 if there is none. Members stand in the order of their names where
// this coordinator or one like it chose them.
func (r *run) find(name string) int {
	if i, ok := slices.BinarySearch(r.job.Members, name); ok {
		return i
	}
	return slices.Index(r.job.Members, name)
}

// answer takes in an answer or a report of member i.
func (c *Coordinator) answer(i int, message Message) error {
	r := c.run
	m := &r.members[i]
	switch x := message.(type) {
	case *Broken:
		reason := fmt.Sprintf("node %s cannot go on with %s: %s", m.name, r.job.ID, x.Reason)
		if !x.Elsewhere {
			c.fail(reason)
			return nil
		}
		r.losing.excluded = appendNew(r.losing.excluded, bootOf(Node{Name: m.name, Boot: m.boot}))
		c.lose(i, reason)
	case *Unfit:
		return c.unfit(m, x)
	case *Stored:
		m.stored = x
	case *Retrieved:
		m.restored = true
	case *Frozen:
		if r.step == assuming && m.frozen == nil {
			m.frozen = x
			return r.checkFrozen(x)
		}
	case *Full:
		if r.step == settling && m.full == nil {
			m.full = x
			return r.checkFull(i, x)
		}
	case *Report:
		if r.step != going && r.step != cutting {
			return nil
		}
		return c.report(i, x)
	case *CutDone:
		if x.Number != r.cut || m.cut == r.cut {
			return nil
		}
		if want := r.first[i+1] - r.first[i]; len(x.Next) != want {
			return fmt.Errorf("%d next events after a cut for %d regions", len(x.Next), want)
		}
		m.cut, m.next = x.Number, x.Next
		m.asides = x.Asides
		r.fails(x.Failure)
	case *Recorded:
		if r.step == finishing {
			c.recorded(x)
		}
	}
	return nil
}

func (r *run) checkFrozen(x *Frozen) error {
	if len(x.Sent) != len(r.members) {
		return fmt.Errorf("frames to %d members in a job of %d", len(x.Sent), len(r.members))
	}
	return nil
}

func (r *run) checkFull(i int, x *Full) error {
	if want := r.first[i+1] - r.first[i]; len(x.Regions) != want {
		return fmt.Errorf("full report of %d regions instead of %d", len(x.Regions), want)
	}
	for k, s := range x.Regions {
		if s.Region != r.first[i]+k {
			return fmt.Errorf("full report of region %d instead of %d", s.Region, r.first[i]+k)
		}
	}
	return nil
}

// report takes in a frame of reports.
func (c *Coordinator) report(i int, x *Report) error {
	r := c.run
	for k := range x.Regions {
		if region := x.Regions[k].Region; region < r.first[i] || region >= r.first[i+1] {
			return fmt.Errorf("report of region %d, which it does not own", region)
		}
	}
	if err := r.solver.ReportAll(x.Regions); err != nil {
		return err
	}
	c.counts.Reports++
	c.counts.Regions += uint64(len(x.Regions))
	m := &r.members[i]
	m.asides = x.Asides
	r.fails(x.Failure)
	r.stirred = true
	return nil
}

// fails notes a failure of a model if it comes before those known.
func (r *run) fails(f *Failure) {
	if f != nil && (r.failure == nil || f.before(r.failure)) {
		r.failure = f
	}
}

// all reports whether all members have something.
func (r *run) all(has func(*member) bool) bool {
	for i := range r.members {
		if !has(&r.members[i]) {
			return false
		}
	}
	return true
}

// lacks lists the members that have not answered what the step waits for.
func (r *run) lacks() (list []int) {
	for i := range r.members {
		m := &r.members[i]
		missing := false
		switch r.step {
		case assuming:
			missing = m.frozen == nil
		case settling:
			missing = m.full == nil
		case mending, cutting:
			missing = m.cut != r.cut
		case restoring:
			missing = !m.restored
		case finishing:
			missing = true
		}
		if missing {
			list = append(list, i)
		}
	}
	return list
}

// ask asks all members that have not answered for what the step waits for.
func (c *Coordinator) ask() {
	r := c.run
	r.asked = c.clock.now
	for _, i := range r.lacks() {
		switch r.step {
		case assuming:
			c.send(i, &Assume{c.header()})
		case settling:
			c.send(i, &Settle{c.header(), r.framesTo(i), i == 0})
		case mending, cutting:
			c.send(i, &Cut{c.header(), r.cut, r.cutAt, r.cutSaving})
		case restoring:
			c.send(i, &Retrieve{c.header()})
		case finishing:
			f := *r.finish
			f.Header = c.header()
			c.send(i, &f)
		}
	}
}

// framesTo returns how many frames each member sent to member i.
func (r *run) framesTo(i int) []uint64 {
	frames := make([]uint64, len(r.members))
	for m := range r.members {
		frames[m] = r.members[m].frozen.Sent[i]
	}
	return frames
}

// goOn does what is next, for as long as there is something.
func (c *Coordinator) goOn() {
	r := c.run
	c.saving()
	for {
		before := r.step
		switch r.step {
		case assuming:
			if r.all(func(m *member) bool { return m.frozen != nil }) {
				c.assumed()
			}
		case mending:
			if r.all(func(m *member) bool { return m.cut == r.cut }) {
				r.step = settling
				c.ask()
			}
		case restoring:
			if r.all(func(m *member) bool { return m.restored }) {
				r.step = settling
				c.ask()
			}
		case recovering:
			c.recover(r.job, &r.losing, c.absent)
		case settling:
			if r.all(func(m *member) bool { return m.full != nil }) {
				c.resume()
			}
		case going:
			c.advance()
		case cutting:
			if r.all(func(m *member) bool { return m.cut == r.cut }) {
				c.reopen()
			}
		case ending:
			c.propose(fmt.Sprintf("end/%s/%d", r.job.ID, r.job.Epoch), Command{End: r.end})
		}
		if r.step == before {
			return
		}
	}
}

// assumed goes on from where the members are: the end of the run, a cut that was begun, or in between.
func (c *Coordinator) assumed() {
	r := c.run
	for i := range r.members {
		f := r.members[i].frozen
		if f.Finishing != nil && r.finish == nil {
			r.finish = f.Finishing
		}
		if f.CutNumber > r.cut {
			r.cut, r.cutAt = f.CutNumber, f.CutAt
		}
	}
	for i := range r.members {
		m := &r.members[i]
		m.asides.Observed, m.restored = m.frozen.Observed, m.frozen.Restored
		if m.frozen.CutNumber == r.cut && m.frozen.CutDone {
			m.cut = r.cut
		}
		if m.frozen.CutNumber+1 < r.cut {
			c.fail(fmt.Sprintf("engine fault: node %s is at cut %d, another at cut %d; please report it", m.name, m.frozen.CutNumber, r.cut))
			return
		}
	}
	c.inherit()
	switch {
	case r.finish != nil:
		c.finishRun()
	case r.cut == 0 && r.job.Restore != nil:
		r.step = restoring
		c.ask()
	case len(r.lacking()) > 0:
		r.step = mending
		c.ask()
	default:
		r.step = settling
		c.ask()
	}
}

// lacking lists members that have not completed the last cut.
func (r *run) lacking() (list []int) {
	for i := range r.members {
		if r.members[i].cut != r.cut {
			list = append(list, i)
		}
	}
	return list
}

// resume starts the solver from full reports.
func (c *Coordinator) resume() {
	r := c.run
	if reason := r.differ(); reason != "" {
		c.fail(reason)
		return
	}
	r.shape = r.members[0].full.Shape
	closed, err := matrix(len(r.job.Owner), r.shape.Lookahead)
	if err != nil {
		c.fail(fmt.Sprintf("%s cannot run in %d regions: %v", r.job.ID, len(r.job.Owner), err))
		return
	}
	if r.solver, err = lbts.New(closed); err != nil {
		c.fail("engine fault: " + err.Error())
		return
	}
	held, next := make([]sim.Time, 0, len(r.job.Owner)), make([]sim.Time, 0, len(r.job.Owner))
	for i := range r.members {
		m := &r.members[i]
		for _, s := range m.full.Regions {
			held, next = append(held, s.Held), append(next, s.Next)
		}
		m.asides = m.full.Asides
		r.fails(m.asides.Failure)
		m.greet = true
	}
	c.mark()
	if err := r.solver.Resume(held, next); err != nil {
		c.fail(fmt.Sprintf("engine fault: %v; please report it", err))
		return
	}
	for i := range r.members {
		r.members[i].frozen, r.members[i].full = nil, nil
	}
	if r.cut == 0 && r.job.Restore != nil {
		// It shows entities to the regions that need ghosts of them.
		c.openCut(r.job.Restore.At)
		return
	}
	r.step, r.stirred = going, true
	r.setCap(r.cutAt)
	if o := r.saves.open; o != nil {
		c.sendFloor(o.at) // the coordinator before may not have
	}
}

// unfit takes in that a member has no good copy of a part of the checkpoint that the epoch begins from.
func (c *Coordinator) unfit(m *member, x *Unfit) error {
	r := c.run
	from := r.job.Restore
	if from == nil || x.Number != from.Number || x.Part >= len(from.Sources) {
		return fmt.Errorf("part %d of checkpoint %d is unfit, which nobody reads", x.Part, x.Number)
	}
	d := Damage{x.Number, x.Part, m.name}
	if from.Sources[x.Part].Archive {
		d.Node = Archive
	}
	r.losing.damaged = appendNew(r.losing.damaged, d)
	c.goBack(fmt.Sprintf("node %s has no good copy of part %d of checkpoint %d: %s", m.name, x.Part, x.Number, x.Reason))
	return nil
}

func appendNew[T comparable](list []T, x T) []T {
	if slices.Contains(list, x) {
		return list
	}
	return append(list, x)
}

// differ says which members would compute different things.
func (r *run) differ() string {
	a := &r.members[0]
	for i := range r.members {
		b := &r.members[i]
		if x, y := a.full.Shape, b.full.Shape; x.Digest != y.Digest || x.End != y.End || x.CutEvery != y.CutEvery || x.StopEvery != y.StopEvery {
			return fmt.Sprintf("nodes %s and %s set %s up differently (digests %016x and %016x): they run other versions of the program or of its models, or compute differently; make them alike",
				a.name, b.name, r.job.ID, x.Digest, y.Digest)
		}
	}
	return ""
}

// matrix closes the lookahead of a shape.
func matrix(regions int, ahead []sim.Duration) (*lbts.Matrix, error) {
	m := lbts.NewMatrix(regions)
	if regions > 1 && len(ahead) != 1 && len(ahead) != regions*regions {
		return nil, fmt.Errorf("engine fault: lookahead of %d pairs for %d regions", len(ahead), regions)
	}
	for to := range regions {
		for from := range regions {
			switch {
			case from == to:
			case len(ahead) == 1:
				m.Set(from, to, ahead[0])
			default:
				m.Set(from, to, ahead[to*regions+from])
			}
		}
	}
	return m, m.Close()
}

// mark stamps the reports that follow with the time in milliseconds.
func (c *Coordinator) mark() { c.run.solver.Mark(uint64(c.clock.now / time.Millisecond)) }
