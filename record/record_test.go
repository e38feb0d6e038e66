package record

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/simnode/simnode/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// contact has a column of every type.
type contact struct {
	Seen     bool         `col:"seen"`
	Small    int8         `col:"small"`
	Level    int32        `col:"level" unit:"ft"`
	Mode     uint16       `col:"mode"`
	Distance float64      `col:"distance" unit:"m"`
	Snr      float32      `col:"snr" unit:"dB"`
	Since    sim.Time     `col:"since"`
	Held     sim.Duration `col:"held" unit:"s"`
	Other    sim.EntityID `col:"other"`
	Call     [8]byte      `col:"call"`
	Entity   uint64       `col:"entity"`
}

const (
	departures = iota
	airborne
	wait
	contacts
)

// program declares one series of each sort, in the order of the constants above.
func program(t testing.TB, end sim.Time, at ...sim.Time) *sim.Program {
	t.Helper()
	m := sim.Define(sim.Model{Name: "test"}, func(b *sim.Builder, _ *struct{}) error {
		sim.DefineCounter(b, "departures", "flights", "")
		sim.DefineGauge(b, "airborne", "aircraft", "", 2, at...)
		sim.DefineSample(b, "wait", "s", "")
		sim.DefineTable[contact](b, "contacts", "")
		sim.DefineEvent[sim.None](b, "scan", sim.Interaction)
		k := sim.DefineKind[sim.None](b, "radar", "")
		sim.Add(k, sim.Vec{}, sim.None{})
		return nil
	})
	p, err := sim.NewProgram(m, m.NewParams(), sim.Space{}, 1, end)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func encode(t testing.TB, row contact) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, row); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// stream draws observations in order, events included.
func stream(t *rapid.T, tb testing.TB, end sim.Time) []sim.Observation {
	var obs []sim.Observation
	now := sim.Time(0)
	for range rapid.IntRange(0, 60).Draw(t, "observations") {
		now = min(now+sim.Time(rapid.Int64Range(0, int64(end)/8+1).Draw(t, "gap")), end)
		o := sim.Observation{Time: now, Key: sim.MakeKey(sim.Interaction, 1), Seq: uint64(len(obs)) << 16, Entity: 1}
		o.Value = rapid.SampledFrom([]float64{0, 1, -1, 2.5, 1e9, 0.1, -3}).Draw(t, "value")
		switch o.Series = rapid.SampledFrom([]uint16{departures, airborne, wait, contacts, sim.TraceSeries}).Draw(t, "series"); o.Series {
		case airborne:
			o.Op = rapid.SampledFrom([]sim.Op{sim.OpAdd, sim.OpSet}).Draw(t, "op")
		case wait:
			o.Op = sim.OpSet
		case contacts:
			o.Op = sim.OpRow
			o.Row = encode(tb, contact{Seen: true, Small: -3, Distance: o.Value, Since: now, Call: [8]byte{'A', 'B', ','}})
		}
		obs = append(obs, o)
	}
	return obs
}

func both(dir string) Options {
	return Options{Level: Raw, CSV: true, Parquet: true, Dir: dir, Bins: 7}
}

// record runs a stream through a recorder in pieces of the given sizes and returns it finished.
func record(t testing.TB, p *sim.Program, o Options, end sim.Time, obs []sim.Observation, cuts ...int) *Recorder {
	t.Helper()
	r, err := New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range cuts {
		n = min(n, len(obs))
		if err := r.Observe(obs[:n]); err != nil {
			t.Fatal(err)
		}
		obs = obs[n:]
	}
	if err := errors.Join(r.Observe(obs), r.Finish(end)); err != nil {
		t.Fatal(err)
	}
	return r
}

func contents(t testing.TB, dir string, r *Recorder) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for _, name := range r.Outputs() {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	return files
}

