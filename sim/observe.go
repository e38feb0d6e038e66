package sim

import (
	"reflect"
	"unsafe"
)

// SeriesKind is the sort of an observed series.
type SeriesKind uint8

// The sorts of series. Trace is the record of every event.
const (
	CounterSeries SeriesKind = iota
	GaugeSeries
	SampleSeries
	TableSeries
)

// String returns the name of the sort.
func (k SeriesKind) String() string {
	switch k {
	case CounterSeries:
		return "counter"
	case GaugeSeries:
		return "gauge"
	case SampleSeries:
		return "sample"
	case TableSeries:
		return "table"
	}
	return "unknown"
}

// SeriesInfo describes an observed series.
type SeriesInfo struct {
	Name, Unit, Doc string
	Kind            SeriesKind
	// Start is a gauge's value at time 0.
	Start float64
	// At are times at which a gauge's value is asked for, ascending.
	At []Time
	// Columns of a table.
	Columns []Column

	codec *codec
}

// Column is a column of a table.
type Column struct {
	// Name and Unit as tagged: col:"distance" unit:"m".
	Name, Unit string
	// Type is the Go type of the field: bool, integers, floats, Time, Duration, EntityID, or a byte
	// array that holds text padded with zero bytes.
	Type reflect.Type
	// Offset in the row's encoding (fields in order, little endian, no padding).
	Offset int
}

// Counter counts things over the whole run.
type Counter struct{ id uint16 }

// Gauge is one level of the whole run, such as the number of aircraft airborne: entities add to it
// or set it, and its average is weighted by time. A gauge in which entities Set is last-writer in
// the order of events.
type Gauge struct{ id uint16 }

// Sample collects single values, such as waiting times.
type Sample struct{ id uint16 }

// Table records rows of type R, a struct of numbers, booleans, times, ids and byte arrays, whose
// fields carry col:"name" and unit:"m".
type Table[R any] struct {
	id    uint16
	codec *codec
}

// DefineCounter declares a counter.
func DefineCounter(b *Builder, name, unit, doc string) Counter {
	return Counter{b.series(SeriesInfo{Name: name, Unit: unit, Doc: doc, Kind: CounterSeries})}
}

// DefineGauge declares a gauge with its value at time 0 and the times at which its value is asked
// for (the value just before the first event at that time).
func DefineGauge(b *Builder, name, unit, doc string, start float64, at ...Time) Gauge {
	return Gauge{b.series(SeriesInfo{Name: name, Unit: unit, Doc: doc, Kind: GaugeSeries, Start: start, At: at})}
}

// DefineSample declares a sample.
func DefineSample(b *Builder, name, unit, doc string) Sample {
	return Sample{b.series(SeriesInfo{Name: name, Unit: unit, Doc: doc, Kind: SampleSeries})}
}

// DefineTable declares a table of records.
func DefineTable[R any](b *Builder, name, doc string) Table[R] {
	t := reflect.TypeFor[R]()
	b.mustBePlain("table "+name, *new(R))
	columns, err := tableColumns(t)
	if err != nil {
		b.fail("table %s: %w", name, err)
	}
	c, _ := newCodec(t)
	id := b.series(SeriesInfo{Name: name, Doc: doc, Kind: TableSeries, Columns: columns, codec: c})
	return Table[R]{id, c}
}

func (b *Builder) series(s SeriesInfo) uint16 {
	for _, o := range b.prog.Series {
		if o.Name == s.Name {
			b.fail("series %s is declared twice", s.Name)
		}
	}
	if len(b.prog.Series) == TraceSeries {
		b.fail("series %s: a model has at most %d series", s.Name, TraceSeries)
	}
	b.prog.Series = append(b.prog.Series, &s)
	return uint16(len(b.prog.Series) - 1)
}

// Add counts n more.
func (s Counter) Add(c *Context, n int64) { c.eng.Observe(s.id, OpAdd, float64(n)) }

// Add changes the level by d.
func (s Gauge) Add(c *Context, d float64) { c.eng.Observe(s.id, OpAdd, d) }

