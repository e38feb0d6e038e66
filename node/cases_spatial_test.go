package node_test

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

func TestCaseStaleGhostAfterMove(t *testing.T) {
	y := &play{
		Space:  plane(10, 1),
		Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 0.5, Speed: 1},
		Actors: []actor{
			{Pos: at(3, 0.5), Start: func(c *sim.Context, _ *part, p *props) {
				m := walk(c, 1, 0)
				m.Stop = sim.Time(4 * sim.Second)
				c.Publish(m)
				for i := range 4 {
					p.cue.Schedule(c, sim.Duration(i+1)*sim.Second, 0)
				}
			}, Cue: func(_ *sim.Context, s *part, _ *props, _ int64) { s.N++ }},
			{Pos: at(1, 0.5), Start: stand}, {Pos: at(7, 0.5), Start: stand}, {Pos: at(9, 0.5), Start: stand},
		},
	}
	haunted := 0
	var owners, ghosts []int
	s := stage(t, y, 10*sim.Second, node.Options{Regions: 2, Workers: 2}, func(in node.Inside, _ sim.Time) {
		owners, ghosts = in.Owners(1), in.Ghosts(1)
		if len(ghosts) > 0 {
			haunted++
		}
		if left, right := in.Region(at(4.99, 0.5)), in.Region(at(5.01, 0.5)); left == right {
			t.Error("the border is not at 5")
		}
	})
	if haunted == 0 {
		t.Error("there never was a ghost near the border")
	}
	if s.states[1].N != 4 || len(owners) != 1 || owners[0] != s.Map.Region(at(7, 0.5)) || len(ghosts) != 0 {
		t.Errorf("counter %d, owners %v, ghosts %v; want 4, the right region, none", s.states[1].N, owners, ghosts)
	}
}

func TestCaseLongJump(t *testing.T) {
	y := &play{Space: plane(4, 2), Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 1}}
	for i := range 8 {
		y.Actors = append(y.Actors, actor{Pos: at(float64(i%4)+0.5, float64(i/4)+0.5), Start: stand})
	}
	from, to := at(0.25, 0.25), at(3.75, 1.75)
	y.Actors = append(y.Actors, actor{Pos: from, Light: true,
		Start: func(c *sim.Context, s *part, p *props) {
			c.Publish(sim.At(c.Position()))
			for i := range int64(4) {
				p.cue.Schedule(c, sim.Duration(i+1)*sim.Second, i)
			}
			s.Ref = p.cue.Schedule(c, 6*sim.Second, 99)
			c.Cancel(s.Ref)
		},
		Cue: func(c *sim.Context, s *part, _ *props, n int64) {
			s.Log = append(s.Log, n)
			switch n {
			case 0:
				c.Publish(sim.At(to))
			case 3:
				// Cancelled before the move: once is enough, everywhere.
				if c.Cancel(s.Ref) {
					s.X++
				}
			}
		}})
	for _, s := range stageAll(t, y, 8*sim.Second, 1, 2, 3, 8) {
		if got := s.states[9]; !slices.Equal(got.Log, []int64{0, 1, 2, 3}) || got.X != 0 {
			t.Errorf("%d regions: log %v, %d cancelled twice", s.regions, got.Log, got.X)
		}
	}
	moved := false
	stage(t, y, 8*sim.Second, node.Options{Regions: 8, Workers: 2}, func(in node.Inside, now sim.Time) {
		owners, pending := in.Owners(9), in.Pending(9)
		if in.Region(from) == in.Region(to) || len(owners) != 1 {
			t.Fatalf("at %v: owners %v", now, owners)
		}
		moved = moved || owners[0] == in.Region(to)
		for r, n := range pending {
			if n > 0 && r != owners[0] {
				t.Errorf("at %v: %d events of the entity of region %d wait in region %d", now, n, owners[0], r)
			}
		}
	})
	if !moved {
		t.Error("the entity never changed owner")
	}
}

