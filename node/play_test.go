package node_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// play is a model that a test writes down: what each entity does at its start and on a cue.
type play struct {
	Space  sim.Space
	Limits sim.Limits
	Actors []actor
	// Child is what spawned entities do.
	Child actor
}

// actor is an entity of a play.
type actor struct {
	Pos sim.Vec
	// Light entities do not count in the cut into regions.
	Light bool
	Start func(c *sim.Context, s *part, p *props)
	Cue   func(c *sim.Context, s *part, p *props, n int64)
}

// part is the state of an actor.
type part struct {
	N, X  int64
	Pos   sim.Vec
	Ref   sim.Ref
	Log   []int64
	Seen  []sim.EntityID
	Draws []uint64
}

// props are what actors act with.
type props struct {
	first, cue, last sim.Event[int64]
	unheard          sim.Event[int64]
	large            sim.Event[[64]int64]
	kind             sim.Kind[part]
	notes            sim.Table[note]
	count            sim.Counter
}

type note struct {
	What int64 `col:"what"`
}

func (p *props) note(c *sim.Context, what int64) { p.notes.Write(c, note{what}) }

func playModel() sim.Model { return sim.Define(sim.Model{Name: "play"}, setupPlay) }

func setupPlay(b *sim.Builder, y *play) error {
	b.SetSpace(y.Space)
	b.SetLimits(y.Limits)
	p := &props{
		first: sim.DefineEvent[int64](b, "first", sim.Interaction),
		cue:   sim.DefineEvent[int64](b, "cue", sim.Planned),
		last:  sim.DefineEvent[int64](b, "last", sim.Statistics),
		large: sim.DefineEvent[[64]int64](b, "large", sim.State),
	}
	p.unheard = sim.DefineEvent[int64](b, "unheard", sim.State)
	p.kind = sim.DefineKind[part](b, "actor", "acts")
	p.notes = sim.DefineTable[note](b, "notes", "what actors note")
	p.count = sim.DefineCounter(b, "count", "1", "cues")
	find := func(id sim.EntityID) *actor {
		if i := int(id) - 1; i < len(y.Actors) {
			return &y.Actors[i]
		}
		return &y.Child
	}
	sim.OnStart(p.kind, func(c *sim.Context, s *part) {
		if a := find(c.Self()); a.Start != nil {
			a.Start(c, s, p)
		}
	})
	for _, e := range []sim.Event[int64]{p.first, p.cue, p.last} {
		sim.Handle(p.kind, e, func(c *sim.Context, s *part, n int64) {
			if a := find(c.Self()); a.Cue != nil {
				a.Cue(c, s, p, n)
			}
		})
	}
	sim.Handle(p.kind, p.large, func(c *sim.Context, s *part, n [64]int64) {
		for i, x := range n {
			s.X = int64(sim.Digest(uint64(s.X), uint64(x), uint64(i)))
		}
		s.N++
	})
	for _, a := range y.Actors {
		id := sim.Add(p.kind, a.Pos, part{})
		if a.Light {
			b.SetWeight(id, 0)
		}
	}
	return nil
}

