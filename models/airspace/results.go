package airspace

import "github.com/simnode/simnode/sim"

// FlightRow is a row of the table of flights; its time is that of the departure, or 0 for a flight
// that was in the air at the start.
type FlightRow struct {
	Origin      code     `col:"origin"`
	Destination code     `col:"destination"`
	Depart      sim.Time `col:"depart"`
	Arrive      sim.Time `col:"arrive"`
	// Level in hundreds of feet.
	Level uint16 `col:"flight_level"`
}

// ConflictRow is a row of the table of conflicts: A, the smaller id, saw B; the place is A's.
type ConflictRow struct {
	A         sim.EntityID `col:"a"`
	B         sim.EntityID `col:"b"`
	Distance  float64      `col:"distance" unit:"m"`
	Latitude  float64      `col:"latitude" unit:"deg"`
	Longitude float64      `col:"longitude" unit:"deg"`
	// Level of A in hundreds of feet.
	Level uint16 `col:"flight_level"`
}

// DetectionRow is a row of the table of detections.
type DetectionRow struct {
	Radar    code         `col:"radar"`
	Aircraft sim.EntityID `col:"aircraft"`
	Distance float64      `col:"distance" unit:"m"`
}

func (m *airspace) results(f *sim.Final) (map[string]any, error) {
	byRadar := make(map[string]int64, len(m.radar))
	sim.Each(f, m.radarKind, func(_ sim.EntityID, s *radarState) {
		byRadar[m.net.codes[s.Airport].String()] = s.Detections
	})
	want := m.expect(f.End.Seconds())
	airborne, flights := m.airborne.Of(f), m.departures.Of(f)
	return map[string]any{
		"flights":                     int64(flights.Last),
		"flights_expected":            want.flights,
		"arrivals":                    int64(m.arrivals.Of(f).Last),
		"airborne_at_start":           m.atStart,
		"airborne_at_end":             int64(airborne.Last),
		"mean_airborne":               airborne.Mean,
		"mean_airborne_expected":      want.airborne,
		"max_airborne":                int64(airborne.Max),
		"mean_flight_time_s":          m.flightTime.Of(f).Mean,
		"mean_flight_time_expected_s": want.flightTime,
		"detections_total":            int64(m.detections.Of(f).Last),
		"detections":                  byRadar,
		"conflicts":                   m.conflictRows.Count(f),
		"routes":                      len(m.net.routes),
		"airports":                    len(m.net.codes),
	}, nil
}

// expected is what the tables let one expect of a run.
type expected struct {
	// flights that depart, aircraft in the air on average over time, time of a flight in seconds.
	flights, airborne, flightTime float64
}

// expect computes the means over a run of the given length in seconds: the rate integrated over
// time, and Little's law in its transient form, N(t) = the integral of the rate over the last flight
// time. With the flat profile, or over whole days, the latter is rate x flight time.
func (m *airspace) expect(end float64) expected {
	var e expected
	rate := 0.0
	for i := range m.net.routes {
		r := &m.net.routes[i]
		at, w := m.solarOffset(r), r.flightTime.Seconds()
		rate += r.perSecond
		e.flightTime += r.perSecond * w
		e.flights += r.perSecond * (m.prof.integral(at+end) - m.prof.integral(at))
		e.airborne += r.perSecond * m.airborneIntegral(at, end, w)
	}
	e.flightTime /= rate
	if end > 0 {
		e.airborne /= end
	}
	return e
}

// airborneIntegral integrates, from local time at over a run of end seconds, what a source of rate
// 1 has in the air if each flight takes w seconds.
func (m *airspace) airborneIntegral(at, end, w float64) float64 {
	v := m.prof.integral2
	switch {
	case m.p.Start == "steady":
		return v(at+end) - v(at) - v(at+end-w) + v(at-w)
	case end <= w:
		return v(at+end) - v(at) - end*m.prof.integral(at)
	}
	return v(at+end) - v(at+end-w) - w*m.prof.integral(at)
}
