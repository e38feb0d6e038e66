package airspace

import (
	"math"

	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
)

// Params are the parameters of the model.
type Params struct {
	Traffic        float64      `param:"traffic" default:"1" above:"0" max:"1000" doc:"scale factor of every departure rate"`
	Radars         int          `param:"radars" default:"40" min:"0" doc:"how many of the busiest airports have a radar; ties by code"`
	Profile        string       `param:"profile" default:"hourly" enum:"flat,hourly" doc:"flat: departures at an even rate; hourly: shaped by the local solar hour at the origin, with the same total a day"`
	Airports       []Airport    `param:"airports" table:"yes" default:"data/us-air/airports.csv" doc:"airports with their places"`
	Flights        []Pair       `param:"flights" table:"yes" default:"data/us-air/flights-airport.csv" doc:"flights a year by pair of airports"`
	YearDays       float64      `param:"year_days" default:"366" above:"0" max:"366" doc:"days that the counts of the flights table cover; 2008 had 366"`
	Speed          float64      `param:"speed" default:"230 m/s" unit:"m/s" min:"1 m/s" max:"1000 m/s" doc:"speed of every aircraft over ground"`
	RadarRange     float64      `param:"radar_range" default:"250 km" unit:"m" above:"0 m" max:"5000 km" doc:"range of a radar over ground; altitude is left out"`
	RadarPeriod    sim.Duration `param:"radar_period" default:"12 s" min:"100 ms" doc:"time between two scans of a radar"`
	LookPeriod     sim.Duration `param:"look_period" default:"10 s" min:"100 ms" doc:"time between two looks of an aircraft at its surroundings"`
	Separation     float64      `param:"separation" default:"5 NM" unit:"m" above:"0 m" max:"1000 km" doc:"two aircraft closer than this, and closer than vertical_separation, have lost separation"`
	Vertical       float64      `param:"vertical_separation" default:"1000 ft" unit:"m" min:"0 m" max:"20 km" doc:"least difference in altitude that separates two aircraft whatever their distance"`
	TerminalRadius float64      `param:"terminal_radius" default:"40 NM" unit:"m" min:"0 m" max:"1000 km" doc:"within this distance of its origin or destination an aircraft is separated by approach control and is not looked at"`
	Lookahead      sim.Duration `param:"lookahead" default:"10 s" min:"0 s" max:"1 h" doc:"an aircraft is seen by others this long after its departure; also how far regions may run apart"`
	Start          string       `param:"start" default:"steady" enum:"steady,empty" doc:"steady: begin with the aircraft that departed before time 0 and still fly; empty: begin with none"`
	UTCStart       sim.Duration `param:"utc_start" default:"5 h" min:"0 s" max:"24 h" doc:"time of day, UTC, at simulated time 0; 5 h is midnight in the east of the US"`
	RecordHits     bool         `param:"record_detections" default:"false" doc:"write a row for every detection: 10 million rows a day at the defaults"`
}

// Model returns the model.
func Model() sim.Model {
	return sim.Define(sim.Model{
		Name:    "airspace",
		Summary: "air traffic of the United States over a day: flights, radars, losses of separation",
		Doc: "Departures of each pair of airports are a Poisson process with the rate of the flights table, optionally shaped by an hourly profile. " +
			"Aircraft fly great circles at a level by direction. Radars at the busiest airports scan every period; " +
			"aircraft look for others closer than the separation.",
		Source: "Flights of 2008 by pair of airports: US Bureau of Transportation Statistics, in vega-datasets 3.2.1. " +
			"Levels: semicircular rule of ICAO Annex 2, appendix 3, with RVSM. Separation minima: ICAO Doc 4444. Hourly profile: an assumption.",
		Check: "Flights a day and mean airborne (Little's law) within their confidence intervals; " +
			"detections and conflicts equal a brute-force oracle record for record.",
		Version: 1,
	}, setup)
}

