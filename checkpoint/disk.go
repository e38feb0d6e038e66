package checkpoint

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// Disk is how the store asks for space and durability. Its functions are there to be replaced by tests; nil is the
// machine's own.
type Disk struct {
	// Free returns how many bytes and inodes an ordinary user may still take on the disk that holds dir.
	Free func(dir string) (bytes, inodes uint64, err error)
	// Sync makes what was written to a file durable.
	Sync func(f *os.File) error
}

const (
	// spareInodes and spareFiles are kept for what the database makes beside what it is given: it does not survive
	// a file that it cannot make.
	spareInodes = 64
	spareFiles  = 16
	ballastName = "ballast"
)

func (d *Disk) free(dir string) (bytes, inodes uint64, err error) {
	if d.Free != nil {
		return d.Free(dir)
	}
	return freeSpace(dir)
}

func (d *Disk) sync(f *os.File) error {
	if d.Sync != nil {
		return d.Sync(f)
	}
	return f.Sync()
}

// room says with a *FullError if less than need bytes are free, or too few inodes or file descriptors.
func (s *Store) room(need int64) error {
	bytes, inodes, err := s.disk.free(s.dir)
	if err != nil {
		return err
	}
	if bytes < uint64(need) {
		return &FullError{Dir: s.dir, What: "bytes", Need: uint64(need), Free: bytes}
	}
	if inodes < spareInodes {
		return &FullError{Dir: s.dir, What: "inodes", Need: spareInodes, Free: inodes}
	}
	if n := spareDescriptors(s.dir, spareFiles); n < spareFiles {
		return &FullError{Dir: s.dir, What: "descriptors", Need: spareFiles, Free: uint64(n)}
	}
	return nil
}

// spareDescriptors counts up to n files that can be opened now.
func spareDescriptors(dir string, n int) int {
	held := make([]*os.File, 0, n)
	defer func() {
		for _, f := range held {
			f.Close()
		}
	}()
	for range n {
		f, err := os.Open(dir)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	return len(held)
}

// ballastSize is what the database may need to write out all it holds in memory.
func (s *Store) ballastSize() int64 { return 4 * s.memtable }

// dropBallast gives the space set aside to the database.
func (s *Store) dropBallast() {
	s.ballast.Lock()
	defer s.ballast.Unlock()
	_ = os.Remove(filepath.Join(s.dir, ballastName))
}

// layBallast sets space aside if there is enough.
func (s *Store) layBallast() {
	s.ballast.Lock()
	defer s.ballast.Unlock()
	path := filepath.Join(s.dir, ballastName)
	if info, err := os.Stat(path); err == nil && info.Size() == s.ballastSize() {
		return
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	free, _, err := s.disk.free(s.dir)
	if err != nil || free == math.MaxUint64 || free < uint64(s.reserve+s.ballastSize()) {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	if allocate(f, s.ballastSize()) != nil {
		_ = os.Remove(path)
	}
}
