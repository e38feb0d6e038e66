package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/simnode/simnode/sim"
)

// A saved state is stateMagic, the version (1 byte), and, encoded as wire.go says:
//
//	files   their number, and of each its name, length and hash (8 bytes)
//	run     level and formats (1 byte each), number of bins, end, time reached
//	series  their number, and of each its declaration, the times asked for, its meter, and of a table
//	        the number of rows kept, which follow if there is no spool
//
// and the XXH64 of all that, 8 bytes, little endian.
const (
	stateMagic   = "simrec\x00"
	stateVersion = 1
	stateHead    = len(stateMagic) + 1
	stateSum     = 8
)

// FileState is an unfinished file of a saved recording.
type FileState struct {
	// Name in the output folder.
	Name string
	// Length in bytes of the part that belongs to the saved state; the file itself may be longer.
	Length int64
	// Sum is the XXH64 of that part.
	Sum uint64
}

// Files returns the unfinished files of a saved state, none if it has no folder. A state that is
// damaged or of another version is an error.
func Files(state []byte) ([]FileState, error) {
	r, err := openState(state)
	if err != nil {
		return nil, err
	}
	return readFiles(r)
}

// openState checks everything around the contents.
func openState(state []byte) (*reader, error) {
	if len(state) < stateHead+stateSum || string(state[:len(stateMagic)]) != stateMagic {
		return nil, &DamageError{"", reason(nil, "%d bytes that do not begin as a saved recording does", len(state))}
	}
	if v := state[len(stateMagic)]; v != stateVersion {
		return nil, fmt.Errorf("saved recording of format version %d: this version of simnode reads version %d: resume with the version that saved it", v, stateVersion)
	}
	body := state[:len(state)-stateSum]
	if xxhash.Sum64(body) != binary.LittleEndian.Uint64(state[len(body):]) {
		return nil, &DamageError{"", reason(nil, "its checksum does not match")}
	}
	return &reader{rest: body[stateHead:]}, nil
}

func sealState(b []byte) []byte { return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b)) }

func appendFiles(b []byte, files []FileState) []byte {
	b = binary.AppendUvarint(b, uint64(len(files)))
	for _, f := range files {
		b = binary.AppendUvarint(appendString(b, f.Name), uint64(f.Length))
		b = binary.LittleEndian.AppendUint64(b, f.Sum)
	}
	return b
}

func readFiles(r *reader) (files []FileState, err error) {
	for range r.count() {
		f := FileState{Name: r.string(), Length: r.integer(math.MaxInt64)}
		if sum := r.bytes(8); sum != nil {
			f.Sum = binary.LittleEndian.Uint64(sum)
		}
		if r.bad || !strings.HasSuffix(f.Name, partial) || filepath.Base(f.Name) != f.Name || !filepath.IsLocal(f.Name) {
			return nil, &DamageError{"", reason(nil, "its list of files is not one")}
		}
		files = append(files, f)
	}
	if r.bad {
		return nil, &DamageError{"", reason(nil, "its list of files is cut off")}
	}
	return files, nil
}

// The formats of a recording in one byte.
const (
	formatCSV = 1 << iota
	formatParquet
	formatRebin
)

func (o Options) formatBits() (b byte) {
	if o.CSV || !o.Parquet {
		b |= formatCSV
	}
	if o.Parquet {
		b |= formatParquet
	}
	if o.Rebin {
		b |= formatRebin
	}
	return b
}

// saved is a decoded state.
type saved struct {
	files   []FileState
	level   Level
	formats byte
	grid    grid
	now     sim.Time
	series  []savedSeries
}

type savedSeries struct {
	// at are the times asked for.
	at    []sim.Time
	meter meter
	// kept is how many rows are kept, and rows are they if there is no spool.
	kept int
	rows rows
}

