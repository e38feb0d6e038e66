package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/summary"
)

// Bounds of what waits for the recording, in bytes: above the first the run slows down, below the second
// it goes on.
const (
	fullQueue  = 32 << 20
	emptyQueue = 4 << 20
)

type workKind byte

const (
	frameWork workKind = iota + 1
	floorWork
	finalWork
	finishWork
	saveWork
)

// work is something for the recording to do.
type work struct {
	kind   workKind
	from   int
	n      uint64
	data   []byte
	last   bool
	at     sim.Time
	frames []uint64
	how    control.Ending
	// saved takes the state of the recording at time at.
	saved func(*recorded, error)
}

// recording is what the recording member does besides: it brings the observations of all members into
// order, writes them, and makes the results. A goroutine of its own does the work, so that a slow disk
// holds up nothing but the run.
type recording struct {
	outside
	share    *share
	recorder *record.Recorder
	// dir is the folder of its files.
	dir      string
	merger   *node.Merger
	assembly *node.Assembly

	mu      sync.Mutex
	more    *sync.Cond
	queue   []work
	bytes   int
	crowded bool
	over    bool
	failure error

	// Of the goroutine alone.
	frames []uint64
	ended  []bool
	given  []bool
	end    *work
	// save waits until the recording holds exactly what came before its time; later is a floor beyond it.
	save, later *work

	clock struct {
		sync.Mutex
		start, end time.Time
	}
}

// newRecording opens the files of a job, or those that a checkpoint goes on with, whose state of the recording is
// given.
func newRecording(o outside, s *share, state []byte) (r *recording, err error) {
	members, program := len(s.job.Members), s.scenario.Program
	r = &recording{outside: o, share: s, frames: make([]uint64, members), ended: make([]bool, members), given: make([]bool, members)}
	r.more = sync.NewCond(&r.mu)
	if state == nil {
		r.dir, err = o.store.create(s.job.ID)
	} else if r.dir, err = o.store.job(s.job.ID); err == nil {
		r.dir = filesOf(r.dir)
	}
	if err != nil {
		return nil, err
	}
	options := recordOptions(s.scenario.Record, s.level, r.dir)
	options.Resumable = s.keeper != nil
	if state == nil {
		r.recorder, err = record.New(program, options)
	} else {
		r.recorder, err = record.Resume(program, options, state)
	}
	if err != nil {
		return nil, err
	}
	r.merger, r.assembly = node.NewMerger(program, members, r.recorder), node.NewAssembly(program, members)
	return r, nil
}

func recordOptions(r scenario.Record, level record.Level, dir string) record.Options {
	return record.Options{Level: level, Dir: dir, CSV: slices.Contains(r.Formats, "csv"), Parquet: slices.Contains(r.Formats, "parquet")}
}

// began notes that the run goes on from now, if it has not.
func (r *recording) began() {
	r.clock.Lock()
	defer r.clock.Unlock()
	if r.clock.start.IsZero() {
		r.clock.start = time.Now()
	}
}

// wall is how long the events took so far.
func (r *recording) wall() time.Duration {
	r.clock.Lock()
	defer r.clock.Unlock()
	end := r.clock.end
	if end.IsZero() {
		end = time.Now()
	}
	if r.clock.start.IsZero() {
		return 0
	}
	return end.Sub(r.clock.start)
}

// put adds work. It does not wait.
func (r *recording) put(w work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.queue = append(r.queue, w)
	r.bytes += len(w.data)
	r.crowded = r.crowded || r.bytes > fullQueue
	r.more.Signal()
}

// full reports whether more waits than should.
func (r *recording) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.crowded
}

// finish says that the run has ended at a time.
func (r *recording) finish(at sim.Time, how control.Ending) {
	r.clock.Lock()
	r.clock.end = time.Now()
	r.clock.Unlock()
	r.put(work{kind: finishWork, at: at, how: how})
}

// run is the goroutine.
func (r *recording) run() {
	stop := context.AfterFunc(r.share.ctx, func() { r.close(nil) })
	defer stop()
	var data []byte
	err := guard("the recording", func() (err error) {
		data, err = r.whole()
		return err
	})
	if err == nil {
		r.input(control.Recording{Epoch: r.share.job.Epoch, Result: data})
		return
	}
	if r.share.keeper != nil {
		err = errors.Join(err, r.recorder.Close()) // another epoch may go on with the files
	} else if discard := r.recorder.Finish(0); discard != nil {
		err = errors.Join(err, discard)
	}
	if errors.Is(err, errDropped) {
		if r.share.keeper == nil {
			r.forget()
		}
		return
	}
	r.close(err)
	r.wake()
	r.input(control.Recording{Epoch: r.share.job.Epoch, Err: err.Error()})
}

// close ends the recording early.
func (r *recording) close(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over, r.failure, r.queue = true, err, nil
	r.more.Signal()
}

// failed returns why the recording cannot go on, or nil.
func (r *recording) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// forget removes the files of a job that was dropped before its end.
func (r *recording) forget() {
	if err := r.store.remove(r.share.job.ID); err != nil {
		r.log.Warn("the files of a dropped job are left", "job", r.share.job.ID, "error", err)
	}
}

// whole does what is put until the result is complete.
func (r *recording) whole() ([]byte, error) {
	for {
		list, err := r.take()
		if err != nil {
			return nil, err
		}
		for i := range list {
			if err := r.do(&list[i]); err != nil {
				return nil, err
			}
		}
		if r.end != nil && !slices.Contains(r.ended, false) {
			return r.conclude()
		}
	}
}

