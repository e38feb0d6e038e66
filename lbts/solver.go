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
	pending []int      // channels to the region with batches on the way
	eff     []sim.Time // effective time: the least of next and way
	safe    []sim.Time // a bound computed earlier; the bound now is no less
	given   []sim.Time // largest bound given
	limit   sim.Time   // Cap

	heard   []hearing
	reports uint64 // accepted so far
	tag     uint64

	stamp []uint64 // finds channels named twice in a report
	check uint64
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
	s.next, s.way, s.pending = make([]sim.Time, n), make([]sim.Time, n), make([]int, n)
	s.eff, s.safe, s.given = make([]sim.Time, n), make([]sim.Time, n), make([]sim.Time, n)
	s.heard, s.stamp = make([]hearing, n), make([]uint64, n)
	for i := range s.way {
		s.way[i] = sim.Never
	}
}

// Regions returns the number of regions.
func (s *Solver) Regions() int { return s.n }

// Grant returns how far region i may run. It appends the batches it needs to needs, which the caller
// may pass with room (needs[:0]) so that nothing is allocated. Time is linear in the number of regions.
func (s *Solver) Grant(i int, needs []Need) Grant {
	s.safe[i] = s.bound(i)
	bound := max(s.given[i], min(s.safe[i], s.limit))
	s.given[i] = bound
	if s.pending[i] == 0 {
		return Grant{i, bound, needs}
	}
	for from := range s.n {
		if batch := s.channel[i*s.n+from].needed(bound); batch > 0 {
			needs = append(needs, Need{from, batch})
		}
	}
	return Grant{i, bound, needs}
}

// bound is the least time stamp of anything that can still be sent to region i. It never falls, as
// long as only reports that pass check are applied.
func (s *Solver) bound(i int) sim.Time {
	reach := s.closed.d[i*s.n : (i+1)*s.n]
	eff := s.eff[:len(reach)]
	least := uint64(sim.Never)
	for j, d := range reach {
		// Neither is negative, so the sum of two int64 fits a uint64: it saturates by the minimum.
		least = min(least, uint64(eff[j])+uint64(d))
	}
	return sim.Time(least)
}

// earliest is the least time of anything region i can have done since its last report.
func (s *Solver) earliest(i int) sim.Time {
	if s.eff[i] > s.safe[i] {
		s.safe[i] = s.bound(i)
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
		if p > 0 {
			return false
		}
	}
	return true
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
	} else if closed != nil {
		s.adopt(closed)
	}
	for i := range s.channel {
		s.channel[i].restart()
	}
	s.reports++
	for i, t := range next {
		s.next[i], s.eff[i], s.way[i], s.pending[i] = t, t, sim.Never, 0
		s.safe[i], s.given[i] = cut, cut
		s.heard[i] = hearing{report: s.reports, tag: s.tag}
	}
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
		case s.pending[i] > 0:
			return fmt.Errorf("cut at %v: batches from %d regions are on the way to region %d: wait for them", cut, s.pending[i], i)
		}
	}
	return nil
}
