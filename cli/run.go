package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/summary"
)

// runFlags are the flags of the run command as they were given.
type runFlags struct {
	file             string
	regions, workers count
	nodes            count
	seed, end        string
	set              []string
	dir              string
	record           *word
	format           *word
	quiet            bool
	profile          string
	// data is the folder of a run with checkpoints, fresh whether one that is there may be removed.
	data   string
	fresh  bool
	saving savingText
}

func (e *env) runCommand() *cobra.Command {
	f := &runFlags{regions: count{most: node.MaxRegions}, workers: count{most: node.MaxRegions}, nodes: count{most: mostChildren},
		format: newWord("FORMAT", "text", "json"), record: &word{allowed: record.Levels(), name: "LEVEL"}}
	cmd := &cobra.Command{
		Use:   "run FILE [flags]",
		Short: "Run a scenario",
		Long: `Runs the scenario in FILE: shows progress, prints a summary and leaves the results in a folder.

With --nodes so many processes on this machine form a cluster for the run and end with it.

Neither --nodes nor --regions nor --workers changes a result. Ctrl-C ends the run cleanly with what was recorded so
far; a second Ctrl-C ends it at once.

With --data the run takes checkpoints, from which it can go on after anything that may happen to it: see resume.
Ctrl-C and SIGTERM then end it with a last checkpoint, and exit code 75.

Exit codes: 0 done, 1 the run failed, 2 bad usage or scenario, 75 stopped with a checkpoint, 130 interrupted.`,
		Args:              oneFile,
		ValidArgsFunction: scenarioFiles,
		RunE: e.begin(func(cmd *cobra.Command, args []string) error {
			f.file = args[0]
			for _, name := range []string{"seed", "end", "out", "data"} {
				if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
					return usagef("--%s is given without a value: give one or leave the flag out", name)
				}
			}
			if err := f.checkSaving(cmd.Flags()); err != nil {
				return err
			}
			switch {
			case f.nodes.n > 0:
				return e.runNodes(cmd.Context(), f)
			case f.data != "":
				return e.runSaved(cmd.Context(), f, cmd.Flags())
			}
			return e.run(cmd.Context(), f)
		}),
	}
	flags := cmd.Flags()
	flags.Var(&f.regions, "regions", "into how many regions space is cut (default: two a worker, or 1 with one worker or if the model's lookahead is 0)")
	flags.Var(&f.workers, "workers", "how many regions are worked on at once (default: the number of processors, at most one a region)")
	flags.Var(&f.nodes, "nodes", "run in so many processes, which share the workers")
	flags.StringVar(&f.seed, "seed", "", "seed `S` of all random numbers, instead of the scenario's")
	flags.StringVar(&f.end, "end", "", "end `T` of the run, such as \"6 h\", instead of the scenario's")
	flags.StringArrayVar(&f.set, "set", nil, "override a value of the scenario: `path=value`, such as params.radars=10; may be repeated, later ones win")
	flags.StringVar(&f.dir, "out", "", "folder `DIR` for the results, made if missing; files of an earlier run are replaced, others are left alone (default out/NAME for NAME.yaml)")
	flags.VarP(f.format, "output", "o", "format of the summary: text or json")
	flags.BoolVar(&f.quiet, "no-progress", false, "show no progress")
	flags.Var(f.record, "record", "how much is recorded, instead of the scenario's: "+strings.Join(record.Levels(), ", "))
	flags.StringVar(&f.profile, "cpuprofile", "", "write a CPU profile of the run to `FILE`, for go tool pprof")
	flags.StringVar(&f.data, "data", "", "folder `DIR` of the run, made if missing, for checkpoints and all that resume needs")
	flags.BoolVar(&f.fresh, "fresh", false, "with --data: remove the run that is in the folder and begin anew")
	f.saving.add(flags)
	for name, complete := range map[string]cobra.CompletionFunc{"output": f.format.complete, "record": f.record.complete} {
		if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
			panic(err) // the flag is missing above
		}
	}
	return cmd
}

// run is the run command: validate, open, run, close, tell.
func (e *env) run(ctx context.Context, f *runFlags) error {
	job, err := e.validate(ctx, f)
	if err != nil {
		return err
	}
	return errors.Join(job.whole(ctx), job.unlock())
}

