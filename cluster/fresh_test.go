package cluster

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// read is what a node has once it is as fresh as the cluster.
func (n *testNode) read(limit time.Duration) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := n.Fresh(ctx)
	return n.fsm.list(), err
}

// What one node has answered is there when another one is asked, the next moment, through elections and restarts
// with a snapshot.
func TestFreshNodeKnowsWhatAnotherTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 4, func(i int, c *Config) { c.snapshotAfter, c.kept = 20, 5 })
		defer tc.stop()
		wait(t, "four voters", func() bool { return leader(t, tc.nodes).Metrics().Voters == 4 })
		stale, list := 0, []string(nil)
		check := func(text string, by *testNode) {
			apply(t, by, text)
			for _, n := range tc.alive() {
				if !slices.Contains(n.fsm.list(), text) {
					stale++
				}
				var err error
				if list, err = n.read(30 * time.Second); err != nil || !slices.Contains(list, text) {
					t.Fatalf("%s has %q after %q was answered by %s: %v", n.config.Name, list, text, by.config.Name, err)
				}
			}
		}
		for i := range 60 {
			check(fmt.Sprint("first ", i), tc.nodes[i%4])
			if i%20 == 7 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				_ = leader(t, tc.nodes).StepDown(ctx)
				cancel()
			}
		}
		if stale == 0 {
			t.Fatal("every node knew everything at once: nothing was tried")
		}
		time.Sleep(2 * time.Minute) // snapshots are taken
		for i, n := range tc.nodes {
			if first, _ := n.stores.logs.FirstIndex(); first == 1 {
				t.Fatal("the log was not cut")
			}
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			tc.start(i)
			leader(t, tc.nodes)
			if again, err := n.read(30 * time.Second); err != nil || len(again) != len(list) {
				t.Fatalf("%s has %d commands of %d after a restart: %v", n.config.Name, len(again), len(list), err)
			}
		}
		check("last", tc.nodes[0])
	})
}

// A node that nobody can tell how far the others are says so within the time it is given.
func TestNodeOfAMinorityIsNotFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := memCluster(t, 3, nil)
		defer tc.stop()
		wait(t, "three voters", func() bool { return leader(t, tc.nodes).Metrics().Voters == 3 })
		led := leader(t, tc.nodes)
		var others []string
		for _, n := range tc.nodes {
			if n != led {
				others = append(others, n.config.Name)
			}
		}
		tc.net.isolate(led.config.Name, others, true)
		for range 20 {
			began := time.Now()
			_, err := led.read(time.Second)
			if err == nil {
				t.Fatal("a leader that is cut off takes itself for fresh")
			}
			if took := time.Since(began); took > 1100*time.Millisecond {
				t.Fatalf("it took %v to find out", took)
			}
		}
		tc.net.isolate(led.config.Name, others, false)
		apply(t, tc.nodes[1], "after")
		if list, err := led.read(30 * time.Second); err != nil || !slices.Contains(list, "after") {
			t.Fatalf("it has %q: %v", list, err)
		}
	})
}

func FuzzCommitment(f *testing.F) {
	f.Add(commitment{1, 2}.encode())
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := parseCommitment(b)
		if err == nil && !bytes.Equal(k.encode(), b) {
			t.Fatalf("%x becomes %x", b, k.encode())
		}
		if err != nil && !strings.Contains(err.Error(), "malformed") {
			t.Fatal(err)
		}
	})
}