func TestCaseDoubleInterest(t *testing.T) {
	leave := func(c *sim.Context, _ *part, p *props) {
		c.Publish(sim.At(c.Position()))
		p.cue.Schedule(c, 2*sim.Second, 0)
	}
	y := &play{
		Space:  torus(10, 4),
		Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 1, Speed: 2},
		Actors: []actor{
			{Pos: at(4.8, 2), Start: stand},
			{Pos: at(5.2, 2), Start: leave, Cue: func(c *sim.Context, _ *part, _ *props, _ int64) { c.Publish(walk(c, 1, 0)) }},
			{Pos: at(5.2, 2.1), Start: func(c *sim.Context, s *part, p *props) {
				stand(c, s, p)
				p.cue.Schedule(c, sim.Second, 0)
			}, Cue: func(c *sim.Context, s *part, _ *props, _ int64) {
				n := 0
				for _, o := range c.Near(1, sim.AnyKind) {
					if o.ID == 1 {
						n++
					}
				}
				if n != 1 {
					s.X++
				}
				c.Again(100 * sim.Millisecond)
			}},
			{Pos: at(1, 2), Start: stand}, {Pos: at(2, 2), Start: stand}, {Pos: at(9, 2), Start: stand},
		},
	}
	for _, s := range stageAll(t, y, 5*sim.Second, 1, 2, 4) {
		if s.states[3].X != 0 {
			t.Errorf("%d regions: the neighbour was not seen exactly once, %d times", s.regions, s.states[3].X)
		}
	}
	stage(t, y, 5*sim.Second, node.Options{Regions: 2, Workers: 2}, func(in node.Inside, now sim.Time) {
		if in.Region(at(4.99, 2)) == in.Region(at(5.01, 2)) {
			t.Fatal("the border is not at 5")
		}
		if g := in.Ghosts(1); len(g) != 1 {
			t.Errorf("at %v: ghosts of the watched entity in %v, want one", now, g)
		}
	})
}

func TestCaseThinRegions(t *testing.T) {
	y := &play{Space: plane(10, 1), Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 1, Speed: 0.01}}
	r := sim.NewRand(3, 3)
	for range 100 {
		y.Actors = append(y.Actors, actor{Pos: at(r.Uniform(4.9, 5.1), 0.5),
			Start: func(c *sim.Context, s *part, p *props) {
				c.Publish(walk(c, c.Rand().Uniform(-0.01, 0.01), 0))
				p.cue.Schedule(c, sim.Second, 0)
			},
			Cue: func(c *sim.Context, s *part, _ *props, _ int64) {
				s.Seen = nil
				look(c, s, 1)
				c.Again(sim.Second)
			}})
	}
	for _, s := range stageAll(t, y, 10*sim.Second, 1, 8, 16) {
		if len(s.ids) != 100 {
			t.Errorf("%d regions: %d entities remain", s.regions, len(s.ids))
		}
		for _, id := range s.ids {
			if seen := s.states[id].Seen; len(seen) != 99 {
				t.Errorf("%d regions: entity %d sees %d others", s.regions, id, len(seen))
			}
		}
	}
}

func TestCaseCountDependentLoss(t *testing.T) {
	all := stageAll(t, wanderers(plane(100, 60), 60, 4, 12), 40*sim.Second, 1, 2, 4, 8, 16)
	if last := all[len(all)-1]; last.Migrated == 0 || last.Cuts == 0 || len(last.ids) != 60 {
		t.Errorf("%d migrated at %d cuts, %d entities at the end", last.Migrated, last.Cuts, len(last.ids))
	}
}

func TestCaseSmallTorus(t *testing.T) {
	y := &play{Space: torus(4, 4), Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 4, Speed: 1}}
	for i := range 16 {
		y.Actors = append(y.Actors, lookOnce(at(float64(i%4)+0.5, float64(i/4)+0.5), 4))
	}
	for _, s := range stageAll(t, y, 2*sim.Second, 1, 2, 4, 16) {
		for _, id := range s.ids {
			seen := slices.Clone(s.states[id].Seen)
			slices.Sort(seen)
			if len(slices.Compact(seen)) != 15 || len(s.states[id].Seen) != 15 || slices.Contains(seen, id) {
				t.Errorf("%d regions: entity %d sees %v", s.regions, id, s.states[id].Seen)
			}
		}
	}
}

// lookOnce is an actor that stands still and looks at one second.
func lookOnce(pos sim.Vec, radius float64) actor {
	return actor{Pos: pos, Start: func(c *sim.Context, s *part, p *props) {
		c.Publish(sim.At(c.Position()))
		p.cue.Schedule(c, sim.Second, 0)
	}, Cue: func(c *sim.Context, s *part, _ *props, _ int64) { look(c, s, radius) }}
}

func TestCaseSeam(t *testing.T) {
	y := &play{
		Space:  torus(105, 105),
		Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 10, Speed: 1},
		Actors: []actor{lookOnce(at(1, 50), 10), lookOnce(at(104.5, 50), 10), lookOnce(at(40, 50), 10), lookOnce(at(60, 50), 10)},
	}
	wantPairs(t, stageAll(t, y, 2*sim.Second, 1, 2, 3, 4))
}

