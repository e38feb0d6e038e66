package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/raft"

	"github.com/simnode/simnode/cluster/logstore"
	"github.com/simnode/simnode/cluster/transport"
	"github.com/simnode/simnode/control"
)

// ErrStopped is returned once Stop was called.
var ErrStopped = errors.New("the node has stopped")

// Cluster is a node's part in a cluster. Its methods may be called by several goroutines at a time.
type Cluster struct {
	c       Config
	net     network
	gossip  *gossip
	stores  stores
	machine *machine
	events  *deliveries
	loop    *deliveries // messages to this node itself
	callers callers
	folder  *flock.Flock
	started time.Time

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
	kick   chan struct{}
	full   atomic.Bool // the log has no room
	ending atomic.Bool
	failed sync.Once

	// life is held while the node begins or ceases to take part in the log.
	life sync.Mutex

	mu        sync.RWMutex
	rep       *replica // nil while the node waits to be invited
	instance  uint64
	term      uint64 // in which this node leads; 0 if it does not
	leading   *replica
	elections uint64
	leaving   bool
	stopping  bool
	stopped   bool
	change    chan struct{} // closed when anything changes
}

// Start makes this process a node of a cluster. It returns at once; the cluster forms, or takes the node in,
// in its own time. ctx ends the start, not the node: use Stop.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	folder, err := lock(config.Dir)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, folder.Unlock())
	}
	w, err := listen(&config)
	if err != nil {
		return nil, errors.Join(err, folder.Unlock())
	}
	c, err := start(config, w, nil)
	if err != nil {
		return nil, errors.Join(err, folder.Unlock())
	}
	c.folder = folder
	return c, nil
}

// start begins with a network, which it closes if it fails, and stores, nil for the disk.
func start(config Config, n network, s stores) (_ *Cluster, err error) {
	c := &Cluster{c: config, net: n, stores: s, kick: make(chan struct{}, 1), change: make(chan struct{}), started: time.Now()}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.machine = &machine{fsm: config.FSM, changed: c.stir}
	c.events, c.loop = newDeliveries(), newDeliveries()
	switch d := s.(type) {
	case nil:
		c.stores = &disk{c: &c.c, hung: c.hung, trouble: c.trouble}
	case *disk:
		d.c, d.hung, d.trouble = &c.c, c.hung, c.trouble
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.abort())
		}
	}()
	if err := c.resume(); err != nil {
		return nil, err
	}
	// While gossip begins, replicas ask it for addresses.
	g, err := startGossip(&c.c, n, c.meta(), func() { c.stir(); c.tellMembers() })
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.gossip = g
	c.mu.Unlock()
	if err := n.Links(c.resolve, c.received, c.replaced); err != nil {
		return nil, err
	}
	l, err := n.Layer(kindRequest)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(c.ctx, func() { _ = l.Close() })
	c.wait.Go(func() { c.serving(l) })
	c.wait.Go(func() { g.run(c.ctx) })
	c.wait.Go(c.tending)
	return c, nil
}

// resume takes part in the log again if this node did before.
func (c *Cluster) resume() error {
	store, err := c.stores.open()
	if err != nil {
		return err
	}
	known, err := raft.HasExistingState(store.logs, store.stable, store.snaps)
	if err := errors.Join(err, store.close()); err != nil {
		return err
	}
	if !known {
		return nil
	}
	c.life.Lock()
	defer c.life.Unlock()
	return c.join(0, false)
}

// abort undoes a start that failed.
func (c *Cluster) abort() error {
	c.cancel()
	c.life.Lock()
	errs := []error{c.quit()}
	c.life.Unlock()
	if c.gossip != nil {
		errs = append(errs, c.gossip.stop())
	}
	errs = append(errs, c.net.Close())
	c.wait.Wait()
	c.events.stop()
	c.loop.stop()
	return errors.Join(errs...)
}

// Name returns the node's name.
func (c *Cluster) Name() string { return c.c.Name }

