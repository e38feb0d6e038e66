//go:build linux

package hosttest

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func both(int) string { return "both" }

// coordinatorsFirst has three nodes that only coordinate; the others only work.
func coordinatorsFirst(i int) string {
	if i < 3 {
		return "coordinator"
	}
	return "worker"
}

// wait waits until so much of the run is done.
func (h *hosts) wait(moved func() float64, least float64) {
	h.t.Helper()
	for range 600 {
		if f := moved(); f >= least {
			if f >= 1 {
				h.t.Log("the run ended before the trouble did")
			}
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	h.t.Fatalf("the run does not come to %g of its end", least)
}

// TestHostsAgree runs on three hosts with TLS and no trouble.
func TestHostsAgree(t *testing.T) {
	h := newHosts(t, 3)
	h.start(both)
	h.trouble("60 s", func(func() float64) {})
}

// TestFault14LossOnAllLinks loses one packet in a hundred on its way into every host.
func TestFault14LossOnAllLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	h := newHosts(t, 3)
	for i := range h.n {
		h.nft(i, "numgen random mod 100 == 0 drop")
	}
	h.start(both)
	h.trouble("120 s", func(func() float64) {})
}

// nft adds a rule for what comes into a host, or skips the test.
func (h *hosts) nft(i int, rule string) {
	h.t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		h.t.Skip("nft (nftables) is not installed")
	}
	if out, err := h.in(i, "nft", "add table ip t; add chain ip t in { type filter hook input priority 0; }; add rule ip t in "+rule).CombinedOutput(); err != nil {
		h.t.Skipf("this system filters no packets: %s", out)
	}
}

// unfilter drops all rules of a host.
func (h *hosts) unfilter(i int) {
	h.t.Helper()
	if out, err := h.in(i, "nft", "delete table ip t").CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
}

// TestFault15Delay holds all packets of a host up for 5 ms where the system can, and otherwise lets them queue
// for a slow line.
func TestFault15Delay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	h := newHosts(t, 3)
	how := "5 ms of delay and 1 % of loss"
	for i := range h.n {
		if exec.Command("tc", "-n", space(i), "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "5ms", "loss", "1%").Run() == nil {
			continue
		}
		how = "a line of 20 Mbit/s (netem is missing)"
		if out, err := exec.Command("tc", "-n", space(i), "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst", "4kb", "latency", "50ms").CombinedOutput(); err != nil {
			t.Skipf("this system shapes no traffic: %s", out)
		}
	}
	t.Log(how)
	h.start(both)
	h.trouble("30 s", func(func() float64) {})
}

// TestFault13FlappingLink cuts the link of a host that owns regions again and again, shorter than what counts
// as lost.
func TestFault13FlappingLink(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	h := newHosts(t, 3)
	h.start(both)
	h.trouble("600 s", func(moved func() float64) {
		h.wait(moved, 0.01)
		for range 4 {
			h.ip("link", "set", space(1), "down")
			time.Sleep(1500 * time.Millisecond)
			h.ip("link", "set", space(1), "up")
			time.Sleep(1500 * time.Millisecond)
		}
	})
}

// TestFault11LeaderInTheMinority cuts the coordinator off from all others; it owns no regions, so that the run
// goes on under another one.
func TestFault11LeaderInTheMinority(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	h := newHosts(t, 5)
	h.start(coordinatorsFirst)
	h.trouble("600 s", func(moved func() float64) {
		h.wait(moved, 0.01)
		leader := h.leader()
		h.ip("link", "set", space(leader), "down")
		before := moved()
		h.wait(moved, before+0.02)
		if now := h.leader(); now == leader {
			t.Errorf("host %d is cut off and still leads", leader)
		}
		h.ip("link", "set", space(leader), "up")
	})
}

// TestFault12OneWay lets a host that coordinates hear nothing while it is heard: no election storm, and the
// run goes on.
func TestFault12OneWay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	h := newHosts(t, 5)
	h.start(coordinatorsFirst)
	h.trouble("600 s", func(moved func() float64) {
		h.wait(moved, 0.01)
		h.nft(h.leader(), "iifname eth0 drop")
		deaf := h.leader()
		before := moved()
		h.wait(moved, before+0.02)
		for i := range 3 {
			if h.in(i, "nft", "list table ip t").Run() == nil {
				deaf = i
			}
		}
		h.unfilter(deaf)
	})
}

// leader is the host whose node leads.
func (h *hosts) leader() int {
	h.t.Helper()
	for range 100 {
		out, err := h.client(h.t.Context(), h.n-1, "status")
		if _, rest, ok := strings.Cut(string(out), "leader n"); err == nil && ok && len(rest) > 0 {
			if i := int(rest[0] - '0'); i >= 0 && i < h.n {
				return i
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	h.t.Fatal("no node leads")
	return 0
}

// TestFault1LostHostIsNamed kills a node that owns regions: the job fails with an error that names it.
func TestFault1LostHostIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the node counts as lost")
	}
	h := newHosts(t, 3)
	h.start(both)
	file, _ := h.scenario("5000 s")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := h.until(ctx, 0, "submit", file); err != nil {
		t.Fatal(err)
	}
	h.wait(func() float64 { return h.fraction(ctx) }, 0.001)
	if err := syscall.Kill(-h.nodes[1].Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, err := h.client(ctx, 2, "watch", "--no-progress")
	if err == nil || !strings.Contains(err.Error(), "n1") {
		t.Errorf("the job ended with %v, which should name node n1", err)
	}
}
