package lbts

import (
	"fmt"
	"slices"

	"github.com/simnode/simnode/sim"
)

// Refused is the error of a report or delivery that contradicts what is known: the sender broke the
// protocol or its lookahead. It changed nothing.
type Refused struct {
	// Region that reported.
	Region int
	// Reason says what is wrong and what was expected.
	Reason string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("report of region %d refused: %s", e.Region, e.Reason)
}

func refuse(region int, format string, args ...any) error {
	return &Refused{region, fmt.Sprintf(format, args...)}
}

// Report takes in what a region states. It is refused with a *Refused if a region is out of range, a
// batch number goes back, a channel is named twice, or a time lies before what this region can have
// done: the least of its effective time and its bound, and for what it sent, the lookahead on top.
// Time is linear in the number of regions.
func (s *Solver) Report(r Report) error {
	if err := s.checkReport(r); err != nil {
		return err
	}
	s.apply(r)
	return nil
}

// ReportAll takes in what several regions state of one and the same moment, as a process does for the
// regions that it runs: events that they handed to one another, in memory, are in Next of the receiver
// and in no channel. Each report is held against what was known before all of them, since one region's
// event may have come from another's; if one is refused, none counts. A region that is named twice is
// refused.
func (s *Solver) ReportAll(reports []Report) error {
	s.frame++
	for k := range reports {
		if err := s.checkReport(reports[k]); err != nil {
			return err
		}
		if i := reports[k].Region; s.named[i] == s.frame {
			return refuse(i, "it reports twice in one frame: state all of a moment in one report")
		} else {
			s.named[i] = s.frame
		}
	}
	for k := range reports {
		s.apply(reports[k])
	}
	return nil
}

func (s *Solver) apply(r Report) {
	i := r.Region
	for _, m := range r.Sent {
		s.send(i, m)
	}
	for _, m := range r.Received {
		s.receive(i, m)
	}
	if len(r.Received) > 0 {
		s.survey(i)
	}
	s.next[i] = r.Next
	s.setEffective(i, min(r.Next, s.way[i]))
	s.reports++
	s.heard[i] = hearing{report: s.reports, tag: s.tag}
}

// Deliver states that events of region from, none before least, were put where region to will find
// them: sent and received at once. It is called before the Report of from that covers their sending,
// and nobody is granted anything in between.
func (s *Solver) Deliver(from, to int, least sim.Time) error {
	if from < 0 || from >= s.n {
		return refuse(from, "no such region: regions are 0 to %d", s.n-1)
	}
	if err := s.checkSent(from, s.earliest(from), to, least); err != nil {
		return err
	}
	s.next[to] = min(s.next[to], least)
	s.setEffective(to, min(s.eff[to], least))
	return nil
}

func (s *Solver) send(from int, m Sent) {
	c := &s.channel[m.To*s.n+from]
	before := c.n
	c.send(m.Batch, m.Least)
	if c.n == 0 {
		return
	}
	if before == 0 {
		p := s.pending[m.To]
		k, _ := slices.BinarySearch(p, int32(from))
		s.pending[m.To] = slices.Insert(p, k, int32(from))
	}
	s.way[m.To] = min(s.way[m.To], c.least())
	s.setEffective(m.To, min(s.eff[m.To], s.way[m.To]))
}

func (s *Solver) receive(to int, m Received) {
	c := &s.channel[to*s.n+m.From]
	before := c.n
	c.receive(m.Batch)
	if before > 0 && c.n == 0 {
		p := s.pending[to]
		k, _ := slices.BinarySearch(p, int32(m.From))
		s.pending[to] = slices.Delete(p, k, k+1)
	}
}

// survey finds the least time stamp on the way to a region anew.
func (s *Solver) survey(to int) {
	s.way[to] = sim.Never
	for _, from := range s.pending[to] {
		s.way[to] = min(s.way[to], s.channel[to*s.n+int(from)].least())
	}
}

func (s *Solver) checkReport(r Report) error {
	i := r.Region
	if i < 0 || i >= s.n {
		return refuse(i, "no such region: regions are 0 to %d", s.n-1)
	}
	earliest := s.earliest(i)
	if r.Next < earliest {
		return refuse(i, "next event at %v, but nothing at it can be before %v: others may have run beyond", r.Next, earliest)
	}
	s.check++
	for _, m := range r.Sent {
		if err := s.checkSent(i, earliest, m.To, m.Least); err != nil {
			return err
		}
		if last := s.channel[m.To*s.n+i].sent; m.Batch <= last {
			return refuse(i, "batch %d to region %d, but batch %d was reported already: batches are numbered upwards and reported once", m.Batch, m.To, last)
		}
		if !s.first(m.To) {
			return refuse(i, "batches to region %d stated twice: state the latest batch and the least time of all once", m.To)
		}
	}
	s.check++
	for _, m := range r.Received {
		if err := s.checkReceived(i, m); err != nil {
			return err
		}
	}
	return nil
}

// checkSent refuses what region i, which did nothing before earliest, cannot have sent.
func (s *Solver) checkSent(i int, earliest sim.Time, to int, least sim.Time) error {
	if to < 0 || to >= s.n {
		return refuse(i, "sent to region %d: regions are 0 to %d", to, s.n-1)
	}
	if to == i {
		return refuse(i, "sent to itself: events inside a region are counted in its next event")
	}
	ahead := s.closed.At(i, to)
	if allowed := earliest.Add(ahead); least < allowed {
		return refuse(i, "sent an event for %v to region %d, but from %v on with a lookahead of %v nothing before %v is allowed", least, to, earliest, ahead, allowed)
	}
	return nil
}

func (s *Solver) checkReceived(i int, m Received) error {
	if m.From < 0 || m.From >= s.n {
		return refuse(i, "received from region %d: regions are 0 to %d", m.From, s.n-1)
	}
	if m.From == i {
		return refuse(i, "received from itself: events inside a region are counted in its next event")
	}
	if last := s.channel[i*s.n+m.From].got; m.Batch < last {
		return refuse(i, "received batch %d from region %d as the last, but batch %d was received already", m.Batch, m.From, last)
	}
	if !s.first(m.From) {
		return refuse(i, "batches from region %d stated twice: state the last one received once", m.From)
	}
	return nil
}

// first reports whether region j is named for the first time in this check.
func (s *Solver) first(j int) bool {
	if s.stamp[j] == s.check {
		return false
	}
	s.stamp[j] = s.check
	return true
}