// wantPairs checks that entities 1 and 2 see each other and nothing else.
func wantPairs(t *testing.T, all []*staged) {
	t.Helper()
	for _, s := range all {
		a, b := s.states[1].Seen, s.states[2].Seen
		if !slices.Equal(a, []sim.EntityID{2}) || !slices.Equal(b, []sim.EntityID{1}) {
			t.Errorf("%d regions: entity 1 sees %v, entity 2 sees %v", s.regions, a, b)
		}
	}
}

func TestCaseOrigin(t *testing.T) {
	y := &play{
		Space:  sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Min: at(-50, -50), Max: at(50, 50)}},
		Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 2, Speed: 1},
		Actors: []actor{lookOnce(at(-49, 0), 2), lookOnce(at(-48, 0), 2), lookOnce(at(0, 0), 2), lookOnce(at(49, 0), 2)},
	}
	wantPairs(t, stageAll(t, y, 2*sim.Second, 1, 2, 4, 8))
}

func TestCaseCoincident(t *testing.T) {
	meet := func(from sim.Vec) actor {
		return actor{Pos: from, Light: true, Start: func(c *sim.Context, _ *part, p *props) {
			c.Publish(sim.At(at(5, 5)))
			p.cue.Schedule(c, sim.Second, 0)
		}, Cue: func(c *sim.Context, s *part, _ *props, _ int64) { look(c, s, 1) }}
	}
	y := &play{
		Space:  plane(10, 10),
		Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 1},
		Actors: []actor{meet(at(1, 1)), meet(at(9, 9)),
			{Pos: at(2.5, 2.5)}, {Pos: at(7.5, 2.5)}, {Pos: at(2.5, 7.5)}, {Pos: at(7.5, 7.5)}},
	}
	wantPairs(t, stageAll(t, y, 2*sim.Second, 1, 2, 3, 4))
	stage(t, y, 2*sim.Second, node.Options{Regions: 4, Workers: 2}, func(in node.Inside, _ sim.Time) {
		corner := []int{in.Region(at(4.99, 4.99)), in.Region(at(5.01, 4.99)), in.Region(at(4.99, 5.01)), in.Region(at(5.01, 5.01))}
		slices.Sort(corner)
		if len(slices.Compact(corner)) != 4 {
			t.Error("(5, 5) is not a corner of four regions")
		}
	})
}

func TestCaseRoundingAtTheWrap(t *testing.T) {
	inside := func(p sim.Vec) bool { return p.X >= 0 && p.X < 1 && p.Y >= 0 && p.Y < 1 }
	step := func(c *sim.Context, s *part, p *props, n int64) {
		s.Pos = c.Position()
		if !inside(s.Pos) {
			s.X++
		}
		s.N++
		c.Publish(walk(c, -1e-3*float64(n), 1e-3*float64(n%3)))
		c.Again(sim.Millisecond)
	}
	y := &play{Space: torus(1, 1), Limits: sim.Limits{Lookahead: sim.Millisecond, Range: 0.1, Speed: 1}}
	for i := range 20 {
		pos := at(-1e-9, float64(i)/20)
		if i%2 == 1 {
			pos = at(math.Nextafter(1, 0), -1e-300)
		}
		y.Actors = append(y.Actors, actor{Pos: pos,
			Start: func(c *sim.Context, s *part, p *props) {
				s.Pos = c.Position()
				if !inside(s.Pos) {
					s.X++
				}
				// A child is born at a position that has to be wrapped too.
				if c.Self() == 1 {
					sim.Spawn(c, p.kind, at(-1e-9, 1), part{})
				}
				c.Publish(sim.At(c.Position()))
				p.cue.Schedule(c, sim.Millisecond, int64(c.Self()))
			}, Cue: step})
	}
	y.Child.Start = func(c *sim.Context, s *part, p *props) {
		if s.Pos = c.Position(); !inside(s.Pos) {
			s.X++
		}
	}
	y.Limits.Speed = 0
	for _, s := range stageAll(t, y, 2*sim.Second, 1, 2, 4, 7) {
		if len(s.ids) != 21 {
			t.Errorf("%d regions: %d entities", s.regions, len(s.ids))
		}
		for _, id := range s.ids {
			if p := s.states[id]; p.X != 0 {
				t.Errorf("%d regions: entity %d was outside [0, 1) %d times, last at %v", s.regions, id, p.X, p.Pos)
			}
		}
	}
}

