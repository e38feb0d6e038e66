package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/simnode/simnode/control"
)

// These tests run the real raft and memberlist in simulated time, over a network in memory.

func TestThreeNodesForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, nil)
		defer tc.stop()
		led := leader(t, tc.nodes)
		wait(t, "three voters", func() bool { return led.voters() == "n0 n1 n2" })
		for i, n := range tc.nodes {
			if got := apply(t, n, fmt.Sprint("c", i)); got != fmt.Sprint(i) {
				t.Fatalf("answer %q", got)
			}
		}
		agree(t, tc.nodes, 3)
		synctest.Wait()
		for _, n := range tc.nodes {
			n.events.mu.Lock()
			got := fmt.Sprint(n.events.members)
			n.events.mu.Unlock()
			if got != "[{n0 n0-1 both 2 true false} {n1 n1-1 both 2 true false} {n2 n2-1 both 2 true false}]" {
				t.Errorf("%s knows %s", n.config.Name, got)
			}
		}
	})
}

func TestCommandsWaitUntilTheClusterIsFounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 2, func(i int, c *Config) { c.Expected = 3 })
		defer tc.stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := tc.nodes[0].Apply(ctx, []byte("x")); err == nil || !strings.Contains(err.Error(), "no leader") {
			t.Fatalf("two of three expected nodes: %v", err)
		}
		for _, n := range tc.nodes {
			if n.replica() != nil {
				t.Fatalf("%s took part", n.config.Name)
			}
			if !n.log.has("the cluster has no leader") {
				t.Error("nobody was told what the cluster waits for")
			}
		}
	})
}

func TestFiveVoteAndWorkersDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 8, func(i int, c *Config) {
			c.Role = control.Both
			if i < 2 {
				c.Role = control.Works
			}
		})
		defer tc.stop()
		led := leader(t, tc.nodes)
		wait(t, "five voters", func() bool {
			m := led.Metrics()
			return m.Voters == 5 && m.Others == 3
		})
		apply(t, tc.nodes[0], "from a worker")
		agree(t, tc.nodes, 1)
		for _, n := range led.Nodes() {
			if n.Voter && n.Role == control.Works {
				t.Errorf("%s votes", n.Name)
			}
		}
	})
}

func TestFault02TwentyFailovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 5, nil)
		defer tc.stop()
		wait(t, "five voters", func() bool { return leader(t, tc.nodes).Metrics().Voters == 5 })
		var term uint64
		for i := range 20 {
			led := leader(t, tc.nodes)
			got := led.leads()
			if got <= term {
				t.Fatalf("failover %d: term %d after %d", i, got, term)
			}
			term = got
			apply(t, led, fmt.Sprint("before ", i))
			k := slices.Index(tc.nodes, led)
			if err := led.Stop(); err != nil {
				t.Fatal(err)
			}
			led.check(t)
			led.Cluster = nil
			lost := time.Now()
			next := leader(t, tc.alive())
			if d := time.Since(lost); d > 3*time.Second {
				t.Errorf("failover %d took %v", i, d)
			}
			apply(t, next, fmt.Sprint("after ", i))
			tc.start(k)
		}
		if list := agree(t, tc.nodes, 40); len(list) != 40 {
			t.Fatalf("%d commands: %q", len(list), list)
		}
	})
}

// Commands go through elections, from every node, and the FSM sees each key once.
func TestApplyThroughElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, nil)
		defer tc.stop()
		wait(t, "three voters", func() bool { return leader(t, tc.nodes).Metrics().Voters == 3 })
		var wg sync.WaitGroup
		for i, n := range tc.nodes {
			cluster := n.Cluster
			wg.Go(func() {
				for k := range 40 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					if _, err := cluster.Apply(ctx, fmt.Appendf(nil, "%d-%d", i, k)); err != nil {
						t.Errorf("node %d, command %d: %v", i, k, err)
					}
					cancel()
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		names := []string{"n0", "n1", "n2"}
		for range 6 {
			led := leader(t, tc.nodes)
			time.Sleep(200 * time.Millisecond)
			tc.net.isolate(led.config.Name, names, true)
			time.Sleep(1500 * time.Millisecond)
			tc.net.isolate(led.config.Name, names, false)
		}
		wg.Wait()
		list := agree(t, tc.nodes, 120)
		slices.Sort(list)
		if n := len(slices.Compact(list)); n != 120 || len(list) != 120 {
			t.Fatalf("%d commands, %d different", len(list), n)
		}
	})
}

