package cluster

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/simnode/simnode/cluster/link"
	"github.com/simnode/simnode/cluster/transport"
	"github.com/simnode/simnode/control"
)

// MaxVoters is how many nodes vote at most.
const MaxVoters = 5

// MaxCommand is the largest command in bytes.
const MaxCommand = 8 << 20

// Config of a node.
type Config struct {
	// Name of the node, unique in the cluster and the same after a restart: letters, digits, '.', '-', '_',
	// at most 64. Required.
	Name string
	// Cluster is the name of the cluster, of the same letters. Nodes of other clusters are refused.
	// Required.
	Cluster string
	// Boot is different for each process: random text of 1 to 64 bytes. Required.
	Boot string
	// Bind is the address to listen on, host:port, TCP and UDP; port 0 takes one that is free on both.
	// Required.
	Bind string
	// Advertise is where others reach this node, host:port, if that differs from Bind; a port left out
	// or 0 is that of Bind.
	Advertise string
	// API is the address of the node's API, which others are told; at most 200 bytes.
	API string
	// Join names nodes of the cluster, host:port or host with the port of Bind. All addresses of a name
	// are tried, again and again.
	Join []string
	// Dir is the folder for log, votes and snapshots. It belongs to this node. Required.
	Dir string
	// Role says whether the node may vote and lead; default control.Both.
	Role control.Role
	// Workers is how many regions it can work on at once, which others are told.
	Workers int
	// Expected is how many nodes that may coordinate must be there to found a cluster; default 1. It must
	// be the same everywhere, and more than half of those there will be, or two clusters may be founded.
	Expected int
	// GossipKey encrypts gossip: 16, 24 or 32 bytes, the same everywhere; nil for plain text.
	GossipKey []byte
	// TLS between nodes, as package certs loads it; nil for plain TCP.
	TLS *tls.Config
	// Version of the protocol. Others are refused.
	Version int
	// Release of the program, for people: others are told its first 64 bytes.
	Release string
	// Timing; the zero value is LAN.
	Timing Timing
	// Link configures the links; zero values are defaults.
	Link link.Config
	// Log for people. Required.
	Log *slog.Logger
	// FSM is what commands change. Required.
	FSM FSM
	// Events tell what happens.
	Events Events
	// Failed is called, once, when this node can write its log no more because the disk hangs or fails in
	// a way that leaves its content unknown. It must end the process: the other nodes go on without it.
	// By default it prints the reason and exits with status 1.
	Failed func(error)

	// Entries applied until a snapshot is taken, and entries kept behind one. Few kept entries let a
	// returning leader be sent snapshots in a loop. Tests set less.
	snapshotAfter, kept uint64
}

// FSM is the state that the log decides. Its methods are called by one goroutine at a time.
type FSM interface {
	// Apply applies a command and returns the answer for whoever waits for it. It must depend on nothing
	// but the commands so far.
	Apply(index uint64, command []byte) (answer []byte)
	// Snapshot returns the state as bytes.
	Snapshot() ([]byte, error)
	// Restore replaces the state by one that Snapshot returned; nil is the state before all commands.
	Restore(data []byte) error
}

// Events are functions that are called when something happens; any may be nil.
//
// Lead, Follow and Members are called by one goroutine, one after another. They may take their time and may
// call any method but Leave and Stop. Received and Replaced are called in order for each node, for several
// nodes at a time; while Received blocks, nothing more is received from that node. Stop waits for functions
// that are under way, so none may wait for what comes after Stop.
type Events struct {
	// Lead says that this node leads, from the moment that it has applied all committed commands.
	Lead func(term uint64)
	// Follow ends what Lead began.
	Follow func()
	// Members tells which nodes are there, this one included, in order of name. Changes that come close
	// together are told once.
	Members func([]control.Node)
	// Received is given a message that another node, or this one, sent with Send.
	Received func(from, boot string, payload []byte)
	// Replaced says that what comes from a node from now on comes from another process, or from one
	// that forgot this node: messages may have been lost.
	Replaced func(peer, boot string)
}

// Timing holds all times. They affect when something happens and never what is decided.
type Timing struct {
	// Heartbeat is how long a follower waits for its leader before it stands for election, and that
	// again until an election is given up. Lease is how long a leader leads without a majority.
	// Commit is the longest time until followers learn that something was committed.
	Heartbeat, Lease, Commit time.Duration
	// Probe is between probes of one node by gossip, ProbeTimeout how long one may take, Gossip between
	// packets of news, PushPull between full exchanges with some node.
	Probe, ProbeTimeout, Gossip, PushPull time.Duration
	// Rejoin is between attempts to reach the addresses of Join that are not there.
	Rejoin time.Duration
	// Settle is how long the nodes that are there must have been the same before a cluster is founded.
	Settle time.Duration
	// Reconcile is between looks at what there is to do; changes of gossip cause one at once.
	Reconcile time.Duration
	// GoneAfter is how long gossip must have taken a node for dead until it is removed.
	GoneAfter time.Duration
	// WriteLimit is how long a write to the log may take until the node is given up.
	WriteLimit time.Duration
	// Request is how long a request to another node may take.
	Request time.Duration
}

