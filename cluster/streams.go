package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// raftStreams is the raft.StreamLayer of one raft instance. Addresses are names of nodes. A stream begins with
// the formation of the cluster whose log it carries; one of another cluster is closed: raft itself would take
// any leader's entries.
type raftStreams struct {
	net     network
	layer   net.Listener
	resolve func(name string) (addr string, ok bool)
	name    string
	// formation of the cluster.
	formation uint64

	mu     sync.Mutex
	closed bool
	conns  map[*tracked]bool
}

func newRaftStreams(n network, name string, formation uint64, resolve func(string) (string, bool)) (*raftStreams, error) {
	l, err := n.Layer(kindRaft)
	if err != nil {
		return nil, err
	}
	return &raftStreams{net: n, layer: l, resolve: resolve, name: name, formation: formation, conns: map[*tracked]bool{}}, nil
}

// tracked is a connection that ends with its layer: raft itself leaves some open.
type tracked struct {
	net.Conn
	s    *raftStreams
	peer string // empty if the other side opened it
	met  bool   // the formation was sent or received; used by the only reader or the only writer
}

// Write writes, after the formation if this side opened the stream.
func (t *tracked) Write(b []byte) (int, error) {
	if t.peer == "" || t.met {
		return t.Conn.Write(b)
	}
	head := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(b)), t.s.formation)
	n, err := t.Conn.Write(append(head, b...))
	t.met = err == nil
	return max(0, n-len(head)), err
}

// Read reads, after the formation if the other side opened the stream.
func (t *tracked) Read(b []byte) (int, error) {
	if t.peer == "" && !t.met {
		var head [8]byte
		if _, err := io.ReadFull(t.Conn, head[:]); err != nil {
			return 0, err
		}
		if f := binary.LittleEndian.Uint64(head[:]); f != t.s.formation {
			return 0, fmt.Errorf("a stream from the log of another cluster, formation %016x; this node takes part in %016x", f, t.s.formation)
		}
		t.met = true
	}
	return t.Conn.Read(b)
}

func (t *tracked) Close() error {
	t.s.mu.Lock()
	delete(t.s.conns, t)
	t.s.mu.Unlock()
	return t.Conn.Close()
}

func (s *raftStreams) track(conn net.Conn, peer string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	t := &tracked{Conn: conn, s: s, peer: peer}
	s.conns[t] = true
	return t, nil
}

// Accept returns the next stream that another node opened.
func (s *raftStreams) Accept() (net.Conn, error) {
	conn, err := s.layer.Accept()
	if err != nil {
		return nil, err
	}
	return s.track(conn, "")
}

// Dial opens a stream to a node, wherever gossip says it is.
func (s *raftStreams) Dial(name raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	addr, ok := s.resolve(string(name))
	if !ok {
		return nil, fmt.Errorf("no node %q is known", name)
	}
	conn, err := s.net.Dial(kindRaft, string(name), addr, timeout)
	if err != nil {
		return nil, err
	}
	return s.track(conn, string(name))
}

// drop closes the streams to a node that is gone: raft keeps them for ever.
func (s *raftStreams) drop(name string) {
	s.mu.Lock()
	var conns []*tracked
	for c := range s.conns {
		if c.peer == name {
			conns = append(conns, c)
		}
	}
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// Close closes the layer and all its streams.
func (s *raftStreams) Close() error {
	s.mu.Lock()
	s.closed = true
	conns := make([]*tracked, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	errs := []error{s.layer.Close()}
	for _, c := range conns {
		_ = c.Close()
	}
	return errors.Join(errs...)
}

// Addr is the node's name.
func (s *raftStreams) Addr() net.Addr { return nodeAddr(s.name) }

type nodeAddr string

func (a nodeAddr) Network() string { return "node" }
func (a nodeAddr) String() string  { return string(a) }

// raftTransport is raft's own without the fast path for heartbeats, which changes term and state outside
// raft's main goroutine.
type raftTransport struct{ *raft.NetworkTransport }

func (raftTransport) SetHeartbeatHandler(func(raft.RPC)) {}
