package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/summary"
)

// runNodes is the run command with --nodes: node processes on this machine form a cluster on loopback, carry
// the run out as a job, and end with it.
func (e *env) runNodes(ctx context.Context, f *runFlags) error {
	if f.profile != "" {
		return usagef("--cpuprofile is of one process and cannot be used with --nodes")
	}
	j, bundle, err := e.validateNodes(ctx, f)
	if err != nil {
		return err
	}
	return joined(j.wholeNodes(ctx, bundle), j.unlock())
}

// validateNodes checks everything that can be checked before anything is written or run.
func (e *env) validateNodes(ctx context.Context, f *runFlags) (*job, []byte, error) {
	bundle, err := inBackground(ctx, f.file, func() (*scenario.Bundle, error) {
		return scenario.Pack(f.file, scenario.Options{Models: e.models, Set: f.set, Seed: f.seed, End: f.end})
	})
	if err != nil {
		return nil, nil, err
	}
	j, err := e.newJob(f, bundle.Scenario)
	if err != nil {
		return nil, nil, err
	}
	if err := bundle.Scenario.CheckRun(max(f.regions.n, 1), max(f.workers.n, 1)); err != nil {
		return nil, nil, usageError{err}
	}
	if err := node.Check(j.program, node.Options{Regions: f.regions.n}); err != nil {
		return nil, nil, usageError{err}
	}
	return j, bundle.Data, nil
}

// wholeNodes is the run from the locking of its folder to its summary.
func (j *job) wholeNodes(ctx context.Context, bundle []byte) (err error) {
	end := j.program.End
	j.program, j.scenario.Program = nil, nil // The nodes set the scenario up; here it needs no memory.
	temporary := ""
	if j.level >= record.Summary || j.hasOld() {
		if err := j.lock(); err != nil {
			return err
		}
		if err := removeRun(j.dir); err != nil {
			return err
		}
		temporary = j.dir
	}
	pack, err := j.startPack(ctx, temporary)
	defer func() { err = joined(err, pack.end()) }()
	if err != nil {
		return j.early(ctx, err)
	}
	client, err := pack.client()
	if err != nil {
		return err
	}
	defer client.Close()
	name := j.flags.file
	if len(name) > 200 {
		name = scenarioName(name)
	}
	id, err := client.Submit(ctx, api.Submission{Name: name, Bundle: bundle, Spec: j.spec()})
	if err != nil {
		return j.early(ctx, err)
	}
	last, err := j.followNodes(ctx, client, pack, id)
	if err != nil {
		return err
	}
	return j.tellNodes(client, id, last, end)
}

// early tells an interrupt before the run from other errors.
func (j *job) early(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errEarly
	}
	return err
}

func (j *job) spec() control.Spec {
	f := j.flags
	return control.Spec{Seed: f.seed, End: f.end, Set: f.set, Record: f.record.text, Regions: f.regions.n, Nodes: f.nodes.n, Workers: j.workersEach()}
}

// workersEach is how many regions each node works on at once: together as many as were asked for, at least
// one each.
func (j *job) workersEach() int {
	all := j.flags.workers.n
	if all == 0 {
		all = runtime.GOMAXPROCS(0)
	}
	return max((all+j.flags.nodes.n-1)/j.flags.nodes.n, 1)
}

// followNodes shows progress until the job has ended. When ctx is done the job is stopped, at one time
// everywhere; when a node process ends, all is given up.
func (j *job) followNodes(ctx context.Context, c *api.Client, p *pack, id string) (api.Progress, error) {
	defer j.announceStop(ctx)()
	watch, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		if err := c.Move(watch, id, control.Stopping); err != nil && watch.Err() == nil {
			cancel(fmt.Errorf("the run could not be stopped: %w", err))
		}
	})
	defer stop()
	go p.watch(watch, cancel)
	last, err := follow(watch, c, id, j.progress, j.flags.quiet, true)
	if cause := context.Cause(watch); err != nil && cause != nil {
		err = cause
	}
	return last, err
}

// tellNodes fetches the results and prints the summary.
func (j *job) tellNodes(c *api.Client, id string, last api.Progress, planned sim.Time) error {
	ctx := context.Background()
	results, err := c.Results(ctx, id)
	if last.Phase == control.Failed {
		if err != nil {
			results.Files = nil // It failed before there was anything to keep.
		}
		return joined(errors.New(visible(last.Reason)), j.fetchRest(ctx, c, id, results.Files))
	}
	var none *api.Error
	if errors.As(err, &none) && none.Kind == api.NotFound {
		return errEarly // It was stopped before it began.
	}
	if err != nil {
		return err
	}
	s, err := summary.Parse(results.Summary)
	if err != nil {
		return err
	}
	s.Scenario, s.Planned = j.flags.file, planned
	if j.level >= record.Summary {
		if err := fetchInto(ctx, c, id, s, results.Files, j.dir); err != nil {
			return err
		}
	}
	if err := s.Print(j.env.stdout, j.flags.format.text); err != nil {
		return err
	}
	if s.Interrupted {
		return errInterrupted
	}
	return nil
}

// fetchRest fetches what a run that failed has recorded.
func (j *job) fetchRest(ctx context.Context, c *api.Client, id string, files []api.File) error {
	if j.level < record.Summary || len(files) == 0 {
		return nil
	}
	return fetchInto(ctx, c, id, &summary.Summary{}, files, j.dir)
}
