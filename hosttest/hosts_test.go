//go:build linux

package hosttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const prefix = "simnode-t"

// hosts is a cluster whose nodes are on hosts of their own: namespaces on one bridge.
type hosts struct{ *cluster }

func space(i int) string { return fmt.Sprint(prefix, i) }

// newHosts makes a host for each node, all on one bridge, or skips the test. Tests with hosts do not run in
// parallel: their names are the same. Nodes use TLS, and join by a name that stands for all of them.
func newHosts(t *testing.T, list []member) *hosts {
	t.Helper()
	return makeHosts(t, list, func(h *hosts, i int) {
		if i == 0 {
			if out, err := exec.Command("ip", "link", "add", prefix, "type", "bridge").CombinedOutput(); err != nil {
				t.Skipf("this system makes no bridge: %s", out)
			}
			h.ip("link", "set", prefix, "up")
		}
		h.ip("link", "add", space(i), "type", "veth", "peer", "name", "eth0", "netns", space(i))
		h.ip("link", "set", space(i), "master", prefix, "up")
	})
}

// makeHosts makes a host for each node; plug gives it the device eth0.
func makeHosts(t *testing.T, list []member, plug func(h *hosts, i int)) *hosts {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip (iproute2) is not installed")
	}
	c := &cluster{t: t, dir: t.TempDir(), list: list}
	h := &hosts{c}
	lock(t)
	sweep()
	t.Cleanup(sweep)
	for i := range list {
		c.address = append(c.address, fmt.Sprint("10.77.0.", i+1))
		if out, err := exec.Command("ip", "netns", "add", space(i)).CombinedOutput(); err != nil {
			t.Skipf("this system makes no network namespaces: %s", out)
		}
		plug(h, i)
		h.ip("-n", space(i), "addr", "add", c.address[i]+"/24", "dev", "eth0")
		h.ip("-n", space(i), "link", "set", "eth0", "up")
		h.ip("-n", space(i), "link", "set", "lo", "up")
	}
	c.enter = func(i int) []string { return []string{"ip", "netns", "exec", space(i)} }
	h.names()
	c.define()
	for _, m := range list {
		p := c.nodes[m.name]
		p.args = append(p.args, "--join", everybody)
	}
	c.secure()
	return h
}

// lock waits until no other process has hosts, since their names are the same.
func lock(t *testing.T) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(os.TempDir(), prefix+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		t.Cleanup(func() { _ = file.Close() })
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// everybody is a name that stands for all hosts.
const everybody = "everybody.simnode.test"

// etc is where ip finds the files of a namespace that stand for those in /etc.
func etc(i int) string { return "/etc/netns/" + space(i) }

// names gives all hosts a table of names of their own.
func (h *hosts) names() {
	h.t.Helper()
	table := "127.0.0.1 localhost\n"
	for _, a := range h.address {
		table += a + " " + everybody + "\n"
	}
	for i := range h.list {
		err := os.MkdirAll(etc(i), 0o755)
		if err == nil {
			err = os.WriteFile(etc(i)+"/hosts", []byte(table), 0o644)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
}

// sweep removes all that these tests make outside of their folders, and what earlier ones left that were killed.
func sweep() {
	for i := range 16 {
		for path, remove := range map[string][]string{
			"/run/netns/" + space(i):     {"netns", "del", space(i)},
			"/sys/class/net/" + space(i): {"link", "del", space(i)},
		} {
			if _, err := os.Lstat(path); err == nil {
				_ = exec.Command("ip", remove...).Run() // The one may take the other with it.
			}
		}
		_ = os.RemoveAll(etc(i))
	}
	_ = os.Remove("/etc/netns") // unless others use it
	_ = exec.Command("ip", "link", "del", prefix).Run()
}

func (h *hosts) ip(args ...string) {
	h.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		h.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// host is the index of the host of a node.
func (h *hosts) host(node string) int {
	for i, m := range h.list {
		if m.name == node {
			return i
		}
	}
	h.t.Fatalf("no node %q", node)
	return 0
}

// cut cuts the link of a host; mend mends it.
func (h *hosts) cut(i int)  { h.t.Helper(); h.ip("link", "set", space(i), "down") }
func (h *hosts) mend(i int) { h.t.Helper(); h.ip("link", "set", space(i), "up") }

// filter adds a rule for what comes into a host, or skips the test.
func (h *hosts) filter(i int, rule string) {
	h.t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		h.t.Skip("nft (nftables) is not installed")
	}
	rules := "add table ip t; add chain ip t in { type filter hook input priority 0; }; add rule ip t in " + rule
	if out, err := exec.Command("ip", "netns", "exec", space(i), "nft", rules).CombinedOutput(); err != nil {
		h.t.Skipf("this system filters no packets: %s", out)
	}
}

// unfilter drops all rules of a host.
func (h *hosts) unfilter(i int) {
	h.t.Helper()
	h.ip("netns", "exec", space(i), "nft", "delete", "table", "ip", "t")
}

// trouble submits a scenario, brings trouble about while it runs (nil for none besides what is there already), and
// compares what comes out.
func (h *hosts) trouble(end string, disturb func()) {
	h.t.Helper()
	file := h.scenario(phold(1000, end))
	want := h.alone(file)
	h.start()
	job := h.submit(file)
	if disturb != nil {
		h.reach(0.01)
		disturb()
	}
	h.same(job, want)
}
