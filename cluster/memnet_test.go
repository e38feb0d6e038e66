package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// memNet is a network in memory, for tests in simulated time. Packets go through queues: nothing blocks.
type memNet struct {
	mu    sync.Mutex
	nodes map[string]*memNode // by address
	cut   map[[2]string]bool  // from, to: names; nothing goes that way
	next  int
}

func newMemNet() *memNet {
	return &memNet{nodes: map[string]*memNode{}, cut: map[[2]string]bool{}}
}

// memNode is a node's network.
type memNode struct {
	n    *memNet
	name string
	addr netip.AddrPort

	packets  chan memPacket
	done     chan struct{}
	received func(from, boot string, message []byte)
	boot     string

	mu     sync.Mutex
	closed bool
	layers map[byte]*memLayer
	conns  map[*memConn]bool
}

type memPacket struct {
	data []byte
	from netip.AddrPort
}

// node adds a node; with addr zero it gets an address of its own.
func (n *memNet) node(name, boot string, addr netip.AddrPort) *memNode {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !addr.IsValid() {
		n.next++
		addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n.next >> 16), byte(n.next >> 8), byte(n.next)}), 7000)
	}
	m := &memNode{n: n, name: name, boot: boot, addr: addr, packets: make(chan memPacket, 1024), done: make(chan struct{}), layers: map[byte]*memLayer{}, conns: map[*memConn]bool{}}
	n.nodes[addr.String()] = m
	return m
}

// sever cuts or joins the way between two nodes, in one direction, and breaks the connections.
func (n *memNet) sever(from, to string, cut bool) {
	n.mu.Lock()
	n.cut[[2]string{from, to}] = cut
	nodes := make([]*memNode, 0, len(n.nodes))
	for _, m := range n.nodes {
		nodes = append(nodes, m)
	}
	n.mu.Unlock()
	if !cut {
		return
	}
	for _, m := range nodes {
		if m.name == from {
			m.breakTo(to)
		}
		if m.name == to {
			m.breakTo(from)
		}
	}
}

// isolate cuts or joins a node and all others.
func (n *memNet) isolate(name string, others []string, cut bool) {
	for _, o := range others {
		if o != name {
			n.sever(name, o, cut)
			n.sever(o, name, cut)
		}
	}
}

func (n *memNet) isCut(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[[2]string{from, to}]
}

func (n *memNet) at(addr string) *memNode {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[addr]
}

func (m *memNode) breakTo(peer string) {
	m.mu.Lock()
	var conns []*memConn
	for c := range m.conns {
		if c.peer == peer {
			conns = append(conns, c)
		}
	}
	m.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

type memConn struct {
	net.Conn
	m    *memNode
	peer string
}

func (c *memConn) Close() error {
	c.m.mu.Lock()
	delete(c.m.conns, c)
	c.m.mu.Unlock()
	return c.Conn.Close()
}

func (c *memConn) RemoteAddr() net.Addr { return nodeAddr(c.peer) }

func (m *memNode) wrap(conn net.Conn, peer string) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	c := &memConn{conn, m, peer}
	m.conns[c] = true
	return c, nil
}

type memLayer struct {
	m    *memNode
	kind byte
	c    chan net.Conn
	done chan struct{}
	once sync.Once
}

func (m *memNode) Layer(kind byte) (net.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.layers[kind] != nil {
		return nil, fmt.Errorf("layer %d is open", kind)
	}
	l := &memLayer{m: m, kind: kind, c: make(chan net.Conn, 64), done: make(chan struct{})}
	m.layers[kind] = l
	return l, nil
}

func (l *memLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.c:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memLayer) Close() error {
	l.m.mu.Lock()
	if l.m.layers[l.kind] == l {
		delete(l.m.layers, l.kind)
	}
	l.m.mu.Unlock()
	l.once.Do(func() { close(l.done) })
	for {
		select {
		case c := <-l.c:
			c.Close()
		default:
			return nil
		}
	}
}

func (l *memLayer) Addr() net.Addr { return nodeAddr(l.m.name) }

func (m *memNode) Dial(kind byte, name, addr string, timeout time.Duration) (net.Conn, error) {
	to := m.n.at(addr)
	if to == nil || name != "" && to.name != name {
		return nil, errors.New("connection refused")
	}
	if m.n.isCut(m.name, to.name) || m.n.isCut(to.name, m.name) {
		select {
		case <-time.After(timeout):
		case <-m.done:
		}
		return nil, os.ErrDeadlineExceeded
	}
	to.mu.Lock()
	l := to.layers[kind]
	to.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	a, b := net.Pipe()
	near, err := m.wrap(a, to.name)
	if err != nil {
		b.Close()
		return nil, err
	}
	far, err := to.wrap(b, m.name)
	if err != nil {
		near.Close()
		return nil, err
	}
	select {
	case l.c <- far:
		return near, nil
	case <-l.done:
	default:
	}
	near.Close()
	far.Close()
	return nil, errors.New("connection refused")
}

func (m *memNode) ReadPacket(b []byte) (int, net.Addr, error) {
	select {
	case p := <-m.packets:
		return copy(b, p.data), net.UDPAddrFromAddrPort(p.from), nil
	case <-m.done:
		return 0, nil, net.ErrClosed
	}
}

func (m *memNode) WritePacket(b []byte, addr string) error {
	to := m.n.at(addr)
	if to == nil || m.n.isCut(m.name, to.name) {
		return nil
	}
	select {
	case to.packets <- memPacket{append([]byte(nil), b...), m.addr}:
	default:
	}
	return nil
}

func (m *memNode) Addr() netip.AddrPort { return m.addr }

func (m *memNode) Links(_ func(string) (string, bool), received func(string, string, []byte), _ func(string, string)) error {
	m.received = received
	return nil
}

func (m *memNode) Send(string, []byte) error                      { return errors.New("no links here") }
func (m *memNode) SendWait(context.Context, string, []byte) error { return errors.New("no links here") }
func (m *memNode) Backlog(string) int                             { return 0 }
func (m *memNode) Boot(string) string                             { return "" }
func (m *memNode) Drain(context.Context) error                    { return nil }
func (m *memNode) Forget(string)                                  {}

func (m *memNode) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	conns := make([]*memConn, 0, len(m.conns))
	for c := range m.conns {
		conns = append(conns, c)
	}
	m.mu.Unlock()
	close(m.done)
	m.n.mu.Lock()
	if m.n.nodes[m.addr.String()] == m {
		delete(m.n.nodes, m.addr.String())
	}
	m.n.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	return nil
}

// memStores keeps raft's things in memory, over restarts of the node.
type memStores struct {
	logs  *raft.InmemStore
	snaps *raft.InmemSnapshotStore
}

func newMemStores() *memStores {
	return &memStores{raft.NewInmemStore(), raft.NewInmemSnapshotStore()}
}

func (s *memStores) open() (opened, error) {
	return opened{logs: s.logs, stable: s.logs, snaps: s.snaps, close: func() error { return nil }}, nil
}

func (s *memStores) wipe() error {
	s.logs, s.snaps = raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	return nil
}
