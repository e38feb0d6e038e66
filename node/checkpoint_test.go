package node_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/sim"
)

// shelf keeps the checkpoints of a run in memory.
type shelf struct {
	mu    sync.Mutex
	last  uint64
	taken []*kept
}

// kept is a checkpoint.
type kept struct {
	number  uint64
	at      sim.Time
	regions []node.CapturedRegion
	chunks  map[int][]chunkOf
	lines   int // of the tape before it
}

type chunkOf struct {
	kind byte
	data []byte
}

func (s *shelf) next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// save writes a checkpoint; fail gives it up in the middle.
func (s *shelf) save(k *node.Capture, lines int, fail bool) error {
	c := &kept{number: k.Number(), at: k.At(), chunks: map[int][]chunkOf{}, lines: lines}
	n := 0
	regions, err := k.Write(func(region int, kind byte, data []byte) error {
		if n++; fail && n == 3 {
			return fmt.Errorf("no more room")
		}
		c.chunks[region] = append(c.chunks[region], chunkOf{kind, data})
		return nil
	})
	if err != nil || fail {
		return fmt.Errorf("given up: %w", err)
	}
	c.regions = regions
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, c)
	return nil
}

// read yields the chunks of a region of a checkpoint.
func (s *shelf) read(c *kept, region node.CapturedRegion) node.RegionChunks {
	return func(yield func(number uint64, kind byte, data []byte) error) error {
		for _, k := range slices.Backward(s.taken) {
			if k.number > c.number || k.number < region.Base {
				continue
			}
			for _, x := range k.chunks[region.Region] {
				if err := yield(k.number, x.kind, x.data); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func (s *shelf) restore(c *kept) *node.Restore {
	r := &node.Restore{At: c.at}
	for _, region := range c.regions {
		r.Regions = append(r.Regions, s.read(c, region))
	}
	return r
}

func (c *kept) digest() (sum uint64) {
	for _, r := range c.regions {
		sum += r.Digest
	}
	return sum
}

// TestCheckpointsResumeToTheSameEnd takes checkpoints of random models, some of which are given up, and resumes
// each on several numbers of regions: digest, counts and observations are those of the undisturbed run. The
// digest of a checkpoint is that of a run that ends at its time.
func TestCheckpointsResumeToTheSameEnd(t *testing.T) {
	seeds := 60
	if n, err := strconv.Atoi(os.Getenv("STORM_SEEDS")); err == nil {
		seeds = n
	}
	taken, resumed, later := 0, 0, 0
	for seed := range uint64(seeds) {
		want := runReference(stormProgram(t, seed))
		draw := sim.NewRand(seed, 5)
		o := node.Options{Regions: []int{1, 2, 3, 8}[draw.IntN(4)], Workers: 2, Trace: true}
		s := &shelf{}
		got := &tape{}
		o.Sink = got
		due := func() bool { return true }
		if seed%2 == 0 {
			due = nil
		}
		o.Checkpoints = &node.Checkpoints{
			Every: sim.Duration(1+draw.IntN(4)) * sim.Second, Number: s.next, Due: due,
			Snapshot: func() ([]byte, error) { return []byte(strconv.Itoa(len(got.lines))), nil },
			Save: func(k *node.Capture, sink []byte) error {
				lines, _ := strconv.Atoi(string(sink))
				return s.save(k, lines, k.Number()%4 == 3)
			},
		}
		out, err := node.RunPatient(context.Background(), stormProgram(t, seed), o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		equalsReference(t, fmt.Sprintf("seed %d with checkpoints", seed), out, got, want)
		taken += len(s.taken)
		for i, c := range s.taken {
			if i > 0 {
				later++
			}
			if c.at > 0 {
				cut, err := sim.NewProgram(stormModel(), first(drawStorm(seed)), sim.Space{}, seed, c.at)
				if err != nil {
					t.Fatal(err)
				}
				if end := mustRun(t, cut, node.Options{}); end.Digest != c.digest() {
					t.Errorf("seed %d: checkpoint %d at %v has digest %x, a run that ends there %x", seed, c.number, c.at, c.digest(), end.Digest)
				}
			}
			savedAddsUp(t, stormProgram(t, seed), s, c)
			if draw.IntN(3) > 0 && i != len(s.taken)-1 {
				continue
			}
			for _, regions := range []int{1, 3} {
				resumed++
				tail := &tape{lines: slices.Clone(got.lines[:c.lines])}
				name := fmt.Sprintf("seed %d, checkpoint %d at %v of %d regions resumed on %d", seed, c.number, c.at, o.Regions, regions)
				out, err := node.Run(context.Background(), stormProgram(t, seed), node.Options{Regions: regions, Workers: 2, Trace: true, Sink: tail, Restore: s.restore(c)})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				equalsReference(t, name, out, tail, want)
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d checkpoints, %d of them after another, resumed %d times", taken, later, resumed)
	if later == 0 || resumed == 0 {
		t.Error("too few checkpoints")
	}
}

// savedAddsUp checks that what is read from a checkpoint adds up to what was told of it when it was written.
func savedAddsUp(t *testing.T, p *sim.Program, s *shelf, c *kept) {
	t.Helper()
	for _, r := range c.regions {
		pending := uint64(0)
		got, err := node.ReadSaved(context.Background(), p, c.at, s.read(c, r), func(e *node.SavedEntity) error {
			_, err := node.StateText(p, e)
			return err
		}, func(e *node.SavedEvent) error {
			pending++
			return nil
		})
		if err != nil || got.Digest != r.Digest || got.Entities != r.Entities || got.Events > r.Events || pending > got.Events {
			t.Errorf("checkpoint %d, region %d: %+v with %d events, %v; written %+v", c.number, r.Region, got, pending, err, r)
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

func equalsReference(t *testing.T, name string, out *node.Outcome, got *tape, want refOutcome) {
	t.Helper()
	if out.Digest != want.digest || out.Events != want.events || out.Entities != want.entities {
		t.Errorf("%s: digest %x after %d events with %d entities; reference %x, %d, %d",
			name, out.Digest, out.Events, out.Entities, want.digest, want.events, want.entities)
	}
	if i := firstDifference(got.lines, want.tape.lines); i >= 0 {
		t.Errorf("%s: observation %d of %d (reference %d):\n%s\nreference:\n%s", name, i,
			len(got.lines), len(want.tape.lines), lineAt(got.lines, i), lineAt(want.tape.lines, i))
	}
}

// TestSuspended interrupts random models at any moment: the last checkpoint resumes to the same end.
func TestSuspended(t *testing.T) {
	suspended := 0
	for seed := range uint64(60) {
		want := runReference(stormProgram(t, seed))
		s := &shelf{}
		got := &tape{}
		ctx, cancel := context.WithCancel(context.Background())
		stop := time.AfterFunc(time.Duration(seed%12)*200*time.Microsecond, cancel)
		_, err := node.Run(ctx, stormProgram(t, seed), node.Options{Regions: 1 + int(seed%4), Trace: true, Sink: got, Checkpoints: &node.Checkpoints{
			Final: true, Number: s.next, Save: func(k *node.Capture, _ []byte) error { return s.save(k, len(got.lines), false) },
		}})
		stop.Stop()
		cancel()
		if err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		for _, c := range s.taken {
			suspended++
			tail := &tape{lines: got.lines}
			out := mustRun(t, stormProgram(t, seed), node.Options{Regions: 2, Trace: true, Sink: tail, Restore: s.restore(c)})
			equalsReference(t, fmt.Sprintf("seed %d suspended at %v", seed, c.at), out, tail, want)
		}
	}
	t.Logf("%d runs were suspended", suspended)
}
