package record

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/simnode/simnode/sim"
)

// outcome is everything that a finished recording gives: statistics, rows and files.
func outcome(t testing.TB, r *Recorder) string {
	t.Helper()
	var b strings.Builder
	for s := range r.series {
		fmt.Fprintf(&b, "series %d: %+v\n", s, r.Stats(s))
		r.Rows(s, func(at sim.Time, e sim.EntityID, data []byte) bool {
			fmt.Fprintf(&b, "row %d %d %x\n", at, e, data)
			return true
		})
	}
	for _, name := range r.Outputs() {
		data, err := os.ReadFile(filepath.Join(r.options.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "file %s: %q\n", name, data)
	}
	return b.String()
}

// differ tells where two outcomes part.
func differ(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("got\n%.2000s\nwant\n%.2000s", a[i], b[i])
		}
	}
	return fmt.Sprintf("got %d lines, want %d", len(a), len(b))
}

// interrupted is a recording that is saved, crashes and is resumed.
type interrupted struct {
	t     *rapid.T
	p     *sim.Program
	o     Options
	obs   []sim.Observation
	r     *Recorder
	at    int
	state []byte
	// saved is how many observations are in state.
	saved int
}

func (x *interrupted) must(err error) {
	if err != nil {
		x.t.Fatalf("%+v: %v", x.o, err)
	}
}

// observe hands over up to n observations.
func (x *interrupted) observe(n int) {
	n = min(n, len(x.obs)-x.at)
	x.must(x.r.Observe(x.obs[x.at : x.at+n]))
	x.at += n
}

func (x *interrupted) save() {
	state, err := x.r.Save()
	x.must(err)
	x.state, x.saved = state, x.at
}

// crash leaves the files at any length beyond the one saved, with a torn end, and goes back.
func (x *interrupted) crash() {
	x.observe(rapid.IntRange(0, 20).Draw(x.t, "lost"))
	switch rapid.IntRange(0, 3).Draw(x.t, "end") {
	case 0:
		_, err := x.r.Save() // reached the disk, but nobody knows of it
		x.must(errors.Join(err, x.r.Close()))
	case 1:
		x.must(x.r.Finish(x.p.End)) // died before the end was made known
	default:
		x.must(x.r.Close())
	}
	files, err := Files(x.state)
	x.must(err)
	for _, f := range files {
		tear(x.t, filepath.Join(x.o.Dir, f.Name))
	}
	x.resume()
}

func (x *interrupted) resume() {
	r, err := Resume(x.p, x.o, x.state)
	x.must(err)
	x.r, x.at = r, x.saved
}

func tear(t *rapid.T, path string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return // it got its name at the end
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "torn"))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func drawOptions(t *rapid.T, dir string) Options {
	return Options{Dir: dir, Level: Level(rapid.IntRange(0, 3).Draw(t, "level")), CSV: rapid.Bool().Draw(t, "csv"),
		Parquet: rapid.Bool().Draw(t, "parquet"), Bins: rapid.IntRange(1, 9).Draw(t, "bins")}
}

// TestResumedRunIsTheUndisturbedRun: files, statistics and rows are those of a recording that cannot
// even be resumed, however often it is saved, torn and resumed.
func TestResumedRunIsTheUndisturbedRun(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		end := sim.Time(rapid.Int64Range(0, 1e12).Draw(rt, "end"))
		p := program(t, end, 0, end/2)
		o := drawOptions(rt, filepath.Join(base, fmt.Sprint(n), "a"))
		x := &interrupted{t: rt, p: p, o: o, obs: stream(rt, t, end)}
		reached := end
		if rapid.Bool().Draw(rt, "stopped early") && len(x.obs) > 0 {
			reached = x.obs[len(x.obs)-1].Time
		}
		want := outcome(t, record(t, p, o, reached, x.obs))
		x.o.Dir, x.o.Resumable, x.o.Rebin = filepath.Join(base, fmt.Sprint(n), "b"), true, rapid.Bool().Draw(rt, "rebin")
		var err error
		x.r, err = New(p, x.o)
		x.must(err)
		x.save()
		for range rapid.IntRange(0, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 2).Draw(rt, "step") {
			case 0:
				x.observe(rapid.IntRange(0, 20).Draw(rt, "observe"))
			case 1:
				x.save()
			case 2:
				x.crash()
			}
		}
		x.observe(len(x.obs))
		x.must(x.r.Finish(reached))
		if got := outcome(t, x.r); got != want {
			rt.Fatal(differ(got, want))
		}
		x.must(Release(x.o.Dir))
		checkFolder(rt, x.o, x.r.Outputs())
	})
}

