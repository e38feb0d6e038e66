package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/simnode/simnode/cluster/link"
	"github.com/simnode/simnode/control"
)

// narrow are links with room for so many payloads for each node.
type narrow struct {
	mu   sync.Mutex
	room map[string]int
	got  map[string][]string
	// boot is the process that a link leads to.
	boot map[string]string
}

// Boot implements links.
func (l *narrow) Boot(of string) string { return l.boot[of] }

// Send implements links.
func (l *narrow) Send(to string, payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to == "gone" {
		return errors.New("no such node")
	}
	if l.room[to] == 0 {
		return fmt.Errorf("test: %w", link.ErrFull)
	}
	l.room[to]--
	m, err := control.Parse(payload[1:])
	if err != nil {
		return err
	}
	l.got[to] = append(l.got[to], fmt.Sprint(m.(*control.Batch).Number))
	return nil
}

func quietLoop(l links) *loop {
	loop := newLoop("a", "boot", control.Config{}, &executor{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	loop.links = l
	return loop
}

// Messages for a node that its link has no room for wait, and go out once and in order; those for others do
// not wait for them.
func TestLoopKeepsOrderOverFullLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &narrow{room: map[string]int{}, got: map[string][]string{}}
		loop := quietLoop(l)
		sent := map[string][]string{}
		names := []string{"b", "c", "gone"}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch to := rapid.SampledFrom(names).Draw(t, "to"); rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				l.room[to] += rapid.IntRange(0, 3).Draw(t, "room")
			case 1:
				loop.flush()
			default:
				sent[to] = append(sent[to], fmt.Sprint(i))
				loop.send(control.Send{To: to, Message: &control.Batch{Number: uint64(i), Data: make([]byte, 10)}})
			}
			for _, to := range names[:2] {
				if got := l.got[to]; len(got) > len(sent[to]) || !slices.Equal(got, sent[to][:len(got)]) {
					t.Fatalf("%s got %v of %v", to, got, sent[to])
				}
			}
		}
		l.room["b"], l.room["c"] = 100, 100
		loop.flush()
		for _, to := range names[:2] {
			if !slices.Equal(l.got[to], sent[to]) {
				t.Fatalf("%s got %v of %v", to, l.got[to], sent[to])
			}
		}
		if loop.outputs.Load() != 0 || len(loop.waiting) > 0 || len(loop.order) > 0 {
			t.Fatalf("%d bytes for %v are left", loop.outputs.Load(), loop.order)
		}
	})
}

// What is for one process of a node waits until the link leads to it; what is for any does not wait for it.
func TestLoopWaitsForTheProcessThatIsMeant(t *testing.T) {
	l := &narrow{room: map[string]int{"b": 10}, got: map[string][]string{}, boot: map[string]string{}}
	loop := quietLoop(l)
	send := func(boot string, number uint64) {
		loop.send(control.Send{To: "b", Boot: boot, Message: &control.Batch{Number: number}})
	}
	for _, at := range []struct {
		boot string
		want []string
	}{{"", []string{"9"}}, {"old", []string{"9"}}, {"new", []string{"9", "1", "2"}}} {
		l.boot["b"] = at.boot
		if at.boot == "" {
			send("new", 1)
			send("new", 2)
			send("", 9)
		}
		loop.flush()
		if !slices.Equal(l.got["b"], at.want) {
			t.Fatalf("with process %q at the other end it got %v, want %v", at.boot, l.got["b"], at.want)
		}
	}
	send("new", 3)
	if !slices.Equal(l.got["b"], []string{"9", "1", "2", "3"}) || loop.outputs.Load() != 0 {
		t.Fatalf("got %v, %d bytes are left", l.got["b"], loop.outputs.Load())
	}
}

