package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/simnode/simnode/cluster/logstore"
)

// replica is this node's part in the log: one raft instance.
type replica struct {
	*raft.Raft
	trans    raftTransport
	streams  *raftStreams
	store    opened
	instance uint64
	// bound is the formation of the cluster whose log this is.
	bound uint64
	done  chan struct{}

	// Whether scan found the founding in the log, up to index scanned; used by one goroutine at a time (Cluster.life).
	scanned uint64
	founded bool

	commands commands
}

// raftConfig follows what is known to work; see the package comment for departures.
func raftConfig(c *Config, expected func(string) bool) *raft.Config {
	rc := raft.DefaultConfig()
	t := c.Timing
	rc.LocalID = raft.ServerID(c.Name)
	rc.HeartbeatTimeout, rc.ElectionTimeout = t.Heartbeat, t.Heartbeat
	rc.LeaderLeaseTimeout, rc.CommitTimeout = t.Lease, t.Commit
	rc.SnapshotThreshold, rc.SnapshotInterval = c.snapshotAfter, 30*time.Second
	rc.TrailingLogs = c.kept
	rc.NoLegacyTelemetry = true
	rc.ShutdownOnRemove = false
	rc.Logger = raftLogger(c.Log, expected)
	return rc
}

// newReplica takes part in the log of the cluster of a formation, or if that is 0 in the one that it took part in
// before. If bootstrap, this node alone makes a new one.
func (c *Cluster) newReplica(formation uint64, bootstrap bool) (*replica, error) {
	store, err := c.stores.open()
	if err != nil {
		return nil, err
	}
	if formation, err = bind(store.stable, formation); err != nil {
		return nil, errors.Join(err, store.close())
	}
	streams, err := newRaftStreams(c.net, c.c.Name, formation, c.resolve)
	if err != nil {
		return nil, errors.Join(err, store.close())
	}
	rep := &replica{streams: streams, store: store, bound: formation, done: make(chan struct{})}
	rc := raftConfig(&c.c, c.expected)
	rep.trans = raftTransport{raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: streams, MaxPool: 3, Timeout: c.c.Timing.Request, Logger: rc.Logger,
	})}
	fail := func(err error) (*replica, error) {
		return nil, errors.Join(err, streams.Close(), rep.trans.Close(), store.close())
	}
	if bootstrap {
		servers := []raft.Server{{ID: rc.LocalID, Address: raft.ServerAddress(c.c.Name)}}
		if err := raft.BootstrapCluster(rc, store.logs, store.stable, store.snaps, rep.trans, raft.Configuration{Servers: servers}); err != nil {
			return fail(fmt.Errorf("founding the cluster: %w", err))
		}
	}
	if rep.Raft, err = raft.NewRaft(rc, c.machine, store.logs, store.stable, store.snaps, rep.trans); err != nil {
		return fail(fmt.Errorf("raft: %w", err))
	}
	return rep, nil
}

// bind says whose log this is, for ever, and returns it.
func bind(s raft.StableStore, formation uint64) (uint64, error) {
	key := []byte(logstore.KeyFormation)
	if formation != 0 {
		return formation, s.SetUint64(key, formation)
	}
	formation, err := s.GetUint64(key)
	if err != nil || formation == 0 {
		return 0, errors.Join(errors.New("the log does not say which cluster it belongs to"), err)
	}
	return formation, nil
}

// shutdownLimit is how long the end of a replica may take; longer means that its disk hangs.
const shutdownLimit = 5 * time.Second

// stop ends the replica.
func (rep *replica) stop() error {
	ended := make(chan error, 1)
	future := rep.Shutdown()
	close(rep.done)
	errs := []error{rep.streams.Close()}
	go func() { ended <- errors.Join(future.Error(), rep.trans.Close(), rep.store.close()) }()
	select {
	case err := <-ended:
		return errors.Join(append(errs, err)...)
	case <-time.After(shutdownLimit):
		return errors.Join(append(errs, fmt.Errorf("the log did not close within %v: its disk hangs", shutdownLimit))...)
	}
}

