//go:build linux

package hosttest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// often lets a job take checkpoints as often as it can.
func often() []string { return []string{"--checkpoint-every", "200ms"} }

// saved waits until a part of the job is done, by when it has taken checkpoints.
func (c *cluster) saved(part float64) {
	c.t.Helper()
	c.reach(part)
	time.Sleep(500 * time.Millisecond)
}

// kill kills nodes with -9.
func (c *cluster) kill(names ...string) {
	for _, name := range names {
		c.nodes[name].kill()
	}
}

// TestFault1LostNode kills a node that owns regions and then the coordinator, which records as well, and starts each
// again: the job goes on from its last checkpoint, and its end is that of one process, files included.
func TestFault1LostNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, members(0, 0, 3))
	file := c.scenario(phold(400, "3000 s"))
	want := c.alone(file)
	c.start()
	job := c.submit(file, often()...)
	for i, name := range []string{"b2", ""} {
		c.reach(0.1 + 0.2*float64(i))
		if name == "" {
			name = c.leader("")
		}
		c.kill(name)
		c.moves()
		c.nodes[name].start()
	}
	c.same(job, want)
}

// TestFault6NodeAndPartner kills a node and its partner together: the job waits until one of them is back.
func TestFault6NodeAndPartner(t *testing.T) {
	t.Parallel()
	long(t, "20 s")
	c := newCluster(t, members(1, 3, 0))
	file := c.scenario(phold(400, "800 s"))
	want := c.alone(file)
	c.asks("c0", "w2")
	c.start()
	job := c.submit(file, often()...)
	c.saved(0.3)
	c.kill("w0", "w1")
	time.Sleep(5 * time.Second)
	c.nodes["w1"].start()
	c.same(job, want)
}

// TestFault8AllKilled kills every node at once and starts them again: the job goes on from its last checkpoint.
func TestFault8AllKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, members(0, 0, 3))
	file := c.scenario(phold(400, "800 s"))
	want := c.alone(file)
	c.start()
	job := c.submit(file, often()...)
	c.saved(0.3)
	all := []string{"b0", "b1", "b2"}
	c.kill(all...)
	for _, name := range all {
		c.nodes[name].start()
	}
	c.same(job, want)
}

// TestFault26DamagedCopy flips bits in what one node has stored, and removes what another has, while all are down:
// the copies of their partners are used.
func TestFault26DamagedCopy(t *testing.T) {
	t.Parallel()
	long(t, "25 s")
	c := newCluster(t, members(0, 0, 4))
	file := c.scenario(phold(400, "800 s"))
	want := c.alone(file)
	c.start()
	job := c.submit(file, often()...)
	c.saved(0.3)
	all := []string{"b0", "b1", "b2", "b3"}
	c.kill(all...)
	c.damage("b1", job)
	if err := os.RemoveAll(filepath.Join(c.dir, "data-b3", "checkpoints")); err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		c.nodes[name].start()
	}
	c.same(job, want)
}

// damage flips a bit in the middle of every file of a node's store.
func (c *cluster) damage(node, job string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, "data-"+node, "checkpoints", job, "store", "db", "*"))
	if err != nil || len(files) == 0 {
		c.t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(data) == 0 {
			continue
		}
		data[len(data)/2] ^= 4
		if err := os.WriteFile(name, data, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestFault9WorkerStoppedFor30Seconds stops a node that owns regions until it is lost; when it goes on, what it
// sends is refused, and it takes part in the next job.
func TestFault9WorkerStoppedFor30Seconds(t *testing.T) {
	t.Parallel()
	long(t, "60 s")
	c := newCluster(t, members(3, 3, 0))
	file := c.scenario(phold(200, "3000 s"))
	want := c.alone(file)
	c.asks("c0", "c1", "c2", "w0", "w1")
	c.start()
	job := c.submit(file, often()...)
	c.saved(0.05)
	c.nodes["w2"].signal(syscall.SIGSTOP)
	stopped := time.Now()
	c.moves()
	time.Sleep(time.Until(stopped.Add(30 * time.Second)))
	c.nodes["w2"].signal(syscall.SIGCONT)
	c.same(job, want)
	c.same(c.submit(file, "--nodes", "3"), want)
	if !c.nodes["w2"].alive() {
		t.Error("w2 has ended")
	}
}

// TestFault29ZombieAfterItsReplacement stops a node, starts another process of its name elsewhere, and lets the
// first go on: the job, which the second is in, is not disturbed.
func TestFault29ZombieAfterItsReplacement(t *testing.T) {
	t.Parallel()
	long(t, "60 s")
	c := newCluster(t, append(members(3, 2, 0), member{"w2", "worker"}))
	file := c.scenario(phold(200, "3000 s"))
	want := c.alone(file)
	c.asks("c0", "c1", "c2", "w0", "w1")
	c.start()
	job := c.submit(file, often()...)
	c.saved(0.05)
	zombie := c.nodes["w2"]
	zombie.signal(syscall.SIGSTOP)
	c.moves()

	again := &process{t: t, dir: c.dir, name: "w2-again", program: program()}
	for _, a := range zombie.args {
		a = strings.ReplaceAll(a, c.address[5]+":", strings.TrimSuffix(c.address[5], "6")+"99:")
		again.args = append(again.args, strings.ReplaceAll(a, "data-w2", "data-w2-again"))
	}
	again.start()
	second := c.submit(file, "--nodes", "3")
	c.same(job, want)
	zombie.signal(syscall.SIGCONT)
	c.same(second, want)
	t.Logf("the replacement says\n%s\nthe zombie says\n%s", last(again.log()), last(zombie.log()))
}

func last(text string) string { return text[max(0, len(text)-1500):] }