// Addr returns the address, host:port, by which others reach this node.
func (c *Cluster) Addr() string { return c.net.Addr().String() }

// replica returns the node's part in the log, nil if it has none.
func (c *Cluster) replica() *replica {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.rep
}

// leads returns the term in which this node leads and has applied everything, or 0.
func (c *Cluster) leads() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.term
}

func (c *Cluster) isLeaving() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.leaving
}

func (c *Cluster) isFull() bool { return c.full.Load() }

func (c *Cluster) gossiping() *gossip {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.gossip
}

// belongs returns the formation of the cluster that this node takes part in, 0 if none.
func (c *Cluster) belongs() uint64 {
	if rep := c.replica(); rep != nil {
		return rep.bound
	}
	return 0
}

// resolve returns where a node is.
func (c *Cluster) resolve(name string) (string, bool) {
	g := c.gossiping()
	if g == nil {
		return "", false
	}
	return g.addr(name)
}

// stir says that something changed: who waits looks again.
func (c *Cluster) stir() {
	c.mu.Lock()
	close(c.change)
	c.change = make(chan struct{})
	c.mu.Unlock()
	signal(c.kick)
}

// stirred returns a channel that is closed by the next stir.
func (c *Cluster) stirred() <-chan struct{} {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.change
}

// meta returns what the node tells of itself.
func (c *Cluster) meta() meta {
	c.life.Lock()
	formation, founded := c.founding()
	c.life.Unlock()
	c.mu.RLock()
	defer c.mu.RUnlock()
	m := meta{
		version: c.c.Version, boot: c.c.Boot, role: c.c.Role, workers: c.c.Workers, api: c.c.API,
		release: c.c.Release[:min(len(c.c.Release), maxRelease)],
		leaving: c.leaving, stopping: c.stopping, formation: formation, founded: founded, term: c.term, instance: c.instance,
	}
	m.running = c.rep != nil
	return m
}

func (c *Cluster) announce() { c.gossip.announce(c.meta()) }

// hung is told of a write to the log that takes too long.
func (c *Cluster) hung(what string, limit time.Duration) {
	c.fail(fmt.Errorf("the disk of %s hangs: %s has taken more than %v; the other nodes go on without this one", c.c.Dir, what, limit))
}

func (c *Cluster) fail(err error) {
	c.failed.Do(func() {
		c.c.Log.Error("the node can go on no longer", "error", err)
		c.c.Failed(err)
	})
}

// trouble is told of writes to the log that fail, and of the end of it. It is called within raft.
func (c *Cluster) trouble(err error) {
	switch {
	case err == nil:
		c.full.Store(false)
		c.c.Log.Info("the log has room again")
	case errors.Is(err, logstore.ErrAbandoned):
		go c.fail(err)
	case logstore.IsFull(err):
		if !c.full.Swap(true) {
			c.c.Log.Error("the disk is full: this node cannot store the log and leads no longer; make room", "dir", c.c.Dir, "error", err)
		}
	default:
		c.c.Log.Warn("the log cannot be written", "error", err)
	}
	signal(c.kick)
}

// received is given messages of other nodes.
func (c *Cluster) received(from, boot string, message []byte) {
	if g := c.gossiping(); g != nil {
		g.hear(from)
	}
	if c.c.Events.Received != nil {
		c.c.Events.Received(from, boot, message)
	}
}

func (c *Cluster) replaced(peer, boot string) {
	if c.c.Events.Replaced != nil {
		c.c.Events.Replaced(peer, boot)
	}
}

// tellMembers calls Events.Members with what is known when it is called.
func (c *Cluster) tellMembers() {
	if c.c.Events.Members == nil {
		return
	}
	c.events.once(func() { c.c.Events.Members(c.members()) })
}

func (c *Cluster) members() []control.Node {
	var nodes []control.Node
	for _, p := range c.gossip.all() {
		nodes = append(nodes, control.Node{Name: p.name, Boot: p.meta.boot, Role: p.meta.role, Workers: p.meta.workers, Alive: p.alive, Leaving: p.meta.leaving || p.meta.stopping})
	}
	return nodes
}