func TestCutsOfTheStreamDoNotMatter(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		end := sim.Time(rapid.Int64Range(0, 1e12).Draw(rt, "end"))
		p := program(t, end, 0, end/2)
		obs := stream(rt, t, end)
		cuts := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 60).Draw(rt, "cuts")
		dirA, dirB := filepath.Join(base, fmt.Sprint(n), "a"), filepath.Join(base, fmt.Sprint(n), "b")
		a := record(t, p, both(dirA), end, obs)
		b := record(t, p, both(dirB), end, obs, cuts...)
		for s := range p.Series {
			if x, y := fmt.Sprintf("%+v", a.Stats(s)), fmt.Sprintf("%+v", b.Stats(s)); x != y {
				rt.Fatalf("statistics differ:\n%s\n%s", x, y)
			}
		}
		if !slices.Equal(a.Outputs(), b.Outputs()) || len(a.Outputs()) != 8 {
			rt.Fatalf("outputs %v and %v", a.Outputs(), b.Outputs())
		}
		filesB := contents(t, dirB, b)
		for name, data := range contents(t, dirA, a) {
			if !bytes.Equal(data, filesB[name]) {
				rt.Fatalf("%s differs", name)
			}
		}
	})
}

// perTick is the gauge's level in each tick of [0, end), by brute force.
func perTick(obs []sim.Observation, end sim.Time) (levels []float64, last float64) {
	last = 2
	i := 0
	for tick := range end {
		for i < len(obs) && obs[i].Time <= tick {
			last = apply(last, obs[i])
			i++
		}
		levels = append(levels, last)
	}
	for ; i < len(obs); i++ {
		last = apply(last, obs[i])
	}
	return levels, last
}

func apply(level float64, o sim.Observation) float64 {
	switch {
	case o.Series != airborne:
		return level
	case o.Op == sim.OpAdd:
		return level + o.Value
	}
	return o.Value
}

func near(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1)
}

func TestGaugeAgainstEveryTick(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		end := sim.Time(rapid.Int64Range(1, 300).Draw(rt, "end"))
		reached := sim.Time(rapid.Int64Range(0, int64(end)).Draw(rt, "reached"))
		asked := rapid.SliceOfN(rapid.Int64Range(0, int64(end)), 0, 5).Draw(rt, "asked")
		slices.Sort(asked)
		var at []sim.Time
		for _, a := range asked {
			at = append(at, sim.Time(a))
		}
		obs := slices.DeleteFunc(stream(rt, t, reached), func(o sim.Observation) bool { return o.Value > 1e6 })
		bins := rapid.IntRange(1, 20).Draw(rt, "bins")
		st := record(t, program(t, end, at...), Options{Bins: bins}, reached, obs).Stats(airborne)
		levels, last := perTick(obs, reached)
		checkGauge(rt, st, levels, last, reached)
		checkAsked(rt, st, obs, at, reached)
		checkBins(rt, st.Bins, levels, end, reached)
	})
}

func checkGauge(t *rapid.T, st sim.Stats, levels []float64, last float64, reached sim.Time) {
	total, squares := 0.0, 0.0
	for _, v := range levels {
		total += v
	}
	mean := last
	if reached > 0 {
		mean = total / float64(reached)
	}
	for _, v := range levels {
		squares += (v - mean) * (v - mean) / float64(reached)
	}
	if !near(st.Sum, total/1e9) || !near(st.Mean, mean) || !near(st.Variance, squares) || st.Last != last {
		t.Fatalf("sum %g mean %g variance %g last %g, want %g %g %g %g", st.Sum, st.Mean, st.Variance, st.Last, total/1e9, mean, squares, last)
	}
}

func checkAsked(t *rapid.T, st sim.Stats, obs []sim.Observation, at []sim.Time, reached sim.Time) {
	if len(st.At) != len(at) {
		t.Fatalf("%d values at %d times", len(st.At), len(at))
	}
	for i, a := range at {
		want := 2.0
		for _, o := range obs {
			if o.Time < a {
				want = apply(want, o)
			}
		}
		if a > reached {
			want = math.NaN()
		}
		if !near(st.At[i], want) {
			t.Fatalf("value at %d is %g, want %g", a, st.At[i], want)
		}
	}
}

func checkBins(t *rapid.T, bins, levels []float64, end, reached sim.Time) {
	for i, got := range bins {
		total, n := 0.0, 0
		for tick, v := range levels {
			if tick*len(bins)/int(end) == i {
				total, n = total+v, n+1
			}
		}
		want := total / float64(n)
		if n == 0 {
			want = math.NaN()
		}
		if !near(got, want) {
			t.Fatalf("bin %d of %d is %g, want %g", i, len(bins), got, want)
		}
	}
}

