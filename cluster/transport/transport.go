package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/simnode/simnode/cluster/link"
)

// ErrClosed is returned once the Transport, Mesh or Layer was closed.
var ErrClosed = errors.New("transport is closed")

// KindLink is the kind of stream that a Mesh uses. Other packages use others, from 2 on.
const KindLink byte = 1

// Options of a Transport. The zero value of a number stands for its default.
type Options struct {
	// Self is this node and process. Its Session is ignored.
	Self link.Identity
	// Bind is the address to listen on, host:port; port 0 takes any that is free.
	Bind string
	// TLS between nodes: certificate, RootCAs and ClientCAs. Nil for none.
	TLS *tls.Config
	// MaxPending is how many accepted connections may be without a valid preamble at a time; default 128.
	MaxPending int
	// MaxStreams is how many accepted streams may be open that are not links; default 1024.
	MaxStreams int
	// HandshakeTimeout is how long TLS and preambles may take, on either side; default 5 s.
	HandshakeTimeout time.Duration
	// Event is told of what people may want to know; may be nil. It may be called from any goroutine,
	// several at a time, and must not block.
	Event func(Event)
}

// Event is something that happened to a connection.
type Event struct {
	What What
	// Peer is the node, if known; Addr the address of the other side.
	Peer, Addr string
	// Err says why; nil for LinkUp.
	Err error
}

// What happened.
type What string

// What an Event can be.
const (
	// LinkUp is a link whose other end answers.
	LinkUp What = "link up"
	// LinkDown is the loss of a connection to a node.
	LinkDown What = "link down"
	// Unreachable is a node that cannot be reached. It is told once for each reason, until a connection
	// has been made.
	Unreachable What = "unreachable"
	// Refused is a connection from outside that was refused, or closed because of what came on it.
	Refused What = "refused"
	// AcceptFailed is a connection that the system could not hand over.
	AcceptFailed What = "accept failed"
)

// Counts of a Transport since it was made, except Pending and Streams: those open now.
type Counts struct {
	// Accepted connections; Refused for what they said; Evicted because there were too many of them
	// without a valid preamble; AcceptErrors of the system.
	Accepted, Refused, Evicted, AcceptErrors uint64
	Pending, Streams                         int
}

// Transport is the port of a node. Its methods may be called by several goroutines at a time.
type Transport struct {
	o              Options
	server, client *tls.Config
	listener       net.Listener
	ctx            context.Context
	cancel         context.CancelCauseFunc
	wait           sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	pending []net.Conn // oldest first
	layers  map[byte]*layer
	mesh    *Mesh
	counts  Counts
}

// Listen opens the port.
func Listen(o Options) (*Transport, error) {
	if err := o.Self.Check(); err != nil {
		return nil, fmt.Errorf("transport: own identity: %w", err)
	}
	o.MaxPending = cmp.Or(o.MaxPending, 128)
	o.MaxStreams = cmp.Or(o.MaxStreams, 1024)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, 5*time.Second)
	if min(o.MaxPending, o.MaxStreams) < 1 || o.HandshakeTimeout < 0 {
		return nil, fmt.Errorf("transport: MaxPending %d, MaxStreams %d and HandshakeTimeout %v must be positive", o.MaxPending, o.MaxStreams, o.HandshakeTimeout)
	}
	server, client, err := secured(o.TLS)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", o.Bind)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	t := &Transport{o: o, server: server, client: client, listener: listener, layers: map[byte]*layer{}}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	t.wait.Go(t.accept)
	return t, nil
}

// Addr returns the address that is listened on.
func (t *Transport) Addr() net.Addr { return t.listener.Addr() }

// Counts returns the counts so far.
func (t *Transport) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.Pending = len(t.pending)
	return c
}

// Close closes the port, the Mesh and all layers, and waits for what it started. Streams that were handed
// out stay open.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	pending, layers, mesh := slices.Clone(t.pending), t.layers, t.mesh
	t.layers = map[byte]*layer{}
	t.mu.Unlock()

	t.cancel(ErrClosed)
	err := t.listener.Close()
	for _, c := range pending {
		_ = c.Close()
	}
	if mesh != nil {
		mesh.Close()
	}
	for _, l := range layers {
		l.end()
	}
	t.wait.Wait()
	return err
}

func (t *Transport) event(e Event) {
	if t.o.Event != nil {
		t.o.Event(e)
	}
}

// accept takes connections until the Transport is closed.
func (t *Transport) accept() {
	pause := time.Duration(0)
	for {
		conn, err := t.listener.Accept()
		if t.ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil {
			// Out of descriptors or memory: others may give some back.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			t.mu.Lock()
			t.counts.AcceptErrors++
			t.mu.Unlock()
			t.event(Event{What: AcceptFailed, Err: fmt.Errorf("%w; trying again in %v", err, pause)})
			t.sleep(pause)
			continue
		}
		pause = 0
		if t.admit(conn) {
			t.wait.Go(func() { t.welcome(conn) })
		}
	}
}

// sleep waits for d or the end.
func (t *Transport) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	}
}

// admit makes a connection a pending one. If there are too many, the one that has had the most time to
// say who it is has to go.
func (t *Transport) admit(conn net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = conn.Close()
		return false
	}
	t.counts.Accepted++
	if len(t.pending) >= t.o.MaxPending {
		_ = t.pending[0].Close()
		t.pending = slices.Delete(t.pending, 0, 1)
		t.counts.Evicted++
	}
	t.pending = append(t.pending, conn)
	return true
}