func TestFault11MinorityStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 5, nil)
		defer tc.stop()
		wait(t, "five voters", func() bool { return leader(t, tc.nodes).Metrics().Voters == 5 })
		led := leader(t, tc.nodes)
		apply(t, led, "before")
		k := slices.Index(tc.nodes, led)
		minority := []*testNode{led, tc.nodes[(k+1)%5]}
		var majority []*testNode
		for _, n := range tc.nodes {
			if !slices.Contains(minority, n) {
				majority = append(majority, n)
			}
		}
		part := func(cut bool) {
			for _, a := range minority {
				for _, b := range majority {
					tc.net.sever(a.config.Name, b.config.Name, cut)
					tc.net.sever(b.config.Name, a.config.Name, cut)
				}
			}
		}
		part(true)
		wait(t, "the minority to have no leader", func() bool { return led.leads() == 0 })
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if _, err := led.Apply(ctx, []byte("minority")); err == nil {
			t.Fatal("a minority took a command")
		}
		next := leader(t, majority)
		apply(t, next, "majority")
		for range 300 {
			time.Sleep(10 * time.Millisecond)
			for _, n := range minority {
				if n.leads() != 0 {
					t.Fatalf("%s leads a minority", n.config.Name)
				}
			}
		}
		part(false)
		list := agree(t, tc.nodes, 2)
		if !slices.Contains(list, "before") || !slices.Contains(list, "majority") {
			t.Fatalf("commands %q", list)
		}
	})
}

// A cut between two nodes, in one direction or both, that leaves a majority to the leader: no election storm.
func TestFault12OneWayCutNoElectionStorm(t *testing.T) {
	for _, c := range []struct {
		name       string
		from, to   int // 0: the leader, 1 and 2: followers
		both       bool
		maxChanges uint64
	}{
		{"follower to follower", 1, 2, false, 0},
		{"followers, both ways", 1, 2, true, 0},
		{"leader to follower", 0, 1, false, 2},
		{"follower to leader", 1, 0, false, 2},
		{"leader and follower, both ways", 0, 1, true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := memCluster(t, 3, nil)
				defer tc.stop()
				wait(t, "three voters", func() bool { return leader(t, tc.nodes).Metrics().Voters == 3 })
				led := leader(t, tc.nodes)
				order := []*testNode{led}
				for _, n := range tc.nodes {
					if n != led {
						order = append(order, n)
					}
				}
				before := led.Metrics().Term
				from, to := order[c.from].config.Name, order[c.to].config.Name
				tc.net.sever(from, to, true)
				if c.both {
					tc.net.sever(to, from, true)
				}
				for i := range 30 {
					apply(t, order[2], fmt.Sprint(i))
					time.Sleep(time.Second)
				}
				if now := order[2].Metrics().Term; now > before+c.maxChanges {
					t.Errorf("term went from %d to %d in half a minute", before, now)
				}
				tc.net.sever(from, to, false)
				tc.net.sever(to, from, false)
				agree(t, tc.nodes, 30)
			})
		})
	}
}

func TestFault13FlappingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, nil)
		defer tc.stop()
		wait(t, "three voters", func() bool { return leader(t, tc.nodes).Metrics().Voters == 3 })
		rnd := rand.New(rand.NewPCG(1, 2))
		names := []string{"n0", "n1", "n2"}
		for range 30 {
			name := names[rnd.IntN(3)]
			tc.net.isolate(name, names, true)
			time.Sleep(time.Duration(rnd.IntN(2000)) * time.Millisecond)
			tc.net.isolate(name, names, false)
			time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
		}
		apply(t, leader(t, tc.nodes), "after")
		agree(t, tc.nodes, 1)
	})
}

func TestVoterThatIsGoneIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 6, nil)
		defer tc.stop()
		led := leader(t, tc.nodes)
		wait(t, "five voters and one more", func() bool { m := led.Metrics(); return m.Voters == 5 && m.Others == 1 })
		apply(t, led, "one")
		var gone *testNode
		spare := ""
		for i, info := range led.Nodes() {
			if !info.Voter {
				spare = info.Name
			} else if tc.nodes[i] != led {
				gone = tc.nodes[i]
			}
		}
		if err := gone.Stop(); err != nil {
			t.Fatal(err)
		}
		gone.Cluster = nil
		time.Sleep(30 * time.Second)
		if m := led.Metrics(); m.Voters != 5 || m.Others != 1 || m.Dead != 1 {
			t.Fatalf("half a minute after the loss: %+v", m)
		}
		wait(t, "the spare to vote", func() bool {
			v := led.voters()
			m := led.Metrics()
			return m.Voters == 5 && m.Others == 0 && strings.Contains(v, spare) && !strings.Contains(v, gone.config.Name)
		})
		apply(t, led, "two")

		// The one that was replaced comes back with its old log: it begins anew, without a vote.
		tc.start(slices.Index(tc.nodes, gone))
		wait(t, "it to be back", func() bool { m := led.Metrics(); return m.Voters == 5 && m.Others == 1 && m.Alive == 6 })
		apply(t, gone, "three")
		agree(t, tc.nodes, 3)
		if gone.fsm.resets == 0 || !gone.log.has("removed from the cluster") {
			t.Error("it kept its old log")
		}
	})
}

func TestThreeVotersStayWhenOneIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, nil)
		defer tc.stop()
		led := leader(t, tc.nodes)
		wait(t, "three voters", func() bool { return led.Metrics().Voters == 3 })
		k := (slices.Index(tc.nodes, led) + 1) % 3
		if err := tc.nodes[k].Stop(); err != nil {
			t.Fatal(err)
		}
		tc.nodes[k].Cluster = nil
		time.Sleep(10 * time.Minute)
		if m := led.Metrics(); m.Voters != 3 {
			t.Fatalf("%+v", m)
		}
		apply(t, led, "x")
		tc.start(k)
		agree(t, tc.nodes, 1)
	})
}

// A voter that comes back with an empty disk could vote a second time in a term, for a node that lacks what it
// had confirmed. So it gets its vote back only with the log.
func TestFault28VoterWithAnEmptyDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, nil)
		defer tc.stop()
		led := leader(t, tc.nodes)
		wait(t, "three voters", func() bool { return led.Metrics().Voters == 3 })
		apply(t, led, "one")
		k := (slices.Index(tc.nodes, led) + 1) % 3
		n, other := tc.nodes[k], tc.nodes[(k+1)%3]
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		n.stores = newMemStores()
		// With the leader cut off there is no majority: the empty node must not help the third to one.
		tc.net.isolate(led.config.Name, []string{"n0", "n1", "n2"}, true)
		tc.start(k)
		time.Sleep(time.Minute)
		if n.replica() != nil || other.leads() != 0 {
			t.Fatal("a node with an empty disk took part in an election")
		}
		tc.net.isolate(led.config.Name, []string{"n0", "n1", "n2"}, false)
		// The old leader and the third are a majority again.
		led = leader(t, []*testNode{led, other})
		wait(t, "it to lose its vote and get it back", func() bool { return led.Metrics().Voters == 3 && n.replica() != nil })
		apply(t, led, "two")
		agree(t, tc.nodes, 2)
		if !led.log.has("came back with an empty disk") {
			t.Error("it kept its vote")
		}
	})
}

func TestLeaveAndComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 4, nil)
		defer tc.stop()
		led := leader(t, tc.nodes)
		wait(t, "four voters", func() bool { return led.Metrics().Voters == 4 })
		apply(t, led, "one")
		// The leader itself.
		k := slices.Index(tc.nodes, led)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begun := time.Now()
		if err := led.Leave(ctx); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("leaving took %v", d)
		}
		led.check(t)
		led.Cluster = nil
		next := leader(t, tc.alive())
		wait(t, "three voters", func() bool { m := next.Metrics(); return m.Voters == 3 && m.Others == 0 })
		apply(t, next, "two")
		if n, _ := led.stores.logs.LastIndex(); n != 0 {
			t.Errorf("its log has %d entries yet", n)
		}
		wait(t, "it to be forgotten", func() bool { return len(next.Nodes()) == 3 })
		tc.start(k)
		wait(t, "four voters", func() bool { return next.Metrics().Voters == 4 })
		agree(t, tc.nodes, 2)
	})
}

func TestLastVoterLeavesAndKeepsItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 1, nil)
		leader(t, tc.nodes)
		apply(t, tc.nodes[0], "x")
		if err := tc.nodes[0].Leave(context.Background()); err != nil {
			t.Fatal(err)
		}
		tc.start(0)
		defer tc.stop()
		agree(t, tc.nodes, 1)
	})
}

func TestStepDownHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, nil)
		defer tc.stop()
		wait(t, "three voters", func() bool { return leader(t, tc.nodes).Metrics().Voters == 3 })
		for range 5 {
			led := leader(t, tc.nodes)
			term := led.leads()
			if err := led.StepDown(context.Background()); err != nil {
				t.Fatal(err)
			}
			if next := leader(t, tc.nodes); next.leads() <= term {
				t.Fatalf("term %d after %d", next.leads(), term)
			}
		}
	})
}

// Two groups that cannot see each other found a cluster each. Once commands were taken in both they never mix.
func TestClustersFoundedApartDoNotMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 0, nil)
		defer tc.stop()
		two(tc, 2)
		a, b := leader(t, tc.nodes[:2]), leader(t, tc.nodes[2:])
		apply(t, a, "a")
		apply(t, b, "b")
		together(tc)
		wait(t, "gossip to merge", func() bool { return a.Metrics().Alive == 4 && b.Metrics().Alive == 4 })
		time.Sleep(time.Minute)
		for i, n := range tc.nodes {
			if want := []string{"a", "b"}[i/2]; !slices.Equal(n.fsm.list(), []string{want}) {
				t.Errorf("%s has %q, want %q", n.config.Name, n.fsm.list(), want)
			}
		}
		if !a.log.has("founded apart") || !b.log.has("founded apart") || a.Metrics().Voters != 2 || b.Metrics().Voters != 2 {
			t.Errorf("%+v, %+v", a.Metrics(), b.Metrics())
		}
	})
}

// If nobody used them yet, one gives way to the other.
func TestUnusedClusterGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 0, nil)
		defer tc.stop()
		two(tc, 2)
		// Each founder is cut off as soon as it has founded, before it has invited the other.
		names := []string{"n0", "n1", "n2", "n3"}
		wait(t, "two foundings", func() bool {
			done := 0
			for _, i := range []int{0, 2} {
				if tc.nodes[i].replica() != nil {
					tc.net.isolate(names[i], names, true)
					done++
				}
			}
			return done == 2
		})
		time.Sleep(20 * time.Second)
		for _, i := range []int{0, 2} {
			if m := tc.nodes[i].Metrics(); !m.Leads || m.Founded {
				t.Fatalf("n%d: %+v", i, m)
			}
		}
		together(tc)
		wait(t, "one cluster", func() bool {
			for _, n := range tc.nodes {
				if m := n.Metrics(); m.Voters != 4 || !m.Founded {
					return false
				}
			}
			return true
		})
		apply(t, tc.nodes[3], "x")
		agree(t, tc.nodes, 1)
	})
}

// two starts two groups of n nodes that cannot see each other.
func two(tc *testCluster, n int) {
	for i := range 2 * n {
		for j := range 2 * n {
			tc.net.sever(fmt.Sprint("n", i), fmt.Sprint("n", j), i/n != j/n)
		}
	}
	for i := range 2 * n {
		c := Config{Name: fmt.Sprint("n", i), Cluster: "test", Bind: "mem:0", Dir: tc.t.TempDir(), Expected: n, Version: 1}
		if i > 0 {
			c.Join = []string{tc.nodes[0].addr.String(), tc.nodes[i/n*n%len(tc.nodes)].addr.String()}
		}
		tc.nodes = append(tc.nodes, &testNode{config: c, stores: newMemStores()})
		tc.start(i)
	}
}

func together(tc *testCluster) {
	for _, a := range tc.nodes {
		for _, b := range tc.nodes {
			tc.net.sever(a.config.Name, b.config.Name, false)
		}
	}
}

