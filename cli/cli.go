package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
)

// The exit codes.
const (
	// Done: the command did what it was asked.
	Done = 0
	// Failed: the run began and failed.
	Failed = 1
	// BadUsage: the command line or the scenario is wrong; nothing has run.
	BadUsage = 2
	// Unreachable: no node of the cluster can be reached, or it cannot serve now.
	Unreachable = 3
	// Stopped: a signal ended a run that takes checkpoints; it can be resumed.
	Stopped = 75
	// Interrupted: a signal ended the run early; what was recorded so far is complete.
	Interrupted = 130
)

// Main runs the command line of a program that simulates the given models, and exits with its code.
// The first interrupt (SIGINT, SIGTERM) ends a run cleanly, the second one at once.
func Main(models ...sim.Model) {
	probing()
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(Interrupted)
	}()
	os.Exit(Run(ctx, os.Args, os.Stdout, os.Stderr, models...))
}

// Variables that a process has which puts a folder of checkpoints in order: what it is to do, from package
// checkpoint, and the process that started it.
const (
	probeVariable  = "SIMNODE_CHECKPOINT_PROBE"
	parentVariable = "SIMNODE_PARENT"
)

// probing is checkpoint.Probing, in a process that ends with the one that started it: of a process that is killed
// nothing may go on to write to the folder that the next one opens.
func probing() {
	parent := os.Getenv(parentVariable)
	if err := os.Setenv(parentVariable, strconv.Itoa(os.Getpid())); err != nil {
		panic(err) // the name is no name
	}
	if os.Getenv(probeVariable) != "" {
		go func() {
			for strconv.Itoa(os.Getppid()) == parent {
				time.Sleep(time.Millisecond)
			}
			os.Exit(Failed)
		}()
	}
	checkpoint.Probing()
}

// Run runs one command line and returns its exit code. args begins with the name of the program, as
// os.Args does. When ctx is done a run ends early, as interrupted. Run starts no goroutine that outlives
// it, but for a model's setup that goes on when ctx is done and a run with checkpoints that does not end within its
// grace, and keeps no state, so that it may be called any number of times, also at once.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, models ...sim.Model) int {
	e := &env{program: "simnode", models: models, stdout: stdout, stderr: stderr}
	if len(args) > 0 {
		e.program = strings.TrimSuffix(filepath.Base(args[0]), ".exe")
		args = args[1:]
	}
	root := e.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return e.exit(err)
}

// env is what the commands of one command line share.
type env struct {
	program        string
	models         []sim.Model
	stdout, stderr io.Writer
	// began tells errors of a command from those of its flags and arguments.
	began bool
}

// errInterrupted ends an interrupted run whose summary has been printed.
var errInterrupted = errors.New("interrupted")

// errStopped ends a run that can be resumed, after it was told how.
var errStopped = errors.New("stopped")

// errEarly ends a command that was interrupted before anything ran.
var errEarly = errors.New("interrupted before the run began; nothing was written")

// errInvalid ends a validation whose problems have been printed.
var errInvalid = errors.New("invalid scenario")

// usageError is a fault of the command line that a command finds itself.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exit prints an error and returns the exit code that it stands for.
func (e *env) exit(err error) int {
	var problems scenario.Problems
	var usage usageError
	var dir *record.DirError
	switch {
	case err == nil:
		return Done
	case errors.Is(err, errInterrupted):
		return Interrupted
	case errors.Is(err, errStopped):
		return Stopped
	case errors.Is(err, errDamaged):
		return Failed
	case errors.Is(err, errInvalid):
		return BadUsage
	case errors.As(err, &problems):
		fmt.Fprintln(e.stderr, problems.Error())
		return BadUsage
	}
	fmt.Fprintf(e.stderr, "%s: %s\n", e.program, strings.TrimSpace(err.Error()))
	if errors.Is(err, errEarly) {
		return Interrupted
	}
	if !e.began || errors.As(err, &usage) || errors.As(err, &dir) {
		return BadUsage
	}
	return clusterCode(err)
}

func (e *env) root() *cobra.Command {
	root := &cobra.Command{
		Use:   e.program,
		Short: "Parallel discrete-event simulation: one answer for any number of regions",
		Long: `Runs a discrete-event simulation in parallel regions of space. The result depends on the
scenario and the seed alone, never on the number of regions or workers.

Exit codes: 0 done, 1 the run failed, 2 bad usage or scenario, 3 no node of the cluster can be reached,
75 stopped with a checkpoint, 130 interrupted.`,
		Args:              e.knownCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.Version = e.version()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.SetFlagErrorFunc(e.flagError)
	root.AddCommand(e.runCommand(), e.nodeCommand(), e.validateCommand(), e.modelsCommand(), e.schemaCommand(), e.versionCommand(), e.completionCommand())
	root.AddCommand(e.clusterCommands()...)
	root.AddCommand(e.certsCommand(), e.chaosCommand(), e.checkpointCommand())
	for _, c := range root.Commands() {
		c.DisableFlagsInUseLine = true
	}
	return root
}

// begin makes the function of a command, with the bookkeeping of exit codes around it.
func (e *env) begin(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		e.began = true
		return run(cmd, args)
	}
}

// knownCommand refuses what is no command, with the nearest that is one.
func (e *env) knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	hint := ""
	if near := scenario.Nearest(args[0], names); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("unknown command %q: %sthere are %s; see %s --help", args[0], hint, strings.Join(names, ", "), e.program)
}

// oneFile takes a scenario as the only argument.
func oneFile(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("%s needs a scenario file: %s", cmd.Name(), cmd.UseLine())
	case len(args) > 1:
		return fmt.Errorf("%s takes one scenario file, and %q is one too many: %s", cmd.Name(), args[1], cmd.UseLine())
	}
	return nil
}

// noArguments takes none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, and %q is one", cmd.Name(), args[0])
	}
	return nil
}

// scenarioFiles completes the names of scenario files.
func scenarioFiles(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}
