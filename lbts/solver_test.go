package lbts

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

// text is the whole of a Solver's state that its answers depend on.
func (s *Solver) text() string {
	var k key
	k.solver(s)
	return fmt.Sprintf("%x %v %d", []byte(k), s.heard, s.reports)
}

// uniform returns a Solver of n regions with the same lookahead between any two.
func uniform(t testing.TB, n int, l sim.Duration) *Solver {
	t.Helper()
	m := NewMatrix(n)
	for i := range n {
		for j := range n {
			if i != j {
				m.Set(i, j, l)
			}
		}
	}
	return solverOf(t, m)
}

func solverOf(t testing.TB, m *Matrix) *Solver {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustReport(t testing.TB, s *Solver, r Report) {
	t.Helper()
	if err := s.Report(r); err != nil {
		t.Fatal(err)
	}
}

func wantBound(t *testing.T, s *Solver, i int, want sim.Time) Grant {
	t.Helper()
	g := s.Grant(i, nil)
	if g.Bound != want || g.Region != i {
		t.Errorf("grant of region %d up to %v, %v expected", g.Region, g.Bound, want)
	}
	return g
}

func TestNothingPassesTheUnheard(t *testing.T) {
	s := uniform(t, 3, 4)
	wantBound(t, s, 0, 4)
	mustReport(t, s, Report{Region: 0, Next: 100})
	mustReport(t, s, Report{Region: 1, Next: 200})
	wantBound(t, s, 0, 4)
	if s.Floor() != 0 || s.Effective(2) != 0 || s.Effective(1) != 200 {
		t.Errorf("floor %v, effective %v %v", s.Floor(), s.Effective(2), s.Effective(1))
	}
	mustReport(t, s, Report{Region: 2, Next: 300})
	wantBound(t, s, 0, 108)
	wantBound(t, s, 1, 104)
}

func TestOneRegionRunsToTheEnd(t *testing.T) {
	s := uniform(t, 1, 0)
	wantBound(t, s, 0, sim.Never)
	s = uniform(t, 1, 0)
	s.Cap(50)
	wantBound(t, s, 0, 50)
	mustReport(t, s, Report{Region: 0, Next: sim.Never})
	if !s.Reached(50) || s.Floor() != sim.Never {
		t.Error("the end is not seen")
	}
}

func TestCap(t *testing.T) {
	s := uniform(t, 2, 10)
	for i := range 2 {
		mustReport(t, s, Report{Region: i, Next: 100})
	}
	if at := s.Cap(105); at != 105 {
		t.Errorf("can stop at %v, want 105", at)
	}
	wantBound(t, s, 0, 105)
	if at := s.Cap(40); at != 105 {
		t.Errorf("lowered to 40: can stop at %v, want 105", at)
	}
	wantBound(t, s, 0, 105) // stands
	wantBound(t, s, 1, 40)  // had none yet
	s.Cap(sim.Never)
	wantBound(t, s, 0, 110)
	wantBound(t, s, 1, 110)
}

func TestNeedsOnlyWhatLiesBelowTheBound(t *testing.T) {
	m := NewMatrix(2)
	m.Set(0, 1, 1)
	s := solverOf(t, m)
	mustReport(t, s, Report{Region: 1, Next: 5})
	mustReport(t, s, Report{Region: 0, Next: 20, Sent: []Sent{{1, 1, 7}}})
	mustReport(t, s, Report{Region: 0, Next: 20, Sent: []Sent{{1, 2, 21}}})
	g := wantBound(t, s, 1, 21)
	if len(g.Needs) != 1 || g.Needs[0] != (Need{0, 1}) {
		t.Errorf("needs %v: batch 2 holds nothing below 21", g.Needs)
	}
	mustReport(t, s, Report{Region: 0, Next: 40})
	g = s.Grant(1, g.Needs[:0])
	if g.Bound != 41 || len(g.Needs) != 1 || g.Needs[0] != (Need{0, 2}) {
		t.Errorf("grant %+v", g)
	}
}

func TestReceivedBeforeReportedAsSent(t *testing.T) {
	s := uniform(t, 2, 1)
	mustReport(t, s, Report{Region: 1, Next: 4, Received: []Received{{0, 2}}})
	mustReport(t, s, Report{Region: 0, Next: 30, Sent: []Sent{{1, 2, 3}}})
	if s.Effective(1) != 4 || !s.Drained() {
		t.Errorf("effective %v, drained %v: batch 2 has arrived", s.Effective(1), s.Drained())
	}
	mustReport(t, s, Report{Region: 0, Next: 50, Sent: []Sent{{1, 4, 33}}})
	mustReport(t, s, Report{Region: 1, Next: sim.Never, Received: []Received{{0, 3}}})
	if s.Effective(1) != 33 || s.Drained() {
		t.Errorf("effective %v, drained %v: of batches 3 and 4 only 3 has arrived", s.Effective(1), s.Drained())
	}
}

func TestRefusedReportsChangeNothing(t *testing.T) {
	m := NewMatrix(3)
	m.Set(0, 1, 5)
	m.Set(1, 0, 5)
	m.Set(1, 2, 5)
	s := solverOf(t, m)
	mustReport(t, s, Report{Region: 0, Next: 10, Sent: []Sent{{1, 3, 6}}})
	mustReport(t, s, Report{Region: 1, Next: 20, Received: []Received{{0, 2}}})
	mustReport(t, s, Report{Region: 2, Next: 8})
	wantBound(t, s, 0, 11)
	ok := []Sent{{1, 4, 15}}
	cases := []struct {
		name string
		r    Report
		want string
	}{
		{"region too large", Report{Region: 3}, "no such region: regions are 0 to 2"},
		{"region negative", Report{Region: -1}, "no such region"},
		{"time before", Report{Region: 0, Next: 9, Sent: ok}, "next event at 9ns, but nothing at it can be before 10ns"},
		{"time negative", Report{Region: 0, Next: -9}, "next event"},
		{"lookahead", Report{Region: 0, Next: 10, Sent: []Sent{{1, 4, 14}}}, "nothing before 15ns is allowed"},
		{"no channel", Report{Region: 0, Next: 10, Sent: []Sent{{1, 4, 15}, {2, 1, 19}}}, "nothing before 20ns is allowed"},
		{"sent batch again", Report{Region: 0, Next: 10, Sent: []Sent{{1, 3, 15}}}, "batch 3 was reported already"},
		{"sent batch back", Report{Region: 0, Next: 10, Sent: []Sent{{1, 2, 15}}}, "batch 3 was reported already"},
		{"sent batch 0", Report{Region: 1, Next: 10, Sent: []Sent{{2, 0, 15}}}, "batch 0 was reported already"},
		{"sent twice", Report{Region: 0, Next: 10, Sent: []Sent{{1, 4, 15}, {1, 5, 15}}}, "stated twice"},
		{"sent to nobody", Report{Region: 0, Next: 10, Sent: []Sent{{3, 4, 15}}}, "sent to region 3: regions are 0 to 2"},
		{"sent to itself", Report{Region: 0, Next: 10, Sent: []Sent{{0, 4, 15}}}, "sent to itself"},
		{"received back", Report{Region: 1, Next: 20, Sent: []Sent{{2, 1, 40}}, Received: []Received{{0, 1}}}, "batch 2 was received already"},
		{"received twice", Report{Region: 1, Next: 20, Received: []Received{{0, 2}, {0, 3}}}, "stated twice"},
		{"received from nobody", Report{Region: 1, Next: 20, Received: []Received{{-1, 3}}}, "received from region -1"},
		{"received from itself", Report{Region: 1, Next: 20, Received: []Received{{1, 3}}}, "received from itself"},
	}
	for _, c := range cases {
		before := s.text()
		err := s.Report(c.r)
		refused, ok := err.(*Refused)
		if !ok || refused.Region != c.r.Region || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v", c.name, err)
		}
		if s.text() != before {
			t.Errorf("%s: a refused report changed the state", c.name)
		}
	}
}

