package node_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// fault is something that a model may do wrong, written on one line.
type fault struct {
	line int
	name string
	do   func(c *sim.Context, s *part, p *props)
	want string
}

// line returns the line of its caller.
func line() int {
	_, _, n, _ := runtime.Caller(1)
	return n
}

func faults() []fault {
	var none []int
	var nobody *part
	var nomap map[string]int
	nan, inf := math.NaN(), math.Inf(1)
	return []fault{
		{line(), "past", func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, -5, 0) }, "event cue scheduled 5ns in the past"},
		{line(), "past time", func(c *sim.Context, _ *part, p *props) { p.last.ScheduleAt(c, 0, 0) }, "event last scheduled 3s in the past, for 0s"},
		{line(), "again in the past", func(c *sim.Context, _ *part, _ *props) { c.Again(-sim.Second) }, "scheduled 1s in the past"},
		{line(), "to itself in the past", func(c *sim.Context, _ *part, p *props) { p.cue.Send(c, c.Self(), -1, 0) }, "in the past"},
		{line(), "below lookahead", func(c *sim.Context, _ *part, p *props) { p.first.Send(c, 1, 99*sim.Millisecond, 0) }, "event first sent to entity 1 for 3.099s, 99ms from now: less than the lookahead of 100ms"},
		{line(), "unknown entity", func(c *sim.Context, _ *part, p *props) { p.first.Send(c, 77, sim.Second, 0) }, "entity 77, which never existed: the scenario's entities are 1 to 6"},
		{line(), "no entity", func(c *sim.Context, _ *part, p *props) { p.first.Send(c, 0, sim.Second, 0) }, "entity 0, which never existed"},
		{line(), "large to unknown", func(c *sim.Context, _ *part, p *props) { p.large.Send(c, 9999, sim.Second, [64]int64{}) }, "entity 9999, which never existed"},
		{line(), "beyond range", func(c *sim.Context, _ *part, _ *props) { c.Near(10.5, sim.AnyKind) }, "looked 10.5 m around: more than the range of 10 m"},
		{line(), "range not a number", func(c *sim.Context, _ *part, _ *props) { c.Near(nan, sim.AnyKind) }, "looked NaN m around"},
		{line(), "too fast", func(c *sim.Context, _ *part, _ *props) { c.Publish(walk(c, 3, 4)) }, "published speed 5 m/s is above the 2 m/s"},
		{line(), "jump", func(c *sim.Context, _ *part, _ *props) { c.Publish(sim.At(at(5, 50))) }, "more than the declared speed of 2 m/s allows"},
		{line(), "motion not a number", func(c *sim.Context, _ *part, _ *props) { c.Publish(walk(c, nan, 0)) }, "published motion is not finite"},
		{line(), "place not a number", func(c *sim.Context, _ *part, _ *props) { c.Publish(sim.At(at(nan, 0))) }, "published motion is not finite"},
		{line(), "motion without end", func(c *sim.Context, _ *part, _ *props) { c.Publish(sim.At(at(1, inf))) }, "published motion is not finite"},
		{line(), "motion to come", func(c *sim.Context, _ *part, _ *props) { c.Publish(sim.Motion{Start: c.Now() + 1, From: c.Position()}) }, "starts at 3.000000001s, after now"},
		{line(), "born away", func(c *sim.Context, _ *part, p *props) { sim.Spawn(c, p.kind, at(c.Position().X+1, 50), part{}) }, "away from its parent"},
		{line(), "born nowhere", func(c *sim.Context, _ *part, p *props) { sim.Spawn(c, p.kind, at(nan, 50), part{}) }, "not finite"},
		{line(), "cancel another's", func(c *sim.Context, _ *part, _ *props) { c.Cancel(sim.Ref{At: 9, Key: 1, Seq: 1}) }, "entity 2 cannot cancel what entity 1 scheduled"},
		{line(), "bad draw", func(c *sim.Context, _ *part, _ *props) { c.Rand().IntN(0) }, "IntN"},
		{line(), "panic with an error", func(*sim.Context, *part, *props) { panic(errors.New("no fuel")) }, "the model panicked: no fuel"},
		{line(), "panic with text", func(*sim.Context, *part, *props) { panic("no fuel") }, "the model panicked: no fuel"},
		{line(), "panic with a number", func(*sim.Context, *part, *props) { panic(42) }, "the model panicked: 42"},
		{line(), "panic with nil", func(*sim.Context, *part, *props) { panic(nil) }, "the model panicked: panic called with nil"},
		{line(), "index", func(_ *sim.Context, s *part, _ *props) { s.X = int64(none[s.N]) }, "index out of range [0] with length 0"},
		{line(), "nil map", func(_ *sim.Context, s *part, _ *props) { nomap["x"] = 1 }, "assignment to entry in nil map"},
		{line(), "nil pointer", func(*sim.Context, *part, *props) { nobody.N++ }, "nil pointer"},
		{line(), "division", func(_ *sim.Context, s *part, _ *props) { s.X = 1 / s.N }, "divide by zero"},
		{line(), "in the standard library", func(*sim.Context, *part, *props) { _ = strings.Repeat("x", -1) }, "negative Repeat count"},
		{line(), "deep", func(_ *sim.Context, s *part, _ *props) { dig(300, func() { panic("at the bottom") }) }, "at the bottom"},
		{line(), "goroutine ended", func(*sim.Context, *part, *props) { runtime.Goexit() }, "the handler ended its goroutine"},
	}
}

