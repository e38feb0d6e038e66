package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/summary"
)

func (e *env) modelsCommand() *cobra.Command {
	format := newWord("FORMAT", "text", "json")
	cmd := &cobra.Command{
		Use:   "models [NAME] [flags]",
		Short: "List the models, or describe one with its parameters",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%s takes at most one name, and %q is one too many", cmd.Name(), args[1])
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return e.modelNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: e.begin(func(_ *cobra.Command, args []string) error {
			models := e.models
			if len(args) == 1 {
				m, err := e.findModel(args[0])
				if err != nil {
					return err
				}
				models = []sim.Model{m}
			}
			switch {
			case format.text == "json":
				return e.modelsJSON(models)
			case len(args) == 0:
				return e.listModels()
			}
			return e.describeModel(models[0])
		}),
	}
	cmd.Flags().VarP(format, "output", "o", "format: text or json")
	if err := cmd.RegisterFlagCompletionFunc("output", format.complete); err != nil {
		panic(err) // the flag is missing above
	}
	return cmd
}

func (e *env) modelNames() []string {
	var names []string
	for _, m := range e.models {
		names = append(names, m.Name)
	}
	return names
}

func (e *env) listModels() error {
	t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	for _, m := range e.models {
		fmt.Fprintf(t, "%s\t%s\n", m.Name, m.Summary)
	}
	return t.Flush()
}

func (e *env) findModel(name string) (sim.Model, error) {
	i := slices.IndexFunc(e.models, func(m sim.Model) bool { return m.Name == name })
	if i < 0 {
		hint := ""
		if near := scenario.Nearest(name, e.modelNames()); near != "" {
			hint = fmt.Sprintf("did you mean %q? ", near)
		}
		return sim.Model{}, usagef("unknown model %q: %sthere are %s", name, hint, strings.Join(e.modelNames(), ", "))
	}
	return e.models[i], nil
}

// modelJSON is a model in the JSON output of models.
type modelJSON struct {
	Name    string      `json:"name"`
	Summary string      `json:"summary"`
	Doc     string      `json:"doc,omitempty"`
	Source  string      `json:"source,omitempty"`
	Check   string      `json:"check,omitempty"`
	Version int         `json:"version"`
	Params  []paramJSON `json:"params"`
}

// paramJSON is a parameter, or a column of a table.
type paramJSON struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Unit of plain numbers in the cells of a column.
	Unit  string   `json:"unit,omitempty"`
	Units []string `json:"units,omitempty"`
	// Default in scenario text.
	Default  string      `json:"default,omitempty"`
	Required bool        `json:"required,omitempty"`
	Allowed  string      `json:"allowed,omitempty"`
	Unique   bool        `json:"unique,omitempty"`
	Doc      string      `json:"doc,omitempty"`
	Columns  []paramJSON `json:"columns,omitempty"`
}

// modelsJSON prints one object with the models and their parameters.
func (e *env) modelsJSON(models []sim.Model) error {
	list := make([]modelJSON, len(models))
	for i, m := range models {
		params, err := scenario.Describe(m)
		if err != nil {
			return err
		}
		list[i] = modelJSON{m.Name, m.Summary, m.Doc, m.Source, m.Check, m.Version, paramsJSON(params)}
	}
	data, err := summary.Encode(map[string]any{"models": list})
	if err != nil {
		return err
	}
	_, err = e.stdout.Write(data)
	return err
}

func paramsJSON(params []scenario.ParamDoc) []paramJSON {
	list := make([]paramJSON, len(params))
	for i, p := range params {
		list[i] = paramJSON{p.Name, p.Type, p.Unit, p.Units, p.Default, p.Required, p.Allowed, p.Unique, p.Doc, paramsJSON(p.Columns)}
	}
	return list
}

func (e *env) describeModel(m sim.Model) error {
	params, err := scenario.Describe(m)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", m.Name, m.Summary)
	for _, part := range []struct{ name, text string }{{"", m.Doc}, {"Source: ", m.Source}, {"Check: ", m.Check}} {
		if part.text != "" {
			fmt.Fprintf(&b, "%s\n\n", wrap(part.name+part.text, "", lineWidth))
		}
	}
	if len(params) > 0 {
		b.WriteString("Parameters (in the scenario below params:)\n")
	}
	for _, p := range params {
		describeParam(&b, p, "  ")
	}
	_, err = io.WriteString(e.stdout, b.String())
	return err
}

// lineWidth is how wide text for people is.
const lineWidth = 96

// describeParam prints a parameter, or a column of a table, and what it may be.
func describeParam(b *strings.Builder, p scenario.ParamDoc, indent string) {
	facts := []string{p.Type}
	if len(p.Units) > 0 {
		facts = append(facts, "units "+strings.Join(p.Units, " "))
	}
	if p.Allowed != "" {
		facts = append(facts, p.Allowed)
	}
	if p.Unique {
		facts = append(facts, "no duplicates")
	}
	switch {
	case p.Required:
		facts = append(facts, "must be given")
	case p.Default != "":
		facts = append(facts, "default "+p.Default)
	}
	fmt.Fprintf(b, "%s%s\n", indent, p.Name)
	within := indent + "    "
	if p.Doc != "" {
		fmt.Fprintf(b, "%s\n", wrap(p.Doc, within, lineWidth))
	}
	fmt.Fprintf(b, "%s\n", wrap(strings.Join(facts, "; "), within, lineWidth))
	if len(p.Columns) > 0 {
		fmt.Fprintf(b, "%scolumns:\n", within)
	}
	for _, c := range p.Columns {
		describeParam(b, c, within+"  ")
	}
}

// wrap breaks text into lines of at most width bytes, each after indent.
func wrap(text, indent string, width int) string {
	var b strings.Builder
	at := 0
	for _, w := range strings.Fields(text) {
		switch {
		case at == 0:
			b.WriteString(indent)
			at = len(indent)
		case at+1+len(w) > width:
			b.WriteString("\n" + indent)
			at = len(indent)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(w)
		at += len(w)
	}
	return b.String()
}
