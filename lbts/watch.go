package lbts

import (
	"fmt"
	"strings"

	"github.com/simnode/simnode/sim"
)

// hearing is when a region last reported; report 0 is never.
type hearing struct {
	report uint64 // counted over all regions
	tag    uint64
}

// Mark stamps the reports that follow with tag. The package has no clock, so a watchdog brings its
// own: a count of rounds or of seconds, never falling.
func (s *Solver) Mark(tag uint64) { s.tag = tag }

// Absence is a region that has not reported for a while.
type Absence struct {
	Region int
	// Heard tells whether it ever reported.
	Heard bool
	// Tag is that of its last report.
	Tag uint64
	// Since is how many reports of others came after its last one.
	Since uint64
}

func (a Absence) String() string {
	if !a.Heard {
		return fmt.Sprintf("region %d never reported; others did %d times", a.Region, a.Since)
	}
	return fmt.Sprintf("region %d last reported at mark %d; others did %d times since", a.Region, a.Tag, a.Since)
}

// Absent lists the regions that have not reported under the mark since or a later one.
func (s *Solver) Absent(since uint64) []Absence {
	var list []Absence
	for i, h := range s.heard {
		if h.report > 0 && h.tag >= since {
			continue
		}
		list = append(list, Absence{Region: i, Heard: h.report > 0, Tag: h.tag, Since: s.reports - h.report})
	}
	return list
}

// Describe tells in text, a line for each region, where it is, what is on the way to it, how far it
// may run, who holds it back and when it last reported: what a watchdog prints when a run stands
// still.
func (s *Solver) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "floor %v, cap %v, %d reports\n", s.Floor(), s.limit, s.reports)
	for i := range s.n {
		fmt.Fprintf(&b, "region %d: next event %v", i, s.next[i])
		s.describeWay(&b, i)
		fmt.Fprintf(&b, ", granted up to %v", s.given[i])
		s.describeHold(&b, i)
		if h := s.heard[i]; h.report == 0 {
			b.WriteString("; never reported\n")
		} else {
			fmt.Fprintf(&b, "; last report at mark %d, %d reports ago\n", h.tag, s.reports-h.report)
		}
	}
	return b.String()
}

func (s *Solver) describeWay(b *strings.Builder, i int) {
	for from := range s.n {
		if c := &s.channel[i*s.n+from]; c.n > 0 {
			fmt.Fprintf(b, ", on the way from region %d for %v up to batch %d (received %d)", from, c.least(), c.at(c.n-1).batch, c.got)
		}
	}
}

// describeHold names what keeps the bound of region i from growing.
func (s *Solver) describeHold(b *strings.Builder, i int) {
	bound := s.bound(i)
	if bound == sim.Never && s.limit == sim.Never {
		return
	}
	if s.limit <= bound {
		fmt.Fprintf(b, ", held by the cap at %v", s.limit)
		return
	}
	for j := range s.n {
		if d := s.closed.At(j, i); s.eff[j].Add(d) == bound {
			fmt.Fprintf(b, ", held by region %d at %v with lookahead %v", j, s.eff[j], d)
			return
		}
	}
}
