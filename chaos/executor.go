package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// executor carries out a process's share of jobs with the engine's own parts, a turn at a time. It
// implements control.Executor.
type executor struct {
	p       *process
	w       *world
	state   *control.State
	share   *share
	backlog bool
}

var _ control.Executor = (*executor)(nil)

// share is a process's share of one job.
type share struct {
	p     *process
	job   *control.Job
	me    int
	spec  jobSpec
	prog  *sim.Program
	part  *node.Part
	truth *jobTruth
	// turning counts turns under way; holding says that no more are to begin.
	turning int
	holding bool
	woken   bool
	ended   bool
	gone    bool
	// cutting says that a cut is under way here; open is the checkpoint that is neither committed nor given up.
	cutting  bool
	deferred []func()
	open     *saving
	// Of a restore: the own parts are read, so many others have handed over theirs, all is in.
	retrieved bool
	lasts     int
	whole     bool

	// On the recording member: what waits to be written, and what became of it.
	works    []func() error
	writing  bool
	recorder *recorder
}

// jobSpec is what a bundle holds.
type jobSpec struct {
	program uint64
	trace   bool
}

func (s jobSpec) bundle() []byte {
	return fmt.Appendf(nil, "program %d trace %t\n", s.program, s.trace)
}

func parseSpec(data []byte) (s jobSpec, err error) {
	f := strings.Fields(string(data))
	if len(f) != 4 {
		return s, fmt.Errorf("bundle %q", data)
	}
	if s.program, err = strconv.ParseUint(f[1], 10, 64); err != nil {
		return s, err
	}
	s.trace, err = strconv.ParseBool(f[3])
	return s, err
}

// Prepare implements control.Executor.
func (e *executor) Prepare(job *control.Job, me int) {
	if e.share != nil {
		e.w.fail("%s is to prepare %s before it dropped another job", e.p.boot, job.ID)
		return
	}
	s := &share{p: e.p, job: job, me: me, truth: e.w.truth.claim(e.p, job, me)}
	e.share, e.backlog = s, false
	b := e.state.Bundle(job.Bundle)
	e.p.later(e.w.work.exp(e.w.settings.setup), func() {
		if s.gone {
			return
		}
		in := control.Prepared{Epoch: job.Epoch}
		if err := e.prepare(s, b); err != nil {
			in.Err = err.Error()
			e.w.fail("%s cannot set %s up: %v", e.p.boot, job.ID, err)
		}
		e.p.put(item{input: in})
	})
}

func (e *executor) prepare(s *share, b *control.Bundle) (err error) {
	if b == nil {
		return errors.New("its bundle is not in the log")
	}
	if s.spec, err = parseSpec(b.Data); err != nil {
		return err
	}
	if s.prog, err = newProgram(s.spec.program, -1); err != nil {
		return err
	}
	o := node.PartOptions{
		Checkpoints: true,
		Owner:       s.job.Owner, Me: s.me, Workers: e.p.workers, Observe: true, Trace: s.spec.trace, TurnEvents: e.w.settings.turnEvents,
		Wake: func() { s.woken = true },
	}
	if r := s.job.Restore; r != nil {
		o.Restore = &node.RestoredFrom{At: r.At}
	}
	s.part, err = node.NewPart(context.Background(), s.prog, o)
	if err != nil {
		return err
	}
	if s.me == s.job.Recorder {
		if s.recorder, err = newRecorder(e.w, s); err != nil {
			return err
		}
	}
	s.truth.prepared(s)
	return nil
}

// current returns the share if it is set up.
func (e *executor) current(what string) *share {
	if e.share == nil || e.share.part == nil {
		e.w.fail("%s is to %s without a job", e.p.boot, what)
		return &share{p: e.p, gone: true}
	}
	e.w.truth.obeys(e.p, e.share, what)
	return e.share
}

// wake has the agent collect, soon.
func (e *executor) wake() {
	if s := e.share; s != nil && s.part != nil {
		s.woken = false
		e.p.put(item{input: control.Progress{Epoch: s.job.Epoch}})
	}
}

// wakeIfAsked has the agent collect if the part asked for it.
func (s *share) wakeIfAsked() {
	if s.woken {
		s.p.exec.wake()
	}
}

// longestTurn bounds how long a turn, or a write, takes on a slow node.
const longestTurn = 5 * time.Second

// kick begins turns on all workers that are free.
func (s *share) kick() {
	w := s.p.w
	for !s.holding && !s.ended && !s.gone && s.turning < s.p.workers {
		s.turning++
		d := w.work.exp(w.settings.turn)
		s.p.later(min(scaled(d, s.p.slow), longestTurn), s.turn)
	}
}

// turn ends a turn: what it did happens at its end.
func (s *share) turn() {
	s.turning--
	if s.gone {
		return
	}
	w := s.p.w
	s.woken = false
	did := s.part.Turn()
	if did {
		s.woken = false // by the time that it took, which is not simulated
		w.truth.turned(s)
	}
	if s.holding && s.turning == 0 {
		s.part.Hold(true)
		s.woken = true
	}
	switch {
	case s.woken || did && w.work.Bernoulli(w.settings.flush):
		s.p.exec.wake()
	}
	if did {
		s.kick()
	}
}