// whole is the run from the opening of its files to its summary.
func (j *job) whole(ctx context.Context) error {
	if err := j.open(); err != nil {
		return err
	}
	defer j.announceStop(ctx)()
	runErr := j.run(ctx)
	if errors.Is(runErr, errEarly) {
		return errors.Join(runErr, j.recorder.Discard(), j.closeProfile())
	}
	if err := errors.Join(runErr, j.close()); err != nil {
		return err
	}
	return j.tell()
}

// announceStop says at once that an interrupt was noticed, since a handler may take long to return.
// The function that it returns ends the watch.
func (j *job) announceStop(ctx context.Context) func() {
	said := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(said)
		j.progress.say("stopping; once more to end at once")
	})
	return func() {
		if !stop() {
			<-said
		}
	}
}

// job is one run, wired up.
type job struct {
	env      *env
	flags    *runFlags
	scenario *scenario.Scenario
	program  *sim.Program
	options  node.Options
	dir      string
	level    record.Level

	recorder *record.Recorder
	profile  *os.File
	progress *progress
	held     *flock.Flock

	// saved says that the run takes checkpoints; recording is the state of the recording that it goes on with.
	saved     bool
	recording []byte
	// before is for how long the run had gone on where it goes on, from the simulated time there.
	before time.Duration
	from   sim.Time

	wall    time.Duration
	outcome *node.Outcome
}

// validate checks everything that can be checked before anything is written or run.
func (e *env) validate(ctx context.Context, f *runFlags) (*job, error) {
	s, err := e.load(ctx, f.file, scenario.Options{Models: e.models, Set: f.set, Seed: f.seed, End: f.end})
	if err != nil {
		return nil, err
	}
	return e.jobOf(f, s)
}

// jobOf is a run of a scenario in one process, checked.
func (e *env) jobOf(f *runFlags, s *scenario.Scenario) (*job, error) {
	j, err := e.newJob(f, s)
	if err != nil {
		return nil, err
	}
	j.options.Regions, j.options.Workers = regionsAndWorkers(f, s.Program.Limits.Lookahead)
	if err := s.CheckRun(j.options.Regions, j.options.Workers); err != nil {
		return nil, usageError{err}
	}
	if err := node.Check(s.Program, j.options); err != nil {
		return nil, usageError{err}
	}
	return j, nil
}

// newJob is a run of a scenario, with its folder and level of recording.
func (e *env) newJob(f *runFlags, s *scenario.Scenario) (j *job, err error) {
	j = &job{env: e, flags: f, scenario: s, program: s.Program, dir: f.dir, progress: newProgress(e.stderr, f.quiet)}
	if f.record.text != "" {
		s.Record.Level = f.record.text
	}
	if j.level, err = record.ParseLevel(s.Record.Level); err != nil {
		return nil, usageError{err}
	}
	if j.dir == "" {
		j.dir = filepath.Join("out", scenarioName(f.file))
	}
	return j, nil
}

// load is scenario.Load, which it leaves to itself when ctx is done.
func (e *env) load(ctx context.Context, file string, o scenario.Options) (*scenario.Scenario, error) {
	return inBackground(ctx, file, func() (*scenario.Scenario, error) { return scenario.Load(file, o) })
}

// inBackground sets a model up by setUp, which it leaves to itself when ctx is done: a model's setup may take
// any time, and nobody else waits for it.
func inBackground[T any](ctx context.Context, file string, setUp func() (T, error)) (T, error) {
	type made struct {
		value T
		err   error
	}
	var none T
	done := make(chan made, 1)
	go func() {
		defer close(done)
		v, err := setUp()
		done <- made{v, err}
	}()
	select {
	case <-ctx.Done():
		return none, errEarly
	case m, ok := <-done:
		switch {
		case ctx.Err() != nil:
			return none, errEarly
		case !ok:
			return none, usagef("%s: the model's setup has ended its goroutine (runtime.Goexit): this is a fault of the model's code", file)
		}
		return m.value, m.err
	}
}

