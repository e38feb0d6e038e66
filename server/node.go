package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/cluster"
	"github.com/simnode/simnode/control"
)

// Protocol is the version of what nodes say to one another. Nodes of another one are refused.
const Protocol = 1

// Node is a node of a cluster. Its methods may be called from any goroutine.
type Node struct {
	config Config
	log    *slog.Logger
	book   *logbook
	store  store
	held   *flock.Flock

	ctx    context.Context
	cancel context.CancelFunc
	// group are the goroutines that end with ctx.
	group sync.WaitGroup

	machine *machine
	exec    *executor
	loop    *loop
	peers   *peers
	asked   *far
	orders  orders
	nodes   roster
	refused refusals

	cluster *cluster.Cluster
	api     *api.Server
	apiAt   net.Addr
}

// Start starts a node and returns when it listens. It goes on until Shutdown; ctx bounds the start alone.
func Start(ctx context.Context, c Config) (*Node, error) {
	n := &Node{config: c, book: newLogbook(), store: store{c.Dir}}
	n.log = slog.New(&bookHandler{book: n.book, level: c.Level, also: c.Log})
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if err := n.open(); err != nil {
		n.cancel()
		return nil, err
	}
	if err := n.begin(ctx); err != nil {
		return nil, errors.Join(err, n.end(ctx))
	}
	return n, nil
}

// open makes the data folder and keeps other processes out of it.
func (n *Node) open() error {
	for _, dir := range []string{n.config.Dir, filepath.Join(n.config.Dir, "jobs"), filepath.Join(n.config.Dir, "log")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("the data folder cannot be made: %w; choose another one with --data", err)
		}
	}
	n.held = flock.New(filepath.Join(n.config.Dir, ".lock"))
	mine, err := n.held.TryLock()
	if err != nil {
		return fmt.Errorf("the data folder cannot be locked: %w", err)
	}
	if !mine {
		return fmt.Errorf("another node is using the data folder %s: give each node its own with --data", n.config.Dir)
	}
	return nil
}

// begin wires everything, from the inside out: state, loop, links and log, and last the door.
func (n *Node) begin(ctx context.Context) error {
	boot := rand.Text()
	c := &n.config
	n.orders.more = make(chan struct{}, 1)
	n.peers = newPeers(n.ctx, n.log, n.serve)
	n.asked = &far{Node: n}
	n.exec = &executor{outside: outside{
		models: c.Models, self: c.Name, workers: c.Workers, workersAt: n.nodes.workers, store: n.store, log: n.log,
		input:   func(in control.Input) { n.loop.put(in) },
		wake:    func() { n.loop.wake() },
		deliver: n.deliver,
		room:    func(ctx context.Context, to string) error { return n.loop.room(ctx, to) },
		full:    func() bool { return n.loop.full() },
	}}
	c.OrderFor = cmp.Or(c.OrderFor, 30*time.Second)
	if c.Control.ExpectedNodes == 0 {
		c.Control.ExpectedNodes = c.JobNodes
	}
	n.loop = newLoop(c.Name, boot, c.Control, n.exec, n.log)
	n.loop.propose = n.orders.put
	n.machine = newMachine(func(s *control.State) { n.loop.put(control.Applied{State: s}) })
	n.exec.bundle = n.bundle

	door, err := net.Listen("tcp", c.API)
	if err != nil {
		return fmt.Errorf("the API cannot listen: %w; choose another address with --api (%s)", err, settingHint("api"))
	}
	n.apiAt = door.Addr()
	late := &lateLinks{ready: make(chan struct{}), done: n.ctx.Done()}
	n.loop.links, n.peers.links = late, late
	if n.cluster, err = cluster.Start(ctx, n.clusterConfig(boot)); err != nil {
		var listen *net.OpError
		if errors.As(err, &listen) && listen.Op == "listen" {
			err = fmt.Errorf("other nodes cannot be heard: %w; choose another address with --bind (%s)", err, settingHint("bind"))
		}
		return errors.Join(err, door.Close())
	}
	late.links = n.cluster
	close(late.ready)

	n.group.Go(func() { n.loop.run(n.ctx) })
	n.group.Go(n.propose)
	n.group.Go(n.tidy)
	n.api = api.New(n.apiConfig())
	n.group.Go(func() {
		if err := n.api.Serve(door); err != nil {
			n.log.Error("the API ended", "error", err)
		}
	})
	n.log.Info("node started", "node", c.Name, "cluster", c.Cluster, "role", c.Role, "address", n.Address(), "api", n.API(), "version", c.Version)
	return nil
}

// settingHint names the other ways to give a setting.
func settingHint(name string) string {
	s := Setting{Name: name}
	return fmt.Sprintf("%s, or %s in the file of --config", s.Env(), s.Key())
}

// lateLinks are links that are there once ready is closed.
type lateLinks struct {
	ready chan struct{}
	done  <-chan struct{}
	links
}