func TestSampleAgainstTwoPasses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 0, 50).Draw(rt, "values")
		var obs []sim.Observation
		for _, v := range values {
			obs = append(obs, sim.Observation{Series: wait, Op: sim.OpSet, Value: v})
		}
		st := record(t, program(t, 10), Options{}, 10, obs).Stats(wait)
		n, total := float64(len(values)), 0.0
		if st.Count != int64(len(values)) {
			rt.Fatalf("count %d", st.Count)
		}
		if n == 0 {
			if st.Mean != 0 || st.Variance != 0 || st.Quantiles != [6]float64{} {
				rt.Fatalf("an empty sample has %+v", st)
			}
			return
		}
		for _, v := range values {
			total += v
		}
		squares := 0.0
		for _, v := range values {
			squares += (v - total/n) * (v - total/n)
		}
		variance := 0.0
		if n > 1 {
			variance = squares / (n - 1)
		}
		if !near(st.Sum, total) || !near(st.Mean, total/n) || math.Abs(st.Variance-variance) > 1e-9*(1+variance) ||
			st.Min != slices.Min(values) || st.Max != slices.Max(values) || st.Last != values[len(values)-1] {
			rt.Fatalf("%+v of %v", st, values)
		}
	})
}

func TestCounterAndTableBins(t *testing.T) {
	row := encode(t, contact{})
	obs := []sim.Observation{
		{Time: 0, Series: departures, Value: 2}, {Time: 4, Series: departures, Value: 1}, {Time: 5, Series: contacts, Op: sim.OpRow, Row: row},
		{Time: 5, Series: departures, Value: 4}, {Time: 9, Series: contacts, Op: sim.OpRow, Row: row}, {Time: 10, Series: departures, Value: 8},
	}
	r := record(t, program(t, 10), Options{Bins: 2}, 10, obs)
	if st := r.Stats(departures); st.Count != 4 || st.Sum != 15 || st.Last != 15 || !slices.Equal(st.Bins, []float64{3, 12}) {
		t.Errorf("counter: %+v", st)
	}
	if st := r.Stats(contacts); st.Count != 2 || !slices.Equal(st.Bins, []float64{0, 2}) {
		t.Errorf("table: %+v", st)
	}
}

// TestObserversMustNotDisturb: the level of recording changes no statistic.
func TestObserversMustNotDisturb(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		p := program(t, 1e9, 5e8)
		obs := stream(rt, t, 1e9)
		want := record(t, p, Options{Bins: 7}, 1e9, obs)
		for _, level := range []Level{Summary, Raw} {
			o := both(filepath.Join(base, fmt.Sprint(n, level)))
			o.Level = level
			got := record(t, p, o, 1e9, obs)
			for s := range p.Series {
				if fmt.Sprintf("%+v", got.Stats(s)) != fmt.Sprintf("%+v", want.Stats(s)) {
					rt.Fatalf("level %s changes the statistics of %s", level, p.Series[s].Name)
				}
			}
		}
	})
}

func readCSV(t testing.TB, path string) [][]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// readParquet returns the file as text, as the CSV file has it.
func readParquet(t testing.TB, path string) [][]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var head []string
	for _, c := range f.Schema().Columns() {
		head = append(head, c[0])
	}
	records := [][]string{head}
	for _, g := range f.RowGroups() {
		rows := g.Rows()
		buf := make([]parquet.Row, 16)
		for {
			n, err := rows.ReadRows(buf)
			for _, row := range buf[:n] {
				records = append(records, parquetTexts(f, row))
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return records
}

func parquetTexts(f *parquet.File, row parquet.Row) (texts []string) {
	for i, v := range row {
		leaf := f.Root().Column(f.Schema().Columns()[i][0])
		switch {
		case v.IsNull():
			texts = append(texts, "")
		case v.Kind() == parquet.Double:
			texts = append(texts, strconv.FormatFloat(v.Double(), 'g', -1, 64))
		case v.Kind() == parquet.Float:
			texts = append(texts, strconv.FormatFloat(float64(v.Float()), 'g', -1, 32))
		case v.Kind() == parquet.Int64 && strings.HasPrefix(leaf.Type().String(), "INT(64,false"):
			texts = append(texts, strconv.FormatUint(v.Uint64(), 10))
		default:
			texts = append(texts, v.String())
		}
	}
	return texts
}

func TestParquetHoldsWhatCSVHolds(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		end := sim.Time(rapid.Int64Range(1, 1e12).Draw(rt, "end"))
		record(t, program(t, end), both(dir), end, stream(rt, t, end))
		for _, name := range []string{"contacts", "events", "series", "timeline"} {
			a, b := readCSV(t, filepath.Join(dir, name+".csv")), readParquet(t, filepath.Join(dir, name+".parquet"))
			if fmt.Sprint(a) != fmt.Sprint(b) {
				rt.Fatalf("%s differs:\n%v\n%v", name, a, b)
			}
		}
	})
}

