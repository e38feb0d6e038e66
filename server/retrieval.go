package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/sim"
)

// retrieval is the restore of a share: it ends when this member has read its parts and every other one has handed over
// the last piece for this one.
type retrieval struct {
	mu    sync.Mutex
	waits int
}

// done notes that a member, this one included, has handed over everything; it reports whether all have.
func (r *retrieval) done() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits--
	return r.waits == 0
}

// checkpointsFolder is where a node keeps checkpoints, a folder for each job.
const checkpointsFolder = "checkpoints"

// keep returns what keeps the checkpoints of a job, nil if it takes none.
func (e *executor) keep(job *control.Job) *keeper {
	old := e.keeper.Load()
	if old != nil && old.job == job.ID {
		old.begin(job.Epoch)
		return old
	}
	if old != nil {
		e.keeper.Store(nil)
		e.group.Go(func() { e.closeKeeper(old) })
	}
	spec := job.Spec.Checkpoints
	if spec == (control.Checkpoints{}) && job.Restore == nil {
		return nil
	}
	dir := filepath.Join(e.store.dir, checkpointsFolder, job.ID)
	k := newKeeper(dir, job.ID, checkpoint.Options{
		Job: job.ID + " " + job.Bundle, Node: e.self, KeepLast: spec.KeepLast, KeepEvery: int(spec.KeepEvery), Log: e.log,
	}, e.log, e.deliver)
	// Without a checkpoint to go on from, what is there is of an earlier life of the cluster.
	k.fresh = job.Newest() == nil
	k.begin(job.Epoch)
	e.keeper.Store(k)
	return k
}

func (e *executor) closeKeeper(k *keeper) {
	if err := k.close(); err != nil {
		e.log.Warn("the checkpoints of a job were not closed well", "job", k.job, "error", err)
	}
}

// discard removes the checkpoints of a job that has ended. It may wait for what is under way.
func (e *executor) discard(job string) error {
	if k := e.keeper.Load(); k != nil && k.job == job && e.keeper.CompareAndSwap(k, nil) {
		e.closeKeeper(k)
	}
	dir, err := e.store.job(job)
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(filepath.Join(e.store.dir, checkpointsFolder, job)), record.Release(filesOf(dir)))
}

// record opens the recording of a share, or goes on with the one of the checkpoint that it begins from.
func (e *executor) record(s *share) error {
	from := s.job.Restore
	if from == nil {
		return e.openRecording(s, nil)
	}
	c, source := restoring(s.job), recordingSource(s.job)
	if c == nil || source < 0 || from.Sources[source].Node != e.self {
		return fmt.Errorf("engine fault: this node is to record and does not read what was recorded up to %v; please report it", from.At)
	}
	part, err := s.keeper.part(c.Number, c.Recorder, c.Parts[c.Recorder].Root)
	if err != nil {
		return err
	}
	state, err := s.keeper.recording(part)
	if err == nil && state == nil {
		err = fmt.Errorf("part %d of checkpoint %d holds no recording", c.Recorder, c.Number)
	}
	if err != nil {
		return err
	}
	files, err := record.Files(state)
	if err != nil {
		return err
	}
	dir, err := e.store.job(s.job.ID)
	if err != nil {
		return err
	}
	if err := s.keeper.files(filesOf(dir), files); err != nil {
		return err
	}
	return e.openRecording(s, state)
}

func (e *executor) openRecording(s *share, state []byte) (err error) {
	if s.keeper != nil {
		// Where a node records there is no mirror, so that one that is there is newer than what it recorded itself.
		if err := os.RemoveAll(s.keeper.mirrorDir()); err != nil {
			return err
		}
	}
	s.recording, err = newRecording(e.outside, s, state)
	return err
}

// restoring returns the checkpoint that a job begins from.
func restoring(job *control.Job) *control.Checkpoint {
	for i := range job.Checkpoints {
		if c := &job.Checkpoints[i]; job.Restore != nil && c.Number == job.Restore.Number {
			return c
		}
	}
	return nil
}

// recordingSource returns which source reads the part that holds the recording, -1 if none does.
func recordingSource(job *control.Job) int {
	c := restoring(job)
	if c == nil {
		return -1
	}
	return slices.IndexFunc(job.Restore.Sources, func(s control.Source) bool { return s.Part == c.Recorder })
}

// Retrieve implements control.Executor.
func (e *executor) Retrieve() {
	s, err := e.current()
	if err != nil {
		return
	}
	e.group.Go(func() {
		err := guard("the restore of a checkpoint", func() error { return e.retrieve(s) })
		var bad *unreadable
		switch {
		case s.ctx.Err() != nil:
		case errors.As(err, &bad):
			e.input(control.Unreadable{Epoch: s.job.Epoch, Number: s.job.Restore.Number, Part: bad.part, Reason: bad.err.Error()})
		case err != nil:
			e.input(control.RestoreEnded{Epoch: s.job.Epoch, Err: err.Error()})
		default:
			e.restored(s)
		}
	})
}

// unreadable is a part that has no good copy here.
type unreadable struct {
	part int
	err  error
}

func (u *unreadable) Error() string { return u.err.Error() }