// Shape implements control.Executor.
func (e *executor) Shape() control.Shape {
	s := e.current("state the shape")
	if s.part == nil {
		return control.Shape{}
	}
	return s.part.Shape()
}

// State implements control.Executor.
func (e *executor) State() []control.RegionState {
	s := e.current("state its regions")
	if s.part == nil {
		return nil
	}
	return s.part.State()
}

// Grant implements control.Executor.
func (e *executor) Grant(grants []lbts.Grant) error {
	s := e.current("take grants")
	if s.part == nil {
		return nil
	}
	s.truth.granted(s, grants)
	grants = e.w.mutant.granted(grants)
	err := s.part.Grant(grants)
	s.kick()
	s.wakeIfAsked()
	return err
}

// Hold implements control.Executor.
func (e *executor) Hold(on bool) {
	s := e.share
	if s == nil || s.part == nil || s.gone {
		return
	}
	if on && e.w.mutant.ignoresHold() {
		return
	}
	s.holding = on
	switch {
	case !on:
		s.part.Hold(false)
		s.kick()
	case s.turning == 0:
		s.part.Hold(true)
	}
}

// crowded reports whether more waits for links or the disk than should.
func (e *executor) crowded() bool {
	s := e.share
	return e.p.outgoing() > e.w.settings.fullLinks || s != nil && len(s.works) > e.w.settings.fullDisk
}

// Collect implements control.Executor.
func (e *executor) Collect() control.Collected {
	s := e.current("collect")
	if s.part == nil {
		return control.Collected{}
	}
	s.woken = false
	c := s.part.Collect()
	c.Busy = c.Busy || s.turning > 0 && !e.w.mutant.ignoresHold()
	if c.Backlog = e.crowded(); c.Backlog != e.backlog {
		e.backlog, c.Changed = c.Backlog, true
	}
	return c
}

// Receive implements control.Executor.
func (e *executor) Receive(from int, n uint64, data []byte) error {
	s := e.current("receive events")
	if s.part == nil {
		return nil
	}
	s.truth.received(s, from, n, data)
	err := s.part.Receive(from, n, data)
	s.kick()
	s.wakeIfAsked()
	return err
}

// Cut implements control.Executor.
func (e *executor) Cut(t sim.Time) ([][]byte, error) {
	s := e.current("cut")
	if s.part == nil {
		return nil, nil
	}
	s.truth.beginCut(s, t)
	s.cutting = true
	e.w.snipe()
	return s.part.Cut(t)
}

// TakeParcel implements control.Executor.
func (e *executor) TakeParcel(from int, data []byte) error {
	s := e.current("take a parcel")
	if s.part == nil {
		return nil
	}
	return s.part.TakeParcel(from, data)
}

// EndCut implements control.Executor.
func (e *executor) EndCut() ([]sim.Time, error) {
	s := e.current("end a cut")
	if s.part == nil {
		return nil, nil
	}
	next, err := s.part.EndCut()
	s.cutting = false
	for _, do := range s.deferred {
		do()
	}
	s.deferred = nil
	s.truth.endCut(s)
	return next, err
}

// Finish implements control.Executor.
func (e *executor) Finish(at sim.Time, how control.Ending, reason string) {
	s := e.current("finish")
	if s.part == nil || s.ended {
		return
	}
	s.ended = true
	s.truth.finished(s, at, how, reason)
	if s.recorder != nil {
		s.write(func() error {
			s.recorder.end(at, how)
			return nil
		})
	}
	e.p.later(e.w.work.exp(e.w.settings.turn), func() {
		if s.gone {
			return
		}
		if err := e.hand(s, at, how); err != nil {
			e.p.put(item{input: control.Recording{Epoch: s.job.Epoch, Err: err.Error()}})
		}
	})
}

// hand hands over the share's part of the result; of a run that failed there is none.
func (e *executor) hand(s *share, at sim.Time, how control.Ending) error {
	if how == control.EndFailed {
		e.p.put(item{input: control.FinalPart{Epoch: s.job.Epoch, Last: true}})
		return nil
	}
	return s.part.Result(at, func(piece []byte, last bool) error {
		e.p.put(item{input: control.FinalPart{Epoch: s.job.Epoch, Data: piece, Last: last}})
		return nil
	})
}

// Drop implements control.Executor.
func (e *executor) Drop(reason string) {
	if s := e.share; s != nil {
		s.gone = true
		s.truth.dropped(s)
		e.w.note("%s drops %s: %s", e.p.boot, s.job.ID, reason)
	}
	e.share = nil
}

// Record implements control.Executor.
func (e *executor) Record(from int, n uint64, data []byte) error {
	return e.record(func(r *recorder) error {
		if err := r.take(from, n, data); err != nil {
			return err
		}
		return r.look()
	})
}

