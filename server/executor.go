package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/summary"
)

// outside is what an executor needs of the node around it. All of it may be called from any goroutine.
type outside struct {
	// models that a scenario may name.
	models []sim.Model
	// self is the name of the node.
	self string
	// workers is how many regions this node works on at once unless the job says otherwise.
	workers int
	// workersAt is the same of any node; 1 if unknown.
	workersAt func(node string) int
	store     store
	log       *slog.Logger
	// input hands the agent an input.
	input func(control.Input)
	// deliver sends a payload to a node and waits for room on its link.
	deliver func(ctx context.Context, to string, payload []byte) error
	// wake says that Collect has something; it does not block.
	wake func()
	// room waits until the links can take another piece of a result for a node.
	room func(ctx context.Context, to string) error
	// full reports whether the links have more to send than they should.
	full func() bool
}

// executor carries out this member's share of jobs, one at a time. It implements control.Executor: its
// methods are called from the loop and do not wait.
type executor struct {
	outside
	// bundle returns the data of a bundle of the replicated state, nil if it is not there. It is called
	// from the loop.
	bundle func(hash string) []byte
	share  *share
	// keeper keeps the checkpoints of the job that was prepared last; nil if it takes none.
	keeper atomic.Pointer[keeper]
	// group are the goroutines of all shares.
	group sync.WaitGroup
	// written is closed when the last recording that was begun here writes no more.
	written struct {
		sync.Mutex
		end chan struct{}
	}
	// shown is the share of which the node tells; nil where there is none.
	shown atomic.Pointer[share]
	// backlog is what Collect said last.
	backlog bool
	// resigned is why this node can work no longer; nil while it can.
	resigned atomic.Pointer[string]
}

var _ control.Executor = (*executor)(nil)

// share is this member's share of one job.
type share struct {
	job    *control.Job
	me     int
	ctx    context.Context
	cancel context.CancelFunc

	// Set before the input Prepared, used after it.
	scenario  *scenario.Scenario
	level     record.Level
	part      *node.Part
	recording *recording // on the recording member only
	keeper    *keeper    // nil if the job takes no checkpoints and begins from none
	saves     saves
	retrieval retrieval
	ended     bool
	// ready says that the fields above are set.
	ready atomic.Bool
}

func (s *share) records() bool { return s.me == s.job.Recorder }

// errDropped ends what a job that was dropped has begun.
var errDropped = errors.New("the job was dropped")

// errNotPrepared is a call for a job that has not been set up.
var errNotPrepared = errors.New("engine fault: no job is set up here; please report it")

// Prepare implements control.Executor.
func (e *executor) Prepare(job *control.Job, me int) {
	if e.share != nil {
		e.Drop("another job begins")
	}
	s := &share{job: job, me: me}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.keeper = e.keep(job)
	e.share, e.backlog = s, false
	e.shown.Store(s)
	data := e.bundle(job.Bundle)
	e.group.Go(func() {
		err := errors.New("its scenario is not in the log of this node")
		if data != nil {
			err = guard("the setup of "+job.ID, func() error { return e.prepare(s, data) })
		}
		p := control.Prepared{Epoch: job.Epoch}
		if err != nil {
			p.Err = err.Error()
			s.release()
		}
		s.ready.Store(err == nil)
		if s.ctx.Err() == nil {
			e.input(p)
			return
		}
		s.release()
	})
}