// checkFolder: there is nothing but the outputs.
func checkFolder(t *rapid.T, o Options, outputs []string) {
	if o.Level == Off {
		if _, err := os.Stat(o.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("level off makes a folder: %v", err)
		}
		return
	}
	var names []string
	entries, err := os.ReadDir(o.Dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	outputs = slices.Sorted(slices.Values(outputs))
	if err != nil || !slices.Equal(names, outputs) {
		t.Fatalf("the folder holds %v, outputs %v, %v", names, outputs, err)
	}
}

// TestResumeWithAnotherEnd: with Rebin the result is that of an undisturbed run to the new end, with
// the new bins and the new times asked for.
func TestResumeWithAnotherEnd(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		times := rapid.Int64Range(1, 1e6)
		obs := stream(rt, t, 5e5)
		cut := rapid.IntRange(0, len(obs)).Draw(rt, "cut")
		reached := int64(0)
		if cut > 0 {
			reached = int64(obs[cut-1].Time)
		}
		first := sim.Time(max(reached, times.Draw(rt, "first end")))
		second := sim.Time(max(reached, times.Draw(rt, "second end")))
		before, after := program(t, first, first/3), program(t, second, second/3)
		o := drawOptions(rt, filepath.Join(base, fmt.Sprint(n), "a"))
		o.Level = max(o.Level, Summary)
		want := outcome(t, record(t, after, o, second, obs))

		o.Dir, o.Resumable, o.Rebin = filepath.Join(base, fmt.Sprint(n), "b"), true, true
		bins := o.Bins
		o.Bins = rapid.IntRange(1, 9).Draw(rt, "first bins")
		x := &interrupted{t: rt, p: before, o: o, obs: obs}
		var err error
		x.r, err = New(before, o)
		x.must(err)
		x.observe(cut)
		x.save()
		x.o.Bins, x.p = bins, after
		x.must(x.r.Close())
		x.resume()
		x.save()
		x.must(x.r.Close())
		x.resume() // what was made anew is saved as any other
		x.observe(len(obs))
		x.must(x.r.Finish(second))
		if got := outcome(t, x.r); got != want {
			rt.Fatal(differ(got, want))
		}
	})
}