func dig(n int, f func()) {
	if n > 0 {
		dig(n-1, f)
	} else {
		f()
	}
}

// faulty is a play of six entities along a line, of which the second does something wrong at 3 s.
func faulty(do func(c *sim.Context, s *part, p *props)) *play {
	y := &play{Space: plane(100, 100), Limits: sim.Limits{Lookahead: 100 * sim.Millisecond, Range: 10, Speed: 2}}
	for i := range 6 {
		a := actor{Pos: at(float64(i)*18+5, 50),
			Start: func(c *sim.Context, s *part, p *props) {
				stand(c, s, p)
				p.cue.Schedule(c, sim.Second, 0)
			},
			Cue: func(c *sim.Context, _ *part, p *props, _ int64) {
				p.note(c, 1)
				p.first.Send(c, c.Self()%6+1, 500*sim.Millisecond, 1)
				c.Again(400 * sim.Millisecond)
			}}
		if i == 1 {
			a.Start = func(c *sim.Context, s *part, p *props) {
				stand(c, s, p)
				p.cue.Schedule(c, 3*sim.Second, 0)
			}
			a.Cue = func(c *sim.Context, s *part, p *props, n int64) {
				if n == 0 {
					do(c, s, p)
				}
			}
		} else {
			cue := a.Cue
			a.Cue = func(c *sim.Context, s *part, p *props, n int64) {
				if n == 0 {
					cue(c, s, p, n)
				}
			}
		}
		y.Actors = append(y.Actors, a)
	}
	return y
}

// ways are the numbers of regions and workers on which a failure must read the same.
func ways() [][2]int { return [][2]int{{1, 1}, {2, 1}, {2, 2}, {3, 2}, {6, 3}, {8, 2}} }

// fail runs a program that must fail, and returns the failure.
func fail(t *testing.T, p *sim.Program, o node.Options) (*node.Failure, *node.Outcome) {
	t.Helper()
	out, err := node.Run(context.Background(), p, o)
	var f *node.Failure
	if !errors.As(err, &f) {
		t.Fatalf("%d regions, %d workers: %v, want a failure", o.Regions, o.Workers, err)
	}
	if out.End > f.Time {
		t.Errorf("the run got to %v although it failed at %v", out.End, f.Time)
	}
	return f, out
}