// Send puts a message on the link to a node, or to this one. It does not wait; it returns an error, and the
// message is not sent, if the node is not known or too much waits for it. The message must not be changed
// afterwards.
func (c *Cluster) Send(to string, payload []byte) error {
	if to == c.c.Name {
		return c.sendSelf(payload)
	}
	if _, ok := c.resolve(to); !ok {
		return unknown(to)
	}
	return c.net.Send(to, payload)
}

// SendWait does as Send but waits, until ctx is done, while too much waits for the node.
func (c *Cluster) SendWait(ctx context.Context, to string, payload []byte) error {
	if to == c.c.Name {
		return c.sendSelf(payload)
	}
	if _, ok := c.resolve(to); !ok {
		return unknown(to)
	}
	return c.net.SendWait(ctx, to, payload)
}

// unknown is the error for a node that nobody has heard of.
func unknown(name string) error { return fmt.Errorf("node %q is not known", name) }

func (c *Cluster) sendSelf(payload []byte) error {
	c.loop.push(func() { c.received(c.c.Name, c.c.Boot, payload) })
	return nil
}

// Backlog returns how many bytes wait on the link to a node.
func (c *Cluster) Backlog(to string) int { return c.net.Backlog(to) }

// Boot returns the boot id of the process that the link to a node leads to, "" while none is known.
func (c *Cluster) Boot(of string) string {
	if _, ok := c.resolve(of); !ok {
		return ""
	}
	return c.net.Boot(of)
}

// Drain waits until all nodes have acknowledged what was sent to them.
func (c *Cluster) Drain(ctx context.Context) error { return c.net.Drain(ctx) }

// LinkStats returns counts of the links with other nodes.
func (c *Cluster) LinkStats() []transport.PeerStats {
	if w, ok := c.net.(*wire); ok {
		return w.mesh.Stats()
	}
	return nil
}

// PortCounts returns counts of connections to the node's port.
func (c *Cluster) PortCounts() transport.Counts {
	if w, ok := c.net.(*wire); ok {
		return w.Counts()
	}
	return transport.Counts{}
}

// Leader returns the name of the leader and its term as far as this node knows, or nothing.
func (c *Cluster) Leader() (name string, term uint64) {
	if rep := c.replica(); rep != nil {
		if _, id := rep.LeaderWithID(); id != "" {
			return string(id), rep.CurrentTerm()
		}
		if !rep.empty() {
			return "", 0
		}
	}
	// A node that takes no part yet knows what leaders say of themselves.
	g := c.gossiping()
	if g == nil {
		return "", 0
	}
	formation := c.belongs()
	for _, p := range g.all() {
		if p.alive && p.meta.term > term && !foreign(formation, p) {
			name, term = p.name, p.meta.term
		}
	}
	return name, term
}

// NodeInfo is what is known of a node.
type NodeInfo struct {
	Name, Boot string
	Role       control.Role
	Workers    int
	// Addr is where nodes reach it, API where users do.
	Addr, API string
	// Release of its program.
	Release string
	// Alive is false for a node that gossip takes for dead. Leaving says that it announced to go for good,
	// Stopping that it ends and may come back.
	Alive, Leaving, Stopping bool
	// Waiting says that it does not take part in the log yet.
	Waiting bool
	// Voter says that it votes, Leader that it leads.
	Voter, Leader bool
	// LastHeard is when anything last came from it; zero for this node.
	LastHeard time.Time
}

