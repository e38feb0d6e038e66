package airspace

import (
	"fmt"
	"math"
	"slices"

	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
)

// Airport is a row of the table of airports.
type Airport struct {
	Code      string  `col:"iata" key:"yes" doc:"code of at most four characters"`
	Latitude  float64 `col:"latitude" unit:"deg" min:"-90 deg" max:"90 deg" doc:"degrees north"`
	Longitude float64 `col:"longitude" unit:"deg" min:"-180 deg" max:"180 deg" doc:"degrees east"`
}

// Pair is a row of the table of flights.
type Pair struct {
	Origin      string `col:"origin" doc:"code of the airport of departure"`
	Destination string `col:"destination" doc:"code of the airport of arrival"`
	Count       int64  `col:"count" min:"0" max:"100000000" doc:"flights in the time that the table covers"`
}

// code is an airport's code, padded with zero bytes.
type code [4]byte

func (c code) String() string {
	n := 0
	for n < len(c) && c[n] != 0 {
		n++
	}
	return string(c[:n])
}

// places are the airports that flights use, in the order of the table.
type places struct {
	codes []code
	pos   []sim.Vec
	// movements are departures and arrivals a year.
	movements []int64
	pairs     []pair
}

// pair is a row of the flights table whose airports are known.
type pair struct {
	origin, destination int32
	count               int64
	row                 int
}

func newPlaces(p *Params) (*places, error) {
	index := make(map[string]int32, len(p.Airports))
	for i, a := range p.Airports {
		switch {
		case a.Code == "" || len(a.Code) > len(code{}):
			return nil, badRow("params.airports", i, "code %.20q must have 1 to %d characters", a.Code, len(code{}))
		case !(math.Abs(a.Latitude) <= 90) || !(math.Abs(a.Longitude) <= 180):
			return nil, badRow("params.airports", i, "airport %s at latitude %g, longitude %g: they must be within -90 to 90 and -180 to 180", a.Code, a.Latitude, a.Longitude)
		}
		if j, ok := index[a.Code]; ok {
			return nil, &sim.DuplicateError{Path: "params.airports", First: int(j) + 1, Row: i + 1, What: a.Code, Help: "keep one"}
		}
		index[a.Code] = int32(i)
	}
	pairs, err := newPairs(p, index)
	if err != nil {
		return nil, err
	}
	return usedPlaces(p, pairs), nil
}

func newPairs(p *Params, index map[string]int32) ([]pair, error) {
	var pairs []pair
	first := make(map[[2]int32]int, len(p.Flights))
	for i, f := range p.Flights {
		o, okO := index[f.Origin]
		d, okD := index[f.Destination]
		switch {
		case !okO:
			return nil, badRow("params.flights", i, "origin %.20q is not in the table of airports: add it there or remove the row", f.Origin)
		case !okD:
			return nil, badRow("params.flights", i, "destination %.20q is not in the table of airports: add it there or remove the row", f.Destination)
		case o == d:
			return nil, badRow("params.flights", i, "origin and destination are both %s: such a flight has no great circle; remove the row", f.Origin)
		case f.Count < 0:
			return nil, badRow("params.flights", i, "count %d must be 0 or more", f.Count)
		case first[[2]int32{o, d}] > 0:
			return nil, &sim.DuplicateError{Path: "params.flights", First: first[[2]int32{o, d}], Row: i + 1,
				What: f.Origin + "-" + f.Destination, Help: "keep one and add the counts up"}
		}
		first[[2]int32{o, d}] = i + 1
		if f.Count > 0 {
			pairs = append(pairs, pair{o, d, f.Count, i})
		}
	}
	if len(pairs) == 0 {
		return nil, sim.BadParam("params.flights", "no row has a count above 0: at least one flight is needed")
	}
	return pairs, nil
}

// usedPlaces keeps the airports that pairs use and renumbers them.
func usedPlaces(p *Params, pairs []pair) *places {
	movements := make([]int64, len(p.Airports))
	for _, q := range pairs {
		movements[q.origin] += q.count
		movements[q.destination] += q.count
	}
	pl := &places{pairs: pairs}
	number := make([]int32, len(p.Airports))
	for i, n := range movements {
		if n == 0 {
			continue
		}
		a := p.Airports[i]
		number[i] = int32(len(pl.codes))
		var c code
		copy(c[:], a.Code)
		pl.codes = append(pl.codes, c)
		pl.pos = append(pl.pos, sim.Vec{X: a.Longitude, Y: a.Latitude})
		pl.movements = append(pl.movements, n)
	}
	for i, q := range pairs {
		pairs[i].origin, pairs[i].destination = number[q.origin], number[q.destination]
	}
	return pl
}

func badRow(path string, i int, format string, args ...any) error {
	return &sim.ParamError{Path: path, Row: i + 1, Reason: fmt.Sprintf(format, args...)}
}

