package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// peer is a node as gossip knows it. It is never changed in place, but for heard.
type peer struct {
	name, addr string
	meta       meta
	alive      bool
	// since is when alive last changed.
	since time.Time
	// heard is when anything last came from the node: Unix nanoseconds.
	heard *atomic.Int64
}

// gossip keeps a table of all nodes with the help of memberlist.
type gossip struct {
	c       *Config
	net     network
	ml      *memberlist.Memberlist
	changed func() // the table changed; must not block
	own     atomic.Pointer[[]byte]
	told    atomic.Pointer[[]byte] // the metadata that was announced last
	dirty   chan struct{}

	mu        sync.RWMutex
	peers     map[string]*peer
	stable    time.Time // when the set of nodes last changed
	contacted bool      // an address to join was reached
	refused   map[string]bool
	saved     string
	failed    teller // says why no address could be joined
	unable    string // why the last address could not be joined, while none was

	queueMu sync.Mutex
	queue   []gossiped
	wake    chan struct{}
}

// gossiped is an event of memberlist, copied: its callbacks hold its lock.
type gossiped struct {
	name, addr string
	meta       meta
	alive      bool
}

// startGossip begins to gossip with metadata m.
func startGossip(c *Config, n network, m meta, changed func()) (*gossip, error) {
	g := &gossip{
		c: c, net: n, changed: changed, dirty: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		peers: map[string]*peer{}, refused: map[string]bool{}, stable: time.Now(),
	}
	own := m.append(nil)
	g.own.Store(&own)
	g.told.Store(&own)
	trans, err := newPackets(n)
	if err != nil {
		return nil, err
	}
	mc := memberlist.DefaultLANConfig()
	t := c.Timing
	mc.Name, mc.Label, mc.SecretKey = c.Name, c.Cluster, c.GossipKey
	mc.Transport = trans
	mc.AdvertiseAddr, mc.AdvertisePort = n.Addr().Addr().String(), int(n.Addr().Port())
	mc.ProbeInterval, mc.ProbeTimeout = t.Probe, t.ProbeTimeout
	mc.SuspicionMult, mc.SuspicionMaxTimeoutMult = 4, 3
	mc.GossipInterval, mc.GossipNodes = t.Gossip, 4
	mc.RetransmitMult, mc.PushPullInterval = 8, t.PushPull
	mc.TCPTimeout = t.Request
	mc.GossipToTheDeadTime, mc.DeadNodeReclaimTime = 10*time.Second, 10*time.Second
	mc.EnableCompression = false
	mc.Delegate, mc.Events, mc.Alive, mc.Merge, mc.Conflict, mc.Ping = delegate{g}, delegate{g}, delegate{g}, delegate{g}, delegate{g}, delegate{g}
	mc.Logger = lineLogger(c.Log, "memberlist")
	mc.LogOutput = nil
	if g.ml, err = memberlist.Create(mc); err != nil {
		return nil, errors.Join(fmt.Errorf("gossip: %w", err), trans.Shutdown())
	}
	return g, nil
}

// run keeps the table, joins, and announces, until ctx is done.
func (g *gossip) run(ctx context.Context) {
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { g.joining(ctx) })
	wait.Go(func() { g.announcing(ctx) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.wake:
		}
		if g.take() {
			g.save()
			g.changed()
		}
	}
}

// take applies the events that wait to the table.
func (g *gossip) take() (changed bool) {
	g.queueMu.Lock()
	queue := g.queue
	g.queue = nil
	g.queueMu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for _, e := range queue {
		old := g.peers[e.name]
		p := &peer{name: e.name, addr: e.addr, meta: e.meta, alive: e.alive, since: now}
		if old != nil {
			p.heard = old.heard
			if old.alive == p.alive {
				p.since = old.since
			}
		} else {
			p.heard = new(atomic.Int64)
		}
		if p.alive {
			p.heard.Store(now.UnixNano())
		}
		if old == nil || old.alive != p.alive || old.meta.boot != p.meta.boot || old.meta.running != p.meta.running {
			g.stable = now
		}
		g.peers[e.name] = p
		changed = true
	}
	return changed
}