// Send implements links.
func (l *lateLinks) Send(to string, payload []byte) error {
	select {
	case <-l.ready:
		return l.links.Send(to, payload)
	case <-l.done:
		return context.Canceled
	}
}

// Boot implements links.
func (l *lateLinks) Boot(of string) string {
	select {
	case <-l.ready:
		return l.links.Boot(of)
	case <-l.done:
		return ""
	}
}

func (n *Node) clusterConfig(boot string) cluster.Config {
	c := &n.config
	advertised := c.APIAdvertise
	if advertised == "" {
		advertised = n.apiAt.String()
	}
	out := cluster.Config{
		Name: c.Name, Cluster: c.Cluster, Boot: boot, Bind: c.Bind, Advertise: c.Advertise, API: advertised, Join: c.Join,
		Dir: filepath.Join(c.Dir, "log"), Role: c.Role, Workers: c.Workers, Expected: c.Expected, GossipKey: c.GossipKey,
		Version: Protocol, Release: c.Version, Log: n.log, FSM: n.machine, Timing: c.Timing, Failed: c.Failed,
		Events: cluster.Events{
			Lead:     n.lead,
			Follow:   func() { n.loop.put(control.Follow{}) },
			Members:  n.members,
			Received: n.received,
			Replaced: func(peer, boot string) { n.log.Info("another process has taken the place of a node", "node", peer) },
		},
	}
	if c.Compress {
		out.Link.CompressAbove = compressAbove
	}
	if c.Certs != nil {
		out.TLS = c.Certs.Config()
	}
	if out.Timing == (cluster.Timing{}) && onLoopback(c.Bind) {
		out.Timing = cluster.Loopback()
	}
	return out
}

// apiConfig says who may use the API: tokens and verified certificates where there are any, everybody on a
// loopback address without tokens.
func (n *Node) apiConfig() api.Config {
	c := &n.config
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{n})
	out := api.Config{
		Backend: backend{n}, Metrics: registry, Log: n.log,
		Access: api.Access{Tokens: c.Tokens, Certificates: c.Certs != nil, Open: c.Tokens == nil && onLoopback(c.API)},
	}
	if c.Certs != nil {
		out.TLS = c.Certs.Config()
		out.TLS.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if !out.Access.Open && c.Tokens == nil && c.Certs == nil {
		n.log.Warn("the API refuses everybody: it listens beyond this machine and there are neither tokens nor certificates; give --tokens")
	}
	return out
}

// lead is told that this node leads the log.
func (n *Node) lead(term uint64) {
	n.loop.put(control.Lead{Term: term})
	n.log.Info("this node coordinates", "term", term)
	if n.machine.state.Load().Cluster != n.config.Cluster {
		n.orders.put(control.Command{Key: "found/" + n.config.Cluster, Found: &control.Found{Cluster: n.config.Cluster}})
	}
}

func (n *Node) members(nodes []control.Node) {
	n.nodes.set(nodes)
	n.loop.put(control.Members{Nodes: nodes})
}

// received takes in what came over a link. What cannot be read is counted and left.
func (n *Node) received(from, boot string, payload []byte) {
	if err := n.hear(from, boot, payload); err != nil {
		if n.refused.count() {
			n.log.Warn("a message was refused", "from", from, "error", err)
		}
	}
}

func (n *Node) hear(from, boot string, payload []byte) error {
	if len(payload) == 0 {
		return errors.New("it is empty")
	}
	kind, data := payload[0], payload[1:]
	switch kind {
	case payloadControl:
		m, err := control.Parse(data)
		if err == nil {
			n.loop.hear(control.Heard{From: from, Boot: boot, Message: m}, len(data))
		}
		return err
	case payloadQuestion, payloadAnswer:
		return n.peers.hear(from, kind, data)
	case payloadCopy:
		k := n.exec.keeper.Load()
		if k == nil {
			return errors.New("a copy of a checkpoint, and no job that takes any runs here")
		}
		return k.hear(from, data)
	}
	return fmt.Errorf("it is of unknown kind %d", kind)
}

// bundle returns the data of a complete bundle, or nil.
func (n *Node) bundle(hash string) []byte {
	if b := n.machine.state.Load().Bundle(hash); b != nil && b.Complete {
		return b.Data
	}
	return nil
}

// propose appends to the log what the coordinator decides, one after another.
func (n *Node) propose() {
	for {
		cmd, ok := n.orders.next(n.ctx)
		if !ok {
			return
		}
		cmd.At = time.Now().UnixMilli()
		if cmd.End != nil {
			cmd.End = n.keepReached(cmd.End)
		}
		ctx, cancel := context.WithTimeout(n.ctx, proposeFor)
		answer, err := n.apply(ctx, cmd)
		cancel()
		switch {
		case err != nil:
			n.log.Debug("a decision was not appended to the log", "key", cmd.Key, "error", err)
		case answer.Error != "" && cmd.Found != nil:
			n.log.Error("this node does not belong here", "error", answer.Error)
		case answer.Error != "":
			n.log.Debug("a decision came too late", "key", cmd.Key, "answer", answer.Error)
		}
	}
}