// encode returns the state of the recording with the given files.
func (r *Recorder) encode(files []FileState) []byte {
	b := append([]byte(stateMagic), stateVersion)
	b = appendFiles(b, files)
	b = append(b, byte(r.options.Level), r.options.formatBits())
	b = binary.AppendUvarint(b, uint64(r.cursor.grid.n))
	b = binary.AppendUvarint(b, uint64(r.cursor.grid.end))
	b = binary.AppendUvarint(b, uint64(r.now))
	b = binary.AppendUvarint(b, uint64(len(r.series)))
	for _, s := range r.series {
		b = appendString(b, s.declaration())
		b = appendTimes(binary.AppendUvarint(b, uint64(len(s.info.At))), s.info.At)
		b = s.meter.save(b)
		if s.info.Kind != sim.TableSeries {
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(s.kept.times)))
		if r.spool == nil {
			b = s.kept.save(b)
		}
	}
	return sealState(b)
}

// declaration is what makes a series the same series.
func (s *series) declaration() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q of unit %q", s.info.Kind, s.info.Name, s.info.Unit)
	if s.info.Kind == sim.GaugeSeries {
		fmt.Fprintf(&b, " from %g", s.info.Start)
	}
	for _, c := range s.info.Columns {
		fmt.Fprintf(&b, ", column %q of unit %q and type %s", c.Name, c.Unit, c.Type)
	}
	return b.String()
}

// decodeState reads the state of a recording of the given series.
func decodeState(state []byte, series []*series) (*saved, error) {
	r, err := openState(state)
	if err != nil {
		return nil, err
	}
	s := &saved{}
	if s.files, err = readFiles(r); err != nil {
		return nil, err
	}
	s.level, s.formats = Level(r.byte()), r.byte()
	s.grid.n = int(r.integer(maxBins))
	s.grid.end = sim.Time(r.integer(math.MaxInt64))
	s.now = sim.Time(r.integer(math.MaxInt64))
	n := r.integer(math.MaxInt64)
	if r.bad || s.level > Raw || s.grid.n < 1 || sim.Time(s.grid.n) > s.grid.end {
		return nil, &DamageError{"", reason(nil, "it is cut off or holds what no recording has")}
	}
	if n != int64(len(series)) {
		return nil, &ChangeError{What: "number of series", Saved: fmt.Sprint(n), Asked: fmt.Sprint(len(series))}
	}
	for _, declared := range series {
		next, err := s.readSeries(r, declared)
		if err != nil {
			return nil, err
		}
		s.series = append(s.series, next)
	}
	if r.bad || len(r.rest) > 0 {
		return nil, &DamageError{"", reason(nil, "%d bytes follow its end", len(r.rest))}
	}
	return s, nil
}

func (s *saved) readSeries(r *reader, declared *series) (out savedSeries, err error) {
	was := r.string()
	if now := declared.declaration(); !r.bad && was != now {
		return out, &ChangeError{What: "series", Saved: was, Asked: now}
	}
	info := *declared.info
	info.At = readTimes(r, r.count())
	if !r.bad && len(r.rest) >= s.grid.n {
		out.at, out.meter = info.At, newMeter(&info, s.grid)
		out.meter.load(r, s.now)
	} else {
		r.fail()
	}
	if info.Kind == sim.TableSeries && !r.bad {
		out.kept = int(r.integer(keptRows))
		if s.level == Off {
			out.rows.load(r, out.kept, declared.size)
		}
	}
	if r.bad {
		return out, &DamageError{"", reason(nil, "series %s is cut off or holds what no series has", info.Name)}
	}
	return out, nil
}

// appendTimes writes times that ascend.
func appendTimes(b []byte, times []sim.Time) []byte {
	last := sim.Time(0)
	for _, t := range times {
		b = binary.AppendVarint(b, int64(t-last))
		last = t
	}
	return b
}

func readTimes(r *reader, n int) (times []sim.Time) {
	last := sim.Time(0)
	for range n {
		last += sim.Time(r.varint())
		times = append(times, last)
	}
	if !slices.IsSorted(times) {
		r.fail()
	}
	return times
}

func (k *rows) save(b []byte) []byte {
	b = appendTimes(b, k.times)
	for _, e := range k.entities {
		b = binary.AppendUvarint(b, uint64(e))
	}
	return append(b, k.data...)
}

