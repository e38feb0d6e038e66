package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/summary"
)

func (e *env) validateCommand() *cobra.Command {
	format := newWord("FORMAT", "text", "json")
	cmd := &cobra.Command{
		Use:   "validate FILE [flags]",
		Short: "Check a scenario without running it",
		Long: `Checks the scenario in FILE whole and prints every problem in it, one a line: file:line:column, the
field, what is wrong, what is allowed and the nearest right spelling. A scenario without problems is
summed up in a line.

Exit codes: 0 the scenario can run, 2 it has problems.`,
		Args:              oneFile,
		ValidArgsFunction: scenarioFiles,
		RunE: e.begin(func(cmd *cobra.Command, args []string) error {
			s, err := e.load(cmd.Context(), args[0], scenario.Options{Models: e.models})
			if errors.Is(err, errEarly) {
				return err
			}
			if format.text == "json" {
				return e.validateJSON(args[0], s, err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.stdout, "ok: %s: model %s, %s entities, end %v, %s\n", args[0], s.Model.Name,
				summary.Group(uint64(len(s.Program.EntityKind))), s.Program.End, possibleRegions(s))
			return err
		}),
	}
	cmd.Flags().VarP(format, "output", "o", "format: text or json")
	if err := cmd.RegisterFlagCompletionFunc("output", format.complete); err != nil {
		panic(err) // the flag is missing above
	}
	return cmd
}

// possibleRegions says into how many regions a scenario can be cut.
func possibleRegions(s *scenario.Scenario) string {
	if s.Program.Limits.Lookahead == 0 {
		return "1 region only (lookahead 0)"
	}
	return fmt.Sprintf("any number of regions (lookahead %v)", s.Program.Limits.Lookahead)
}

// verdict is the JSON output of validate.
type verdict struct {
	File     string        `json:"file"`
	OK       bool          `json:"ok"`
	Problems []problemJSON `json:"problems"`
	// What a scenario without problems is.
	Model    string  `json:"model,omitempty"`
	Entities int     `json:"entities,omitempty"`
	EndTime  float64 `json:"end_time_s,omitempty"`
	// Lookahead of 0 allows one region only.
	Lookahead *float64 `json:"lookahead_s,omitempty"`
}

type problemJSON struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Field  string `json:"field,omitempty"`
	Text   string `json:"text"`
	Help   string `json:"help,omitempty"`
}

// validateJSON prints one object; problems are part of it and are not printed again.
func (e *env) validateJSON(file string, s *scenario.Scenario, err error) error {
	v := verdict{File: file, OK: err == nil, Problems: []problemJSON{}}
	var problems scenario.Problems
	switch {
	case err == nil:
		p := s.Program
		lookahead := p.Limits.Lookahead.Seconds()
		v.Model, v.Entities, v.EndTime, v.Lookahead = s.Model.Name, len(p.EntityKind), p.End.Seconds(), &lookahead
	case errors.As(err, &problems):
		for _, p := range problems {
			v.Problems = append(v.Problems, problemJSON(p))
		}
	default:
		return err
	}
	data, err := summary.Encode(v)
	if err != nil {
		return err
	}
	if _, err := e.stdout.Write(data); err != nil {
		return err
	}
	if !v.OK {
		return errInvalid
	}
	return nil
}
