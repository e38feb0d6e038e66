package airspace

import (
	"math"

	"github.com/simnode/simnode/sim"
)

// flight is an aircraft: its state and, unchanged, what it publishes. With the route, which is the
// same for all of its flights, it says where the aircraft is at any time.
type flight struct {
	Depart sim.Time
	Route  int32
	// Level in hundreds of feet.
	Level int32
}

// metresPerLevel is one flight level, 100 ft, in metres; levelMM the same in millimetres.
const (
	metresPerLevel = 30.48
	levelMM        = 30480
)

// maxLevel is the highest level that flights use.
const maxLevel = 410

// levels are the flight levels low, low+20, ..., high.
type levels struct{ low, high int32 }

// levelsFor returns the levels allowed for a course in degrees and a length in metres.
//
// Direction: eastbound courses (0 to 179) use odd levels, westbound ones even levels, 1,000 ft apart up
// to 410 (ICAO Annex 2, appendix 3, with reduced vertical separation). Courses are true here, the rule's are
// magnetic. Length: a rule of thumb, one thousand feet for each ten nautical miles, bounds the level
// between 70 and 410; flights take the levels between 290 and that bound, or the upper 6,000 ft
// below it where it is lower.
func levelsFor(course, length float64) levels {
	bound := int32(math.Max(70, math.Min(maxLevel, math.Floor(length/1852))))
	parity := int32(0)
	if course = math.Mod(math.Mod(course, 360)+360, 360); course < 180 {
		parity = 10
	}
	low := max(min(290, bound-60), 30)
	return levels{low: up(low, parity), high: up(bound-19, parity)}
}

// up returns the least level >= x that is parity modulo 20.
func up(x, parity int32) int32 {
	return (x-parity+19)/20*20 + parity
}

func (l levels) draw(rng *sim.Rand) int32 {
	return l.low + 20*int32(rng.IntN(int64(l.high-l.low)/20+1))
}

// motion returns where f is at any time.
func (m *airspace) motion(f flight) sim.Motion {
	r := &m.net.routes[f.Route]
	mo := r.motion
	mo.Start = f.Depart
	mo.Stop = f.Depart.Add(r.flightTime)
	mo.From.Z = float64(f.Level) * metresPerLevel
	return mo
}

// enRoute reports whether f is outside both terminal areas at t.
func (m *airspace) enRoute(f flight, t sim.Time) bool {
	r := &m.net.routes[f.Route]
	d := t.Sub(f.Depart)
	return d >= r.enRouteFrom && d <= r.enRouteTo
}

// visible reports whether others see f at t: one lookahead after it published, until it lands.
func (m *airspace) visible(f flight, t sim.Time) bool {
	published := max(f.Depart, 0)
	return t >= published.Add(m.p.Lookahead) && t < f.Depart.Add(m.net.routes[f.Route].flightTime)
}

// closeLevels reports whether the altitudes of f and g differ by less than the vertical separation.
func (m *airspace) closeLevels(f, g flight) bool {
	d := int64(f.Level-g.Level) * levelMM
	return d < m.verticalMM && -d < m.verticalMM
}

func (m *airspace) scheduleDeparture(c *sim.Context, s *routeState) {
	if t := m.nextDeparture(&m.net.routes[s.Route], c.Now(), c.Rand()); t != sim.Never {
		m.depart.ScheduleAt(c, t, sim.None{})
	}
}

func (m *airspace) handleDepart(c *sim.Context, s *routeState, _ sim.None) {
	s.Departures++
	f := flight{Depart: c.Now(), Route: s.Route}
	sim.Spawn(c, m.aircraftKind, m.net.routes[s.Route].motion.From, f)
	m.scheduleDeparture(c, s)
}

// takeOff is the start of an aircraft: at its departure or, for those in the air already, at time 0.
func (m *airspace) takeOff(c *sim.Context, f *flight) {
	r := &m.net.routes[f.Route]
	f.Level = r.levels.draw(c.Rand())
	mo := m.motion(*f)
	m.public.Publish(c, mo, *f)
	m.arrive.ScheduleAt(c, mo.Stop, sim.None{})
	if t := m.firstLook(*f, c.Now()); t <= f.Depart.Add(r.enRouteTo) {
		m.look.ScheduleAt(c, t, sim.None{})
	}
	if f.Depart >= 0 {
		m.departures.Add(c, 1)
		m.airborne.Add(c, 1)
		m.flightTime.Observe(c, r.flightTime.Seconds())
	}
	m.flightRows.Write(c, FlightRow{
		Origin: m.net.codes[r.origin], Destination: m.net.codes[r.destination],
		Depart: mo.Start, Arrive: mo.Stop, Level: uint16(f.Level),
	})
}

// firstLook returns the first look at or after now: looks are a period apart, from the time at which
// the aircraft leaves the terminal area of its origin.
func (m *airspace) firstLook(f flight, now sim.Time) sim.Time {
	t := f.Depart.Add(m.net.routes[f.Route].enRouteFrom)
	if t >= now {
		return t
	}
	period := m.p.LookPeriod
	return t.Add((now.Sub(t) + period - 1) / period * period)
}

// handleLook looks for others that are too close, while the aircraft is en route.
func (m *airspace) handleLook(c *sim.Context, f *flight, _ sim.None) {
	seen := c.Near(m.p.Separation, m.aircraftKind.Set())
	for i := range seen {
		if o := &seen[i]; o.ID > c.Self() && o.Distance < m.p.Separation {
			m.meet(c, *f, o)
		}
	}
	if m.enRoute(*f, c.Now().Add(m.p.LookPeriod)) {
		c.Again(m.p.LookPeriod)
	}
}

// meet records a loss of separation if it has begun since the last look.
func (m *airspace) meet(c *sim.Context, f flight, o *sim.Seen) {
	g := m.public.Of(o)
	if !m.closeLevels(f, g) || !m.enRoute(g, c.Now()) || m.metBefore(f, g, c.Now()) {
		return
	}
	p := c.Position()
	m.conflictRows.Write(c, ConflictRow{
		A: c.Self(), B: o.ID, Distance: o.Distance, Latitude: p.Y, Longitude: p.X, Level: uint16(f.Level),
	})
}

// metBefore reports whether f lost separation with g at its previous look already. Motions do not
// change, so that is computed and needs no memory of partners.
func (m *airspace) metBefore(f, g flight, now sim.Time) bool {
	t := now.Add(-m.p.LookPeriod)
	if t < 0 || !m.enRoute(f, t) || !m.enRoute(g, t) || !m.visible(g, t) {
		return false
	}
	return m.space.Distance(m.space.Position(m.motion(f), t), m.space.Position(m.motion(g), t)) < m.p.Separation
}

func (m *airspace) handleArrive(c *sim.Context, _ *flight, _ sim.None) {
	m.arrivals.Add(c, 1)
	m.airborne.Add(c, -1)
	c.Remove()
}

// handleScan detects every visible aircraft in the air and in range.
func (m *airspace) handleScan(c *sim.Context, s *radarState, _ sim.None) {
	n := int64(0)
	seen := c.Near(m.p.RadarRange, m.aircraftKind.Set())
	for i := range seen {
		o := &seen[i]
		if c.Now() >= o.Motion.Stop {
			continue
		}
		n++
		if m.p.RecordHits {
			m.detectionRows.Write(c, DetectionRow{Radar: m.net.codes[s.Airport], Aircraft: o.ID, Distance: o.Distance})
		}
	}
	if n > 0 {
		s.Detections += n
		m.detections.Add(c, n)
	}
	c.Again(m.p.RadarPeriod)
}