// LAN returns times for nodes on a local network.
func LAN() Timing {
	return Timing{
		Heartbeat: 500 * time.Millisecond, Lease: 250 * time.Millisecond, Commit: 50 * time.Millisecond,
		Probe: 250 * time.Millisecond, ProbeTimeout: 100 * time.Millisecond, Gossip: 50 * time.Millisecond, PushPull: 5 * time.Second,
		Rejoin: 5 * time.Second, Settle: time.Second, Reconcile: 250 * time.Millisecond,
		GoneAfter: time.Minute, WriteLimit: 5 * time.Second, Request: 2 * time.Second,
	}
}

// Loopback returns times for nodes on one machine.
func Loopback() Timing {
	t := LAN()
	t.Heartbeat, t.Lease = 300*time.Millisecond, 150*time.Millisecond
	t.Rejoin, t.Settle, t.Reconcile = time.Second, 50*time.Millisecond, 100*time.Millisecond
	return t
}

var nameShape = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`)

// check completes a Config and reports all that is wrong with it.
func (c *Config) check() error {
	c.Expected = cmp.Or(c.Expected, 1)
	c.Role = cmp.Or(c.Role, control.Both)
	c.Timing = c.Timing.or(LAN())
	c.snapshotAfter, c.kept = cmp.Or(c.snapshotAfter, 4096), cmp.Or(c.kept, 10240)
	if c.Failed == nil {
		c.Failed = func(err error) {
			fmt.Fprintf(os.Stderr, "simnode: node %s ends: %v\n", c.Name, err)
			os.Exit(1)
		}
	}
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(!nameShape.MatchString(c.Name), "node name %q: letters, digits, '.', '-' and '_' are expected, at most 64, with a letter or digit at both ends", c.Name)
	bad(!nameShape.MatchString(c.Cluster), "cluster name %q: letters, digits, '.', '-' and '_' are expected, at most 64, with a letter or digit at both ends", c.Cluster)
	bad(len(c.Boot) == 0 || len(c.Boot) > maxBoot, "boot id of %d bytes, 1 to %d expected", len(c.Boot), maxBoot)
	bad(len(c.API) > maxAPI, "API address of %d bytes, at most %d expected", len(c.API), maxAPI)
	bad(c.Role != control.Both && c.Role != control.Coordinates && c.Role != control.Works, "role %q: %q, %q or %q is expected", c.Role, control.Both, control.Coordinates, control.Works)
	bad(c.Workers < 0 || c.Workers > 1<<20, "%d workers", c.Workers)
	bad(c.Expected < 1, "%d expected nodes; at least 1", c.Expected)
	bad(c.Version < 0 || c.Version > 1<<30, "protocol version %d", c.Version)
	n := len(c.GossipKey)
	bad(n != 0 && n != 16 && n != 24 && n != 32, "gossip key of %d bytes; 16, 24 or 32 are expected", n)
	bad(c.Dir == "", "no data folder is given")
	bad(c.FSM == nil || c.Log == nil, "FSM and Log are required")
	for _, j := range c.Join {
		bad(strings.TrimSpace(j) == "", "an empty address to join")
	}
	if _, _, err := net.SplitHostPort(c.Bind); err != nil {
		errs = append(errs, fmt.Errorf("bind address %q: %w", c.Bind, err))
	}
	t := c.Timing
	bad(t.Lease > t.Heartbeat, "lease of %v with heartbeats of %v: it must not be longer", t.Lease, t.Heartbeat)
	return errors.Join(errs...)
}

// or takes times that are not set from another Timing.
func (t Timing) or(d Timing) Timing {
	for _, f := range []struct {
		v *time.Duration
		d time.Duration
	}{
		{&t.Heartbeat, d.Heartbeat}, {&t.Lease, min(d.Lease, cmp.Or(t.Heartbeat, d.Lease))}, {&t.Commit, d.Commit},
		{&t.Probe, d.Probe}, {&t.ProbeTimeout, d.ProbeTimeout}, {&t.Gossip, d.Gossip}, {&t.PushPull, d.PushPull},
		{&t.Rejoin, d.Rejoin}, {&t.Settle, d.Settle}, {&t.Reconcile, d.Reconcile},
		{&t.GoneAfter, d.GoneAfter}, {&t.WriteLimit, d.WriteLimit}, {&t.Request, d.Request},
	} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	return t
}

// mesh returns the settings of the links.
func (c *Config) mesh() transport.MeshOptions { return transport.MeshOptions{Link: c.Link} }

// mayVote reports whether a node of a role may vote and lead.
func mayVote(r control.Role) bool { return r != control.Works }