func TestFault34OtherVersionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 4, func(i int, c *Config) {
			if c.Expected = 3; i == 3 {
				c.Version = 2
			}
		})
		defer tc.stop()
		led := leader(t, tc.nodes[:3])
		time.Sleep(time.Minute)
		if m := led.Metrics(); m.Alive != 3 || m.Voters != 3 {
			t.Errorf("%+v", m)
		}
		if m := tc.nodes[3].Metrics(); m.Alive != 1 {
			t.Errorf("%+v", m)
		}
		if !tc.nodes[3].log.has("speaks protocol version 1, this node (n3) version 2") {
			t.Error("n3 was not told both versions")
		}
		if !slices.ContainsFunc(tc.nodes[:3], func(n *testNode) bool { return n.log.has("node n3 at") && n.log.has("speaks protocol version 2") }) {
			t.Error("the others were not told both versions")
		}
	})
}

func TestTwoClustersOnOneNetworkDoNotMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 4, func(i int, c *Config) {
			if c.Expected = 2; i >= 2 {
				c.Cluster = "other"
			}
		})
		defer tc.stop()
		// All were told to join the first ones.
		for i := 2; i < 4; i++ {
			if err := tc.nodes[i].Stop(); err != nil {
				t.Fatal(err)
			}
			tc.nodes[i].config.Join = []string{tc.nodes[0].addr.String(), tc.nodes[2].addr.String(), tc.nodes[3].addr.String()}
			tc.start(i)
		}
		a, b := leader(t, tc.nodes[:2]), leader(t, tc.nodes[2:])
		apply(t, a, "a")
		apply(t, b, "b")
		time.Sleep(time.Minute)
		for i, n := range tc.nodes {
			if m := n.Metrics(); m.Alive != 2 || m.Voters != 2 {
				t.Errorf("%s: %+v", n.config.Name, m)
			}
			if want := []string{"a", "b"}[i/2]; !slices.Equal(n.fsm.list(), []string{want}) {
				t.Errorf("%s has %q, want %q", n.config.Name, n.fsm.list(), want)
			}
		}
	})
}

// Another gossip key is as good as another cluster.
func TestGossipKeyKeepsOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, func(i int, c *Config) {
			c.Expected = 2
			c.GossipKey = []byte("0123456789abcdef0123456789abcdef")
			if i == 2 {
				c.GossipKey = []byte("0123456789abcdef0123456789abcdeF")
			}
		})
		defer tc.stop()
		led := leader(t, tc.nodes[:2])
		time.Sleep(time.Minute)
		if m := led.Metrics(); m.Alive != 2 {
			t.Errorf("%+v", m)
		}
		if m := tc.nodes[2].Metrics(); m.Alive != 1 {
			t.Errorf("%+v", m)
		}
	})
}

// All nodes stop; the one that all were told to join does not come back.
func TestFault08AllStopAndTheSeedIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, nil)
		defer tc.stop()
		led := leader(t, tc.nodes)
		wait(t, "three voters", func() bool { return led.Metrics().Voters == 3 })
		apply(t, led, "x")
		time.Sleep(5 * time.Second)
		for _, n := range tc.nodes {
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			n.Cluster = nil
			n.config.Join = []string{tc.nodes[0].addr.String()}
		}
		tc.start(1)
		tc.start(2)
		agree(t, tc.alive(), 1)
		apply(t, leader(t, tc.alive()), "y")
	})
}

// A new node is sent a snapshot when the log does not reach back far enough.
func TestSnapshotReachesANewNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 2, nil)
		defer tc.stop()
		led := leader(t, tc.nodes)
		wait(t, "two voters", func() bool { return led.Metrics().Voters == 2 })
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				for k := range 150 {
					apply(t, led, fmt.Sprint(i%10, "-", k%10))
				}
			})
		}
		wg.Wait()
		time.Sleep(2 * time.Minute)
		if n, _ := led.stores.logs.FirstIndex(); n == 1 {
			t.Fatal("the log was not cut")
		}
		tc.nodes = append(tc.nodes, &testNode{config: tc.nodes[0].config, stores: newMemStores()})
		tc.nodes[2].config.Name, tc.nodes[2].config.Dir = "n2", t.TempDir()
		tc.nodes[2].config.Join = []string{tc.nodes[0].addr.String()}
		tc.start(2)
		wait(t, "three voters", func() bool { return led.Metrics().Voters == 3 })
		if list := agree(t, tc.nodes, 100); len(list) != 100 {
			t.Fatalf("%d commands", len(list))
		}
		if n := tc.nodes[2].fsm.applied; n > 14000 {
			t.Errorf("the new node applied all %d commands", n)
		}
		if got, want := tc.nodes[2].Metrics().Commands, led.Metrics().Commands; got != want {
			t.Errorf("%d commands counted, %d by the leader", got, want)
		}
	})
}

