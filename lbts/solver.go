package lbts

import (
	"fmt"

	"github.com/simnode/simnode/sim"
)

// Sent states what a region sent on one channel since its last report: all batches after the one
// last reported, up to Batch.
type Sent struct {
	To    int
	Batch uint64
	// Least is the least time stamp in what was sent since the last report.
	Least sim.Time
}

// Received states the last batch received on the channel from a region; all earlier ones have
// arrived too. Batch 0 is none.
type Received struct {
	From  int
	Batch uint64
}

// Report is what a region states about itself at one moment.
type Report struct {
	Region int
	// Next is the time of its first event, those of all received batches counted; Never if there
	// is none.
	Next sim.Time
	// Sent and Received hold each channel at most once, in any order; a channel on which nothing
	// happened may be left out. The Solver keeps neither slice.
	Sent     []Sent
	Received []Received
}

// Need is the batch that must have arrived on the channel from a region.
type Need struct {
	From  int
	Batch uint64
}

// Grant allows a region to run every event strictly below Bound once all Needs have arrived.
type Grant struct {
	Region int
	Bound  sim.Time
	Needs  []Need
}

// Solver turns reports into grants.
type Solver struct {
	n       int
	closed  *Matrix
	channel []channel // from one region to another at to*n+from

	next    []sim.Time // first event, as reported or delivered
	way     []sim.Time // least time stamp on the way to the region
	pending [][]int32  // regions with batches on the way to the region, in order
	eff     []sim.Time // effective time: the least of next and way
	safe    []sim.Time // a bound computed earlier; the bound now is no less
	by      []int32    // region that safe rests on, -1 if it was not computed
	given   []sim.Time // largest bound given
	limit   sim.Time   // Cap

	// With one lookahead between all regions, alike, bounds follow from the two least effective times,
	// that of region lead and second. They are found anew when stale.
	alike  bool
	ahead  sim.Duration
	lead   int
	second sim.Time
	stale  bool

	heard   []hearing
	reports uint64 // accepted so far
	tag     uint64

	stamp []uint64 // finds channels named twice in a report
	check uint64
	named []uint64 // finds regions named twice in a frame
	frame uint64
}

// New returns a Solver for the regions of a closed Matrix, which it copies. No region has reported
// yet: each counts as having an event at 0. An unclosed Matrix is an error.
func New(closed *Matrix) (*Solver, error) {
	if err := usable(closed); err != nil {
		return nil, err
	}
	s := &Solver{limit: sim.Never}
	s.adopt(closed)
	return s, nil
}

func usable(m *Matrix) error {
	if m.bad != nil {
		return m.bad
	}
	if !m.closed {
		return fmt.Errorf("lookahead of %d regions is not closed: call Close on it and look at its error first", m.n)
	}
	return nil
}

// adopt makes room for the regions of m, all at time 0.
func (s *Solver) adopt(m *Matrix) {
	n := m.n
	s.n = n
	s.closed = &Matrix{n: n, d: append([]sim.Duration(nil), m.d...), closed: true}
	s.channel = make([]channel, n*n)
	s.next, s.way, s.pending = make([]sim.Time, n), make([]sim.Time, n), make([][]int32, n)
	s.eff, s.safe, s.given = make([]sim.Time, n), make([]sim.Time, n), make([]sim.Time, n)
	s.by = make([]int32, n)
	s.heard, s.stamp, s.named = make([]hearing, n), make([]uint64, n), make([]uint64, n)
	for i := range s.way {
		s.way[i], s.by[i] = sim.Never, -1
	}
	s.compare()
}

// compare finds out whether the lookahead is the same between all regions.
func (s *Solver) compare() {
	s.ahead, s.alike = s.closed.alike()
	s.stale = true
}

// setEffective notes a change of the effective time of region i.
func (s *Solver) setEffective(i int, t sim.Time) {
	if s.eff[i] != t {
		s.eff[i] = t
		s.stale = true
	}
}

// Regions returns the number of regions.
func (s *Solver) Regions() int { return s.n }