// load reads n rows of a size.
func (k *rows) load(r *reader, n, size int) {
	if n > len(r.rest) {
		r.fail()
		return
	}
	k.times = readTimes(r, n)
	for range n {
		k.entities = append(k.entities, sim.EntityID(r.uvarint()))
	}
	k.data = slices.Clone(r.bytes(n * size))
}

func (s *sum) save(b []byte) []byte { return appendFloat(appendFloat(b, s.total), s.lost) }

func (s *sum) load(r *reader) { s.total, s.lost = r.float(), r.float() }

func (m *moments) save(b []byte) []byte {
	return appendFloats(b, []float64{m.weight, m.mean, m.squares})
}

func (m *moments) load(r *reader) { m.weight, m.mean, m.squares = r.float(), r.float(), r.float() }

func (c *counter) save(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(c.count))
	return appendFloats(c.total.save(b), c.bins)
}

func (c *counter) load(r *reader, _ sim.Time) {
	c.count = r.integer(math.MaxInt64)
	c.total.load(r)
	r.floats(c.bins)
}

func (s *sample) save(b []byte) []byte {
	b = s.quantiles.save(s.total.save(s.moments.save(b)))
	b = appendFloats(appendFloat(b, s.last), s.sums)
	for _, n := range s.counts {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func (s *sample) load(r *reader, _ sim.Time) {
	s.moments.load(r)
	s.total.load(r)
	s.quantiles.load(r)
	s.last = r.float()
	r.floats(s.sums)
	for i := range s.counts {
		s.counts[i] = r.integer(s.quantiles.n)
	}
}

func (g *gauge) save(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(g.count))
	b = appendFloats(b, []float64{g.level, g.min, g.max})
	b = binary.AppendUvarint(b, uint64(g.since))
	b = g.moments.save(g.integral.save(b))
	b = appendFloats(binary.AppendUvarint(b, uint64(len(g.at))), g.at)
	return appendFloats(b, g.bins)
}

// load leaves the cursor at its start, from where it finds its bin.
func (g *gauge) load(r *reader, now sim.Time) {
	g.count = r.integer(math.MaxInt64)
	g.level, g.min, g.max = r.float(), r.float(), r.float()
	g.since = sim.Time(r.integer(int64(now)))
	g.integral.load(r)
	g.moments.load(r)
	if n := r.integer(int64(min(len(g.asked), len(r.rest)))); n > 0 {
		g.at = make([]float64, n)
	}
	r.floats(g.at)
	g.asked = g.asked[len(g.at):]
	r.floats(g.bins)
}

// save writes the exact values or, of the histogram, each bucket that has any: how far it is from the
// one before, and its count.
func (q *quantiles) save(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(q.n))
	b = appendFloats(b, []float64{q.min, q.max})
	if q.counts == nil {
		return appendFloats(b, q.exact)
	}
	at := uint64(0)
	for i, page := range q.counts {
		if page == nil {
			continue
		}
		for j, n := range page {
			if n == 0 {
				continue
			}
			bucket := uint64(i<<pageBits + j)
			b = binary.AppendUvarint(binary.AppendUvarint(b, bucket-at), uint64(n))
			at = bucket
		}
	}
	return b
}

// load reads as many values as there are: exact ones, or buckets until their counts reach the number.
func (q *quantiles) load(r *reader) {
	q.n = r.integer(math.MaxInt64)
	q.min, q.max = r.finite(), r.finite()
	if q.n <= exactValues {
		if q.n > int64(len(r.rest)) {
			r.fail()
			return
		}
		for range q.n {
			q.exact = append(q.exact, r.finite())
		}
		return
	}
	q.counts = new([pages]*[1 << pageBits]int64)
	bucket := uint64(0)
	for left := q.n; left > 0; {
		bucket += uint64(r.integer(pages<<pageBits - 1))
		n := r.integer(left)
		if n == 0 || bucket >= pages<<pageBits {
			r.fail()
			return
		}
		page := &q.counts[bucket>>pageBits]
		if *page == nil {
			*page = new([1 << pageBits]int64)
		}
		(*page)[bucket&(1<<pageBits-1)] += n
		left -= n
	}
}
