package node_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// TestCase04ZeroLookaheadCycle: two regions are refused, one region runs the cycle in order.
func TestCase04ZeroLookaheadCycle(t *testing.T) {
	other := func(c *sim.Context) sim.EntityID { return 3 - c.Self() }
	bounce := func(c *sim.Context, s *part, p *props, n int64) {
		if c.Now() != sim.Time(5*sim.Second) {
			s.X++
		}
		s.Log = append(s.Log, n)
		p.note(c, n)
		if n < 6 {
			p.cue.Send(c, other(c), 0, n+1)
		}
	}
	y := &play{Actors: []actor{
		{Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, 5*sim.Second, 1) }, Cue: bounce},
		{Cue: bounce},
	}}
	s := stage(t, y, 10*sim.Second, node.Options{Regions: 1}, nil)
	if a, b := s.states[1], s.states[2]; !slices.Equal(a.Log, []int64{1, 3, 5}) || !slices.Equal(b.Log, []int64{2, 4, 6}) || a.X+b.X != 0 {
		t.Errorf("entity 1 handled %v, entity 2 %v", a.Log, b.Log)
	}
	_, err := node.Run(context.Background(), y.program(t, 10*sim.Second), node.Options{Regions: 2})
	if err == nil {
		t.Fatal("two regions ran with lookahead 0")
	}
	for _, part := range []string{"play", "lookahead 0", "region 0", "region 1", "run it with 1 region"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// TestCase05Equality: at 10 s an entity has an event of its own, and one of a higher class arrives
// from another region at the very same time.
func TestCase05Equality(t *testing.T) {
	y := &play{
		Limits: sim.Limits{Lookahead: sim.Second},
		Actors: []actor{
			{Start: func(c *sim.Context, _ *part, p *props) { p.last.Schedule(c, 10*sim.Second, 2) },
				Cue: func(_ *sim.Context, s *part, _ *props, n int64) { s.Log = append(s.Log, n) }},
			{Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, 9*sim.Second, 0) },
				Cue: func(c *sim.Context, _ *part, p *props, _ int64) { p.first.Send(c, 1, sim.Second, 1) }},
		},
	}
	for _, s := range stageAll(t, y, 20*sim.Second, 1, 2) {
		if got := s.states[1].Log; !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("%d regions: handled in the order %v", s.regions, got)
		}
	}
}

// TestCase06TimeCreep: bounds follow the next events, so an hour without any takes no steps of a
// lookahead each.
func TestCase06TimeCreep(t *testing.T) {
	when := func(d sim.Duration) actor {
		return actor{Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, d, 0) },
			Cue: func(c *sim.Context, s *part, p *props, _ int64) { s.N++ }}
	}
	y := &play{
		Limits: sim.Limits{Lookahead: sim.Millisecond},
		Actors: []actor{when(1000 * sim.Second), when(1_000_000 * sim.Second)},
	}
	p := y.program(t, 2_000_000*sim.Second)
	out, turns, err := node.RunCountingTurns(p, node.Options{Regions: 2, Workers: 1})
	if err != nil || out.Events != 4 {
		t.Fatalf("%d events, %v", out.Events, err)
	}
	if turns > 10 {
		t.Errorf("%d turns for two starts and two events", turns)
	}
}

// TestCase07Ring: a ring of three passes events on; channels are empty most of the time.
func TestCase07Ring(t *testing.T) {
	member := func(first sim.Duration) actor {
		return actor{Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, first, 0) },
			Cue: func(c *sim.Context, s *part, p *props, n int64) {
				s.N++
				s.Log = append(s.Log, int64(c.Now()))
				p.cue.Send(c, c.Self()%3+1, 2*sim.Second, n+1)
			}}
	}
	y := &play{
		Limits: sim.Limits{Lookahead: 2 * sim.Second},
		Actors: []actor{member(10 * sim.Second), member(20 * sim.Second), member(30 * sim.Second)},
	}
	all := stageAll(t, y, 10_000*sim.Second, 1, 2, 3)
	total := int64(0)
	for _, p := range all[0].states {
		total += p.N
	}
	if want := int64((9990 + 9980 + 9970) / 2); total != want {
		t.Errorf("%d events, want %d", total, want)
	}
	// With the events of the case alone: each region takes at most a start and three more turns.
	for i := range y.Actors {
		y.Actors[i].Cue = func(_ *sim.Context, s *part, _ *props, _ int64) { s.N++ }
	}
	out, turns, err := node.RunCountingTurns(y.program(t, 10_000*sim.Second), node.Options{Regions: 3, Workers: 1})
	if err != nil || out.Events != 6 || turns > 3*4 {
		t.Errorf("%d events in %d turns, %v", out.Events, turns, err)
	}
}

