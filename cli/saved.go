package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/summary"
)

// checkSaving refuses flags of checkpoints without a folder for them.
func (f *runFlags) checkSaving(flags *pflag.FlagSet) error {
	if f.data != "" && f.nodes.n > 0 {
		return usagef("--data is of one process and cannot be used with --nodes")
	}
	if f.data != "" {
		return nil
	}
	for _, name := range append(savingNames(), "fresh") {
		if flags.Changed(name) {
			return usagef("--%s needs --data, the folder for checkpoints", name)
		}
	}
	return nil
}

// savedRun is a run that takes checkpoints.
type savedRun struct {
	*job
	folder *runDir
	store  *checkpoint.Store
	saver  *saver
	// start is the checkpoint that it goes on from; nil is the beginning.
	start *checkpoint.Manifest
	// moved is the folder from which the files of the recording are to be copied; empty if they are in place.
	moved string
	// change, if not nil, writes down what a resume has changed, when all is known to be sound.
	change func() error
}

// runEnd is what is kept of a run that has ended.
type runEnd struct {
	// At is the simulated time of the end.
	At sim.Time `json:"at"`
	// Summary is its JSON, as it was printed.
	Summary string `json:"summary"`
}

// runSaved is the run command with --data.
func (e *env) runSaved(ctx context.Context, f *runFlags, flags *pflag.FlagSet) error {
	saving, err := f.saving.over(flags, defaultSaving())
	if err != nil {
		return err
	}
	if saving.Archive, err = absolute(saving.Archive); err != nil {
		return err
	}
	j, bundle, err := e.validatePacked(ctx, f)
	if err != nil {
		return err
	}
	folder, err := newRunDir(f.data, f.fresh)
	if err != nil {
		return err
	}
	r := &savedRun{job: j, folder: folder}
	return r.ended(r.fresh(ctx, saving, bundle))
}

func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

// ended lets go of the folders. When the run itself was left behind the process ends with it.
func (r *savedRun) ended(err error) error {
	if errors.Is(err, errLeft) {
		return errStopped
	}
	if r.saver != nil && r.saver.archive != nil {
		err = joined(err, r.saver.archive.close())
	}
	if r.store != nil {
		err = joined(err, r.store.Close())
	}
	return joined(err, joined(r.unlock(), r.folder.release()))
}

// validatePacked is validate, and packs the scenario.
func (e *env) validatePacked(ctx context.Context, f *runFlags) (*job, []byte, error) {
	bundle, err := inBackground(ctx, f.file, func() (*scenario.Bundle, error) {
		return scenario.Pack(f.file, scenario.Options{Models: e.models, Set: f.set, Seed: f.seed, End: f.end})
	})
	if err != nil {
		return nil, nil, err
	}
	j, err := e.jobOf(f, bundle.Scenario)
	if err != nil {
		return nil, nil, err
	}
	return j, bundle.Data, nil
}

// fresh begins a run.
func (r *savedRun) fresh(ctx context.Context, saving savingFlags, bundle []byte) error {
	out, err := filepath.Abs(r.dir)
	if err != nil {
		return err
	}
	f := r.flags
	err = r.folder.begin(settings{
		Name: f.file, Model: r.program.Model.Name, ModelVersion: r.program.Model.Version,
		Hash: hex.EncodeToString(r.scenario.Hash[:]), Arch: runtime.GOARCH,
		Seed: f.seed, End: f.end, Set: f.set, Record: f.record.text, Out: out,
		Regions: f.regions.n, Workers: f.workers.n, Saving: saving,
	}, bundle)
	if err != nil {
		return err
	}
	if r.store, err = r.folder.store(false); err != nil {
		return err
	}
	return r.play(ctx)
}

// play is the run from the opening of its files to its summary.
func (r *savedRun) play(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return usageError{err} // nothing has run
	}
	defer r.announceStop(ctx)()
	runErr := r.runWithin(ctx, r.folder.settings.Saving.Grace)
	if errors.Is(runErr, errLeft) {
		r.progress.close()
		r.tellStop(fmt.Sprintf("stopped; the last checkpoint was not written within %v", r.folder.settings.Saving.Grace))
		return runErr
	}
	var unsaved saveError
	switch {
	case errors.Is(runErr, errEarly):
		r.progress.close()
		err := r.giveUp()
		r.tellStop("stopped before the first event")
		return joined(errStopped, err)
	case errors.As(runErr, &unsaved):
		return r.stop(fmt.Sprintf("stopped at %v; no last checkpoint was written: %v", r.outcome.End, unsaved.error))
	case runErr != nil:
		return errors.Join(runErr, r.close())
	case r.outcome.Interrupted:
		return r.stop("")
	}
	return r.finish()
}