func TestTableFile(t *testing.T) {
	dir := t.TempDir()
	row := contact{true, -128, -1000, 65535, 0.1, 0.1, 7, sim.Second, 1 << 60, [8]byte{'N', '"', '1'}, math.MaxUint64}
	obs := []sim.Observation{
		{Time: 1500 * 1e6, Entity: 3, Series: contacts, Op: sim.OpRow, Row: encode(t, row)},
		{Time: 1500 * 1e6, Entity: 2, Series: contacts, Op: sim.OpRow, Row: encode(t, contact{Distance: math.NaN()})},
	}
	record(t, program(t, 2e9), both(dir), 2e9, obs)
	want := `time_s,time_ns,entity,seen,small,level_ft,mode,distance_m,snr_dB,since_ns,held_ns,other,call,entity_2
1.5,1500000000,3,true,-128,-1000,65535,0.1,0.1,7,1000000000,1152921504606846976,"N""1",18446744073709551615
1.5,1500000000,2,false,0,0,0,NaN,0,0,0,0,"",0
`
	got, err := os.ReadFile(filepath.Join(dir, "contacts.csv"))
	if err != nil || string(got) != want {
		t.Errorf("contacts.csv is\n%s%v, want\n%s", got, err, want)
	}
}

func TestEventsFile(t *testing.T) {
	dir := t.TempDir()
	obs := []sim.Observation{
		{Time: 0, Key: sim.MakeKey(sim.System, 0), Seq: 5<<16 | sim.StartEvent, Entity: 1, Series: sim.TraceSeries},
		{Time: 9, Key: sim.MakeKey(sim.Interaction, 1<<60|7), Seq: (1<<48 - 1) << 16, Entity: 1 << 60, Series: sim.TraceSeries},
	}
	record(t, program(t, 10), Options{Level: Raw, Dir: dir}, 10, obs)
	want := "time_ns,priority,source,sequence,entity,kind,event\n0,system,0,5,1,radar,start\n" +
		"9,interaction,1152921504606846983,281474976710655,1152921504606846976,radar,scan\n"
	got, err := os.ReadFile(filepath.Join(dir, "events.csv"))
	if err != nil || string(got) != want {
		t.Errorf("events.csv is\n%s%v, want\n%s", got, err, want)
	}
}

func TestSeriesAndTimelineFiles(t *testing.T) {
	dir := t.TempDir()
	obs := []sim.Observation{
		{Time: 0, Series: departures, Value: 1}, {Time: 5e9, Series: airborne, Op: sim.OpSet, Value: 4},
		{Time: 6e9, Series: wait, Op: sim.OpSet, Value: 1.5},
	}
	record(t, program(t, 10e9), Options{Level: Statistical, Dir: dir, Bins: 2}, 10e9, obs)
	want := `name,kind,unit,count,sum,mean,variance,min,max,last,p05,p25,p50,p75,p95,p99
departures,counter,flights,1,1,,,,,1,,,,,,
airborne,gauge,aircraft,1,30,3,1,2,4,4,,,,,,
wait,sample,s,1,1.5,1.5,,1.5,1.5,1.5,1.5,1.5,1.5,1.5,1.5,1.5
contacts,table,"",0,,,,,,,,,,,,
`
	if got, err := os.ReadFile(filepath.Join(dir, "series.csv")); err != nil || string(got) != want {
		t.Errorf("series.csv is\n%s%v, want\n%s", got, err, want)
	}
	want = "time_s,time_ns,departures_flights,airborne_aircraft,wait_s,contacts\n0,0,1,2,,0\n5,5000000000,0,4,1.5,0\n"
	if got, err := os.ReadFile(filepath.Join(dir, "timeline.csv")); err != nil || string(got) != want {
		t.Errorf("timeline.csv is\n%s%v, want\n%s", got, err, want)
	}
}

