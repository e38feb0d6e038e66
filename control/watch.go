package control

import (
	"fmt"
	"strings"
	"time"

	"github.com/simnode/simnode/sim"
)

// watch asks again, pings, and names who is silent or lost.
func (c *Coordinator) watch() {
	r := c.run
	if r.step == ending {
		return
	}
	if c.clock.now-r.asked >= c.cfg.AskEvery {
		c.ask()
	}
	for i := range r.members {
		c.watchMember(i)
		if r.step == ending {
			return
		}
	}
	c.watchFloor()
	c.watchStep()
}

func (c *Coordinator) watchMember(i int) {
	r := c.run
	m := &r.members[i]
	silent := c.clock.now - m.heard
	if c.clock.now-max(m.heard, m.pinged) >= c.cfg.PingEvery {
		m.pinged = c.clock.now
		c.send(i, &Ping{c.header()})
	}
	if m.gone {
		return
	}
	if silent >= c.cfg.GoneAfter || silent >= c.cfg.LostAfter && c.dead(m) {
		c.lose(i, c.lost(m, silent))
		return
	}
	if silent >= c.cfg.SilentAfter && !m.noted {
		m.noted = true
		c.note(Warn, fmt.Sprintf("node %s has been silent for %v", m.name, silent.Round(100*time.Millisecond)),
			"job", r.job.ID, "said", m.lastSaid(), "awaited", c.awaited())
	}
}

// dead reports whether gossip takes the process of a member for gone.
func (c *Coordinator) dead(m *member) bool {
	if !c.gossip {
		return false
	}
	for _, n := range c.nodes {
		if n.Name == m.name && n.Boot == m.boot {
			return !n.Alive
		}
	}
	return true
}

func (c *Coordinator) lost(m *member, silent time.Duration) string {
	r := c.run
	ago := silent.Round(100 * time.Millisecond)
	when := fmt.Sprintf("was last heard %v ago", ago)
	if !m.ever {
		when = fmt.Sprintf("was never heard in the %v since node %s coordinates", ago, c.self)
	}
	return fmt.Sprintf("node %s of %s %s and is lost", m.name, r.job.ID, when)
}

func (m *member) lastSaid() string {
	if !m.ever {
		return "nothing"
	}
	said := kindName(m.said)
	if m.said == kindPong && m.busy != "" {
		said += " (" + m.busy + ")"
	}
	return said
}

// watchFloor tells of a run that stands still.
func (c *Coordinator) watchFloor() {
	r := c.run
	if r.step != going || r.braked || r.floorNoted || c.clock.now-r.floorSince < 5*c.cfg.SilentAfter {
		return
	}
	r.floorNoted = true
	fields := []string{"job", r.job.ID, "awaited", c.awaited()}
	var absent []string
	for _, a := range r.solver.Absent(uint64(max(c.clock.now-c.cfg.SilentAfter, 0) / time.Millisecond)) {
		if absent = append(absent, a.String()); len(absent) == maxListed {
			break
		}
	}
	lines := strings.SplitN(r.solver.Describe(), "\n", maxListed+2)
	fields = append(fields, "absent", strings.Join(absent, "; "), "solver", strings.Join(lines[:min(len(lines)-1, maxListed+1)], "\n"))
	c.note(Warn, fmt.Sprintf("no region has passed %v for %v", r.floor, (c.clock.now-r.floorSince).Round(100*time.Millisecond)), fields...)
}

// watchStep tells of a job that waits long for the same thing: for answers, or for a backlog to go. A pause is no
// such thing, and reports are the matter of watchFloor.
func (c *Coordinator) watchStep() {
	r := c.run
	at := string(r.step)
	if r.step == going {
		at = ""
		if r.braked && r.job.Phase != Paused {
			at = "backlog"
		}
	}
	if at != r.waiting {
		r.waiting, r.waitingSince, r.waitingNoted = at, c.clock.now, false
	}
	long := c.clock.now - r.waitingSince
	if at == "" || r.waitingNoted || long < 5*c.cfg.SilentAfter {
		return
	}
	r.waitingNoted = true
	c.note(Warn, fmt.Sprintf("%s has waited for %v", r.job.ID, long.Round(100*time.Millisecond)), "job", r.job.ID, "awaited", c.awaited())
}

// maxListed bounds what is listed in a note.
const maxListed = 16

// awaited tells whom the job waits for.
func (c *Coordinator) awaited() string {
	r := c.run
	var who []string
	switch r.step {
	case going:
		if r.braked {
			return r.braking()
		}
		who = r.holders()
	case recovering:
		if c.waiting != "" {
			return c.waiting
		}
	case finishing:
		who = []string{r.job.Members[r.job.Recorder]}
	default:
		for _, i := range r.lacks() {
			who = append(who, r.members[i].name)
		}
	}
	if len(who) > maxListed {
		who = append(who[:maxListed], "others")
	}
	if len(who) == 0 {
		return string(r.step)
	}
	return string(r.step) + ": " + strings.Join(who, ", ")
}

