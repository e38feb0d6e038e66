package transport

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simnode/simnode/cluster/link"
)

// echo serves a layer: it sends back what comes.
func echo(t testing.TB, x *node, kind byte) {
	l, err := x.Layer(kind)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wait.Wait()
	})
}

func ask(c net.Conn, text string) (string, error) {
	if _, err := c.Write([]byte(text)); err != nil {
		return "", err
	}
	b := make([]byte, len(text))
	_, err := io.ReadFull(c, b)
	return string(b), err
}

func TestLayers(t *testing.T) {
	ca := newAuthority(t)
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork()
			with := func(name string) change {
				if secured {
					return secure(ca.config(t, "", name))
				}
				return func(*Options, *MeshOptions) {}
			}
			a, b := start(t, n, "a", "1", with("a")), start(t, n, "b", "1", with("b"))
			echo(t, b, 2)
			if _, err := b.Layer(2); err == nil {
				t.Error("two listeners for a kind")
			}
			if _, err := b.Layer(KindLink); err == nil {
				t.Error("a listener for links")
			}
			for _, name := range []string{"b", ""} {
				c, err := a.Dial(2, name, b.Addr().String(), time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				if text, err := ask(c, "hello"); text != "hello" || err != nil {
					t.Error(text, err)
				}
				if peer := c.(interface{ Peer() string }).Peer(); peer != "b" {
					t.Errorf("peer %q", peer)
				}
				if s := b.Counts().Streams; s != 1 {
					t.Errorf("%d streams", s)
				}
				_ = c.Close()
				for b.Counts().Streams != 0 {
					time.Sleep(time.Millisecond)
				}
			}
			if _, err := a.Dial(2, "c", b.Addr().String(), time.Minute); !errors.Is(err, ErrRefused) {
				t.Error(err)
			}
			if _, err := a.Dial(3, "b", b.Addr().String(), time.Minute); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "kind 3") {
				t.Error(err)
			}
		})
	}
}

func TestStreamsAreCapped(t *testing.T) {
	n := newNetwork()
	a := start(t, n, "a", "1")
	b := start(t, n, "b", "1", func(o *Options, _ *MeshOptions) { o.MaxStreams = 3 })
	echo(t, b, 2)
	for range 3 {
		c, err := a.Dial(2, "b", b.Addr().String(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := ask(c, "x"); err != nil { // it is counted
			t.Fatal(err)
		}
	}
	if _, err := a.Dial(2, "b", b.Addr().String(), time.Minute); !errors.Is(err, ErrRefused) {
		t.Fatal(err)
	}
	// Links are not affected.
	sendAll(t, a, "b", 10)
	b.wants(t, "a", 10, sizes)
}

func TestCertificatesNameNodes(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	n := newNetwork()
	b := start(t, n, "b", "1", secure(ca.config(t, "", "b", "b.example")))
	echo(t, b, 2)
	dial := func(c *tls.Config) error {
		x := start(t, n, "a", "1", func(o *Options, _ *MeshOptions) { o.TLS = c })
		conn, err := x.Dial(2, "b", b.Addr().String(), time.Minute)
		if err == nil {
			_, err = ask(conn, "x") // a client certificate is judged after the client is done
			_ = conn.Close()
		}
		return err
	}
	if err := dial(ca.config(t, "", "a")); err != nil {
		t.Error(err)
	}
	if err := dial(ca.config(t, "", "c")); !errors.Is(err, ErrRefused) {
		t.Errorf("certificate of c: %v", err)
	}
	b.happened(t, Refused, func(e Event) bool { return errors.Is(e.Err, ErrCertificate) && e.Peer == "a" })
	// A common name counts only where there are no DNS names.
	if err := dial(ca.config(t, "a", "c")); !errors.Is(err, ErrRefused) {
		t.Errorf("common name beside a DNS name: %v", err)
	}
	if err := dial(other.config(t, "", "a")); err == nil {
		t.Error("certificate of another authority is taken")
	}
	mine := other.config(t, "", "a")
	mine.Certificates = ca.config(t, "", "a").Certificates
	if err := dial(mine); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("server of another authority: %v", err)
	}
	forged := ca.config(t, "", "a")
	forged.Certificates = other.config(t, "", "a").Certificates
	if err := dial(forged); err == nil {
		t.Error("client certificate of another authority is taken")
	}
	if err := dial(nil); err == nil {
		t.Error("without TLS")
	}
	// The side that listens is checked as well: b's certificate shown by a node that says it is c.
	c := start(t, n, "c", "1", secure(ca.config(t, "", "b")))
	echo(t, c, 2)
	a := start(t, n, "a", "1", secure(ca.config(t, "", "a")))
	if _, err := a.Dial(2, "c", c.Addr().String(), time.Minute); !errors.Is(err, ErrCertificate) {
		t.Error(err)
	}
	// TLS 1.2 is not spoken.
	old := ca.config(t, "", "a")
	old.MaxVersion, old.InsecureSkipVerify = tls.VersionTLS12, true
	if conn, err := tls.Dial("tcp", b.Addr().String(), old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.2 is spoken")
	}
	for _, c := range []*tls.Config{{}, {Certificates: old.Certificates}} {
		if _, err := Listen(Options{Self: identity("a", "1"), Bind: "127.0.0.1:0", TLS: c}); err == nil {
			t.Error("TLS without authorities is taken")
		}
	}
}

// Connections that say nothing, send slowly or send rubbish, many at a time, keep no node out.
func TestFault33Flood(t *testing.T) {
	n := newNetwork()
	limit := func(o *Options, _ *MeshOptions) { o.MaxPending, o.HandshakeTimeout = 16, 300*time.Millisecond }
	a, b := start(t, n, "a", "1", limit), start(t, n, "b", "1", limit)
	sendAll(t, a, "b", 10)
	b.wants(t, "a", 10, sizes)

	ended := make(chan struct{})
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() { flood(b.Addr().String(), i, ended) })
	}
	b.until(t, "evictions", func() bool {
		b.mu.Unlock()
		defer b.mu.Lock()
		time.Sleep(time.Millisecond)
		return b.Counts().Evicted > 100
	})
	for i := 10; i < 200; i++ {
		if err := a.mesh.Send("b", message(i, sizes(i))); err != nil {
			t.Fatal(err)
		}
	}
	b.wants(t, "a", 200, sizes)
	c := start(t, n, "c", "1", limit) // one that comes during the flood
	sendAll(t, c, "b", 10)
	b.wants(t, "c", 10, sizes)
	if p := b.Counts().Pending; p > 16 {
		t.Errorf("%d pending", p)
	}
	close(ended)
	wait.Wait()
	// Those that say nothing have to go after a while, without others that push.
	for b.Counts().Pending > 0 {
		time.Sleep(time.Millisecond)
	}
	if s := a.mesh.Stats()[0]; s.Connects != 1 {
		t.Errorf("the link broke: %+v", s)
	}
}