// Nodes returns the nodes that are or lately were there, in order of name.
func (c *Cluster) Nodes() []NodeInfo {
	voters := map[string]bool{}
	if rep := c.replica(); rep != nil {
		servers, _, _ := configuration(rep)
		for _, s := range servers {
			voters[s.name] = s.voter
		}
	}
	leader, _ := c.Leader()
	var nodes []NodeInfo
	for _, p := range c.gossip.all() {
		n := NodeInfo{
			Name: p.name, Boot: p.meta.boot, Role: p.meta.role, Workers: p.meta.workers, Addr: p.addr, API: p.meta.api,
			Release: p.meta.release,
			Alive:   p.alive, Leaving: p.meta.leaving, Stopping: p.meta.stopping, Waiting: !p.meta.running, Voter: voters[p.name], Leader: p.name == leader,
		}
		if p.name != c.c.Name {
			n.LastHeard = time.Unix(0, p.heard.Load())
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// Metrics are numbers of this node.
type Metrics struct {
	// Term of the log; Elections that this node won.
	Term, Elections uint64
	// Last index of the log, index committed and applied; Commands applied.
	Last, Committed, Applied, Commands uint64
	Leads, Founded                     bool
	// Voters and Others in the configuration of the log.
	Voters, Others int
	// Alive and Dead nodes in gossip; Health of gossip, 0 is best.
	Alive, Dead, Health int
	// DiskFull says that the log has no room.
	DiskFull bool
}

// Metrics returns the numbers of now.
func (c *Cluster) Metrics() Metrics {
	var m Metrics
	_, m.Founded, m.Commands = c.machine.facts()
	m.Leads, m.DiskFull = c.leads() != 0, c.isFull()
	c.mu.RLock()
	m.Elections = c.elections
	c.mu.RUnlock()
	if rep := c.replica(); rep != nil {
		m.Term, m.Last, m.Committed, m.Applied = rep.CurrentTerm(), rep.LastIndex(), rep.CommitIndex(), rep.AppliedIndex()
		servers, _, _ := configuration(rep)
		for _, s := range servers {
			if s.voter {
				m.Voters++
			} else {
				m.Others++
			}
		}
	}
	for _, p := range c.gossip.all() {
		if p.alive {
			m.Alive++
		} else {
			m.Dead++
		}
	}
	m.Health = c.gossip.ml.GetHealthScore()
	return m
}

// StepDown hands leadership to another voter, if this node leads and there is one. It is meant for the end of
// a process.
func (c *Cluster) StepDown(ctx context.Context) error {
	rep := c.replica()
	if rep == nil || rep.State() != raft.Leader {
		return nil
	}
	servers, _, err := configuration(rep)
	if err != nil || !slices.ContainsFunc(servers, func(s server) bool { return s.voter && s.name != c.c.Name }) {
		return err
	}
	transfer := rep.LeadershipTransfer
	if name, missing := c.successor(servers); name == "" {
		c.c.Log.Info("no other node is there that could lead")
		return nil
	} else if missing {
		// raft itself may choose one that is not there.
		transfer = func() raft.Future {
			return rep.LeadershipTransferToServer(raft.ServerID(name), raft.ServerAddress(name))
		}
	}
	done := make(chan error, 1)
	go func() { done <- transfer().Error() }() // bounded by the election timeout
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("handing over leadership: %w", err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// successor returns a voter that could lead, "" if none is there, and whether some voter is missing.
func (c *Cluster) successor(servers []server) (name string, missing bool) {
	for _, s := range servers {
		if !s.voter || s.name == c.c.Name {
			continue
		}
		p := c.gossip.peer(s.name)
		if p == nil || !p.alive || p.meta.leaving || p.meta.stopping {
			missing = true
		} else if name == "" {
			name = s.name
		}
	}
	return name, missing
}

// Leave takes this node out of the cluster for good, waits until ctx is done for the others to agree, and
// stops it. Once they have, its log is deleted, so that it may come back as a new node. The last voter cannot
// leave: it stops with its log kept. For a restart use Rest.
func (c *Cluster) Leave(ctx context.Context) error {
	c.mu.Lock()
	c.leaving = true
	c.mu.Unlock()
	c.stir()
	removed, err := c.depart(ctx)
	c.farewell()
	serr := c.Stop()
	if removed {
		return errors.Join(serr, c.stores.wipe())
	}
	return errors.Join(err, serr)
}

// Rest tells the others that this node ends and may come back, and stops it. It keeps its place and its log.
func (c *Cluster) Rest() error {
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	c.farewell()
	return c.Stop()
}

// farewell tells the others that this node goes: they take one that goes without a word for one that died.
func (c *Cluster) farewell() {
	c.ending.Store(true)
	for range 10 {
		c.announce()
		if c.gossip.announced() {
			break
		}
		time.Sleep(2 * c.c.Timing.Gossip)
	}
	if err := c.gossip.leave(time.Second); err != nil {
		c.c.Log.Info("not all nodes may know that this one ends", "error", err)
	}
}

// depart waits until the log's configuration is without this node.
func (c *Cluster) depart(ctx context.Context) (removed bool, err error) {
	if c.replica() == nil {
		return false, nil
	}
	var last error
	for {
		stirred := c.stirred()
		if c.alone() {
			return false, nil
		}
		if err := c.StepDown(ctx); err != nil {
			last = err
		}
		if name, _ := c.Leader(); name != "" && name != c.c.Name {
			s, err := c.askStatus(ctx, name)
			if err == nil && s.leads && !s.member {
				return true, nil
			}
			last = err
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("the others did not confirm that %s leaves (%w): %w", c.c.Name, context.Cause(ctx), errors.Join(last, errors.New("they remove it when it has been gone for long enough")))
		case <-stirred:
		case <-time.After(c.c.Timing.Reconcile):
		}
	}
}

// alone reports whether no other node could take over this node's vote.
func (c *Cluster) alone() bool {
	rep := c.replica()
	if rep == nil {
		return true
	}
	servers, _, err := configuration(rep)
	if err != nil {
		return false
	}
	voters := 0
	self := false
	for _, s := range servers {
		if s.voter {
			voters++
			self = self || s.name == c.c.Name
		}
	}
	if !self || voters > 1 {
		return false
	}
	for _, p := range c.gossip.all() {
		if p.name != c.c.Name && p.alive && !p.meta.leaving && mayVote(p.meta.role) {
			return false
		}
	}
	return true
}

// Stop ends the node at once; for the others it is as if it had died. For an orderly end use Rest, after StepDown
// if it leads.
// Events have ended when it returns.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return nil
	}
	c.stopped = true
	c.mu.Unlock()
	c.ending.Store(true)
	errs := []error{c.abort()}
	c.callers.close()
	if c.folder != nil {
		errs = append(errs, c.folder.Unlock())
	}
	return errors.Join(errs...)
}

// deliveries calls functions one after another on a goroutine of its own. The queue has no bound: who queues
// may hold locks.
type deliveries struct {
	mu     sync.Mutex
	queue  []func()
	single func() // called after the queue, once
	wake   chan struct{}
	done   chan struct{}
	ended  chan struct{}
}

func newDeliveries() *deliveries {
	d := &deliveries{wake: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{})}
	go d.run()
	return d
}

func (d *deliveries) push(f func()) {
	d.mu.Lock()
	d.queue = append(d.queue, f)
	d.mu.Unlock()
	signal(d.wake)
}

// once queues a function that is called once however often it is queued before its turn.
func (d *deliveries) once(f func()) {
	d.mu.Lock()
	d.single = f
	d.mu.Unlock()
	signal(d.wake)
}

func (d *deliveries) run() {
	defer close(d.ended)
	for {
		select {
		case <-d.done:
			return
		case <-d.wake:
		}
		d.mu.Lock()
		queue := d.queue
		if d.single != nil {
			queue = append(queue, d.single)
		}
		d.queue, d.single = nil, nil
		d.mu.Unlock()
		for _, f := range queue {
			select {
			case <-d.done:
				return
			default:
				f()
			}
		}
	}
}

func (d *deliveries) stop() {
	close(d.done)
	<-d.ended
}
