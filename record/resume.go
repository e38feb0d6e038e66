package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/simnode/simnode/sim"
)

// Save brings everything observed so far to the disk and returns the state of the recording, with
// which Resume goes on from here. The recording goes on too. It costs in proportion to what was
// observed since the last Save and to the size of the statistics; at level off, which has no spool,
// also to the rows kept.
//
// After an error nothing is lost unless the disk failed for good, in which case every later call fails
// as well: on a full disk the recording goes on and the next Save can succeed.
func (r *Recorder) Save() ([]byte, error) {
	switch {
	case !r.options.Resumable:
		return nil, errors.New("the recording cannot be saved: open it with Resumable")
	case r.finished:
		return nil, errors.New("the recording cannot be saved after its end: save it before Finish, Close or Discard")
	case r.failed != nil:
		return nil, fmt.Errorf("the recording cannot be saved after an error: resume from the last state saved: %w", r.failed)
	}
	if r.spool != nil {
		if err := r.spool.flush(); err != nil {
			return nil, err
		}
	}
	var files []FileState
	for _, o := range r.growing() {
		if err := o.out.sync(); err != nil {
			return nil, o.fail(err)
		}
		files = append(files, FileState{filepath.Base(o.partial()), o.out.length, o.out.hash.Sum64()})
	}
	return r.encode(files), nil
}