// flood opens connections and keeps the last hundred, in four ways.
func flood(addr string, way int, ended <-chan struct{}) {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	p := preamble{version: 3, kind: KindLink, cluster: "test", from: "a", to: "b"}
	slow := p.append(nil)
	for i := 0; ; i++ {
		select {
		case <-ended:
			return
		default:
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			continue
		}
		open = append(open, c)
		if len(open) > 100 {
			_ = open[0].Close()
			open = open[1:]
		}
		switch way {
		case 0:
		case 1:
			_, _ = c.Write(bytes.Repeat([]byte{0xff}, 1000))
		case 2:
			_, _ = c.Write(slow[:i%len(slow)])
		case 3:
			_, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		}
	}
}

// What a node that was let in may not send ends its connection, not the link.
func TestFault32MalformedFrames(t *testing.T) {
	n := newNetwork()
	a, b := start(t, n, "a", "1"), start(t, n, "b", "1")
	sendAll(t, a, "b", 10)
	b.wants(t, "a", 10, sizes)
	// A node whose own mesh says nothing, as b cannot reach it.
	x := start(t, n, "x", "1")
	n.set("x", "127.0.0.1:1")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i, bad := range [][]byte{
		{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0},
		append(binary.LittleEndian.AppendUint32(nil, 5), "0123456789"...),
	} {
		c, err := x.dialLink(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(bad); err != nil {
			t.Fatal(err)
		}
		// It is told why, and the connection is closed.
		if answer, err := io.ReadAll(c); err != nil || !bytes.Contains(answer, []byte("malformed")) {
			t.Errorf("%q", answer)
		}
		_ = c.Close()
		b.until(t, "refusal", func() bool {
			found := 0
			for _, e := range b.events {
				if e.What == Refused && errors.Is(e.Err, link.ErrFrame) && e.Peer == "x" {
					found++
				}
			}
			return found > i
		})
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
	for i := 10; i < 20; i++ {
		if err := a.mesh.Send("b", message(i, sizes(i))); err != nil {
			t.Fatal(err)
		}
	}
	b.wants(t, "a", 20, sizes)
	if s := b.mesh.Stats()[1]; s.RefusedHere != 3 {
		t.Errorf("%+v", s)
	}
}

// dialLink opens a connection to b as the mesh does.
func (x *node) dialLink(b *node) (net.Conn, error) {
	conn, _, err := x.dial(x.ctx, KindLink, "b", b.Addr().String(), x.o.HandshakeTimeout)
	return conn, err
}

// Ten thousand connections opened and closed leave no descriptor and no goroutine.
func TestManyConnectionsLeaveNothing(t *testing.T) {
	n := newNetwork()
	patient := func(o *Options, _ *MeshOptions) { o.HandshakeTimeout = time.Minute }
	a, b := start(t, n, "a", "1", patient), start(t, n, "b", "1", patient)
	echo(t, b, 2)
	total := 10_000
	if testing.Short() {
		total = 1000
	}
	goroutines, files := 0, 0
	var wait sync.WaitGroup
	for w := range 4 {
		wait.Go(func() {
			for i := range total / 4 {
				var c net.Conn
				var err error
				switch (i + w) % 4 {
				case 0, 1:
					if c, err = a.Dial(2, "b", b.Addr().String(), time.Minute); err == nil && i%2 == 0 {
						_, err = ask(c, "x")
					}
				case 2:
					c, err = net.Dial("tcp", b.Addr().String())
				case 3:
					c, err = a.dialLink(b)
				}
				if err != nil {
					t.Errorf("connection %d: %v; %+v", i, err, b.Counts())
					return
				}
				if tcp, ok := c.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0)
				}
				_ = c.Close()
				if w == 0 && i == 100 {
					goroutines, files = runtime.NumGoroutine(), descriptors(t)
				}
			}
		})
	}
	wait.Wait()
	settled := func() bool {
		c := b.Counts()
		return c.Pending == 0 && c.Streams == 0 && runtime.NumGoroutine() <= goroutines && descriptors(t) <= files
	}
	for deadline := time.Now().Add(10 * time.Second); !settled(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v; goroutines %d, were %d; descriptors %d, were %d", b.Counts(), runtime.NumGoroutine(), goroutines, descriptors(t), files)
		}
	}
}

