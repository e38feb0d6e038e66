package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/control"
)

func (e *env) stopCommand() *cobra.Command {
	return e.moveCommand("stop", control.Stopping, "End a job of a cluster early",
		`Asks a job to end at the simulated time that it has reached. What was recorded so far is completed, and the
summary says that it was interrupted. A job that waits is dropped.`)
}

func (e *env) pauseCommand() *cobra.Command {
	return e.moveCommand("pause", control.Paused, "Let a job of a cluster pause",
		`Lets a running job pause where it is, without any effect on its result. See resume.`)
}

// moveCommand is a command that asks for another phase of a job.
func (e *env) moveCommand(name string, to control.Phase, what, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " [JOB] [flags]",
		Short: what,
		Long:  long + " JOB may be left out if only one has not ended.\n\n" + clientCodes,
		Args:  oneJob,
	}
	return e.clientCommand(cmd, func(ctx context.Context, c *api.Client, f *clientFlags, args []string) error {
		job, err := pickLive(ctx, c, args)
		if err != nil {
			return err
		}
		if err := c.Move(ctx, job, to); err != nil {
			return err
		}
		if f.format.text == "json" {
			return e.printJSON(struct {
				Job   string        `json:"job"`
				Asked control.Phase `json:"asked"`
			}{job, to})
		}
		_, err = fmt.Fprintf(e.stdout, "%s is asked to %s\n", visible(job), name)
		return err
	})
}