// speedMargin is how far the declared speed is above the aircraft's, for the rounding of positions.
const speedMargin = 1.001

// routeState is the state of a route: the source of its departures.
type routeState struct {
	Route int32
	// Departures so far.
	Departures uint32
}

// radarState is the state of a radar.
type radarState struct {
	Airport int32
	// Detections so far.
	Detections int64
}

// airspace is what the handlers share: everything in it is fixed by the end of setup.
type airspace struct {
	p     *Params
	net   *network
	prof  profile
	space *spatial.Space
	radar []int32 // airports with a radar, busiest first
	// vertical separation in millimetres: levels are compared as integers.
	verticalMM int64

	routeKind    sim.Kind[routeState]
	aircraftKind sim.Kind[flight]
	radarKind    sim.Kind[radarState]
	public       sim.Public[flight]

	depart sim.Event[sim.None]
	look   sim.Event[sim.None]
	arrive sim.Event[sim.None]
	scan   sim.Event[sim.None]

	departures, arrivals, detections sim.Counter
	airborne                         sim.Gauge
	flightTime                       sim.Sample
	flightRows                       sim.Table[FlightRow]
	conflictRows                     sim.Table[ConflictRow]
	detectionRows                    sim.Table[DetectionRow]

	atStart int
}

func setup(b *sim.Builder, p *Params) error {
	_, err := newAirspace(b, p)
	return err
}

func newAirspace(b *sim.Builder, p *Params) (*airspace, error) {
	m := &airspace{p: p, prof: newProfile(p.Profile == "hourly"), verticalMM: int64(math.Round(p.Vertical * 1000))}
	places, err := newPlaces(p)
	if err != nil {
		return nil, err
	}
	b.SetEnd(sim.Time(sim.Day))
	b.SetSpace(sim.Space{Kind: sim.Earth, Dims: 3, Bounds: places.bounds()})
	if b.Space().Kind != sim.Earth {
		return nil, sim.BadParam("space.kind", "the airspace model flies on the earth: leave space out, or set kind to earth")
	}
	if m.space, err = spatial.New(b.Space()); err != nil {
		return nil, err
	}
	if m.net, err = newNetwork(m.space, places, p, m.prof.peak); err != nil {
		return nil, err
	}
	if m.radar, err = places.busiest(p.Radars); err != nil {
		return nil, err
	}
	b.SetLimits(sim.Limits{
		Lookahead: p.Lookahead,
		Range:     math.Max(p.RadarRange, p.Separation),
		Speed:     p.Speed * speedMargin,
		// Nothing is sent: all that entities know of one another is what they see in range.
		LocalSends: true,
	})
	m.declare(b)
	m.populate(b)
	return m, nil
}

func (m *airspace) declare(b *sim.Builder) {
	m.depart = sim.DefineEvent[sim.None](b, "depart", sim.Planned)
	m.look = sim.DefineEvent[sim.None](b, "look", sim.State)
	m.arrive = sim.DefineEvent[sim.None](b, "arrive", sim.Planned)
	m.scan = sim.DefineEvent[sim.None](b, "scan", sim.State)
	m.public = sim.DefinePublic[flight](b)

	m.routeKind = sim.DefineKind[routeState](b, "route", "a pair of airports, where flights depart")
	m.aircraftKind = sim.DefineKind[flight](b, "aircraft", "a flight in the air")
	m.radarKind = sim.DefineKind[radarState](b, "radar", "a radar at an airport")
	sim.OnStart(m.routeKind, func(c *sim.Context, s *routeState) { m.scheduleDeparture(c, s) })
	sim.Handle(m.routeKind, m.depart, m.handleDepart)
	sim.OnStart(m.aircraftKind, m.takeOff)
	sim.Handle(m.aircraftKind, m.look, m.handleLook)
	sim.Handle(m.aircraftKind, m.arrive, m.handleArrive)
	sim.Handle(m.radarKind, m.scan, m.handleScan)

	m.departures = sim.DefineCounter(b, "departures", "flights", "flights that departed")
	m.arrivals = sim.DefineCounter(b, "arrivals", "flights", "flights that arrived")
	m.detections = sim.DefineCounter(b, "detected", "detections", "aircraft seen by radars, once a scan and radar")
	m.flightTime = sim.DefineSample(b, "flight_time", "s", "time in the air of the flights that departed")
	m.flightRows = sim.DefineTable[FlightRow](b, "flights", "flights, written at departure or at time 0")
	m.conflictRows = sim.DefineTable[ConflictRow](b, "conflicts", "losses of separation, written when first seen by the aircraft with the smaller id")
	if m.p.RecordHits {
		m.detectionRows = sim.DefineTable[DetectionRow](b, "detections", "detections, written at each scan by the radar")
	}
	b.Results(m.results)
	b.Pictures(m.pictures)
}