// prepare opens the files and says how the run is to be done.
func (r *savedRun) prepare(ctx context.Context) (err error) {
	r.saved = true
	if r.start != nil {
		if err := r.goOn(); err != nil {
			return err
		}
	}
	if err := r.open(); err != nil {
		return err
	}
	s := &r.folder.settings
	began := time.Now()
	r.saver = &saver{
		store: r.store, settings: s, model: modelName(r.program), end: r.program.End, level: r.level, seed: r.program.Seed,
		recorder: r.recorder, schedule: newSchedule(s.Saving, time.Now), say: r.progress.say,
		stopping: func() bool { return ctx.Err() != nil },
		wall:     func() time.Duration { return r.before + time.Since(began) },
		newest:   r.start,
	}
	if r.start != nil {
		r.saver.parent = r.start.Number
	}
	r.progress.start = r.progress.start.Add(-r.before)
	if r.change != nil {
		if err := r.change(); err != nil {
			return errors.Join(err, r.giveUp())
		}
	}
	r.options.Checkpoints = r.saver.checkpoints()
	if s.Saving.Archive != "" {
		if r.saver.archive, err = openArchive(s.Saving.Archive, r.folder, r.store.Next(), r.dir); err != nil {
			return errors.Join(err, r.giveUp())
		}
	}
	return nil
}

// giveUp ends a run that was refused when its files were open already.
func (r *savedRun) giveUp() error {
	if r.start != nil {
		return errors.Join(r.recorder.Close(), r.closeProfile())
	}
	return errors.Join(r.recorder.Discard(), r.closeProfile())
}

func modelName(p *sim.Program) string { return fmt.Sprintf("%s %d", p.Model.Name, p.Model.Version) }

// goOn takes from the checkpoint what the run goes on with.
func (r *savedRun) goOn() (err error) {
	meta, err := metaOf(r.start)
	if err != nil {
		return err
	}
	r.before, r.from = meta.Wall, r.start.At
	if r.recording, err = readRecording(r.store, r.start.Number); err != nil {
		return err
	}
	if r.moved != "" {
		if err := r.lock(); err != nil {
			return err
		}
		if err := copyRecording(r.moved, r.dir, r.recording); err != nil {
			return err
		}
	}
	r.options.Restore, err = restoreFrom(r.store, r.start)
	return err
}

// errLeft says that a run was left behind that did not end in time.
var errLeft = errors.New("the run did not end within its grace")

// runWithin runs the simulation, which it leaves to itself when it has not ended in time after an interrupt.
func (j *job) runWithin(ctx context.Context, grace time.Duration) error {
	type ending struct {
		out  *node.Outcome
		wall time.Duration
		err  error
	}
	apart := *j // what it sets is not looked at if it is left behind
	done := make(chan ending, 1)
	go func() {
		err := apart.run(ctx)
		done <- ending{apart.outcome, apart.wall, err}
	}()
	asked := ctx.Done()
	var expired <-chan time.Time
	for {
		select {
		case end := <-done:
			j.outcome, j.wall = end.out, end.wall
			return end.err
		case <-asked:
			timer := time.NewTimer(grace)
			defer timer.Stop()
			asked, expired = nil, timer.C
		case <-expired:
			return errLeft
		}
	}
}

// stop ends a run that can be resumed; what says how it stopped if not with a last checkpoint.
func (r *savedRun) stop(what string) error {
	r.progress.close()
	err := errors.Join(r.recorder.Close(), r.closeProfile())
	r.tellStop(what)
	return joined(errStopped, err)
}

// tellStop says how to go on.
func (r *savedRun) tellStop(what string) {
	newest := r.saver.kept()
	switch {
	case newest == nil:
		what += "; there is no checkpoint yet, and the run begins anew"
	case what == "":
		what = fmt.Sprintf("stopped at %v, checkpoint %d", newest.At, newest.Number)
	default:
		what += fmt.Sprintf("; the newest checkpoint is %d at %v", newest.Number, newest.At)
	}
	r.progress.say(fmt.Sprintf("%s; go on with: %s resume %s", what, r.env.program, shown(r.folder.dir)))
}

// kept returns the newest checkpoint.
func (s *saver) kept() *checkpoint.Manifest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// finish completes the files of a run that has ended, and takes down its end.
func (r *savedRun) finish() error {
	if err := r.close(); err != nil {
		return err
	}
	s, err := r.summarise()
	if err != nil {
		return err
	}
	data, err := s.JSON()
	if err != nil {
		return err
	}
	if err := removeTrials(r.dir); err != nil {
		return err
	}
	if err := r.folder.write(endFile, runEnd{At: r.outcome.End, Summary: string(data)}); err != nil {
		return err
	}
	if r.level >= record.Summary {
		if err := record.Release(r.dir); err != nil {
			return err
		}
	}
	return s.Print(r.env.stdout, r.flags.format.text)
}

// removeTrials removes the files that a process which was killed may have left when it tried whether the folder can be
// written to.
func removeTrials(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // level off has no folder
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".probe-") && strings.HasSuffix(e.Name(), partialEnd) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// tellEnd tells the end of a run that has ended before.
func (e *env) tellEnd(d *runDir, format string) error {
	var end runEnd
	if err := d.read(endFile, &end); err != nil {
		return err
	}
	s, err := summary.Parse([]byte(end.Summary))
	if err != nil {
		return folderf(d.dir, "file %s: %v", endFile, err)
	}
	if err := record.Release(d.out()); err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "%s: the run in %s has ended at %v; its results are in %s\n", e.program, d.dir, end.At, d.out())
	return s.Print(e.stdout, format)
}