// A link that stays full makes the run slow down; when it has room again the run goes on.
func TestLoopBacklog(t *testing.T) {
	l := &narrow{room: map[string]int{}, got: map[string][]string{}}
	loop := quietLoop(l)
	loop.send(control.Send{To: "b", Message: &control.Batch{Data: make([]byte, fullOutputs)}})
	if !loop.full() {
		t.Fatal("the links are not full")
	}
	loop.woken.Store(false)
	loop.flush()
	if loop.woken.Load() {
		t.Error("the backlog has not ended, and the run goes on")
	}
	l.room["b"] = 1
	loop.flush()
	if loop.full() || !loop.woken.Load() {
		t.Error("the backlog has ended, and the run does not go on")
	}
	// What waits for a run that has ended is dropped.
	loop.send(control.Send{To: "b", Message: &control.Batch{Number: 1, Data: make([]byte, 100)}})
	loop.follow(&control.State{Jobs: []*control.Job{{ID: "job-2", Phase: control.Running, Epoch: 2}}})
	if loop.outputs.Load() != 0 || len(loop.order) > 0 {
		t.Error("messages of an earlier run are kept")
	}
}

// Who hands in pieces of a result, or messages of other nodes, waits until the loop has taken those before.
func TestLoopHoldsBackInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loop := quietLoop(&narrow{})
		for range fullFinals {
			if err := loop.room(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
			loop.put(control.FinalPart{})
		}
		loop.hear(control.Heard{From: "b", Message: &control.Batch{}}, fullInputs+1)
		passed := make(chan string, 2)
		go func() {
			_ = loop.room(t.Context(), "b")
			passed <- "piece"
		}()
		go func() {
			loop.hear(control.Heard{From: "b", Message: &control.Batch{}}, 1)
			passed <- "message"
		}()
		synctest.Wait()
		if len(passed) > 0 {
			t.Errorf("a %s did not wait", <-passed)
		}
		loop.take()
		synctest.Wait()
		if len(passed) != 2 {
			t.Errorf("%d go on, not 2", len(passed))
		}
		// The end of the job, or of the loop, ends the wait.
		ctx, cancel := context.WithCancel(t.Context())
		for range fullFinals {
			loop.put(control.FinalPart{})
		}
		done := make(chan error)
		go func() { done <- loop.room(ctx, "b") }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A recording that does not keep up slows the run down until little is left to do.
func TestRecordingBacklog(t *testing.T) {
	woken := 0
	r := &recording{outside: outside{wake: func() { woken++ }}}
	r.more = sync.NewCond(&r.mu)
	r.put(work{kind: frameWork, data: make([]byte, fullQueue)})
	if r.full() {
		t.Error("full too early")
	}
	r.put(work{kind: frameWork, data: make([]byte, 1)})
	if !r.full() {
		t.Error("not full")
	}
	r.done(fullQueue - emptyQueue)
	if !r.full() || woken > 0 {
		t.Error("goes on too early")
	}
	r.done(emptyQueue)
	if r.full() || woken != 1 {
		t.Errorf("full %v, woken %d times", r.full(), woken)
	}
	r.close(errors.New("disk"))
	r.put(work{kind: frameWork, data: make([]byte, fullQueue+1)})
	if r.full() || r.failed() == nil {
		t.Error("a recording that has failed takes more")
	}
}

// FAULTS row 32: what cannot be read is refused and counted.
func TestFault32MalformedMessages(t *testing.T) {
	loop := quietLoop(&narrow{})
	n := &Node{loop: loop, log: loop.log, peers: newPeers(t.Context(), loop.log, nil)}
	for i, payload := range [][]byte{nil, {0}, {9, 1, 2}, {payloadControl}, {payloadControl, 255, 255}, {payloadQuestion, '{'}, {payloadAnswer, '['}, append([]byte{payloadQuestion}, make([]byte, maxQuestion+1)...)} {
		n.received("b", "boot", payload)
		if got := n.refused.total(); got != uint64(i+1) {
			t.Fatalf("payload %d: %d were refused", i, got)
		}
	}
	if inputs, _ := loop.take(); len(inputs) > 0 {
		t.Errorf("%v was taken", inputs)
	}
}

func TestSamplerRate(t *testing.T) {
	var s sampler
	at := time.Unix(0, 0)
	for i := range 100 {
		rate := s.rate("job-1", uint64(100*i), at)
		if i > 0 && (rate < 999 || rate > 1001) {
			t.Fatalf("%v a second, not 1000", rate)
		}
		at = at.Add(100 * time.Millisecond)
	}
	if rate := s.rate("job-2", 5, at); rate != 0 {
		t.Errorf("another job begins with %v", rate)
	}
}
