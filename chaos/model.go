package chaos

import (
	"fmt"
	"math"

	"github.com/simnode/simnode/models/phold"
	"github.com/simnode/simnode/sim"
)

// newProgram sets the program of a seed up; end, if not negative, is another end than its own. The same
// arguments give the same program.
func newProgram(seed uint64, end sim.Time) (*sim.Program, error) {
	r := newStream(seed, streamProgram)
	if r.Bernoulli(0.15) {
		return newPhold(r, seed, end)
	}
	p := drawCrowd(r)
	if end < 0 {
		end = p.end
	}
	return sim.NewProgram(crowdModel(), p, sim.Space{}, seed, end)
}

func newPhold(r *stream, seed uint64, end sim.Time) (*sim.Program, error) {
	m := phold.Model()
	p := m.NewParams().(*phold.Params)
	*p = phold.Params{
		Entities: 4 + r.IntN(60), Population: 1 + r.IntN(2), Lookahead: pick(r, 10*sim.Millisecond, 100*sim.Millisecond, sim.Second),
		Remote: r.Float64(), Destinations: pick(r, "uniform", "spatial"), Radius: 1 + r.IntN(3),
	}
	p.Mean = p.Lookahead + pick(r, 100*sim.Millisecond, sim.Second)
	if end < 0 {
		end = sim.Time(sim.Duration(5+r.IntN(15)) * sim.Second)
	}
	return sim.NewProgram(m, p, sim.Space{}, seed, end)
}

// crowd is a model whose entities do at random all that an entity may do: publish, look, send, schedule,
// cancel, spawn, remove themselves, observe, move from region to region, stop the run, break the rules.
type crowd struct {
	entities  int
	space     sim.Space
	limits    sim.Limits
	step      sim.Duration
	clustered bool
	end       sim.Time
	// stopEvery, if not 0, lets the entity stopper end the run from stopFrom on.
	stopEvery sim.Duration
	stopFrom  sim.Time
	stopper   sim.EntityID
	// fails are the entities that break the rules, each at its first tick from a time on.
	fails map[sim.EntityID]sim.Time // looked up, never iterated
}

func drawCrowd(r *stream) *crowd {
	p := &crowd{entities: 3 + r.n(pick(r, 20, 60)), step: sim.Second, clustered: r.Bernoulli(0.4), end: sim.Time(sim.Duration(6+r.n(24)) * sim.Second)}
	l := &p.limits
	l.Lookahead = pick(r, sim.Millisecond, 30*sim.Millisecond, 100*sim.Millisecond, 300*sim.Millisecond, sim.Second)
	l.Range = r.Uniform(1, 40)
	if r.Bernoulli(0.75) {
		l.Speed = pick(r, 0.5, 3, 20, 60)
		l.LocalSends = r.Bernoulli(0.5)
	}
	p.drawSpace(r)
	if p.space.Kind == sim.NoSpace {
		l.LocalSends = false
	}
	if r.Bernoulli(0.15) {
		p.stopEvery = pick(r, sim.Second, 1700*sim.Millisecond)
		p.stopFrom = sim.Time(r.IntN(int64(p.end)))
		p.stopper = sim.EntityID(1 + r.n(p.entities))
	}
	p.fails = map[sim.EntityID]sim.Time{}
	if r.Bernoulli(0.12) {
		at := sim.Time(r.IntN(int64(p.end)))
		for range 1 + r.n(3) {
			p.fails[sim.EntityID(1+r.n(p.entities))] = at
		}
	}
	return p
}

func (p *crowd) drawSpace(r *stream) {
	side := r.Uniform(20, 400)
	switch r.n(6) {
	case 0:
	case 1, 2:
		p.space = sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Min: sim.Vec{X: -side, Y: -side}, Max: sim.Vec{X: side, Y: side}}}
	case 3:
		p.space = sim.Space{Kind: sim.Torus, Dims: 2, Periodic: [3]bool{true, true}, Bounds: sim.Box{Max: sim.Vec{X: side, Y: side}}}
	case 4:
		p.space = sim.Space{Kind: sim.Torus, Dims: 3, Periodic: [3]bool{true, false, true}, Bounds: sim.Box{Max: sim.Vec{X: side, Y: side, Z: side}}}
	case 5:
		p.space = sim.Space{Kind: sim.Earth, Dims: 3, Bounds: sim.Box{Min: sim.Vec{X: -180, Y: -90}, Max: sim.Vec{X: 180, Y: 90}}}
		p.limits.Range *= 2e4
		p.limits.Speed *= 5e3
	}
}

type personState struct {
	Hash  uint64
	Timer sim.Ref
	Flag  bool // padding after it
	Level int32
	Name  string
	List  []int16
}

type letter struct {
	Words [6]uint64
	Small uint8
}

type mood struct {
	Level int32
	Age   float64
}