func TestDeliver(t *testing.T) {
	s := uniform(t, 3, 5)
	if err := s.Reopen(0, nil, []sim.Time{10, 40, 50}); err != nil {
		t.Fatal(err)
	}
	wantBound(t, s, 1, 15)
	for _, c := range []struct {
		from, to int
		least    sim.Time
	}{{0, 1, 14}, {0, 0, 20}, {0, 3, 20}, {0, -1, 20}, {3, 0, 20}, {-1, 0, 20}, {1, 2, 19}} {
		before := s.text()
		if err := s.Deliver(c.from, c.to, c.least); err == nil || s.text() != before {
			t.Errorf("delivery %+v: error %v", c, err)
		}
	}
	if err := s.Deliver(0, 1, 16); err != nil {
		t.Fatal(err)
	}
	mustReport(t, s, Report{Region: 0, Next: 100})
	if !strings.Contains(s.Describe(), "region 1: next event 16ns") {
		t.Error(s.Describe())
	}
	if s.Effective(1) != 16 {
		t.Errorf("effective %v, 16 was delivered", s.Effective(1))
	}
	wantBound(t, s, 0, 21)
	wantBound(t, s, 1, 26)
	wantBound(t, s, 2, 21)
	if err := s.Report(Report{Region: 2, Next: 20}); err == nil {
		t.Error("region 2 reports 20 although nothing below 21 could reach it")
	}
}

