//go:build linux

package hosttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ports of every node; each has an address of its own.
const (
	nodePort = ":7374"
	apiPort  = ":7373"
)

// member is a node of a cluster to be.
type member struct{ name, role string }

// members are coordinators c0, c1, ... that own no regions, workers w0, w1, ... and nodes b0, b1, ... that do both.
func members(coordinators, workers, both int) (list []member) {
	for i := range coordinators {
		list = append(list, member{fmt.Sprint("c", i), "coordinator"})
	}
	for i := range workers {
		list = append(list, member{fmt.Sprint("w", i), "worker"})
	}
	for i := range both {
		list = append(list, member{fmt.Sprint("b", i), "both"})
	}
	return list
}

// cluster is a cluster of processes and the commands that ask it.
type cluster struct {
	t    *testing.T
	dir  string
	list []member
	// address of each node, by its index.
	address []string
	nodes   map[string]*process
	// enter is a command that starts another on the host of a node; nil on loopback.
	enter func(i int) []string
	// extra are flags of every node.
	extra []string
	// flags are those of every client, and askable the nodes that are asked.
	flags   []string
	askable []string
}

// newCluster makes a cluster whose nodes have addresses of their own on loopback; start starts them.
func newCluster(t *testing.T, list []member) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), list: list}
	block := loopback(t)
	for i := range list {
		c.address = append(c.address, fmt.Sprint(block, i+1))
	}
	c.define()
	return c
}

// loopback is the first three numbers of loopback addresses that no other test uses: they are made from a
// port that is held for as long as the test runs.
func loopback(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	return fmt.Sprintf("127.%d.%d.", port>>8|128, port&255)
}

// define makes the processes of all nodes, and asks all of them from now on.
func (c *cluster) define() {
	c.nodes = map[string]*process{}
	for i, m := range c.list {
		c.askable = append(c.askable, c.address[i]+apiPort)
		p := &process{t: c.t, dir: c.dir, name: m.name, program: program()}
		if c.enter != nil {
			p.enter = c.enter(i)
		}
		p.args = []string{"node", "--name", m.name, "--role", m.role, "--bind", c.address[i] + nodePort, "--api", c.address[i] + apiPort,
			"--data", "data-" + m.name, "--join", strings.Join(c.address, ","), "--workers", "1",
			"--expect", fmt.Sprint(c.count("worker")), "--job-nodes", fmt.Sprint(c.count("coordinator"))}
		c.nodes[m.name] = p
	}
}

// count is how many nodes have another role.
func (c *cluster) count(not string) (n int) {
	for _, m := range c.list {
		if m.role != not {
			n++
		}
	}
	return n
}

// start starts the nodes named, or all.
func (c *cluster) start(names ...string) {
	c.t.Helper()
	c.t.Cleanup(c.explain)
	for _, m := range c.list {
		if len(names) == 0 || slices.Contains(names, m.name) {
			c.nodes[m.name].args = append(c.nodes[m.name].args, c.extra...)
			c.nodes[m.name].start()
		}
	}
}

// explain looks for crashes in the logs, and shows them if the test failed. With GOFLAGS=-race the program is
// built with the race detector, which writes there too.
func (c *cluster) explain() {
	for _, m := range c.list {
		for _, bad := range []string{"DATA RACE", "panic:", "fatal error:"} {
			if strings.Contains(c.nodes[m.name].log(), bad) {
				c.t.Errorf("%s: %s", m.name, bad)
			}
		}
	}
	if !c.t.Failed() {
		return
	}
	for _, m := range c.list {
		text := c.nodes[m.name].log()
		c.t.Logf("%s (%s):\n%s", m.name, m.role, text[max(0, len(text)-4000):])
	}
}

// asks says which nodes are asked from now on: ones that are neither killed nor stopped.
func (c *cluster) asks(names ...string) {
	c.askable = nil
	for i, m := range c.list {
		if slices.Contains(names, m.name) {
			c.askable = append(c.askable, c.address[i]+apiPort)
		}
	}
}

// ask runs a command that asks the cluster.
func (c *cluster) ask(ctx context.Context, args ...string) ([]byte, error) {
	args = append(append(args, "--cluster", strings.Join(c.askable, ",")), c.flags...)
	if c.enter != nil {
		args = append(append(c.enter(len(c.list)-1), program()), args...)
	} else {
		args = append([]string{program()}, args...)
	}
	return run(ctx, c.dir, args...)
}

// run runs a command and returns its standard output; the error holds what it said else.
func run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs.String())
	}
	return out, err
}

// status is what a node tells of the cluster.
type status struct {
	Leader string `json:"leader"`
	Term   uint64 `json:"term"`
	Jobs   []struct {
		ID       string `json:"id"`
		Phase    string `json:"phase"`
		Reason   string `json:"reason"`
		Progress struct {
			Time float64 `json:"time_s"`
			End  float64 `json:"end_time_s"`
		} `json:"progress"`
	} `json:"jobs"`
}

func (s *status) ended() bool {
	return len(s.Jobs) > 0 && slices.Contains([]string{"done", "failed"}, s.Jobs[len(s.Jobs)-1].Phase)
}

// at is how much of the last job is done; 0 while it is not known.
func (s *status) at() float64 {
	if len(s.Jobs) == 0 || s.Jobs[len(s.Jobs)-1].Progress.End == 0 {
		return 0
	}
	p := s.Jobs[len(s.Jobs)-1].Progress
	return p.Time / p.End
}

// far bounds waits that end much earlier unless something is wrong.
const far = 90 * time.Second

