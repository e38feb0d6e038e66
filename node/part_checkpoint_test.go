package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// checkpointed is a troupe that takes checkpoints at its cuts, written bit by bit while it runs on.
type checkpointed struct {
	*troupe
	shelf *shelf
	got   *tape
	// open is the checkpoint being written, by member.
	open *kept
	left int
	bad  bool
}

func (c *checkpointed) cutEnded(at sim.Time) {
	if c.open != nil || c.rand.Bernoulli(0.3) {
		return
	}
	c.must(c.merger.Floor(at, c.nextObs))
	n := c.shelf.next()
	k := &kept{number: n, at: at, chunks: map[int][]chunkOf{}, lines: len(c.got.lines)}
	c.open, c.left, c.bad = k, len(c.parts), c.rand.Bernoulli(0.2)
	var captures []*node.Capture
	for _, p := range c.parts {
		capture, err := p.Checkpoint(n, at)
		c.must(err)
		captures = append(captures, capture)
		c.also = append(c.also, func() bool {
			more, err := capture.Next(func(region int, kind byte, data []byte) error {
				if c.bad && c.rand.Bernoulli(0.1) {
					return errors.New("no room")
				}
				k.chunks[region] = append(k.chunks[region], chunkOf{kind, data})
				return nil
			})
			if c.bad = c.bad || err != nil; more && err == nil {
				return true
			}
			k.regions = append(k.regions, capture.Regions()...)
			if c.left--; c.left == 0 {
				c.written(captures)
			}
			return false
		})
	}
}

func (c *checkpointed) written(captures []*node.Capture) {
	for _, capture := range captures {
		if c.bad {
			capture.Abandon()
		} else {
			capture.Keep()
		}
	}
	if !c.bad {
		c.shelf.taken = append(c.shelf.taken, c.open)
	}
	c.open = nil
}

// restored is a troupe that begins from a checkpoint, whose regions its members read as their sources.
func restored(t *testing.T, seed uint64, members, each int, s *shelf, k *kept, sink sim.Sink) *troupe {
	c := newTroupeOf(t, seed, members, each, func() *sim.Program { return stormProgram(t, seed) }, sink, func(_ int, o *node.PartOptions) {
		o.Restore = &node.RestoredFrom{At: k.at}
	})
	given := make([][][]byte, members*members)
	for m, p := range c.parts {
		var mine []node.RegionChunks
		for i, r := range k.regions {
			if i%members == m {
				mine = append(mine, s.read(k, r))
			}
		}
		c.must(p.Restore(context.Background(), mine, func(to int, data []byte, _ bool) error {
			given[m*members+to] = append(given[m*members+to], slices.Clone(data))
			return nil
		}))
	}
	begin := int(c.rand.IntN(int64(len(given))))
	for i := range given {
		i = (i + begin) % len(given)
		for _, data := range given[i] {
			c.must(c.parts[i%members].TakeRestored(i/members, data))
		}
	}
	for _, p := range c.parts {
		c.must(p.EndRestore())
	}
	c.newSolver()
	c.must(c.solver.Resume(make([]sim.Time, len(c.owner)), c.nexts()))
	c.cut(k.at)
	return c
}

// TestPartsResume takes checkpoints of random models in parts, under random schedules in which the writing of a
// checkpoint goes on between events, and resumes them in other parts.
func TestPartsResume(t *testing.T) {
	seeds := 40
	if n, err := strconv.Atoi(os.Getenv("STORM_SEEDS")); err == nil {
		seeds = n
	}
	taken, resumed := 0, 0
	for seed := range uint64(seeds) {
		want := runReference(stormProgram(t, seed))
		got := &tape{}
		s := &shelf{}
		members := 1 + int(seed%3)
		c := &checkpointed{shelf: s, got: got}
		c.troupe = newTroupeOf(t, seed, members, 2, func() *sim.Program { return stormProgram(t, seed) }, got, func(_ int, o *node.PartOptions) {
			o.Checkpoints = true
		})
		c.after = c.cutEnded
		out := c.run()
		equalsReference(t, fmt.Sprintf("seed %d with checkpoints", seed), out, got, want)
		taken += len(s.taken)
		for i, k := range s.taken {
			if i%3 != 0 && i != len(s.taken)-1 {
				continue
			}
			for _, shape := range [][2]int{{1, 1}, {2, 2}, {3, 1}} {
				tail := &tape{lines: slices.Clone(got.lines[:k.lines])}
				again := restored(t, seed, shape[0], shape[1], s, k, tail).run()
				equalsReference(t, fmt.Sprintf("seed %d, checkpoint %d at %v of %d members resumed on %d", seed, k.number, k.at, members, shape[0]), again, tail, want)
				resumed++
			}
		}
		if t.Failed() {
			return
		}
	}
	if t.Logf("%d checkpoints, resumed %d times", taken, resumed); resumed < 100 {
		t.Error("too few checkpoints")
	}
}

// FuzzSavedChunk reads and restores chunks of a checkpoint that were altered: an error, never a panic.
func FuzzSavedChunk(f *testing.F) {
	const seed = 4
	s := &shelf{}
	for _, c := range []uint64{seed, 18} {
		out, err := node.RunPatient(context.Background(), stormProgram(f, c), node.Options{Regions: 2, Checkpoints: &node.Checkpoints{
			Every: 3 * sim.Second, Number: s.next, Save: func(k *node.Capture, _ []byte) error { return s.save(k, 0, false) },
		}})
		if err != nil || out == nil {
			f.Fatal(err)
		}
	}
	for _, k := range s.taken {
		for region := range 2 {
			for _, x := range k.chunks[region] {
				f.Add(x.kind, x.data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		at := sim.Time(3 * sim.Second)
		chunks := func(yield func(number uint64, kind byte, data []byte) error) error { return yield(1, kind, data) }
		p := stormProgram(t, seed)
		_, _ = node.ReadSaved(context.Background(), p, at, chunks, func(e *node.SavedEntity) error {
			_, err := node.StateText(p, e)
			return err
		}, nil)
		part, err := node.NewPart(context.Background(), stormProgram(t, seed), node.PartOptions{
			Owner: []int{0, 1}, Me: 0, Workers: 1, Restore: &node.RestoredFrom{At: at},
		})
		if err != nil {
			t.Skip(err)
		}
		_ = part.Restore(context.Background(), []node.RegionChunks{chunks}, func(int, []byte, bool) error { return nil })
		_ = part.TakeRestored(1, data)
		_ = part.EndRestore()
	})
}