// Resume goes on with a recording whose state Save returned, in the folder of Options, which holds the
// files it had then, or longer ones: they are cut back to what was saved. The recording is resumable
// again, and its end is byte for byte that of one that was never interrupted.
//
// Level, formats and Rebin must be those saved, and the program must declare the same series. Another
// end of the run or number of bins is a *ChangeError unless the state was saved with Rebin, at level
// summary or more. A file that is missing, shorter or altered is a *DamageError that names it, and so
// is a damaged state; a recording that was released is a *FinishedError. Then nothing is changed.
func Resume(p *sim.Program, o Options, state []byte) (*Recorder, error) {
	o.Resumable = true
	r, err := prepare(p, o)
	if err != nil {
		return nil, err
	}
	s, err := decodeState(state, r.series)
	if err != nil {
		return nil, err
	}
	if err := r.compare(s); err != nil {
		return nil, err
	}
	if o.Level != Off {
		r.plan()
	}
	if err := r.reopen(s.files); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if err := r.restore(s); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if err := r.cut(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// compare refuses what may not change.
func (r *Recorder) compare(s *saved) error {
	o := r.options
	if s.level != o.Level {
		return &ChangeError{What: "level", Saved: s.level.String(), Asked: o.Level.String()}
	}
	if was, now := formatNames(s.formats), formatNames(o.formatBits()); was != now {
		return &ChangeError{What: "set of formats", Saved: was, Asked: now}
	}
	if !r.changed(s) {
		return nil
	}
	if !o.Rebin || o.Level == Off {
		return &ChangeError{What: "end of the run or its bins", Saved: s.grid.String(), Asked: r.cursor.grid.String(),
			Remedy: "bins cannot be moved, for the values in them were not kept: resume with the end and bins that were saved"}
	}
	if s.now > r.prog.End {
		return &ChangeError{What: "end of the run", Saved: s.grid.end.String(), Asked: r.prog.End.String(),
			Remedy: fmt.Sprintf("the recording has reached %v: resume with an end that is not before it, or from an earlier checkpoint", s.now)}
	}
	return nil
}

// changed tells whether bins, or the times asked for, are others than those saved, so that the
// statistics must be made anew.
func (r *Recorder) changed(s *saved) bool {
	for i, declared := range r.series {
		if !slices.Equal(declared.info.At, s.series[i].at) {
			return true
		}
	}
	return s.grid != r.cursor.grid
}

// String describes the grid in errors.
func (g grid) String() string { return fmt.Sprintf("%v in %d bins", g.end, g.n) }

func formatNames(bits byte) string {
	names := ""
	for i, name := range []string{"csv", "parquet", "rebin"} {
		if bits&(1<<i) == 0 {
			continue
		}
		if names != "" {
			names += "+"
		}
		names += name
	}
	return names
}

// reopen opens the files and checks them, without a change to them.
func (r *Recorder) reopen(files []FileState) error {
	growing := r.growing()
	if len(growing) != len(files) {
		return &DamageError{"", reason(nil, "it lists %d files, and a recording of this level has %d", len(files), len(growing))}
	}
	for i, o := range growing {
		if name := filepath.Base(o.partial()); name != files[i].Name {
			return &DamageError{"", reason(nil, "it lists %s in place of %s", files[i].Name, name)}
		}
		if err := r.reopenFile(o, files[i]); err != nil {
			return err
		}
	}
	return nil
}

// reopenFile opens a file under the name it had or, since Finish may have been under way, under the
// name it gets at the end.
func (r *Recorder) reopenFile(o *output, was FileState) error {
	f, err := openRegular(o.partial(), was.Name)
	if errors.Is(err, fs.ErrNotExist) {
		if done := r.released(); done != "" {
			return &FinishedError{r.options.Dir, done}
		}
		if o.name != spoolName {
			f, err = openRegular(o.path(), was.Name)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &DamageError{was.Name, reason(nil, "it is missing from %q", o.dir)}
	case err != nil:
		return err
	}
	hash := xxhash.New()
	n, err := io.Copy(hash, io.LimitReader(f, was.Length))
	switch {
	case err != nil:
		err = reason(err, "it cannot be read")
	case n < was.Length:
		err = reason(nil, "it has %d bytes, and %d were saved", n, was.Length)
	case hash.Sum64() != was.Sum:
		err = reason(nil, "its first %d bytes are altered", was.Length)
	default:
		o.out = &appender{file: f, length: was.Length, synced: was.Length, hash: hash}
		return nil
	}
	return errors.Join(&DamageError{was.Name, err}, f.Close())
}

// openRegular opens a file for reading and writing. What is not a plain file is damage: to open a pipe
// could take for ever.
func openRegular(path, name string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &DamageError{name, reason(nil, "it is not a file but %v", info.Mode().Type())}
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, &DirError{filepath.Dir(path), err}
	}
	return f, nil
}

// released returns the name of a complete file if the spool is gone, as it is after Release.
func (r *Recorder) released() string {
	if _, err := os.Stat(r.spool.partial()); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	names := make([]string, 0, len(r.outputs)+4)
	for _, o := range r.outputs {
		names = append(names, o.name)
	}
	if r.options.Level >= Statistical {
		for _, ending := range r.options.formats() {
			names = append(names, "series"+ending, "timeline"+ending)
		}
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(r.options.Dir, name)); err == nil {
			return name
		}
	}
	return ""
}

// restore takes over the statistics, and from the spool the rows kept; where bins have changed, all
// statistics are made anew from the spool.
func (r *Recorder) restore(s *saved) error {
	anew := r.changed(s)
	missing := 0
	for i, to := range r.series {
		if !anew {
			to.meter = s.series[i].meter
		}
		to.kept = s.series[i].rows
		missing += s.series[i].kept - len(to.kept.times)
	}
	r.now = s.now
	if r.spool == nil || missing == 0 && !anew {
		return nil
	}
	err := r.spool.read(r.series, func(o *sim.Observation) (bool, error) {
		if o.Series == sim.TraceSeries {
			return true, nil
		}
		to := r.series[o.Series]
		if anew {
			to.meter.observe(o, r.cursor.at(o.Time))
		}
		if o.Op == sim.OpRow && len(to.kept.times) < s.series[o.Series].kept {
			to.kept.add(o)
			missing--
		}
		return anew || missing > 0, nil
	})
	if err == nil && missing > 0 {
		err = &DamageError{spoolName + partial, reason(nil, "%d rows are missing", missing)}
	}
	return err
}

// cut cuts the files back to what was saved, ready for the next row.
func (r *Recorder) cut() error {
	for _, o := range r.growing() {
		if err := o.cut(); err != nil {
			return &DirError{o.dir, err}
		}
	}
	if r.spool == nil {
		return nil
	}
	return r.syncDir()
}

// cut cuts one file back, and gives it back the name of an unfinished file.
func (o *output) cut() error {
	f := o.out.file.(*os.File)
	if f.Name() != o.partial() {
		if err := os.Rename(f.Name(), o.partial()); err != nil {
			return err
		}
	}
	if err := f.Truncate(o.out.length); err != nil {
		return err
	}
	if _, err := f.Seek(o.out.length, io.SeekStart); err != nil {
		return err
	}
	if o.name != spoolName {
		o.rows = &csvWriter{out: o.out, columns: o.columns}
	}
	return nil
}

// Release removes from an output folder what only Resume needs, once the run is over and no recovery
// will go back to a state saved before. A folder without such a thing is left as it is.
func Release(dir string) error {
	err := os.Remove(filepath.Join(dir, spoolName+partial))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &DirError{dir, err}
	}
	return nil
}
