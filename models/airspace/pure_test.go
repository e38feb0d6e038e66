package airspace

import (
	"encoding/csv"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/simnode/simnode/sim"
)

// tables reads the two tables that ship.
func tables(t testing.TB) ([]Airport, []Pair) {
	t.Helper()
	read := func(name string) [][]string {
		f, err := os.Open("../../scenarios/data/us-air/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return rows[1:]
	}
	number := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	var airports []Airport
	for _, r := range read("airports.csv") {
		airports = append(airports, Airport{Code: r[0], Latitude: number(r[5]), Longitude: number(r[6])})
	}
	var pairs []Pair
	for _, r := range read("flights-airport.csv") {
		pairs = append(pairs, Pair{Origin: r[0], Destination: r[1], Count: int64(number(r[2]))})
	}
	return airports, pairs
}

// defaults are the parameters with their default values and the given tables.
func defaults(airports []Airport, pairs []Pair) *Params {
	return &Params{
		Traffic: 1, Radars: 0, Profile: "hourly", Airports: airports, Flights: pairs, YearDays: 366,
		Speed: 230, RadarRange: 250e3, RadarPeriod: 12 * sim.Second, LookPeriod: 10 * sim.Second,
		Separation: 9260, Vertical: 304.8, TerminalRadius: 74080, Lookahead: 10 * sim.Second,
		Start: "steady", UTCStart: 5 * sim.Hour,
	}
}

// triangle is three airports a few hundred kilometres apart with the given flights a year.
func triangle(count int64) ([]Airport, []Pair) {
	return []Airport{{"AAA", 40, -90}, {"BBB", 42, -86}, {"CCC", 38, -86.5}},
		[]Pair{{"AAA", "BBB", count}, {"BBB", "AAA", count}, {"BBB", "CCC", count}, {"CCC", "AAA", count}}
}

// built sets up a model and hands out what its handlers share.
func built(t testing.TB, p *Params) *airspace {
	t.Helper()
	var m *airspace
	model := sim.Define(sim.Model{Name: "airspace"}, func(b *sim.Builder, p *Params) (err error) {
		m, err = newAirspace(b, p)
		return err
	})
	if _, err := sim.NewProgram(model, p, sim.Space{}, 1, sim.Never); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTablesGiveTheKnownTotals(t *testing.T) {
	p := defaults(tables(t))
	p.Profile, p.Start = "flat", "steady"
	m := built(t, p)
	want := m.expect(daySeconds)
	if math.Abs(want.flights-7009728.0/366) > 1e-6 {
		t.Errorf("flights a day: %v, want 19152.26", want.flights)
	}
	if math.Abs(want.airborne-1125.65) > 0.01 {
		t.Errorf("mean airborne: %v, want 1125.65", want.airborne)
	}
	if got := want.flights / daySeconds * want.flightTime; math.Abs(got-want.airborne) > 1e-6 {
		t.Errorf("rate x flight time = %v, want %v by Little's law", got, want.airborne)
	}
	if len(m.net.codes) != 305 || len(m.net.routes) != 5366 {
		t.Errorf("%d airports and %d routes, want 305 and 5366", len(m.net.codes), len(m.net.routes))
	}
}

func TestProfileKeepsTheDailyTotal(t *testing.T) {
	p := defaults(tables(t))
	want := built(t, p).expect(daySeconds)
	if math.Abs(want.flights-7009728.0/366) > 1e-6 || math.Abs(want.airborne-1125.65) > 0.01 {
		t.Errorf("hourly: %v flights and %v airborne, want those of the flat profile", want.flights, want.airborne)
	}
}

func TestProfileIntegrals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newProfile(rapid.Bool().Draw(t, "hourly"))
		a := rapid.Float64Range(-3*daySeconds, 3*daySeconds).Draw(t, "from")
		b := a + rapid.Float64Range(0, daySeconds).Draw(t, "length")
		const steps = 20000
		sum, sum2 := 0.0, 0.0
		for i := range steps {
			s := a + (b-a)*(float64(i)+0.5)/steps
			sum += p.share(s) * p.peak
			sum2 += p.integral(s)
		}
		h := (b - a) / steps
		if got := p.integral(b) - p.integral(a); math.Abs(got-sum*h) > 50 {
			t.Fatalf("integral %v, want %v", got, sum*h)
		}
		if got := p.integral2(b) - p.integral2(a); math.Abs(got-sum2*h) > 1e-6*daySeconds*daySeconds {
			t.Fatalf("integral2 %v, want %v", got, sum2*h)
		}
	})
}

