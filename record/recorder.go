package record

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/simnode/simnode/sim"
)

// Recorder makes statistics and files from the observations of one run. It is used by one goroutine.
type Recorder struct {
	prog    *sim.Program
	options Options
	cursor  cursor
	now     sim.Time
	series  []*series
	events  table
	// outputs are the files to be completed, in the order of Outputs.
	outputs []*output
	// lateEvents are the files of events that Finish makes from the spool.
	lateEvents table
	// spool is nil unless the recording is resumable and has a folder.
	spool *spool
	// failed is the first error of Observe.
	failed   error
	finished bool
	complete []string
	row      []cell
	names    arena
}

var (
	_ sim.Sink     = (*Recorder)(nil)
	_ sim.Measured = (*Recorder)(nil)
)

// series is the state of one declared series.
type series struct {
	info   *sim.SeriesInfo
	meter  meter
	stats  sim.Stats
	fields []field
	size   int
	kept   rows
	table  table
	// late are the files that Finish makes from the spool.
	late table
}

// rows are the first rows of a table.
type rows struct {
	times    []sim.Time
	entities []sim.EntityID
	data     []byte
}

// New returns a recorder of the program's series. From level summary on it makes the folder; one that
// cannot be written to is a *DirError. The files of the level are opened, so that Finish must be
// called even if nothing was observed.
func New(p *sim.Program, o Options) (*Recorder, error) {
	r, err := prepare(p, o)
	if err != nil || o.Level == Off {
		return r, err
	}
	if err := makeDir(o.Dir); err != nil {
		return nil, err
	}
	r.plan()
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, r.Discard())
	}
	return r, nil
}

// prepare checks the options and returns a recorder without files.
func prepare(p *sim.Program, o Options) (*Recorder, error) {
	switch {
	case o.Level > Raw:
		return nil, fmt.Errorf("recording level %d: use Off, Summary, Statistical or Raw", o.Level)
	case o.Bins < 0 || o.Bins > maxBins:
		return nil, fmt.Errorf("%d bins: use 1 to %d, or 0 for %d", o.Bins, maxBins, defaultBins)
	case o.Rebin && !o.Resumable:
		return nil, errors.New("option Rebin without Resumable: set both or neither")
	}
	if o.Bins == 0 {
		o.Bins = defaultBins
	}
	g := newGrid(o.Bins, p.End)
	r := &Recorder{prog: p, options: o, cursor: g.cursor()}
	for _, info := range p.Series {
		if info.Kind == sim.GaugeSeries && !slices.IsSorted(info.At) {
			return nil, fmt.Errorf("gauge %s: the times at which its value is asked for must ascend", info.Name)
		}
		s := &series{info: info, meter: newMeter(info, g)}
		_, s.fields = tableColumns(info)
		s.size = rowSize(s.fields)
		r.series = append(r.series, s)
	}
	return r, nil
}

// plan names the files that are written while the run goes on.
func (r *Recorder) plan() {
	if r.options.Resumable {
		r.spool = newSpool(r.output(spoolName, nil))
		r.spool.saved = true
	}
	if r.options.Level < Statistical {
		return
	}
	var tables []*series
	var names []string
	for _, s := range r.series {
		if s.info.Kind == sim.TableSeries {
			tables, names = append(tables, s), append(names, s.info.Name)
		}
	}
	for i, name := range fileNames(names) {
		columns, _ := tableColumns(tables[i].info)
		tables[i].table, tables[i].late = r.planTable(name, columns)
	}
	if r.options.Level == Raw {
		r.events, r.lateEvents = r.planTable("events", eventColumns())
	}
}

func (r *Recorder) output(name string, columns []column) *output {
	return &output{dir: r.options.Dir, name: name, columns: columns, durable: r.options.Resumable}
}

// planTable names a table's file in every format: those written as the rows come, and those that
// Finish makes. A Parquet file cannot be cut back, so that one of a resumable recording is made last.
func (r *Recorder) planTable(name string, columns []column) (now, late table) {
	for _, ending := range r.options.formats() {
		o := r.output(name+ending, columns)
		if ending == parquetEnding && r.options.Resumable {
			late = append(late, o)
		} else {
			o.saved = r.options.Resumable
			now = append(now, o)
		}
		r.outputs = append(r.outputs, o)
	}
	return now, late
}

// growing returns the files that are written now, the spool first.
func (r *Recorder) growing() (files []*output) {
	if r.spool != nil {
		files = append(files, r.spool.output)
	}
	for _, s := range r.series {
		files = append(files, s.table...)
	}
	return append(files, r.events...)
}

// begin makes the planned files.
func (r *Recorder) begin() error {
	for _, o := range r.growing() {
		if err := o.begin(); err != nil {
			return err
		}
	}
	if !r.options.Resumable {
		return nil
	}
	return r.syncDir()
}