// Grant returns how far region i may run. It appends the batches it needs to needs, which the caller
// may pass with room (needs[:0]) so that nothing is allocated. Time is linear in the number of regions.
func (s *Solver) Grant(i int, needs []Need) Grant {
	bound := s.Offer(i)
	s.given[i] = bound
	for _, from := range s.pending[i] {
		if batch := s.channel[i*s.n+int(from)].needed(bound); batch > 0 {
			needs = append(needs, Need{int(from), batch})
		}
	}
	return Grant{i, bound, needs}
}

// Offer returns the bound that Grant would give region i, and gives nothing.
func (s *Solver) Offer(i int) sim.Time { return max(s.given[i], min(s.bound(i), s.limit)) }

// Given returns the largest bound that region i was given.
func (s *Solver) Given(i int) sim.Time { return s.given[i] }

// bound is the least time stamp of anything that can still be sent to region i. It never falls, as
// long as only reports that pass check are applied. So as long as the region that an earlier answer
// rests on stands where it stood, that answer holds: others can only be at it or beyond.
func (s *Solver) bound(i int) sim.Time {
	if s.alike {
		s.safe[i] = s.boundAlike(i)
		return s.safe[i]
	}
	if j := s.by[i]; j >= 0 && s.eff[j].Add(s.closed.d[i*s.n+int(j)]) == s.safe[i] {
		return s.safe[i]
	}
	t, by := boundOf(s.closed, s.eff, i)
	s.safe[i], s.by[i] = t, int32(by)
	return t
}

// boundOf computes a bound from effective times, and names the region that it rests on.
func boundOf(closed *Matrix, eff []sim.Time, i int) (sim.Time, int) {
	reach := closed.d[i*closed.n : (i+1)*closed.n]
	eff = eff[:len(reach)]
	least, by := uint64(sim.Never), -1
	for j, d := range reach {
		// Neither is negative, so the sum of two int64 fits a uint64: it saturates by the minimum.
		if t := uint64(eff[j]) + uint64(d); t < least {
			least, by = t, j
		}
	}
	return sim.Time(least), by
}

// boundAlike is bound where the lookahead is the same between all regions.
func (s *Solver) boundAlike(i int) sim.Time {
	if s.stale {
		s.rank()
	}
	if i != s.lead {
		return s.eff[s.lead].Add(s.ahead)
	}
	return min(s.second.Add(s.ahead), s.eff[i].Add(s.ahead).Add(s.ahead))
}

// rank finds the region with the least effective time, and the least of the others.
func (s *Solver) rank() {
	s.lead, s.second, s.stale = 0, sim.Never, false
	first := s.eff[0]
	for j, t := range s.eff[1:] {
		if t < first {
			s.second, first, s.lead = first, t, j+1
		} else if t < s.second {
			s.second = t
		}
	}
}

// earliest is the least time of anything region i can have done since its last report.
func (s *Solver) earliest(i int) sim.Time {
	if s.eff[i] > s.safe[i] {
		s.bound(i)
	}
	return min(s.eff[i], s.safe[i])
}

// Cap sets the time that no bound may pass from now on: the next cut, the end, a pause. It starts as
// Never and may be raised at any time. Lowering it takes back nothing: a bound beyond t that was
// given stands, though it will not grow. Cap returns the earliest time at which all regions can be
// stopped now: the greatest of t and the bounds given.
func (s *Solver) Cap(t sim.Time) sim.Time {
	s.limit = t
	for _, g := range s.given {
		t = max(t, g)
	}
	return t
}

// Effective returns the least of the next event of region i and the batches on the way to it: 0 until
// it has reported, Never if it has nothing to do.
func (s *Solver) Effective(i int) sim.Time { return s.eff[i] }

// Floor returns the global virtual time: every event below it has run, everywhere. It is Never when
// nothing is left to run.
func (s *Solver) Floor() sim.Time {
	least := sim.Never
	for _, e := range s.eff {
		least = min(least, e)
	}
	return least
}

