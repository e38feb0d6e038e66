package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simnode/simnode/cluster/link"
)

func sizes(i int) int {
	switch {
	case i%100 == 99:
		return 1 << 20
	case i%10 == 9:
		return 20000
	}
	return i % 300
}

func sendAll(t testing.TB, x *node, to string, n int) {
	for i := range n {
		if err := x.mesh.SendWait(t.Context(), to, message(i, sizes(i))); err != nil {
			t.Error(err)
			return
		}
	}
}

func TestMessagesArriveInOrder(t *testing.T) {
	ca := newAuthority(t)
	for name, c := range map[string]func(name string) change{
		"plain":            func(string) change { return func(*Options, *MeshOptions) {} },
		"TLS":              func(name string) change { return secure(ca.config(t, "", name)) },
		"TLS, common name": func(name string) change { return secure(ca.config(t, name)) },
		"compressed": func(string) change {
			return func(_ *Options, m *MeshOptions) { m.Link.CompressAbove = 1000 }
		},
		"small window": func(string) change {
			return func(_ *Options, m *MeshOptions) { m.Link.Window = 1000 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork()
			var nodes []*node
			for _, name := range []string{"a", "b", "c"} {
				nodes = append(nodes, start(t, n, name, "boot-"+name, c(name)))
			}
			var wait sync.WaitGroup
			for _, x := range nodes {
				for _, y := range nodes {
					if x != y {
						wait.Go(func() { sendAll(t, x, y.o.Self.Name, 500) })
					}
				}
			}
			wait.Wait()
			for _, x := range nodes {
				for _, y := range nodes {
					if x != y {
						x.wants(t, y.o.Self.Name, 500, sizes)
					}
				}
				if err := x.mesh.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range nodes[0].mesh.Stats() {
				if !s.Up || s.Boot != "boot-"+s.Name || s.Link.Resent != 0 || s.Link.Duplicates != 0 || s.Connects != 1 || s.Backlog != 0 {
					t.Errorf("%+v", s)
				}
				if name == "compressed" && s.Link.BytesSent > 1<<20 {
					t.Errorf("%d bytes sent", s.Link.BytesSent)
				}
			}
		})
	}
}

// Connections that are reset at random times lose nothing and bring nothing twice.
func TestFault16Reset(t *testing.T) {
	n := newNetwork()
	// The small window keeps senders from being done before anything breaks.
	small := func(_ *Options, m *MeshOptions) { m.Link.Window, m.Link.AckBytes = 100_000, 10_000 }
	a, b := start(t, n, "a", "1", small), start(t, n, "b", "1", small)
	pa, pb := newProxy(t, a.Addr().String()), newProxy(t, b.Addr().String())
	n.set("a", pa.Addr().String())
	n.set("b", pb.Addr().String())
	const count = 1500
	send := func(x *node, to string) {
		for i := range count {
			if err := x.mesh.SendWait(t.Context(), to, message(i, sizes(i))); err != nil {
				t.Error(err)
				return
			}
			if i%40 == 39 {
				[]*proxy{pa, pb}[rand.IntN(2)].reset()
			}
		}
	}
	var senders sync.WaitGroup
	senders.Go(func() { send(a, "b") })
	senders.Go(func() { send(b, "a") })
	senders.Wait()
	a.wants(t, "b", count, sizes)
	b.wants(t, "a", count, sizes)
	st := a.mesh.Stats()[0]
	if st.Connects < 3 || st.Link.Replaced != 0 {
		t.Errorf("%+v", st)
	}
	if len(a.replaced)+len(b.replaced) > 0 {
		t.Errorf("replaced: %v %v", a.replaced, b.replaced)
	}
	t.Logf("%d connections, %d frames resent, %d duplicates", st.Connects, st.Link.Resent, st.Link.Duplicates)
}

// What an old connection still brings is handed out before what a new one does.
func TestOrderAcrossConnections(t *testing.T) {
	n := newNetwork()
	blocked, release := make(chan struct{}), make(chan struct{})
	var b *node
	first := true
	a := start(t, n, "a", "1")
	b = start(t, n, "b", "1", func(_ *Options, m *MeshOptions) {
		m.Received = func(from, boot string, message []byte) {
			if first {
				first = false
				close(blocked)
				<-release
			}
			b.received(from, boot, message)
		}
	})
	p := newProxy(t, b.Addr().String())
	n.set("b", p.Addr().String())
	if err := a.mesh.Send("b", message(0, sizes(0))); err != nil {
		t.Fatal(err)
	}
	<-blocked
	p.reset()
	for i := 1; i < 10; i++ {
		if err := a.mesh.Send("b", message(i, sizes(i))); err != nil {
			t.Fatal(err)
		}
	}
	for a.mesh.Stats()[0].Connects < 2 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // for what must not happen
	b.mu.Lock()
	if got := len(b.got["a"]); got > 0 {
		t.Errorf("%d messages before the first", got)
	}
	b.mu.Unlock()
	close(release)
	b.wants(t, "a", 10, sizes)
}

// impatient nodes give up connections early.
func impatient(_ *Options, m *MeshOptions) { m.DeadAfter = 500 * time.Millisecond }

// A connection that swallows what is sent, without an error, is found and made again.
func TestFault16HalfOpen(t *testing.T) {
	n := newNetwork()
	a, b := start(t, n, "a", "1", impatient), start(t, n, "b", "1", impatient)
	p := newProxy(t, b.Addr().String())
	n.set("b", p.Addr().String())
	sendAll(t, a, "b", 10)
	b.wants(t, "a", 10, sizes)
	p.setDeaf(true)
	for i := 10; i < 20; i++ {
		if err := a.mesh.Send("b", message(i, sizes(i))); err != nil {
			t.Fatal(err)
		}
	}
	a.happened(t, LinkDown, func(e Event) bool { return e.Peer == "b" })
	p.setDeaf(false)
	b.wants(t, "a", 20, sizes)
}

// A line so slow that a frame takes longer than the silence that ends a connection.
func TestFault15SlowLine(t *testing.T) {
	n := newNetwork()
	a, b := start(t, n, "a", "1", impatient), start(t, n, "b", "1", impatient)
	p := newProxy(t, b.Addr().String())
	p.slow = 10 * time.Millisecond
	n.set("b", p.Addr().String())
	large := func(int) int { return 3 << 20 }
	if err := a.mesh.Send("b", message(0, large(0))); err != nil {
		t.Fatal(err)
	}
	b.wants(t, "a", 1, large)
}

func TestFault1RestartIsTold(t *testing.T) {
	n := newNetwork()
	a := start(t, n, "a", "1")
	b := start(t, n, "b", "1")
	sendAll(t, a, "b", 10)
	sendAll(t, b, "a", 10)
	b.wants(t, "a", 10, sizes)
	a.wants(t, "b", 10, sizes)
	for boot := 2; boot < 5; boot++ {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = start(t, n, "b", fmt.Sprint(boot))
		want := fmt.Sprint("b ", boot)
		sendAll(t, b, "a", 10)
		a.until(t, "replacement", func() bool { return len(a.replaced) > 0 && a.replaced[len(a.replaced)-1] == want })
		a.wants(t, "b", 10, sizes)
		if a.boots["b"] != fmt.Sprint(boot) || a.mesh.Boot("b") != fmt.Sprint(boot) {
			t.Errorf("messages of boot %s on a link to boot %s", a.boots["b"], a.mesh.Boot("b"))
		}
	}
	if len(a.replaced) != 3 {
		t.Errorf("replaced %v", a.replaced)
	}
}

// Asking whom a link leads to makes the link: who waits for the answer need not send anything.
func TestBootMakesTheLink(t *testing.T) {
	n := newNetwork()
	a := start(t, n, "a", "1")
	start(t, n, "b", "7")
	a.until(t, "boot of b", func() bool { return a.mesh.Boot("b") == "7" })
	if boot := a.mesh.Boot("a"); boot != "" {
		t.Errorf("a link with itself leads to %s", boot)
	}
}

// A process that was replaced under its name is refused, and learns why.
func TestFault29ZombieIsRefused(t *testing.T) {
	n := newNetwork()
	a := start(t, n, "a", "1")
	zombie := start(t, n, "b", "old")
	sendAll(t, zombie, "a", 10)
	a.wants(t, "b", 10, sizes)
	b := start(t, n, "b", "new")
	sendAll(t, b, "a", 5)
	a.until(t, "replacement", func() bool { return len(a.replaced) == 1 && a.replaced[0] == "b new" })
	a.wants(t, "b", 5, sizes)
	if err := zombie.mesh.Send("a", message(1, 1)); err != nil {
		t.Fatal(err)
	}
	e := zombie.happened(t, LinkDown, func(e Event) bool { return errors.Is(e.Err, ErrRefused) })
	if e.Peer != "a" {
		t.Errorf("%+v", e)
	}
	a.wants(t, "b", 5, sizes)
	if err := b.mesh.Send("a", message(5, sizes(5))); err != nil {
		t.Fatal(err)
	}
	a.wants(t, "b", 6, sizes)
}

func TestForgottenLinkBeginsAnew(t *testing.T) {
	n := newNetwork()
	a, b := start(t, n, "a", "1"), start(t, n, "b", "1")
	sendAll(t, a, "b", 10)
	b.wants(t, "a", 10, sizes)
	a.mesh.Forget("b")
	sendAll(t, a, "b", 7)
	b.until(t, "replacement", func() bool { return len(b.replaced) == 1 && b.replaced[0] == "a 1" })
	b.wants(t, "a", 7, sizes)
}

func TestFault34VersionSkew(t *testing.T) {
	n := newNetwork()
	a := start(t, n, "a", "1")
	b := start(t, n, "b", "1", func(o *Options, _ *MeshOptions) { o.Self.Version = 4 })
	for _, c := range []struct {
		x  *node
		to string
	}{{a, "b"}, {b, "a"}} {
		if err := c.x.mesh.Send(c.to, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []*node{a, b} {
		e := x.happened(t, Unreachable, func(e Event) bool { return errors.Is(e.Err, link.ErrVersion) })
		if text := e.Err.Error(); !strings.Contains(text, "version 3") || !strings.Contains(text, "version 4") {
			t.Error(text)
		}
		e = x.happened(t, Refused, func(e Event) bool { return errors.Is(e.Err, link.ErrVersion) })
		if text := e.Err.Error(); !strings.Contains(text, "version 3") || !strings.Contains(text, "version 4") {
			t.Error(text)
		}
	}
}

func TestOtherClusterIsRefused(t *testing.T) {
	n := newNetwork()
	a := start(t, n, "a", "1")
	b := start(t, n, "b", "1", func(o *Options, _ *MeshOptions) { o.Self.Cluster = "prod" })
	if err := a.mesh.Send("b", nil); err != nil {
		t.Fatal(err)
	}
	e := a.happened(t, Unreachable, func(e Event) bool { return errors.Is(e.Err, ErrRefused) })
	for _, name := range []string{"prod", "test"} {
		if !strings.Contains(e.Err.Error(), name) {
			t.Error(e.Err)
		}
	}
	b.happened(t, Refused, func(e Event) bool { return errors.Is(e.Err, link.ErrCluster) && e.Peer == "a" })
	if len(b.got["a"]) > 0 {
		t.Error("messages from another cluster")
	}
}

// Whoever answers at an address must be the node that was meant, and be known.
func TestWrongNodeIsRefused(t *testing.T) {
	n := newNetwork()
	a, b := start(t, n, "a", "1"), start(t, n, "b", "1")
	n.set("c", b.Addr().String())
	if err := a.mesh.Send("c", nil); err != nil {
		t.Fatal(err)
	}
	a.happened(t, Unreachable, func(e Event) bool { return e.Peer == "c" && errors.Is(e.Err, ErrRefused) })
	b.happened(t, Refused, func(e Event) bool { return errors.Is(e.Err, link.ErrName) })

	n2 := newNetwork()
	n2.set("b", b.Addr().String())
	x := start(t, n2, "x", "1") // b does not know it
	if err := x.mesh.Send("b", message(0, sizes(0))); err != nil {
		t.Fatal(err)
	}
	x.happened(t, Unreachable, func(e Event) bool { return strings.Contains(e.Err.Error(), "does not know") })
	n.set("x", x.Addr().String())
	b.wants(t, "x", 1, sizes)

	if err := a.mesh.Send("a", nil); err == nil {
		t.Error("a link with itself")
	}
}

func TestNodeThatMoves(t *testing.T) {
	n := newNetwork()
	a, b := start(t, n, "a", "1"), start(t, n, "b", "1")
	sendAll(t, a, "b", 10)
	b.wants(t, "a", 10, sizes)
	p := newProxy(t, b.Addr().String())
	n.set("b", p.Addr().String())
	e := a.happened(t, LinkDown, func(Event) bool { return true })
	if !errors.Is(e.Err, errMoved) {
		t.Error(e.Err)
	}
	for i := 10; i < 20; i++ {
		if err := a.mesh.Send("b", message(i, sizes(i))); err != nil {
			t.Fatal(err)
		}
	}
	b.wants(t, "a", 20, sizes)
}

func TestBackPressure(t *testing.T) {
	n := newNetwork()
	release := make(chan struct{})
	var got atomic.Int64
	a := start(t, n, "a", "1", func(_ *Options, m *MeshOptions) { m.Link.Window = 100_000 })
	start(t, n, "b", "1", func(_ *Options, m *MeshOptions) {
		m.Received = func(_, _ string, _ []byte) {
			<-release
			got.Add(1)
		}
	})
	sent := 0
	for ; ; sent++ {
		// More than sockets hold can be on the way; the window must fill up in the end.
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := a.mesh.SendWait(ctx, "b", make([]byte, 10_000))
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
		if sent > 100_000 {
			t.Fatal("no back-pressure")
		}
	}
	if err := a.mesh.Send("b", make([]byte, 10_000)); !errors.Is(err, link.ErrFull) {
		t.Fatal(err)
	}
	if b := a.mesh.Backlog("b"); b < 90_000 || b > 110_000 {
		t.Errorf("backlog %d", b)
	}
	close(release)
	if err := a.mesh.SendWait(t.Context(), "b", nil); err != nil {
		t.Fatal(err)
	}
	if err := a.mesh.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for got.Load() != int64(sent+1) {
		time.Sleep(time.Millisecond)
	}
}

func TestCloseEndsWaiters(t *testing.T) {
	n := newNetwork()
	a := start(t, n, "a", "1", func(_ *Options, m *MeshOptions) { m.Link.Window = 100 })
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			if err := a.mesh.SendWait(context.Background(), "gone", make([]byte, 50)); err != nil {
				if !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
				return
			}
		}
	})
	for a.mesh.Backlog("gone") == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	wait.Wait()
	if err := a.mesh.Send("gone", nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := a.Layer(9); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// A node that makes itself heard is dialled at once, however long the pause was to be.
func TestNodeThatComesBackIsDialledAtOnce(t *testing.T) {
	n := newNetwork()
	a := start(t, n, "a", "1", func(_ *Options, m *MeshOptions) { m.BackoffMin, m.BackoffMax = time.Hour, time.Hour })
	if err := a.mesh.Send("b", message(0, sizes(0))); err != nil {
		t.Fatal(err)
	}
	a.happened(t, Unreachable, func(e Event) bool { return e.Peer == "b" })
	b := start(t, n, "b", "1")
	if err := b.mesh.Send("a", message(0, sizes(0))); err != nil {
		t.Fatal(err)
	}
	b.wants(t, "a", 1, sizes)
	a.wants(t, "b", 1, sizes)
}

func TestNothingIsReceivedAfterClose(t *testing.T) {
	n := newNetwork()
	a := start(t, n, "a", "1")
	entered, release := make(chan struct{}), make(chan struct{})
	var inside atomic.Bool
	b := start(t, n, "b", "1", func(_ *Options, m *MeshOptions) {
		m.Received = func(string, string, []byte) {
			inside.Store(true)
			entered <- struct{}{}
			<-release
			inside.Store(false)
		}
	})
	for i := range 10 {
		if err := a.mesh.Send("b", message(i, 10)); err != nil {
			t.Fatal(err)
		}
	}
	<-entered
	closed := make(chan struct{})
	go func() {
		b.mesh.Close()
		if inside.Load() {
			t.Error("closed while something is received")
		}
		close(closed)
	}()
	time.Sleep(20 * time.Millisecond) // for what must not happen
	go func() {
		for range entered { // what came with the same frame may be received still
		}
	}()
	close(release)
	<-closed
	close(entered)
}

func BenchmarkRoundTrip(b *testing.B) {
	ca := newAuthority(b)
	for _, kind := range []string{"plain", "TLS"} {
		for _, size := range []int{100, 100_000} {
			b.Run(fmt.Sprint(kind, "/", size), func(b *testing.B) {
				n := newNetwork()
				back := make(chan struct{}, 1)
				var x, y *node
				options := func(name string) change {
					return func(o *Options, m *MeshOptions) {
						if kind == "TLS" {
							o.TLS = ca.config(b, "", name)
						}
						m.Received = func(_, _ string, message []byte) {
							if name == "a" {
								back <- struct{}{}
							} else if err := y.mesh.Send("a", message); err != nil {
								b.Error(err)
							}
						}
					}
				}
				y = start(b, n, "b", "1", options("b"))
				x = start(b, n, "a", "1", options("a"))
				m := make([]byte, size)
				b.SetBytes(2 * int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := x.mesh.Send("b", m); err != nil {
						b.Fatal(err)
					}
					<-back
				}
				_ = x.Close()
				_ = y.Close()
			})
		}
	}
}

func BenchmarkThroughput(b *testing.B) {
	ca := newAuthority(b)
	for _, kind := range []string{"plain", "TLS"} {
		for _, size := range []int{100, 10_000, 1_000_000} {
			b.Run(fmt.Sprint(kind, "/", size), func(b *testing.B) {
				n := newNetwork()
				var got atomic.Int64
				options := func(name string) change {
					return func(o *Options, m *MeshOptions) {
						if kind == "TLS" {
							o.TLS = ca.config(b, "", name)
						}
						m.Received = func(_, _ string, _ []byte) { got.Add(1) }
					}
				}
				y := start(b, n, "b", "1", options("b"))
				x := start(b, n, "a", "1", options("a"))
				m := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := x.mesh.SendWait(b.Context(), "b", m); err != nil {
						b.Fatal(err)
					}
				}
				if err := x.mesh.Drain(b.Context()); err != nil {
					b.Fatal(err)
				}
				_ = x.Close()
				_ = y.Close()
			})
		}
	}
}