// Floor implements control.Executor.
func (e *executor) Floor(at sim.Time, frames []uint64) error {
	return e.record(func(r *recorder) error { return r.floor(&control.Floor{At: at, Frames: frames}) })
}

// RecordFinal implements control.Executor.
func (e *executor) RecordFinal(from int, data []byte, last bool) error {
	return e.record(func(r *recorder) error { return r.final(from, data, last) })
}

func (e *executor) record(do func(r *recorder) error) error {
	s := e.current("record")
	if s.part == nil {
		return nil
	}
	if s.recorder == nil {
		return errors.New("this member does not record")
	}
	s.write(func() error { return do(s.recorder) })
	return nil
}

// write has the disk do something after what it has to do already.
func (s *share) write(do func() error) {
	s.works = append(s.works, do)
	if !s.writing {
		s.writing = true
		s.writeNext()
	}
}

func (s *share) writeNext() {
	w := s.p.w
	s.p.later(min(scaled(w.work.exp(w.settings.write), s.p.disk), longestTurn), func() {
		if s.gone || len(s.works) == 0 {
			return
		}
		before := s.p.exec.crowded()
		do := s.works[0]
		s.works = s.works[1:]
		if err := do(); err != nil {
			w.fail("%s cannot record %s: %v", s.p.boot, s.job.ID, err)
			return
		}
		if before && !s.p.exec.crowded() {
			s.p.exec.wake()
		}
		if s.recorder.complete() {
			data, err := s.recorder.result()
			if err != nil {
				w.fail("%s cannot make the results of %s: %v", s.p.boot, s.job.ID, err)
				return
			}
			s.p.put(item{input: control.Recording{Epoch: s.job.Epoch, Result: data}})
			return
		}
		if s.writing = len(s.works) > 0; s.writing {
			s.writeNext()
		}
	})
}

// recorder is what the recording member does besides.
type recorder struct {
	w        *world
	share    *share
	merger   *node.Merger
	assembly *node.Assembly
	tape     *tape
	frames   []uint64
	ended    []bool
	given    []bool
	at       sim.Time
	how      control.Ending
	// saving is the checkpoint that waits for all before its time, later are floors beyond it.
	saving *saving
	// told is the latest floor.
	told  sim.Time
	later []*control.Floor
	// resumed says that it is known how much was recorded before the epoch.
	resumed bool
}

func newRecorder(w *world, s *share) (*recorder, error) {
	ref, err := w.references.of(s.spec.program, s.spec.trace)
	if err != nil {
		return nil, err
	}
	n := len(s.job.Members)
	r := &recorder{w: w, share: s, tape: &tape{w: w, ref: ref}, frames: make([]uint64, n), ended: make([]bool, n), given: make([]bool, n)}
	r.merger, r.assembly = node.NewMerger(s.prog, n, r.tape), node.NewAssembly(s.prog, n)
	return r, nil
}

func (r *recorder) take(from int, n uint64, data []byte) error {
	r.frames[from] = n
	return r.merger.Take(from, n, data)
}

func (r *recorder) end(at sim.Time, how control.Ending) { r.at, r.how = at, how }

func (r *recorder) final(from int, data []byte, last bool) error {
	r.ended[from] = r.ended[from] || last
	if len(data) == 0 && !r.given[from] {
		return nil
	}
	r.given[from] = true
	_, err := r.assembly.Take(from, data, last)
	return err
}

func (r *recorder) complete() bool { return r.how != 0 && !slices.Contains(r.ended, false) }

// outcome is what a job leaves in the log.
type outcome struct {
	Digest   uint64         `json:"digest"`
	Events   uint64         `json:"events"`
	Entities int            `json:"entities"`
	Results  string         `json:"results"`
	Seen     int            `json:"seen"`
	End      sim.Time       `json:"end"`
	How      control.Ending `json:"how"`
}

// result puts the outcome of the job together.
func (r *recorder) result() ([]byte, error) {
	if err := r.merger.Floor(r.at, r.frames); err != nil {
		return nil, err
	}
	o := &outcome{Seen: r.tape.n, End: r.at, How: r.how}
	if r.how == control.EndFailed {
		return json.Marshal(o)
	}
	out, err := r.assembly.Outcome(r.at, r.how)
	if err != nil {
		return nil, err
	}
	o.Digest, o.Events, o.Entities = out.Digest, out.Events, out.Entities
	if o.Results, err = resultsOf(r.share.prog, out); err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// tape compares observations with the reference as they come.
type tape struct {
	w   *world
	ref *reference
	n   int
}

// Observe implements sim.Sink.
func (t *tape) Observe(obs []sim.Observation) error {
	for i := range obs {
		o := observed(&obs[i])
		if t.n >= len(t.ref.obs) {
			t.w.fail("observation %d at %v, where the undisturbed run has %d", t.n, o.at, len(t.ref.obs))
			return nil
		}
		if want := t.ref.obs[t.n]; o != want {
			t.w.fail("observation %d: %+v (hash %016x), where the undisturbed run has one at %v (hash %016x)", t.n, obs[i], o.hash, want.at, want.hash)
			return nil
		}
		t.n++
	}
	return nil
}
