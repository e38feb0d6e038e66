//go:build linux

package hosttest

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tooLong is far beyond what a failover takes; the log of TestFault2LeaderKilled tells what it does take.
const tooLong = 15 * time.Second

// TestFault2LeaderKilled kills the leader with -9 again and again while a job runs; it owns no regions and comes
// back with its data. Twenty times in the long test.
func TestFault2LeaderKilled(t *testing.T) {
	t.Parallel()
	kills, end := 2, "1200 s"
	switch {
	case os.Getenv(longTests) != "":
		kills, end = 20, "14000 s"
	case testing.Short():
		kills, end = 1, "800 s"
	}
	c := newCluster(t, members(5, 3, 0))
	file := c.scenario(phold(200, end))
	want := c.alone(file)
	c.asks("w0", "w1", "w2")
	c.start()
	job := c.submit(file)
	var elected, moved []time.Duration
	killed := ""
	for k := range kills {
		c.reach((float64(k) + 0.5) / float64(kills+1))
		leader := c.leader("")
		if killed != "" {
			c.nodes[killed].start()
		}
		killed = leader
		began := time.Now()
		c.nodes[killed].kill()
		time.Sleep(50 * time.Millisecond) // What was on the way has arrived.
		granted := c.metric("w0", "grants_taken_total")
		elected = append(elected, c.coordinates(began).Sub(began))
		for c.metric("w0", "grants_taken_total") == granted && time.Since(began) < far {
			time.Sleep(10 * time.Millisecond)
		}
		moved = append(moved, time.Since(began))
		c.moves()
	}
	c.same(job, want)
	t.Logf("from a kill to the next leader: median %v, most %v; to simulated time moving: median %v, most %v", median(elected), slices.Max(elected), median(moved), slices.Max(moved))
	if most := slices.Max(moved); most > tooLong {
		t.Errorf("one failover took %v", most)
	}
}

// coordinates waits until a node has begun to coordinate after some time, and returns when, by its log.
func (c *cluster) coordinates(after time.Time) time.Time {
	c.t.Helper()
	for time.Since(after) < far {
		for _, p := range c.nodes {
			for line := range strings.Lines(p.log()) {
				stamp, rest, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
				at, err := time.Parse(time.RFC3339Nano, stamp)
				if err == nil && strings.Contains(rest, "this node coordinates") && at.After(after) {
					return at
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("nobody coordinates")
	return after
}

func median(list []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(list))[len(list)/2].Round(time.Millisecond)
}

// TestFault10LeaderStopped stops the leader for so long that another one is elected, while it owns regions; the
// run waits for it and goes on.
func TestFault10LeaderStopped(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	times, pause, end := 2, 2*time.Second, "1000 s"
	if os.Getenv(longTests) != "" {
		times, pause, end = 5, 5*time.Second, "4000 s"
	}
	c := newCluster(t, members(0, 0, 3))
	file := c.scenario(phold(200, end))
	want := c.alone(file)
	c.start()
	job := c.submit(file)
	for k := range times {
		c.asks("b0", "b1", "b2")
		c.reach((float64(k) + 0.5) / float64(times+1))
		leader := c.leader("")
		others := slices.DeleteFunc([]string{"b0", "b1", "b2"}, func(n string) bool { return n == leader })
		c.asks(others...)
		c.nodes[leader].signal(syscall.SIGSTOP)
		time.Sleep(pause)
		if next := c.leader(leader); next == leader {
			t.Errorf("%s is stopped and still leads", leader)
		}
		c.nodes[leader].signal(syscall.SIGCONT)
		c.moves()
	}
	c.asks("b0", "b1", "b2")
	c.same(job, want)
}