func TestAirborneIntegral(t *testing.T) {
	p := defaults(triangle(1000))
	for _, start := range []string{"steady", "empty"} {
		p.Start = start
		m := built(t, p)
		for _, end := range []float64{1000, 30000, 200000} {
			const at, w, steps = 12345.0, 5000.0, 100000
			sum := 0.0
			for i := range steps {
				s := end * (float64(i) + 0.5) / steps
				from := s - w
				if start == "empty" {
					from = math.Max(from, 0)
				}
				sum += m.prof.integral(at+s) - m.prof.integral(at+from)
			}
			want := sum * end / steps
			if got := m.airborneIntegral(at, end, w); math.Abs(got-want) > 1e-4*want {
				t.Errorf("%s, end %v: %v, want %v", start, end, got, want)
			}
		}
	}
}

func TestLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		course := rapid.Float64Range(0, 360).Draw(t, "course")
		length := rapid.Float64Range(1, 2e7).Draw(t, "length")
		l := levelsFor(course, length)
		parity := int32(0)
		if math.Mod(course, 360) < 180 {
			parity = 1
		}
		bound := math.Max(70, math.Min(410, length/1852))
		rng := sim.NewRand(rapid.Uint64().Draw(t, "seed"), 1)
		for range 20 {
			level := l.draw(&rng)
			if level%10 != 0 || level/10%2 != parity || level < 30 || float64(level) > bound || level < l.low || level > l.high {
				t.Fatalf("course %v, length %v: level %d of %+v", course, length, level, l)
			}
			if bound > 350 && level < 290 {
				t.Fatalf("length %v: level %d is below 290", length, level)
			}
		}
	})
	for _, c := range []struct {
		course, length float64
		want           levels
	}{
		{90, 2e6, levels{290, 410}}, {270, 2e6, levels{300, 400}}, {0, 2e6, levels{290, 410}}, {179.9, 2e6, levels{290, 410}},
		{180, 2e6, levels{300, 400}}, {359.9, 2e6, levels{300, 400}}, {-90, 2e6, levels{300, 400}}, {90, 200 * 1852, levels{150, 190}}, {270, 10e3, levels{40, 60}},
	} {
		if got := levelsFor(c.course, c.length); got != c.want {
			t.Errorf("course %v, length %v: %+v, want %+v", c.course, c.length, got, c.want)
		}
	}
}

func TestLevelsOneThousandFeetApartAreSeparated(t *testing.T) {
	m := built(t, defaults(triangle(1000)))
	for level := int32(40); level <= 410; level += 10 {
		if m.closeLevels(flight{Level: level}, flight{Level: level + 10}) || m.closeLevels(flight{Level: level + 10}, flight{Level: level}) {
			t.Errorf("levels %d and %d must be separated", level, level+10)
		}
		if !m.closeLevels(flight{Level: level}, flight{Level: level}) {
			t.Errorf("level %d is not separated from itself", level)
		}
	}
}

func TestFirstLook(t *testing.T) {
	m := built(t, defaults(triangle(1000)))
	rapid.Check(t, func(t *rapid.T) {
		f := flight{Depart: sim.Time(rapid.Int64Range(-2e12, 2e12).Draw(t, "depart"))}
		now := max(f.Depart, 0)
		first := f.Depart.Add(m.net.routes[0].enRouteFrom)
		got := m.firstLook(f, now)
		if got < now || got < first || got.Sub(first)%m.p.LookPeriod != 0 || (got > first && got.Add(-m.p.LookPeriod) >= now) {
			t.Fatalf("depart %v, now %v: first look %v, en route from %v", f.Depart, now, got, first)
		}
	})
}

func TestBusiest(t *testing.T) {
	m := built(t, defaults(tables(t)))
	all, err := m.net.busiest(5)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range all {
		names = append(names, m.net.codes[a].String())
	}
	if got := strings.Join(names, " "); got != "ATL ORD DFW DEN LAX" {
		t.Errorf("busiest: %s", got)
	}
	tied := built(t, defaults([]Airport{{"B", 1, 1}, {"A", 2, 2}}, []Pair{{"A", "B", 1}}))
	if all, _ = tied.net.busiest(1); tied.net.codes[all[0]].String() != "A" {
		t.Error("ties must go by code")
	}
}

