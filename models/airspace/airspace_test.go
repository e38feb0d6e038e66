package airspace

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/spatial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// job is a run of the model.
type job struct {
	p       *Params
	seed    uint64
	end     sim.Duration
	regions int
}

// outcome is what a run gives.
type outcome struct {
	m         *airspace
	results   map[string]any
	flights   []sim.Row[FlightRow]
	conflicts []sim.Row[ConflictRow]
	hits      []sim.Row[DetectionRow]
	digest    uint64
}

func (j job) run(t failer) outcome {
	t.Helper()
	var m *airspace
	model := sim.Define(sim.Model{Name: "airspace"}, func(b *sim.Builder, p *Params) (err error) {
		m, err = newAirspace(b, p)
		return err
	})
	prog, err := sim.NewProgram(model, j.p, sim.Space{}, j.seed, sim.Time(j.end))
	if err != nil {
		t.Fatalf("setup: %v", err)
	}
	f, digest := execute(t, prog, j.regions)
	o := outcome{m: m, digest: digest, flights: m.flightRows.Rows(f), conflicts: m.conflictRows.Rows(f)}
	if j.p.RecordHits {
		o.hits = m.detectionRows.Rows(f)
	}
	if o.results, err = prog.Results(f); err != nil {
		t.Fatalf("%v", err)
	}
	return o
}

func execute(t failer, prog *sim.Program, regions int) (*sim.Final, uint64) {
	t.Helper()
	rec, err := record.New(prog, record.Options{Level: record.Off})
	if err != nil {
		t.Fatalf("%v", err)
	}
	out, err := node.Run(context.Background(), prog, node.Options{Regions: regions, Workers: 2, Sink: rec})
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if err := rec.Finish(out.End); err != nil {
		t.Fatalf("%v", err)
	}
	return out.Final(rec), out.Digest
}

// oracle finds detections and conflicts in the recorded flights alone, by looking at all pairs at
// every scan and look, without an index and without the engine.
type oracle struct {
	p       *Params
	end     sim.Time
	space   *spatial.Space
	airport map[string]sim.Vec
	flights []oracleFlight
}

type oracleFlight struct {
	id     sim.EntityID
	row    FlightRow
	motion sim.Motion
}

func newOracle(t failer, j job, flights []sim.Row[FlightRow]) *oracle {
	t.Helper()
	s, err := spatial.New(sim.Space{Kind: sim.Earth, Dims: 3, Bounds: sim.Box{Min: sim.Vec{X: -180, Y: -90}, Max: sim.Vec{X: 180, Y: 90, Z: 1e5}}})
	if err != nil {
		t.Fatalf("%v", err)
	}
	o := &oracle{p: j.p, end: sim.Time(j.end), space: s, airport: map[string]sim.Vec{}}
	for _, a := range j.p.Airports {
		o.airport[a.Code] = sim.Vec{X: a.Longitude, Y: a.Latitude}
	}
	for _, f := range flights {
		from, to := o.airport[f.Row.Origin.String()], o.airport[f.Row.Destination.String()]
		mo := s.Toward(from, to, j.p.Speed, f.Row.Depart)
		if mo.Stop != f.Row.Arrive {
			t.Fatalf("flight %+v should arrive at %v", f, mo.Stop)
		}
		o.flights = append(o.flights, oracleFlight{f.Entity, f.Row, mo})
	}
	slices.SortFunc(o.flights, func(a, b oracleFlight) int { return cmp.Compare(a.id, b.id) })
	return o
}

// airborne reports whether others see f at t.
func (o *oracle) airborne(f *oracleFlight, t sim.Time) bool {
	return t >= max(f.row.Depart, 0).Add(o.p.Lookahead) && t < f.row.Arrive
}

// window is when f is en route.
func (o *oracle) window(f *oracleFlight) (from, to sim.Time) {
	terminal := sim.FromSeconds(o.p.TerminalRadius / o.p.Speed)
	return f.row.Depart.Add(terminal), f.row.Arrive.Add(-terminal)
}

