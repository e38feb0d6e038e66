package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/simnode/simnode/checkpoint"
	holding "github.com/simnode/simnode/models/phold"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/sim"
)

// pair is two nodes that keep checkpoints for each other.
type pair struct {
	a, b *keeper
	mu   sync.Mutex
	// spoil, if not nil, changes what goes from a to b; it may drop it.
	spoil func(payload []byte) []byte
}

func newPair(t *testing.T) *pair {
	p := &pair{}
	hand := func(to **keeper, from string, spoiled bool) func(context.Context, string, []byte) error {
		return func(_ context.Context, _ string, payload []byte) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if spoiled && p.spoil != nil {
				if payload = p.spoil(bytes.Clone(payload)); payload == nil {
					return nil
				}
			}
			return (*to).hear(from, payload[1:])
		}
	}
	options := func(name string) checkpoint.Options {
		return checkpoint.Options{Job: "job-1", Node: name, Reserve: 1 << 20}
	}
	log := slog.New(slog.DiscardHandler)
	p.a = newKeeper(t.TempDir(), "job-1", options("a"), log, hand(&p.b, "a", true))
	p.b = newKeeper(t.TempDir(), "job-1", options("b"), log, hand(&p.a, "b", false))
	p.a.begin(7)
	p.b.begin(7)
	t.Cleanup(func() {
		if err := errors.Join(p.a.close(), p.b.close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// captured is a checkpoint of a run at its beginning.
func captured(t *testing.T, n uint64) (*sim.Program, *node.Capture) {
	params := &holding.Params{Entities: 5000, Population: 1, Lookahead: 100 * sim.Millisecond, Mean: sim.Second, Remote: 0.5, Destinations: "uniform", Radius: 3}
	program := func() *sim.Program {
		prog, err := sim.NewProgram(holding.Model(), params, sim.Space{}, 1, sim.Time(sim.Second))
		if err != nil {
			t.Fatal(err)
		}
		return prog
	}
	part, err := node.NewPart(context.Background(), program(), node.PartOptions{Owner: []int{0, 0}, Checkpoints: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := part.Checkpoint(n, 0)
	if err != nil {
		t.Fatal(err)
	}
	return program(), c
}

func recordedFile(t *testing.T, text string) *recorded {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rows.csv.partial"), []byte(text+"what came after"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &recorded{dir: dir, state: bytes.Repeat([]byte("state"), 100_000), files: []record.FileState{{Name: "rows.csv.partial", Length: int64(len(text))}}}
}

func TestPartnerHasAllOfACheckpoint(t *testing.T) {
	p := newPair(t)
	prog, c := captured(t, 3)
	rec := recordedFile(t, strings.Repeat("1,2,3\n", 100_000))
	part, err := p.a.save(context.Background(), c, 7, 0, "b", nil, rec)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := p.b.part(3, 0, part.Root)
	if err != nil {
		t.Fatal(err)
	}
	entities := uint64(0)
	for _, chunks := range p.b.regions(copied) {
		sum, err := node.ReadSaved(context.Background(), prog, 0, chunks, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		entities += sum.Entities
	}
	if entities != 5000 {
		t.Errorf("%d entities", entities)
	}
	state, err := p.b.recording(copied)
	if err != nil || !bytes.Equal(state, rec.state) {
		t.Errorf("state of the recording: %d bytes, %v", len(state), err)
	}
	own := filepath.Join(t.TempDir(), "jobs", "job-1", "files")
	if err := p.b.files(own, rec.files); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(own, "rows.csv.partial")); err != nil || int64(len(data)) != rec.files[0].Length {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if _, err := p.b.part(3, 0, "another"); err == nil {
		t.Error("a part with another root was taken")
	}
}

func TestCopiesThatCannotBeMade(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"a flipped bit": func(b []byte) []byte {
			if b[1] == copyChunks {
				b[len(b)-1] ^= 1
			}
			return b
		},
		"another epoch": func(b []byte) []byte { b[2]++; return b },
		"a chunk cut short": func(b []byte) []byte {
			if b[1] == copyChunks {
				b = b[:len(b)-3]
			}
			return b
		},
		"a file outside": func(b []byte) []byte { return bytes.Replace(b, []byte("rows.csv"), []byte("../a.csv"), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.spoil = spoil
			_, c := captured(t, 3)
			ctx, cancel := context.WithCancel(context.Background())
			if name == "another epoch" {
				go func() { p.a.begin(8); cancel() }() // nobody answers what is refused: the next epoch ends it
			}
			if part, err := p.a.save(ctx, c, 7, 0, "b", nil, recordedFile(t, "1,2\n")); err == nil {
				t.Errorf("saved %+v", part)
			}
			cancel()
		})
	}
}

func TestFault29CopyOfAnEarlierEpochIsRefused(t *testing.T) {
	p := newPair(t)
	p.b.begin(8)
	id := copyID{7, 3, 0}
	if err := p.b.hear("a", append(id.head(copyBegin, 1)[1:], '{', '}')); err == nil || !strings.Contains(err.Error(), "epoch 7") {
		t.Errorf("%v", err)
	}
}

func FuzzCopyMessage(f *testing.F) {
	id := copyID{7, 3, 1}
	f.Add(append(id.head(copyBegin, 1)[1:], `{"chain":[1,2]}`...))
	f.Add(append(id.head(copyChunks, 2)[1:], 1, 0, 1, 2, 0, 0, 0, 'a', 'b'))
	f.Add(append(id.head(copyFile, 2)[1:], 2, 0, 0, 0, '{', '}'))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseCopy(b)
		if err != nil {
			return
		}
		if again := append(m.head(m.op, m.serial)[1:], m.rest...); !bytes.Equal(again, b) {
			t.Fatalf("%x became %x", b, again)
		}
		n := 0
		if err := eachChunk(m.rest, func(_ int, _ byte, data []byte) error {
			if n += 7 + len(data); n > len(m.rest) {
				return fmt.Errorf("more than there is")
			}
			return nil
		}); err == nil && n != len(m.rest) {
			t.Fatalf("%d of %d bytes", n, len(m.rest))
		}
	})
}
