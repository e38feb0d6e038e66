package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/control"
)

func (e *env) nodesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes [flags]",
		Short: "Show the nodes of a cluster",
		Long: `Lists the nodes of a cluster: role, whether they vote and lead, addresses, and whether they live.

` + clientCodes,
		Args: noArguments,
	}
	return e.clientCommand(cmd, func(ctx context.Context, c *api.Client, f *clientFlags, _ []string) error {
		nodes, err := c.Nodes(ctx)
		if err != nil {
			return err
		}
		if f.format.text == "json" {
			return e.printJSON(map[string]any{"nodes": nodesJSON(nodes)})
		}
		rows := [][]string{{"NODE", "STATE", "ROLE", "VOTE", "WORKERS", "ADDRESS", "API", "HEARD", "VERSION"}}
		for _, n := range nodes {
			vote := ""
			switch {
			case n.Leader:
				vote = "leader"
			case n.Voter:
				vote = "voter"
			}
			rows = append(rows, []string{n.Name, n.State, string(n.Role), vote, strconv.Itoa(n.Workers), n.Address, n.API, stamp(n.Heard), n.Version})
		}
		return e.table(rows)
	})
}

// nodeJSON is a node in the output of nodes -o json; keys and their order stay.
type nodeJSON struct {
	Name    string       `json:"name"`
	State   string       `json:"state"`
	Role    control.Role `json:"role"`
	Voter   bool         `json:"voter"`
	Leader  bool         `json:"leader"`
	Workers int          `json:"workers"`
	Address string       `json:"address"`
	API     string       `json:"api"`
	Heard   string       `json:"heard"`
	Version string       `json:"version"`
}

func nodesJSON(nodes []api.NodeStatus) []nodeJSON {
	out := []nodeJSON{}
	for _, n := range nodes {
		out = append(out, nodeJSON{n.Name, n.State, n.Role, n.Voter, n.Leader, n.Workers, n.Address, n.API, stamp(n.Heard), n.Version})
	}
	return out
}
