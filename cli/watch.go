package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/summary"
)

// watchCodes are the exit codes of commands that wait for the end of a job: those of run, and 3.
const watchCodes = "Exit codes: 0 done, 1 the job failed, 2 bad usage, 3 no node can be reached, 130 interrupted."

func (e *env) watchCommand() *cobra.Command {
	quiet := false
	cmd := &cobra.Command{
		Use:   "watch [JOB] [flags]",
		Short: "Follow a job of a cluster to its end",
		Long: `Shows the progress of a job as run does and, at its end, the summary. Ctrl-C ends the watch and not the job.
JOB may be left out if only one has not ended, or if all have: then it is the last.

` + watchCodes,
		Args: oneJob,
	}
	cmd.Flags().BoolVar(&quiet, "no-progress", false, "show no progress")
	return e.clientCommand(cmd, func(ctx context.Context, c *api.Client, f *clientFlags, args []string) error {
		job, err := pickAny(ctx, c, args)
		if err != nil {
			return err
		}
		return e.watch(ctx, c, job, f.format.text, newProgress(e.stderr, quiet), quiet)
	})
}

// watch follows a job to its end and prints its summary. An interrupt ends the watch alone.
func (e *env) watch(ctx context.Context, c *api.Client, job, format string, p *progress, quiet bool) error {
	last, err := follow(ctx, c, job, p, quiet, false)
	if err != nil {
		if ctx.Err() != nil {
			p.say(fmt.Sprintf("%s goes on: simnode watch %s follows it, simnode stop %s ends it", job, job, job))
			return errInterrupted
		}
		return err
	}
	if last.Phase == control.Failed {
		return errors.New(visible(last.Reason))
	}
	s, _, err := fetchSummary(ctx, c, job)
	if err != nil {
		return err
	}
	if err := s.Print(e.stdout, format); err != nil {
		return err
	}
	if s.Interrupted {
		return errInterrupted
	}
	return nil
}

// follow shows the progress of a job until it has ended, and returns its last. alone says that nobody else
// knows of the job, so that its phases are no news.
func follow(ctx context.Context, c *api.Client, job string, p *progress, quiet, alone bool) (api.Progress, error) {
	var last api.Progress
	err := c.Watch(ctx, job, func(now api.Progress) error {
		changed := now.Phase != last.Phase || now.Reason != last.Reason
		last = now
		switch {
		case quiet:
		case !alone && changed && !now.Phase.Ended() && now.Phase != control.Running:
			p.say(phaseText(job, now))
		case changed && now.Phase == control.Running && now.Reason != "" && (!alone || strings.HasPrefix(now.Reason, "nothing heard")):
			p.say(visible(now.Reason))
		case now.Phase == control.Running && now.End > 0 && now.Wall > 0:
			p.showAfter(node.Progress{Now: now.Now, End: now.End, Events: now.Events}, now.Wall)
		}
		return nil
	})
	p.close()
	return last, err
}

// phaseText says where a job is in its life.
func phaseText(job string, p api.Progress) string {
	line := fmt.Sprintf("%s is %s", job, p.Phase)
	if p.Reason != "" {
		line += ": " + p.Reason
	}
	return visible(line)
}

// fetchSummary fetches the summary of a job and the list of its files.
func fetchSummary(ctx context.Context, c *api.Client, job string) (*summary.Summary, []api.File, error) {
	results, err := c.Results(ctx, job)
	if err != nil {
		return nil, nil, err
	}
	s, err := summary.Parse(results.Summary)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", job, err)
	}
	if _, jobs, err := c.Status(ctx, job); err == nil && len(jobs) == 1 && jobs[0].Progress != nil {
		s.Planned = jobs[0].Progress.End
	}
	return s, results.Files, nil
}

// writeWhole writes a file under another name until it is complete.
func writeWhole(path string, write func(*os.File) error) error {
	partial := path + ".partial"
	file, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return os.Rename(partial, path)
}