type sighting struct {
	Other    sim.EntityID `col:"other"`
	Distance float64      `col:"distance" unit:"m"`
	Tag      [5]byte      `col:"tag"`
}

func (s *personState) fold(x uint64) { s.Hash = sim.Digest(s.Hash, x, s.Hash>>7) }

func crowdModel() sim.Model {
	return sim.Define(sim.Model{Name: "crowd", Summary: "does all that an entity may do"}, func(b *sim.Builder, p *crowd) error {
		p.declare(b)
		return nil
	})
}

// crowdParts are what the handlers of a crowd share.
type crowdParts struct {
	*crowd
	spatial      bool
	tick, soon   sim.Event[sim.None]
	poke         sim.Event[uint32]
	box          sim.Event[letter]
	late         sim.Event[uint16]
	walker, post sim.Kind[personState]
	public       sim.Public[mood]
	pokes        sim.Counter
	level        sim.Gauge
	distance     sim.Sample
	sightings    sim.Table[sighting]
	everybody    sim.KindSet
}

func (p *crowd) declare(b *sim.Builder) {
	b.SetSpace(p.space)
	b.SetLimits(p.limits)
	if p.stopEvery > 0 {
		b.SetStopEvery(p.stopEvery)
	}
	m := &crowdParts{crowd: p, spatial: p.space.Kind != sim.NoSpace}
	m.tick = sim.DefineEvent[sim.None](b, "tick", sim.Planned)
	m.soon = sim.DefineEvent[sim.None](b, "soon", sim.System)
	m.poke = sim.DefineEvent[uint32](b, "poke", sim.Interaction)
	m.box = sim.DefineEvent[letter](b, "box", sim.State)
	m.late = sim.DefineEvent[uint16](b, "late", sim.Statistics)
	m.walker = sim.DefineKind[personState](b, "walker", "does everything")
	m.post = sim.DefineKind[personState](b, "post", "stands and looks")
	m.public = sim.DefinePublic[mood](b)
	m.pokes = sim.DefineCounter(b, "pokes", "1", "pokes")
	m.level = sim.DefineGauge(b, "level", "1", "alive", 0)
	m.distance = sim.DefineSample(b, "distance", "m", "to what was seen")
	m.sightings = sim.DefineTable[sighting](b, "sightings", "what was seen")
	m.everybody = m.walker.Set() | m.post.Set()
	for _, k := range []sim.Kind[personState]{m.walker, m.post} {
		m.handle(k)
	}
	m.populate(b)
	b.Results(func(f *sim.Final) (map[string]any, error) {
		h := uint64(0)
		for _, k := range []sim.Kind[personState]{m.walker, m.post} {
			sim.Each(f, k, func(id sim.EntityID, s *personState) { h = sim.Digest(h, uint64(id), s.Hash^uint64(len(s.List))) })
		}
		return map[string]any{"hash": fmt.Sprintf("%016x", h)}, nil
	})
}

func (m *crowdParts) populate(b *sim.Builder) {
	r := b.Stream("places")
	for i := range m.entities {
		lo, hi := m.space.Bounds.Min, m.space.Bounds.Max
		pos := sim.Vec{X: r.Uniform(lo.X, hi.X), Y: r.Uniform(lo.Y, hi.Y)}
		if m.clustered && i%3 > 0 {
			pos = sim.Vec{X: lo.X + (hi.X-lo.X)*(0.5+0.01*r.Float64()), Y: lo.Y + (hi.Y-lo.Y)*0.5}
		}
		if i%7 == 3 {
			sim.Add(m.post, pos, personState{})
			continue
		}
		id := sim.Add(m.walker, pos, personState{})
		m.poke.Init(b, id, sim.Time(m.step), 5)
	}
}

func (m *crowdParts) handle(k sim.Kind[personState]) {
	sim.OnStart(k, func(c *sim.Context, s *personState) {
		s.fold(c.Rand().Uint64())
		if m.spatial && c.Rand().Bernoulli(0.9) {
			m.move(c, s)
		}
		m.tick.Schedule(c, c.Rand().ExpDuration(m.step), sim.None{})
	})
	sim.Handle(k, m.tick, func(c *sim.Context, s *personState, _ sim.None) {
		m.misbehave(c)
		m.act(c, s)
		s.Name = fmt.Sprint("n", s.Hash%100)
		s.List = append(s.List[:min(len(s.List), 3)], int16(s.Hash))
		// Whole steps, so that many events fall on one time.
		c.Again(m.step * sim.Duration(1+c.Rand().IntN(3)))
	})
	sim.Handle(k, m.poke, func(c *sim.Context, s *personState, v uint32) {
		m.pokes.Add(c, 1)
		s.fold(uint64(v)<<32 ^ uint64(c.Source()))
	})
	sim.Handle(k, m.box, func(c *sim.Context, s *personState, v letter) {
		s.fold(v.Words[0] + v.Words[5] + uint64(v.Small))
		if c.Rand().Bernoulli(0.1) {
			c.Again(m.step)
		}
	})
	sim.Handle(k, m.soon, func(_ *sim.Context, s *personState, _ sim.None) { s.fold(3) })
	sim.Handle(k, m.late, func(_ *sim.Context, s *personState, v uint16) { s.fold(uint64(v) << 20) })
}