// until asks for the status until it is as wanted.
func (c *cluster) until(what string, wanted func(s *status) bool) *status {
	c.t.Helper()
	var last string
	for began := time.Now(); time.Since(began) < far; time.Sleep(10 * time.Millisecond) {
		out, err := c.ask(c.t.Context(), "status", "-o", "json")
		if err != nil {
			last = err.Error()
			continue
		}
		s := &status{}
		if err := json.Unmarshal(out, s); err != nil {
			c.t.Fatalf("%v in %s", err, out)
		}
		if wanted(s) {
			return s
		}
		last = string(out)
	}
	c.t.Fatalf("waiting for %s: %s", what, last)
	return nil
}

// reach waits until a part of the last job is done.
func (c *cluster) reach(part float64) {
	c.t.Helper()
	c.until(fmt.Sprintf("%g of the job", part), func(s *status) bool {
		if s.ended() {
			c.t.Fatalf("the job ended before the trouble did: %+v", s.Jobs)
		}
		return s.at() >= part
	})
}

// leader waits for a leader other than the one named.
func (c *cluster) leader(not string) string {
	c.t.Helper()
	return c.until("a leader", func(s *status) bool { return s.Leader != "" && s.Leader != not }).Leader
}

// moves waits until simulated time moves under the leader that there is now.
func (c *cluster) moves() {
	c.t.Helper()
	first := -1.0
	c.until("simulated time to move", func(s *status) bool {
		if s.ended() {
			return true
		}
		if s.Leader == "" || s.at() == 0 {
			return false
		}
		if first < 0 {
			first = s.at()
		}
		return s.at() > first
	})
}

// phold is a scenario that exchanges much and lasts.
func phold(entities int, end string) string {
	return fmt.Sprintf("model: phold\nend: %s\nparams: {entities: %d, lookahead: 0.1 s}\nrecord: {level: statistical}\n", end, entities)
}

// summary of a run, as far as it is compared.
type summary struct {
	Digest  string          `json:"digest"`
	Events  uint64          `json:"events"`
	Outputs []string        `json:"outputs"`
	Results json.RawMessage `json:"results"`
}

// alone runs a scenario in one process, into the folder "alone".
func (c *cluster) alone(file string, args ...string) summary {
	c.t.Helper()
	args = append([]string{program(), "run", file, "--out", "alone", "-o", "json", "--no-progress"}, args...)
	out, err := run(c.t.Context(), c.dir, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return parse(c.t, out)
}

func parse(t *testing.T, out []byte) (s summary) {
	t.Helper()
	if err := json.Unmarshal(out, &s); err != nil || s.Digest == "" {
		t.Fatalf("no summary: %v in %s", err, out)
	}
	return s
}

// scenario writes a file beside the cluster.
func (c *cluster) scenario(text string) string {
	c.t.Helper()
	return c.file("s.yaml", text)
}

func (c *cluster) file(name, text string) string {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return name
}

// submit hands a scenario in as soon as the cluster takes it.
func (c *cluster) submit(file string, args ...string) (job string) {
	c.t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < far; time.Sleep(50 * time.Millisecond) {
		var out []byte
		if out, err = c.ask(c.t.Context(), append([]string{"submit", file}, args...)...); err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	c.t.Fatal(err)
	return ""
}

// same waits for the end of a job and compares it with the run in one process: digest, results and files.
func (c *cluster) same(job string, want summary) {
	c.t.Helper()
	out, err := c.ask(c.t.Context(), "watch", job, "-o", "json", "--no-progress")
	for began := time.Now(); err != nil && absent(err) && time.Since(began) < far; {
		time.Sleep(50 * time.Millisecond) // a node that has just started knows nothing yet
		out, err = c.ask(c.t.Context(), "watch", job, "-o", "json", "--no-progress")
	}
	if err != nil {
		c.t.Fatal(err)
	}
	got := parse(c.t, out)
	if got.Digest != want.Digest || got.Events != want.Events || string(got.Results) != string(want.Results) {
		c.t.Errorf("digest %s of %d events, in one process %s of %d", got.Digest, got.Events, want.Digest, want.Events)
	}
	if _, err := c.ask(c.t.Context(), "results", job, "--out", "fetched-"+job); err != nil {
		c.t.Fatal(err)
	}
	sameFiles(c.t, filepath.Join(c.dir, "fetched-"+job), filepath.Join(c.dir, "alone"))
}

// absent reports whether an error says that no node answers, or one that has just started and knows nothing yet.
func absent(err error) bool {
	return strings.Contains(err.Error(), "others may") || strings.Contains(err.Error(), "no node answers")
}

// sameFiles compares two folders of results; some files tell wall time, or draw the borders of regions.
func sameFiles(t *testing.T, got, want string) {
	t.Helper()
	a, b := names(t, got), names(t, want)
	if !slices.Equal(a, b) {
		t.Errorf("files %q, not %q", a, b)
		return
	}
	for _, name := range a {
		if name == "report.html" || name == "summary.json" || strings.HasSuffix(name, ".svg") {
			continue
		}
		x, err := os.ReadFile(filepath.Join(got, name))
		if err != nil {
			t.Fatal(err)
		}
		y, err := os.ReadFile(filepath.Join(want, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(x, y) {
			t.Errorf("%s differs", name)
		}
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".lock" {
			list = append(list, e.Name())
		}
	}
	return list
}

// metric is a counter or gauge of a node in clear text, all of its labels added up.
func (c *cluster) metric(node, name string) (sum float64) {
	c.t.Helper()
	i := slices.IndexFunc(c.list, func(m member) bool { return m.name == node })
	out, err := get(c.t.Context(), "http://"+c.address[i]+apiPort+"/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(line, "simnode_"+name)
		if fields := strings.Fields(rest); ok && len(fields) > 0 && strings.ContainsAny(rest[:1], " {") {
			v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				c.t.Fatalf("%s: %v", line, err)
			}
			sum += v
		}
	}
	return sum
}
