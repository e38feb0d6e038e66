//go:build linux

package hosttest

import (
	"os"
	"testing"
	"time"
)

// TestHostsAgree runs on three hosts without trouble; nodes use TLS and find one another by a name that stands
// for all of them.
func TestHostsAgree(t *testing.T) {
	h := newHosts(t, members(0, 0, 3))
	// The name alone is enough.
	for _, m := range h.list {
		p := h.nodes[m.name]
		for i := 0; i+1 < len(p.args); i++ {
			if p.args[i] == "--join" && p.args[i+1] != everybody {
				p.args = append(p.args[:i], p.args[i+2:]...)
			}
		}
	}
	h.trouble("20 s", nil)
}

// TestFault14LossOnAllLinks loses one packet in a hundred on its way into every host.
func TestFault14LossOnAllLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	h := newHosts(t, members(0, 0, 3))
	for i := range h.list {
		h.filter(i, "numgen random mod 100 == 0 drop")
	}
	h.trouble("30 s", nil)
}

// TestFault15DelayAndLoss holds all packets up for 5 ms and loses one in a hundred.
func TestFault15DelayAndLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	end := "20 s"
	if os.Getenv(longTests) != "" {
		end = "200 s"
	}
	h := newSlowHosts(t, members(0, 0, 3), 5*time.Millisecond, 0.01)
	h.trouble(end, nil)
}

// TestFault15SlowLine has lines that carry little, with queues in front of them that fill up.
func TestFault15SlowLine(t *testing.T) {
	long(t, "5 s")
	h := newHosts(t, members(0, 0, 3))
	t.Log(h.shape())
	h.trouble("20 s", nil)
}

// TestFault13FlappingLink cuts the link of a host that owns regions again and again, shorter than what counts
// as lost.
func TestFault13FlappingLink(t *testing.T) {
	long(t, "30 s")
	h := newHosts(t, members(0, 0, 3))
	h.asks("b0", "b2")
	h.trouble("1000 s", func() {
		for range 6 {
			h.cut(1)
			time.Sleep(1500 * time.Millisecond)
			h.mend(1)
			time.Sleep(1500 * time.Millisecond)
		}
	})
}

// TestFault11LeaderInTheMinority cuts the coordinator and another one off from the other three: the run goes on
// under one of these.
func TestFault11LeaderInTheMinority(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	h := newHosts(t, members(5, 2, 0))
	h.asks("w0", "w1")
	h.trouble("200 s", func() {
		leader := h.leader("")
		other := "c0"
		if leader == other {
			other = "c1"
		}
		h.cut(h.host(leader))
		h.cut(h.host(other))
		if next := h.leader(leader); next == other {
			t.Errorf("%s leads and is cut off", other)
		}
		h.moves()
		h.mend(h.host(leader))
		h.mend(h.host(other))
	})
}

// TestFault12OneWay lets the coordinator hear nothing while it is heard: another one leads, the run goes on, and
// terms do not run away.
func TestFault12OneWay(t *testing.T) {
	long(t, "10 s")
	h := newHosts(t, members(3, 2, 0))
	h.asks("w0", "w1")
	h.trouble("200 s", func() {
		leader := h.leader("")
		before := h.term()
		h.filter(h.host(leader), "iifname eth0 drop")
		h.leader(leader)
		h.moves()
		time.Sleep(2 * time.Second)
		if after := h.term(); after > before+10 {
			t.Errorf("an election storm: from term %d to term %d", before, after)
		}
		h.unfilter(h.host(leader))
	})
}

// term is that of the leader.
func (c *cluster) term() uint64 {
	c.t.Helper()
	return c.until("a term", func(s *status) bool { return s.Leader != "" }).Term
}

// TestFault12TwoHostsCannotTalk cuts two workers off from one another, both ways, while both reach all others: the
// run waits, names whom it waits for or fails with a name, or goes on when the cut is mended.
func TestFault12TwoHostsCannotTalk(t *testing.T) {
	long(t, "10 s")
	h := newHosts(t, members(1, 3, 0))
	h.asks("c0", "w2")
	h.trouble("200 s", func() {
		w0, w1 := h.host("w0"), h.host("w1")
		h.filter(w0, "ip saddr "+h.address[w1]+" drop")
		h.filter(w1, "ip saddr "+h.address[w0]+" drop")
		time.Sleep(4 * time.Second)
		h.unfilter(w0)
		h.unfilter(w1)
	})
}

// TestFault1LostHost cuts a host that owns regions off for good: the others go on with the job from its last
// checkpoint.
func TestFault1LostHost(t *testing.T) {
	long(t, "30 s")
	h := newHosts(t, members(0, 0, 3))
	h.asks("b0", "b2")
	file := h.scenario(phold(400, "1500 s"))
	want := h.alone(file)
	h.start()
	job := h.submit(file, often()...)
	h.saved(0.2)
	h.cut(1)
	h.same(job, want)
}