func descriptors(t testing.TB) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc/self/fd to count descriptors: ", err)
	}
	return len(entries)
}

// A hundred nodes that come and go leave nothing with one that stays, once forgotten.
func TestJoinsAndLeavesLeaveNothing(t *testing.T) {
	n := newNetwork()
	a := start(t, n, "a", "1")
	before := 0
	for i := range 100 {
		name := fmt.Sprint("n", i)
		x := start(t, n, name, "1")
		if err := x.mesh.Send("a", message(0, sizes(0))); err != nil {
			t.Fatal(err)
		}
		a.wants(t, name, 1, sizes)
		_ = x.Close()
		a.mesh.Forget(name)
		if i == 10 {
			before = runtime.NumGoroutine()
		}
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before || len(a.mesh.Stats()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, were %d; %d links", runtime.NumGoroutine(), before, len(a.mesh.Stats()))
		}
	}
}

func TestDialTimesOut(t *testing.T) {
	n := newNetwork()
	a := start(t, n, "a", "1")
	l, err := net.Listen("tcp", "127.0.0.1:0") // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := a.Dial(2, "b", l.Addr().String(), 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Error(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	id := identity("a", "1")
	for _, o := range []Options{{Bind: "127.0.0.1:0"}, {Self: id, Bind: "nowhere"}, {Self: id, Bind: "127.0.0.1:0", MaxPending: -1}} {
		if x, err := Listen(o); err == nil {
			_ = x.Close()
			t.Errorf("%+v is taken", o)
		}
	}
	x, err := Listen(Options{Self: id, Bind: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	ok := MeshOptions{Resolve: newNetwork().resolve, Received: func(string, string, []byte) {}}
	for _, change := range []func(*MeshOptions){
		func(o *MeshOptions) { o.Resolve = nil },
		func(o *MeshOptions) { o.Received = nil },
		func(o *MeshOptions) { o.Keepalive = time.Hour },
		func(o *MeshOptions) { o.BackoffMin = time.Hour },
		func(o *MeshOptions) { o.Link.Window = -1 },
	} {
		o := ok
		change(&o)
		if _, err := x.Mesh(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if _, err := x.Mesh(ok); err != nil {
		t.Error(err)
	}
	if _, err := x.Mesh(ok); err == nil {
		t.Error("two meshes")
	}
}

func FuzzPreamble(f *testing.F) {
	p := preamble{version: 3, kind: 2, cluster: "test", from: "a", to: "b"}
	f.Add(p.append(nil))
	a := answer{version: 3, refused: "because"}
	f.Add(a.append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = readAnswer(bytes.NewReader(data), identity("a", "1"))
		r := bytes.NewReader(data)
		p, err := readPreamble(r, 3)
		if err != nil || p.version != 3 {
			return
		}
		if again := p.append(nil); !bytes.Equal(again, data[:len(data)-r.Len()]) {
			t.Fatalf("%x became %x", data, again)
		}
		_ = p.check(identity("a", "1"))
	})
}