func TestFailureNamesEverything(t *testing.T) {
	for _, x := range faults() {
		t.Run(x.name, func(t *testing.T) {
			want, records := "", tape{}
			for _, w := range ways() {
				got := tape{}
				f, out := fail(t, faulty(x.do).program(t, 10*sim.Second), node.Options{Regions: w[0], Workers: w[1], Sink: &got})
				if want == "" {
					want, records = f.Error(), got
				}
				if f.Error() != want {
					t.Errorf("%v regions and workers: %s\nelsewhere: %s", w, f, want)
				}
				if out.End != f.Time || firstDifference(got.lines, records.lines) >= 0 {
					t.Errorf("%v regions and workers: the records up to %v differ", w, out.End)
				}
				if f.Entity != 2 || f.Kind != "actor" || f.Event != "cue" || f.Source != 2 || f.Time != sim.Time(3*sim.Second) {
					t.Errorf("failure %+v", f)
				}
			}
			if len(records.lines) == 0 {
				t.Error("nothing was recorded before the failure")
			}
			place := fmt.Sprintf("(in entity 2 of kind actor, handling event cue from entity 2 at simulated time 3s at node/failure_test.go:%d)", x.line)
			if x.name == "deep" {
				place = "at node/failure_test.go:" // the line of the function that panics
			}
			for _, part := range []string{x.want, place} {
				if !strings.Contains(want, part) {
					t.Errorf("%s\ndoes not say: %s", want, part)
				}
			}
		})
	}
}

func TestFailureWithoutHandler(t *testing.T) {
	for _, w := range ways() {
		y := faulty(func(c *sim.Context, _ *part, p *props) { p.unheard.Schedule(c, sim.Second, 0) })
		f, _ := fail(t, y.program(t, 10*sim.Second), node.Options{Regions: w[0], Workers: w[1]})
		if want := "kind actor has no handler for this event (in entity 2 of kind actor, handling event unheard from entity 2 at simulated time 4s)"; f.Error() != want {
			t.Errorf("%v: %s, want %s", w, f, want)
		}
	}
}

func TestFailureInStart(t *testing.T) {
	for _, x := range []fault{
		{line(), "panic", func(*sim.Context, *part, *props) { panic("unready") }, "the model panicked: unready"},
		{line(), "again", func(c *sim.Context, _ *part, _ *props) { c.Again(1) }, "the start of an entity cannot run again"},
	} {
		for _, w := range ways() {
			y := faulty(nil)
			y.Actors[4].Start = x.do
			f, _ := fail(t, y.program(t, 10*sim.Second), node.Options{Regions: w[0], Workers: w[1]})
			want := fmt.Sprintf("handling event start from entity 5 at simulated time 0s at node/failure_test.go:%d)", x.line)
			if !strings.Contains(f.Error(), want) || !strings.Contains(f.Error(), x.want) {
				t.Errorf("%v: %s, want %s", w, f, want)
			}
		}
	}
}

func TestFailureWithoutSpace(t *testing.T) {
	for _, x := range []fault{
		{line(), "Position", func(c *sim.Context, _ *part, _ *props) { c.Position() }, "Position needs a space"},
		{line(), "Publish", func(c *sim.Context, _ *part, _ *props) { c.Publish(sim.Motion{}) }, "Publish needs a space"},
		{line(), "Hide", func(c *sim.Context, _ *part, _ *props) { c.Hide() }, "Hide needs a space"},
		{line(), "Near", func(c *sim.Context, _ *part, _ *props) { c.Near(0, sim.AnyKind) }, "Near needs a space"},
		{line(), "Nearest", func(c *sim.Context, _ *part, _ *props) { c.Nearest(1, sim.AnyKind) }, "Nearest needs a space"},
		{line(), "Within", func(c *sim.Context, _ *part, _ *props) { c.Within(sim.Box{}, sim.AnyKind) }, "Within needs a space"},
	} {
		y := &play{Actors: []actor{{Start: x.do}}, Limits: sim.Limits{Lookahead: 1}}
		f, _ := fail(t, y.program(t, sim.Second), node.Options{})
		if !strings.Contains(f.Error(), x.want) || !strings.Contains(f.Error(), fmt.Sprintf("failure_test.go:%d", x.line)) {
			t.Errorf("%s, want %s at line %d", f, x.want, x.line)
		}
	}
}

