package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/checkpoint"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// diffJSON is the output of checkpoint diff -o json; keys and their order stay.
type diffJSON struct {
	From     uint64  `json:"from"`
	To       uint64  `json:"to"`
	FromTime float64 `json:"from_s"`
	ToTime   float64 `json:"to_s"`
	Added    someIDs `json:"added"`
	Removed  someIDs `json:"removed"`
	Changed  someIDs `json:"changed"`
	Same     int     `json:"unchanged"`
}

// someIDs are entities: how many, and the first of them.
type someIDs struct {
	Count int      `json:"count"`
	First []uint64 `json:"first"`
}

func (e *env) checkpointDiff() *cobra.Command {
	limit := count{n: 10, most: mostKept}
	cmd := &cobra.Command{
		Use:   "diff DIR A B [flags]",
		Short: "Tell what differs between two checkpoints",
		Long:  "Tells which entities were added, removed and changed from checkpoint A to checkpoint B of the run in DIR.",
		Args:  exactly(3),
	}
	format := e.formatFlag(cmd)
	cmd.Flags().Var(&limit, "limit", "how many entities of each sort are named")
	cmd.RunE = e.begin(func(cmd *cobra.Command, args []string) error {
		r, err := e.openReading(args[0])
		if err != nil {
			return err
		}
		d, err := r.diff(cmd.Context(), e, args[1], args[2], limit.n)
		if err = errors.Join(err, r.store.Close()); err != nil {
			return err
		}
		if format.text == "json" {
			return e.printJSON(d)
		}
		return e.printDiff(d)
	})
	return cmd
}

// diff compares the entities of two checkpoints by their digests.
func (r *reading) diff(ctx context.Context, e *env, from, to string, limit int) (*diffJSON, error) {
	a, err := r.one(from)
	if err != nil {
		return nil, err
	}
	b, err := r.one(to)
	if err != nil {
		return nil, err
	}
	p, err := r.program(ctx, e)
	if err != nil {
		return nil, err
	}
	was, err := r.digests(ctx, p, a)
	if err != nil {
		return nil, err
	}
	now, err := r.digests(ctx, p, b)
	if err != nil {
		return nil, err
	}
	d := &diffJSON{From: a.Number, To: b.Number, FromTime: a.At.Seconds(), ToTime: b.At.Seconds()}
	var added, removed, changed []uint64
	for _, id := range slices.Sorted(maps.Keys(now)) {
		switch digest, ok := was[id]; {
		case !ok:
			added = append(added, id)
		case digest != now[id]:
			changed = append(changed, id)
		default:
			d.Same++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(was)) {
		if _, ok := now[id]; !ok {
			removed = append(removed, id)
		}
	}
	d.Added, d.Removed, d.Changed = some(added, limit), some(removed, limit), some(changed, limit)
	return d, nil
}

func some(ids []uint64, limit int) someIDs {
	return someIDs{len(ids), append([]uint64{}, ids[:min(len(ids), limit)]...)}
}

// digests returns the digest of each entity of a checkpoint.
func (r *reading) digests(ctx context.Context, p *sim.Program, m *checkpoint.Manifest) (map[uint64]uint64, error) {
	all := make(map[uint64]uint64)
	err := r.each(ctx, p, m, func(s *node.SavedEntity) error {
		all[uint64(s.ID)] = s.Digest
		return nil
	}, nil)
	return all, err
}

func (e *env) printDiff(d *diffJSON) error {
	if _, err := fmt.Fprintf(e.stdout, "from checkpoint %d at %v to %d at %v\n", d.From, sim.Time(sim.FromSeconds(d.FromTime)), d.To, sim.Time(sim.FromSeconds(d.ToTime))); err != nil {
		return err
	}
	for _, x := range []struct {
		name string
		ids  someIDs
	}{{"added", d.Added}, {"removed", d.Removed}, {"changed", d.Changed}} {
		line := fmt.Sprintf("%-10s %d", x.name, x.ids.Count)
		for i, id := range x.ids.First {
			if i == 0 {
				line += ":"
			}
			line += " " + strconv.FormatUint(id, 10)
		}
		if x.ids.Count > len(x.ids.First) {
			line += " ..."
		}
		if _, err := fmt.Fprintln(e.stdout, line); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(e.stdout, "%-10s %d\n", "unchanged", d.Same)
	return err
}
