package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
)

// silentFor is how long a member is silent until people are told.
const silentFor = 5 * time.Second

// own returns how far a job is by the coordinator of this node, nil if it has no such job.
func (f *far) own(job string) *progress {
	s := f.loop.shown.Load()
	p := measure(&s.coord, job)
	if p != nil {
		p.Rate = f.samples.rate(job, p.Events, s.at)
	}
	return p
}

// measure returns how far a coordinator is with a job, nil if it has another one or none.
func measure(c *control.CoordinatorStatus, job string) *progress {
	if !c.Leading || c.Job != job {
		return nil
	}
	p := &progress{Waits: plainly(c.Awaited)}
	for _, m := range c.Members {
		p.Events += m.Events
	}
	if c.Running {
		p.Now, p.End = min(c.Floor, c.End), c.End
	}
	var silent []string
	for _, m := range c.Members {
		if m.Silent >= silentFor {
			silent = append(silent, fmt.Sprintf("%s for %d s", m.Name, int(m.Silent.Truncate(silentFor).Seconds())))
		}
	}
	if len(silent) > 0 {
		p.Waits = "nothing heard from " + strings.Join(silent, ", ")
	}
	return p
}

// plainly says for people what a coordinator waits for, nothing while a run goes on.
func plainly(awaited string) string {
	what, who, named := strings.Cut(awaited, ": ")
	if !named {
		who = "the nodes"
	}
	for _, p := range []struct{ what, text string }{
		{"reports", ""},
		{"members to complete a cut", ""},
		{"the job to be resumed", ""},
		{"members to stop for this coordinator", "waiting for %s to be ready"},
		{"members to complete a cut that the last coordinator began", "waiting for %s to be where the last coordinator left off"},
		{"members to take in what others sent them, and to state where they are", "waiting for %s to be ready"},
		{"the member that records to complete the results", "waiting for %s to complete the results"},
		{"the log to take in the end of the job", "about to end"},
		{"nodes to go on with, from the last checkpoint", "waiting for %s to go on with, from the last checkpoint"},
		{"members to read the checkpoint that the job goes on from", "waiting for %s to read the checkpoint that it goes on from"},
		{"what is queued up to be written or sent", "waiting for %s to write or send what is queued up"},
	} {
		if what != p.what {
			continue
		}
		if strings.Contains(p.text, "%s") {
			return fmt.Sprintf(p.text, who)
		}
		return p.text
	}
	if awaited == "" {
		return ""
	}
	return "waiting for " + awaited
}

// lastKnown keeps how far the last job was that was asked for, since a coordinator that has just taken over does
// not know.
type lastKnown struct {
	mu    sync.Mutex
	job   string
	epoch uint64
	p     progress
}

// fill remembers p, or fills in what it lacks.
func (l *lastKnown) fill(job string, epoch uint64, p *progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if job != l.job || epoch != l.epoch {
		l.job, l.epoch, l.p = job, epoch, progress{}
	}
	if p.End == 0 {
		p.Now, p.End = l.p.Now, l.p.End
	}
	p.Events = max(p.Events, l.p.Events)
	l.p = *p
}

// keepReached puts into the end of a job that failed how far it was, so that people find it afterwards.
func (n *Node) keepReached(end *control.End) *control.End {
	if end.Phase != control.Failed {
		return end
	}
	r := &result{}
	if len(end.Result) > 0 && json.Unmarshal(end.Result, r) != nil {
		return end
	}
	p := measure(&n.loop.shown.Load().coord, end.Job)
	if p == nil {
		p = &progress{}
	}
	n.asked.last.fill(end.Job, end.Epoch, p)
	if r.Reached == 0 {
		r.Reached = p.Now
	}
	if r.End == 0 {
		r.End = p.End
	}
	if r.Events == 0 {
		r.Events = p.Events
	}
	if began := n.machine.beganAt(end.Job); r.Wall == 0 && began > 0 {
		r.Wall = max(time.Since(time.UnixMilli(began)), 0)
	}
	data, err := json.Marshal(r)
	if err != nil || len(data) > control.MaxResult {
		return end
	}
	kept := *end
	kept.Result = data
	return &kept
}

// stopText says when a user stopped a run, as exactly as people want to know.
func stopText(at sim.Time) string {
	switch {
	case at >= sim.Time(sim.Hour):
		at -= at % sim.Time(sim.Second)
	case at >= sim.Time(sim.Second):
		at -= at % sim.Time(sim.Millisecond)
	}
	return fmt.Sprintf("stopped by a user at %v", at)
}
