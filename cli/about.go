package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/scenario"
)

func (e *env) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of scenario files, for editors",
		Args:  noArguments,
		RunE: e.begin(func(*cobra.Command, []string) error {
			schema, err := scenario.Schema(e.models)
			if err != nil {
				return err
			}
			_, err = e.stdout.Write(schema)
			return err
		}),
	}
}

func (e *env) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  noArguments,
		RunE: e.begin(func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(e.stdout, e.version())
			return err
		}),
	}
}

func (e *env) version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionText(e.program, info)
}

// versionText is such as "simnode v1.2.0, commit 0123456789ab, go1.26.0 linux/amd64".
func versionText(program string, info *debug.BuildInfo) string {
	version, commit, changed := info.Main.Version, "", ""
	if version == "" || version == "(devel)" {
		version = "(development)"
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	if commit != "" {
		version += ", commit " + commit + changed
	}
	return fmt.Sprintf("%s %s, %s %s/%s", program, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (e *env) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that completes commands, flags and files in a shell",
		Long: fmt.Sprintf(`Prints a completion script for a shell. To use it now:

  bash  source <(%[1]s completion bash)
  zsh   source <(%[1]s completion zsh)
  fish  %[1]s completion fish | source`, e.program),
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s needs one shell: bash, zsh or fish", cmd.Name())
			}
			if err := newWord("SHELL", shells...).Set(args[0]); err != nil {
				return fmt.Errorf("unknown shell %q: %w", args[0], err)
			}
			return nil
		},
		RunE: e.begin(func(cmd *cobra.Command, args []string) error {
			return e.completion(cmd.Root(), args[0], e.stdout)
		}),
	}
}

func (e *env) completion(root *cobra.Command, shell string, w io.Writer) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "zsh":
		return root.GenZshCompletion(w)
	}
	return root.GenFishCompletion(w, true)
}
