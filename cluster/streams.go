package cluster

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// raftStreams is the raft.StreamLayer of one raft instance. Addresses are names of nodes.
type raftStreams struct {
	net     network
	layer   net.Listener
	resolve func(name string) (addr string, ok bool)
	name    string

	mu     sync.Mutex
	closed bool
	conns  map[*tracked]bool
}

func newRaftStreams(n network, name string, resolve func(string) (string, bool)) (*raftStreams, error) {
	l, err := n.Layer(kindRaft)
	if err != nil {
		return nil, err
	}
	return &raftStreams{net: n, layer: l, resolve: resolve, name: name, conns: map[*tracked]bool{}}, nil
}

// tracked is a connection that ends with its layer: raft itself leaves some open.
type tracked struct {
	net.Conn
	s    *raftStreams
	peer string // empty if the other side opened it
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
	t := &tracked{conn, s, peer}
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