// syncDir makes sure that the files keep their names.
func (r *Recorder) syncDir() error {
	if err := syncDir(r.options.Dir); err != nil {
		return &DirError{r.options.Dir, err}
	}
	return nil
}

// create makes a table in every format.
func (r *Recorder) create(name string, columns []column) (t table, err error) {
	for _, ending := range r.options.formats() {
		o := r.output(name+ending, columns)
		if err := o.begin(); err != nil {
			return nil, err
		}
		t = append(t, o)
		r.outputs = append(r.outputs, o)
	}
	return t, nil
}

// Discard ends a recording of a run that never began, and removes its files.
func (r *Recorder) Discard() (err error) {
	r.finished = true
	if r.spool != nil {
		err = r.spool.discard()
	}
	for _, o := range r.outputs {
		err = errors.Join(err, o.discard())
	}
	r.outputs, r.spool = nil, nil
	return err
}

// Close ends a recording without completing it, as a crash would, and leaves its files for Resume.
func (r *Recorder) Close() (err error) {
	if r.finished {
		return nil
	}
	r.finished = true
	for _, o := range r.growing() {
		err = errors.Join(err, o.close())
	}
	return err
}

func eventColumns() []column {
	return []column{{name: "time_ns", typ: integer}, {name: "priority", typ: text}, {name: "source", typ: unsigned},
		{name: "sequence", typ: unsigned}, {name: "entity", typ: unsigned}, {name: "kind", typ: text}, {name: "event", typ: text}}
}

// Observe takes the next observations; see sim.Sink.
func (r *Recorder) Observe(obs []sim.Observation) error {
	if r.finished {
		return errors.New("observations after the end of the recording: call Finish last")
	}
	err := r.take(obs)
	if r.failed == nil {
		r.failed = err
	}
	return err
}

func (r *Recorder) take(obs []sim.Observation) error {
	for i := range obs {
		o := &obs[i]
		if o.Time < r.now {
			return r.reject(o, fmt.Sprintf("it comes after one at %v: the engine must hand observations over in order", r.now))
		}
		r.now = o.Time
		if o.Series == sim.TraceSeries {
			if err := r.trace(o); err != nil {
				return err
			}
			continue
		}
		if err := r.observe(o); err != nil {
			return err
		}
	}
	return nil
}

func (r *Recorder) observe(o *sim.Observation) error {
	if int(o.Series) >= len(r.series) {
		return r.reject(o, fmt.Sprintf("the model declares only %d series", len(r.series)))
	}
	s := r.series[o.Series]
	if reason := s.check(o); reason != "" {
		return r.reject(o, reason)
	}
	s.meter.observe(o, r.cursor.at(o.Time))
	if r.spool != nil && r.spools(s) {
		if err := r.spool.add(o); err != nil {
			return err
		}
	}
	if s.info.Kind != sim.TableSeries {
		return nil
	}
	s.kept.add(o)
	if s.table == nil {
		return nil
	}
	return s.table.write(r.tableRow(s, o))
}

// spools tells whether the next observation of a series goes into the spool.
func (r *Recorder) spools(s *series) bool {
	if r.options.Rebin {
		return true
	}
	return s.info.Kind == sim.TableSeries && (s.late != nil || len(s.kept.times) < keptRows)
}

func (r *Recorder) tableRow(s *series, o *sim.Observation) []cell {
	r.row = append(r.row[:0], floatCell(o.Time.Seconds()), intCell(int64(o.Time)), uintCell(uint64(o.Entity)))
	for _, f := range s.fields {
		r.row = append(r.row, f.cell(o.Row))
	}
	return r.row
}

// check returns what is wrong with an observation, or nothing.
func (s *series) check(o *sim.Observation) string {
	isRow := s.info.Kind == sim.TableSeries
	switch {
	case isRow != (o.Op == sim.OpRow):
		return fmt.Sprintf("operation %d does not suit a %s", o.Op, s.info.Kind)
	case !isRow && (math.IsNaN(o.Value) || math.IsInf(o.Value, 0)):
		return fmt.Sprintf("the value is %g: observe finite numbers", o.Value)
	case isRow && len(o.Row) != s.size:
		return fmt.Sprintf("the row has %d bytes, not %d", len(o.Row), s.size)
	}
	for _, f := range s.fields {
		if f.cellType() == text && !utf8.Valid(f.cell(o.Row).text) {
			return fmt.Sprintf("column %s is not valid UTF-8: %q: cut text between characters", f.name, f.cell(o.Row).text)
		}
	}
	return ""
}

func (r *Recorder) reject(o *sim.Observation, reason string) error {
	e := &ObservationError{Series: fmt.Sprintf("%d", o.Series), Kind: r.kindName(o.Kind), Entity: o.Entity, Time: o.Time, Reason: reason}
	switch {
	case o.Series == sim.TraceSeries:
		e.Series = "events"
	case int(o.Series) < len(r.series):
		e.Series = r.series[o.Series].info.Name
	}
	return e
}