// resumable returns options and a recording that has seen a little of everything and was saved.
func resumable(t testing.TB, o Options) (*Recorder, []byte) {
	t.Helper()
	o.Resumable = true
	r, err := New(program(t, 100, 2, 50), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Observe(little(t)); err != nil {
		t.Fatal(err)
	}
	state, err := r.Save()
	if err != nil {
		t.Fatal(err)
	}
	return r, state
}

func little(t testing.TB) []sim.Observation {
	return []sim.Observation{
		{Time: 1, Series: departures, Value: 1}, {Time: 2, Series: airborne, Value: 1}, {Time: 3, Series: wait, Op: sim.OpSet, Value: 0.5},
		{Time: 4, Entity: 7, Series: contacts, Op: sim.OpRow, Row: encode(t, contact{Call: [8]byte{'a'}})},
		{Time: 5, Seq: 1 << 16, Entity: 7, Series: sim.TraceSeries},
	}
}

func mustClose(t testing.TB, r *Recorder) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestResumeRefusesChanges: what may not change is named, and nothing on the disk is touched.
func TestResumeRefusesChanges(t *testing.T) {
	o := both(t.TempDir())
	r, state := resumable(t, o)
	mustClose(t, r)
	was := snapshot(t, o.Dir)
	same := func() *sim.Program { return program(t, 100, 2, 50) }
	for want, change := range map[string]func(o *Options) *sim.Program{
		"the level was raw and is now summary":              func(o *Options) *sim.Program { o.Level = Summary; return same() },
		"the set of formats was csv+parquet and is now csv": func(o *Options) *sim.Program { o.Parquet = false; return same() },
		"is now csv+parquet+rebin":                          func(o *Options) *sim.Program { o.Rebin = true; return same() },
		"was 100ns in 7 bins and is now 100ns in 8":         func(o *Options) *sim.Program { o.Bins = 8; return same() },
		"100ns in 7 bins and is now 200ns in 7 bins":        func(*Options) *sim.Program { return program(t, 200, 2, 50) },
		"its bins was":                        func(*Options) *sim.Program { return program(t, 100, 2, 51) },
		"number of series was 4 and is now 3": func(*Options) *sim.Program { p := same(); p.Series = p.Series[:3]; return p },
		`was sample "wait" of unit "s" and is now sample "wait" of unit "h"`: func(*Options) *sim.Program { p := same(); p.Series[wait].Unit = "h"; return p },
		`from 2 and is now gauge "airborne" of unit "aircraft" from 3`:       func(*Options) *sim.Program { p := same(); p.Series[airborne].Start = 3; return p },
	} {
		asked := o
		p := change(&asked)
		_, err := Resume(p, asked, state)
		var typed *ChangeError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if now := snapshot(t, o.Dir); now != was {
			t.Errorf("%s: the refusal changed the folder", want)
		}
	}
}

// snapshot is everything in a folder.
func snapshot(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil && e.Type().IsRegular() {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %x\n", e.Name(), data)
	}
	return b.String()
}

func TestResumeWithAnEndThatIsPast(t *testing.T) {
	o := both(t.TempDir())
	o.Rebin = true
	r, state := resumable(t, o)
	mustClose(t, r)
	_, err := Resume(program(t, 4, 2, 50), o, state)
	var typed *ChangeError
	if !errors.As(err, &typed) || !strings.Contains(err.Error(), "the recording has reached 5ns") {
		t.Errorf("error %v", err)
	}
	if r, err = Resume(program(t, 5, 2, 50), o, state); err != nil {
		t.Fatal(err)
	}
	mustClose(t, r)
}

// TestFault28FileTruncatedOrMissing: each file in turn is shorter, gone, or no file.
func TestFault28FileTruncatedOrMissing(t *testing.T) {
	o := both(t.TempDir())
	r, state := resumable(t, o)
	mustClose(t, r)
	files, err := Files(state)
	if err != nil || len(files) != 3 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, f := range files {
		path := filepath.Join(o.Dir, f.Name)
		data, err := os.ReadFile(path)
		if err != nil || int64(len(data)) != f.Length {
			t.Fatalf("%s has %d bytes, saved are %d, %v", f.Name, len(data), f.Length, err)
		}
		for want, damage := range map[string]func() error{
			"bytes were saved":  func() error { return os.Truncate(path, f.Length-1) },
			"is missing":        func() error { return os.Remove(path) },
			"is not a file but": func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		} {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			was := snapshotNames(t, o.Dir)
			_, err := Resume(r.prog, o, state)
			var typed *DamageError
			if want = strings.Replace(want, "bytes were", fmt.Sprintf("%d bytes, and %d were", f.Length-1, f.Length), 1); !errors.As(err, &typed) || typed.File != f.Name || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", f.Name, err, want)
			}
			if now := snapshotNames(t, o.Dir); now != was {
				t.Errorf("%s: the folder changed from %s to %s", f.Name, was, now)
			}
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, data, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r, err = Resume(r.prog, o, state); err != nil {
		t.Fatalf("put back: %v", err)
	}
	mustClose(t, r)
}

// snapshotNames is the names and sizes in a folder.
func snapshotNames(t testing.TB, dir string) (s string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		s += fmt.Sprintln(e.Name(), info.Mode(), info.Size())
	}
	return s
}

// TestFault26BitFlip: any bit of any file or of the state.
func TestFault26BitFlip(t *testing.T) {
	o := both(t.TempDir())
	r, state := resumable(t, o)
	mustClose(t, r)
	files, err := Files(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path := filepath.Join(o.Dir, f.Name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for bit := range 8 * len(data) {
			if bit%7 != 0 {
				continue
			}
			data[bit/8] ^= 1 << (bit % 8)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Resume(r.prog, o, state)
			var typed *DamageError
			if !errors.As(err, &typed) || typed.File != f.Name {
				t.Fatalf("bit %d of %s: %v", bit, f.Name, err)
			}
			data[bit/8] ^= 1 << (bit % 8)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for bit := range 8 * len(state) {
		state[bit/8] ^= 1 << (bit % 8)
		if _, err := Resume(r.prog, o, state); err == nil {
			t.Fatalf("bit %d of the state is not noticed", bit)
		}
		state[bit/8] ^= 1 << (bit % 8)
	}
	for n := range len(state) {
		if _, err := Resume(r.prog, o, state[:n]); err == nil {
			t.Fatalf("%d bytes of the state are enough", n)
		}
	}
}

// TestFault26BitFlipInTheSpool: what changes between Save and Finish is found by Finish, which makes
// no Parquet file of it.
func TestFault26BitFlipInTheSpool(t *testing.T) {
	o := both(t.TempDir())
	r, state := resumable(t, o)
	f := r.spool.out.file.(*os.File)
	if _, err := f.WriteAt([]byte{0xff}, r.spool.out.length-2); err != nil {
		t.Fatal(err)
	}
	err := r.Finish(100)
	var typed *DamageError
	if !errors.As(err, &typed) || !strings.Contains(err.Error(), "checksum of the block at byte 8") {
		t.Errorf("error %v", err)
	}
	if want := []string{"contacts.csv", "events.csv", "series.csv", "series.parquet", "timeline.csv", "timeline.parquet"}; !slices.Equal(r.Outputs(), want) {
		t.Errorf("outputs %v", r.Outputs())
	}
	if _, err := Resume(r.prog, o, state); !errors.As(err, &typed) || typed.File != spoolName+partial {
		t.Errorf("error %v", err)
	}
}

// TestResumeFinished: until Release a finished recording can be resumed, and then it says so.
func TestResumeFinished(t *testing.T) {
	for _, o := range []Options{{Level: Raw, CSV: true}, {Level: Raw, Parquet: true}, {Level: Statistical, CSV: true, Parquet: true}} {
		o.Dir = t.TempDir()
		r, state := resumable(t, o)
		if err := r.Finish(100); err != nil {
			t.Fatal(err)
		}
		want := outcome(t, r)
		r, err := Resume(r.prog, o, state)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Finish(100); err != nil {
			t.Fatal(err)
		}
		if got := outcome(t, r); got != want {
			t.Error(differ(got, want))
		}
		if err := errors.Join(Release(o.Dir), Release(o.Dir)); err != nil {
			t.Fatal(err)
		}
		was := snapshot(t, o.Dir)
		_, err = Resume(r.prog, o, state)
		var typed *FinishedError
		if !errors.As(err, &typed) || typed.Dir != o.Dir || !strings.Contains(err.Error(), typed.File+" is complete") {
			t.Errorf("error %v", err)
		}
		if snapshot(t, o.Dir) != was {
			t.Error("the refusal changed the folder")
		}
	}
	if err := Release(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Error(err)
	}
}

// TestResumeElsewhere: the files named by Files, cut to their lengths, are all that is needed.
func TestResumeElsewhere(t *testing.T) {
	o := both(t.TempDir())
	r, _ := resumable(t, o)
	if err := r.Finish(100); err != nil {
		t.Fatal(err)
	}
	want := outcome(t, r)
	again, copied := o, o
	again.Dir, copied.Dir = t.TempDir(), t.TempDir()
	r, state := resumable(t, again)
	files, err := Files(state)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, r)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(again.Dir, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(copied.Dir, f.Name), data[:f.Length], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r, err = Resume(r.prog, copied, state); err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(100); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, r); got != want {
		t.Error(differ(got, want))
	}
}

// disk is a file on a disk that gets full or fails.
type disk struct {
	file
	// room is how many bytes it still takes; then writes fail with err.
	room    int
	err     error
	syncErr error
	syncs   int
}

func (d *disk) Write(p []byte) (int, error) {
	if len(p) <= d.room {
		d.room -= len(p)
		return d.file.Write(p)
	}
	n, err := d.file.Write(p[:d.room])
	d.room = 0
	return n, errors.Join(err, d.err)
}

func (d *disk) Sync() error {
	d.syncs++
	return errors.Join(d.file.Sync(), d.syncErr)
}

// TestFault18DiskFull: a save on a full disk fails and the recording goes on; with room again it
// succeeds, and nothing was lost or doubled.
func TestFault18DiskFull(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		p := program(t, 1e9)
		o := both(filepath.Join(base, fmt.Sprint(n), "a"))
		obs := stream(rt, t, 1e9)
		want := outcome(t, record(t, p, o, 1e9, obs))
		o.Dir, o.Resumable = filepath.Join(base, fmt.Sprint(n), "b"), true
		x := &interrupted{t: rt, p: p, o: o, obs: obs}
		var err error
		x.r, err = New(p, o)
		x.must(err)
		x.observe(rapid.IntRange(0, 20).Draw(rt, "before"))
		victim := rapid.SampledFrom(x.r.growing()).Draw(rt, "victim")
		d := &disk{file: victim.out.file, room: rapid.IntRange(0, 50).Draw(rt, "room"), err: syscall.ENOSPC}
		victim.out.file = d
		for range 2 {
			if _, err := x.r.Save(); err != nil && (!errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "writing "+victim.name)) {
				rt.Fatalf("error %v", err)
			}
			x.observe(rapid.IntRange(0, 9).Draw(rt, "on"))
		}
		d.room = 1 << 30
		victim.out.file = d.file
		x.save()
		x.must(x.r.Close())
		x.resume()
		x.observe(len(obs))
		x.must(x.r.Finish(1e9))
		if got := outcome(t, x.r); got != want {
			rt.Fatal(differ(got, want))
		}
	})
}