func TestFailureLocalSendOutOfRange(t *testing.T) {
	for _, to := range []sim.EntityID{3, 6} {
		want := ""
		for _, w := range ways() {
			y := faulty(func(c *sim.Context, _ *part, p *props) { p.first.Send(c, to, sim.Second, 1) })
			y.Limits.LocalSends = true
			for i := range y.Actors {
				if i != 1 {
					y.Actors[i].Cue = nil
				}
			}
			f, _ := fail(t, y.program(t, 10*sim.Second), node.Options{Regions: w[0], Workers: w[1]})
			if want == "" {
				want = f.Error()
			}
			if f.Error() != want || !strings.Contains(want, fmt.Sprintf("event first sent to entity %d, which is not visible within the range of 10 m", to)) {
				t.Errorf("%v: %s; elsewhere %s", w, f, want)
			}
		}
	}
}

// TestFirstFailureIsReported lets many entities fail at many times, several at the first: always the
// first in the order of events is reported, whoever runs it and whenever.
func TestFirstFailureIsReported(t *testing.T) {
	y := &play{Limits: sim.Limits{Lookahead: 10 * sim.Millisecond}}
	for i := range 24 {
		y.Actors = append(y.Actors, actor{
			Start: func(c *sim.Context, _ *part, p *props) {
				p.cue.Schedule(c, sim.Second+sim.Duration(i%3)*sim.Nanosecond, 1)
				p.last.Schedule(c, sim.Microsecond, 0)
			},
			Cue: func(c *sim.Context, s *part, p *props, n int64) {
				switch {
				case n == 0:
					s.N++
					if c.Self()%2 == 0 {
						p.last.Send(c, c.Self()%24+1, 11*sim.Millisecond+sim.Duration(c.Self())*1000, 0)
					}
				case n == 1 && i == 18:
					// Its failure comes before that of others in the order of events, although what
					// leads to it comes after.
					p.first.Schedule(c, 0, 2)
				case i == 0 && n == 1:
					// Does not fail.
				default:
					panic(fmt.Sprint("entity ", c.Self(), " gives up"))
				}
			}})
	}
	repeat := 50
	if testing.Short() {
		repeat = 10
	}
	for range repeat {
		for _, w := range [][2]int{{1, 1}, {2, 2}, {5, 2}, {8, 3}, {24, 2}} {
			f, _ := fail(t, y.program(t, 10*sim.Second), node.Options{Regions: w[0], Workers: w[1]})
			if f.Entity != 19 || f.Event != "first" || f.Time != sim.Time(sim.Second) {
				t.Fatalf("%v regions and workers: %v; the failure of entity 19 comes first", w, f)
			}
		}
	}
}

// TestFirstFailureIsRepeated repeats each failure of the list, since goroutines meet differently.
func TestFirstFailureIsRepeated(t *testing.T) {
	list := faults()
	for i := range 50 {
		x := list[i%len(list)]
		want, _ := fail(t, faulty(x.do).program(t, 10*sim.Second), node.Options{Regions: 1})
		got, _ := fail(t, faulty(x.do).program(t, 10*sim.Second), node.Options{Regions: 6, Workers: 3})
		if got.Error() != want.Error() {
			t.Errorf("%s: %v, on one region %v", x.name, got, want)
		}
	}
}

// ring is a model with lookahead 0 in which an event goes round n entities without delay, so that each
// of them sees few.
func ring(n int) *play {
	y := &play{Limits: sim.Limits{}}
	for i := range n {
		a := actor{Cue: func(c *sim.Context, _ *part, p *props, _ int64) {
			p.cue.Send(c, c.Self()%sim.EntityID(n)+1, 0, 0)
		}}
		if i == 0 {
			a.Start = func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, sim.Second, 0) }
		}
		y.Actors = append(y.Actors, a)
	}
	return y
}