// regionsAndWorkers fills in the defaults.
func regionsAndWorkers(f *runFlags, lookahead sim.Duration) (regions, workers int) {
	regions, workers = f.regions.n, f.workers.n
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	switch {
	case regions > 0:
	case lookahead == 0 || workers == 1:
		regions = 1
	default:
		// Twice, so that a worker has another region to go on with where one must wait.
		regions = min(2*workers, node.MaxRegions)
	}
	return regions, min(workers, regions)
}

// scenarioName is the name of a scenario file without folder and ending.
func scenarioName(file string) string {
	name := filepath.Base(file)
	if trimmed := strings.TrimSuffix(name, filepath.Ext(name)); trimmed != "" {
		return trimmed
	}
	return name
}

// open makes the output folder and opens the files; what fails here leaves nothing half done.
func (j *job) open() (err error) {
	r := j.scenario.Record
	o := record.Options{Level: j.level, Dir: j.dir, Resumable: j.saved, Rebin: j.saved}
	for _, format := range r.Formats {
		o.CSV = o.CSV || format == "csv"
		o.Parquet = o.Parquet || format == "parquet"
	}
	if name := j.flags.profile; name != "" {
		// Emptied when the run begins: it may be that of another run in this folder.
		if j.profile, err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o666); err != nil {
			return usagef("--cpuprofile: %w", err)
		}
	}
	if j.level >= record.Summary || j.hasOld() {
		if err := j.lock(); err != nil {
			return errors.Join(err, j.closeProfile())
		}
	}
	if j.recording != nil {
		j.recorder, err = record.Resume(j.program, o, j.recording)
	} else {
		j.recorder, err = record.New(j.program, o)
	}
	if err != nil {
		return errors.Join(err, j.closeProfile())
	}
	if err := removeRun(j.dir); err != nil {
		return errors.Join(err, j.abandon(), j.closeProfile())
	}
	j.options.Trace = j.level == record.Raw
	if j.options.Trace || len(j.program.Series) > 0 {
		j.options.Sink = j.recorder
	}
	if j.level >= record.Summary && r.Report {
		j.options.Bins = summary.PageBins
	}
	if !j.flags.quiet {
		j.options.Progress = j.progress.show
	}
	return nil
}

// abandon ends a recording to which nothing was added.
func (j *job) abandon() error {
	if j.recording != nil {
		return j.recorder.Close()
	}
	return j.recorder.Finish(0)
}

// hasOld tells whether a run has ended in the folder.
func (j *job) hasOld() bool {
	info, err := os.Stat(filepath.Join(j.dir, summary.File))
	return err == nil && info.Mode().IsRegular()
}

// run runs the simulation.
func (j *job) run(ctx context.Context) error {
	if j.profile != nil {
		if err := errors.Join(truncate(j.profile), pprof.StartCPUProfile(j.profile)); err != nil {
			return fmt.Errorf("--cpuprofile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	start := time.Now()
	out, err := node.Run(ctx, j.program, j.options)
	j.wall = j.before + time.Since(start)
	j.outcome = out
	if out == nil && err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return errEarly
	}
	return err
}

// close ends what open began, in the opposite order.
func (j *job) close() error {
	j.progress.close()
	reached := sim.Time(0)
	if j.outcome != nil {
		reached = j.outcome.End
	}
	return errors.Join(j.recorder.Finish(reached), j.closeProfile())
}

// truncate empties a file; a device such as /dev/null has nothing to empty.
func truncate(f *os.File) error {
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return f.Truncate(0)
}

func (j *job) closeProfile() error {
	if j.profile == nil {
		return nil
	}
	return j.profile.Close()
}

// summarise makes the model's results, and writes the page and the summary.
func (j *job) summarise() (*summary.Summary, error) {
	return summary.Run{
		Scenario: j.scenario, Name: j.flags.file, Dir: j.dir, Level: j.level, Regions: j.options.Regions,
		Workers: j.options.Workers, Recorder: j.recorder, Outcome: j.outcome, Wall: j.wall, From: j.from,
	}.Write()
}

// tell completes the folder and prints the summary.
func (j *job) tell() error {
	s, err := j.summarise()
	if err != nil {
		return err
	}
	if err := s.Print(j.env.stdout, j.flags.format.text); err != nil {
		return err
	}
	if s.Interrupted {
		return errInterrupted
	}
	return nil
}