// proposeFor bounds an attempt to append a decision; the coordinator decides anew afterwards.
const proposeFor = 5 * time.Second

// tidy removes the results of jobs that the cluster has forgotten.
func (n *Node) tidy() {
	seen := uint64(0)
	for {
		state, news := n.machine.watch()
		if state.NextJob != seen {
			seen = state.NextJob
			if err := n.store.prune(state); err != nil {
				n.log.Warn("results of old jobs cannot be removed", "error", err)
			}
		}
		if err := n.exec.prune(state); err != nil {
			n.log.Warn("checkpoints of ended jobs cannot be removed", "error", err)
		}
		select {
		case <-n.ctx.Done():
			return
		case <-news:
		}
	}
}

// Name of the node.
func (n *Node) Name() string { return n.config.Name }

// Address is where other nodes reach this one, API where people do.
func (n *Node) Address() string { return n.cluster.Addr() }

// API is where people reach the node.
func (n *Node) API() string { return n.apiAt.String() }

// StepDown hands the coordination over, if this node has it.
func (n *Node) StepDown(ctx context.Context) error { return n.cluster.StepDown(ctx) }

// Shutdown ends the node in an orderly way: the door closes, a job that it works for ends with an error that
// says so, the coordination is handed over; then all is ended as Close does. A node that only works leaves the
// cluster; one that may coordinate keeps its place for when it comes back. What is not done when ctx is done
// is given up.
func (n *Node) Shutdown(ctx context.Context) error {
	n.log.Info("the node ends", "node", n.config.Name)
	err := n.api.Shutdown(ctx)
	n.resign(ctx)
	if n.config.Role == control.Works {
		err = errors.Join(err, n.cluster.Leave(ctx))
	} else {
		if handed := n.cluster.StepDown(ctx); handed != nil {
			n.log.Warn("the coordination was not handed over", "error", handed)
		}
		err = errors.Join(err, n.cluster.Rest())
	}
	return errors.Join(err, n.end(ctx))
}

// resignFor is how long a node waits for the others to learn that it ends.
const resignFor = time.Second

// resign lets the job that this node works for fail with an error that says why, instead of after a silence.
func (n *Node) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, resignFor)
	defer cancel()
	for {
		state, news := n.machine.watch()
		job := state.Current()
		if job == nil || job.Epoch == 0 || !slices.Contains(job.Members, n.config.Name) {
			return
		}
		n.exec.resign(fmt.Sprintf("node %s was told to end", n.config.Name))
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// Close ends the node at once, as the loss of its process would, but for handlers that are running: those are
// waited for.
func (n *Node) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.api.Shutdown(ctx)
	return n.end(context.Background())
}

// end ends what begin began, in the opposite order, as far as it came.
func (n *Node) end(ctx context.Context) error {
	var errs []error
	n.cancel()
	if n.cluster != nil {
		errs = append(errs, n.cluster.Stop())
	}
	done := make(chan struct{})
	go func() {
		n.group.Wait()
		n.peers.wait()
		close(done)
	}()
	select {
	case <-done:
		errs = append(errs, n.exec.stop(ctx)) // the loop, which owned it, has ended
	case <-ctx.Done():
		errs = append(errs, ctx.Err())
	}
	return errors.Join(append(errs, n.held.Close())...)
}

// orders are commands that wait to be appended to the log. One whose key waits already is left out.
type orders struct {
	mu   sync.Mutex
	list []control.Command
	more chan struct{}
}

func (o *orders) put(cmd control.Command) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.list {
		if c.Key == cmd.Key {
			return
		}
	}
	o.list = append(o.list, cmd)
	select {
	case o.more <- struct{}{}:
	default:
	}
}

func (o *orders) next(ctx context.Context) (cmd control.Command, ok bool) {
	for {
		o.mu.Lock()
		if len(o.list) > 0 {
			cmd, o.list = o.list[0], o.list[1:]
			o.mu.Unlock()
			return cmd, true
		}
		o.mu.Unlock()
		select {
		case <-o.more:
		case <-ctx.Done():
			return cmd, false
		}
	}
}

// roster is who is there, as gossip said last.
type roster struct {
	mu    sync.Mutex
	nodes []control.Node
}

func (r *roster) set(nodes []control.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = nodes
}

func (r *roster) workers(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		if n.Name == name {
			return max(n.Workers, 1)
		}
	}
	return 1
}

// working counts the nodes that could work for a job.
func (r *roster) working() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, node := range r.nodes {
		if node.Role != control.Coordinates && node.Alive && !node.Leaving {
			n++
		}
	}
	return n
}

// refusals counts messages that could not be read, and tells seldom enough which of them to log.
type refusals struct {
	mu     sync.Mutex
	n      uint64
	logged time.Time
}

func (r *refusals) count() (log bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if log = time.Since(r.logged) > time.Second; log {
		r.logged = time.Now()
	}
	return log
}

func (r *refusals) total() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}
