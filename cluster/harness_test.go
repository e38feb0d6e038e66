package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/simnode/simnode/control"
)

func TestMain(m *testing.M) {
	code := m.Run()
	// A probe of memberlist that is under way when it stops takes seconds to end.
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if err = goleak.Find(); err == nil {
			os.Exit(code)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// keyed is an FSM: a list of commands, each "key text", of which a key counts once.
type keyed struct {
	mu      sync.Mutex
	List    []string
	applied int
	resets  int
}

func (f *keyed) Apply(_ uint64, command []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied++
	text := string(command)
	for i, c := range f.List {
		if c == text {
			return fmt.Appendf(nil, "%d", i)
		}
	}
	f.List = append(f.List, text)
	return fmt.Appendf(nil, "%d", len(f.List)-1)
}

func (f *keyed) Snapshot() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return json.Marshal(f.List)
}

func (f *keyed) Restore(data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.List = nil
	if data == nil {
		f.resets++
		return nil
	}
	return json.Unmarshal(data, &f.List)
}

func (f *keyed) list() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.List)
}

// logged is where the log of a test goes: to stderr if asked for.
func logged(name string, also io.Writer) *slog.Logger {
	w := io.Discard
	if os.Getenv("CLUSTER_TEST_LOG") != "" {
		w = os.Stderr
	}
	if also != nil {
		w = io.MultiWriter(w, also)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})).With("me", name)
}

// text collects a log.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(b)
}

func (t *text) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Reset()
}

// long reports whether tests may take minutes.
func long() bool { return os.Getenv("SIMNODE_LONG_TESTS") != "" }

func (t *text) has(part string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Contains(t.b.String(), part)
}

// events notes what a node was told.
type events struct {
	mu      sync.Mutex
	terms   []uint64
	leading bool
	faults  []string
	members []control.Node
}

func (e *events) hook() Events {
	return Events{
		Lead: func(term uint64) {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.leading {
				e.faults = append(e.faults, "Lead without Follow")
			}
			if n := len(e.terms); n > 0 && e.terms[n-1] >= term {
				e.faults = append(e.faults, fmt.Sprintf("term %d after %d", term, e.terms[n-1]))
			}
			e.leading, e.terms = true, append(e.terms, term)
		},
		Follow: func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			if !e.leading {
				e.faults = append(e.faults, "Follow without Lead")
			}
			e.leading = false
		},
		Members: func(nodes []control.Node) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.members = nodes
		},
	}
}

// testNode is a node of a test that can be stopped and started again.
type testNode struct {
	*Cluster
	config Config
	fsm    *keyed
	events *events
	log    *text
	stores *memStores
	addr   netip.AddrPort
	boots  int
}

// testCluster is a cluster in memory.
type testCluster struct {
	t     testing.TB
	net   *memNet
	nodes []*testNode
}

// memCluster makes n nodes in memory; they find each other through the first ones.
func memCluster(t testing.TB, n int, change func(i int, c *Config)) *testCluster {
	tc := &testCluster{t: t, net: newMemNet()}
	for i := range n {
		c := Config{Name: fmt.Sprintf("n%d", i), Cluster: "test", Bind: "mem:0", Dir: t.TempDir(), Expected: min(n, 5), Version: 1, Timing: LAN(), Workers: 2}
		if change != nil {
			change(i, &c)
		}
		tc.nodes = append(tc.nodes, &testNode{config: c, stores: newMemStores()})
		tc.start(i)
	}
	return tc
}

// start starts a node, the first time or again.
func (tc *testCluster) start(i int) {
	tc.t.Helper()
	n := tc.nodes[i]
	n.boots++
	n.fsm, n.events, n.log = &keyed{}, &events{}, &text{}
	c := n.config
	c.Boot = fmt.Sprintf("%s-%d", c.Name, n.boots)
	c.FSM, c.Events, c.Log = n.fsm, n.events.hook(), logged(c.Name, n.log)
	if len(c.Join) == 0 {
		for _, o := range tc.nodes[:min(len(tc.nodes), 3)] {
			if o != n && o.addr.IsValid() {
				c.Join = append(c.Join, o.addr.String())
			}
		}
	}
	if err := c.check(); err != nil {
		tc.t.Fatal(err)
	}
	net := tc.net.node(c.Name, c.Boot, n.addr)
	n.addr = net.addr
	var err error
	if n.Cluster, err = start(c, net, n.stores); err != nil {
		tc.t.Fatalf("start %s: %v", c.Name, err)
	}
}

func (tc *testCluster) stop() {
	for _, n := range tc.nodes {
		if n.Cluster == nil {
			continue
		}
		if err := n.Stop(); err != nil {
			tc.t.Errorf("stop %s: %v", n.config.Name, err)
		}
		n.check(tc.t)
	}
	// A probe of memberlist that is under way ends in its own time; this costs none in a bubble.
	time.Sleep(time.Minute)
}

// check reports what a node was told wrongly.
func (n *testNode) check(t testing.TB) {
	t.Helper()
	n.events.mu.Lock()
	defer n.events.mu.Unlock()
	for _, f := range n.events.faults {
		t.Errorf("%s: %s", n.config.Name, f)
	}
}

// wait waits until a condition holds; the deadline is a generous one.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}

// alive returns the nodes that are not stopped.
func (tc *testCluster) alive() []*testNode {
	var up []*testNode
	for _, n := range tc.nodes {
		if n.Cluster != nil {
			up = append(up, n)
		}
	}
	return up
}

// leader waits for a node that leads and that all of the given nodes follow.
func leader(t testing.TB, nodes []*testNode) (led *testNode) {
	t.Helper()
	wait(t, "a leader", func() bool {
		led = nil
		for _, n := range nodes {
			if n.leads() != 0 {
				led = n
			}
		}
		return led != nil && !slices.ContainsFunc(nodes, func(n *testNode) bool {
			name, _ := n.Leader()
			return name != led.config.Name
		})
	})
	return led
}

// voters returns the names of who votes, as a node knows.
func (n *testNode) voters() string {
	var v []string
	for _, i := range n.Nodes() {
		if i.Voter {
			v = append(v, i.Name)
		}
	}
	return strings.Join(v, " ")
}

func apply(t testing.TB, n *testNode, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	answer, err := n.Apply(ctx, []byte(text))
	if err != nil {
		t.Fatalf("apply %q on %s: %v", text, n.config.Name, err)
	}
	return string(answer)
}

// agree waits until the nodes have the same commands and returns them.
func agree(t testing.TB, nodes []*testNode, least int) []string {
	t.Helper()
	wait(t, fmt.Sprintf("%d commands everywhere", least), func() bool {
		first := nodes[0].fsm.list()
		return len(first) >= least && !slices.ContainsFunc(nodes, func(n *testNode) bool { return !slices.Equal(n.fsm.list(), first) })
	})
	return nodes[0].fsm.list()
}
