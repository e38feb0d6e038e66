package node_test

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// storm is a model that does everything an entity may do, at random: the engine is compared with the
// reference on it.
type storm struct {
	Entities  int
	Space     sim.Space
	Limits    sim.Limits
	Step      sim.Duration
	Clustered bool
	MaxAlive  int64
}

type stormState struct {
	Hash  uint64
	Timer sim.Ref
	Flag  bool // padding after it
	Level int32
	Name  string
	List  []int16
	Born  sim.Time
}

type poke struct {
	A uint64
	B uint8 // padding after it
	C uint32
}

type parcel struct {
	Words [6]uint64
	Small uint8
}

type attrs struct {
	Mood int32
	Age  float64
}

type sighting struct {
	Other sim.EntityID `col:"other"`
	Dist  float64      `col:"distance" unit:"m"`
	Near  bool         `col:"near"`
	Tag   [5]byte      `col:"tag"`
}

func stormModel() sim.Model {
	return sim.Define(sim.Model{Name: "storm"}, setupStorm)
}

func (s *stormState) fold(x uint64) { s.Hash = sim.Digest(s.Hash, x, s.Hash>>7) }

func setupStorm(b *sim.Builder, p *storm) error {
	b.SetSpace(p.Space)
	b.SetLimits(p.Limits)
	tick := sim.DefineEvent[sim.None](b, "tick", sim.Planned)
	hit := sim.DefineEvent[poke](b, "poke", sim.Interaction)
	box := sim.DefineEvent[parcel](b, "parcel", sim.State)
	now := sim.DefineEvent[uint32](b, "now", sim.System)
	late := sim.DefineEvent[uint16](b, "late", sim.Statistics)
	bird := sim.DefineKind[stormState](b, "bird", "does everything")
	post := sim.DefineKind[stormState](b, "post", "stands and looks")
	pub := sim.DefinePublic[attrs](b)
	hits := sim.DefineCounter(b, "hits", "1", "pokes")
	level := sim.DefineGauge(b, "level", "1", "alive", 0)
	dist := sim.DefineSample(b, "distance", "m", "to what was seen")
	seen := sim.DefineTable[sighting](b, "sightings", "what was seen")
	spatial := p.Space.Kind != sim.NoSpace

	look := func(c *sim.Context, s *stormState) []sim.Seen {
		r := c.Rand()
		var list []sim.Seen
		switch r.IntN(4) {
		case 0:
			list = c.Nearest(int(r.IntN(5)), sim.AnyKind)
		case 1:
			q := c.Position()
			w := p.Limits.Range / 2
			if p.Space.Kind == sim.Earth {
				w = 1
			}
			list = c.Within(sim.Box{Min: sim.Vec{X: q.X - w, Y: q.Y - w, Z: -1e9}, Max: sim.Vec{X: q.X + w/2, Y: q.Y + w, Z: 1e9}}, bird.Set()|post.Set())
		default:
			list = c.Near(p.Limits.Range*r.Float64(), bird.Set()|post.Set())
		}
		for i := range list {
			o := &list[i]
			a := pub.Of(o)
			s.fold(uint64(o.ID))
			s.fold(math.Float64bits(o.Distance) ^ math.Float64bits(o.Position.X))
			s.fold(uint64(a.Mood) ^ math.Float64bits(a.Age) ^ uint64(o.Motion.Start))
			dist.Observe(c, o.Distance)
			if i < 2 {
				seen.Write(c, sighting{o.ID, o.Distance, bird.Is(o), [5]byte{'a' + byte(i)}})
			}
		}
		return list
	}
	move := func(c *sim.Context, s *stormState) {
		r := c.Rand()
		m := sim.Motion{Start: c.Now(), Stop: sim.Never, From: c.Position()}
		if p.Limits.Speed == 0 && r.Bernoulli(0.3) {
			m.From.X = r.Uniform(p.Space.Bounds.Min.X, p.Space.Bounds.Max.X)
			m.From.Y = r.Uniform(p.Space.Bounds.Min.Y, p.Space.Bounds.Max.Y)
		}
		speed := p.Limits.Speed
		if speed == 0 {
			speed = 3
		}
		if r.Bernoulli(0.8) {
			v := speed * r.Float64() * 0.7
			if p.Space.Kind == sim.Earth {
				m.Vel = sim.Vec{X: r.Uniform(0, 360), Y: v, Z: r.Uniform(-1, 1)}
			} else {
				a := r.Uniform(0, 2*math.Pi)
				m.Vel = sim.Vec{X: v * math.Cos(a), Y: v * math.Sin(a)}
			}
		}
		if r.Bernoulli(0.3) {
			m.Stop = c.Now().Add(r.ExpDuration(4 * p.Step))
		}
		pub.Publish(c, m, attrs{s.Level, c.Now().Seconds()})
	}
	act := func(c *sim.Context, s *stormState) {
		r := c.Rand()
		delay := func() sim.Duration { return p.Limits.Lookahead + r.ExpDuration(p.Step) }
		switch x := r.IntN(16); {
		case x < 3 && spatial:
			move(c, s)
		case x < 7 && spatial:
			for i, o := range look(c, s) {
				if i < 2 {
					hit.Send(c, o.ID, delay(), poke{uint64(i), 7, uint32(o.Kind)})
				}
			}
		case x == 7:
			if c.Cancel(s.Timer) {
				s.fold(77)
			}
			s.Timer = late.Schedule(c, r.ExpDuration(3*p.Step), 9)
		case x == 8:
			now.Schedule(c, 0, 5)
			s.Timer = now.Schedule(c, 0, 6)
			if r.Bernoulli(0.5) {
				s.fold(map[bool]uint64{true: 1, false: 2}[c.Cancel(s.Timer)])
			}
		case x == 9 && int64(s.Level) < p.MaxAlive:
			s.Level++
			pos := sim.Vec{}
			if spatial {
				pos = c.Position()
			}
			level.Add(c, 1)
			id := sim.Spawn(c, bird, pos, stormState{Hash: uint64(c.Self()), Level: s.Level + 1, Born: c.Now()})
			s.fold(uint64(id))
			if !p.Limits.LocalSends {
				hit.Send(c, id, delay(), poke{A: 3})
			}
		case x == 10 && r.Bernoulli(0.2):
			level.Add(c, -1)
			c.Remove()
		case x == 11 && spatial:
			c.Hide()
		case !p.Limits.LocalSends:
			to := sim.EntityID(r.IntN(int64(p.Entities)) + 1)
			box.Send(c, to, delay(), parcel{Words: [6]uint64{s.Hash, 1, 2}, Small: 9})
			hit.Send(c, to, delay(), poke{A: s.Hash, B: 1, C: 2})
		}
		s.Name = fmt.Sprint("n", s.Hash%100)
		s.List = append(s.List[:min(len(s.List), 3)], int16(s.Hash))
	}
	for _, k := range []sim.Kind[stormState]{bird, post} {
		sim.OnStart(k, func(c *sim.Context, s *stormState) {
			s.fold(c.Rand().Uint64())
			if spatial && c.Rand().Bernoulli(0.9) {
				move(c, s)
			}
			tick.Schedule(c, c.Rand().ExpDuration(p.Step), sim.None{})
		})
		sim.Handle(k, tick, func(c *sim.Context, s *stormState, _ sim.None) {
			act(c, s)
			// Whole steps, so that many events fall on one time.
			c.Again(p.Step * sim.Duration(1+c.Rand().IntN(3)))
		})
		sim.Handle(k, hit, func(c *sim.Context, s *stormState, v poke) {
			hits.Add(c, 1)
			s.fold(v.A ^ uint64(v.B)<<40 ^ uint64(v.C) ^ uint64(c.Source()))
		})
		sim.Handle(k, box, func(c *sim.Context, s *stormState, v parcel) {
			s.fold(v.Words[0] + v.Words[5] + uint64(v.Small))
			if v.Small == 9 && c.Rand().Bernoulli(0.1) {
				c.Again(p.Step)
			}
		})
		sim.Handle(k, now, func(c *sim.Context, s *stormState, v uint32) { s.fold(uint64(v)) })
		sim.Handle(k, late, func(c *sim.Context, s *stormState, v uint16) { s.fold(uint64(v) << 20) })
	}
	r := b.Stream("places")
	for i := range p.Entities {
		lo, hi := p.Space.Bounds.Min, p.Space.Bounds.Max
		pos := sim.Vec{X: r.Uniform(lo.X, hi.X), Y: r.Uniform(lo.Y, hi.Y)}
		if p.Clustered && i%3 > 0 {
			pos = sim.Vec{X: lo.X + (hi.X-lo.X)*(0.5+0.01*r.Float64()), Y: lo.Y + (hi.Y-lo.Y)*0.5}
		}
		if i%7 == 3 {
			sim.Add(post, pos, stormState{})
		} else {
			id := sim.Add(bird, pos, stormState{})
			hit.Init(b, id, sim.Time(p.Step), poke{A: 5})
		}
	}
	return nil
}

