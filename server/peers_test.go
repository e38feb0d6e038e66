package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/cluster/link"
)

// wires carry payloads between peers in a test; while full, they take nothing.
type wires struct {
	mu   sync.Mutex
	to   map[string]*peers
	from string
	full bool
	lose bool
}

// Boot implements links.
func (w *wires) Boot(string) string { return "" }

// Send implements links.
func (w *wires) Send(to string, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.full:
		return fmt.Errorf("test: %w", link.ErrFull)
	case w.lose:
		return nil
	case w.to[to] == nil:
		return errors.New("no such node")
	}
	return w.to[to].hear(w.from, payload[0], payload[1:])
}

// twoPeers are nodes a and b; b answers with serve.
func twoPeers(ctx context.Context, serve func(context.Context, *question) (*answer, error)) (a, b *peers, w *wires) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	a, b = newPeers(ctx, log, serve), newPeers(ctx, log, serve)
	to := map[string]*peers{"a": a, "b": b}
	w = &wires{to: to, from: "a"}
	a.links, b.links = w, &wires{to: to, from: "b"}
	return a, b, w
}

func TestPeersAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a, b, _ := twoPeers(ctx, func(_ context.Context, q *question) (*answer, error) {
		if q.Job == "" {
			return nil, api.Errorf(api.NotFound, "no job")
		}
		return &answer{Data: []byte(q.Job)}, nil
	})
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			job := fmt.Sprint("job-", i)
			if got, err := a.ask(ctx, "b", question{Ask: askFile, Job: job}); err != nil || string(got.Data) != job {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	group.Wait()
	var told *api.Error
	if _, err := a.ask(ctx, "b", question{}); !errors.As(err, &told) || told.Kind != api.NotFound || told.Text != "no job" {
		t.Errorf("%v", err)
	}
	if _, err := a.ask(ctx, "c", question{}); !errors.As(err, &told) || told.Kind != api.Unavailable {
		t.Errorf("%v", err)
	}
	cancel()
	a.wait()
	b.wait()
}

// An answer that does not come, a link that stays full and the end of the node end a question.
func TestPeersGiveUp(t *testing.T) {
	for _, full := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, _, w := twoPeers(t.Context(), nil)
			w.full, w.lose = full, !full
			start := time.Now()
			var told *api.Error
			if _, err := a.ask(t.Context(), "b", question{}); !errors.As(err, &told) || told.Kind != api.Unavailable {
				t.Errorf("%v", err)
			}
			if took := time.Since(start); took < askFor || took > askFor+time.Second {
				t.Errorf("it took %v", took)
			}
			if len(a.asked) > 0 {
				t.Error("the question is kept")
			}
		})
	}
}

// What comes is never taken for the answer of another node, and never ends in a panic.
func TestPeersTakeNoOthersAnswers(t *testing.T) {
	a, _, w := twoPeers(t.Context(), nil)
	w.lose = true
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := a.ask(ctx, "b", question{})
		done <- err
	}()
	for {
		a.mu.Lock()
		n := len(a.asked)
		a.mu.Unlock()
		if n > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := a.hear("c", payloadAnswer, []byte(`{"id":1}`)); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("the answer of another node was taken")
	}
}

func FuzzPeersHear(f *testing.F) {
	f.Add(true, []byte(`{"id":1,"ask":"file","job":"job-1","file":"../x","offset":-1}`))
	f.Add(false, []byte(`{"id":1,"data":"AAAA"}`))
	f.Add(true, []byte(strings.Repeat("[", 5000)))
	f.Fuzz(func(t *testing.T, asks bool, data []byte) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := &Node{book: newLogbook(), store: store{t.TempDir()}, config: Config{Name: "a"}}
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		p := newPeers(ctx, log, func(ctx context.Context, q *question) (*answer, error) {
			if q.Ask == askProgress {
				return &answer{}, nil
			}
			return n.serve(ctx, q)
		})
		p.links = &wires{lose: true}
		kind := payloadAnswer
		if asks {
			kind = payloadQuestion
		}
		_ = p.hear("b", kind, data)
		p.wait()
	})
}

// The logbook hands out every line once and in order, or those that it still keeps.
func TestLogbook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newLogbook()
		n := rapid.IntRange(0, 3*keptLines/2).Draw(t, "lines")
		for i := range n {
			b.add(api.LogLine{Text: fmt.Sprint(i)})
		}
		last := rapid.IntRange(0, keptLines).Draw(t, "last")
		at := b.before(last)
		first := n - min(last, n)
		for i := first; i < n; {
			lines, next, _ := b.after(at, rapid.IntRange(1, 5000).Draw(t, "most"))
			if len(lines) == 0 || next <= at {
				t.Fatalf("nothing after %d of %d", at, n)
			}
			for _, l := range lines {
				if l.Text != fmt.Sprint(i) {
					t.Fatalf("line %s, not %d", l.Text, i)
				}
				i++
			}
			at = next
		}
		if lines, _, _ := b.after(at, 10); len(lines) > 0 {
			t.Fatalf("%d lines too many", len(lines))
		}
		if lines, _, _ := b.after(0, 1); n > keptLines && lines[0].Text != fmt.Sprint(n-keptLines) {
			t.Fatalf("the oldest line is %s", lines[0].Text)
		}
	})
}

func TestLogFieldsOfGroups(t *testing.T) {
	b := newLogbook()
	log := slog.New(&bookHandler{book: b}).With("a", 1).WithGroup("g").With("b", 2)
	log.Info("hello", "c", 3, slog.Group("h", "d", 4))
	lines, _, _ := b.after(0, 1)
	if got := fmt.Sprint(lines[0].Fields); got != "[{a 1} {g.b 2} {g.c 3} {g.h.d 4}]" {
		t.Error(got)
	}
}
