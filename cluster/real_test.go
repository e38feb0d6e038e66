package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simnode/simnode/cluster/certs"
	"github.com/simnode/simnode/cluster/logstore"
	"github.com/simnode/simnode/control"
)

// These tests run nodes over the loopback network with their logs on disk.

// realNode is a node whose parts are all real.
type realNode struct {
	*Cluster
	config Config
	fsm    *keyed
	events *events
	log    *text
	disk   *disk
	boots  int
	failed chan error
	heard  chan string
}

// startReal starts a node, the first time or again. change may change its configuration.
func (n *realNode) start(t testing.TB) {
	t.Helper()
	n.boots++
	n.fsm, n.events, n.log = &keyed{}, &events{}, &text{}
	n.failed, n.heard = make(chan error, 1), make(chan string, 1000)
	c := n.config
	c.Boot = fmt.Sprintf("%s-%d", c.Name, n.boots)
	c.FSM, c.Events, c.Log = n.fsm, n.events.hook(), logged(c.Name, n.log)
	heard, failed := n.heard, n.failed
	c.Events.Received = func(from, boot string, payload []byte) { heard <- from + " " + boot + " " + string(payload) }
	c.Failed = func(err error) { failed <- err }
	var err error
	if n.disk == nil {
		n.Cluster, err = Start(context.Background(), c)
	} else {
		// As Start does, with another disk.
		if err = c.check(); err == nil {
			var w *wire
			if w, err = listen(&c); err == nil {
				n.Cluster, err = start(c, w, n.disk)
			}
		}
	}
	if err != nil {
		t.Fatalf("start %s: %v", c.Name, err)
	}
	n.config.Bind = n.Addr()
}

func (n *realNode) halt(t testing.TB) {
	t.Helper()
	if n.Cluster == nil {
		return
	}
	if err := n.Stop(); err != nil {
		t.Errorf("stop %s: %v", n.config.Name, err)
	}
	n.Cluster = nil
}

// realCluster starts nodes that all join the first one.
func realCluster(t testing.TB, count int, change func(i int, c *Config, n *realNode)) []*realNode {
	t.Helper()
	var nodes []*realNode
	t.Cleanup(func() {
		for _, n := range nodes {
			n.halt(t)
		}
	})
	for i := range count {
		n := &realNode{config: Config{
			Name: fmt.Sprint("n", i), Cluster: "test", Bind: "127.0.0.1:0", Dir: t.TempDir(), Expected: min(count, 5), Version: 1, Timing: Loopback(),
			GossipKey: []byte("0123456789abcdef"), API: fmt.Sprint("127.0.0.1:", 8000+i),
		}}
		if i > 0 {
			n.config.Join = []string{nodes[0].Addr()}
		}
		if change != nil {
			change(i, &n.config, n)
		}
		nodes = append(nodes, n)
		n.start(t)
	}
	return nodes
}

// leads waits for a leader that all nodes follow.
func leadsReal(t testing.TB, nodes []*realNode) (led *realNode) {
	t.Helper()
	wait(t, "a leader", func() bool {
		led = nil
		for _, n := range nodes {
			if n.leads() != 0 {
				led = n
			}
		}
		return led != nil && !slices.ContainsFunc(nodes, func(n *realNode) bool {
			name, _ := n.Leader()
			return name != led.config.Name
		})
	})
	return led
}

func applyReal(t testing.TB, n *realNode, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	answer, err := n.Apply(ctx, []byte(text))
	if err != nil {
		t.Fatalf("apply %q on %s: %v", text, n.config.Name, err)
	}
	return string(answer)
}

func agreeReal(t testing.TB, nodes []*realNode, want []string) {
	t.Helper()
	for _, n := range nodes {
		wait(t, fmt.Sprintf("%q on %s", want, n.config.Name), func() bool { return slices.Equal(n.fsm.list(), want) })
	}
}

func without(nodes []*realNode, out ...*realNode) []*realNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *realNode) bool { return slices.Contains(out, n) })
}

func voters(t testing.TB, n *realNode, count int) {
	t.Helper()
	wait(t, fmt.Sprint(count, " voters"), func() bool { return n.Metrics().Voters == count })
}

func TestRealLeaderIsLostAndComesBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := certs.Create(dir, []string{"n0", "n1", "n2"}, nil); err != nil {
		t.Fatal(err)
	}
	nodes := realCluster(t, 3, func(i int, c *Config, _ *realNode) {
		f, err := certs.Load(filepath.Join(dir, certs.CAFile), filepath.Join(dir, certs.CertFile(c.Name)), filepath.Join(dir, certs.KeyFile(c.Name)), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.TLS = f.Config()
	})
	led := leadsReal(t, nodes)
	voters(t, led, 3)
	for i, n := range nodes {
		if got := applyReal(t, n, fmt.Sprint("c", i)); got != fmt.Sprint(i) {
			t.Fatalf("answer %q", got)
		}
	}
	agreeReal(t, nodes, []string{"c0", "c1", "c2"})

	led.halt(t)
	begun := time.Now()
	rest := without(nodes, led)
	next := leadsReal(t, rest)
	t.Logf("a new leader after %v", time.Since(begun))
	applyReal(t, rest[0], "c3")
	led.start(t)
	agreeReal(t, nodes, []string{"c0", "c1", "c2", "c3"})
	voters(t, next, 3)
	for _, info := range nodes[0].Nodes() {
		if info.Name != "n0" && time.Since(info.LastHeard) > time.Minute || !info.Alive || !strings.HasPrefix(info.API, "127.0.0.1:800") {
			t.Errorf("%+v", info)
		}
	}
}