// retrieve reads the parts of which this member is the source.
func (e *executor) retrieve(s *share) error {
	c := restoring(s.job)
	if c == nil {
		return errors.New("engine fault: the checkpoint to begin from is not in the log; please report it")
	}
	var regions []regionChunks
	for _, source := range s.job.Restore.Sources {
		if source.Node != e.self {
			continue
		}
		p, err := s.keeper.part(c.Number, source.Part, c.Parts[source.Part].Root)
		if err != nil {
			return &unreadable{source.Part, err}
		}
		for _, read := range s.keeper.regions(p) {
			regions = append(regions, marked(source.Part, read))
		}
	}
	return s.part.Restore(s.ctx, regions, func(to int, data []byte, last bool) error {
		if err := e.room(s.ctx, s.job.Members[to]); err != nil {
			return err
		}
		e.input(control.RestorePiece{Epoch: s.job.Epoch, To: to, Data: data, Last: last})
		return nil
	})
}

// marked makes errors of the store tell which part they are of.
func marked(part int, read regionChunks) regionChunks {
	return func(yield func(number uint64, kind byte, data []byte) error) error {
		var own error
		err := read(func(number uint64, kind byte, data []byte) error {
			own = yield(number, kind, data)
			return own
		})
		if err != nil && own == nil {
			return &unreadable{part, err}
		}
		return err
	}
}

// TakeRestored implements control.Executor.
func (e *executor) TakeRestored(from int, data []byte, last bool) error {
	s, err := e.current()
	if err != nil {
		return err
	}
	err = caught("the restore of a checkpoint", func() error { return s.part.TakeRestored(from, data) })
	if err == nil && last {
		e.group.Go(func() { e.restored(s) })
	}
	return err
}

// restored notes that a member has handed over everything.
func (e *executor) restored(s *share) {
	if !s.retrieval.done() {
		return
	}
	end := control.RestoreEnded{Epoch: s.job.Epoch}
	if err := caught("the restore of a checkpoint", s.part.EndRestore); err != nil {
		end.Err = err.Error()
	}
	if s.ctx.Err() == nil {
		e.input(end)
	}
}

// Checkpoint implements control.Executor.
func (e *executor) Checkpoint(n uint64, at sim.Time, partner int) {
	s, err := e.current()
	if err != nil {
		return
	}
	name := ""
	if partner >= 0 {
		name = s.job.Members[partner]
	}
	told := func(p *checkpoint.Part, err error) {
		if s.ctx.Err() != nil {
			return
		}
		in := control.Saved{Epoch: s.job.Epoch, Number: n}
		if err != nil {
			in.Err = err.Error()
		} else {
			in.Part = partOf(p, name)
		}
		e.input(in)
	}
	if err := e.beginSave(s, n, at, name, told); err != nil {
		told(nil, err)
	}
}

// partOf is what the log holds of a part.
func partOf(p *checkpoint.Part, partner string) control.CheckpointPart {
	ref := p.Ref()
	out := control.CheckpointPart{Partner: partner, Root: p.Root, Base: ref.Base, Chunks: ref.Chunks, Bytes: ref.Bytes}
	for _, r := range p.Regions {
		if r.Region == recordedRegion {
			continue
		}
		out.Regions = append(out.Regions, r.Region)
		out.Entities += r.Entities
		out.Events += r.Events
		out.Digest += r.Digest
	}
	return out
}

// Abandon implements control.Executor.
func (e *executor) Abandon(n uint64) {
	if s, err := e.current(); err == nil {
		e.endSave(s, n, false)
	}
}

// Committed implements control.Executor.
func (e *executor) Committed(n uint64, kept []control.Checkpoint) {
	s, err := e.current()
	if err != nil || s.keeper == nil {
		return
	}
	e.endSave(s, n, true)
	i := slices.IndexFunc(kept, func(c control.Checkpoint) bool { return c.Number == n })
	if i < 0 {
		return
	}
	m := manifestOf(s, &kept[i])
	e.group.Go(func() {
		if err := s.keeper.commit(m); err != nil {
			e.log.Warn("a committed checkpoint was not noted here", "job", s.job.ID, "checkpoint", n, "error", err)
		}
	})
}

func manifestOf(s *share, c *control.Checkpoint) *checkpoint.Manifest {
	m := &checkpoint.Manifest{
		Format: checkpoint.Format, Number: c.Number, Parent: c.Parent, Epoch: c.Epoch, Chain: slices.Clone(c.Chain), At: c.At,
		Scenario: s.job.Bundle, Model: s.scenario.Program.Model.Name, Seed: fmt.Sprint(s.scenario.Program.Seed), Written: time.Now(),
	}
	for i := range c.Parts {
		p := &c.Parts[i]
		ref := checkpoint.PartRef{Part: i, Root: p.Root, Base: p.Base, Chunks: p.Chunks, Bytes: p.Bytes, Holders: []string{p.Member}}
		if p.Partner != "" {
			ref.Holders = append(ref.Holders, p.Partner)
		}
		m.Parts = append(m.Parts, ref)
	}
	return m
}

// prune removes the checkpoints of jobs that have ended or are forgotten.
func (e *executor) prune(state *control.State) error {
	dir := filepath.Join(e.store.dir, checkpointsFolder)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // there are none
	}
	var errs []error
	for _, entry := range entries {
		// A job that is not known may be one that the log has not told of yet.
		if job := state.Job(entry.Name()); job != nil && job.Phase.Ended() || job == nil && wasGiven(entry.Name(), state) {
			errs = append(errs, e.discard(entry.Name()))
		}
	}
	return errors.Join(errs...)
}

// wasGiven reports whether a job of an id has been, by what a state knows.
func wasGiven(id string, state *control.State) bool {
	n, err := strconv.ParseUint(strings.TrimPrefix(id, "job-"), 10, 64)
	return validJob(id) && err == nil && n <= state.NextJob
}

// deliver sends a payload and waits for room.
func (n *Node) deliver(ctx context.Context, to string, payload []byte) error {
	return n.peers.sendRaw(ctx, to, payload)
}