func (y *play) program(t testing.TB, end sim.Duration) *sim.Program {
	t.Helper()
	prog, err := sim.NewProgram(playModel(), y, sim.Space{}, 1, sim.Time(end))
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// staged is a run of a play.
type staged struct {
	*node.Outcome
	regions int
	ids     []sim.EntityID
	states  map[sim.EntityID]part
	tape    tape
}

// stage runs a play; what is owned and shown is checked at every cut, and watch may look too.
func stage(t testing.TB, y *play, end sim.Duration, o node.Options, watch func(in node.Inside, at sim.Time)) *staged {
	t.Helper()
	s := &staged{states: map[sim.EntityID]part{}, regions: o.Regions}
	o.Sink, o.Trace = &s.tape, true
	var inside error
	ended := false
	out, err := node.RunInside(context.Background(), y.program(t, end), o, func(in node.Inside, at sim.Time) {
		if inside == nil && !ended {
			inside = in.Check(at, at < sim.Time(end))
			ended = at >= sim.Time(end)
		}
		if watch != nil {
			watch(in, at)
		}
	})
	if err != nil {
		t.Fatalf("%d regions: %v", o.Regions, err)
	}
	if inside != nil {
		t.Fatalf("%d regions: %v", o.Regions, inside)
	}
	s.Outcome = out
	out.States(func(id sim.EntityID, _ uint16, p unsafe.Pointer) bool {
		s.ids = append(s.ids, id)
		s.states[id] = *(*part)(p)
		return true
	})
	return s
}

// stageAll runs a play on each number of regions and compares everything that is recorded.
func stageAll(t testing.TB, y *play, end sim.Duration, regions ...int) []*staged {
	t.Helper()
	var all []*staged
	for _, n := range regions {
		all = append(all, stage(t, y, end, node.Options{Regions: n, Workers: 2}, nil))
	}
	for _, s := range all[1:] {
		first := all[0]
		if s.Digest != first.Digest || s.Events != first.Events || s.Dropped != first.Dropped || !slices.Equal(s.ids, first.ids) {
			t.Errorf("%d regions: digest %x, %d events, %d dropped, %d entities; %d regions: %x, %d, %d, %d", s.regions, s.Digest, s.Events,
				s.Dropped, s.Entities, first.regions, first.Digest, first.Events, first.Dropped, first.Entities)
		}
		if i := firstDifference(s.tape.lines, first.tape.lines); i >= 0 {
			t.Errorf("%d regions: observation %d is %s; %d regions: %s", s.regions, i, lineAt(s.tape.lines, i), first.regions, lineAt(first.tape.lines, i))
		}
	}
	return all
}

func plane(w, h float64) sim.Space {
	return sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Max: sim.Vec{X: w, Y: h}}}
}

func torus(w, h float64) sim.Space {
	return sim.Space{Kind: sim.Torus, Dims: 2, Periodic: [3]bool{true, true}, Bounds: sim.Box{Max: sim.Vec{X: w, Y: h}}}
}

func at(x, y float64) sim.Vec { return sim.Vec{X: x, Y: y} }

// walk is a motion that begins now.
func walk(c *sim.Context, vx, vy float64) sim.Motion {
	return sim.Motion{Start: c.Now(), Stop: sim.Never, From: c.Position(), Vel: at(vx, vy)}
}

// stand shows an actor where it was added.
func stand(c *sim.Context, _ *part, _ *props) { c.Publish(sim.At(c.Position())) }

// look notes whom the actor sees within r, in the order of the answer.
func look(c *sim.Context, s *part, r float64) {
	for _, o := range c.Near(r, sim.AnyKind) {
		s.Seen = append(s.Seen, o.ID)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// wanderers walk at random and look around; X counts what must not be seen.
func wanderers(space sim.Space, n int, speed, radius float64) *play {
	y := &play{Space: space, Limits: sim.Limits{Lookahead: 50 * sim.Millisecond, Range: radius, Speed: speed}}
	r := sim.NewRand(7, 7)
	for range n {
		b := space.Bounds
		y.Actors = append(y.Actors, actor{
			Pos: at(r.Uniform(b.Min.X, b.Max.X), r.Uniform(b.Min.Y, b.Max.Y)),
			Start: func(c *sim.Context, _ *part, p *props) {
				wander(c, speed)
				p.cue.Schedule(c, c.Rand().ExpDuration(sim.Second), 0)
			},
			Cue: func(c *sim.Context, s *part, p *props, n int64) {
				seen := map[sim.EntityID]bool{c.Self(): true}
				for _, o := range c.Near(radius, sim.AnyKind) {
					if seen[o.ID] {
						s.X++
					}
					seen[o.ID] = true
					s.N = int64(sim.Digest(uint64(s.N), uint64(o.ID), uint64(o.Distance*1e6)))
					if n == 0 && c.Rand().Bernoulli(0.3) {
						p.first.Send(c, o.ID, 60*sim.Millisecond, 5)
					}
				}
				if n == 0 {
					wander(c, speed)
					p.cue.Schedule(c, c.Rand().ExpDuration(sim.Second), 0)
				}
				p.note(c, s.N)
			},
		})
	}
	return y
}

func wander(c *sim.Context, speed float64) {
	a, b := c.Rand().Uniform(-0.7, 0.7)*speed, c.Rand().Uniform(-0.7, 0.7)*speed
	c.Publish(walk(c, a, b))
}

var _ = fmt.Sprint
