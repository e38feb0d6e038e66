package lbts

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
)

// The tests of this file are known ways in which conservative time management goes wrong, each with
// an input and the right answer.

// chain is region 0 to 1 to 2, lookahead 1 and 5.
func chain(t *testing.T) *Solver {
	m := NewMatrix(3)
	m.Set(0, 1, 1)
	m.Set(1, 2, 5)
	return solverOf(t, m)
}

// A message is on the way while its sender already reports a later time.
func TestCase01TransientMessage(t *testing.T) {
	s := chain(t)
	mustReport(t, s, Report{Region: 1, Next: sim.Never})
	mustReport(t, s, Report{Region: 2, Next: sim.Never})
	mustReport(t, s, Report{Region: 0, Next: 101, Sent: []Sent{{1, 1, 1}}})
	wantBound(t, s, 2, 1+5)
	g := wantBound(t, s, 1, 101+1)
	if !slices.Equal(g.Needs, []Need{{0, 1}}) {
		t.Errorf("needs %v: batch 1 from region 0 is on the way", g.Needs)
	}
	if s.Floor() != 1 || s.Reached(2) {
		t.Errorf("floor %v with a message for 1 on the way", s.Floor())
	}
	mustReport(t, s, Report{Region: 1, Next: 1, Received: []Received{{0, 1}}})
	wantBound(t, s, 2, 1+5)
	mustReport(t, s, Report{Region: 1, Next: sim.Never})
	wantBound(t, s, 2, 101+6)
}

// Reports are taken at different moments.
func TestCase02ReportsAtDifferentMoments(t *testing.T) {
	m := NewMatrix(3)
	m.Set(0, 2, 1)
	m.Set(1, 0, 1)
	s := solverOf(t, m)
	mustReport(t, s, Report{Region: 2, Next: sim.Never})
	mustReport(t, s, Report{Region: 0, Next: 10})
	mustReport(t, s, Report{Region: 1, Next: 20, Sent: []Sent{{0, 1, 6}}})
	if s.Effective(0) != 6 || s.Floor() != 6 {
		t.Errorf("effective %v, floor %v: the message for 6 is forgotten", s.Effective(0), s.Floor())
	}
	wantBound(t, s, 2, 7)
	if g := wantBound(t, s, 0, 21); !slices.Equal(g.Needs, []Need{{1, 1}}) {
		t.Errorf("needs %v", g.Needs)
	}
}

// A participant is silent: it is named. One that has nothing to do but says so holds nobody back.
func TestCase03IdleParticipant(t *testing.T) {
	s := uniform(t, 3, 5)
	for round := uint64(1); round <= 4; round++ {
		s.Mark(round)
		mustReport(t, s, Report{Region: 0, Next: 100})
		mustReport(t, s, Report{Region: 1, Next: 200})
		if round == 1 {
			mustReport(t, s, Report{Region: 2, Next: 7})
		}
	}
	if list := s.Absent(1); len(list) != 0 {
		t.Errorf("absent since 1: %v", list)
	}
	list := s.Absent(3)
	if len(list) != 1 || list[0] != (Absence{Region: 2, Heard: true, Tag: 1, Since: 6}) {
		t.Fatalf("absent since 3: %v, region 2 expected", list)
	}
	if got := list[0].String(); got != "region 2 last reported at mark 1; others did 6 times since" {
		t.Error(got)
	}
	if text := s.Describe(); !strings.Contains(text, "held by region 2 at 7ns") || !strings.Contains(text, "last report at mark 1, 6 reports ago") {
		t.Error(text)
	}

	silent := uniform(t, 2, 5)
	mustReport(t, silent, Report{Region: 0, Next: 1})
	if list := silent.Absent(0); len(list) != 1 || list[0].String() != "region 1 never reported; others did 1 times" {
		t.Errorf("absent: %v", list)
	}

	idle := uniform(t, 3, 5)
	queues := [][]sim.Time{{10, 20}, {15, 16}, {}}
	if rounds := runRounds(t, idle, queues); rounds > 20 {
		t.Errorf("%d rounds with an empty region", rounds)
	}
}

// runRounds runs queues of events that affect nobody, in rounds of a report and a grant for each
// region, and returns how many rounds it took until the floor was Never.
func runRounds(t *testing.T, s *Solver, queues [][]sim.Time) int {
	t.Helper()
	for round := 1; round <= 1000; round++ {
		for i, q := range queues {
			mustReport(t, s, Report{Region: i, Next: append(slices.Clone(q), sim.Never)[0]})
		}
		if s.Floor() == sim.Never {
			return round - 1
		}
		for i := range queues {
			bound := s.Grant(i, nil).Bound
			for len(queues[i]) > 0 && queues[i][0] < bound {
				queues[i] = queues[i][1:]
			}
		}
	}
	t.Fatalf("no end after 1000 rounds\n%s", s.Describe())
	return 0
}