// lost returns the distance of f and g at t and whether they lost separation as f sees it.
func (o *oracle) lost(f, g *oracleFlight, t sim.Time) (float64, bool) {
	from, to := o.window(g)
	if t < from || t > to || !o.airborne(g, t) {
		return 0, false
	}
	feet := math.Abs(float64(f.row.Level)-float64(g.row.Level)) * 100
	d := o.space.Distance(o.space.Position(f.motion, t), o.space.Position(g.motion, t))
	return d, d < o.p.Separation && feet*0.3048 < o.p.Vertical-1e-6
}

func (o *oracle) conflicts() (rows []sim.Row[ConflictRow]) {
	for i := range o.flights {
		f := &o.flights[i]
		before := make([]bool, len(o.flights))
		from, to := o.window(f)
		for t := from; t <= to && t < o.end; t = t.Add(o.p.LookPeriod) {
			if t < 0 {
				continue
			}
			for k := i + 1; k < len(o.flights); k++ {
				g := &o.flights[k]
				d, lost := o.lost(f, g, t)
				if lost && !before[k] {
					at := o.space.Position(f.motion, t)
					rows = append(rows, sim.Row[ConflictRow]{Time: t, Entity: f.id, Row: ConflictRow{f.id, g.id, d, at.Y, at.X, f.row.Level}})
				}
				before[k] = lost
			}
		}
	}
	slices.SortFunc(rows, func(a, b sim.Row[ConflictRow]) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Row.A, b.Row.A), cmp.Compare(a.Row.Distance, b.Row.Distance), cmp.Compare(a.Row.B, b.Row.B))
	})
	return rows
}

func (o *oracle) detections(radars []code) (rows []sim.Row[DetectionRow]) {
	for i, r := range radars {
		at := o.airport[r.String()]
		t := sim.Time(o.p.RadarPeriod.Mul(int64(i)) / sim.Duration(len(radars)))
		for ; t < o.end; t = t.Add(o.p.RadarPeriod) {
			for k := range o.flights {
				f := &o.flights[k]
				d := o.space.Distance(at, o.space.Position(f.motion, t))
				if o.airborne(f, t) && d <= o.p.RadarRange {
					rows = append(rows, sim.Row[DetectionRow]{Time: t, Row: DetectionRow{r, f.id, d}})
				}
			}
		}
	}
	order := func(c code) int { return slices.Index(radars, c) }
	slices.SortFunc(rows, func(a, b sim.Row[DetectionRow]) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(order(a.Row.Radar), order(b.Row.Radar)), cmp.Compare(a.Row.Distance, b.Row.Distance), cmp.Compare(a.Row.Aircraft, b.Row.Aircraft))
	})
	return rows
}

// drawJob draws a small crowded airspace.
func drawJob(t *rapid.T) job {
	airports := []Airport{{"AAA", 40, -90}, {"BBB", 42, -86}, {"CCC", 38, -86.5}, {"DDD", 40.5, -83}, {"EEE", 41.5, -91}}
	var pairs []Pair
	for i, a := range airports {
		for j, b := range airports {
			if i != j && rapid.IntRange(0, 3).Draw(t, "pair") > 0 {
				pairs = append(pairs, Pair{a.Code, b.Code, rapid.Int64Range(1, 80_000).Draw(t, "count")})
			}
		}
	}
	pairs = append(pairs, Pair{"AAA", "DDD", 80_000})
	slices.SortStableFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Destination, b.Destination))
	})
	pairs = slices.CompactFunc(pairs, func(a, b Pair) bool { return a.Origin == b.Origin && a.Destination == b.Destination })
	p := defaults(airports, pairs)
	p.Radars = rapid.IntRange(0, 4).Draw(t, "radars")
	p.Profile = rapid.SampledFrom([]string{"flat", "hourly"}).Draw(t, "profile")
	p.Start = rapid.SampledFrom([]string{"steady", "empty"}).Draw(t, "start")
	p.Speed = rapid.Float64Range(100, 400).Draw(t, "speed")
	p.RadarRange = rapid.Float64Range(20e3, 400e3).Draw(t, "range")
	p.RadarPeriod = sim.Duration(rapid.Int64Range(60e9, 300e9).Draw(t, "radar period"))
	p.LookPeriod = sim.Duration(rapid.Int64Range(10e9, 60e9).Draw(t, "look period"))
	p.Separation = rapid.Float64Range(5e3, 60e3).Draw(t, "separation")
	p.Vertical = rapid.SampledFrom([]float64{0, 304.8, 609.6, 1000, 1219.2}).Draw(t, "vertical")
	p.TerminalRadius = rapid.SampledFrom([]float64{0, 20e3, 74080, 300e3}).Draw(t, "terminal")
	p.Lookahead = sim.Duration(rapid.Int64Range(1, 60e9).Draw(t, "lookahead"))
	p.UTCStart = 20 * sim.Hour
	p.RecordHits = true
	return job{p: p, seed: rapid.Uint64().Draw(t, "seed"), end: 10 * sim.Minute}
}