// TestBoundEqualsDefinition compares each answer to the definition, computed from a plain record of
// all batches ever reported.
func TestBoundEqualsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		m := drawMatrix(t, n)
		if m.Close() != nil {
			t.Skip("cycle of lookahead 0")
		}
		s := must(New(m))
		o := newRecord(n)
		given := make([]sim.Time, n)
		for range rapid.IntRange(1, 40).Draw(t, "reports") {
			r := o.draw(t)
			if s.Report(r) == nil {
				o.apply(r)
			}
			for i := range n {
				bound := o.bound(m, i)
				if bound < given[i] {
					t.Fatalf("bound of %d fell from %d to %d on an accepted report", i, given[i], bound)
				}
				given[i] = bound
				g := s.Grant(i, nil)
				if g.Bound != bound || s.Effective(i) != o.effective(i) {
					t.Fatalf("region %d: bound %d, effective %d; definition %d, %d", i, g.Bound, s.Effective(i), bound, o.effective(i))
				}
				if got, want := fmt.Sprint(g.Needs), fmt.Sprint(o.needs(i, bound)); got != want {
					t.Fatalf("region %d up to %d: needs %s, definition %s", i, bound, got, want)
				}
			}
		}
	})
}

// record holds what was reported, without any thrift.
type record struct {
	n         int
	next      []sim.Time
	sent, got [][]uint64
	flights   [][][]flight
}

func newRecord(n int) *record {
	o := &record{n: n, next: make([]sim.Time, n)}
	for range n {
		o.sent, o.got = append(o.sent, make([]uint64, n)), append(o.got, make([]uint64, n))
		o.flights = append(o.flights, make([][]flight, n))
	}
	return o
}

func (o *record) draw(t *rapid.T) Report {
	when := rapid.Map(rapid.Int64Range(0, 200), func(x int64) sim.Time { return sim.Time(x) })
	r := Report{Region: rapid.IntRange(0, o.n-1).Draw(t, "region"), Next: when.Draw(t, "next")}
	for j := range o.n {
		if j == r.Region {
			continue
		}
		if rapid.Bool().Draw(t, "sends") {
			batch := o.sent[r.Region][j] + uint64(rapid.IntRange(1, 2).Draw(t, "batches"))
			r.Sent = append(r.Sent, Sent{j, batch, r.Next.Add(sim.Duration(rapid.IntRange(0, 40).Draw(t, "least")))})
		}
		if rapid.Bool().Draw(t, "receives") {
			r.Received = append(r.Received, Received{j, o.got[j][r.Region] + uint64(rapid.IntRange(0, 2).Draw(t, "got"))})
		}
	}
	return r
}

func (o *record) apply(r Report) {
	o.next[r.Region] = r.Next
	for _, m := range r.Sent {
		o.sent[r.Region][m.To] = m.Batch
		o.flights[r.Region][m.To] = append(o.flights[r.Region][m.To], flight{m.Batch, m.Least})
	}
	for _, m := range r.Received {
		o.got[m.From][r.Region] = m.Batch
	}
}

func (o *record) effective(i int) sim.Time {
	e := o.next[i]
	for from := range o.n {
		for _, f := range o.flights[from][i] {
			if f.batch > o.got[from][i] {
				e = min(e, f.least)
			}
		}
	}
	return e
}

func (o *record) bound(m *Matrix, i int) sim.Time {
	b := sim.Never
	for j := range o.n {
		b = min(b, o.effective(j).Add(m.At(j, i)))
	}
	return b
}

func (o *record) needs(i int, bound sim.Time) []Need {
	var list []Need
	for from := range o.n {
		last := uint64(0)
		for _, f := range o.flights[from][i] {
			if f.batch > o.got[from][i] && f.least < bound {
				last = f.batch
			}
		}
		if last > 0 {
			list = append(list, Need{from, last})
		}
	}
	return list
}