// A cycle of lookahead zero is refused with its regions named; within one region it is welcome.
func TestCase04ZeroLookaheadCycle(t *testing.T) {
	m := NewMatrix(2)
	m.Set(0, 1, 0)
	m.Set(1, 0, 0)
	var zero *ZeroCycle
	if err := m.Close(); !errors.As(err, &zero) || !slices.Equal(zero.Regions, []int{0, 1}) {
		t.Fatalf("error %v, a cycle of 0 and 1 expected", err)
	} else if !strings.Contains(err.Error(), "cycle of regions 0 to 1 to 0") {
		t.Error(err)
	}
	if _, err := New(m); err == nil {
		t.Error("New accepted what Close refused")
	}

	long := NewMatrix(5)
	for _, way := range [][2]int{{1, 4}, {4, 2}, {2, 1}, {0, 1}, {2, 3}} {
		long.Set(way[0], way[1], 0)
	}
	if err := long.Close(); !errors.As(err, &zero) || !slices.Equal(zero.Regions, []int{1, 4, 2}) {
		t.Errorf("error %v, a cycle of 1, 4, 2 expected", err)
	}

	s := uniform(t, 1, 0)
	mustReport(t, s, Report{Region: 0, Next: 5})
	bound := s.Grant(0, nil).Bound
	ran, queue := []sim.Time{}, []sim.Time{5}
	for len(queue) > 0 && queue[0] < bound && len(ran) < 100 {
		ran, queue = append(ran, queue[0]), queue[1:]
		if len(ran) < 6 { // there and back, three times
			queue = append(queue, 5)
		}
	}
	if !slices.Equal(ran, []sim.Time{5, 5, 5, 5, 5, 5}) {
		t.Errorf("ran events at %v", ran)
	}
}

// An event at the bound itself does not run: one of higher priority may still come.
func TestCase05Equality(t *testing.T) {
	m := NewMatrix(2)
	m.Set(0, 1, 2)
	s := solverOf(t, m)
	local := event{at: 10, prio: 3, src: 1, dst: 1}
	queue := []event{local}
	mustReport(t, s, Report{Region: 1, Next: 10})
	mustReport(t, s, Report{Region: 0, Next: 8})
	if g := wantBound(t, s, 1, 10); queue[0].at < g.Bound {
		t.Fatal("the event at 10 would run")
	}
	queue = insert(queue, event{at: 10, prio: 1, src: 0, dst: 1})
	mustReport(t, s, Report{Region: 0, Next: 30, Sent: []Sent{{1, 1, 10}}})
	if g := wantBound(t, s, 1, 32); !slices.Equal(g.Needs, []Need{{0, 1}}) {
		t.Errorf("needs %v", g.Needs)
	}
	if queue[0].prio != 1 || queue[1] != local {
		t.Errorf("order %v", queue)
	}
}

// Bounds come from event times, so that nobody creeps by the lookahead.
func TestCase06TimeCreep(t *testing.T) {
	s := uniform(t, 2, sim.Millisecond)
	at := func(seconds float64) sim.Time { return sim.Time(sim.FromSeconds(seconds)) }
	if rounds := runRounds(t, s, [][]sim.Time{{at(1000)}, {at(1_000_000)}}); rounds > 10 {
		t.Errorf("%d rounds, at most 10 expected", rounds)
	}
}

// A ring with empty channels neither stops nor creeps.
func TestCase07Ring(t *testing.T) {
	m := NewMatrix(3)
	for i := range 3 {
		m.Set(i, (i+1)%3, 2)
	}
	s := solverOf(t, m)
	if rounds := runRounds(t, s, [][]sim.Time{{10}, {20}, {30}}); rounds > 3 {
		t.Errorf("%d rounds, at most 3 expected", rounds)
	}
	if m.At(0, 0) != 6 || m.At(0, 2) != 4 {
		t.Errorf("closure: cycle %v, two steps %v", m.At(0, 0), m.At(0, 2))
	}
}

