package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Fresh waits until this node has applied every command that the cluster had committed when Fresh was called,
// so that nobody reads here less than what was read elsewhere before. It goes on through elections until ctx
// is done. Nothing is written to the log: the leader makes sure that it leads and says how far the log is
// committed (the ReadIndex of the raft thesis, section 6.4).
func (c *Cluster) Fresh(ctx context.Context) error {
	var last error
	for {
		stirred := c.stirred()
		err := c.freshOnce(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-c.ctx.Done():
			return ErrStopped
		case <-stirred:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *Cluster) freshOnce(ctx context.Context) error {
	name, _ := c.Leader()
	var to commitment
	var err error
	switch name {
	case "":
		return errors.New("the cluster has no leader")
	case c.c.Name:
		to, err = c.committed(ctx)
	default:
		to, err = c.askCommitted(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("leader %s: %w", name, err)
	}
	for {
		rep := c.replica()
		switch {
		case rep == nil:
			return errors.New("this node takes no part in the log yet")
		case rep.bound != to.formation:
			return fmt.Errorf("leader %s leads another cluster of this name", name)
		}
		done, err := rep.has(to.index, c.machine)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("this node has not applied entry %d of the log yet, which leader %s has committed", to.index, name)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// commitment says how far the log of a formation is committed.
type commitment struct{ formation, index uint64 }

func (k commitment) encode() []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, k.formation), k.index)
}

func parseCommitment(b []byte) (commitment, error) {
	if len(b) != 16 {
		return commitment{}, fmt.Errorf("an answer of %d bytes about what is committed is malformed", len(b))
	}
	return commitment{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}, nil
}

func (c *Cluster) askCommitted(ctx context.Context, name string) (commitment, error) {
	ctx, cancel := context.WithTimeout(ctx, c.c.Timing.Request)
	defer cancel()
	b, err := c.ask(ctx, name, askCommitted, nil)
	if err != nil {
		return commitment{}, err
	}
	return parseCommitment(b)
}

// committed tells, on the leader, how far the log was committed at some moment of the call. A leader that has
// committed nothing in its own term does not know what earlier ones have.
func (c *Cluster) committed(ctx context.Context) (commitment, error) {
	rep := c.replica()
	if rep == nil || c.leads() == 0 {
		return commitment{}, errNotLeader
	}
	index := rep.CommitIndex()
	future := rep.VerifyLeader()
	done := make(chan error, 1)
	go func() { done <- future.Error() }() // ends with the answers of a majority, the leadership or raft
	select {
	case <-ctx.Done():
		return commitment{}, fmt.Errorf("it does not hear from a majority: %w", context.Cause(ctx))
	case err := <-done:
		if err != nil {
			return commitment{}, err
		}
	}
	return commitment{rep.bound, index}, nil
}

// commands remembers where the last command stood in the log.
type commands struct {
	mu sync.Mutex
	// at is the last command up to index seen, 0 if none is known.
	seen, at uint64
}

// has reports whether the FSM has applied every command up to an index that is committed. raft's own index of
// what is applied says only that the FSM was handed it.
func (rep *replica) has(index uint64, m *machine) (bool, error) {
	if rep.AppliedIndex() < index {
		return false, nil
	}
	at, err := rep.lastCommand(index)
	if err != nil || m.reached(at) {
		return err == nil, err
	}
	// What a snapshot holds is not applied one by one.
	snapshot, err := strconv.ParseUint(rep.Stats()["last_snapshot_index"], 10, 64)
	return err == nil && at <= snapshot, err
}

// lastCommand returns the index of the last command up to an index that is committed, 0 if the log does not
// reach back to one: then a snapshot holds it.
func (rep *replica) lastCommand(index uint64) (uint64, error) {
	k := &rep.commands
	k.mu.Lock()
	defer k.mu.Unlock()
	at := uint64(0)
	for i := index; i > 0; i-- {
		if i == k.seen {
			at = k.at
			break
		}
		var l raft.Log
		err := rep.store.logs.GetLog(i, &l)
		if errors.Is(err, raft.ErrLogNotFound) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("reading entry %d of the log: %w", i, err)
		}
		if l.Type == raft.LogCommand {
			at = i
			break
		}
	}
	if index > k.seen {
		k.seen, k.at = index, at
	}
	return at, nil
}
