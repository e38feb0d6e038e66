package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/simnode/simnode/cluster/link"
)

// ErrForgotten is returned to who waits to send to a node that was forgotten meanwhile.
var ErrForgotten = errors.New("node was forgotten")

// MeshOptions of a Mesh. The zero value of a time stands for its default.
type MeshOptions struct {
	// Resolve returns the address of a node, or false if there is none of that name: then it is neither
	// dialled nor let in. It must not block, and must not call the Mesh.
	Resolve func(name string) (addr string, ok bool)
	// Received is given each message, from each node in order and one at a time; several nodes' at the
	// same time. The message belongs to the receiver. While it blocks nothing more is received from that
	// node, so it must not wait for the Mesh to send something there.
	Received func(from, boot string, message []byte)
	// Replaced says that what comes from a node from now on comes from another process, or from the same
	// one having forgotten this node; messages may have been lost in both directions. In order with
	// Received. May be nil.
	Replaced func(peer, boot string)
	// Link configures the link with each node. Resend is rarely wanted over TCP.
	Link link.Config
	// Keepalive is between signs of life on a connection; default 1 s. DeadAfter none a connection is
	// given up; default 5 s.
	Keepalive, DeadAfter time.Duration
	// BackoffMin and BackoffMax bound the pause between attempts to connect, which doubles each time and
	// varies by half; defaults 20 ms and 2 s.
	BackoffMin, BackoffMax time.Duration
}

// Mesh is the links of a node with others. Its methods may be called by several goroutines at a time.
type Mesh struct {
	t      *Transport
	o      MeshOptions
	begun  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc
	wait   sync.WaitGroup

	mu       sync.RWMutex
	closed   bool
	peers    map[string]*peer
	sessions uint64
}

// tick is how often links are looked at.
const tick = 10 * time.Millisecond