// Nodes come and go, 10,000 times with SIMNODE_LONG_TESTS=1, and nothing is left of them.
func TestJoinsAndLeavesLeaveNothingBehind(t *testing.T) {
	rounds := 120
	if long() {
		rounds = 10000
	}
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 2, func(i int, c *Config) {
			c.Expected, c.snapshotAfter, c.kept = 1, 50, 100
			if i == 1 {
				c.Role = control.Works
			}
		})
		defer tc.stop()
		led, churn := tc.nodes[0], tc.nodes[1]
		measure := func() (int, uint64) {
			time.Sleep(time.Minute)
			synctest.Wait()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return runtime.NumGoroutine(), m.HeapAlloc
		}
		base := churn.config.Name
		var goroutines int
		var heap uint64
		for i := range rounds {
			if i == rounds/10 {
				goroutines, heap = measure()
			}
			wait(t, "it to be there", func() bool { return led.Metrics().Others == 1 && churn.replica() != nil })
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			var err error
			if i%3 == 2 {
				err = churn.Stop() // as if it died
			} else {
				err = churn.Leave(ctx)
			}
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			churn.Cluster = nil
			wait(t, "it to be gone", func() bool {
				time.Sleep(time.Second)
				return led.Metrics().Others == 0 || i%3 == 2
			})
			churn.config.Name = fmt.Sprint(base, "-", i%7)
			if i%3 == 2 {
				time.Sleep(3 * time.Minute) // until it counts as gone
			}
			churn.stores, churn.addr = newMemStores(), netip.AddrPort{}
			led.log.reset()
			tc.start(1)
		}
		wait(t, "it to be there", func() bool { return led.Metrics().Others == 1 })
		if first, _ := led.stores.logs.FirstIndex(); first == 1 {
			t.Error("the log was never cut")
		}
		if n := len(led.Nodes()); n > 3 {
			t.Errorf("%d nodes are known", n)
		}
		g, h := measure()
		if g > goroutines+5 {
			t.Errorf("%d goroutines, %d earlier", g, goroutines)
		}
		if h > heap+heap/2+1<<20 {
			t.Errorf("%d bytes of heap, %d earlier", h, heap)
		}
	})
}

// A node that was invited by a founder which then is gone for ever is not lost to another one that needs it.
func TestOrphanOfAnUnusedClusterGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, func(_ int, c *Config) { c.Expected = 2 })
		defer tc.stop()
		names := []string{"n0", "n1", "n2"}
		tc.net.isolate("n0", names, true)
		// No founding draws a number as low as this one, so that nobody else can be lower.
		if err := tc.nodes[0].enter(invitation{formation: 1, boot: tc.nodes[0].Cluster.c.Boot}); err != nil {
			t.Fatal(err)
		}
		wait(t, "the other founding", func() bool { return tc.nodes[1].replica() != nil })
		tc.net.isolate("n1", names, true)
		if err := tc.nodes[2].Stop(); err != nil {
			t.Fatal(err)
		}
		tc.nodes[2].Cluster = nil
		time.Sleep(10 * time.Second)
		tc.net.isolate("n1", names, false)
		tc.net.isolate("n0", names, false)
		time.Sleep(LAN().GoneAfter)
		wait(t, "one cluster", func() bool {
			m := tc.nodes[1].Metrics()
			return m.Founded && m.Voters == 2 && tc.nodes[0].belongs() == tc.nodes[1].belongs()
		})
		apply(t, tc.nodes[0], "x")
		agree(t, tc.nodes[:2], 1)
	})
}