func TestCaseCornerOverTwoSeams(t *testing.T) {
	y := &play{
		Space:  torus(1, 1),
		Limits: sim.Limits{Lookahead: sim.Millisecond, Range: 0.2, Speed: 0.01},
		Actors: []actor{{Pos: at(0.1, 0.1), Light: true, Start: stand},
			lookOnce(at(0.97, 0.97), 0.2), lookOnce(at(0.05, 0.95), 0.2), lookOnce(at(0.95, 0.05), 0.2), lookOnce(at(0.3, 0.3), 0.05)},
	}
	for _, s := range stageAll(t, y, 2*sim.Second, 1, 2, 4) {
		for id := sim.EntityID(2); id < 5; id++ {
			if seen := s.states[id].Seen; len(seen) == 0 || !slices.Contains(seen, 1) {
				t.Errorf("%d regions: entity %d sees %v over the seam", s.regions, id, seen)
			}
		}
	}
	stage(t, y, 2*sim.Second, node.Options{Regions: 4, Workers: 2}, func(in node.Inside, _ sim.Time) {
		if g := in.Ghosts(1); len(g) != 3 {
			t.Errorf("ghosts in %v, want one in each of the three other regions", g)
		}
	})
}

func TestCaseOwnerAndGhost(t *testing.T) {
	y := wanderers(torus(60, 60), 40, 6, 10)
	for _, s := range stageAll(t, y, 30*sim.Second, 1, 4, 9) {
		if s.regions > 1 && s.Migrated == 0 {
			t.Error("nothing migrated")
		}
		for _, id := range s.ids {
			if n := s.states[id].X; n != 0 {
				t.Errorf("%d regions: entity %d saw itself or somebody twice, %d times", s.regions, id, n)
			}
		}
	}
	ghosts := 0
	stage(t, y, 30*sim.Second, node.Options{Regions: 4, Workers: 2}, func(in node.Inside, now sim.Time) {
		for id := sim.EntityID(1); id <= 40; id++ {
			if n := len(in.Owners(id)); n != 1 {
				t.Fatalf("at %v: entity %d has %d owners", now, id, n)
			}
			ghosts += len(in.Ghosts(id))
		}
	})
	if ghosts == 0 {
		t.Error("there never was a ghost")
	}
}

func TestCaseSameTimeOrderMatters(t *testing.T) {
	sender := func(pos sim.Vec, when sim.Duration, n int64) actor {
		return actor{Pos: pos, Start: func(c *sim.Context, _ *part, p *props) { p.last.Schedule(c, when, 0) },
			Cue: func(c *sim.Context, _ *part, p *props, _ int64) { p.cue.Send(c, 3, 5*sim.Second-when, n) }}
	}
	places := []sim.Vec{at(0.5, 0.5), at(1.5, 0.5), at(2.5, 0.5)}
	for _, o := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		y := &play{
			Space:  plane(3, 1),
			Limits: sim.Limits{Lookahead: sim.Second, Range: 1, Speed: 1},
			Actors: []actor{
				// The second to be handled is the first to be sent.
				sender(places[o[0]], 4*sim.Second, 1), sender(places[o[1]], 2*sim.Second, 2),
				{Pos: places[o[2]], Cue: func(_ *sim.Context, s *part, _ *props, n int64) {
					if n == 1 {
						s.X++
					} else {
						s.X *= 2
					}
				}},
			},
		}
		for _, s := range stageAll(t, y, 10*sim.Second, 1, 2, 3) {
			if got := s.states[3].X; got != 2 {
				t.Errorf("placed %v on %d regions: %d, want 2", o, s.regions, got)
			}
		}
	}
}

func TestCaseRandomStreams(t *testing.T) {
	y := &play{Space: plane(100, 10), Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 1, Speed: 20}}
	for i := range 100 {
		y.Actors = append(y.Actors, actor{Pos: at(float64(i), 5),
			Start: func(c *sim.Context, _ *part, p *props) {
				c.Publish(walk(c, float64(50-i)/3, 0))
				p.cue.Schedule(c, sim.Second, 0)
			},
			Cue: func(c *sim.Context, s *part, _ *props, n int64) {
				if s.Draws = append(s.Draws, c.Rand().Uint64()); len(s.Draws) < 3 {
					c.Again(sim.Second)
				}
			}})
	}
	for _, s := range stageAll(t, y, 4*sim.Second, 1, 2, 3, 7) {
		if s.regions > 1 && s.Migrated == 0 {
			t.Errorf("%d regions: nothing migrated", s.regions)
		}
		for _, id := range s.ids {
			r := sim.NewRand(1, id)
			if want := []uint64{r.Uint64(), r.Uint64(), r.Uint64()}; !slices.Equal(s.states[id].Draws, want) {
				t.Errorf("%d regions: entity %d drew %v, want %v", s.regions, id, s.states[id].Draws, want)
			}
		}
	}
}

func TestCaseThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	y := wanderers(torus(80, 80), 50, 5, 10)
	want := stage(t, y, 15*sim.Second, node.Options{Regions: 1}, nil)
	for _, procs := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(procs)
		for _, workers := range []int{1, 2, 4} {
			got := stage(t, y, 15*sim.Second, node.Options{Regions: 5, Workers: workers}, nil)
			if got.Digest != want.Digest || firstDifference(got.tape.lines, want.tape.lines) >= 0 {
				t.Errorf("%d processors, %d workers: another result", procs, workers)
			}
		}
	}
}

func TestCaseObserversMustNotDisturb(t *testing.T) {
	y := wanderers(plane(80, 80), 40, 5, 10)
	for _, regions := range []int{1, 4} {
		on := stage(t, y, 20*sim.Second, node.Options{Regions: regions}, nil)
		off := mustRun(t, y.program(t, 20*sim.Second), node.Options{Regions: regions})
		plain := mustRun(t, y.program(t, 20*sim.Second), node.Options{Regions: regions, Sink: &tape{}})
		if len(on.tape.lines) == 0 {
			t.Fatal("nothing was recorded")
		}
		if on.Digest != off.Digest || on.Digest != plain.Digest {
			t.Errorf("%d regions: digest %x with a trace, %x with observations, %x with neither", regions, on.Digest, plain.Digest, off.Digest)
		}
	}
}

// TestCaseMapOrder repeats a run in one process, where every map has another order each time; the
// command line's tests repeat it in fresh processes.
func TestCaseMapOrder(t *testing.T) {
	y := wanderers(torus(60, 60), 40, 6, 12)
	want := stage(t, y, 10*sim.Second, node.Options{Regions: 6, Workers: 2}, nil)
	for range 20 {
		got := stage(t, y, 10*sim.Second, node.Options{Regions: 6, Workers: 2}, nil)
		if i := firstDifference(got.tape.lines, want.tape.lines); i >= 0 || got.Digest != want.Digest || got.Migrated != want.Migrated {
			t.Fatalf("observation %d differs, digest %x after %x, %d migrated after %d", i, got.Digest, want.Digest, got.Migrated, want.Migrated)
		}
	}
}

func TestCaseBorderCrossingInRecords(t *testing.T) {
	const leave, enter = 1, 2
	y := &play{
		Space:  plane(10, 1),
		Limits: sim.Limits{Lookahead: 10 * sim.Millisecond, Range: 0.5, Speed: 1},
		Actors: []actor{
			{Pos: at(4, 0.5), Start: func(c *sim.Context, _ *part, p *props) {
				c.Publish(walk(c, 1, 0))
				p.first.Schedule(c, sim.Second, leave)
				p.cue.Schedule(c, sim.Second, enter)
				p.cue.Schedule(c, 3*sim.Second, 3)
			}, Cue: func(c *sim.Context, _ *part, p *props, n int64) { p.note(c, n) }},
			{Pos: at(1, 0.5)}, {Pos: at(6, 0.5)}, {Pos: at(9, 0.5)},
		},
	}
	for _, regions := range []int{1, 2, 4} {
		got := &tape{}
		out := mustRun(t, y.program(t, 5*sim.Second), node.Options{Regions: regions, Workers: 2, Sink: got})
		if regions == 2 && out.Migrated != 1 {
			t.Errorf("%d migrations for one crossing", out.Migrated)
		}
		want := []string{
			"1000000000 2000000000000001 20000 0 1: 0 0 0100000000000000 0 2",
			"1000000000 6000000000000001 30001 0 1: 0 0 0200000000000000 0 2",
			"3000000000 6000000000000001 40001 0 1: 0 0 0300000000000000 0 2",
		}
		if !slices.Equal(got.lines, want) {
			t.Errorf("%d regions: recorded %q", regions, got.lines)
		}
	}
}