// Whole ticks neither drift nor absorb.
func TestCase08WholeTicks(t *testing.T) {
	l, err := sim.ParseDuration("0.02 s")
	if err != nil {
		t.Fatal(err)
	}
	s := uniform(t, 2, l)
	now := sim.Time(0)
	const rounds = 43_200
	for range rounds {
		mustReport(t, s, Report{Region: 0, Next: now})
		mustReport(t, s, Report{Region: 1, Next: now})
		now = s.Grant(0, nil).Bound
	}
	if want := sim.Time(864 * sim.Second); now != want {
		t.Errorf("after %d steps of 0.02 s: %v, want %v", rounds, now, want)
	}
	if l.Mul(4_320_000) != sim.Day {
		t.Errorf("0.02 s x 4,320,000 is %v", l.Mul(4_320_000))
	}
	if hz := sim.FromSeconds(1. / 128); hz != 7_812_500 {
		t.Errorf("128 Hz is %d ns", hz)
	}
	tenth, sum := sim.FromSeconds(0.1), sim.Duration(0)
	for range 10 {
		sum = sum.Add(tenth)
	}
	if sum != sim.Second {
		t.Errorf("ten times 0.1 s is %v", sum)
	}
	// Less than a tick of lookahead is none, and a cycle of none is refused.
	tiny := Spatial(2, sim.FromSeconds(0.4e-9), func(i, j int) float64 { return 0 }, 1, 0, 1)
	var zero *ZeroCycle
	if err := tiny.Close(); !errors.As(err, &zero) {
		t.Errorf("lookahead below a tick: error %v", err)
	}
}

// Sums near the end of time stay there.
func TestCase09Overflow(t *testing.T) {
	m := NewMatrix(3)
	m.Set(0, 1, sim.Forever-3)
	m.Set(1, 0, sim.Forever-3)
	m.Set(1, 2, 7)
	s := solverOf(t, m)
	if m.At(0, 2) != sim.Forever || m.At(0, 0) != sim.Forever {
		t.Errorf("closure %v, %v", m.At(0, 2), m.At(0, 0))
	}
	mustReport(t, s, Report{Region: 0, Next: 2})
	mustReport(t, s, Report{Region: 1, Next: sim.Never - 5})
	mustReport(t, s, Report{Region: 2, Next: sim.Never})
	wantBound(t, s, 0, sim.Never)
	wantBound(t, s, 1, sim.Never-1)
	wantBound(t, s, 2, sim.Never)
	mustReport(t, s, Report{Region: 0, Next: sim.Never})
	wantBound(t, s, 1, sim.Never)
}

// Many events at one time run in the order of their key on any number of regions.
func TestCase10SimultaneousEvents(t *testing.T) {
	const count = 8
	r := rand.New(rand.NewPCG(10, 10))
	m := &model{seed: 10, look: make([][]sim.Duration, count)}
	for a := range m.look {
		m.look[a] = slices.Repeat([]sim.Duration{3}, count)
	}
	for k := range uint64(1000) {
		m.first = append(m.first, event{at: 5, prio: uint8(r.IntN(5)), src: r.IntN(count), dst: r.IntN(count), seq: k, hops: 1})
	}
	want := m.sequential()
	for _, n := range []int{1, 2, 4, 8} {
		for _, shared := range []bool{false, true} {
			r.Shuffle(len(m.first), func(i, j int) { m.first[i], m.first[j] = m.first[j], m.first[i] })
			place := make([]int, count)
			for e := range place {
				place[e] = e % n
			}
			w := newWorld(m, place, n, none)
			w.shared = shared
			if wrong := w.play(r.IntN); wrong != "" {
				t.Errorf("%d regions, shared %v: %s", n, shared, wrong)
			}
			if !slices.Equal(w.ents, want) {
				t.Errorf("%d regions, shared %v: digests differ", n, shared)
			}
		}
	}
}

// Who joins does so at a cut that all have reached and nobody has passed.
func TestCase11Join(t *testing.T) {
	s := uniform(t, 2, 5)
	mustReport(t, s, Report{Region: 0, Next: 30})
	mustReport(t, s, Report{Region: 1, Next: 29})
	wantBound(t, s, 0, 34)
	wantBound(t, s, 1, 35)

	three := NewMatrix(3)
	for i := range 3 {
		for j := range 3 {
			if i != j {
				three.Set(i, j, 5)
			}
		}
	}
	if err := three.Close(); err != nil {
		t.Fatal(err)
	}
	err := s.Reopen(11, three, []sim.Time{30, 29, 11})
	if err == nil || !strings.Contains(err.Error(), "region 0 may run up to 34ns already") {
		t.Fatalf("joined at 11 while others may run up to 34: %v", err)
	}
	cut := s.Cap(11)
	if cut != 35 {
		t.Fatalf("the first cut that can be is %v, want 35", cut)
	}
	if s.Cap(cut); s.Reached(cut) {
		t.Error("cut reached before anybody ran")
	}
	wantBound(t, s, 0, 34)
	mustReport(t, s, Report{Region: 0, Next: 36})
	mustReport(t, s, Report{Region: 1, Next: 50})
	if !s.Reached(cut) {
		t.Fatal("cut not reached")
	}
	if err := s.Reopen(cut, three, []sim.Time{36, 50, 35}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		wantBound(t, s, i, 35) // the cap still holds
	}
	s.Cap(sim.Never)
	wantBound(t, s, 0, 40)
	wantBound(t, s, 1, 40)
	wantBound(t, s, 2, 41)
}