// TestFault18DiskFullWhileObserving: the run ends with an error, no state is given for what was lost,
// and the last one saved is good.
func TestFault18DiskFullWhileObserving(t *testing.T) {
	o := both(t.TempDir())
	r, state := resumable(t, o)
	for _, f := range r.growing() {
		f.out.file = &disk{file: f.out.file, room: 1000, err: syscall.ENOSPC}
	}
	var err error
	for i := 0; err == nil && i < 1e6; i++ {
		err = r.Observe([]sim.Observation{{Time: 6, Seq: uint64(i) << 16, Series: sim.TraceSeries}})
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v", err)
	}
	if _, failed := r.Save(); failed == nil || !errors.Is(failed, syscall.ENOSPC) || !strings.Contains(failed.Error(), "cannot be saved after an error") {
		t.Errorf("error %v", failed)
	}
	if err := r.Finish(6); err == nil {
		t.Error("no error from Finish")
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "events.parquet")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a Parquet file: %v", err)
	}
	if r, err = Resume(r.prog, o, state); err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(100); err != nil {
		t.Fatal(err)
	}
	if rows := readCSV(t, filepath.Join(o.Dir, "events.csv")); len(rows) != 2 {
		t.Errorf("rows %v", rows)
	}
}

// TestFault21FailedSync: what a failed sync or write lost is not tried again as if nothing had been.
func TestFault21FailedSync(t *testing.T) {
	for _, d := range []*disk{{room: 1 << 30, syncErr: syscall.EIO}, {err: syscall.EIO}} {
		o := both(t.TempDir())
		r, state := resumable(t, o)
		out := r.events[0].out
		d.file = out.file
		out.file = d
		if err := r.Observe([]sim.Observation{{Time: 6, Series: sim.TraceSeries}}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := r.Save(); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "writing events.csv") {
				t.Errorf("error %v", err)
			}
			d.room, d.err, d.syncErr = 1<<30, nil, nil
		}
		if err := r.Finish(6); !errors.Is(err, syscall.EIO) || slices.Contains(r.Outputs(), "events.csv") {
			t.Errorf("error %v, outputs %v", err, r.Outputs())
		}
		r, err := Resume(r.prog, o, state)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Finish(100); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFault25PowerLoss: Save syncs exactly the files that have grown.
func TestFault25PowerLoss(t *testing.T) {
	r, _ := resumable(t, Options{Level: Raw, CSV: true, Dir: t.TempDir()})
	var disks []*disk
	for _, o := range r.growing() {
		d := &disk{file: o.out.file, room: 1 << 30}
		o.out.file = d
		disks = append(disks, d)
	}
	for _, grown := range [][]sim.Observation{{{Time: 6, Series: sim.TraceSeries}}, nil, {{Time: 7, Series: sim.TraceSeries}}} {
		if err := r.Observe(grown); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Save(); err != nil {
			t.Fatal(err)
		}
		if disks[0].syncs+disks[1].syncs != 0 || disks[2].syncs != len(grown) {
			t.Errorf("after %v: %d %d %d syncs", grown, disks[0].syncs, disks[1].syncs, disks[2].syncs)
		}
		disks[2].syncs = 0
	}
	mustClose(t, r)
}

// TestFault25PowerLossAtTheEnd: no file gets its name before what is in it is on the disk.
func TestFault25PowerLossAtTheEnd(t *testing.T) {
	o := both(t.TempDir())
	r, _ := resumable(t, o)
	d := &disk{file: r.events[0].out.file, room: 1 << 30, syncErr: syscall.EIO}
	r.events[0].out.file = d
	if err := r.Observe([]sim.Observation{{Time: 6, Series: sim.TraceSeries}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(100); !errors.Is(err, syscall.EIO) || d.syncs != 1 {
		t.Errorf("error %v, %d syncs", err, d.syncs)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "events.csv")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("events.csv: %v", err)
	}
}

// TestAnotherEndAtLevelOff: without a folder no values are kept, whatever Rebin says.
func TestAnotherEndAtLevelOff(t *testing.T) {
	_, state := resumable(t, Options{Rebin: true})
	_, err := Resume(program(t, 200, 2, 50), Options{Rebin: true}, state)
	var typed *ChangeError
	if !errors.As(err, &typed) || !strings.Contains(err.Error(), "were not kept") {
		t.Errorf("error %v", err)
	}
}

func TestSaveRefusals(t *testing.T) {
	r, err := New(program(t, 100), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Save(); err == nil || !strings.Contains(err.Error(), "open it with Resumable") {
		t.Errorf("error %v", err)
	}
	r, _ = resumable(t, Options{})
	if err := r.Observe([]sim.Observation{{Time: 0}}); err == nil {
		t.Fatal("no error")
	}
	if _, err := r.Save(); err == nil || !strings.Contains(err.Error(), "after one at 5ns") {
		t.Errorf("error %v", err)
	}
	r, _ = resumable(t, Options{})
	mustClose(t, r)
	mustClose(t, r)
	if _, err := r.Save(); err == nil || !strings.Contains(err.Error(), "after its end") {
		t.Errorf("error %v", err)
	}
	if _, err := New(r.prog, Options{Rebin: true}); err == nil || !strings.Contains(err.Error(), "set both") {
		t.Errorf("error %v", err)
	}
	r, _ = resumable(t, both(t.TempDir()))
	if err := r.Discard(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(r.options.Dir); err != nil || len(left) != 0 {
		t.Errorf("left behind %v %v", left, err)
	}
}

// TestResumeOtherVersion: a state of another format version is named as such.
func TestResumeOtherVersion(t *testing.T) {
	r, state := resumable(t, Options{})
	state = bytes.Clone(state[:len(state)-stateSum])
	state[len(stateMagic)]++
	_, err := Resume(r.prog, r.options, sealState(state))
	if err == nil || !strings.Contains(err.Error(), "format version 2: this version of simnode reads version 1") {
		t.Errorf("error %v", err)
	}
}

// TestResumeLargeRun: more values than are kept exactly, more rows than are kept, many blocks.
func TestResumeLargeRun(t *testing.T) {
	const n = keptRows + 5000
	p := program(t, 1e9, 7)
	row := encode(t, contact{})
	observe := func(r *Recorder, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			row[8] = byte(i)
			if err := r.Observe([]sim.Observation{
				{Time: sim.Time(i), Series: wait, Op: sim.OpSet, Value: float64(i*7919%n) - n/2},
				{Time: sim.Time(i), Entity: sim.EntityID(i), Series: contacts, Op: sim.OpRow, Row: row},
				{Time: sim.Time(i), Series: airborne, Op: sim.OpAdd, Value: 0.1},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, o := range []Options{{Level: Off}, {Level: Statistical, CSV: true}, {Level: Statistical, Parquet: true, Rebin: true}} {
		rebin := o.Rebin
		o.Rebin, o.Dir = false, t.TempDir()
		r, err := New(p, o)
		if err != nil {
			t.Fatal(err)
		}
		observe(r, 0, n)
		if err := r.Finish(1e9); err != nil {
			t.Fatal(err)
		}
		want := outcome(t, r)
		o.Rebin, o.Resumable, o.Dir = rebin, true, t.TempDir()
		if r, err = New(p, o); err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, to := range []int{10, exactValues, exactValues + 1, 60_000, keptRows - 1, keptRows, n - 1} {
			observe(r, at, to)
			at = to
			state, err := r.Save()
			if err != nil {
				t.Fatal(err)
			}
			observe(r, at, min(at+3000, n))
			mustClose(t, r)
			if r, err = Resume(p, o, state); err != nil {
				t.Fatal(err)
			}
		}
		observe(r, at, n)
		if err := r.Finish(1e9); err != nil {
			t.Fatal(err)
		}
		if outcome(t, r) != want {
			t.Errorf("%+v: the resumed run differs", o)
		}
	}
}

// TestAlteredStates: a state with any byte altered and its checksum made right is refused, or goes on
// without a panic.
func TestAlteredStates(t *testing.T) {
	few, state := resumable(t, Options{})
	for i := range exactValues {
		if err := few.Observe([]sim.Observation{{Time: 9, Series: wait, Op: sim.OpSet, Value: float64(i%100) - 50}}); err != nil {
			t.Fatal(err)
		}
	}
	many, err := few.Save()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, state := range [][]byte{state, many} {
		body := state[:len(state)-stateSum]
		for i := stateHead; i < len(body); i++ {
			was := body[i]
			for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff, was + 1, was - 1} {
				body[i] = b
				if !goesOn(t, few.prog, sealState(bytes.Clone(body))) {
					refused++
				}
			}
			body[i] = was
		}
	}
	if refused == 0 {
		t.Error("none is refused")
	}
}

// goesOn resumes, observes and finishes; it tells whether the state was taken.
func goesOn(t *testing.T, p *sim.Program, state []byte) bool {
	t.Helper()
	r, err := Resume(p, Options{}, state)
	if err != nil {
		var damage *DamageError
		var change *ChangeError
		if !errors.As(err, &damage) && !errors.As(err, &change) {
			t.Fatalf("error %v", err)
		}
		return false
	}
	_ = r.Observe([]sim.Observation{{Time: 99, Series: wait, Op: sim.OpSet, Value: 3}, {Time: 99, Series: airborne, Op: sim.OpSet, Value: 3}})
	if err := r.Finish(100); err != nil {
		t.Fatal(err)
	}
	return true
}