// TestCase10SimultaneousEvents: 1,000 events at one time, sent in shuffled order.
func TestCase10SimultaneousEvents(t *testing.T) {
	const senders, meeting = 1000, 100 * sim.Second
	y := &play{Limits: sim.Limits{Lookahead: sim.Second}}
	order := make([]int64, senders)
	for i := range order {
		order[i] = int64(i)
	}
	r := sim.NewRand(5, 5)
	for i := range order {
		j := r.IntN(int64(i + 1))
		order[i], order[j] = order[j], order[i]
	}
	for i := range senders {
		y.Actors = append(y.Actors, actor{
			Start: func(c *sim.Context, _ *part, p *props) {
				p.last.Schedule(c, sim.Duration(order[i])*sim.Millisecond*50, -1)
			},
			Cue: func(c *sim.Context, s *part, p *props, n int64) {
				if n >= 0 {
					s.Log = append(s.Log, n)
					s.X = int64(sim.Digest(uint64(s.X), uint64(n), c.Rand().Uint64()))
					return
				}
				to := sim.EntityID(c.Rand().IntN(4)*250 + 1)
				e := []sim.Event[int64]{p.first, p.cue, p.last}[i%3]
				e.Send(c, to, sim.Time(meeting).Sub(c.Now()), int64(i))
			}})
	}
	all := stageAll(t, y, 2*meeting, 1, 2, 4, 8)
	got := 0
	for _, p := range all[0].states {
		got += len(p.Log)
		// By class, then by sender.
		if !slices.IsSortedFunc(p.Log, func(a, b int64) int {
			return int(a%3*senders+a) - int(b%3*senders+b)
		}) {
			t.Errorf("handled in the order %v", p.Log)
		}
	}
	if got != senders {
		t.Errorf("%d events handled, want %d", got, senders)
	}
}

// TestCase13Migration: an entity with a pending event moves to another region meanwhile; the event
// runs once, there.
func TestCase13Migration(t *testing.T) {
	y := &play{
		Space:  plane(10, 1),
		Limits: sim.Limits{Lookahead: 100 * sim.Millisecond, Range: 0.5, Speed: 1},
		Actors: []actor{
			{Pos: at(3, 0.5), Start: func(c *sim.Context, _ *part, p *props) {
				c.Publish(walk(c, 1, 0))
				p.cue.Schedule(c, 6*sim.Second, 6)
				p.large.Schedule(c, 6*sim.Second, [64]int64{63: 6})
			}, Cue: func(_ *sim.Context, s *part, _ *props, n int64) { s.Log = append(s.Log, n) }},
			// This one sends to it after it has moved, and before, for after.
			{Pos: at(1, 0.5), Start: func(c *sim.Context, _ *part, p *props) {
				p.cue.Send(c, 1, 4*sim.Second, 4)
				p.large.Send(c, 1, 5*sim.Second, [64]int64{7})
				p.last.Schedule(c, 4*sim.Second, 0)
			}, Cue: func(c *sim.Context, _ *part, p *props, _ int64) { p.cue.Send(c, 1, sim.Second, 5) }},
			{Pos: at(7, 0.5), Start: stand}, {Pos: at(9, 0.5), Start: stand},
		},
	}
	for _, s := range stageAll(t, y, 8*sim.Second, 1, 2, 4) {
		if got := s.states[1]; !slices.Equal(got.Log, []int64{4, 5, 6}) || got.N != 2 {
			t.Errorf("%d regions: handled %v and %d large events", s.regions, got.Log, got.N)
		}
		if s.regions == 2 && s.Migrated != 1 {
			t.Errorf("%d migrations", s.Migrated)
		}
	}
}

// TestCase16ForwardedMessage: what is sent to an entity after the cut at which it moved goes to its new
// owner at once: it is handled at its time though that is no more than the lookahead away.
func TestCase16ForwardedMessage(t *testing.T) {
	const l = 100 * sim.Millisecond
	y := &play{
		Space:  plane(10, 1),
		Limits: sim.Limits{Lookahead: l, Range: 0.5, Speed: 1},
		Actors: []actor{
			{Pos: at(3, 0.5), Start: func(c *sim.Context, _ *part, _ *props) { c.Publish(walk(c, 1, 0)) },
				Cue: func(c *sim.Context, s *part, _ *props, n int64) {
					if c.Now() != sim.Time(n).Add(l) {
						t.Errorf("sent at %v, handled at %v", sim.Time(n), c.Now())
					}
					s.N++
				}},
			{Pos: at(1, 0.5), Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, 0, 0) },
				Cue: func(c *sim.Context, _ *part, p *props, _ int64) {
					p.cue.Send(c, 1, l, int64(c.Now()))
					c.Again(sim.Second / 20)
				}},
			{Pos: at(7, 0.5), Start: stand}, {Pos: at(9, 0.5), Start: stand},
		},
	}
	for _, s := range stageAll(t, y, 6*sim.Second, 1, 2, 4) {
		if got := s.states[1]; got.N != 118 || s.Dropped != 0 {
			t.Errorf("%d regions: %d handled, %d dropped", s.regions, got.N, s.Dropped)
		}
		if s.regions > 1 && s.Migrated == 0 {
			t.Errorf("%d regions: nobody moved", s.regions)
		}
	}
}
