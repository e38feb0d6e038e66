package control

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// losing is why a job goes back to its last checkpoint.
type losing struct {
	reason string
	since  time.Duration
	// excluded are processes that cannot work for the job, damaged the copies found bad.
	excluded []string
	damaged  []Damage
}

// lose has the job go on without member i, from the last checkpoint. Others may be lost before it does.
func (c *Coordinator) lose(i int, reason string) {
	r := c.run
	r.members[i].gone = true
	c.goBack(reason)
}

// goBack has the job go on from its last checkpoint.
func (c *Coordinator) goBack(reason string) {
	r := c.run
	if r.step == ending || r.step == recovering {
		return
	}
	reason = reason[:min(len(reason), maxLoss)]
	if r.job.Fruitless >= c.cfg.MostRecoveries {
		reasons := append(slices.Clone(r.job.Losses), reason)
		c.fail(fmt.Sprintf("%s went back %d times without a new checkpoint: %s", r.job.ID, r.job.Fruitless, strings.Join(reasons, "; ")))
		return
	}
	r.losing.reason, r.losing.since = reason, c.clock.now
	r.step = recovering
	c.counts.Losses++
	c.note(Warn, reason+": the job goes back to "+r.job.whence(), "job", r.job.ID)
}

// whence tells where a job goes back to.
func (j *Job) whence() string {
	if n := j.Newest(); n != nil {
		return fmt.Sprintf("checkpoint %d at %v", n.Number, n.At)
	}
	return "its beginning, since no checkpoint was committed"
}

// recover proposes a new epoch as soon as all that it needs is there.
func (c *Coordinator) recover(job *Job, l *losing, absent func(Node) bool) {
	var there []Node
	for _, n := range c.nodes {
		if !absent(n) && !slices.Contains(job.Excluded, bootOf(n)) && !slices.Contains(l.excluded, bootOf(n)) {
			there = append(there, n)
		}
	}
	rec, missing := plan(job, there, l.damaged)
	if missing != nil {
		if missing.hopeless || missing.part && c.clock.now-l.since >= c.cfg.HolderWait {
			c.failJob(job, missing.text)
			return
		}
		if missing := missing.text; c.waiting != missing {
			c.waiting = missing
			c.note(Warn, missing, "job", job.ID)
		}
		return
	}
	rec.Reason, rec.Excluded, rec.Damaged = l.reason, l.excluded, l.damaged
	c.propose(fmt.Sprintf("recover/%s/%d", job.ID, job.Epoch), Command{Recover: rec})
}

// bootOf names a process among those of all nodes.
func bootOf(n Node) string { return n.Name + "/" + n.Boot }

// absent reports whether a node is one that this coordinator takes for gone, whatever gossip says, or
// has not heard for a while.
func (c *Coordinator) absent(n Node) bool {
	for i := range c.run.members {
		m := &c.run.members[i]
		if m.name == n.Name && m.boot == n.Boot {
			return m.gone || c.clock.now-m.heard >= c.cfg.SilentAfter
		}
	}
	return false
}

