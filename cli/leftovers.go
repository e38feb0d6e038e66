package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	// runFolder begins the names of the folders that hold the nodes' data of a run with --nodes.
	runFolder = ".simnode-run-"
	// ownerFile in such a folder is locked as long as the process that made it lives. The system lets go of the
	// lock however the process ends.
	ownerFile = "owner"
	// tokensFile holds the token that its nodes take.
	tokensFile = "tokens"
	// youngFolder is how old a folder without an owner may be that is being made.
	youngFolder = time.Minute
)

// makeRunFolder makes a folder for a run's nodes in dir and locks it. What dead processes left there is removed.
func makeRunFolder(dir string) (path string, owner *flock.Flock, err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	removeLeftovers(dir)
	for range 10 {
		if path, err = os.MkdirTemp(dir, runFolder); err != nil {
			return "", nil, err
		}
		owner = flock.New(filepath.Join(path, ownerFile))
		mine, err := owner.TryLock()
		if _, gone := os.Stat(owner.Path()); mine && gone == nil {
			return path, owner, nil
		}
		// Another run took it for a leftover before it was locked.
		if err := errors.Join(err, owner.Close(), os.RemoveAll(path)); err != nil {
			return "", nil, err
		}
	}
	return "", nil, errors.New("the nodes' folder cannot be locked: another process removes it again and again")
}

// removeLeftovers removes the folders of runs whose process is dead, as far as that can be done here.
func removeLeftovers(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), runFolder) {
			removeDead(filepath.Join(dir, e.Name()))
		}
	}
}

// removeDead removes the folder of a run unless the process that made it lives, or may.
func removeDead(path string) {
	info, err := os.Lstat(filepath.Join(path, ownerFile))
	if err != nil {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > youngFolder {
			_ = os.RemoveAll(path)
		}
		return
	}
	if !info.Mode().IsRegular() {
		return
	}
	owner := flock.New(filepath.Join(path, ownerFile))
	if dead, err := owner.TryLock(); err == nil && dead {
		_ = os.RemoveAll(path)
		_ = owner.Close()
		_ = os.RemoveAll(path) // where a file in use cannot be removed
		return
	}
	_ = owner.Close()
}

// removeLast removes the folder of a run if no node's data is left in it and its process is dead.
func removeLast(path string) {
	entries, err := os.ReadDir(path)
	if err != nil || !strings.HasPrefix(filepath.Base(path), runFolder) {
		return
	}
	for _, e := range entries {
		if e.Name() != ownerFile && e.Name() != tokensFile {
			return
		}
	}
	removeDead(path)
}