func TestEqualsBruteForce(t *testing.T) {
	var conflicts, hits int
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		j.regions = 1
		one := j.run(t)
		o := newOracle(t, j, one.flights)
		var radars []code
		for _, a := range one.m.radar {
			radars = append(radars, one.m.net.codes[a])
		}
		wantHits, wantConflicts := o.detections(radars), o.conflicts()
		conflicts, hits = conflicts+len(wantConflicts), hits+len(wantHits)
		for _, regions := range []int{1, rapid.SampledFrom([]int{2, 3, 8}).Draw(t, "regions")} {
			j.regions = regions
			got := one
			if regions > 1 {
				got = j.run(t)
			}
			if got.digest != one.digest || !slices.Equal(got.flights, one.flights) {
				t.Fatalf("%d regions differ from one", regions)
			}
			if !slices.Equal(got.conflicts, wantConflicts) {
				t.Fatalf("%d regions: conflicts\n%v\nwant\n%v", regions, got.conflicts, wantConflicts)
			}
			for i := range got.hits {
				got.hits[i].Entity = 0
			}
			if !slices.Equal(got.hits, wantHits) {
				t.Fatalf("%d regions: %d detections, want %d", regions, len(got.hits), len(wantHits))
			}
			checkTotals(t, got, radars, wantHits)
		}
	})
	if conflicts < 10 || hits < 500 {
		t.Errorf("only %d conflicts and %d detections were compared", conflicts, hits)
	}
}

// checkTotals compares the results with the records.
func checkTotals(t *rapid.T, o outcome, radars []code, hits []sim.Row[DetectionRow]) {
	byRadar := map[string]int64{}
	for _, r := range radars {
		byRadar[r.String()] = 0
	}
	for _, h := range hits {
		byRadar[h.Row.Radar.String()]++
	}
	got := o.results["detections"].(map[string]int64)
	for _, r := range radars {
		if got[r.String()] != byRadar[r.String()] {
			t.Fatalf("detections of %s: %d, want %d", r, got[r.String()], byRadar[r.String()])
		}
	}
	flights := o.results["flights"].(int64)
	start := int64(o.results["airborne_at_start"].(int))
	switch {
	case o.results["detections_total"] != int64(len(hits)), o.results["conflicts"] != int64(len(o.conflicts)):
		t.Fatalf("totals %v, want %d detections and %d conflicts", o.results, len(hits), len(o.conflicts))
	case flights+start != int64(len(o.flights)):
		t.Fatalf("%d flights and %d at the start, but %d rows", flights, start, len(o.flights))
	case o.results["airborne_at_end"] != start+flights-o.results["arrivals"].(int64):
		t.Fatalf("flights do not add up: %v", o.results)
	}
}

// quiet makes a run of the shipped tables cheap: no radars, and nobody sees anybody.
func quiet(t testing.TB, profile, start string) *Params {
	p := defaults(tables(t))
	p.Profile, p.Start = profile, start
	p.LookPeriod, p.Lookahead = 24*sim.Hour, 24*sim.Hour
	return p
}