// TestBorderCrossingInRecords: one leave and one enter at the same time stay in their order.
func TestBorderCrossingInRecords(t *testing.T) {
	var obs []sim.Observation
	for i, call := range []string{"leave", "enter"} {
		row := contact{Mode: uint16(i)}
		copy(row.Call[:], call)
		obs = append(obs, sim.Observation{Time: 3, Entity: 9, Index: uint32(i), Series: contacts, Op: sim.OpRow, Row: encode(t, row)})
	}
	dir := t.TempDir()
	r := record(t, program(t, 10), both(dir), 10, obs)
	var got []string
	r.Rows(contacts, func(_ sim.Time, e sim.EntityID, data []byte) bool {
		got = append(got, fmt.Sprint(e, " ", string(trimText(data[len(data)-16:len(data)-8]))))
		return true
	})
	if !slices.Equal(got, []string{"9 leave", "9 enter"}) {
		t.Errorf("rows %v", got)
	}
	if rows := readCSV(t, filepath.Join(dir, "contacts.csv")); len(rows) != 3 || rows[1][12] != "leave" || rows[2][12] != "enter" {
		t.Errorf("file %v", rows)
	}
}

func TestInterruptedRun(t *testing.T) {
	dir := t.TempDir()
	obs := []sim.Observation{{Time: 1, Series: departures, Value: 1}, {Time: 3, Series: sim.TraceSeries}}
	r := record(t, program(t, 100, 2, 50), Options{Level: Raw, CSV: true, Parquet: true, Dir: dir, Bins: 10}, 15, obs)
	if at := r.Stats(airborne).At; at[0] != 2 || !math.IsNaN(at[1]) {
		t.Errorf("values asked for: %v", at)
	}
	for s := range 2 {
		if bins := r.Stats(s).Bins; math.IsNaN(bins[1]) || !math.IsNaN(bins[2]) || !math.IsNaN(bins[9]) {
			t.Errorf("bins %v", bins)
		}
	}
	if rows := readCSV(t, filepath.Join(dir, "timeline.csv")); len(rows) != 3 {
		t.Errorf("timeline %v", rows)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(r.Outputs()) {
		t.Errorf("the folder holds %v (%v), outputs %v", entries, err, r.Outputs())
	}
	for _, name := range r.Outputs() {
		if strings.HasSuffix(name, ".parquet") {
			readParquet(t, filepath.Join(dir, name))
		}
	}
}

func TestNothingObserved(t *testing.T) {
	for _, end := range []sim.Time{0, 1, sim.Time(sim.Day), sim.Never - 1} {
		dir := t.TempDir()
		r := record(t, program(t, end), both(dir), end, nil)
		want := []string{"contacts.csv", "contacts.parquet", "events.csv", "events.parquet", "series.csv", "series.parquet", "timeline.csv", "timeline.parquet"}
		if !slices.Equal(r.Outputs(), want) {
			t.Errorf("outputs %v", r.Outputs())
		}
		if rows := readParquet(t, filepath.Join(dir, "contacts.parquet")); len(rows) != 1 || rows[0][7] != "distance_m" {
			t.Errorf("rows %v", rows)
		}
		if st := r.Stats(airborne); st.Mean != 2 || st.Variance != 0 {
			t.Errorf("end %v: gauge %+v", end, st)
		}
	}
}

func TestBadObservations(t *testing.T) {
	row := encode(t, contact{Call: [8]byte{'a', 0xff}})
	short := row[:len(row)-1]
	for want, o := range map[string]sim.Observation{
		"series wait: observation of entity 4 (radar) at 5ns: the value is NaN": {Series: wait, Op: sim.OpSet, Value: math.NaN()},
		"the value is -Inf":         {Series: airborne, Value: math.Inf(-1)},
		"declares only 4 series":    {Series: 4},
		"does not suit a table":     {Series: contacts, Op: sim.OpAdd},
		"does not suit a sample":    {Series: wait, Op: sim.OpRow},
		"column call is not valid":  {Series: contacts, Op: sim.OpRow, Row: row},
		"the row has 59 bytes, not": {Series: contacts, Op: sim.OpRow, Row: short},
		"(kind-9)":                  {Series: 99, Kind: 9},
	} {
		for _, level := range []Level{Off, Raw} {
			r, err := New(program(t, 10), Options{Level: level, Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			o.Time, o.Entity = 5, 4
			err = r.Observe([]sim.Observation{o})
			var typed *ObservationError
			if !errors.As(err, &typed) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
			if err := r.Finish(5); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestOutOfOrderAndAfterTheEnd(t *testing.T) {
	r, err := New(program(t, 10), Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Observe([]sim.Observation{{Time: 5, Series: departures, Value: 1}, {Time: 4, Series: sim.TraceSeries}})
	if err == nil || !strings.Contains(err.Error(), "series events") || !strings.Contains(err.Error(), "after one at 5ns") {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(r.Finish(10), r.Finish(20)); err != nil {
		t.Error(err)
	}
	if st := r.Stats(airborne); st.Sum != 2*10e-9 {
		t.Errorf("the second Finish counts: %+v", st)
	}
	if err := r.Observe(nil); err == nil {
		t.Error("no error after Finish")
	}
	for _, s := range []int{-1, 4} {
		if st := r.Stats(s); st.Count != 0 || st.Bins != nil {
			t.Errorf("series %d: %+v", s, st)
		}
		r.Rows(s, func(sim.Time, sim.EntityID, []byte) bool { t.Error("a row of no table"); return true })
	}
}

func TestUnwritableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := t.TempDir()
	if err := os.Mkdir(filepath.Join(taken, "events.csv"+partial), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), "", "a\x00b", taken} {
		_, err := New(program(t, 10), Options{Level: Raw, Dir: dir})
		var typed *DirError
		if !errors.As(err, &typed) || typed.Dir != dir || errors.Unwrap(typed) == nil {
			t.Errorf("folder %q: %v", dir, err)
		}
	}
	if left, err := os.ReadDir(taken); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if _, err := New(program(t, 10), Options{Level: Off, Dir: file}); err != nil {
		t.Errorf("level off needs no folder: %v", err)
	}
	deep := filepath.Join(t.TempDir(), "a", "b")
	if r := record(t, program(t, 10), Options{Level: Summary, Dir: deep}, 10, nil); len(r.Outputs()) != 0 {
		t.Errorf("outputs %v", r.Outputs())
	}
	if left, err := os.ReadDir(deep); err != nil || len(left) != 0 {
		t.Errorf("the folder holds %v %v", left, err)
	}
}

func TestFilesThatCannotBeCompleted(t *testing.T) {
	dir := t.TempDir()
	r, err := New(program(t, 10), Options{Level: Raw, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.events[0].out.file.Close(); err != nil {
		t.Fatal(err)
	}
	err = r.Finish(10)
	if err == nil || !strings.Contains(err.Error(), "writing events.csv") {
		t.Errorf("error %v", err)
	}
	if want := []string{"contacts.csv", "series.csv", "timeline.csv"}; !slices.Equal(r.Outputs(), want) {
		t.Errorf("outputs %v", r.Outputs())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("the folder holds %v %v", left, err)
	}
}

func TestOptions(t *testing.T) {
	for i, name := range Levels() {
		if l, err := ParseLevel(name); err != nil || l != Level(i) || l.String() != name {
			t.Errorf("%s: %v %v", name, l, err)
		}
	}
	if _, err := ParseLevel("Raw "); err == nil || !strings.Contains(err.Error(), `"Raw "`) {
		t.Errorf("error %v", err)
	}
	for _, o := range []Options{{Bins: -1}, {Bins: maxBins + 1}, {Level: 4}} {
		if _, err := New(program(t, 10), o); err == nil {
			t.Errorf("no error for %+v", o)
		}
	}
	if _, err := New(program(t, 10, 5, 4), Options{}); err == nil || !strings.Contains(err.Error(), "ascend") {
		t.Errorf("error %v", err)
	}
	if r := record(t, program(t, sim.Time(sim.Day)), Options{}, sim.Time(sim.Day), nil); len(r.Stats(0).Bins) != defaultBins {
		t.Errorf("%d bins", len(r.Stats(0).Bins))
	}
}

// TestHostileNames: names of tables and columns neither leave the folder nor collide.
func TestHostileNames(t *testing.T) {
	var columns []sim.Column
	for i, name := range []string{"a,b\"c", "time_ns", "1/s.x", "größe", "", "tab\tand\nline", "bad\xff", "a,b\"c"} {
		columns = append(columns, sim.Column{Name: name, Type: reflect.TypeFor[uint8](), Offset: i})
	}
	p := &sim.Program{End: 10}
	names := []string{"../../up", "series", "SERIES", "a/b", "a-b", "", strings.Repeat("x", 300), "größe", "events"}
	for _, n := range names {
		p.Series = append(p.Series, &sim.SeriesInfo{Name: n, Kind: sim.TableSeries, Columns: columns})
	}
	p.Series = append(p.Series, &sim.SeriesInfo{Name: "a_b"}, &sim.SeriesInfo{Name: "a", Unit: "b"})
	dir := filepath.Join(t.TempDir(), "x", "out")
	r := record(t, p, both(dir), 10, []sim.Observation{{Series: 3, Op: sim.OpRow, Row: []byte{1, 2, 3, 4, 5, 6, 7, 8}}})
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != len(r.Outputs()) || len(entries) != 2*(len(names)+3) {
		t.Errorf("%d files (%v), outputs %q", len(entries), err, r.Outputs())
	}
	rows := readParquet(t, filepath.Join(dir, "a-b.parquet"))
	want := "[[time_s time_ns entity a_b_c time_ns_2 1/s_x größe column tab_and_line bad_ a_b_c_2] [0 0 0 1 2 3 4 5 6 7 8]]"
	if fmt.Sprint(rows) != want {
		t.Errorf("rows %v, want %s", rows, want)
	}
	if records := readCSV(t, filepath.Join(dir, "a-b.csv")); fmt.Sprint(records) != want {
		t.Errorf("CSV %v", records)
	}
}

// TestManyRows: more rows than a row group and than are kept.
func TestManyRows(t *testing.T) {
	dir := t.TempDir()
	r, err := New(program(t, 1e9), Options{Level: Statistical, Parquet: true, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	const n = keptRows + 1000
	row := encode(t, contact{})
	for i := range n {
		row[8] = byte(i)
		if err := r.Observe([]sim.Observation{{Time: sim.Time(i), Entity: sim.EntityID(i), Series: contacts, Op: sim.OpRow, Row: row}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Finish(1e9); err != nil {
		t.Fatal(err)
	}
	if r.Stats(contacts).Count != n {
		t.Errorf("count %d", r.Stats(contacts).Count)
	}
	kept := 0
	r.Rows(contacts, func(at sim.Time, e sim.EntityID, data []byte) bool {
		if int(at) != kept || int(e) != kept || data[8] != byte(kept) {
			t.Fatalf("row %d is that of %d", kept, at)
		}
		kept++
		return true
	})
	if kept != keptRows {
		t.Errorf("%d rows kept", kept)
	}
	r.Rows(contacts, func(sim.Time, sim.EntityID, []byte) bool { kept++; return false })
	if kept != keptRows+1 {
		t.Error("Rows goes on after false")
	}
	data, err := os.ReadFile(filepath.Join(dir, "contacts.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil || f.NumRows() != n || len(f.RowGroups()) != 2 {
		t.Errorf("%d rows in %d groups: %v", f.NumRows(), len(f.RowGroups()), err)
	}
}

// TestNoAllocationPerObservation: what is observed all the time costs no garbage.
func TestNoAllocationPerObservation(t *testing.T) {
	for _, o := range []Options{{Level: Raw, CSV: true}, {Level: Raw, CSV: true, Parquet: true, Resumable: true, Rebin: true}} {
		o.Dir = t.TempDir()
		noAllocation(t, o)
	}
}

func noAllocation(t *testing.T, o Options) {
	t.Helper()
	r, err := New(program(t, 1e15), o)
	if err != nil {
		t.Fatal(err)
	}
	obs := []sim.Observation{{Series: departures, Value: 1}, {Series: airborne, Value: 1}, {Series: wait, Op: sim.OpSet, Value: 1}, {Series: sim.TraceSeries}}
	next := func() {
		for i := range obs {
			obs[i].Time++
		}
		if err := r.Observe(obs); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * exactValues {
		next()
	}
	if n := testing.AllocsPerRun(1000, next); n > 0 {
		t.Errorf("%g allocations", n)
	}
	if err := r.Finish(1e15); err != nil {
		t.Fatal(err)
	}
}
