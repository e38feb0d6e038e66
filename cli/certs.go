package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/cluster/certs"
)

func (e *env) certsCommand() *cobra.Command {
	var dir string
	var hosts []string
	format := newWord("FORMAT", "text", "json")
	cmd := &cobra.Command{
		Use:   "certs NAME... [flags]",
		Short: "Make certificates for the nodes of a cluster",
		Long: `Makes a certificate and a key for each node NAME, and for each person NAME who is to use the cluster with
--cert and --key, signed by the authority in the folder, which is made if there is none. Nothing is
overwritten.

The names of a node's certificate are its NAME, localhost, and each --host. A node needs ` + certs.CAFile + `, NAME.pem and
NAME-key.pem. Keep ` + certs.CAKeyFile + ` where no node can read it: who has it can make certificates.

Exit codes: 0 done, 1 a file could not be written, 2 bad usage.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("certs needs the name of a node: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: e.begin(func(_ *cobra.Command, names []string) error {
			if dir == "" {
				return usagef("--dir is given without a value: give one or leave the flag out")
			}
			if err := certs.Create(dir, names, hosts); err != nil {
				return err
			}
			files := []string{filepath.Join(dir, certs.CAFile)}
			for _, name := range names {
				files = append(files, filepath.Join(dir, certs.CertFile(name)), filepath.Join(dir, certs.KeyFile(name)))
			}
			if format.text == "json" {
				return e.printJSON(map[string]any{"files": files})
			}
			for _, file := range files {
				if _, err := fmt.Fprintln(e.stdout, file); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&dir, "dir", "certs", "folder `DIR` of the authority and the certificates, made if missing")
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "another name or IP address `HOST` by which the nodes are reached; may be repeated")
	cmd.Flags().VarP(format, "output", "o", "format: text or json")
	if err := cmd.RegisterFlagCompletionFunc("output", format.complete); err != nil {
		panic(err) // the flag is missing above
	}
	return cmd
}
