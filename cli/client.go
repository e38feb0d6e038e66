package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/summary"
)

// clientFlags say where a cluster is and who asks; each has its environment variable.
type clientFlags struct {
	cluster, token, ca, cert, key string
	format                        *word
}

// defaultCluster is a node on this machine.
func defaultCluster() string { return fmt.Sprintf("127.0.0.1:%d", api.DefaultPort) }

// clientCodes tell the exit codes of the commands that ask a cluster.
const clientCodes = "Exit codes: 0 done, 1 the cluster refused or failed, 2 bad usage, 3 no node can be reached."

// clusterCommands are those that ask a cluster.
func (e *env) clusterCommands() []*cobra.Command {
	return []*cobra.Command{e.submitCommand(), e.statusCommand(), e.watchCommand(), e.pauseCommand(), e.resumeCommand(), e.stopCommand(),
		e.resultsCommand(), e.nodesCommand(), e.logsCommand()}
}

// clusterCode is the exit code for an error of a cluster; Failed for any other.
func clusterCode(err error) int {
	var lost *api.Unreachable
	var refused *api.Error
	switch {
	case errors.As(err, &lost):
		return Unreachable
	case !errors.As(err, &refused):
		return Failed
	}
	switch refused.Kind {
	case api.Unavailable:
		return Unreachable
	case api.Invalid, api.NotFound, api.Unauthenticated, api.Forbidden:
		return BadUsage
	}
	return Failed
}

// clientFlags adds the flags of a command that asks a cluster.
func (e *env) clientFlags(cmd *cobra.Command) *clientFlags {
	f := &clientFlags{format: newWord("FORMAT", "text", "json")}
	flags := cmd.Flags()
	flags.StringVar(&f.cluster, "cluster", "", "address `HOST:PORT` of any node, or several with commas between (default SIMNODE_CLUSTER, or else "+defaultCluster()+")")
	flags.StringVar(&f.token, "token", "", "bearer `TOKEN` (default SIMNODE_TOKEN, which other users of this machine cannot see)")
	flags.StringVar(&f.ca, "ca", "", "`FILE` with the certificates of the CA that signed those of the nodes (default SIMNODE_CA)")
	flags.StringVar(&f.cert, "cert", "", "`FILE` with the client's own certificate (default SIMNODE_CERT)")
	flags.StringVar(&f.key, "key", "", "`FILE` with the key of the client's own certificate (default SIMNODE_KEY)")
	flags.VarP(f.format, "output", "o", "format: text or json")
	if err := cmd.RegisterFlagCompletionFunc("output", f.format.complete); err != nil {
		panic(err) // the flag is missing above
	}
	return f
}

// clientCommand fills in what all commands that ask a cluster have in common.
func (e *env) clientCommand(cmd *cobra.Command, run func(ctx context.Context, c *api.Client, f *clientFlags, args []string) error) *cobra.Command {
	f := e.clientFlags(cmd)
	cmd.RunE = e.begin(func(cmd *cobra.Command, args []string) error {
		c, err := f.connect(cmd)
		if err != nil {
			return err
		}
		defer c.Close()
		return interrupted(cmd.Context(), run(cmd.Context(), c, f, args))
	})
	return cmd
}

// interrupted makes of an error that a signal brought about one that says so.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, errEarly) {
		return errInterrupted
	}
	return err
}

// fallback is the value of a flag, or else of an environment variable.
func fallback(cmd *cobra.Command, name, variable, value string) (string, error) {
	if cmd.Flags().Changed(name) {
		if value == "" {
			return "", usagef("--%s is given without a value: give one or leave the flag out", name)
		}
		return value, nil
	}
	return os.Getenv(variable), nil
}