// An entity moves at a cut with its pending events; they run once, on the new owner.
func TestCase13Migration(t *testing.T) {
	s := uniform(t, 2, 5)
	s.Cap(4)
	mustReport(t, s, Report{Region: 0, Next: 3, Sent: []Sent{{1, 1, 7}}})
	mustReport(t, s, Report{Region: 1, Next: 20})
	wantBound(t, s, 0, 4)
	wantBound(t, s, 1, 4)
	if err := s.Reopen(4, nil, []sim.Time{6, 7}); err == nil || !strings.Contains(err.Error(), "not reached: region 0 is at 3ns") {
		t.Errorf("moved before the cut: %v", err)
	}
	mustReport(t, s, Report{Region: 0, Next: 6})
	if err := s.Reopen(4, nil, []sim.Time{sim.Never, 6}); err == nil || !strings.Contains(err.Error(), "on the way to region 1") {
		t.Errorf("moved while a channel holds a batch: %v", err)
	}
	mustReport(t, s, Report{Region: 1, Next: 7, Received: []Received{{0, 1}}})
	if err := s.Reopen(4, nil, []sim.Time{sim.Never, 6}); err != nil {
		t.Fatal(err)
	}
	s.Cap(sim.Never)
	wantBound(t, s, 0, 11)
	wantBound(t, s, 1, 16)
	mustReport(t, s, Report{Region: 1, Next: 7}) // ran the event at 6
	if s.Effective(0) != sim.Never || s.Floor() != 7 {
		t.Errorf("the old owner still has something at %v", s.Effective(0))
	}
}

// What is on the way over a cut belongs to the cut: a restored run delivers it once.
func TestCase14CheckpointCut(t *testing.T) {
	s := uniform(t, 2, 3)
	s.Cap(10)
	mustReport(t, s, Report{Region: 0, Next: 15, Sent: []Sent{{1, 1, 12}}}) // sent at 9 for 12
	mustReport(t, s, Report{Region: 1, Next: 14})
	if !s.Reached(10) || s.Drained() {
		t.Fatalf("reached %v, drained %v: the message for 12 lies beyond the cut, on the way", s.Reached(10), s.Drained())
	}
	mustReport(t, s, Report{Region: 1, Next: 12, Received: []Received{{0, 1}}})
	wantBound(t, s, 1, 10)

	next := []sim.Time{15, 12} // what a checkpoint at 10 holds
	restored := uniform(t, 2, 3)
	for i, at := range next {
		mustReport(t, restored, Report{Region: i, Next: at})
	}
	if err := s.Reopen(10, nil, next); err != nil {
		t.Fatal(err)
	}
	s.Cap(sim.Never)
	for i, want := range []sim.Time{15, 18} {
		for _, run := range []*Solver{s, restored} {
			if g := wantBound(t, run, i, want); len(g.Needs) > 0 {
				t.Errorf("region %d waits for %v: all that was on the way is in the checkpoint", i, g.Needs)
			}
		}
	}
}

// A new coordinator, told everything once by each region, gives no less than the old one.
func TestCase15CoordinatorChanges(t *testing.T) {
	s := chain(t)
	mustReport(t, s, Report{Region: 1, Next: 40})
	mustReport(t, s, Report{Region: 2, Next: 50})
	mustReport(t, s, Report{Region: 0, Next: 30, Sent: []Sent{{1, 1, 8}}})
	mustReport(t, s, Report{Region: 1, Next: 8, Received: []Received{{0, 1}}})
	mustReport(t, s, Report{Region: 0, Next: 45, Sent: []Sent{{1, 3, 32}}})

	fresh := chain(t)
	// Region 0 does not know what has arrived: it states all that it ever sent.
	mustReport(t, fresh, Report{Region: 0, Next: 45, Sent: []Sent{{1, 3, 8}}})
	wantBound(t, fresh, 1, 46)
	wantBound(t, fresh, 2, 5)
	mustReport(t, fresh, Report{Region: 2, Next: 50})
	mustReport(t, fresh, Report{Region: 1, Next: 8, Received: []Received{{0, 1}}})
	for i := range 3 {
		old, now := s.Grant(i, nil), fresh.Grant(i, nil)
		if now.Bound < old.Bound || !slices.Equal(now.Needs, old.Needs) {
			t.Errorf("region %d: %+v from the new coordinator, %+v from the old one", i, now, old)
		}
	}
}