// Reached reports whether the cut t is reached: every event below t has run and no channel holds one.
func (s *Solver) Reached(t sim.Time) bool { return s.Floor() >= t }

// Drained reports whether every batch stated as sent is stated as received.
func (s *Solver) Drained() bool {
	for _, p := range s.pending {
		if len(p) > 0 {
			return false
		}
	}
	return true
}

// Resume goes on from full reports of all regions, made while nothing was on the way and nobody was
// running: next[i] is the next event of region i, held[i] the largest bound that it was ever given. It is
// how another coordinator takes over. Bounds can only have grown since any of them was given; one that
// the reports contradict is a *Refused, which changes nothing. The cap stays.
//
// Batches may be numbered on from where they were or from 1.
func (s *Solver) Resume(held, next []sim.Time) error {
	if len(held) != s.n || len(next) != s.n {
		return fmt.Errorf("full reports with %d bounds and %d next events for %d regions: give one of each for each", len(held), len(next), s.n)
	}
	for i, t := range held {
		if next[i] < 0 || t < 0 {
			return refuse(i, "next event at %v, bound of %v: no time is before the start", next[i], t)
		}
		if bound, by := boundOf(s.closed, next, i); t > bound {
			return refuse(i, "it was given a bound of %v, but region %d at %v can still reach it at %v: a report is wrong or a batch was left out", t, by, next[by], bound)
		}
	}
	s.restart(next, func(i int) sim.Time { return held[i] })
	return nil
}

// restart sets every region to its next event with empty channels and a bound that was given.
func (s *Solver) restart(next []sim.Time, given func(i int) sim.Time) {
	for i := range s.channel {
		s.channel[i].restart()
	}
	s.reports++
	s.stale = true
	for i, t := range next {
		s.next[i], s.eff[i], s.way[i], s.pending[i] = t, t, sim.Never, s.pending[i][:0]
		s.safe[i], s.given[i], s.by[i] = given(i), given(i), -1
		s.heard[i] = hearing{report: s.reports, tag: s.tag}
	}
}

// Reopen goes on from a cut with entities handed over, another partition or other regions: closed is
// the lookahead from now on (nil for the one so far), next[i] the next event of region i. Batches are
// numbered from 1 again. The cut must be reached, the channels drained and no bound beyond the cut
// given, so that nothing new can lie in anybody's past; otherwise nothing changes and the error says
// what is missing. All regions hold a bound of cut afterwards; the cap stays.
//
// With the same regions, no memory is allocated.
func (s *Solver) Reopen(cut sim.Time, closed *Matrix, next []sim.Time) error {
	if err := s.reopenable(cut, closed, next); err != nil {
		return err
	}
	if closed != nil && closed.n == s.n {
		copy(s.closed.d, closed.d)
		s.compare()
	} else if closed != nil {
		s.adopt(closed)
	}
	s.restart(next, func(int) sim.Time { return cut })
	return nil
}

func (s *Solver) reopenable(cut sim.Time, closed *Matrix, next []sim.Time) error {
	n := s.n
	if closed != nil {
		if err := usable(closed); err != nil {
			return err
		}
		n = closed.n
	}
	if len(next) != n {
		return fmt.Errorf("cut at %v: %d next events for %d regions: give one for each", cut, len(next), n)
	}
	for i, t := range next {
		if t < cut {
			return fmt.Errorf("cut at %v: next event of region %d is at %v, before the cut: it would be in the past of others", cut, i, t)
		}
	}
	for i := range s.n {
		switch {
		case s.given[i] > cut:
			return fmt.Errorf("cut at %v: region %d may run up to %v already: cap the bounds at a later cut and wait for it", cut, i, s.given[i])
		case s.eff[i] < cut:
			return fmt.Errorf("cut at %v is not reached: region %d is at %v", cut, i, s.eff[i])
		case len(s.pending[i]) > 0:
			return fmt.Errorf("cut at %v: batches from %d regions are on the way to region %d: wait for them", cut, len(s.pending[i]), i)
		}
	}
	return nil
}