// all returns the nodes in order of name. They must not be changed.
func (g *gossip) all() []*peer {
	g.mu.RLock()
	defer g.mu.RUnlock()
	all := make([]*peer, 0, len(g.peers))
	for _, p := range g.peers {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *peer) int { return strings.Compare(a.name, b.name) })
	return all
}

func (g *gossip) peer(name string) *peer {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.peers[name]
}

// addr returns where a node is.
func (g *gossip) addr(name string) (string, bool) {
	if p := g.peer(name); p != nil {
		return p.addr, true
	}
	return "", false
}

// forget drops a node that is not there any more.
func (g *gossip) forget(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.peers[name]; p != nil && !p.alive {
		delete(g.peers, name)
	}
}

// settled returns since when the set of nodes has been the same, and whether an address to join was reached.
func (g *gossip) settled() (since time.Time, contacted bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.stable, g.contacted
}

// hear notes that something came from a node.
func (g *gossip) hear(name string) {
	if p := g.peer(name); p != nil {
		p.heard.Store(time.Now().UnixNano())
	}
}

// announce makes m the node's metadata. It does not wait until others know.
func (g *gossip) announce(m meta) {
	b := m.append(nil)
	if old := g.own.Swap(&b); string(*old) != string(b) {
		signal(g.dirty)
	}
}

// announced reports whether the newest metadata was sent.
func (g *gossip) announced() bool { return string(*g.own.Load()) == string(*g.told.Load()) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (g *gossip) announcing(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.dirty:
		}
		b := g.own.Load()
		// An error says that the news is not out yet; it stays queued and goes with every full exchange. A
		// longer wait would hold up the end of the node.
		_ = g.ml.UpdateNode(4 * g.c.Timing.Gossip)
		g.told.Store(b)
	}
}

// joining tries the addresses to join that are not there, again and again: memberlist does not heal a
// partition by itself.
func (g *gossip) joining(ctx context.Context) {
	for {
		pause := g.c.Timing.Rejoin
		if !g.joinOnce(ctx) {
			pause = min(pause, 250*time.Millisecond)
		}
		pause += rand.N(pause/4 + 1)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// joinOnce reports whether any address was reached, now or before.
func (g *gossip) joinOnce(ctx context.Context) bool {
	own := g.net.Addr().String()
	there := map[string]bool{own: true}
	for _, p := range g.all() {
		if p.alive {
			there[p.addr] = true
		}
	}
	reached := len(g.c.Join) == 0
	var missing []string
	for _, addr := range g.seeds(ctx) {
		if there[addr] {
			reached = true
			continue
		}
		missing = append(missing, addr)
	}
	for _, addr := range missing {
		if ctx.Err() != nil {
			return reached
		}
		if _, err := g.ml.Join([]string{addr}); err != nil {
			g.unjoined("cannot join", addr, err)
			continue
		}
		reached = true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if reached && !g.contacted {
		g.contacted = true
		signal(g.wake)
	}
	return g.contacted
}

// unjoined tells why an address could not be joined: while none was, whoever set this node up wants to know.
func (g *gossip) unjoined(what, addr string, err error) {
	_, contacted := g.settled()
	reason := err
	var joined interface{ WrappedErrors() []error }
	if errors.As(err, &joined) && len(joined.WrappedErrors()) == 1 {
		reason = joined.WrappedErrors()[0] // memberlist wraps it in several lines
	}
	if !contacted {
		g.mu.Lock()
		g.unable = reason.Error()
		g.mu.Unlock()
	}
	same := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1 // ports change with every attempt
		}
		return r
	}, reason.Error())
	level := slog.LevelInfo
	if contacted || g.failed.again(fmt.Sprint(what, addr, same)) {
		level = slog.LevelDebug
	}
	g.c.Log.Log(context.Background(), level, what, "addr", addr, "error", reason)
}

// why says why no address could be joined, "" if one was or none was tried.
func (g *gossip) why() string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.contacted {
		return ""
	}
	return g.unable
}