// prepare sets a share up. It may take long.
func (e *executor) prepare(s *share, data []byte) error {
	spec := s.job.Spec
	var err error
	if s.scenario, s.level, err = load(data, e.models, spec); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return errDropped
	}
	program, r := s.scenario.Program, s.scenario.Record
	o := node.PartOptions{
		Owner: s.job.Owner, Me: s.me, Workers: e.workers, Observe: len(program.Series) > 0, Trace: s.level == record.Raw, Wake: e.wake,
	}
	if spec.Workers > 0 {
		o.Workers = spec.Workers
	}
	if s.level >= record.Summary && r.Report {
		o.Bins = summary.PageBins
	}
	o.Checkpoints = s.keeper != nil
	if from := s.job.Restore; from != nil {
		o.Restore = &node.RestoredFrom{At: from.At}
		s.retrieval.waits = len(s.job.Members) // for itself too
	}
	if s.part, err = node.NewPart(s.ctx, program, o); err != nil {
		return err
	}
	if s.records() {
		ended, err := e.turnToWrite(s)
		if err != nil {
			return err
		}
		if err := e.record(s); err != nil {
			close(ended)
			return err
		}
		e.group.Go(func() {
			defer close(ended)
			s.recording.run()
		})
	}
	s.part.Start()
	return nil
}

// turnToWrite waits until an earlier recording, perhaps of the same job, has let go of its files, and returns what is
// to be closed when this one has.
func (e *executor) turnToWrite(s *share) (ended chan struct{}, err error) {
	ended = make(chan struct{})
	e.written.Lock()
	before := e.written.end
	e.written.end = ended
	e.written.Unlock()
	if before == nil {
		return ended, nil
	}
	select {
	case <-before:
		return ended, nil
	case <-s.ctx.Done():
		go func() { // who comes next waits for both
			<-before
			close(ended)
		}()
		return nil, errDropped
	}
}

// load loads the scenario of a job as a run in one process does.
func load(data []byte, models []sim.Model, spec control.Spec) (*scenario.Scenario, record.Level, error) {
	s, err := scenario.LoadBundle(data, scenario.Options{Models: models, Set: spec.Set, Seed: spec.Seed, End: spec.End})
	if err != nil {
		return nil, 0, err
	}
	if spec.Record != "" {
		s.Record.Level = spec.Record
	}
	level, err := record.ParseLevel(s.Record.Level)
	return s, level, err
}

// release ends what a share holds. It waits for handlers that are running.
func (s *share) release() {
	s.cancel()
	if s.part != nil {
		s.part.Stop()
	}
}

// current returns the share that was set up.
func (e *executor) current() (*share, error) {
	if e.share == nil || !e.share.ready.Load() {
		return nil, errNotPrepared
	}
	return e.share, nil
}

// Shape implements control.Executor.
func (e *executor) Shape() control.Shape {
	s, err := e.current()
	if err != nil {
		return control.Shape{}
	}
	return s.part.Shape()
}

// State implements control.Executor.
func (e *executor) State() []control.RegionState {
	s, err := e.current()
	if err != nil {
		return nil
	}
	return s.part.State()
}

// Grant implements control.Executor.
func (e *executor) Grant(grants []lbts.Grant) error {
	s, err := e.current()
	if err != nil {
		return err
	}
	return s.part.Grant(grants)
}

// Hold implements control.Executor.
func (e *executor) Hold(on bool) {
	s, err := e.current()
	if err != nil {
		return
	}
	if !on && s.recording != nil {
		s.recording.began() // also where the regions of this member have nothing to do
	}
	s.part.Hold(on)
}

// Collect implements control.Executor.
func (e *executor) Collect() control.Collected {
	s, err := e.current()
	if err != nil {
		return control.Collected{}
	}
	c := s.part.Collect()
	c.Backlog = e.full()
	if r := s.recording; r != nil {
		c.Backlog = c.Backlog || r.full()
		if err := r.failed(); err != nil && c.Fault == nil {
			c.Fault = &control.Unable{Err: fmt.Errorf("the results cannot be written: %w", err)}
		}
	}
	if why := e.resigned.Load(); why != nil && c.Fault == nil {
		c.Fault = &control.Unable{Err: errors.New(*why)}
	}
	if c.Backlog != e.backlog {
		e.backlog, c.Changed = c.Backlog, true
	}
	return c
}

// Receive implements control.Executor.
func (e *executor) Receive(from int, n uint64, data []byte) error {
	s, err := e.current()
	if err != nil {
		return err
	}
	return s.part.Receive(from, n, data)
}

