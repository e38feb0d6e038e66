package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/raft"

	"github.com/simnode/simnode/cluster/logstore"
)

// stores is where raft keeps things: disk in production, memory in tests of time.
type stores interface {
	open() (opened, error)
	// wipe deletes everything; nothing is open.
	wipe() error
}

type opened struct {
	logs   raft.LogStore
	stable raft.StableStore
	snaps  raft.SnapshotStore
	close  func() error
}

// keptSnapshots is how many snapshots are kept: a damaged one leaves the one before.
const keptSnapshots = 2

// disk keeps everything below one folder.
type disk struct {
	c *Config
	// hung and trouble are told of writes; see logstore.Options.
	hung    func(what string, limit time.Duration)
	trouble func(error)
	// seam lets tests put a disk of their own under the log.
	seam func(logstore.Disk) logstore.Disk
}

func (d *disk) folder() string { return filepath.Join(d.c.Dir, "raft") }

func (d *disk) open() (opened, error) {
	if err := os.RemoveAll(d.gone()); err != nil { // what a wipe did not get done
		return opened{}, fmt.Errorf("data folder: %w", err)
	}
	folder, err := logstore.Folder(filepath.Join(d.folder(), "log"))
	if err != nil {
		return opened{}, fmt.Errorf("data folder: %w", err)
	}
	if d.seam != nil {
		folder = d.seam(folder)
	}
	l, err := logstore.Open(folder, logstore.Options{
		Owner:      d.c.Cluster + "/" + d.c.Name,
		WriteLimit: d.c.Timing.WriteLimit, Hung: d.hung, Trouble: d.trouble, Log: d.c.Log,
	})
	if err != nil {
		return opened{}, err
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(d.folder(), keptSnapshots, raftLogger(d.c.Log, nil))
	if err != nil {
		return opened{}, errors.Join(fmt.Errorf("snapshots: %w", err), l.Close())
	}
	return opened{logs: l, stable: l, snaps: snaps, close: l.Close}, nil
}

func (d *disk) gone() string { return d.folder() + ".gone" }

// wipe takes the folder out of the way at once, so that a crash leaves all of it or nothing.
func (d *disk) wipe() error {
	if err := os.RemoveAll(d.gone()); err != nil {
		return err
	}
	if err := os.Rename(d.folder(), d.gone()); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return os.RemoveAll(d.gone())
}

// lock keeps other processes out of the data folder.
func lock(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	l := flock.New(filepath.Join(dir, "lock"))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("data folder %s cannot be locked: %w", dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("data folder %s is in use by another node; give each node its own", dir)
	}
	return l, nil
}
