package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/chaos"
)

const (
	// defaultSeeds is how many seeds are run unless --seeds says otherwise, mostSeeds the most.
	defaultSeeds = 1000
	mostSeeds    = 1_000_000_000
)

func (e *env) chaosCommand() *cobra.Command {
	seeds := &count{most: mostSeeds}
	var first uint64
	format := newWord("FORMAT", "text", "json")
	cmd := &cobra.Command{
		Use:   "chaos [flags]",
		Short: "Test the cluster protocol: whole clusters under simulated time and seeded faults",
		Long: `Plays clusters of one to eight nodes in simulated time, each decided by a seed: topology, settings, a small
random model, and faults (crashes, pauses, partitions, loss, elections, jumping clocks ...). Their outcome
must be that of an undisturbed run, event by event, and invariants are checked at every step.

A seed that goes wrong is told with the command that repeats it, the faults that are needed for it, and the
last events before it.

Exit codes: 0 all went well, 1 a seed went wrong, 2 bad usage, 130 interrupted.`,
		Args: noArguments,
		RunE: e.begin(func(cmd *cobra.Command, _ []string) error {
			o := chaos.Options{Seed: first, Seeds: defaultSeeds, Progress: e.chaosProgress()}
			if seeds.n > 0 {
				o.Seeds = uint64(seeds.n)
			}
			if first+o.Seeds < first {
				return usagef("--seed %d: %d seeds from there on are more than there are", first, o.Seeds)
			}
			r := chaos.Campaign(cmd.Context(), o)
			if err := e.tellChaos(r, first, format.text == "json"); err != nil {
				return err
			}
			switch {
			case len(r.Findings) > 0:
				return fmt.Errorf("%d of %d seeds went wrong", len(r.Findings), r.Seeds)
			case r.Seeds < o.Seeds:
				return errInterrupted
			}
			return nil
		}),
	}
	cmd.Flags().Var(seeds, "seeds", fmt.Sprintf("how many seeds to run (default %d)", defaultSeeds))
	cmd.Flags().Uint64Var(&first, "seed", 0, "the first seed `S`")
	cmd.Flags().VarP(format, "output", "o", "format: text or json")
	if err := cmd.RegisterFlagCompletionFunc("output", format.complete); err != nil {
		panic(err) // the flag is missing above
	}
	return cmd
}

// chaosProgress prints a line every few seconds.
func (e *env) chaosProgress() func(chaos.Progress) {
	start := time.Now()
	next := start.Add(lineEvery)
	return func(p chaos.Progress) {
		now := time.Now()
		if now.Before(next) {
			return
		}
		next = now.Add(lineEvery)
		fmt.Fprintf(e.stderr, "%d of %d seeds, %.0f a second, %d went wrong\n", p.Done, p.Seeds, float64(p.Done)/now.Sub(start).Seconds(), p.Findings)
	}
}

// chaosJSON is what a campaign prints as JSON.
type chaosJSON struct {
	Seed     uint64             `json:"seed"`
	Seeds    uint64             `json:"seeds"`
	Twice    uint64             `json:"twice"`
	Steps    uint64             `json:"steps"`
	Seconds  float64            `json:"simulated_seconds"`
	Wall     float64            `json:"wall_seconds"`
	Counts   chaosCountsJSON    `json:"counts"`
	Findings []chaosFindingJSON `json:"findings"`
}

type chaosCountsJSON struct {
	Nodes      uint64 `json:"nodes"`
	Jobs       uint64 `json:"jobs"`
	Recoveries uint64 `json:"recoveries"`
	Failed     uint64 `json:"jobs_failed"`
	Faults     uint64 `json:"faults"`
	Crashes    uint64 `json:"crashes"`
	Elections  uint64 `json:"elections"`
	Takeovers  uint64 `json:"takeovers"`
	Frames     uint64 `json:"frames"`
	FramesLost uint64 `json:"frames_lost"`
	Turns      uint64 `json:"turns"`
	Bounds     uint64 `json:"bounds_checked"`
	Cuts       uint64 `json:"cuts"`
}

type chaosFindingJSON struct {
	Seed    uint64   `json:"seed"`
	Step    uint64   `json:"step"`
	At      float64  `json:"simulated_seconds"`
	Wrong   string   `json:"wrong"`
	Command string   `json:"command"`
	Cluster string   `json:"cluster"`
	Faults  []string `json:"faults"`
	Needed  []string `json:"faults_needed"`
	Last    []string `json:"last_events"`
}

// tellChaos prints what came out of a campaign.
func (e *env) tellChaos(r *chaos.Report, first uint64, asJSON bool) error {
	if asJSON {
		return e.printJSON(newChaosJSON(r, first))
	}
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s\n", f)
	}
	c := &r.Counts
	fmt.Fprintf(&b, "%d seeds from %d on (%d twice), %d went wrong\n", r.Seeds, first, r.Again, len(r.Findings))
	fmt.Fprintf(&b, "%d steps, %v of simulated time in %v\n", r.Steps, r.Time.Round(time.Second), r.Elapsed.Round(time.Millisecond))
	fmt.Fprintf(&b, "%d nodes, %d jobs (%d recoveries, %d failed as their model does), %d cuts\n", c.Nodes, c.Jobs, c.Recoveries, c.Failed, c.Cuts)
	fmt.Fprintf(&b, "%d faults, %d crashes, %d elections, %d takeovers\n", c.Faults, c.Crashes, c.Elections, c.Takeovers)
	fmt.Fprintf(&b, "%d frames (%d lost), %d turns, %d bounds checked\n", c.Frames, c.FramesLost, c.Turns, c.Bounds)
	_, err := fmt.Fprint(e.stdout, b.String())
	return err
}

func newChaosJSON(r *chaos.Report, first uint64) *chaosJSON {
	c := &r.Counts
	out := &chaosJSON{
		Seed: first, Seeds: r.Seeds, Twice: r.Again, Steps: r.Steps, Seconds: r.Time.Seconds(), Wall: r.Elapsed.Seconds(),
		Counts: chaosCountsJSON{
			c.Nodes, c.Jobs, c.Recoveries, c.Failed, c.Faults, c.Crashes, c.Elections, c.Takeovers, c.Frames, c.FramesLost, c.Turns, c.Bounds, c.Cuts,
		},
		Findings: []chaosFindingJSON{},
	}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, chaosFindingJSON{
			f.Seed, f.Step, f.Time.Seconds(), f.Wrong, f.Command, f.Cluster, list(f.Faults), list(f.Needed), list(f.Last),
		})
	}
	return out
}

// list is never nil, so that JSON has a list.
func list(s []string) []string { return append([]string{}, s...) }