func TestBadTables(t *testing.T) {
	airports, pairs := triangle(10)
	for _, c := range []struct {
		name   string
		change func(p *Params)
		path   string
		row    int
		want   string
	}{
		{"unknown origin", func(p *Params) { p.Flights = append(pairs[:2:2], Pair{"XXX", "AAA", 1}) }, "params.flights", 3, "XXX"},
		{"unknown destination", func(p *Params) { p.Flights = append(pairs[:2:2], Pair{"AAA", "YYY", 1}) }, "params.flights", 3, "YYY"},
		{"to itself", func(p *Params) { p.Flights = append(pairs[:1:1], Pair{"AAA", "AAA", 1}) }, "params.flights", 2, "both AAA"},
		{"pair twice", func(p *Params) { p.Flights = append(pairs[:2:2], pairs[1]) }, "params.flights", 3, "rows 2 and 3"},
		{"negative count", func(p *Params) { p.Flights = append(pairs[:1:1], Pair{"BBB", "AAA", -1}) }, "params.flights", 2, "-1"},
		{"no flights", func(p *Params) { p.Flights = []Pair{{"AAA", "BBB", 0}} }, "params.flights", 0, "no row"},
		{"same place", func(p *Params) { p.Airports = append(airports[:1:1], Airport{"BBB", 40, -90}, airports[2]) }, "params.flights", 1, "same place"},
		{"duplicate airport", func(p *Params) { p.Airports = append(airports[:3:3], Airport{"AAA", 1, 1}) }, "params.airports", 4, "rows 1 and 4"},
		{"code", func(p *Params) { p.Airports = append(airports[:3:3], Airport{"TOOLONG", 1, 1}) }, "params.airports", 4, "characters"},
		{"latitude", func(p *Params) { p.Airports = append(airports[:3:3], Airport{"DDD", 91, 1}) }, "params.airports", 4, "91"},
		{"NaN", func(p *Params) { p.Airports = append(airports[:3:3], Airport{"DDD", math.NaN(), 1}) }, "params.airports", 4, "NaN"},
		{"radars", func(p *Params) { p.Radars = 4 }, "params.radars", 0, "use 0 to 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := defaults(airports, pairs)
			c.change(p)
			_, err := sim.NewProgram(Model(), p, sim.Space{}, 1, sim.Never)
			var bad *sim.ParamError
			if !errors.As(err, &bad) || bad.Path != c.path || bad.Row != c.row || !strings.Contains(bad.Reason, c.want) {
				t.Errorf("got %v, want %s, row %d, %q", err, c.path, c.row, c.want)
			}
		})
	}
}

func TestTooMuchTrafficIsRefused(t *testing.T) {
	airports, pairs := triangle(10)
	many := slices.Clone(pairs)
	many[0].Count = 100_000_000
	for _, c := range []struct {
		name   string
		change func(p *Params)
		want   string
	}{
		{"a year of a moment", func(p *Params) { p.YearDays = 1e-300 }, "year_days 1e-300"},
		{"a sum that overflows", func(p *Params) { p.YearDays, p.Traffic = 5e-324, 1000 }, "+Inf aircraft"},
		{"slow", func(p *Params) { p.Flights, p.Traffic, p.Speed = many, 100, 1 }, "speed 1 m/s"},
		{"many short flights", func(p *Params) { p.Flights, p.Traffic, p.YearDays, p.Speed = many, 200, 100, 1e6 }, "2e+08 departures a day"},
	} {
		p := defaults(airports, pairs)
		c.change(p)
		_, err := sim.NewProgram(Model(), p, sim.Space{}, 1, sim.Never)
		var bad *sim.ParamError
		if !errors.As(err, &bad) || bad.Path != "params.traffic" || !strings.Contains(bad.Reason, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestOnlyOnTheEarth(t *testing.T) {
	airports, pairs := triangle(10)
	plane := sim.Space{Kind: sim.Plane, Dims: 2, Bounds: sim.Box{Max: sim.Vec{X: 1, Y: 1}}}
	_, err := sim.NewProgram(Model(), defaults(airports, pairs), plane, 1, sim.Never)
	if err == nil || !strings.Contains(err.Error(), "space.kind") {
		t.Errorf("a plane gave %v", err)
	}
}

func TestProjectionKeepsAreas(t *testing.T) {
	m := built(t, defaults(tables(t)))
	f := m.net.frame(pictureWidth)
	rapid.Check(t, func(t *rapid.T) {
		lon := rapid.Float64Range(-125, -66).Draw(t, "lon")
		lat := rapid.Float64Range(24, 50).Draw(t, "lat")
		const d = 0.01
		x0, y0 := f.project(sim.Vec{X: lon, Y: lat})
		x1, y1 := f.project(sim.Vec{X: lon + d, Y: lat})
		x2, y2 := f.project(sim.Vec{X: lon, Y: lat + d})
		got := math.Abs((x1-x0)*(y2-y0) - (x2-x0)*(y1-y0))
		rad := d * math.Pi / 180
		want := rad * rad * math.Cos(lat*math.Pi/180) * f.unit * f.unit
		if math.Abs(got/want-1) > 1e-3 {
			t.Fatalf("area at %v, %v: %v, want %v", lon, lat, got, want)
		}
	})
}

func TestOutline(t *testing.T) {
	lines, err := readOutline()
	if err != nil {
		t.Fatal(err)
	}
	borders := 0
	for _, l := range lines {
		if l.border {
			borders++
		}
		if len(l.points) < 2 {
			t.Errorf("a line of %d points", len(l.points))
		}
		for _, p := range l.points {
			if p.X < -136 || p.X > -57 || p.Y < 14 || p.Y > 57 {
				t.Errorf("%v is outside", p)
			}
		}
	}
	if len(lines) < 20 || borders != 2 {
		t.Errorf("%d lines, %d borders", len(lines), borders)
	}
}