// misbehave ends the run, well or badly, where that was drawn.
func (m *crowdParts) misbehave(c *sim.Context) {
	if at, ok := m.fails[c.Self()]; ok && c.Now() >= at {
		m.tick.Schedule(c, -1, sim.None{})
	}
	if m.stopEvery > 0 && c.Self() == m.stopper && c.Now() >= m.stopFrom {
		c.Stop()
	}
}

func (m *crowdParts) delay(c *sim.Context) sim.Duration {
	return m.limits.Lookahead + c.Rand().ExpDuration(m.step)
}

func (m *crowdParts) act(c *sim.Context, s *personState) {
	r := c.Rand()
	switch x := r.IntN(16); {
	case x < 3 && m.spatial:
		m.move(c, s)
	case x < 7 && m.spatial:
		m.look(c, s)
	case x == 7:
		if c.Cancel(s.Timer) {
			s.fold(77)
		}
		s.Timer = m.late.Schedule(c, r.ExpDuration(3*m.step), 9)
	case x == 8:
		m.soon.Schedule(c, 0, sim.None{})
		s.Timer = m.soon.Schedule(c, 0, sim.None{})
		if r.Bernoulli(0.5) && c.Cancel(s.Timer) {
			s.fold(1)
		}
	case x == 9 && s.Level < 3:
		m.spawn(c, s)
	case x == 10 && r.Bernoulli(0.2):
		m.level.Add(c, -1)
		c.Remove()
	case x == 11 && m.spatial:
		c.Hide()
	case !m.limits.LocalSends:
		to := sim.EntityID(r.IntN(int64(m.entities)) + 1)
		m.box.Send(c, to, m.delay(c), letter{Words: [6]uint64{s.Hash, 1, 2}, Small: 9})
		m.poke.Send(c, to, m.delay(c), uint32(s.Hash))
	}
}

func (m *crowdParts) spawn(c *sim.Context, s *personState) {
	s.Level++
	pos := sim.Vec{}
	if m.spatial {
		pos = c.Position()
	}
	m.level.Add(c, 1)
	id := sim.Spawn(c, m.walker, pos, personState{Hash: uint64(c.Self()), Level: s.Level + 1})
	s.fold(uint64(id))
	if !m.limits.LocalSends {
		m.poke.Send(c, id, m.delay(c), 3)
	}
}

func (m *crowdParts) look(c *sim.Context, s *personState) {
	r := c.Rand()
	var list []sim.Seen
	if r.Bernoulli(0.3) {
		list = c.Nearest(int(r.IntN(5)), sim.AnyKind)
	} else {
		list = c.Near(m.limits.Range*r.Float64(), m.everybody)
	}
	for i := range list {
		o := &list[i]
		a := m.public.Of(o)
		s.fold(uint64(o.ID) ^ uint64(a.Level))
		s.fold(math.Float64bits(o.Distance) ^ math.Float64bits(o.Position.X) ^ math.Float64bits(a.Age) ^ uint64(o.Motion.Start))
		m.distance.Observe(c, o.Distance)
		if i < 2 {
			m.sightings.Write(c, sighting{o.ID, o.Distance, [5]byte{'a' + byte(i)}})
			m.poke.Send(c, o.ID, m.delay(c), uint32(o.Kind))
		}
	}
}

func (m *crowdParts) move(c *sim.Context, s *personState) {
	r := c.Rand()
	to := sim.Motion{Start: c.Now(), Stop: sim.Never, From: c.Position()}
	speed := m.limits.Speed
	if speed == 0 {
		speed = 3
		if r.Bernoulli(0.3) {
			to.From.X = r.Uniform(m.space.Bounds.Min.X, m.space.Bounds.Max.X)
			to.From.Y = r.Uniform(m.space.Bounds.Min.Y, m.space.Bounds.Max.Y)
		}
	}
	if r.Bernoulli(0.8) {
		v := speed * r.Float64() * 0.7
		if m.space.Kind == sim.Earth {
			to.Vel = sim.Vec{X: r.Uniform(0, 360), Y: v, Z: r.Uniform(-1, 1)}
		} else {
			a := r.Uniform(0, 2*math.Pi)
			to.Vel = sim.Vec{X: v * math.Cos(a), Y: v * math.Sin(a)}
		}
	}
	if r.Bernoulli(0.3) {
		to.Stop = c.Now().Add(r.ExpDuration(4 * m.step))
	}
	m.public.Publish(c, to, mood{s.Level, c.Now().Seconds()})
}