// connect makes the client.
func (f *clientFlags) connect(cmd *cobra.Command) (*api.Client, error) {
	for _, flag := range []struct {
		to             *string
		name, variable string
	}{
		{&f.cluster, "cluster", "SIMNODE_CLUSTER"}, {&f.token, "token", "SIMNODE_TOKEN"},
		{&f.ca, "ca", "SIMNODE_CA"}, {&f.cert, "cert", "SIMNODE_CERT"}, {&f.key, "key", "SIMNODE_KEY"},
	} {
		var err error
		if *flag.to, err = fallback(cmd, flag.name, flag.variable, *flag.to); err != nil {
			return nil, err
		}
	}
	if f.cluster == "" {
		f.cluster = defaultCluster()
	}
	config, err := f.tls()
	if err != nil {
		return nil, usageError{err}
	}
	c, err := api.NewClient(api.ClientOptions{Address: f.cluster, Token: f.token, TLS: config})
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// tls is nil for clear text.
func (f *clientFlags) tls() (*tls.Config, error) {
	switch {
	case f.ca == "" && f.cert == "" && f.key == "":
		return nil, nil
	case f.ca == "":
		return nil, fmt.Errorf("--cert and --key need --ca, the certificate of the CA that signed those of the nodes")
	case (f.cert == "") != (f.key == ""):
		return nil, fmt.Errorf("--cert and --key belong together: give both or neither")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
	data, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	if !config.RootCAs.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("--ca: %s holds no certificate; expected PEM, as simnode certs writes it", f.ca)
	}
	if f.cert != "" {
		own, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// oneJob takes a job as the only argument, or none.
func oneJob(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%s takes one job, and %q is one too many: %s", cmd.Name(), args[1], cmd.UseLine())
	}
	return nil
}

// pickLive returns the job that is named or, if none is, the one that has not ended.
func pickLive(ctx context.Context, c *api.Client, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	live, _, old, err := liveAndLast(ctx, c)
	if err != nil {
		return "", err
	}
	switch len(live) {
	case 0:
		if old != "" {
			return "", mayBeOld("no job is waiting or running", old)
		}
		return "", usagef("no job is waiting or running; name one: simnode status lists them")
	case 1:
		return live[0], nil
	}
	return "", usagef("there are several jobs: name one of %s", strings.Join(live, ", "))
}

// pickAny is like pickLive, but takes the last job if all have ended.
func pickAny(ctx context.Context, c *api.Client, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	live, last, _, err := liveAndLast(ctx, c)
	switch {
	case err != nil:
		return "", err
	case len(live) == 0 && last != "":
		return last, nil
	}
	return pickLive(ctx, c, args)
}

// pickEnded returns the job that is named or, if none is, the last one that has ended.
func pickEnded(ctx context.Context, c *api.Client, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	_, last, old, err := liveAndLast(ctx, c)
	switch {
	case err == nil && last == "" && old != "":
		err = mayBeOld("no job has ended yet", old)
	case err == nil && last == "":
		err = usagef("no job has ended yet; simnode status lists them")
	}
	return last, err
}

// mayBeOld is the error for what is so as far as a node knows that may not know all.
func mayBeOld(what, old string) error {
	return api.Errorf(api.Unavailable, "%s as far as this node knows, but others may know more: %s", what, visible(old))
}

// liveAndLast returns the jobs that have not ended, and the last one that has. old says why others may know more.
func liveAndLast(ctx context.Context, c *api.Client) (live []string, last, old string, err error) {
	k, jobs, err := c.Status(ctx, "")
	for _, j := range jobs {
		if j.Phase.Ended() {
			last = j.ID
		} else {
			live = append(live, j.ID)
		}
	}
	return live, last, k.Old, err
}

// printJSON prints v as the output of a command.
func (e *env) printJSON(v any) error {
	data, err := summary.Encode(v)
	if err != nil {
		return err
	}
	_, err = e.stdout.Write(data)
	return err
}

// table prints rows in columns, the first one as their heads.
func (e *env) table(rows [][]string) error {
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				cell = "-"
			}
			row[i] = visible(cell)
		}
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// visible makes text that came over the network safe for a terminal: what cannot be printed is escaped.
func visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