func TestEndlessChains(t *testing.T) {
	other := func(c *sim.Context) sim.EntityID { return 3 - c.Self() }
	for _, x := range []struct {
		name string
		at   int
		play *play
		ways [][2]int
		want string
	}{
		{"itself", line(), &play{Limits: sim.Limits{Lookahead: 1}, Actors: []actor{{}, {
			Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, sim.Second, 0) },
			Cue:   func(c *sim.Context, _ *part, _ *props, _ int64) { c.Again(0) }}}},
			ways(), "more than 1000 events without delay were sent to entity 2 at one time: an endless chain"},
		{"two that bounce", line(), &play{Actors: []actor{{
			Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, sim.Second, 0) },
			Cue:   func(c *sim.Context, _ *part, p *props, _ int64) { p.cue.Send(c, other(c), 0, 0) }}, {
			Cue: func(c *sim.Context, _ *part, p *props, _ int64) { p.cue.Send(c, other(c), 0, 0) }}}},
			[][2]int{{1, 1}}, "more than 1000 events without delay were sent to entity"},
		{"a ring of many", line(), ring(300),
			[][2]int{{1, 1}}, "events without delay were sent at one time, the last of them cue: an endless chain"},
		{"births", line(), &play{Limits: sim.Limits{Lookahead: 1}, Actors: []actor{{}, {
			Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, sim.Second, 0) },
			Cue:   func(c *sim.Context, _ *part, p *props, _ int64) { sim.Spawn(c, p.kind, sim.Vec{}, part{}) }}},
			Child: actor{Start: func(c *sim.Context, _ *part, p *props) { sim.Spawn(c, p.kind, sim.Vec{}, part{}) }}},
			ways(), "entities spawned one another more than 1000 times at one time: an endless chain"},
	} {
		t.Run(x.name, func(t *testing.T) {
			want := ""
			for _, w := range x.ways {
				f, _ := fail(t, x.play.program(t, 10*sim.Second), node.Options{Regions: w[0], Workers: w[1], ChainLimit: 1000})
				if want == "" {
					want = f.Error()
				}
				if f.Error() != want || !strings.Contains(want, x.want) || !strings.Contains(want, "at simulated time 1s at node/failure_test.go:") {
					t.Errorf("%v: %v\nelsewhere: %s\nwant: %s", w, f, want, x.want)
				}
			}
		})
	}
}

// TestChainsThatEnd stay within the limit: it counts what happens at one time, not over the run.
func TestChainsThatEnd(t *testing.T) {
	y := &play{Limits: sim.Limits{Lookahead: 1}, Actors: []actor{{
		Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, sim.Second, 0) },
		Cue: func(c *sim.Context, s *part, p *props, n int64) {
			s.N++
			switch {
			case n < 900:
				p.cue.Schedule(c, 0, n+1)
			default:
				p.cue.Schedule(c, 1, 0)
			}
		}}}}
	out := mustRun(t, y.program(t, sim.Second+100), node.Options{ChainLimit: 1000})
	if out.Events != 1+100*901 {
		t.Errorf("%d events", out.Events)
	}
	// One entity may spawn more than the limit at once.
	y = &play{Limits: sim.Limits{Lookahead: 1}, Actors: []actor{{
		Start: func(c *sim.Context, _ *part, p *props) {
			for range 3000 {
				sim.Spawn(c, p.kind, sim.Vec{}, part{})
			}
		}}}}
	if out := mustRun(t, y.program(t, sim.Second), node.Options{ChainLimit: 1000}); out.Entities != 3001 {
		t.Errorf("%d entities", out.Entities)
	}
}

// TestOddQueriesAreAnswered gives queries arguments at the edges; none of them may fail.
func TestOddQueriesAreAnswered(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	do := func(c *sim.Context, s *part, _ *props) {
		n := len(c.Near(-1, sim.AnyKind)) + len(c.Near(-inf, sim.AnyKind)) + len(c.Near(10, 0))
		for _, k := range []int{0, -1, -7, math.MinInt} {
			n += len(c.Nearest(k, sim.AnyKind))
		}
		n += len(c.Within(sim.Box{Min: at(nan, nan), Max: at(nan, nan)}, sim.AnyKind))
		n += len(c.Within(sim.Box{Min: at(9, 9), Max: at(1, 1)}, sim.AnyKind))
		if n > 0 {
			panic(fmt.Sprint("empty queries answer with ", n))
		}
		for _, k := range []int{1, 2, 100, math.MaxInt - 1, math.MaxInt} {
			s.N += int64(len(c.Nearest(k, sim.AnyKind)))
		}
		s.N += int64(len(c.Within(sim.Box{Min: at(-inf, -inf), Max: at(inf, inf)}, sim.AnyKind)))
		c.Cancel(sim.Ref{})
	}
	y := faulty(do)
	y.Actors[0].Pos = at(18, 50) // 5 m from the second
	for _, s := range stageAll(t, y, 5*sim.Second, 1, 2, 6) {
		if s.states[2].N != 6 {
			t.Errorf("%d regions: full queries see %d, want 6", s.regions, s.states[2].N)
		}
	}
}