// bounds are the airports' own, one degree wider, within the earth's.
func (pl *places) bounds() sim.Box {
	b := sim.Box{Min: pl.pos[0], Max: pl.pos[0]}
	for _, p := range pl.pos {
		b.Min.X, b.Min.Y = math.Min(b.Min.X, p.X), math.Min(b.Min.Y, p.Y)
		b.Max.X, b.Max.Y = math.Max(b.Max.X, p.X), math.Max(b.Max.Y, p.Y)
	}
	b.Min.X, b.Min.Y = math.Max(b.Min.X-1, -180), math.Max(b.Min.Y-1, -90)
	b.Max.X, b.Max.Y = math.Min(b.Max.X+1, 180), math.Min(b.Max.Y+1, 90)
	b.Max.Z = maxLevel * metresPerLevel
	return b
}

// busiest returns the n airports with most movements, busiest first, ties by code.
func (pl *places) busiest(n int) ([]int32, error) {
	if n < 0 || n > len(pl.codes) {
		return nil, sim.BadParam("params.radars", "%d radars for %d airports with flights: use 0 to %d", n, len(pl.codes), len(pl.codes))
	}
	all := make([]int32, len(pl.codes))
	for i := range all {
		all[i] = int32(i)
	}
	slices.SortFunc(all, func(a, b int32) int {
		if d := pl.movements[b] - pl.movements[a]; d != 0 {
			return int(max(min(d, 1), -1))
		}
		return slices.Compare(pl.codes[a][:], pl.codes[b][:])
	})
	return all[:n], nil
}

// network is the routes between the airports.
type network struct {
	*places
	routes []route
}

// route is a pair of airports with everything about its flights that does not change.
type route struct {
	origin, destination int32
	// levels are the flight levels allowed on it.
	levels levels
	// perSecond is the mean rate of departures; peakGap the mean time between two at the peak of the
	// profile.
	perSecond float64
	peakGap   sim.Duration
	// motion is that of a departure at time 0 at altitude 0.
	motion sim.Motion
	// flightTime is from departure to arrival; enRouteFrom to enRouteTo, since departure and both
	// included, is the part outside both terminal areas (empty on a short route).
	flightTime, enRouteFrom, enRouteTo sim.Duration
}

// leastFlight is the shortest route, in metres: below it a great circle has no course.
const leastFlight = 1

func newNetwork(s *spatial.Space, pl *places, p *Params, peak float64) (*network, error) {
	n := &network{places: pl, routes: make([]route, len(pl.pairs))}
	if err := checkTraffic(s, pl, p); err != nil {
		return nil, err
	}
	terminal := sim.FromSeconds(p.TerminalRadius / p.Speed)
	for i, q := range pl.pairs {
		from, to := pl.pos[q.origin], pl.pos[q.destination]
		length := s.Distance(from, to)
		if length < leastFlight {
			return nil, badRow("params.flights", q.row, "%s and %s are at the same place: such a flight has no great circle; remove the row", pl.codes[q.origin], pl.codes[q.destination])
		}
		motion := s.Toward(from, to, p.Speed, 0)
		flightTime := motion.Stop.Sub(0)
		rate := p.Traffic * float64(q.count) / (p.YearDays * daySeconds)
		n.routes[i] = route{
			origin: q.origin, destination: q.destination,
			levels:    levelsFor(motion.Vel.X, length),
			perSecond: rate, peakGap: sim.FromSeconds(1 / (rate * peak)),
			motion: motion, flightTime: flightTime,
			enRouteFrom: terminal, enRouteTo: flightTime - terminal,
		}
	}
	return n, nil
}

// Bounds of the traffic, and with it of memory and time.
const (
	maxAirborne   = 1_000_000
	maxDepartures = 100_000_000 // a day
)

// checkTraffic refuses more traffic than a run can hold.
func checkTraffic(s *spatial.Space, pl *places, p *Params) error {
	airborne, departures := 0.0, 0.0
	for _, q := range pl.pairs {
		daily := p.Traffic * float64(q.count) / p.YearDays
		departures += daily
		airborne += daily / daySeconds * s.Distance(pl.pos[q.origin], pl.pos[q.destination]) / p.Speed
	}
	// A sum that overflowed is refused as well.
	if !(airborne <= maxAirborne) {
		return sim.BadParam("params.traffic", "traffic %g, year_days %g and speed %g m/s mean %.4g aircraft in the air at once, and at most %d are taken: lower traffic, or raise year_days or speed",
			p.Traffic, p.YearDays, p.Speed, airborne, maxAirborne)
	}
	if !(departures <= maxDepartures) {
		return sim.BadParam("params.traffic", "traffic %g and year_days %g mean %.4g departures a day, and at most %d are taken: lower traffic or raise year_days",
			p.Traffic, p.YearDays, departures, maxDepartures)
	}
	return nil
}

func (n *network) place(a int32) sim.Vec { return n.pos[a] }

func (n *network) name(r *route) string {
	return n.codes[r.origin].String() + "-" + n.codes[r.destination].String()
}
