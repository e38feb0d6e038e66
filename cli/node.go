package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/simnode/simnode/server"
)

// nodeFlags are the flags of the node command that are no settings.
type nodeFlags struct {
	config    string
	temporary bool
	format    *word
}

// goodbye is how long a node may take to end in an orderly way.
const goodbye = 10 * time.Second

func (e *env) nodeCommand() *cobra.Command {
	f := &nodeFlags{format: newWord("FORMAT", "text", "json")}
	cmd := &cobra.Command{
		Use:   "node [flags]",
		Short: "Run a node of a cluster",
		Long: `Runs a node of a cluster until it is interrupted. Nodes that are given the name of one of them with --join find
one another, elect a coordinator among those that may coordinate, and carry out the jobs that are handed in
with simnode submit.

Each setting can be given by a flag, by an environment variable (SIMNODE_ and the flag's name in capitals with
_ for -, such as SIMNODE_CLUSTER_NAME) or by a line of the YAML file that --config names (the flag's name
with _ for -, such as "cluster_name: north"); the first of these counts.

A node listens on this machine alone unless told otherwise; beyond it, it wants certificates (simnode certs).
SIGTERM and Ctrl-C end it in an orderly way: the coordination is handed over, and a job in which it owns
regions fails with an error that says why. A second one ends it at once.

Exit codes: 0 ended in an orderly way, 1 it cannot go on, 2 bad usage.`,
		Args: noArguments,
		RunE: e.begin(func(cmd *cobra.Command, _ []string) error { return e.node(cmd.Context(), cmd.Flags(), f) }),
	}
	flags := cmd.Flags()
	for _, s := range server.SettingsOfNode() {
		if s.Switch {
			flags.Bool(s.Name, false, s.Doc)
			continue
		}
		flags.String(s.Name, "", s.Doc)
		flags.Lookup(s.Name).Usage = "`" + s.Value + "`: " + s.Doc
	}
	flags.StringVar(&f.config, "config", "", "YAML `FILE` with settings (default SIMNODE_CONFIG)")
	flags.BoolVar(&f.temporary, "temporary", false, "end at once when standard input ends, and remove the data folder: for clusters of one run")
	flags.VarP(f.format, "output", "o", "format of the line that tells where the node listens: text or json")
	if err := cmd.RegisterFlagCompletionFunc("output", f.format.complete); err != nil {
		panic(err) // the flag is missing above
	}
	return cmd
}

// node is the node command.
func (e *env) node(ctx context.Context, flags *pflag.FlagSet, f *nodeFlags) error {
	config, err := e.nodeConfig(flags, f)
	if err != nil {
		return usageError{err}
	}
	if f.temporary {
		// Who reads the log may be killed; a line written then must not end the node before its data is gone.
		signal.Ignore(syscall.SIGPIPE)
	}
	began, cancel := context.WithTimeout(ctx, time.Minute)
	n, err := server.Start(began, config)
	cancel()
	if err != nil {
		return err
	}
	if err := e.tellListening(n, f.format.text); err != nil {
		return errors.Join(err, n.Close())
	}
	if !f.temporary {
		<-ctx.Done()
		return e.endNode(n)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	closeSoon(n)
	if err := removeData(config.Dir); err != nil {
		fmt.Fprintf(e.stderr, "%s: %v\n", e.program, err)
		os.Exit(Failed)
	}
	os.Exit(Done)
	return nil
}

// closeSoon closes a node whose data is about to be removed: what still writes would make files anew, or end
// the process when its folder is gone. A handler that does not return must not keep the process.
func closeSoon(n *server.Node) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = n.Close() // nobody is left to be told
	}()
	select {
	case <-closed:
	case <-time.After(3 * time.Second):
	}
}

// removeData removes a data folder that is still in use, and the one that held the folders of all nodes of a run
// if it was the last and nobody else will.
func removeData(dir string) (err error) {
	for range 50 {
		if err = os.RemoveAll(dir); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond) // A file was made meanwhile.
	}
	removeLast(filepath.Dir(dir))
	return err
}

// endNode ends a node in an orderly way.
func (e *env) endNode(n *server.Node) error {
	fmt.Fprintln(e.stderr, "ending; once more to end at once")
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	return n.Shutdown(ctx)
}

// listening is what a node tells of itself in a line when it has started.
type listening struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	API     string `json:"api"`
}

func (e *env) tellListening(n *server.Node, format string) (err error) {
	l := listening{n.Name(), n.Address(), n.API()}
	if format == "json" {
		return e.printJSON(l)
	}
	_, err = fmt.Fprintf(e.stdout, "node %s: other nodes reach it at %s, people at %s\n", l.Name, l.Address, l.API)
	return err
}

// nodeConfig gathers the settings and checks them.
func (e *env) nodeConfig(flags *pflag.FlagSet, f *nodeFlags) (server.Config, error) {
	given := map[string]string{}
	for _, s := range server.SettingsOfNode() {
		if flag := flags.Lookup(s.Name); flag.Changed {
			given[s.Name] = flag.Value.String()
		}
	}
	file := f.config
	if file == "" {
		file = os.Getenv("SIMNODE_CONFIG")
	}
	var data []byte
	if file != "" {
		var err error
		if data, err = os.ReadFile(file); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%s does not exist", file)
			}
			return server.Config{}, fmt.Errorf("--config: %w", err)
		}
	}
	settings, wrong := server.Gather(given, os.LookupEnv, file, data)
	config, format, err := settings.Config()
	if err := errors.Join(wrong, err); err != nil {
		return server.Config{}, err
	}
	config.Models, config.Version = e.models, e.version()
	options := &slog.HandlerOptions{Level: config.Level}
	config.Log = slog.NewTextHandler(e.stderr, options)
	if format == "json" {
		config.Log = slog.NewJSONHandler(e.stderr, options)
	}
	return config, nil
}