// Mesh begins to serve links. A Transport has one Mesh.
func (t *Transport) Mesh(o MeshOptions) (*Mesh, error) {
	if o.Resolve == nil || o.Received == nil {
		return nil, errors.New("transport: a mesh needs Resolve and Received")
	}
	o.Keepalive = cmp.Or(o.Keepalive, time.Second)
	o.DeadAfter = cmp.Or(o.DeadAfter, 5*time.Second)
	o.BackoffMin = cmp.Or(o.BackoffMin, 20*time.Millisecond)
	o.BackoffMax = cmp.Or(o.BackoffMax, 2*time.Second)
	if o.Keepalive <= 0 || o.DeadAfter < 2*o.Keepalive || o.BackoffMin <= 0 || o.BackoffMax < o.BackoffMin {
		return nil, fmt.Errorf("transport: Keepalive %v, DeadAfter %v (at least twice that), BackoffMin %v, BackoffMax %v (no less) are not in order",
			o.Keepalive, o.DeadAfter, o.BackoffMin, o.BackoffMax)
	}
	if _, err := link.New(t.o.Self, "check", o.Link); err != nil {
		return nil, err
	}
	m := &Mesh{t: t, o: o, begun: time.Now(), peers: map[string]*peer{}}
	m.ctx, m.cancel = context.WithCancelCause(t.ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.mesh != nil {
		m.cancel(ErrClosed)
		return nil, fmt.Errorf("transport: closed, or has a mesh already: %w", ErrClosed)
	}
	t.mesh = m
	m.wait.Go(m.watch)
	return m, nil
}

// now is the time of sessions.
func (m *Mesh) now() time.Duration { return time.Since(m.begun) }

// Send queues a message for a node without waiting. The Mesh keeps it, so it must not be changed
// afterwards. It returns link.ErrFull when too much waits for that node.
func (m *Mesh) Send(to string, message []byte) error {
	p, err := m.peer(to)
	if err != nil {
		return err
	}
	return p.send(message)
}

// SendWait queues a message for a node as Send does, and waits for room if there is none.
func (m *Mesh) SendWait(ctx context.Context, to string, message []byte) error {
	for {
		p, err := m.peer(to)
		if err != nil {
			return err
		}
		room := p.room()
		if err := p.send(message); !errors.Is(err, link.ErrFull) {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.ctx.Done():
			return fmt.Errorf("sending to %s: %w", to, context.Cause(p.ctx))
		}
	}
}

// Backlog returns how many bytes for a node wait for acknowledgement.
func (m *Mesh) Backlog(name string) int {
	m.mu.RLock()
	p := m.peers[name]
	m.mu.RUnlock()
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session.Backlog()
}

// Boot returns the boot id of the process that the link with a node leads to, "" while that is unknown. It
// makes a link where there is none, as Send does.
func (m *Mesh) Boot(name string) string {
	p, err := m.peer(name)
	if err != nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session.Peer()
}

// Drain waits until all nodes have acknowledged all that was sent.
func (m *Mesh) Drain(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		if !slices.ContainsFunc(m.Stats(), func(s PeerStats) bool { return s.Backlog > 0 }) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Forget drops the link with a node and what waits for it. If either side sends again, it begins anew, and
// the other one is told by Replaced.
func (m *Mesh) Forget(name string) {
	m.mu.Lock()
	p := m.peers[name]
	delete(m.peers, name)
	m.mu.Unlock()
	if p != nil {
		p.end(ErrForgotten)
	}
}

// Close ends all links and waits for what they run: it must not be called from Received or Replaced. What
// was not acknowledged may be lost; see Drain.
func (m *Mesh) Close() {
	m.mu.Lock()
	m.closed = true
	peers := m.peers
	m.peers = map[string]*peer{}
	m.mu.Unlock()
	m.cancel(ErrClosed)
	for _, p := range peers {
		p.end(ErrClosed)
	}
	m.wait.Wait()
}

// PeerStats is what happened on the link with a node.
type PeerStats struct {
	Name string
	// Boot is that of the process at the other end, "" while unknown.
	Boot string
	// Up says that the other end answers.
	Up bool
	// Backlog in bytes; see Mesh.Backlog.
	Backlog int
	Link    link.Stats
	// Dials that were tried, and Connects that succeeded; Lost connections of either direction.
	Dials, Connects, Lost uint64
	// RefusedHere are connections closed because of what came on them, RefusedThere those that the
	// other side refused.
	RefusedHere, RefusedThere uint64
}

// Stats returns a snapshot for each node that was spoken to and not forgotten, in order of name.
func (m *Mesh) Stats() []PeerStats {
	peers := m.all()
	stats := make([]PeerStats, 0, len(peers))
	for _, p := range peers {
		p.mu.Lock()
		s := p.stats
		s.Name, s.Boot, s.Up = p.name, p.session.Peer(), p.up
		s.Backlog, s.Link = p.session.Backlog(), p.session.Stats()
		p.mu.Unlock()
		stats = append(stats, s)
	}
	slices.SortFunc(stats, func(a, b PeerStats) int { return cmp.Compare(a.Name, b.Name) })
	return stats
}

func (m *Mesh) all() []*peer {
	m.mu.RLock()
	defer m.mu.RUnlock()
	peers := make([]*peer, 0, len(m.peers))
	for _, p := range m.peers {
		peers = append(peers, p)
	}
	return peers
}

// peer returns the link with a node, made if there is none.
func (m *Mesh) peer(name string) (*peer, error) {
	m.mu.RLock()
	p := m.peers[name]
	m.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	if name == m.t.o.Self.Name {
		return nil, fmt.Errorf("transport: %q is this node, it has no link with itself", name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if p := m.peers[name]; p != nil {
		return p, nil
	}
	m.sessions++
	self := m.t.o.Self
	self.Session = m.sessions
	session, err := link.New(self, name, m.o.Link)
	if err != nil {
		return nil, err
	}
	p = newPeer(m, name, session)
	m.peers[name] = p
	m.wait.Go(p.run)
	return p, nil
}

// expects refuses nodes that are not known.
func (m *Mesh) expects(name string) error {
	if name == m.t.o.Self.Name {
		return fmt.Errorf("%w: it has the name of this node, %q", link.ErrName, name)
	}
	if _, ok := m.o.Resolve(name); !ok {
		return fmt.Errorf("%w: %s does not know a node %q yet", link.ErrName, m.t.o.Self.Name, name)
	}
	return nil
}

// inbound reads a connection that a node dialled, until it breaks.
func (m *Mesh) inbound(name string, conn net.Conn) {
	p, err := m.peer(name)
	if err != nil || !m.enter() {
		_ = conn.Close()
		return
	}
	defer m.wait.Done()
	p.listen(conn)
}

// enter makes Close wait for the caller; false if it does not wait any more.
func (m *Mesh) enter() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.closed {
		m.wait.Add(1)
	}
	return !m.closed
}

// watch lets time pass for all links, and ends connections that do not carry.
func (m *Mesh) watch() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var checked time.Duration
	for {
		select {
		case <-ticker.C:
		case <-m.ctx.Done():
			return
		}
		now := m.now()
		check := now-checked >= m.o.Keepalive
		if check {
			checked = now
		}
		for _, p := range m.all() {
			p.tick(now)
			if check {
				addr, ok := m.o.Resolve(p.name)
				p.check(now, addr, ok)
			}
		}
	}
}