// populate adds routes, radars and the aircraft that are in the air at time 0.
func (m *airspace) populate(b *sim.Builder) {
	for i := range m.net.routes {
		r := &m.net.routes[i]
		id := sim.Add(m.routeKind, m.net.place(r.origin), routeState{Route: int32(i)})
		b.SetWeight(id, r.perSecond*r.flightTime.Seconds())
	}
	for i, a := range m.radar {
		id := sim.Add(m.radarKind, m.net.place(a), radarState{Airport: a})
		b.SetWeight(id, radarWeight)
		m.scan.Init(b, id, sim.Time(m.p.RadarPeriod.Mul(int64(i))/sim.Duration(len(m.radar))), sim.None{})
	}
	if m.p.Start == "steady" {
		for i := range m.net.routes {
			m.addFlying(b, int32(i))
		}
	}
	m.airborne = sim.DefineGauge(b, "airborne", "aircraft", "aircraft in the air", float64(m.atStart))
}

// Weights of the first cut into regions, an aircraft in the air all day being 1, which a route weighs
// as many times as it has aircraft in the air on average. A scan of a radar sees a hundred aircraft
// where a look sees one or two; an aircraft that is in the air at the start is soon gone.
const (
	aircraftWeight = 0.1
	radarWeight    = 8
)

// addFlying adds the aircraft of route i that departed before time 0 and have not arrived: the same
// Poisson process, begun one flight time earlier.
func (m *airspace) addFlying(b *sim.Builder, i int32) {
	r := &m.net.routes[i]
	rng := b.Stream("airborne " + m.net.name(r))
	t := sim.Time(-r.flightTime)
	for {
		if t = m.nextDeparture(r, t, rng); t >= 0 {
			return
		}
		f := flight{Depart: t, Route: i}
		id := sim.Add(m.aircraftKind, m.space.Position(m.motion(f), 0), f)
		b.SetWeight(id, aircraftWeight)
		m.atStart++
	}
}

// nextDeparture draws the first departure of r after t: a Poisson process at the rate of the
// profile's peak, thinned to the profile (P. Lewis, G. Shedler, "Simulation of nonhomogeneous Poisson
// processes by thinning", 1979).
func (m *airspace) nextDeparture(r *route, t sim.Time, rng *sim.Rand) sim.Time {
	for {
		t = t.Add(rng.ExpDuration(r.peakGap))
		if t == sim.Never || rng.Bernoulli(m.prof.share(m.localSeconds(r, t))) {
			return t
		}
	}
}

// localSeconds returns the local solar time at the origin of r, in seconds, not reduced to one day.
func (m *airspace) localSeconds(r *route, t sim.Time) float64 {
	return t.Seconds() + m.solarOffset(r)
}

// solarOffset is the local solar time at the origin of r at simulated time 0: four minutes a degree.
func (m *airspace) solarOffset(r *route) float64 {
	return m.p.UTCStart.Seconds() + m.net.place(r.origin).X*240
}
