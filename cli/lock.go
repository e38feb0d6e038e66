package cli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"

	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/summary"
)

// lockFile is locked as long as a run writes to its folder. The system lets go of the lock when a
// process ends, however it ends; the empty file stays, since removing it could take away the lock of
// a run that has just begun.
const lockFile = ".lock"

// lock makes the output folder and keeps other runs out of it.
func (j *job) lock() (err error) {
	if j.held != nil {
		return nil
	}
	j.held, err = lockFolder(j.dir)
	return err
}

// unlock lets other runs use the folder.
func (j *job) unlock() error {
	if j.held == nil {
		return nil
	}
	return j.held.Close()
}

// lockFolder makes a folder for results and keeps others out of it until the lock is closed.
func lockFolder(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, &record.DirError{Dir: dir, Err: err}
	}
	held := flock.New(filepath.Join(dir, lockFile))
	mine, err := held.TryLock()
	switch {
	case err != nil:
		return nil, &record.DirError{Dir: dir, Err: err}
	case !mine:
		return nil, usagef("another run is writing to %s: choose another folder with --out", dir)
	}
	return held, nil
}

// runFiles are the endings of files that a run writes.
func runFiles() []string { return []string{".csv", ".parquet", ".svg", ".html", ".json"} }

// removeRun removes the files that an earlier run left in a folder by its own summary, so that the folder
// never mixes two runs. It leaves alone what no summary names.
func removeRun(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, summary.File))
	if err != nil {
		return nil // No run has ended here.
	}
	var old summary.Summary
	if json.Unmarshal(data, &old) != nil {
		return nil // It is not ours; the run ends by replacing it.
	}
	for _, path := range old.Outputs {
		name := filepath.Base(path)
		if !slices.Contains(runFiles(), filepath.Ext(name)) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &record.DirError{Dir: dir, Err: err}
		}
	}
	return nil
}