// A leader of another cluster cannot write to a node's log, whatever its term.
func TestStreamsOfAnotherClusterAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 2, nil)
		defer tc.stop()
		apply(t, leader(t, tc.nodes), "x")
		s := tc.nodes[0].replica().streams
		before := tc.nodes[1].replica().LastIndex()
		other, err := newRaftStreams(deaf{s.net}, "n0", s.formation+1, s.resolve)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		trans := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: other, MaxPool: 1, Timeout: time.Second})
		defer trans.Close()
		var answer raft.AppendEntriesResponse
		request := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("n0"), Addr: []byte("n0")}, Term: 99}
		if err := trans.AppendEntries("n1", "n1", &request, &answer); err == nil {
			t.Errorf("answered %+v", answer)
		}
		if r := tc.nodes[1].replica(); r.LastIndex() != before || r.CurrentTerm() == 99 {
			t.Errorf("index %d, term %d", r.LastIndex(), r.CurrentTerm())
		}
		if !tc.nodes[1].log.has("a stream from the log of another cluster") {
			t.Error("nobody was told")
		}
	})
}

// deaf is a network on which streams of no kind are heard that anybody opens.
type deaf struct{ network }

func (d deaf) Layer(byte) (net.Listener, error) { return d.network.Layer(99) }

// A node that ends in order is not taken for one that died: it keeps its vote, and it comes back where it was.
func TestRestAndComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, func(i int, c *Config) { c.Release = fmt.Sprint("v", i, strings.Repeat("x", 100*i)) })
		defer tc.stop()
		wait(t, "three voters", func() bool { return leader(t, tc.nodes).Metrics().Voters == 3 })
		apply(t, tc.nodes[0], "one")
		seen := func(by *testNode, name string) (found NodeInfo) {
			for _, n := range by.Nodes() {
				if n.Name == name {
					found = n
				}
			}
			return found
		}
		for k, n := range tc.nodes {
			name := n.config.Name
			other := tc.nodes[(k+1)%3]
			if got, want := seen(other, name).Release, (fmt.Sprint("v", k, strings.Repeat("x", 100*k)))[:min(100*k+2, 64)]; got != want {
				t.Errorf("%s runs %q, not %q", name, got, want)
			}
			if err := n.StepDown(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := n.Rest(); err != nil {
				t.Fatal(err)
			}
			n.check(t)
			n.Cluster = nil
			for _, o := range tc.alive() {
				wait(t, "it to be known as stopped", func() bool { i := seen(o, name); return i.Stopping && !i.Alive && !i.Leaving })
			}
			time.Sleep(30 * time.Second)
			if i := seen(other, name); !i.Stopping || !i.Voter {
				t.Errorf("after 30 s it is %+v", i)
			}
			apply(t, leader(t, tc.alive()), "without "+name)
			tc.start(k)
			for _, o := range tc.nodes {
				wait(t, "it to be back", func() bool { i := seen(o, name); return i.Alive && !i.Stopping && i.Voter })
			}
		}
		agree(t, tc.nodes, 4)
	})
}

// An orderly end of all nodes, one after another, is no trouble, and the coordination goes to a node that is there.
func TestOrderlyEndIsNoTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, nil)
		defer tc.stop()
		wait(t, "three voters", func() bool { return leader(t, tc.nodes).Metrics().Voters == 3 })
		for _, n := range tc.nodes {
			n.log.reset()
		}
		for range tc.nodes {
			led := tc.alive()[0]
			if len(tc.alive()) > 1 {
				led = leader(t, tc.alive())
			}
			if err := led.StepDown(context.Background()); err != nil {
				t.Error(err)
			}
			if err := led.Rest(); err != nil {
				t.Error(err)
			}
			led.Cluster = nil
			time.Sleep(4 * time.Second)
		}
		for _, n := range tc.nodes {
			for _, level := range []string{"WARN", "ERROR"} {
				if n.log.has(level) {
					t.Errorf("%s says:\n%s", n.config.Name, n.log.b.String())
				}
			}
		}
	})
}

// A node that may join nobody says why as often as it says that there is no leader.
func TestRefusedJoinIsExplainedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 2, func(i int, c *Config) {
			c.Expected = 1
			if i == 1 {
				c.Cluster = "other"
			}
		})
		defer tc.stop()
		for range 3 {
			tc.nodes[1].log.reset()
			wait(t, "the reason", func() bool { return tc.nodes[1].log.has("the cluster has no leader") })
			if !tc.nodes[1].log.has("cannot_join") || !tc.nodes[1].log.has(tc.nodes[0].addr.String()) {
				t.Error("it does not say why it cannot join")
			}
			time.Sleep(10 * time.Second)
		}
	})
}