func (r *Recorder) kindName(kind uint16) string {
	if int(kind) < len(r.prog.Kinds) {
		return r.prog.Kinds[kind].Name
	}
	return fmt.Sprintf("kind-%d", kind)
}

// trace writes one event of the raw record.
func (r *Recorder) trace(o *sim.Observation) error {
	if r.lateEvents != nil {
		if err := r.spool.add(o); err != nil {
			return err
		}
	}
	if r.events == nil {
		return nil
	}
	return r.events.write(r.eventRow(o))
}

func (r *Recorder) eventRow(o *sim.Observation) []cell {
	m := sim.Message{Key: o.Key, Seq: o.Seq}
	r.names.text = r.names.text[:0]
	r.row = append(r.row[:0], intCell(int64(o.Time)), r.names.cell(m.Priority().String()), uintCell(uint64(m.Source())),
		uintCell(o.Seq>>16), uintCell(uint64(o.Entity)), r.names.cell(r.kindName(o.Kind)), r.names.cell(r.prog.EventName(m.Event())))
	return r.row
}

// arena holds the names in a row of events, so that none is allocated.
type arena struct{ text []byte }

func (a *arena) cell(s string) cell {
	at := len(a.text)
	a.text = append(a.text, s...)
	return textCell(a.text[at:len(a.text):len(a.text)])
}

func (k *rows) add(o *sim.Observation) {
	if len(k.times) == keptRows {
		return
	}
	k.times = append(k.times, o.Time)
	k.entities = append(k.entities, o.Entity)
	k.data = append(k.data, o.Row...)
}

// Stats returns the statistics of a series after Finish; before it, and for a series that does not
// exist, they are zero.
func (r *Recorder) Stats(series int) sim.Stats {
	if series < 0 || series >= len(r.series) {
		return sim.Stats{}
	}
	return r.series[series].stats
}

// Rows calls yield for the first 100,000 rows of a table in order; see sim.Measured.
func (r *Recorder) Rows(series int, yield func(t sim.Time, entity sim.EntityID, data []byte) bool) {
	if series < 0 || series >= len(r.series) {
		return
	}
	s := r.series[series]
	for i, t := range s.kept.times {
		if !yield(t, s.kept.entities[i], s.kept.data[i*s.size:(i+1)*s.size]) {
			return
		}
	}
}

// Finish ends the recording at simulated time end: it completes the statistics and the files. It is
// called once, also after a run that was interrupted or failed, with the time that was reached. Files
// that could not be completed are reported and, unless a saved state needs them, removed. A resumable
// recording can still be resumed after it, until Release.
func (r *Recorder) Finish(end sim.Time) error {
	if r.finished {
		return nil
	}
	r.finished = true
	end = max(end, r.now)
	for _, s := range r.series {
		s.stats = s.meter.stats(end)
		r.blank(s.stats.Bins, end)
	}
	err := errors.Join(r.convert(), r.writeStatistics(end))
	for _, o := range r.outputs {
		if failed := o.finish(); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		r.complete = append(r.complete, o.name)
	}
	r.outputs = nil
	if r.spool == nil {
		return err
	}
	return errors.Join(err, r.spool.close(), r.syncDir())
}

// convert makes the files that are made from the spool. If one fails, none is made.
func (r *Recorder) convert() error {
	var late []*output
	for _, s := range r.series {
		late = append(late, s.late...)
	}
	late = append(late, r.lateEvents...)
	if len(late) == 0 {
		return nil
	}
	err := r.fill(late)
	if err == nil {
		return nil
	}
	for _, o := range late {
		err = errors.Join(err, o.discard())
	}
	r.outputs = slices.DeleteFunc(r.outputs, func(o *output) bool { return slices.Contains(late, o) })
	return err
}

func (r *Recorder) fill(late []*output) error {
	if err := r.spool.flush(); err != nil {
		return err
	}
	for _, o := range late {
		if err := o.begin(); err != nil {
			return err
		}
	}
	return r.spool.read(r.series, func(o *sim.Observation) (bool, error) {
		if o.Series == sim.TraceSeries {
			return true, r.lateEvents.write(r.eventRow(o))
		}
		if s := r.series[o.Series]; s.late != nil {
			return true, s.late.write(r.tableRow(s, o))
		}
		return true, nil
	})
}

// blank marks the bins that an interrupted run did not reach.
func (r *Recorder) blank(bins []float64, end sim.Time) {
	for i := range bins {
		if end < r.cursor.grid.end && r.cursor.grid.start(i) >= end {
			bins[i] = math.NaN()
		}
	}
}

// Outputs returns the names of the files that Finish completed, relative to Dir: tables in the order
// of declaration, events, series, timeline.
func (r *Recorder) Outputs() []string { return slices.Clone(r.complete) }