// take waits for work. What is taken counts as waiting until the next call.
func (r *recording) take() ([]work, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) == 0 && !r.over {
		r.more.Wait()
	}
	if r.over {
		return nil, errDropped
	}
	list := r.queue
	r.queue = nil
	return list, nil
}

// done takes finished work off the count, and lets a run go on that waited.
func (r *recording) done(n int) {
	r.mu.Lock()
	r.bytes -= n
	free := r.crowded && r.bytes < emptyQueue
	if free {
		r.crowded = false
	}
	r.mu.Unlock()
	if free {
		r.wake()
	}
}

func (r *recording) do(w *work) error {
	defer r.done(len(w.data))
	switch w.kind {
	case frameWork:
		r.frames[w.from] = w.n
		if err := r.merger.Take(w.from, w.n, w.data); err != nil {
			return err
		}
		return r.saveIfDue()
	case saveWork:
		return r.beginSave(w)
	case floorWork:
		return r.floor(w)
	case finishWork:
		r.end = w
		return nil
	}
	r.ended[w.from] = r.ended[w.from] || w.last
	if len(w.data) == 0 && !r.given[w.from] {
		return nil // A run that failed has no result.
	}
	r.given[w.from] = true
	_, err := r.assembly.Take(w.from, w.data, w.last)
	return err
}

// beginSave lets the recording be saved at a time. An earlier save that still waits was given up; a floor that waited
// for it lies before this time.
func (r *recording) beginSave(w *work) error {
	later := r.later
	r.save, r.later = w, nil
	if later == nil {
		return r.saveIfDue()
	}
	return r.floor(later)
}

// floor hands on what came before a floor. One beyond the time of a checkpoint waits until the recording was saved.
func (r *recording) floor(w *work) error {
	if r.save == nil || w.at < r.save.at {
		return r.merger.Floor(w.at, w.frames)
	}
	if r.later == nil {
		if err := r.merger.Floor(r.save.at, w.frames); err != nil {
			return err
		}
	}
	r.later = w
	return r.saveIfDue()
}

// saveIfDue saves the recording if a checkpoint waits for that and all before its time has been recorded.
func (r *recording) saveIfDue() error {
	if r.save == nil || r.merger.Done() < r.save.at {
		return nil
	}
	state, err := r.recorder.Save()
	rec := &recorded{dir: r.dir, state: state}
	if err == nil {
		rec.files, err = record.Files(state)
	}
	r.save.saved(rec, err)
	later := r.later
	r.save, r.later = nil, nil
	if later == nil {
		return nil
	}
	return r.merger.Floor(later.at, later.frames)
}

// conclude makes the results of a run whose members have all handed theirs over. Their observations came
// before, since links keep order.
func (r *recording) conclude() ([]byte, error) {
	if r.save != nil {
		r.save.saved(nil, errors.New("the run ended before the recording was saved"))
		r.save = nil
	}
	program := r.share.scenario.Program
	at := min(r.end.at, program.End)
	if err := r.merger.Floor(at, r.frames); err != nil {
		return nil, err
	}
	if err := r.recorder.Finish(at); err != nil {
		return nil, err
	}
	if r.end.how == control.EndFailed {
		return r.keep(nil, nil)
	}
	out, err := r.assembly.Outcome(at, r.end.how)
	if err != nil {
		return nil, err
	}
	var s *summary.Summary
	failure := guard("the making of results", func() (err error) {
		s, err = r.summarise(out)
		return err
	})
	return r.keep(s, failure)
}

func (r *recording) summarise(out *node.Outcome) (*summary.Summary, error) {
	job := r.share.job
	out.Elapsed = r.wall()
	dir, err := r.store.job(job.ID)
	if err != nil {
		return nil, err
	}
	return summary.Run{
		Scenario: r.share.scenario, Name: job.Name, Path: filesOf(dir), Level: r.share.level, Regions: len(job.Owner),
		Workers: r.workersOf(job), Recorder: r.recorder, Outcome: out, Wall: out.Elapsed,
	}.Write()
}

// workersOf counts the workers of all members.
func (r *recording) workersOf(job *control.Job) int {
	n := 0
	for m, name := range job.Members {
		each, own := job.Spec.Workers, 0
		if each == 0 {
			each = r.workersAt(name)
		}
		for _, owner := range job.Owner {
			if owner == m {
				own++
			}
		}
		n += min(each, own)
	}
	return n
}

// keep keeps the result in the folder and returns what the log is to hold of it. There is no summary where
// the model failed, be it in its results.
func (r *recording) keep(s *summary.Summary, failure error) ([]byte, error) {
	id := r.share.job.ID
	if failure != nil {
		s = nil
	}
	files, err := r.store.files(id, s)
	if err != nil {
		return nil, fmt.Errorf("listing the files of %s: %w", id, err)
	}
	res := &result{
		Recorder: r.self, Files: files, Reached: min(r.end.at, r.share.scenario.Program.End), End: planned(r.share.scenario.Program), Wall: r.wall(),
	}
	if failure != nil {
		res.Failure = failure.Error()
	}
	if s != nil {
		res.Events, res.Interrupted = s.Events, s.Interrupted
		text, err := s.JSON()
		if err != nil {
			return nil, err
		}
		res.Summary = string(text)
	}
	if err := r.store.finish(id, res); err != nil {
		return nil, err
	}
	data, err := json.Marshal(res)
	if err == nil && len(data) > largestInLog {
		res.Summary = ""
		data, err = json.Marshal(res)
	}
	return data, err
}