// seeds resolves the addresses to join, and those known from the last run.
func (g *gossip) seeds(ctx context.Context) []string {
	var addrs []string
	port := strconv.Itoa(int(g.net.Addr().Port()))
	for _, j := range append(slices.Clone(g.c.Join), g.remembered()...) {
		host, p, err := net.SplitHostPort(j)
		if err != nil {
			host, p = strings.Trim(j, "[]"), port
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			addrs = append(addrs, net.JoinHostPort(ip.Unmap().String(), p))
			continue
		}
		short, cancel := context.WithTimeout(ctx, g.c.Timing.Request)
		ips, err := net.DefaultResolver.LookupNetIP(short, "ip", host)
		cancel()
		if err != nil {
			g.unjoined("cannot resolve a name to join", host, err)
			continue
		}
		for _, ip := range ips {
			addrs = append(addrs, net.JoinHostPort(ip.Unmap().String(), p))
		}
	}
	slices.Sort(addrs)
	return slices.Compact(addrs)
}

// maxRemembered is how many addresses are kept for the next start.
const maxRemembered = 32

func (g *gossip) peersFile() string { return filepath.Join(g.c.Dir, "peers") }

// remembered returns the addresses of the last run: after a restart of all nodes the one in Join may be gone.
func (g *gossip) remembered() []string {
	f, err := os.Open(g.peersFile())
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 1<<16))
	return parsePeers(b)
}

// parsePeers reads one address a line; what is none is passed over.
func parsePeers(b []byte) []string {
	var addrs []string
	for line := range strings.Lines(string(b)) {
		if a, err := netip.ParseAddrPort(strings.TrimSpace(line)); err == nil && len(addrs) < maxRemembered {
			addrs = append(addrs, a.String())
		}
	}
	return addrs
}

// save keeps the addresses of nodes that may coordinate. It is a help and no promise, so errors are told only.
func (g *gossip) save() {
	var b strings.Builder
	n := 0
	for _, p := range g.all() {
		if p.alive && p.name != g.c.Name && mayVote(p.meta.role) && n < maxRemembered {
			fmt.Fprintln(&b, p.addr)
			n++
		}
	}
	if b.Len() == 0 || b.String() == g.saved {
		return
	}
	g.saved = b.String()
	tmp := g.peersFile() + ".new"
	err := os.WriteFile(tmp, []byte(b.String()), 0o600)
	if err == nil {
		err = os.Rename(tmp, g.peersFile())
	}
	if err != nil {
		g.c.Log.Warn("the addresses of other nodes cannot be kept for the next start", "error", err)
	}
}

// leave tells the others that this node goes.
func (g *gossip) leave(timeout time.Duration) error { return g.ml.Leave(timeout) }

// stop ends gossip without a word.
func (g *gossip) stop() error { return g.ml.Shutdown() }

// push queues an event; it never blocks.
func (g *gossip) push(n *memberlist.Node, alive bool) {
	m, err := parseMeta(n.Meta, g.c.Version)
	if err != nil || m.version != g.c.Version {
		return // NotifyAlive keeps such nodes out
	}
	g.queueMu.Lock()
	g.queue = append(g.queue, gossiped{name: n.Name, addr: n.Address(), meta: m, alive: alive})
	g.queueMu.Unlock()
	signal(g.wake)
}

// admit refuses nodes of another protocol version.
func (g *gossip) admit(n *memberlist.Node) error {
	m, err := parseMeta(n.Meta, g.c.Version)
	switch {
	case !nameShape.MatchString(n.Name):
		err = fmt.Errorf("node name %q at %s is not allowed", n.Name, n.Address())
	case err != nil:
		err = fmt.Errorf("node %s at %s: %w", n.Name, n.Address(), err)
	case m.version != g.c.Version:
		err = fmt.Errorf("node %s at %s speaks protocol version %d, this node (%s) version %d; run the same release on both", n.Name, n.Address(), m.version, g.c.Name, g.c.Version)
	default:
		return nil
	}
	g.once(err.Error(), n.Name)
	return err
}

