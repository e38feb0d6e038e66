package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/simnode/simnode/record"
)

// partialEnd ends the names of files that a recording has not completed.
const partialEnd = ".partial"

// openRecorded opens a file of a recording for reading, under the name that it has while it grows or at the end.
func openRecorded(dir, name string) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		if done, e := os.Open(filepath.Join(dir, strings.TrimSuffix(name, partialEnd))); e == nil {
			return done, nil
		}
	}
	return f, err
}

// readRecorded writes to w the part of a file that belongs to a saved recording. What is not as it was saved is a
// *record.DamageError.
func readRecorded(dir string, was record.FileState, w io.Writer) error {
	f, err := openRecorded(dir, was.Name)
	if err != nil {
		return &record.DamageError{File: was.Name, Err: err}
	}
	defer f.Close()
	hash := xxhash.New()
	n, err := io.Copy(io.MultiWriter(w, hash), io.LimitReader(f, was.Length))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", filepath.Join(dir, was.Name), err)
	case n < was.Length:
		return &record.DamageError{File: was.Name, Err: fmt.Errorf("it has %d bytes in %s, and %d were saved", n, dir, was.Length)}
	case hash.Sum64() != was.Sum:
		return &record.DamageError{File: was.Name, Err: fmt.Errorf("its first %d bytes in %s are altered", was.Length, dir)}
	}
	return nil
}

// checkRecording says whether the files of a saved recording are in a folder.
func checkRecording(dir string, state []byte) error {
	files, err := record.Files(state)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := readRecorded(dir, f, io.Discard); err != nil {
			return err
		}
	}
	return nil
}

// copyRecording copies the files of a saved recording, as far as they belong to it.
func copyRecording(from, to string, state []byte) error {
	files, err := record.Files(state)
	if err != nil {
		return err
	}
	for _, was := range files {
		f, err := os.Create(filepath.Join(to, was.Name))
		if err != nil {
			return &record.DirError{Dir: to, Err: err}
		}
		err = readRecorded(from, was, f)
		if err == nil {
			err = f.Sync()
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