// drawStorm draws the parameters of a storm from a seed.
func drawStorm(seed uint64) (*storm, sim.Duration) {
	r := sim.NewRand(seed, 99)
	p := &storm{Entities: int(3 + r.IntN(60)), Step: sim.Second, Clustered: r.Bernoulli(0.4), MaxAlive: 3}
	p.Limits.Lookahead = []sim.Duration{1, sim.Millisecond, 100 * sim.Millisecond, sim.Second, 5 * sim.Second}[r.IntN(5)]
	p.Limits.Range = r.Uniform(1, 40)
	if r.Bernoulli(0.75) {
		p.Limits.Speed = []float64{0.5, 3, 20}[r.IntN(3)]
		p.Limits.LocalSends = r.Bernoulli(0.5)
	}
	side := r.Uniform(20, 400)
	switch r.IntN(5) {
	case 0:
		p.Limits.LocalSends = false
	case 1:
		p.Space = sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Min: sim.Vec{X: -side, Y: -side}, Max: sim.Vec{X: side, Y: side}}}
	case 2:
		p.Space = sim.Space{Kind: sim.Torus, Dims: 2, Periodic: [3]bool{true, true}, Bounds: sim.Box{Max: sim.Vec{X: side, Y: side}}}
	case 3:
		p.Space = sim.Space{Kind: sim.Torus, Dims: 3, Periodic: [3]bool{true, false, true}, Bounds: sim.Box{Max: sim.Vec{X: side, Y: side, Z: side}}}
	case 4:
		p.Space = sim.Space{Kind: sim.Earth, Dims: 3, Bounds: sim.Box{Min: sim.Vec{X: -180, Y: -90}, Max: sim.Vec{X: 180, Y: 90}}}
		if r.Bernoulli(0.5) {
			p.Space.Bounds = sim.Box{Min: sim.Vec{X: 170, Y: 60}, Max: sim.Vec{X: 180, Y: 90}}
		}
		p.Limits.Range *= 2e4
		p.Limits.Speed *= 5e3
	}
	if p.Space.Kind == sim.NoSpace {
		p.Limits.LocalSends = false
	}
	return p, sim.Duration(10+r.IntN(20)) * sim.Second
}