// Cut implements control.Executor. It moves states, whose encoding may be a model's code.
func (e *executor) Cut(t sim.Time) (parcels [][]byte, err error) {
	s, err := e.current()
	if err != nil {
		return nil, err
	}
	err = caught("a cut", func() error {
		parcels, err = s.part.Cut(t)
		return err
	})
	return parcels, err
}

// TakeParcel implements control.Executor.
func (e *executor) TakeParcel(from int, data []byte) error {
	s, err := e.current()
	if err != nil {
		return err
	}
	return caught("a cut", func() error { return s.part.TakeParcel(from, data) })
}

// EndCut implements control.Executor.
func (e *executor) EndCut() (next []sim.Time, err error) {
	s, err := e.current()
	if err != nil {
		return nil, err
	}
	err = caught("a cut", func() error {
		next, err = s.part.EndCut()
		return err
	})
	return next, err
}

// Finish implements control.Executor.
func (e *executor) Finish(at sim.Time, how control.Ending, _ string) {
	s, err := e.current()
	if err != nil || s.ended {
		return
	}
	s.ended = true
	s.saves.cancel()
	if s.recording != nil {
		s.recording.finish(at, how)
	}
	e.group.Go(func() {
		s.part.Stop()
		if err := e.hand(s, at, how); err != nil && s.ctx.Err() == nil {
			e.input(control.Recording{Epoch: s.job.Epoch, Err: err.Error()})
		}
	})
}

// hand hands over the member's part of the result, as fast as the links take it. Of a run that a model's
// failure ended there is none.
func (e *executor) hand(s *share, at sim.Time, how control.Ending) error {
	if how == control.EndFailed {
		e.input(control.FinalPart{Epoch: s.job.Epoch, Last: true})
		return nil
	}
	recorder := s.job.Members[s.job.Recorder]
	return guard("the encoding of final states", func() error {
		return s.part.Result(at, func(piece []byte, last bool) error {
			if err := e.room(s.ctx, recorder); err != nil {
				return err
			}
			e.input(control.FinalPart{Epoch: s.job.Epoch, Data: piece, Last: last})
			return nil
		})
	})
}

// Drop implements control.Executor.
func (e *executor) Drop(reason string) {
	s := e.share
	if s == nil {
		return
	}
	e.share = nil
	e.shown.CompareAndSwap(s, nil)
	e.log.Info("job dropped", "job", s.job.ID, "epoch", s.job.Epoch, "reason", reason)
	s.cancel()
	if s.ready.Load() {
		e.group.Go(s.release)
	}
}

// Record implements control.Executor.
func (e *executor) Record(from int, n uint64, data []byte) error {
	return e.recorded(func(r *recording) { r.put(work{kind: frameWork, from: from, n: n, data: data}) })
}

// Floor implements control.Executor.
func (e *executor) Floor(at sim.Time, frames []uint64) error {
	return e.recorded(func(r *recording) { r.put(work{kind: floorWork, at: at, frames: frames}) })
}

// RecordFinal implements control.Executor.
func (e *executor) RecordFinal(from int, data []byte, last bool) error {
	return e.recorded(func(r *recording) { r.put(work{kind: finalWork, from: from, data: data, last: last}) })
}

func (e *executor) recorded(f func(*recording)) error {
	s, err := e.current()
	if err != nil {
		return err
	}
	if s.recording == nil {
		return fmt.Errorf("engine fault: member %d of %s does not record; please report it", s.me, s.job.ID)
	}
	f(s.recording)
	return nil
}

// resign lets this node's part in the job fail. It may be called from any goroutine.
func (e *executor) resign(why string) {
	e.resigned.Store(&why)
	e.wake()
}

// stop drops the job and waits for everything that was begun, or until ctx is done.
func (e *executor) stop(ctx context.Context) error {
	e.Drop("the node ends")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if k := e.keeper.Swap(nil); k != nil {
			e.closeKeeper(k)
		}
		e.group.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a model's code goes on: %w", ctx.Err())
	}
}
