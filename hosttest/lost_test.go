//go:build linux

package hosttest

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFault1LostWorkerIsNamed kills a node that owns regions: the job fails with an error that names it, and the
// next job is carried out by those that are left.
func TestFault1LostWorkerIsNamed(t *testing.T) {
	t.Parallel()
	long(t, "15 s")
	c := newCluster(t, members(1, 3, 0))
	file := c.scenario(phold(200, "500 s"))
	want := c.alone(file)
	c.asks("c0", "w0", "w1")
	c.start()
	job := c.submit(file, "--end", "100000 s")
	c.reach(0.001)
	c.nodes["w2"].kill()
	t.Log(c.lost(job, "w2"))
	c.same(c.submit(file, "--nodes", "2"), want)
}

// TestFault9WorkerStoppedFor30Seconds stops a node that owns regions until it is lost; when it goes on, what it
// sends is refused, and it takes part in the next job.
func TestFault9WorkerStoppedFor30Seconds(t *testing.T) {
	t.Parallel()
	long(t, "45 s")
	c := newCluster(t, members(3, 3, 0))
	file := c.scenario(phold(200, "3000 s"))
	want := c.alone(file)
	c.asks("c0", "c1", "c2", "w0", "w1")
	c.start()
	lost := c.submit(file, "--end", "100000 s")
	c.reach(0.001)
	c.nodes["w2"].signal(syscall.SIGSTOP)
	stopped := time.Now()
	reason := c.lost(lost, "w2")
	t.Logf("after %v: %s", time.Since(stopped).Round(time.Millisecond), reason)

	// It wakes up in the middle of another job, with what it had to send for the first.
	second := c.submit(file, "--nodes", "2")
	time.Sleep(time.Until(stopped.Add(30 * time.Second)))
	c.nodes["w2"].signal(syscall.SIGCONT)
	c.same(second, want)

	third := c.submit(file, "--nodes", "3")
	c.same(third, want)
	if !c.nodes["w2"].alive() {
		t.Error("w2 has ended")
	}
}

// TestFault29ZombieAfterItsReplacement stops a node, starts another process of its name elsewhere, and lets the
// first go on: the job that the second is in is not disturbed.
func TestFault29ZombieAfterItsReplacement(t *testing.T) {
	t.Parallel()
	long(t, "30 s")
	c := newCluster(t, append(members(3, 2, 0), member{"w2", "worker"}))
	file := c.scenario(phold(200, "6000 s"))
	want := c.alone(file)
	c.asks("c0", "c1", "c2", "w0", "w1")
	c.start()
	job := c.submit(file, "--end", "100000 s")
	c.reach(0.001)
	zombie := c.nodes["w2"]
	zombie.signal(syscall.SIGSTOP)
	c.lost(job, "w2")

	again := &process{t: t, dir: c.dir, name: "w2-again", program: program()}
	for _, a := range zombie.args {
		a = strings.ReplaceAll(a, c.address[5]+":", strings.TrimSuffix(c.address[5], "6")+"99:")
		again.args = append(again.args, strings.ReplaceAll(a, "data-w2", "data-w2-again"))
	}
	again.start()
	second := c.submit(file, "--nodes", "3")
	c.reach(0.1)
	zombie.signal(syscall.SIGCONT)
	c.same(second, want)
	t.Logf("the replacement says\n%s\nthe zombie says\n%s", last(again.log()), last(zombie.log()))
}

func last(text string) string { return text[max(0, len(text)-1500):] }
