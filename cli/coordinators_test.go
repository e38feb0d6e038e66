package cli

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/simnode/simnode/summary"
)

// daemon is a node process.
type daemon struct {
	name string
	cmd  *exec.Cmd
	at   listening
}

// daemonAt starts a node process with its data in dir/name, and waits until it listens.
func daemonAt(t *testing.T, dir, name string, args ...string) *daemon {
	t.Helper()
	d := &daemon{name: name}
	var errs fmt.Stringer
	d.cmd, _, errs = process(t, dir, nil, append([]string{"node", "--name", name, "--data", name, "-o", "json", "--log-level", "warn"}, args...)...)
	d.cmd.Stdout = nil
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.kill)
	if err := json.NewDecoder(stdout).Decode(&d.at); err != nil {
		_ = d.cmd.Wait()
		t.Fatalf("%s: %v: %s", name, err, errs)
	}
	return d
}

// kill ends the process as kill -9 does.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

// statusOf asks for the status of a cluster, until a node answers.
func statusOf(t *testing.T, clusters string) (s statusJSON) {
	t.Helper()
	var r result
	for range 600 {
		if r = simnode(t.Context(), "status", "-o", "json", "--cluster", clusters); r.code == Done {
			if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
				t.Fatal(err)
			}
			return s
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("exit %d: %s", r.code, r.stderr)
	return s
}

// coordinated is a cluster whose coordinators own no regions.
type coordinated struct {
	t       *testing.T
	dir     string
	coords  map[string]*daemon
	args    map[string][]string
	workers []*daemon
	// clients is where to ask.
	clients string
}

func newCoordinated(t *testing.T, coords, workers int) *coordinated {
	t.Helper()
	c := &coordinated{t: t, dir: t.TempDir(), coords: map[string]*daemon{}, args: map[string][]string{}}
	var join string
	var apis []string
	for i := range coords + workers {
		name, role := fmt.Sprintf("c%d", i), "coordinator"
		if i >= coords {
			name, role = fmt.Sprintf("w%d", i-coords), "worker"
		}
		args := []string{"--role", role, "--expect", fmt.Sprint(coords), "--job-nodes", fmt.Sprint(workers), "--workers", "1"}
		if join != "" {
			args = append(args, "--join", join)
		}
		d := daemonAt(t, c.dir, name, append(args, "--bind", "127.0.0.1:0", "--api", "127.0.0.1:0")...)
		join = d.at.Address
		if i >= coords {
			c.workers = append(c.workers, d)
			apis = append(apis, d.at.API)
			continue
		}
		c.coords[name] = d
		c.args[name] = append(args, "--bind", d.at.Address, "--api", d.at.API)
	}
	c.clients = strings.Join(apis, ",")
	return c
}

// leader waits until a coordinator other than the one named leads.
func (c *coordinated) leader(not string) *daemon {
	c.t.Helper()
	for range 600 {
		if s := statusOf(c.t, c.clients); s.Leader != "" && s.Leader != not {
			return c.coords[s.Leader]
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatal("no coordinator")
	return nil
}

// reach waits until the job has reached a simulated time, in seconds, and returns where it is.
func (c *coordinated) reach(at float64) float64 {
	c.t.Helper()
	for range 1200 {
		s := statusOf(c.t, c.clients)
		switch {
		case len(s.Jobs) == 0:
		case s.Jobs[0].Phase.Ended():
			c.t.Fatalf("the job has ended: %+v", s.Jobs[0])
		case s.Jobs[0].Progress != nil && s.Jobs[0].Progress.Time >= at:
			return s.Jobs[0].Progress.Time
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatalf("the job does not reach %v s", at)
	return 0
}

// slowScenario is one that takes some seconds.
const slowScenario = "model: probe\nend: 60 s\nparams: {mode: slow}\nrecord: {level: raw}\n"

// finish waits for the end of the job and compares its result with that of one process.
func (c *coordinated) finish(file string) {
	c.t.Helper()
	one := simnode(c.t.Context(), "run", file, "--out", filepath.Join(c.dir, "one"), "-o", "json", "--set", "params.mode=fine")
	r := simnode(c.t.Context(), "watch", "job-1", "-o", "json", "--no-progress", "--cluster", c.clients)
	var got, want summary.Summary
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != Done {
		c.t.Fatalf("exit %d: %s (%v)", r.code, r.stderr, err)
	}
	if err := json.Unmarshal([]byte(one.stdout), &want); err != nil {
		c.t.Fatalf("exit %d: %s (%v)", one.code, one.stderr, err)
	}
	if got.Digest != want.Digest || got.Events != want.Events {
		c.t.Errorf("digest %s of %d events, not %s of %d", got.Digest, got.Events, want.Digest, want.Events)
	}
	if r := simnode(c.t.Context(), "results", "job-1", "--out", filepath.Join(c.dir, "many"), "--cluster", c.clients); r.code != Done {
		c.t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if read(c.t, filepath.Join(c.dir, "one", "events.csv")) != read(c.t, filepath.Join(c.dir, "many", "events.csv")) {
		c.t.Error("events.csv differs")
	}
}

// FAULTS row 2: coordinators that own no regions are killed again and again, and come back.
func TestFault2CoordinatorsKilled(t *testing.T) {
	t.Parallel()
	kills, coords := 20, 5
	if testing.Short() {
		kills, coords = 2, 3
	}
	c := newCoordinated(t, coords, 2)
	file := filepath.Join(folder(t, map[string]string{"s.yaml": slowScenario}), "s.yaml")
	end := fmt.Sprint(30*kills+20) + " s"
	if r := simnode(t.Context(), "submit", file, "--end", end, "--cluster", c.clients); r.code != Done {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	killed, at := "", 0.0
	for range kills {
		at = c.reach(at + 1) // It goes on under each of them.
		leader := c.leader(killed)
		leader.kill()
		killed = leader.name
		next := c.leader(killed)
		if next == nil {
			t.Fatal("a worker leads")
		}
		c.coords[killed] = daemonAt(t, c.dir, killed, c.args[killed]...)
	}
	text := strings.Replace(slowScenario, "60 s", end, 1)
	c.finish(filepath.Join(folder(t, map[string]string{"s.yaml": text}), "s.yaml"))
}

// FAULTS rows 9 and 10: a coordinator is stopped, another one takes over, and what the first still sends when
// it goes on is refused.
func TestFault10CoordinatorPaused(t *testing.T) {
	t.Parallel()
	c := newCoordinated(t, 3, 2)
	file := filepath.Join(folder(t, map[string]string{"s.yaml": slowScenario}), "s.yaml")
	if r := simnode(t.Context(), "submit", file, "--end", "20 s", "--cluster", c.clients); r.code != Done {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	c.reach(1)
	first := c.leader("")
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.leader(first.name)
	c.reach(6)
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(slowScenario, "60 s", "20 s", 1)
	c.finish(filepath.Join(folder(t, map[string]string{"s.yaml": text}), "s.yaml"))
}