func TestCaseMoreNodesThanWork(t *testing.T) {
	for _, space := range []sim.Space{{}, plane(10, 10), torus(10, 10)} {
		y := &play{Space: space, Limits: sim.Limits{Lookahead: sim.Millisecond, Range: 1, Speed: 1}}
		for i := range 3 {
			y.Actors = append(y.Actors, actor{Pos: at(float64(i), 1),
				Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, sim.Second, 0) },
				Cue: func(c *sim.Context, s *part, p *props, _ int64) {
					s.N++
					p.cue.Send(c, c.Self()%3+1, sim.Millisecond*30, 0)
				}})
		}
		for _, s := range stageAll(t, y, 2*sim.Second, 1, 8, 64) {
			if len(s.ids) != 3 || s.End != sim.Time(2*sim.Second) || s.Interrupted {
				t.Errorf("%d regions: %d entities at %v", s.regions, len(s.ids), s.End)
			}
		}
	}
}

func TestCaseLeaks(t *testing.T) {
	still := func(queries int64) *play {
		y := &play{Space: torus(10, 10), Limits: sim.Limits{Lookahead: sim.Millisecond, Range: 3, Speed: 1}}
		for i := range 100 {
			y.Actors = append(y.Actors, actor{Pos: at(float64(i%10), float64(i/10)), Start: stand})
		}
		y.Actors[0].Start = func(c *sim.Context, s *part, p *props) {
			stand(c, s, p)
			p.cue.Schedule(c, sim.Second, 0)
		}
		y.Actors[0].Cue = func(c *sim.Context, s *part, _ *props, n int64) {
			s.N++
			s.X += int64(len(c.Near(3, sim.AnyKind)) + len(c.Nearest(4, sim.AnyKind)) + len(c.Within(sim.Box{Min: at(1, 1), Max: at(4, 4)}, sim.AnyKind)))
			if s.N < queries {
				c.Again(sim.Microsecond)
			}
		}
		return y
	}
	kept := func(queries int64) int64 {
		prog := still(queries).program(t, 10*sim.Second)
		before := heapInUse()
		out := mustRun(t, prog, node.Options{Regions: 2, Workers: 1})
		defer runtime.KeepAlive(out)
		return int64(heapInUse()) - int64(before)
	}
	few, many := kept(1_000), kept(10_000)
	if grown := many - few; grown > 50_000 {
		t.Errorf("9,000 more queries on a still world keep %d bytes", grown)
	}
}

// TestCaseStopCondition: the condition is true in one region only; all stop at one time, the first
// multiple of the declared interval after it.
func TestCaseStopCondition(t *testing.T) {
	const second = sim.Second
	program := func(end, ask sim.Duration, others int) *sim.Program {
		y := clock(others)
		y.Actors = append(y.Actors, actor{Pos: at(5, 5),
			Start: func(c *sim.Context, _ *part, p *props) { p.cue.Schedule(c, ask, 0) },
			Cue: func(c *sim.Context, _ *part, _ *props, _ int64) {
				if c.Source() == c.Self() { // the others send at random
					c.Stop()
				}
			}})
		p := y.program(t, end)
		p.StopEvery = second
		return p
	}
	for _, x := range []struct {
		ask, want sim.Duration
		others    int
	}{
		{3300 * sim.Millisecond, 4 * second, 40},
		{3 * second, 4 * second, 40},
		{3300 * sim.Millisecond, 4 * second, 0}, // nothing is left to run
		{0, second, 3},
		{9500 * sim.Millisecond, 10 * second, 40},
		{20 * second, 10 * second, 40},
	} {
		there := mustRun(t, program(x.want, x.ask, x.others), node.Options{})
		for _, w := range [][2]int{{1, 1}, {2, 2}, {3, 1}, {8, 2}} {
			out := mustRun(t, program(10*second, x.ask, x.others), node.Options{Regions: w[0], Workers: w[1]})
			if out.End != sim.Time(x.want) || out.Stopped != (x.want < 10*second) || out.Interrupted {
				t.Errorf("asked at %v, %v: ended at %v, stopped %v, want %v", x.ask, w, out.End, out.Stopped, x.want)
			}
			if out.Digest != there.Digest || out.Events != there.Events {
				t.Errorf("asked at %v, %v: digest %x after %d events; a run that ends there: %x, %d", x.ask, w, out.Digest, out.Events, there.Digest, there.Events)
			}
		}
	}
	p := program(10*second, second, 2)
	p.StopEvery = 0
	if f, _ := fail(t, p, node.Options{}); !strings.Contains(f.Error(), "SetStopEvery") {
		t.Error(f)
	}
}