// failingSink fails at its second call.
type failingSink struct {
	calls int
	err   error
}

func (s *failingSink) Observe([]sim.Observation) error {
	if s.calls++; s.calls == 2 {
		return s.err
	}
	return nil
}

func TestSinkErrorEndsTheRun(t *testing.T) {
	for _, w := range ways() {
		y := faulty(func(c *sim.Context, _ *part, p *props) {
			// Enough that the sink is called before the run ends.
			for range 1000 {
				p.count.Add(c, 1)
			}
			c.Again(sim.Millisecond)
		})
		s := &failingSink{err: errors.New("disk full")}
		out, err := node.Run(context.Background(), y.program(t, 20*sim.Second), node.Options{Regions: w[0], Workers: w[1], Sink: s})
		if !errors.Is(err, s.err) || strings.Count(err.Error(), "disk full") != 1 || s.calls != 2 || out == nil {
			t.Errorf("%v: error %q after %d calls", w, err, s.calls)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	y := faulty(nil)
	y.Actors[1].Cue = nil
	for _, c := range []struct {
		o    node.Options
		want string
	}{
		{node.Options{Regions: -1}, "-1 regions: from 1 to"},
		{node.Options{Regions: 5000}, "5000 regions: from 1 to"},
		{node.Options{Regions: math.MaxInt}, "from 1 to"},
		{node.Options{Workers: -1}, "-1 workers: at least 1"},
	} {
		p := y.program(t, sim.Second)
		if out, err := node.Run(context.Background(), p, c.o); err == nil || out != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
		// What is refused has not begun.
		mustRun(t, p, node.Options{})
	}
	p := y.program(t, sim.Second)
	mustRun(t, p, node.Options{})
	if _, err := node.Run(context.Background(), p, node.Options{}); err == nil || !strings.Contains(err.Error(), "has run") {
		t.Errorf("a program ran twice: %v", err)
	}
	y.Limits.Lookahead = 0
	mustRun(t, y.program(t, sim.Second), node.Options{Regions: 1})
	if err := node.Check(y.program(t, sim.Second), node.Options{Regions: 2}); err == nil || !strings.Contains(err.Error(), "lookahead 0") {
		t.Errorf("lookahead 0 on two regions: %v", err)
	}
}

// stubborn has a hook that panics.
type stubborn struct{}

func (s *stubborn) AppendState([]byte) []byte { panic("no encoding today") }
func (s *stubborn) LoadState([]byte) error    { return nil }

func TestStateThatCannotBeEncoded(t *testing.T) {
	m := sim.Define(sim.Model{Name: "stubborn"}, func(b *sim.Builder, _ *struct{}) error {
		b.SetLimits(sim.Limits{Lookahead: 1})
		k := sim.DefineKind[stubborn](b, "mule", "")
		for range 5 {
			sim.Add(k, sim.Vec{}, stubborn{})
		}
		return nil
	})
	for _, regions := range []int{1, 3} {
		p, err := sim.NewProgram(m, &struct{}{}, sim.Space{}, 1, 10)
		if err != nil {
			t.Fatal(err)
		}
		_, err = node.Run(context.Background(), p, node.Options{Regions: regions})
		if err == nil || !strings.Contains(err.Error(), "entity 1 of kind mule") || !strings.Contains(err.Error(), "no encoding today") {
			t.Errorf("%d regions: %v", regions, err)
		}
	}
}
