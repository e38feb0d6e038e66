package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/summary"
)

// checkpointCommand has the commands that look at the checkpoints of a run.
func (e *env) checkpointCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Look at the checkpoints of a run, check, copy or remove them",
		Long: `Looks at the checkpoints in the folder DIR of a run, which was given to run with --data. No run may be going on in
it meanwhile. A run goes on from a checkpoint by resume.

Exit codes: 0 done, 1 something is damaged or could not be written, 2 bad usage, or a folder that cannot be used as asked.`,
		Args: e.checkpointVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(e.checkpointList(), e.checkpointShow(), e.checkpointVerify(), e.checkpointDiff(), e.checkpointExport(), e.checkpointImport(), e.checkpointPrune())
	for _, c := range cmd.Commands() {
		c.DisableFlagsInUseLine = true
	}
	return cmd
}

// checkpointVerb refuses what is no command of checkpoint.
func (e *env) checkpointVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q: there are ls, show, verify, diff, export, import and prune; see %s checkpoint --help", args[0], e.program)
}

// exactly takes so many arguments.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("%d arguments were given, and %d are needed: %s", len(args), n, cmd.UseLine())
		}
		return nil
	}
}

// format adds the flag of the output's format.
func (e *env) formatFlag(cmd *cobra.Command) *word {
	format := newWord("FORMAT", "text", "json")
	cmd.Flags().VarP(format, "output", "o", "format: text or json")
	if err := cmd.RegisterFlagCompletionFunc("output", format.complete); err != nil {
		panic(err) // the flag is missing above
	}
	return format
}

// reading is a run folder that is looked at.
type reading struct {
	*runDir
	store *checkpoint.Store
}

func (e *env) openReading(dir string) (*reading, error) {
	d, err := openRunDir(dir, false)
	if err != nil {
		return nil, err
	}
	s, err := d.store(true)
	if err != nil {
		return nil, err
	}
	return &reading{d, s}, nil
}

// program sets the run's model up, to read what is in its checkpoints.
func (r *reading) program(ctx context.Context, e *env) (*sim.Program, error) {
	s, err := e.loadSaved(ctx, r.runDir, &resumeFlags{})
	if err != nil {
		return nil, err
	}
	return s.Program, nil
}

// one returns the checkpoint that a user names.
func (r *reading) one(at string) (*checkpoint.Manifest, error) {
	if n, err := strconv.ParseUint(at, 10, 64); err == nil {
		if m, err := r.store.Manifest(n); err == nil {
			return m, nil // also one that was given up
		}
	}
	m, err := r.pick(r.store, at)
	if err == nil && m == nil {
		err = folderf(r.dir, "it has no checkpoint yet")
	}
	return m, err
}

// checkpointJSON is a checkpoint in the output of checkpoint ls -o json; keys and their order stay.
type checkpointJSON struct {
	Number       uint64  `json:"number"`
	Parent       uint64  `json:"parent"`
	At           float64 `json:"at_s"`
	Written      string  `json:"written"`
	WrittenBytes uint64  `json:"written_bytes"`
	SharedBytes  uint64  `json:"shared_bytes"`
	Digest       string  `json:"digest"`
	Nodes        int     `json:"nodes"`
	Regions      int     `json:"regions"`
	Entities     uint64  `json:"entities"`
	Events       uint64  `json:"pending_events"`
	GivenUp      bool    `json:"given_up,omitempty"`

	at sim.Time
}

func (e *env) checkpointList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls DIR [flags]",
		Short: "List the checkpoints of a run",
		Long:  "Lists the checkpoints in the folder DIR of a run, the oldest first.",
		Args:  exactly(1),
	}
	format := e.formatFlag(cmd)
	cmd.RunE = e.begin(func(cmd *cobra.Command, args []string) error {
		r, err := e.openReading(args[0])
		if err != nil {
			return err
		}
		list, err := r.list()
		if err = errors.Join(err, r.store.Close()); err != nil {
			return err
		}
		if format.text == "json" {
			return e.printJSON(map[string]any{"checkpoints": list})
		}
		rows := [][]string{{"NUMBER", "AT", "WRITTEN", "SIZE", "SHARED", "DIGEST", "PARENT", "NODES", "REGIONS", "ENTITIES", "PENDING"}}
		for _, c := range list {
			number := strconv.FormatUint(c.Number, 10)
			if c.GivenUp {
				number += " (given up)"
			}
			parent := ""
			if c.Parent > 0 {
				parent = strconv.FormatUint(c.Parent, 10)
			}
			rows = append(rows, []string{number, c.at.String(), c.Written, size(c.WrittenBytes), size(c.SharedBytes), c.Digest, parent,
				strconv.Itoa(c.Nodes), strconv.Itoa(c.Regions), summary.Group(c.Entities), summary.Group(c.Events)})
		}
		return e.table(rows)
	})
	return cmd
}

