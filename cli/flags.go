package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/simnode/simnode/scenario"
)

// count is a flag whose value is a whole number from 1 to most; 0 means that it was not given.
type count struct{ n, most int }

func (c *count) String() string {
	if c.n == 0 {
		return ""
	}
	return strconv.Itoa(c.n)
}

func (c *count) Type() string { return "N" }

func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > c.most {
		return fmt.Errorf("use a whole number from 1 to %d", c.most)
	}
	c.n = n
	return nil
}

// word is a flag whose value is one of a few words; the first is the default.
type word struct {
	text    string
	allowed []string
	name    string
}

func newWord(name string, allowed ...string) *word { return &word{allowed[0], allowed, name} }

func (w *word) String() string { return w.text }
func (w *word) Type() string   { return w.name }

func (w *word) Set(text string) error {
	for _, a := range w.allowed {
		if a == text {
			w.text = text
			return nil
		}
	}
	hint := ""
	if near := scenario.Nearest(text, w.allowed); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("%sallowed: %s", hint, strings.Join(w.allowed, ", "))
}

// complete completes the words.
func (w *word) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return w.allowed, cobra.ShellCompDirectiveNoFileComp
}

// flagError names the nearest flag that exists, and how to get help.
func (e *env) flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	if unknown, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := scenario.Nearest(unknown, names); near != "" {
			text += fmt.Sprintf("; did you mean --%s?", near)
		}
	}
	return fmt.Errorf("%s; see %s --help", text, cmd.CommandPath())
}