// once warns of a refused node, once for each text.
func (g *gossip) once(text, node string) {
	g.mu.Lock()
	told := g.refused[text]
	if len(g.refused) > 1000 {
		clear(g.refused)
	}
	g.refused[text] = true
	g.mu.Unlock()
	if !told {
		g.c.Log.Warn("node refused", "node", node, "reason", text)
	}
}

// delegate is what memberlist calls, with its lock held: copy, queue and return.
type delegate struct{ g *gossip }

func (d delegate) NodeMeta(int) []byte                  { return *d.g.own.Load() }
func (d delegate) NotifyMsg([]byte)                     {}
func (d delegate) GetBroadcasts(int, int) [][]byte      { return nil }
func (d delegate) LocalState(bool) []byte               { return nil }
func (d delegate) MergeRemoteState([]byte, bool)        {}
func (d delegate) NotifyJoin(n *memberlist.Node)        { d.g.push(n, true) }
func (d delegate) NotifyUpdate(n *memberlist.Node)      { d.g.push(n, true) }
func (d delegate) NotifyLeave(n *memberlist.Node)       { d.g.push(n, false) }
func (d delegate) NotifyAlive(n *memberlist.Node) error { return d.g.admit(n) }
func (d delegate) AckPayload() []byte                   { return nil }

func (d delegate) NotifyMerge(peers []*memberlist.Node) error {
	for _, n := range peers {
		if err := d.g.admit(n); err != nil {
			return err
		}
	}
	return nil
}

func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.g.once(fmt.Sprintf("two nodes are called %q, at %s and at %s; give one of them another name, and a data folder of its own", existing.Name, existing.Address(), other.Address()), existing.Name)
}

func (d delegate) NotifyPingComplete(n *memberlist.Node, _ time.Duration, _ []byte) {
	d.g.hear(n.Name)
}

// packets is a memberlist.Transport on the node's port.
type packets struct {
	net     network
	layer   net.Listener
	packets chan *memberlist.Packet
	streams chan net.Conn
	done    chan struct{}
	once    sync.Once
	wait    sync.WaitGroup
}

func newPackets(n network) (*packets, error) {
	l, err := n.Layer(kindGossip)
	if err != nil {
		return nil, err
	}
	p := &packets{net: n, layer: l, packets: make(chan *memberlist.Packet, 256), streams: make(chan net.Conn), done: make(chan struct{})}
	go p.read() // ends when the network is closed
	p.wait.Go(p.accept)
	return p, nil
}

// maxPacket is the largest UDP packet.
const maxPacket = 65536

func (p *packets) read() {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := p.net.ReadPacket(buf)
		select {
		case <-p.done:
			return
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n == 0 {
			continue // what came of an earlier packet, such as a refusal; the socket works on
		}
		select {
		case p.packets <- &memberlist.Packet{Buf: slices.Clone(buf[:n]), From: from, Timestamp: time.Now()}:
		case <-p.done:
			return
		}
	}
}

func (p *packets) accept() {
	for {
		conn, err := p.layer.Accept()
		if err != nil {
			return
		}
		select {
		case p.streams <- conn:
		case <-p.done:
			_ = conn.Close()
			return
		}
	}
}

func (p *packets) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	a := p.net.Addr()
	return a.Addr().AsSlice(), int(a.Port()), nil
}

func (p *packets) WriteTo(b []byte, addr string) (time.Time, error) {
	return time.Now(), p.net.WritePacket(b, addr)
}

func (p *packets) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return p.WriteTo(b, a.Addr)
}

func (p *packets) PacketCh() <-chan *memberlist.Packet { return p.packets }

func (p *packets) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return p.net.Dial(kindGossip, "", addr, timeout)
}

func (p *packets) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return p.net.Dial(kindGossip, a.Name, a.Addr, timeout)
}

func (p *packets) StreamCh() <-chan net.Conn { return p.streams }

func (p *packets) Shutdown() error {
	p.once.Do(func() { close(p.done) })
	err := p.layer.Close()
	p.wait.Wait()
	return err
}