// empty reports whether nothing was ever in the log.
func (rep *replica) empty() bool { return rep.LastIndex() == 0 }

// scan looks for the founding in the log itself: what is not known to be committed is not applied yet.
func (rep *replica) scan() error {
	first, err := rep.store.logs.FirstIndex()
	if err != nil {
		return err
	}
	last, err := rep.store.logs.LastIndex()
	if err != nil {
		return err
	}
	for i := max(first, rep.scanned+1); i <= last && first > 0; i++ {
		var l raft.Log
		if err := rep.store.logs.GetLog(i, &l); err != nil {
			return err
		}
		if l.Type != raft.LogCommand || len(l.Data) == 0 {
			continue
		}
		if l.Data[0] == entryFounded {
			rep.founded = true
		}
	}
	rep.scanned = max(rep.scanned, last)
	return nil
}

// founding returns what this node knows of the cluster it belongs to: 0 if nothing. life is held.
func (c *Cluster) founding() (formation uint64, founded bool) {
	formation, founded, _ = c.machine.facts()
	rep := c.replica()
	if rep == nil || founded {
		return formation, founded
	}
	if err := rep.scan(); err != nil {
		c.c.Log.Debug("the log cannot be read", "error", err)
	}
	return rep.bound, founded || rep.founded
}

// join takes part in a log; see newReplica. life is held.
func (c *Cluster) join(formation uint64, bootstrap bool) error {
	if c.ctx.Err() != nil {
		return ErrStopped
	}
	rep, err := c.newReplica(formation, bootstrap)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.instance++
	rep.instance = c.instance
	c.rep = rep
	c.mu.Unlock()
	c.wait.Go(func() { c.following(rep) })
	return nil
}

// quit takes part no longer. life is held.
func (c *Cluster) quit() error {
	c.mu.Lock()
	rep := c.rep
	c.rep = nil
	c.mu.Unlock()
	if rep == nil {
		return nil
	}
	return rep.stop()
}

// forget takes part no longer and deletes all that is known. life is held.
func (c *Cluster) forget(why string) error {
	c.c.Log.Warn("this node deletes its log and begins anew", "reason", why)
	if err := c.quit(); err != nil {
		return err
	}
	if err := c.stores.wipe(); err != nil {
		return fmt.Errorf("deleting the log: %w", err)
	}
	return c.machine.reset()
}

// following watches whether this node leads, as long as the replica lives.
func (c *Cluster) following(rep *replica) {
	defer c.setTerm(rep, 0)
	for {
		select {
		case <-rep.done:
			return
		case leads := <-rep.LeaderCh():
			c.setTerm(rep, 0)
			if leads {
				c.takeOver(rep)
			}
		}
	}
}

// takeOver waits until all that earlier leaders committed is applied.
func (c *Cluster) takeOver(rep *replica) {
	for rep.State() == raft.Leader {
		term := rep.CurrentTerm()
		if err := rep.Barrier(0).Error(); err != nil {
			select {
			case <-rep.done:
				return
			case <-time.After(5 * time.Millisecond):
			}
			continue
		}
		if rep.State() == raft.Leader && rep.CurrentTerm() == term {
			c.setTerm(rep, term)
			return
		}
	}
}

// setTerm notes in which term this node leads through a replica, 0 for none, and tells.
func (c *Cluster) setTerm(rep *replica, term uint64) {
	c.mu.Lock()
	if term == 0 && c.leading != rep {
		c.mu.Unlock()
		return
	}
	old := c.term
	c.term, c.leading = term, rep
	if term != 0 {
		c.elections++
	}
	c.mu.Unlock()
	if old != 0 && c.c.Events.Follow != nil {
		c.events.push(c.c.Events.Follow)
	}
	if term != 0 {
		c.c.Log.Info("this node leads", "term", term)
		if c.c.Events.Lead != nil {
			c.events.push(func() { c.c.Events.Lead(term) })
		}
	}
	if old != term {
		c.stir()
	}
}