// settle takes a connection off the pending ones; false if it had to go.
func (t *Transport) settle(conn net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.pending, conn)
	if i < 0 {
		return false
	}
	t.pending = slices.Delete(t.pending, i, i+1)
	return !t.closed
}

// welcome finds out who connects and what for.
func (t *Transport) welcome(raw net.Conn) {
	conn, p, serve, err := t.greet(raw)
	if !t.settle(raw) {
		_ = raw.Close()
		return
	}
	if err != nil {
		_ = raw.Close()
		t.refused(p.from, raw, err)
		return
	}
	serve(conn)
}

// refused counts and tells of a connection that was refused.
func (t *Transport) refused(peer string, conn net.Conn, err error) {
	t.mu.Lock()
	t.counts.Refused++
	t.mu.Unlock()
	t.event(Event{What: Refused, Peer: peer, Addr: conn.RemoteAddr().String(), Err: err})
}

// greet does TLS, reads the preamble and answers it. It returns what is to be done with the connection.
func (t *Transport) greet(raw net.Conn) (conn net.Conn, p preamble, serve func(net.Conn), err error) {
	if err := raw.SetDeadline(time.Now().Add(t.o.HandshakeTimeout)); err != nil {
		return nil, p, nil, err
	}
	conn = raw
	if t.server != nil {
		secure := tls.Server(raw, t.server)
		if err := secure.HandshakeContext(t.ctx); err != nil {
			return nil, p, nil, fmt.Errorf("TLS: %w", err)
		}
		conn = secure
	}
	if p, err = readPreamble(conn, t.o.Self.Version); err != nil {
		return nil, p, nil, err
	}
	if err = p.check(t.o.Self); err == nil {
		err = nameOf(conn, p.from)
	}
	if err == nil {
		serve, err = t.serve(&p)
	}
	a := answer{version: t.o.Self.Version, name: t.o.Self.Name}
	if err != nil {
		a.refused = err.Error()
	}
	if _, e := conn.Write(a.append(nil)); err == nil {
		err = e
	}
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	return conn, p, serve, err
}

// nameOf checks that the certificate of the other side carries the name.
func nameOf(conn net.Conn, name string) error {
	if c, ok := conn.(*tls.Conn); ok {
		return verifyName(c.ConnectionState(), name)
	}
	return nil
}

// serve returns what is to be done with a connection that begins with p.
func (t *Transport) serve(p *preamble) (func(net.Conn), error) {
	t.mu.Lock()
	mesh, l := t.mesh, t.layers[p.kind]
	streams := t.counts.Streams
	t.mu.Unlock()
	switch {
	case p.kind == KindLink && mesh != nil:
		if err := mesh.expects(p.from); err != nil {
			return nil, err
		}
		return func(conn net.Conn) { mesh.inbound(p.from, conn) }, nil
	case l == nil:
		return nil, fmt.Errorf("nobody here serves streams of kind %d yet", p.kind)
	case streams >= t.o.MaxStreams:
		return nil, fmt.Errorf("%d streams are open, more are not allowed", streams)
	}
	return func(conn net.Conn) { l.offer(t.stream(conn, p.from)) }, nil
}

// Dial opens a stream of a kind to the node named name, or to whichever node is there if name is empty.
// The stream also has a method Peer() string that returns the name.
func (t *Transport) Dial(kind byte, name, addr string, timeout time.Duration) (net.Conn, error) {
	conn, peer, err := t.dial(t.ctx, kind, name, addr, timeout)
	if err != nil {
		return nil, err
	}
	return &Stream{Conn: conn, peer: peer}, nil
}

// dial connects, does TLS and exchanges preambles.
func (t *Transport) dial(ctx context.Context, kind byte, name, addr string, timeout time.Duration) (conn net.Conn, peer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, "", fmt.Errorf("dialling %s: %w", called(name, addr), err)
	}
	// The context ends what follows, by closing the connection.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, peer, err = t.introduce(ctx, raw, kind, name)
	if !stop() {
		err = fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	if err != nil {
		_ = raw.Close()
		return nil, "", fmt.Errorf("dialling %s: %w", called(name, addr), err)
	}
	return conn, peer, nil
}

func called(name, addr string) string {
	if name == "" {
		return addr
	}
	return fmt.Sprintf("%s (%s)", name, addr)
}

func (t *Transport) introduce(ctx context.Context, raw net.Conn, kind byte, name string) (conn net.Conn, peer string, err error) {
	conn = raw
	if t.client != nil {
		config := t.client.Clone()
		config.ServerName = name
		secure := tls.Client(raw, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, "", fmt.Errorf("TLS: %w", err)
		}
		conn = secure
	}
	p := preamble{version: t.o.Self.Version, kind: kind, cluster: t.o.Self.Cluster, from: t.o.Self.Name, to: name}
	if _, err := conn.Write(p.append(nil)); err != nil {
		return nil, "", err
	}
	if peer, err = readAnswer(conn, t.o.Self); err != nil {
		return nil, "", err
	}
	if name != "" && peer != name {
		return nil, "", fmt.Errorf("%w: %q answers", link.ErrName, peer)
	}
	return conn, peer, nameOf(conn, peer)
}
