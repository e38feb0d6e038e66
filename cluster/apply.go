package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// applyQueue is how long a command may wait to be taken by raft.
const applyQueue = 2 * time.Second

var errNotLeader = errors.New("this node does not lead")

// Apply appends a command to the log and returns the FSM's answer once it is committed and applied. It may
// be called on any node: others pass the command to the leader. It goes on through elections until ctx is
// done; then the command may have been applied, or may yet be. It may even be applied twice, so commands
// must be such that this does not matter.
func (c *Cluster) Apply(ctx context.Context, command []byte) (answer []byte, err error) {
	if len(command) > MaxCommand {
		return nil, fmt.Errorf("a command of %d bytes; at most %d are taken", len(command), MaxCommand)
	}
	pause := 10 * time.Millisecond
	var last error
	for {
		stirred := c.stirred()
		answer, err := c.applyOnce(ctx, command)
		if err == nil {
			return answer, nil
		}
		if errors.Is(err, errRefused) || c.ctx.Err() != nil {
			return nil, err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the command was not confirmed (%w): %w", context.Cause(ctx), last)
		case <-c.ctx.Done():
			return nil, ErrStopped
		case <-stirred:
		case <-time.After(pause):
			pause = min(2*pause, 200*time.Millisecond)
		}
	}
}

func (c *Cluster) applyOnce(ctx context.Context, command []byte) ([]byte, error) {
	name, _ := c.Leader()
	switch name {
	case "":
		return nil, errors.New("the cluster has no leader")
	case c.c.Name:
		return c.applyHere(ctx, command)
	}
	// The leader may be dead without anyone knowing: a short time for each attempt.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	d, _ := ctx.Deadline()
	body := binary.LittleEndian.AppendUint32(nil, uint32(max(time.Until(d).Milliseconds(), 0)))
	answer, err := c.ask(ctx, name, askApply, append(body, command...))
	if err != nil {
		return nil, fmt.Errorf("leader %s: %w", name, err)
	}
	return answer, nil
}

// applyHere appends a command on the leader.
func (c *Cluster) applyHere(ctx context.Context, command []byte) ([]byte, error) {
	rep := c.replica()
	if rep == nil || rep.State() != raft.Leader {
		return nil, errNotLeader
	}
	for {
		stirred := c.stirred()
		if _, founded, _ := c.machine.facts(); founded {
			break
		}
		select {
		case <-stirred:
		case <-ctx.Done():
			return nil, fmt.Errorf("the cluster is not founded yet: %d nodes that may coordinate are needed of %d expected", quorum(c.c.Expected), c.c.Expected)
		}
		if rep.State() != raft.Leader {
			return nil, errNotLeader
		}
	}
	future := rep.Apply(append([]byte{entryCommand}, command...), applyQueue)
	done := make(chan error, 1)
	go func() { done <- future.Error() }() // ends with the commit, the leadership or raft
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case err := <-done:
		if err != nil {
			return nil, err
		}
	}
	a, ok := future.Response().(answered)
	if !ok {
		return nil, fmt.Errorf("%w: the log answered with %T", errRefused, future.Response())
	}
	if a.err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, a.err)
	}
	return a.answer, nil
}