func stormProgram(t testing.TB, seed uint64) *sim.Program {
	p, end := drawStorm(seed)
	prog, err := sim.NewProgram(stormModel(), p, sim.Space{}, seed, sim.Time(end))
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// tape keeps what was observed as text.
type tape struct{ lines []string }

func (s *tape) Observe(obs []sim.Observation) error {
	for _, o := range obs {
		s.lines = append(s.lines, fmt.Sprintf("%d %x %x %d %d: %d %v %x %d %d", o.Time, o.Key, o.Seq, o.Index, o.Entity, o.Series, o.Value, o.Row, o.Kind, o.Op))
	}
	return nil
}

// TestStormEqualsReference runs random models on the engine with several numbers of regions and
// workers, and on the reference: digests and observations must be equal.
func TestStormEqualsReference(t *testing.T) {
	seeds := 150
	if n, err := strconv.Atoi(os.Getenv("STORM_SEEDS")); err == nil {
		seeds = n
	}
	if testing.Short() {
		seeds = 30
	}
	cuts, migrated, dropped := 0, 0, uint64(0)
	for seed := range uint64(seeds) {
		want := runReference(stormProgram(t, seed))
		for _, rw := range [][2]int{{1, 1}, {2, 2}, {3, 1}, {8, 2}} {
			got := &tape{}
			out := mustRun(t, stormProgram(t, seed), node.Options{Regions: rw[0], Workers: rw[1], Sink: got, Trace: true})
			cuts, migrated, dropped = cuts+out.Cuts, migrated+out.Migrated, dropped+out.Dropped
			if out.Digest != want.digest || out.Events != want.events || out.Entities != want.entities {
				t.Errorf("seed %d, %d regions, %d workers: digest %x after %d events with %d entities; reference %x, %d, %d",
					seed, rw[0], rw[1], out.Digest, out.Events, out.Entities, want.digest, want.events, want.entities)
			}
			if i := firstDifference(got.lines, want.tape.lines); i >= 0 {
				t.Errorf("seed %d, %d regions: observation %d of %d (reference %d):\n%s\nreference:\n%s", seed, rw[0], i,
					len(got.lines), len(want.tape.lines), lineAt(got.lines, i), lineAt(want.tape.lines, i))
				return
			}
		}
	}
	t.Logf("%d cuts, %d entities migrated, %d events dropped", cuts, migrated, dropped)
	if cuts == 0 || migrated == 0 || dropped == 0 {
		t.Error("the storms must bring about cuts, migrations and events to removed entities")
	}
}

func firstDifference(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if lineAt(a, i) != lineAt(b, i) {
			return i
		}
	}
	return -1
}

func lineAt(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return "(none)"
}
