package cli

import (
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/simnode/simnode/record"
)

// lockFile is locked as long as a run writes to its folder. The system lets go of the lock when a
// process ends, however it ends; the empty file stays, since removing it could take away the lock of
// a run that has just begun.
const lockFile = ".lock"

// lock makes the output folder and keeps other runs out of it.
func (j *job) lock() error {
	if err := os.MkdirAll(j.dir, 0o777); err != nil {
		return &record.DirError{Dir: j.dir, Err: err}
	}
	j.held = flock.New(filepath.Join(j.dir, lockFile))
	mine, err := j.held.TryLock()
	switch {
	case err != nil:
		return &record.DirError{Dir: j.dir, Err: err}
	case !mine:
		return usagef("another run is writing to %s: choose another folder with --out", j.dir)
	}
	return nil
}

// unlock lets other runs use the folder.
func (j *job) unlock() error {
	if j.held == nil {
		return nil
	}
	return j.held.Close()
}