func (r *reading) list() ([]checkpointJSON, error) {
	list := []checkpointJSON{}
	for _, m := range r.store.Manifests() {
		meta, err := metaOf(m)
		if err != nil {
			return nil, err
		}
		written, shared, err := r.store.Size(m.Number)
		if err != nil {
			return nil, err
		}
		list = append(list, checkpointJSON{
			Number: m.Number, Parent: m.Parent, At: m.At.Seconds(), Written: m.Written.UTC().Format(time.RFC3339),
			WrittenBytes: written, SharedBytes: shared, Digest: meta.Digest, Nodes: meta.Nodes, Regions: meta.Regions,
			Entities: meta.Entities, Events: meta.Events, GivenUp: r.settings.isDropped(m.Number), at: m.At,
		})
	}
	return list, nil
}

// size is a number of bytes for people.
func size(n uint64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

// each reads every region of a checkpoint.
func (r *reading) each(ctx context.Context, p *sim.Program, m *checkpoint.Manifest, entity func(*node.SavedEntity) error, event func(*node.SavedEvent) error) error {
	regions, err := regionsOf(r.store, m)
	if err != nil {
		return err
	}
	for _, g := range regions {
		if _, err := node.ReadSaved(ctx, p, m.At, g.chunks(r.store, m.Number), entity, event); err != nil {
			return fmt.Errorf("checkpoint %d, region %d: %w", m.Number, g.Region, err)
		}
	}
	return nil
}

// entityJSON is an entity in the output of checkpoint show -o json; keys and their order stay.
type entityJSON struct {
	Checkpoint uint64      `json:"checkpoint"`
	At         float64     `json:"at_s"`
	Entity     uint64      `json:"entity"`
	Kind       string      `json:"kind"`
	State      string      `json:"state"`
	Position   *[3]float64 `json:"position,omitempty"`
	Hidden     bool        `json:"hidden,omitempty"`
	Sequence   uint64      `json:"sequence"`
	Last       float64     `json:"last_event_s"`
	Digest     string      `json:"digest"`
	Pending    []eventJSON `json:"pending"`
}

type eventJSON struct {
	Time      float64 `json:"time_s"`
	Event     string  `json:"event"`
	From      uint64  `json:"from"`
	Priority  string  `json:"priority"`
	Cancelled bool    `json:"cancelled,omitempty"`

	at sim.Time
}

func (e *env) checkpointShow() *cobra.Command {
	at := "latest"
	cmd := &cobra.Command{
		Use:   "show DIR ENTITY [flags]",
		Short: "Show an entity as a checkpoint has it",
		Long: `Shows the entity with the number ENTITY as a checkpoint of the run in DIR has it: its state, where it is, and the
events that wait for it.`,
		Args: exactly(2),
	}
	format := e.formatFlag(cmd)
	cmd.Flags().StringVar(&at, "at", at, "the checkpoint: its number `N`, or latest")
	cmd.RunE = e.begin(func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil || id == 0 {
			return usagef("entity %q: use the number of an entity, from 1 on", args[1])
		}
		r, err := e.openReading(args[0])
		if err != nil {
			return err
		}
		shown, last, err := r.entity(cmd.Context(), e, at, sim.EntityID(id))
		if err = errors.Join(err, r.store.Close()); err != nil {
			return err
		}
		if format.text == "json" {
			return e.printJSON(shown)
		}
		return e.printEntity(shown, last)
	})
	return cmd
}