func TestReopenRefusals(t *testing.T) {
	base := func() *Solver {
		s := uniform(t, 2, 5)
		s.Cap(10)
		mustReport(t, s, Report{Region: 0, Next: 12, Sent: []Sent{{1, 1, 11}}})
		mustReport(t, s, Report{Region: 1, Next: 13, Received: []Received{{0, 1}}})
		wantBound(t, s, 0, 10)
		return s
	}
	zero := NewMatrix(2)
	cases := []struct {
		name   string
		before func(s *Solver)
		cut    sim.Time
		m      *Matrix
		next   []sim.Time
		want   string
	}{
		{"next too few", nil, 10, nil, []sim.Time{12}, "1 next events for 2 regions"},
		{"next before", nil, 10, nil, []sim.Time{12, 9}, "next event of region 1 is at 9ns"},
		{"open matrix", nil, 10, zero, []sim.Time{12, 12}, "not closed"},
		{"bound beyond", nil, 9, nil, []sim.Time{12, 12}, "may run up to 10ns already"},
		{"not reached", nil, 13, nil, []sim.Time{13, 13}, "not reached: region 0 is at 12ns"},
		{"on the way", func(s *Solver) {
			mustReport(t, s, Report{Region: 0, Next: 14, Sent: []Sent{{1, 2, 17}}})
		}, 10, nil, []sim.Time{12, 12}, "on the way to region 1"},
	}
	for _, c := range cases {
		s := base()
		if c.before != nil {
			c.before(s)
		}
		before := s.text()
		if err := s.Reopen(c.cut, c.m, c.next); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v", c.name, err)
		}
		if s.text() != before {
			t.Errorf("%s: a refused Reopen changed the state", c.name)
		}
	}
	s := base()
	if err := s.Reopen(10, nil, []sim.Time{12, 11}); err != nil {
		t.Fatal(err)
	}
	mustReport(t, s, Report{Region: 0, Next: 14, Sent: []Sent{{1, 1, 17}}}) // numbered anew
}

// TestReopenForgetsOldBounds hands an early event over at a cut: what was impossible before is not now.
func TestReopenForgetsOldBounds(t *testing.T) {
	s := uniform(t, 2, 5)
	s.Cap(10)
	mustReport(t, s, Report{Region: 0, Next: 100})
	mustReport(t, s, Report{Region: 1, Next: 100})
	wantBound(t, s, 0, 10)
	if err := s.Reopen(10, nil, []sim.Time{100, 12}); err != nil {
		t.Fatal(err)
	}
	s.Cap(sim.Never)
	wantBound(t, s, 1, 22)
	// Region 1 ran the event at 12 and sent, region 0 has it and reports first.
	mustReport(t, s, Report{Region: 0, Next: 17, Received: []Received{{1, 1}}})
	mustReport(t, s, Report{Region: 1, Next: sim.Never, Sent: []Sent{{0, 1, 17}}})
	wantBound(t, s, 0, 27)
	wantBound(t, s, 1, 22)
}