// Set sets the level.
func (s Gauge) Set(c *Context, v float64) { c.eng.Observe(s.id, OpSet, v) }

// Observe adds one value.
func (s Sample) Observe(c *Context, v float64) { c.eng.Observe(s.id, OpSet, v) }

// Write adds one row.
func (t Table[R]) Write(c *Context, row R) {
	buf := c.eng.ObserveRow(t.id, t.codec.fixed)
	t.codec.put(buf, unsafe.Pointer(&row))
}

// Stats are the statistics of one series over the run.
type Stats struct {
	// Count of observations (rows of a table).
	Count int64
	// Sum of a counter or sample; the time integral of a gauge in value x seconds.
	Sum float64
	// Mean and Variance: of a sample, the mean and the variance with n-1; of a gauge, the averages
	// weighted by time up to the end of the run.
	Mean, Variance float64
	// Min and Max value seen; for a gauge its start included.
	Min, Max float64
	// Last value of a gauge, or of a sample; the total of a counter.
	Last float64
	// At are a gauge's values at the times asked for, in that order.
	At []float64
	// Quantile values of a sample: 0.05, 0.25, 0.5, 0.75, 0.95, 0.99.
	Quantiles [6]float64
	// Series over simulated time, for plots: equal intervals of the run. Of a counter the count in
	// each, of a gauge its time average, of a sample its mean (NaN where there was none).
	Bins []float64
}

// Row is one row of a table with the time and entity that wrote it.
type Row[R any] struct {
	Time   Time
	Entity EntityID
	Row    R
}

// Picture is a drawing for the report.
type Picture struct {
	// Name is a file name without extension: lower case, digits, dashes.
	Name string
	// Title and Caption for people.
	Title, Caption string
	// SVG is the drawing.
	SVG []byte
}

// Final is the end of a run as a model's results and pictures see it.
type Final struct {
	// End is the simulated time that was reached.
	End Time
	// Events that were handled.
	Events uint64
	// Program that ran.
	Program *Program
	// Regions are the boxes of the regions, clipped to the space's bounds; empty without a space.
	Regions []Box
	// States gives the entities that exist at the end, in the order of ids.
	States func(yield func(id EntityID, kind uint16, state unsafe.Pointer) bool)
	// Measured holds what was observed.
	Measured Measured
}

// Measured is what was observed in a run.
type Measured interface {
	// Stats of a series.
	Stats(series int) Stats
	// Rows calls yield for the kept rows of a table in order; the data is valid during the call. At
	// least the first 100,000 rows of each table are kept.
	Rows(series int, yield func(t Time, entity EntityID, data []byte) bool)
}

// Each calls yield for every entity of kind k at the end of the run, in the order of ids.
func Each[S any](f *Final, k Kind[S], yield func(id EntityID, s *S)) {
	f.States(func(id EntityID, kind uint16, state unsafe.Pointer) bool {
		if kind == k.id {
			yield(id, (*S)(state))
		}
		return true
	})
}

// Of returns the statistics of the counter.
func (s Counter) Of(f *Final) Stats { return f.Measured.Stats(int(s.id)) }

// Of returns the statistics of the gauge.
func (s Gauge) Of(f *Final) Stats { return f.Measured.Stats(int(s.id)) }

// Of returns the statistics of the sample.
func (s Sample) Of(f *Final) Stats { return f.Measured.Stats(int(s.id)) }

// Count returns how many rows were written.
func (t Table[R]) Count(f *Final) int64 { return f.Measured.Stats(int(t.id)).Count }

// Rows returns the kept rows in order.
func (t Table[R]) Rows(f *Final) (rows []Row[R]) {
	f.Measured.Rows(int(t.id), func(at Time, e EntityID, data []byte) bool {
		r := Row[R]{Time: at, Entity: e}
		t.codec.get(unsafe.Pointer(&r.Row), data)
		rows = append(rows, r)
		return true
	})
	return rows
}
