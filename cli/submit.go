package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
)

// submitFlags are the flags of the submit command as they were given.
type submitFlags struct {
	file                    string
	name, seed, end         string
	set                     []string
	record                  *word
	regions, nodes, workers count
	watch, quiet            bool
	saves                   jobSaves
	checkpoints             control.Checkpoints
}

func (e *env) submitCommand() *cobra.Command {
	f := &submitFlags{regions: count{most: node.MaxRegions}, nodes: count{most: node.MaxRegions}, workers: count{most: node.MaxRegions},
		record: &word{allowed: record.Levels(), name: "LEVEL"}}
	cmd := &cobra.Command{
		Use:   "submit FILE [flags]",
		Short: "Hand a scenario in to a cluster",
		Long: `Checks the scenario in FILE as run does, packs it with all the files that it reads, hands it in to a cluster
and prints the id of the job. With --watch it then follows the job as watch does; Ctrl-C ends the watch and
not the job.

No number of nodes, regions or workers changes a result, and no checkpoint does. A job that loses nodes goes
on from its last checkpoint with those that are left, or from the beginning if there is none.

` + strings.Replace(watchCodes, "bad usage", "bad usage or scenario", 1),
		Args:              oneFile,
		ValidArgsFunction: scenarioFiles,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "`NAME` of the job, for people (default: that of FILE)")
	flags.StringVar(&f.seed, "seed", "", "seed `S` of all random numbers, instead of the scenario's")
	flags.StringVar(&f.end, "end", "", "end `T` of the run, such as \"6 h\", instead of the scenario's")
	flags.StringArrayVar(&f.set, "set", nil, "override a value of the scenario: `path=value`, such as params.radars=10; may be repeated, later ones win")
	flags.Var(f.record, "record", "how much is recorded, instead of the scenario's: "+strings.Join(record.Levels(), ", "))
	flags.Var(&f.regions, "regions", "into how many regions space is cut (default: two a worker, or 1 if the model's lookahead is 0)")
	flags.Var(&f.nodes, "nodes", "how many working nodes to wait for (default: the expected size of the cluster)")
	flags.Var(&f.workers, "workers", "how many regions each node works on at once (default: its processors)")
	f.saves.add(flags)
	flags.BoolVar(&f.watch, "watch", false, "follow the job to its end, and print its summary instead of its id")
	flags.BoolVar(&f.quiet, "no-progress", false, "show no progress with --watch")
	if err := cmd.RegisterFlagCompletionFunc("record", f.record.complete); err != nil {
		panic(err) // the flag is missing above
	}
	return e.clientCommand(cmd, func(ctx context.Context, c *api.Client, cf *clientFlags, args []string) error {
		f.file = args[0]
		for _, name := range []string{"name", "seed", "end"} {
			if flag := flags.Lookup(name); flag.Changed && flag.Value.String() == "" {
				return usagef("--%s is given without a value: give one or leave the flag out", name)
			}
		}
		var err error
		if f.checkpoints, err = f.saves.spec(flags); err != nil {
			return err
		}
		return e.submit(ctx, c, f, cf.format.text)
	})
}

// submit is the submit command: check, pack, hand in, and follow if asked.
func (e *env) submit(ctx context.Context, c *api.Client, f *submitFlags, format string) error {
	bundle, err := e.pack(ctx, f)
	if err != nil {
		return err
	}
	name := f.name
	if name == "" {
		name = scenarioName(f.file)
	}
	stop := e.explainWait(ctx, c)
	job, err := c.Submit(ctx, api.Submission{Name: name, Bundle: bundle.Data, Spec: f.spec()})
	stop()
	if err != nil {
		return err
	}
	if f.watch {
		p := newProgress(e.stderr, f.quiet)
		if !f.quiet {
			p.say(fmt.Sprintf("%s is handed in", visible(job)))
		}
		return e.watch(ctx, c, job, format, p, f.quiet)
	}
	if format == "json" {
		return e.printJSON(struct {
			Job string `json:"job"`
		}{job})
	}
	_, err = fmt.Fprintln(e.stdout, visible(job))
	return err
}

// Times of explainWait.
const (
	quietFor   = time.Second
	explainFor = 2 * time.Second
)

// explainWait says what a request that takes long waits for, if it is a coordinator. The function that it returns
// ends it.
func (e *env) explainWait(ctx context.Context, c *api.Client) (stop func()) {
	over, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-over.Done():
			return
		case <-time.After(quietFor):
		}
		ctx, cancel := context.WithTimeout(ctx, explainFor)
		defer cancel()
		nodes, err := c.Nodes(ctx)
		if err != nil || slices.ContainsFunc(nodes, func(n api.NodeStatus) bool { return n.Leader }) {
			return
		}
		fmt.Fprintf(e.stderr, "%s: waiting for a coordinator: %s\n", e.program, whoIsThere(nodes))
	}()
	return func() {
		cancel()
		<-done
	}
}

// whoIsThere tells which nodes that may coordinate are there and which are not.
func whoIsThere(nodes []api.NodeStatus) string {
	var there, missing []string
	for _, n := range nodes {
		switch {
		case n.Role == control.Works:
		case n.State == "alive":
			there = append(there, visible(n.Name))
		default:
			missing = append(missing, visible(n.Name)+" ("+visible(n.State)+")")
		}
	}
	text := "of the nodes that may coordinate, there are " + strings.Join(there, ", ")
	if len(there) == 0 {
		text = "no node that may coordinate is there"
	}
	if len(missing) > 0 {
		text += "; missing are " + strings.Join(missing, ", ")
	}
	return text
}

func (f *submitFlags) spec() control.Spec {
	return control.Spec{Seed: f.seed, End: f.end, Set: f.set, Record: f.record.text, Regions: f.regions.n, Nodes: f.nodes.n, Workers: f.workers.n,
		Checkpoints: f.checkpoints}
}

// pack checks the scenario and packs it. Like load it leaves a setup that does not end to itself when ctx
// is done.
func (e *env) pack(ctx context.Context, f *submitFlags) (*scenario.Bundle, error) {
	bundle, err := inBackground(ctx, f.file, func() (*scenario.Bundle, error) {
		return scenario.Pack(f.file, scenario.Options{Models: e.models, Set: f.set, Seed: f.seed, End: f.end})
	})
	if err != nil {
		return nil, err
	}
	if err := bundle.Scenario.CheckRun(max(f.regions.n, 1), max(f.workers.n, 1)); err != nil {
		return nil, usageError{err}
	}
	return bundle, nil
}