func TestRealMessages(t *testing.T) {
	t.Parallel()
	nodes := realCluster(t, 2, nil)
	leadsReal(t, nodes)
	a, b := nodes[0], nodes[1]
	for i := range 100 {
		for _, to := range []string{"n0", "n1"} {
			if err := a.SendWait(t.Context(), to, fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 100 {
		if got := <-b.heard; got != fmt.Sprint("n0 n0-1 ", i) {
			t.Fatalf("message %d to the other: %q", i, got)
		}
		if got := <-a.heard; got != fmt.Sprint("n0 n0-1 ", i) {
			t.Fatalf("message %d to itself: %q", i, got)
		}
	}
	if err := a.Send("nobody", []byte("x")); err == nil {
		t.Error("a message to nobody was taken")
	}
}

// A log file of one node is damaged while it is down: it says so by name and does not start; without its
// folder it is sent everything.
func TestFault26DamagedLogIsFoundAndReplaced(t *testing.T) {
	t.Parallel()
	nodes := realCluster(t, 3, nil)
	led := leadsReal(t, nodes)
	voters(t, led, 3)
	applyReal(t, led, "a")
	applyReal(t, led, "b")
	n := without(nodes, led)[0]
	agreeReal(t, nodes, []string{"a", "b"})
	n.halt(t)
	files, err := filepath.Glob(filepath.Join(n.config.Dir, "raft", "log", "log-*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 16
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	c := n.config
	c.Boot, c.FSM, c.Log = "x", &keyed{}, logged("x", nil)
	_, err = Start(t.Context(), c)
	var damage *logstore.DamageError
	if !errors.As(err, &damage) || damage.Path != files[0] {
		t.Fatalf("got %v", err)
	}
	if err := os.RemoveAll(filepath.Join(n.config.Dir, "raft")); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	agreeReal(t, nodes, []string{"a", "b"})
	voters(t, led, 3)
}

// slowDisk is a disk whose syncs wait while it is closed.
type slowDisk struct {
	logstore.Disk
	gate *gate
}

type gate struct {
	mu     sync.Mutex
	shut   chan struct{}
	waited atomic.Int32
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}

func (g *gate) pass() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		g.waited.Add(1)
		<-shut
	}
}

type slowFile struct {
	logstore.File
	gate *gate
}

func (d slowDisk) Open(name string) (logstore.File, error) {
	f, err := d.Disk.Open(name)
	if err != nil {
		return nil, err
	}
	return slowFile{f, d.gate}, nil
}

func (f slowFile) Sync() error {
	f.gate.pass()
	return f.File.Sync()
}

func TestFault23LeaderWhoseDiskHangsIsReplaced(t *testing.T) {
	t.Parallel()
	gates := map[string]*gate{}
	nodes := realCluster(t, 3, func(i int, c *Config, n *realNode) {
		c.Timing.WriteLimit = 500 * time.Millisecond
		g := &gate{}
		gates[c.Name] = g
		n.disk = &disk{seam: func(d logstore.Disk) logstore.Disk { return slowDisk{d, g} }}
	})
	led := leadsReal(t, nodes)
	voters(t, led, 3)
	applyReal(t, led, "a")
	g := gates[led.config.Name]
	g.close()
	old, rest := led, without(nodes, led)
	go old.Apply(t.Context(), []byte("hanging")) // makes it write
	err := <-old.failed
	if !strings.Contains(err.Error(), "hangs") || !strings.Contains(err.Error(), old.config.Dir) {
		t.Errorf("the reason given: %v", err)
	}
	// The process would end here. Its disk still hangs.
	stopped := make(chan error)
	go func() { stopped <- old.Stop() }()
	next := leadsReal(t, rest)
	applyReal(t, rest[0], "b")
	if g.waited.Load() == 0 || next == old {
		t.Error("the disk did not hang")
	}
	g.open()
	<-stopped // an error if the disk hung for longer than Stop waits
	old.Cluster = nil
}

func TestFault19LeaderWithAFullDiskStepsDown(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can mount a tmpfs of a given size")
	}
	dirs := []string{smallDisk(t), smallDisk(t), smallDisk(t)}
	nodes := realCluster(t, 3, func(i int, c *Config, n *realNode) { c.Dir = dirs[i] })
	led := leadsReal(t, nodes)
	voters(t, led, 3)
	applyReal(t, led, "a")
	agreeReal(t, nodes, []string{"a"})
	// Another program takes all the room there is.
	hog := filepath.Join(led.config.Dir, "hog")
	f, err := os.Create(hog)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	rest := without(nodes, led)
	big := strings.Repeat("b", 20000)
	applyReal(t, rest[0], big)
	applyReal(t, rest[0], "c")
	next := leadsReal(t, rest)
	wait(t, "the full disk to be noticed", func() bool { return led.log.has("the disk is full") && led.Metrics().DiskFull })
	// The next one keeps leading: the full one stands for no election.
	time.Sleep(2 * time.Second)
	if next.leads() == 0 {
		t.Error("leadership went on")
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	agreeReal(t, nodes, []string{"a", big, "c"})
	wait(t, "the disk to have room", func() bool { return !led.Metrics().DiskFull })
}

func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no tmpfs can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

func TestFault34OtherVersionIsRefusedByTheNetwork(t *testing.T) {
	t.Parallel()
	nodes := realCluster(t, 2, func(i int, c *Config, _ *realNode) {
		if c.Expected = 1; i == 1 {
			c.Version = 2
		}
	})
	wait(t, "both versions to be named", func() bool {
		return nodes[1].log.has("speaks version 1, this node (n1) version 2") && nodes[0].log.has("speaks version 2, this node (n0) version 1")
	})
	if nodes[0].Metrics().Alive != 1 || nodes[1].Metrics().Alive != 1 {
		t.Error("they met")
	}
}

func TestRealTwoClustersDoNotMerge(t *testing.T) {
	t.Parallel()
	nodes := realCluster(t, 2, func(i int, c *Config, _ *realNode) {
		if c.Expected = 1; i == 1 {
			c.Cluster = "other"
		}
	})
	wait(t, "both clusters to be named", func() bool { return nodes[1].log.has(`test`) && nodes[0].log.has(`\"other\"`) })
	leadsReal(t, nodes[:1])
	if nodes[0].Metrics().Alive != 1 || nodes[1].Metrics().Alive != 1 || nodes[1].Metrics().Founded {
		t.Error("they met, or a node that reached nobody founded a cluster")
	}
}

func TestADataFolderBelongsToOneNode(t *testing.T) {
	t.Parallel()
	nodes := realCluster(t, 1, nil)
	leadsReal(t, nodes)
	c := nodes[0].config
	c.Bind, c.Boot, c.FSM, c.Log = "127.0.0.1:0", "x", &keyed{}, logged("x", nil)
	if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "in use by another node") {
		t.Fatalf("while it runs: %v", err)
	}
	nodes[0].halt(t)
	c.Name = "n9"
	if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "test/n0") || !strings.Contains(err.Error(), "test/n9") {
		t.Fatalf("as another node: %v", err)
	}
}

func TestRealFiveCoordinatorsLoseTwoLeaders(t *testing.T) {
	t.Parallel()
	nodes := realCluster(t, 6, func(i int, c *Config, _ *realNode) {
		if c.Expected, c.Role = 5, control.Coordinates; i == 5 {
			c.Role = control.Works
		}
	})
	led := leadsReal(t, nodes)
	voters(t, led, 5)
	up, want := nodes, []string{}
	for i := range 2 {
		led = leadsReal(t, up)
		led.halt(t)
		up = without(up, led)
		want = append(want, fmt.Sprint(i))
		applyReal(t, nodes[5], want[i])
	}
	agreeReal(t, up, want)
}

func TestRealStartAndStopLeaveNothingBehind(t *testing.T) {
	nodes := realCluster(t, 1, nil)
	leadsReal(t, nodes)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("SKIPPED: open files cannot be counted here")
		}
		return len(entries)
	}
	var before, goroutines int
	for i := range 9 {
		if i == 3 {
			before, goroutines = count(), runtime.NumGoroutine()
		}
		n := &realNode{config: Config{Name: "x", Cluster: "test", Bind: "127.0.0.1:0", Dir: t.TempDir(), Expected: 1, Version: 1, Timing: Loopback(),
			GossipKey: []byte("0123456789abcdef"), Join: []string{nodes[0].Addr()}, Role: control.Works}}
		n.start(t)
		wait(t, "it to take part", func() bool { return n.replica() != nil && nodes[0].Metrics().Others == 1 })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := n.Leave(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		wait(t, "it to be gone", func() bool { return nodes[0].Metrics().Others == 0 })
	}
	wait(t, "files to be closed", func() bool { return count() <= before+3 })
	wait(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
}

func TestJoinByName(t *testing.T) {
	t.Parallel()
	nodes := realCluster(t, 1, nil)
	_, port, _ := net.SplitHostPort(nodes[0].Addr())
	n := &realNode{config: nodes[0].config}
	n.config.Name, n.config.Dir, n.config.Bind, n.config.Join = "n1", t.TempDir(), "127.0.0.1:0", []string{"no-such-host.invalid", "localhost:" + port}
	n.start(t)
	defer n.halt(t)
	wait(t, "two nodes", func() bool { return nodes[0].Metrics().Alive == 2 && n.replica() != nil })
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Name: "a", Cluster: "c", Boot: "b", Bind: "127.0.0.1:0", Dir: t.TempDir(), FSM: &keyed{}, Log: logged("a", nil)}
	if c := good; c.check() != nil {
		t.Fatal(c.check())
	}
	for what, change := range map[string]func(*Config){
		"node name":    func(c *Config) { c.Name = "a b" },
		"cluster name": func(c *Config) { c.Cluster = "" },
		"boot id":      func(c *Config) { c.Boot = strings.Repeat("b", 65) },
		"bind address": func(c *Config) { c.Bind = "127.0.0.1" },
		"API address":  func(c *Config) { c.API = strings.Repeat("b", 201) },
		"role":         func(c *Config) { c.Role = "boss" },
		"gossip key":   func(c *Config) { c.GossipKey = make([]byte, 20) },
		"data folder":  func(c *Config) { c.Dir = "" },
		"expected":     func(c *Config) { c.Expected = -1 },
		"workers":      func(c *Config) { c.Workers = -1 },
		"lease":        func(c *Config) { c.Timing = Timing{Heartbeat: time.Second, Lease: 2 * time.Second} },
		"join":         func(c *Config) { c.Join = []string{" "} },
		"required":     func(c *Config) { c.FSM = nil },
	} {
		c := good
		change(&c)
		if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
