package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/api"
)

func (e *env) logsCommand() *cobra.Command {
	follow, lines := false, count{most: 10_000}
	cmd := &cobra.Command{
		Use:   "logs [NODE] [flags]",
		Short: "Show the log of a node",
		Long: `Shows the last lines of a node's log; without NODE of the node that answers. With -o json each line is
an object.

` + clientCodes,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("logs takes one node, and %q is one too many: %s", args[1], cmd.UseLine())
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with the lines that follow, until Ctrl-C")
	cmd.Flags().Var(&lines, "lines", "how many of the last lines to begin with (default 100)")
	return e.clientCommand(cmd, func(ctx context.Context, c *api.Client, f *clientFlags, args []string) error {
		q := api.LogQuery{Follow: follow, Lines: lines.n}
		if len(args) > 0 {
			q.Node = args[0]
		}
		show := e.logText
		if f.format.text == "json" {
			show = e.logJSON
		}
		return c.Logs(ctx, q, show)
	})
}

func (e *env) logText(l api.LogLine) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-5s %s", l.Time.UTC().Format("2006-01-02T15:04:05.000Z"), visible(l.Level), visible(l.Text))
	for _, f := range l.Fields {
		value := visible(f.Value)
		if value == "" || strings.ContainsAny(value, " \"=") {
			value = fmt.Sprintf("%q", f.Value)
		}
		fmt.Fprintf(&b, " %s=%s", visible(f.Key), value)
	}
	_, err := fmt.Fprintln(e.stdout, b.String())
	return err
}

func (e *env) logJSON(l api.LogLine) error {
	type field struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	fields := []field{}
	for _, f := range l.Fields {
		fields = append(fields, field(f))
	}
	data, err := json.Marshal(struct {
		Time   string  `json:"time"`
		Level  string  `json:"level"`
		Text   string  `json:"text"`
		Fields []field `json:"fields"`
	}{l.Time.UTC().Format(time.RFC3339Nano), l.Level, l.Text, fields})
	if err != nil {
		return err
	}
	_, err = e.stdout.Write(append(data, '\n'))
	return err
}