func TestDescribe(t *testing.T) {
	s := uniform(t, 3, 5)
	s.Mark(7)
	mustReport(t, s, Report{Region: 0, Next: 10, Sent: []Sent{{1, 2, 9}}})
	mustReport(t, s, Report{Region: 1, Next: 20})
	s.Grant(0, nil)
	text := s.Describe()
	for _, want := range []string{
		"floor 0s, cap never, 2 reports\n",
		"region 0: next event 10ns, granted up to 5ns, held by region 2 at 0s with lookahead 5ns; last report at mark 7, 1 reports ago\n",
		"region 1: next event 20ns, on the way from region 0 for 9ns up to batch 2 (received 0), granted up to 0s, held by region 2",
		"region 2: next event 0s, granted up to 0s, held by region 2 at 0s with lookahead 10ns; never reported\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	s.Cap(3)
	if text := s.Describe(); !strings.Contains(text, "held by the cap at 3ns") {
		t.Error(text)
	}
}

func TestNoAllocation(t *testing.T) {
	s, w := ready(t, 16), rand.New(rand.NewPCG(1, 2))
	needs := make([]Need, 0, 16)
	if n := testing.AllocsPerRun(500, func() { exchangeOnce(t, s, w, needs) }); n > 0 {
		t.Errorf("shared memory: %v allocations per exchange", n)
	}
	m := uniform(t, 2, 5)
	sent, got := make([]Sent, 1), make([]Received, 1)
	now, number := sim.Time(0), uint64(0)
	travel := func() {
		now, number = now+5, number+1
		sent[0], got[0] = Sent{1, number, now + 5}, Received{0, number}
		mustReport(t, m, Report{Region: 0, Next: now, Sent: sent})
		needs = m.Grant(1, needs[:0]).Needs
		mustReport(t, m, Report{Region: 1, Next: now, Received: got})
		m.Grant(0, needs[:0])
	}
	if n := testing.AllocsPerRun(500, travel); n > 0 {
		t.Errorf("batches that travel: %v allocations per round", n)
	}
	next := []sim.Time{now, now}
	cut := func() {
		at := m.Cap(next[0] + 1)
		next[0], next[1] = at, at
		mustReport(t, m, Report{Region: 0, Next: at})
		mustReport(t, m, Report{Region: 1, Next: at})
		if err := m.Reopen(at, nil, next); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, cut); n > 0 {
		t.Errorf("cut: %v allocations", n)
	}
}

// FuzzReport hands in reports made of arbitrary bytes: no panic, a refusal changes nothing, bounds
// never go back and are those of the definition.
func FuzzReport(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 10, 1, 1, 1, 12, 0, 1, 3, 1, 0, 1})
	f.Add([]byte{2, 255, 3, 0, 1, 1, 1, 1, 1, 2, 1, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		const n = 3
		s := uniform(t, n, 2)
		given := make([]sim.Time, n)
		for k := 0; len(data) > 0 && k < 100; k++ {
			var r Report
			r, data = decodeReport(data)
			before := s.text()
			if s.Report(r) != nil && s.text() != before {
				t.Fatalf("refused report %+v changed the state", r)
			}
			for i := range n {
				g := s.Grant(i, nil)
				if g.Bound < given[i] || g.Bound < s.Floor() || s.bound(i) < given[i] {
					t.Fatalf("after %+v: bound of %d went from %d to %d, floor %d", r, i, given[i], g.Bound, s.Floor())
				}
				given[i] = g.Bound
			}
			if s.Describe() == "" {
				t.Fatal("no description")
			}
		}
	})
}

// decodeReport makes a report of the front of data: small numbers, as they clash most.
func decodeReport(data []byte) (Report, []byte) {
	take := func() int {
		v, n := binary.Varint(data)
		if n <= 0 {
			data = nil
			return 0
		}
		data = data[n:]
		return int(v)
	}
	r := Report{Region: take(), Next: sim.Time(take())}
	for range min(4, take()) {
		r.Sent = append(r.Sent, Sent{take(), uint64(take()), sim.Time(take())})
	}
	for range min(4, take()) {
		r.Received = append(r.Received, Received{take(), uint64(take())})
	}
	return r, data
}

// ready returns a Solver of n regions in the middle of a run.
func ready(t testing.TB, n int) *Solver {
	s := uniform(t, n, 1000)
	next := make([]sim.Time, n)
	for i := range next {
		next[i] = sim.Time(i)
	}
	if err := s.Reopen(0, nil, next); err != nil {
		t.Fatal(err)
	}
	return s
}

// exchangeOnce is one critical section: the region that is furthest behind ran up to its bound, has
// events for two others, reports and gets its next grant.
func exchangeOnce(t testing.TB, s *Solver, r *rand.Rand, needs []Need) {
	n, i := s.Regions(), 0
	for j := range n {
		if s.Effective(j) < s.Effective(i) {
			i = j
		}
	}
	ran := s.Effective(i)
	for range 2 {
		if j := r.IntN(n); j != i {
			if err := s.Deliver(i, j, ran+1000+sim.Time(r.IntN(500))); err != nil {
				t.Fatal(err)
			}
		}
	}
	bound := s.Grant(i, needs[:0]).Bound
	mustReport(t, s, Report{Region: i, Next: max(ran, bound) + sim.Time(r.IntN(1000))})
	s.Grant(i, needs[:0])
}

// BenchmarkReportGrant measures one critical section of regions that share memory: two deliveries,
// a report and two grants.
func BenchmarkReportGrant(b *testing.B) {
	for _, n := range []int{2, 16, 64} {
		b.Run(fmt.Sprintf("regions=%d", n), func(b *testing.B) {
			s, r := ready(b, n), rand.New(rand.NewPCG(1, 2))
			needs := make([]Need, 0, n)
			b.ReportAllocs()
			for b.Loop() {
				exchangeOnce(b, s, r, needs)
			}
		})
	}
}