// plan works out the next epoch of a job from the nodes that are there: who reads the parts of the newest
// checkpoint, who are the members, who owns what; or what is missing for it.
func plan(job *Job, there []Node, damaged []Damage) (*Recover, *lack) {
	var able []Node
	for _, n := range there {
		if n.Role != Coordinates && n.Alive && !n.Leaving {
			able = append(able, n)
		}
	}
	slices.SortFunc(able, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	if len(able) == 0 {
		return nil, &lack{text: fmt.Sprintf("%s waits for a working node to go on from %s: none is there", job.ID, job.whence())}
	}
	rec := &Recover{Job: job.ID, Epoch: job.Epoch}
	var sources []string
	if newest := job.Newest(); newest != nil {
		var missing *lack
		if rec.Restore, missing = sourcesOf(job, newest, able, append(slices.Clip(job.Damaged), damaged...)); missing != nil {
			return nil, missing
		}
		for _, s := range rec.Restore.Sources {
			sources = append(sources, s.Node)
		}
	}
	rec.seat(job, able, sources)
	rec.Recorder = recorderOf(job, rec)
	return rec, nil
}

// lack is what a job cannot go on without: a part of its checkpoint, or any node. Hopeless says that waiting
// does not help.
type lack struct {
	text           string
	part, hopeless bool
}

// sourcesOf chooses who reads each part of a checkpoint: the node that stored it, or its partner, or any from
// the archive.
func sourcesOf(job *Job, c *Checkpoint, able []Node, damaged []Damage) (*Restore, *lack) {
	r := &Restore{Number: c.Number, At: c.At}
	for i := range c.Parts {
		p := &c.Parts[i]
		good := func(node string) bool { return node != "" && !slices.Contains(damaged, Damage{c.Number, i, node}) }
		source := Source{Part: i}
		for _, name := range []string{p.Partner, p.Member} {
			if good(name) && slices.ContainsFunc(able, func(n Node) bool { return n.Name == name }) {
				source.Node = name
			}
		}
		if source.Node == "" && p.Archived && good(Archive) {
			source.Node, source.Archive = able[0].Name, true
		}
		if source.Node == "" {
			hopeless := !good(p.Member) && !good(p.Partner)
			return nil, &lack{missingPart(job, c, i, hopeless), true, hopeless}
		}
		r.Sources = append(r.Sources, source)
	}
	return r, nil
}

func missingPart(job *Job, c *Checkpoint, i int, hopeless bool) string {
	p := &c.Parts[i]
	held := "node " + p.Member
	if p.Partner != "" {
		held += " and node " + p.Partner
	}
	why := "no such node is there"
	if hopeless {
		why = "no good copy is left"
	}
	regions := "no region"
	if n := len(p.Regions); n > 0 {
		regions = fmt.Sprintf("regions %d to %d", p.Regions[0], p.Regions[n-1])
	}
	return fmt.Sprintf("%s cannot go on from checkpoint %d at %v: part %d (%s) was held by %s, and %s", job.ID, c.Number, c.At, i, regions, held, why)
}

// seat is a block of regions in a row, and who owns it; nobody if node is empty.
type seat struct {
	node    string
	boot    string
	regions int
}

// seat gives every region a member. Regions stay where they were; those of a member that is gone go to a node
// that had none, or else to the member beside it, which is mostly its partner. Nodes that are left over share
// with the member that has most, as far as regions last. Who must read a part is a member in any case: there
// are no more parts than regions.
func (rec *Recover) seat(job *Job, able []Node, sources []string) {
	boots := make(map[string]string, len(able)) // looked up, never iterated
	for _, n := range able {
		boots[n.Name] = n.Boot
	}
	seats := make([]seat, len(job.Members))
	for _, m := range job.Owner {
		seats[m].regions++
	}
	for i, name := range job.Members {
		if boot, ok := boots[name]; ok {
			seats[i].node, seats[i].boot = name, boot
		}
	}
	var fresh []Node
	for _, n := range able {
		if !slices.Contains(job.Members, n.Name) {
			fresh = append(fresh, n)
		}
	}
	// Those that must read come first.
	slices.SortStableFunc(fresh, func(a, b Node) int { return isIn(sources, b.Name) - isIn(sources, a.Name) })
	for i := range seats {
		if seats[i].node == "" && len(fresh) > 0 {
			seats[i].node, seats[i].boot = fresh[0].Name, fresh[0].Boot
			fresh = fresh[1:]
		}
	}
	seats = merged(seats)
	for ; len(fresh) > 0; fresh = fresh[1:] {
		most := 0
		for i := range seats {
			if seats[i].regions > seats[most].regions {
				most = i
			}
		}
		half := seats[most].regions / 2
		if half == 0 {
			break // each has one region
		}
		seats[most].regions -= half
		seats = slices.Insert(seats, most+1, seat{fresh[0].Name, fresh[0].Boot, half})
	}
	for _, n := range fresh {
		give := slices.IndexFunc(seats, func(s seat) bool { return isIn(sources, s.node) == 0 })
		if isIn(sources, n.Name) == 0 || give < 0 {
			break
		}
		seats[give].node, seats[give].boot = n.Name, n.Boot
	}
	for i, s := range seats {
		rec.Members, rec.Boots = append(rec.Members, s.node), append(rec.Boots, s.boot)
		for range s.regions {
			rec.Owner = append(rec.Owner, i)
		}
	}
}

func isIn(list []string, name string) int {
	if slices.Contains(list, name) {
		return 1
	}
	return 0
}

// merged gives the regions of empty seats to the next one that is taken, at the end to the last.
func merged(seats []seat) (list []seat) {
	left := 0
	for _, s := range seats {
		if s.node == "" {
			left += s.regions
			continue
		}
		s.regions += left
		left = 0
		list = append(list, s)
	}
	list[len(list)-1].regions += left
	return list
}

// recorderOf chooses who records: who did, or who has a copy of what was recorded, as far as they are members.
func recorderOf(job *Job, rec *Recover) int {
	names := []string{job.Members[job.Recorder]}
	if n := job.Newest(); n != nil {
		p := &n.Parts[n.Recorder]
		names = []string{p.Member, p.Partner}
	}
	for _, name := range names {
		if i := slices.Index(rec.Members, name); i >= 0 {
			return i
		}
	}
	return 0
}