// braking tells what holds bounds back on purpose.
func (r *run) braking() string {
	switch r.job.Phase {
	case Paused:
		return "the job to be resumed"
	case Suspending:
		return "a last checkpoint"
	}
	var who []string
	for i := range r.members {
		if r.members[i].asides.Backlog && len(who) < maxListed {
			who = append(who, r.members[i].name)
		}
	}
	return "what is queued up to be written or sent: " + strings.Join(who, ", ")
}

// holders tells which regions hold the floor back.
func (r *run) holders() (list []string) {
	floor := r.solver.Floor()
	for region, m := range r.job.Owner {
		if floor < sim.Never && r.solver.Effective(region) == floor && len(list) <= maxListed {
			list = append(list, fmt.Sprintf("region %d of node %s at %v with a bound of %v", region, r.members[m].name, floor, r.solver.Given(region)))
		}
	}
	return list
}

func kindName(kind byte) string {
	names := [...]string{
		kindAssume: "Assume", kindSettle: "Settle", kindGrants: "Grants", kindCut: "Cut", kindFloor: "Floor", kindFinish: "Finish", kindPing: "Ping",
		kindFrozen: "Frozen", kindFull: "Full", kindReport: "Report", kindCutDone: "CutDone", kindRecorded: "Recorded", kindBroken: "Broken", kindPong: "Pong",
		kindBatch: "Batch", kindParcel: "Parcel", kindObserved: "Observed", kindFinal: "Final",
		kindRetrieve: "Retrieve", kindAbandon: "Abandon", kindRetrieved: "Retrieved", kindUnfit: "Unfit", kindStored: "Stored", kindRestored: "Restored",
	}
	if int(kind) < len(names) {
		return names[kind]
	}
	return ""
}

// CoordinatorStatus is what a Coordinator does at a moment.
type CoordinatorStatus struct {
	Leading bool
	Term    uint64
	// Job and Epoch that it coordinates, empty and 0 if there is none.
	Job   string
	Epoch uint64
	// Running says that regions are given bounds: the times below mean something.
	Running bool
	// Floor is below what all has run; Cap is the next cut, stop time or end; Limit what bounds do not
	// pass at present; End that of the run.
	Floor, Cap, Limit, End sim.Time
	// Cut is the last one begun, CutAt its time.
	Cut   uint64
	CutAt sim.Time
	// Braked says that a pause or a backlog holds bounds back, Halted that the run ends at Cap since it
	// was stopped.
	Braked, Halted bool
	Failure        *Failure
	// Finish is how the run ends, nil while it does not.
	Finish *Finish
	// Saving is the checkpoint under way, at SavingAt; 0 if there is none.
	Saving   uint64
	SavingAt sim.Time
	// Awaited tells what the job waits for and from whom.
	Awaited string
	Members []MemberStatus
	// Regions are those of Job.Owner, while Running.
	Regions []RegionStatus
}

// MemberStatus is what a Coordinator knows of a member.
type MemberStatus struct {
	Name string
	// Silent is for how long it was not heard, Said the kind of its last message.
	Silent time.Duration
	Said   string
	// Events handled and observation frames sent there, as it last reported.
	Events, Observed uint64
	Backlog          bool
}

// RegionStatus is what a Coordinator knows of a region.
type RegionStatus struct {
	Member int
	// Effective is the least of its next event and what is on the way to it; Given its largest bound.
	Effective, Given sim.Time
}

// Status tells what the coordinator does. It shares nothing with it that changes.
func (c *Coordinator) Status() CoordinatorStatus {
	s := CoordinatorStatus{Leading: c.leading, Term: c.term}
	r := c.run
	if r == nil {
		return s
	}
	s.Job, s.Epoch, s.Awaited = r.job.ID, r.job.Epoch, c.awaited()
	s.Cut, s.CutAt, s.Braked, s.Halted, s.Failure, s.Finish = r.cut, r.cutAt, r.braked, r.halted, r.failure, r.finish
	if o := r.saves.open; o != nil {
		s.Saving, s.SavingAt = o.number, o.at
	}
	for i := range r.members {
		m := &r.members[i]
		s.Members = append(s.Members, MemberStatus{m.name, c.clock.now - m.heard, m.lastSaid(), m.asides.Events, m.asides.Observed, m.asides.Backlog})
	}
	if r.solver == nil {
		return s
	}
	s.Running = true
	s.Floor, s.Cap, s.Limit, s.End = min(r.solver.Floor(), r.shape.End), r.cap, r.limit, r.shape.End
	for region, m := range r.job.Owner {
		s.Regions = append(s.Regions, RegionStatus{m, r.solver.Effective(region), r.solver.Given(region)})
	}
	return s
}
