//go:build linux

package hosttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/simnode/simnode/cluster/certs"
)

const prefix = "simnode-t"

// hosts are namespaces on one bridge, each with a node.
type hosts struct {
	t       *testing.T
	dir     string
	program string
	n       int
	nodes   []*exec.Cmd
	logs    []*bytes.Buffer
}

func space(i int) string   { return fmt.Sprintf("%s%d", prefix, i) }
func address(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

// newHosts makes n hosts, or skips the test.
func newHosts(t *testing.T, n int) *hosts {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip (iproute2) is not installed")
	}
	h := &hosts{t: t, dir: t.TempDir(), n: n}
	h.sweep()
	if out, err := exec.Command("ip", "link", "add", prefix, "type", "bridge").CombinedOutput(); err != nil {
		t.Skipf("this system makes no bridge: %s", out)
	}
	t.Cleanup(h.sweep)
	h.ip("link", "set", prefix, "up")
	for i := range n {
		if out, err := exec.Command("ip", "netns", "add", space(i)).CombinedOutput(); err != nil {
			t.Skipf("this system makes no network namespaces: %s", out)
		}
		h.ip("link", "add", space(i), "type", "veth", "peer", "name", "eth0", "netns", space(i))
		h.ip("link", "set", space(i), "master", prefix, "up")
		h.ip("-n", space(i), "addr", "add", address(i)+"/24", "dev", "eth0")
		h.ip("-n", space(i), "link", "set", "eth0", "up")
		h.ip("-n", space(i), "link", "set", "lo", "up")
	}
	h.build()
	return h
}

// sweep removes all namespaces and links of these tests, those of earlier ones that were killed too.
func (h *hosts) sweep() {
	for i := range 16 {
		_ = exec.Command("ip", "netns", "del", space(i)).Run() // there may be none
		_ = exec.Command("ip", "link", "del", space(i)).Run()
	}
	_ = exec.Command("ip", "link", "del", prefix).Run()
}

func (h *hosts) ip(args ...string) {
	h.t.Helper()
	h.run("ip", args...)
}

func (h *hosts) run(name string, args ...string) []byte {
	h.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func (h *hosts) build() {
	h.program = filepath.Join(h.dir, "simnode")
	h.run("go", "build", "-o", h.program, "github.com/simnode/simnode/cmd/simnode")
}

// in is a command on a host.
func (h *hosts) in(i int, args ...string) *exec.Cmd {
	cmd := exec.Command("ip", append([]string{"netns", "exec", space(i)}, args...)...)
	cmd.Dir = h.dir
	return cmd
}

// start starts a node on each host, with TLS, which join by a name that stands for all of them.
func (h *hosts) start(role func(i int) string) {
	h.t.Helper()
	var names, list []string
	for i := range h.n {
		names, list = append(names, fmt.Sprint("n", i)), append(list, address(i))
	}
	if err := certs.Create(filepath.Join(h.dir, "certs"), append(names, "me"), list); err != nil {
		h.t.Fatal(err)
	}
	for i := range h.n {
		log := new(bytes.Buffer)
		cmd := h.in(i, h.program, "node", "--name", names[i], "--bind", address(i)+":7374", "--api", address(i)+":7373",
			"--data", "data-"+names[i], "--join", strings.Join(list, ","), "--expect", fmt.Sprint(h.voters(role)), "--job-nodes", fmt.Sprint(h.workers(role)),
			"--role", role(i), "--workers", "1", "--ca", "certs/ca.pem", "--cert", "certs/"+names[i]+".pem", "--key", "certs/"+names[i]+"-key.pem")
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			h.t.Fatal(err)
		}
		h.nodes, h.logs = append(h.nodes, cmd), append(h.logs, log)
	}
	h.t.Cleanup(h.stop)
}

func (h *hosts) voters(role func(int) string) (n int) {
	for i := range h.n {
		if role(i) != "worker" {
			n++
		}
	}
	return n
}

func (h *hosts) workers(role func(int) string) (n int) {
	for i := range h.n {
		if role(i) != "coordinator" {
			n++
		}
	}
	return n
}

func (h *hosts) stop() {
	for i, cmd := range h.nodes {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
		if h.t.Failed() {
			h.t.Logf("host %d:\n%s", i, tail(h.logs[i].String(), 4000))
		}
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// client runs a command against the cluster from a host.
func (h *hosts) client(ctx context.Context, i int, args ...string) ([]byte, error) {
	list := make([]string, h.n)
	for k := range h.n {
		list[k] = address((i+k)%h.n) + ":7373"
	}
	args = append([]string{"netns", "exec", space(i), h.program}, args...)
	args = append(args, "--cluster", strings.Join(list, ","), "--ca", "certs/ca.pem", "--cert", "certs/me.pem", "--key", "certs/me-key.pem")
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.Dir = h.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", args[4], err, stderr.String())
	}
	return out, err
}

// scenario writes a scenario whose nodes exchange much, and returns its digest in one process.
func (h *hosts) scenario(end string) (file, digest string) {
	file = filepath.Join(h.dir, "s.yaml")
	text := "model: phold\nend: " + end + "\nparams: {entities: 2000, lookahead: 0.1 s}\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		h.t.Fatal(err)
	}
	out := h.run(h.program, "run", file, "--out", filepath.Join(h.dir, "alone"), "-o", "json", "--no-progress")
	return file, digestOf(h.t, out)
}

func digestOf(t *testing.T, summary []byte) string {
	t.Helper()
	var s struct {
		Digest string `json:"digest"`
	}
	if err := json.Unmarshal(summary, &s); err != nil || s.Digest == "" {
		t.Fatalf("no digest in %s (%v)", summary, err)
	}
	return s.Digest
}

// trouble submits a scenario, brings trouble about while it runs, and compares the digest.
func (h *hosts) trouble(end string, disturb func(moved func() float64)) {
	h.t.Helper()
	file, want := h.scenario(end)
	ctx, cancel := context.WithTimeout(h.t.Context(), 4*time.Minute)
	defer cancel()
	if out, err := h.until(ctx, 0, "submit", file); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	disturb(func() float64 { return h.fraction(ctx) })
	out, err := h.client(ctx, h.n-1, "watch", "-o", "json", "--no-progress")
	if err != nil {
		h.t.Fatal(err)
	}
	if got := digestOf(h.t, out); got != want {
		h.t.Errorf("digest %s, in one process %s", got, want)
	}
}

// until repeats a command until the cluster takes it.
func (h *hosts) until(ctx context.Context, i int, args ...string) (out []byte, err error) {
	for ctx.Err() == nil {
		if out, err = h.client(ctx, i, args...); err == nil {
			return out, nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return out, err
}

// fraction is how much of the run is done, as some node says; 1 when it has ended.
func (h *hosts) fraction(ctx context.Context) float64 {
	out, err := h.client(ctx, h.n-1, "status", "-o", "json")
	if err != nil {
		return 0
	}
	var s struct {
		Jobs []struct {
			Phase    string
			Progress struct {
				Time float64 `json:"time_s"`
				End  float64 `json:"end_time_s"`
			}
		}
	}
	if err := json.Unmarshal(out, &s); err != nil || len(s.Jobs) == 0 {
		h.t.Fatalf("status: %v in %s", err, out)
	}
	j := s.Jobs[len(s.Jobs)-1]
	if j.Phase == "done" || j.Phase == "failed" {
		return 1
	}
	return j.Progress.Time / max(j.Progress.End, 1)
}