// entity finds an entity in a checkpoint.
func (r *reading) entity(ctx context.Context, e *env, at string, id sim.EntityID) (shown *entityJSON, last sim.Time, err error) {
	m, err := r.one(at)
	if err != nil {
		return nil, 0, err
	}
	p, err := r.program(ctx, e)
	if err != nil {
		return nil, 0, err
	}
	pending := []eventJSON{}
	err = r.each(ctx, p, m, func(s *node.SavedEntity) error {
		if s.ID != id {
			return nil
		}
		state, err := node.StateText(p, s)
		if err != nil {
			return err
		}
		last = s.Last
		shown = &entityJSON{Checkpoint: m.Number, At: m.At.Seconds(), Entity: uint64(id), Kind: p.Kinds[s.Kind].Name, State: state,
			Hidden: s.Hidden, Sequence: s.Sequence, Last: s.Last.Seconds(), Digest: fmt.Sprintf("%016x", s.Digest)}
		if p.Space.Kind != sim.NoSpace {
			shown.Position = &[3]float64{s.Position.X, s.Position.Y, s.Position.Z}
		}
		return nil
	}, func(s *node.SavedEvent) error {
		if s.To == id {
			pending = append(pending, eventJSON{s.Time.Seconds(), p.EventName(s.Event), uint64(s.From), s.Priority.String(), s.Cancelled, s.Time})
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if shown == nil {
		return nil, 0, usagef("there is no entity %d in checkpoint %d, which is at %v", id, m.Number, m.At)
	}
	shown.Pending = pending
	return shown, last, nil
}

func (e *env) printEntity(s *entityJSON, last sim.Time) error {
	facts := [][2]string{
		{"checkpoint", strconv.FormatUint(s.Checkpoint, 10)},
		{"at", sim.Time(sim.FromSeconds(s.At)).String()},
		{"entity", strconv.FormatUint(s.Entity, 10)},
		{"kind", s.Kind},
		{"state", s.State},
	}
	if p := s.Position; p != nil {
		facts = append(facts, [2]string{"position", fmt.Sprintf("%g, %g, %g", p[0], p[1], p[2])})
	}
	facts = append(facts, [2]string{"sequence", strconv.FormatUint(s.Sequence, 10)}, [2]string{"last event", last.String()},
		[2]string{"digest", s.Digest}, [2]string{"pending", fmt.Sprintf("%d events", len(s.Pending))})
	for _, f := range facts {
		if _, err := fmt.Fprintf(e.stdout, "%-11s %s\n", f[0], visible(f[1])); err != nil {
			return err
		}
	}
	if len(s.Pending) == 0 {
		return nil
	}
	rows := [][]string{{"TIME", "EVENT", "FROM", "PRIORITY", "CANCELLED"}}
	for _, x := range s.Pending {
		cancelled := ""
		if x.Cancelled {
			cancelled = "yes"
		}
		rows = append(rows, []string{x.at.String(), x.Event, strconv.FormatUint(x.From, 10), x.Priority, cancelled})
	}
	return e.table(rows)
}

func (e *env) checkpointPrune() *cobra.Command {
	keep, every := count{n: 0, most: mostKept}, count{most: mostKept}
	cmd := &cobra.Command{
		Use:   "prune DIR --keep K [flags]",
		Short: "Remove old checkpoints",
		Long:  "Removes the checkpoints of the run in DIR but for the K newest, and frees the space that they took.",
		Args:  exactly(1),
	}
	format := e.formatFlag(cmd)
	cmd.Flags().Var(&keep, "keep", "how many of the newest are kept")
	cmd.Flags().Var(&every, "keep-every", "keep the first checkpoint at or after each multiple of N as well")
	cmd.RunE = e.begin(func(cmd *cobra.Command, args []string) (err error) {
		if keep.n == 0 {
			return usagef("prune needs --keep, how many of the newest checkpoints are kept")
		}
		d, err := openRunDir(args[0], true)
		if err != nil {
			return err
		}
		defer func() { err = joined(err, d.release()) }()
		s, err := d.store(false)
		if err != nil {
			return err
		}
		gone, err := s.Prune(keep.n, every.n)
		kept := len(s.Manifests())
		if err = errors.Join(err, s.Close()); err != nil {
			return err
		}
		if format.text == "json" {
			return e.printJSON(map[string]any{"removed": append([]uint64{}, gone...), "kept": kept})
		}
		_, err = fmt.Fprintf(e.stdout, "removed %d checkpoints, kept %d\n", len(gone), kept)
		return err
	})
	return cmd
}

// checkedJSON is a checkpoint in the output of checkpoint verify -o json; keys and their order stay.
type checkedJSON struct {
	Number   uint64   `json:"number"`
	At       float64  `json:"at_s"`
	Intact   bool     `json:"intact"`
	Problems []string `json:"problems"`

	at sim.Time
}

// errDamaged ends a verification that has told what is damaged.
var errDamaged = errors.New("something is damaged")

func (e *env) checkpointVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify DIR [flags]",
		Short: "Read all checkpoints and check them",
		Long: `Reads every checkpoint of the run in DIR whole, checks all checksums, makes the digest of every region anew from its
entities and compares it with what was written down, and looks whether the recorded files are there that a resume needs.

Exit codes: 0 all are intact, 1 something is damaged, 2 bad usage.`,
		Args: exactly(1),
	}
	format := e.formatFlag(cmd)
	cmd.RunE = e.begin(func(cmd *cobra.Command, args []string) error {
		list, err := e.verify(cmd.Context(), args[0])
		if damage := (*checkpoint.DamageError)(nil); errors.As(err, &damage) {
			if format.text == "json" {
				if err := e.printJSON(map[string]any{"intact": false, "problem": damage.Error(), "checkpoints": list}); err != nil {
					return err
				}
				return errDamaged
			}
			return damage // not one of usage
		}
		if err != nil {
			return err
		}
		return e.printVerified(list, format.text)
	})
	return cmd
}

func (e *env) printVerified(list []checkedJSON, format string) error {
	intact := true
	for _, c := range list {
		intact = intact && c.Intact
	}
	if format == "json" {
		if err := e.printJSON(map[string]any{"intact": intact, "checkpoints": list}); err != nil {
			return err
		}
	} else {
		for _, c := range list {
			text := "intact"
			if !c.Intact {
				text = "damaged: " + strings.Join(c.Problems, "; ")
			}
			if _, err := fmt.Fprintf(e.stdout, "checkpoint %d at %v: %s\n", c.Number, c.at, visible(text)); err != nil {
				return err
			}
		}
	}
	if !intact {
		return errDamaged
	}
	return nil
}

// verify checks all checkpoints of a run.
func (e *env) verify(ctx context.Context, dir string) (list []checkedJSON, err error) {
	list = []checkedJSON{}
	r, err := e.openReading(dir)
	if err != nil {
		return list, err
	}
	defer func() { err = joined(err, r.store.Close()) }()
	p, err := r.program(ctx, e)
	if err != nil {
		return list, err
	}
	ended := r.hasEnded()
	for _, m := range r.store.Manifests() {
		c := checkedJSON{Number: m.Number, At: m.At.Seconds(), Problems: []string{}, at: m.At}
		if err := r.verifyOne(ctx, p, m); err != nil {
			c.Problems = append(c.Problems, err.Error())
		}
		if !ended && !r.settings.isDropped(m.Number) {
			if err := r.verifyRecording(m); err != nil {
				c.Problems = append(c.Problems, err.Error())
			}
		}
		c.Intact = len(c.Problems) == 0
		list = append(list, c)
		if ctx.Err() != nil {
			return list, errEarly
		}
	}
	return list, nil
}

// verifyOne reads a checkpoint and makes its digests anew.
func (r *reading) verifyOne(ctx context.Context, p *sim.Program, m *checkpoint.Manifest) error {
	meta, err := metaOf(m)
	if err != nil {
		return err
	}
	regions, err := regionsOf(r.store, m)
	if err != nil {
		return err
	}
	sum := uint64(0)
	for _, g := range regions {
		got, err := node.ReadSaved(ctx, p, m.At, g.chunks(r.store, m.Number), nil, nil)
		switch {
		case err != nil:
			return fmt.Errorf("region %d: %w", g.Region, err)
		case got.Digest != g.Digest || got.Entities != g.Entities:
			return fmt.Errorf("region %d has digest %016x and %d entities, and was written with %016x and %d", g.Region, got.Digest, got.Entities, g.Digest, g.Entities)
		}
		sum += got.Digest
	}
	if digest := fmt.Sprintf("%016x", sum); digest != meta.Digest {
		return fmt.Errorf("the digest is %s, and was %s", digest, meta.Digest)
	}
	return nil
}

// verifyRecording checks the state of the recording and its files.
func (r *reading) verifyRecording(m *checkpoint.Manifest) error {
	state, err := readRecording(r.store, m.Number)
	if err != nil {
		return err
	}
	if _, err := record.Files(state); err != nil {
		return err
	}
	return checkRecording(r.out(), state)
}