// Three and a third standard deviations hold 99.9 % of the values of a normal variable. The seeds are
// fixed, so the tests always come out the same.
const manyDeviations = 3.3

// The flights of a day are Poisson; the time integral of what is airborne is, up to the ends of the
// day, the sum of the flight times of the flights: a compound Poisson variable with the variance rate x
// day x E[T^2].
func TestLittlesLaw(t *testing.T) {
	for _, profile := range []string{"flat", "hourly"} {
		p := quiet(t, profile, "steady")
		m := built(t, p)
		square := 0.0
		for i := range m.net.routes {
			w := m.net.routes[i].flightTime.Seconds()
			square += m.net.routes[i].perSecond * w * w
		}
		const seeds = 2
		flights, airborne := 0.0, 0.0
		for seed := range uint64(seeds) {
			o := job{p: p, seed: seed + 1, end: sim.Day, regions: 1}.run(t)
			flights += float64(o.results["flights"].(int64)) / seeds
			airborne += o.results["mean_airborne"].(float64) / seeds
			if want := o.results["mean_airborne_expected"].(float64); math.Abs(want-1125.65) > 0.01 {
				t.Errorf("expected airborne %v, want 1125.65", want)
			}
		}
		if sd := math.Sqrt(19152.26 / seeds); math.Abs(flights-19152.26) > manyDeviations*sd {
			t.Errorf("%s: %.1f flights a day, want 19152.3 +- %.1f", profile, flights, manyDeviations*sd)
		}
		if sd := math.Sqrt(square / daySeconds / seeds); math.Abs(airborne-1125.65) > manyDeviations*sd {
			t.Errorf("%s: %.2f airborne, want 1125.65 +- %.2f", profile, airborne, manyDeviations*sd)
		}
	}
}

// In a run of one hour a ramp would show: what is airborne is Poisson at any time, so the average
// over the hour has at most the variance of its mean.
func TestStartHasNoRamp(t *testing.T) {
	for _, c := range []struct{ profile, start string }{{"flat", "steady"}, {"hourly", "steady"}, {"flat", "empty"}} {
		p := quiet(t, c.profile, c.start)
		const seeds = 4
		got, want := 0.0, 0.0
		for seed := range uint64(seeds) {
			o := job{p: p, seed: seed + 1, end: sim.Hour, regions: 1}.run(t)
			got += o.results["mean_airborne"].(float64) / seeds
			want = o.results["mean_airborne_expected"].(float64)
		}
		if sd := math.Sqrt(want / seeds); math.Abs(got-want) > manyDeviations*sd {
			t.Errorf("%v: %.1f airborne, want %.1f +- %.1f", c, got, want, manyDeviations*sd)
		}
	}
}

func TestScenario(t *testing.T) {
	load := func() *scenario.Scenario {
		s, err := scenario.Load("../../scenarios/airspace-us.yaml", scenario.Options{
			Models: []sim.Model{Model()}, Set: []string{"params.traffic=0.05"}, End: "2 h",
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := load()
	f, digest := execute(t, s.Program, 4)
	pictures, err := s.Program.Pictures(f)
	if err != nil || len(pictures) != 1 {
		t.Fatalf("%d pictures, %v", len(pictures), err)
	}
	svg := string(pictures[0].SVG)
	checkXML(t, svg)
	if len(svg) > 600_000 {
		t.Errorf("the picture has %d bytes", len(svg))
	}
	for _, want := range []string{">ATL<", "radars, range 250 km (40)", "borders of the 4 regions", "losses of separation ("} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture has no %q", want)
		}
	}
	one, again := execute(t, load().Program, 1)
	if digest != again {
		t.Errorf("digest %x with 4 regions, %x with one", digest, again)
	}
	if one.Events != f.Events {
		t.Errorf("%d events with 4 regions, %d with one", f.Events, one.Events)
	}
}

func checkXML(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
