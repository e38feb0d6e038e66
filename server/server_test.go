package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/cluster/certs"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/models"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/summary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen, far beyond how long it takes.
const patience = 60 * time.Second

// testNode starts a node on loopback with ports of its own.
func testNode(t testing.TB, name string, change func(*Config)) *Node {
	t.Helper()
	c := Config{
		Name: name, Cluster: "test", Bind: "127.0.0.1:0", API: "127.0.0.1:0", Dir: filepath.Join(t.TempDir(), name), Role: control.Both,
		Workers: 1, Expected: 1, JobNodes: 1, Models: append(models.All(), probe()), Version: "test",
	}
	if testing.Verbose() {
		c.Log, c.Level = slog.NewTextHandler(logWriter{t, name}, &slog.HandlerOptions{Level: slog.LevelInfo}), slog.LevelInfo
	}
	if change != nil {
		change(&c)
	}
	n, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return n
}

type logWriter struct {
	t    testing.TB
	name string
}

func (w logWriter) Write(p []byte) (int, error) {
	fmt.Fprintf(os.Stderr, "%s: %s", w.name, p)
	return len(p), nil
}

// testCluster starts n nodes that form a cluster.
func testCluster(t testing.TB, n int, change func(*Config)) []*Node {
	t.Helper()
	var nodes []*Node
	for i := range n {
		nodes = append(nodes, testNode(t, string(rune('a'+i)), func(c *Config) {
			c.Expected, c.JobNodes = n, n
			if i > 0 {
				c.Join = []string{nodes[0].Address()}
			}
			if change != nil {
				change(c)
			}
		}))
	}
	return nodes
}

// client asks a node.
func client(t testing.TB, n *Node) *api.Client {
	t.Helper()
	c, err := api.NewClient(api.ClientOptions{Address: n.API(), Call: patience, Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// file writes a scenario.
func file(t testing.TB, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.rle"), []byte("x = 3, y = 3\nb2o$2ob$bo!\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// submit hands a scenario in, when the cluster takes it.
func submit(t testing.TB, c *api.Client, path string, spec control.Spec) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	job, err := c.Submit(ctx, api.Submission{Name: "s.yaml", Bundle: packed(t, path), Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// packed is the bundle of a scenario.
func packed(t testing.TB, path string) []byte {
	t.Helper()
	bundle, err := scenario.Pack(path, scenario.Options{Models: append(models.All(), probe())})
	if err != nil {
		t.Fatal(err)
	}
	return bundle.Data
}

// wait follows a job to its end.
func wait(t testing.TB, c *api.Client, job string) api.Progress {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last api.Progress
	if err := c.Watch(ctx, job, func(p api.Progress) error { last = p; return nil }); err != nil {
		t.Fatalf("%s: %v, last %+v", job, err, last)
	}
	return last
}

// outcome is the summary and the files of a run.
type outcome struct {
	summary *summary.Summary
	files   map[string][]byte
}

// fetch fetches the outcome of a job.
func fetch(t testing.TB, c *api.Client, job string) outcome {
	t.Helper()
	r, err := c.Results(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	o := outcome{files: map[string][]byte{}}
	if len(r.Summary) > 0 {
		if o.summary, err = summary.Parse(r.Summary); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range r.Files {
		var b bytes.Buffer
		if err := c.File(t.Context(), job, f.Name, &b); err != nil {
			t.Fatal(err)
		}
		if int64(b.Len()) != f.Size {
			t.Errorf("%s has %d bytes, not %d", f.Name, b.Len(), f.Size)
		}
		o.files[f.Name] = b.Bytes()
	}
	return o
}

// local runs a scenario in one process.
func local(t testing.TB, path string, spec control.Spec) (outcome, error) {
	t.Helper()
	bundle, err := scenario.Pack(path, scenario.Options{Models: append(models.All(), probe())})
	if err != nil {
		t.Fatal(err)
	}
	s, level, err := load(bundle.Data, append(models.All(), probe()), spec)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	recorder, err := record.New(s.Program, recordOptions(s.Record, level, dir))
	if err != nil {
		t.Fatal(err)
	}
	options := node.Options{Regions: 3, Workers: 2, Sink: recorder, Trace: level == record.Raw, Bins: summary.PageBins}
	if s.Program.Limits.Lookahead == 0 {
		options.Regions = 1
	}
	out, failure := node.Run(t.Context(), s.Program, options)
	if err := recorder.Finish(out.End); err != nil {
		t.Fatal(err)
	}
	o := outcome{files: map[string][]byte{}}
	if failure == nil {
		if o.summary, failure = (summary.Run{Scenario: s, Name: "s.yaml", Path: dir, Level: level, Regions: 3, Workers: 2, Recorder: recorder, Outcome: out}).Write(); failure != nil {
			o.summary = nil
		}
	}
	names, err := complete(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if o.files[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return o, failure
}

// same compares two outcomes, but for what tells wall time or how the run was cut.
func same(t testing.TB, got, want outcome) {
	t.Helper()
	if (got.summary == nil) != (want.summary == nil) {
		t.Fatalf("a summary: %v, not %v", got.summary != nil, want.summary != nil)
	}
	if g, w := got.summary, want.summary; g != nil {
		a, b := *g, *w
		for _, s := range []*summary.Summary{&a, &b} {
			s.Regions, s.Workers, s.Wall, s.EventsPerSec, s.PeakRSS, s.End, s.Planned = 0, 0, 0, 0, 0, 0, 0
		}
		x, errX := a.JSON()
		y, errY := b.JSON()
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			t.Errorf("summary\n%s, not\n%s", x, y)
		}
	}
	for name, data := range want.files {
		switch {
		case got.files[name] == nil:
			t.Errorf("%s is missing", name)
		case name == summary.File || name == summary.Page || strings.HasSuffix(name, ".svg"):
		case !bytes.Equal(got.files[name], data):
			t.Errorf("%s differs: %d bytes, not %d", name, len(got.files[name]), len(data))
		}
	}
	if len(got.files) != len(want.files) {
		t.Errorf("%d files, not %d", len(got.files), len(want.files))
	}
}

const (
	phold = "model: phold\nend: 20 s\nparams: {entities: 400, destinations: spatial}\nrecord: {level: raw}\n"
)

func TestRunEqualsOneProcess(t *testing.T) {
	path := file(t, phold)
	want, err := local(t, path, control.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 3, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			nodes := testCluster(t, n, nil)
			c := client(t, nodes[n-1])
			job := submit(t, c, path, control.Spec{Regions: 5})
			if p := wait(t, c, job); p.Phase != control.Done {
				t.Fatalf("%+v", p)
			}
			other := client(t, nodes[0])
			wait(t, other, job)
			same(t, fetch(t, other, job), want)
		})
	}
}

// One cluster runs one job after another: models, recordings, failures.
func TestJobsEqualOneProcess(t *testing.T) {
	nodes := testCluster(t, 2, nil)
	c := client(t, nodes[0])
	for name, s := range map[string]struct {
		text string
		spec control.Spec
		fail bool
	}{
		"life":          {text: "model: life\nparams: {pattern: p.rle, generations: 60}\nrecord: {level: statistical, formats: [parquet]}\n"},
		"probe":         {text: "model: probe\nrecord: {level: raw, formats: [csv, parquet]}\n", spec: control.Spec{Seed: "7", End: "8 s", Set: []string{"params.lookahead=50 ms"}}},
		"off":           {text: "model: probe\n", spec: control.Spec{Record: "off"}},
		"no page":       {text: "model: probe\nrecord: {report: false}\n"},
		"one region":    {text: "model: probe\nparams: {lookahead: 0 s}\n"},
		"entity stops":  {text: "model: probe\nend: 10000 d\nparams: {mode: stop}\n"},
		"panic":         {text: "model: probe\nparams: {mode: panic}\nrecord: {level: raw}\n", fail: true},
		"breach":        {text: "model: probe\nparams: {mode: breach}\n", fail: true},
		"results fail":  {text: "model: probe\nparams: {mode: results-error}\n", fail: true},
		"results panic": {text: "model: probe\nparams: {mode: results-panic}\n", fail: true},
		"bad picture":   {text: "model: probe\nparams: {mode: picture-name}\n", fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, s.text)
			want, failure := local(t, path, s.spec)
			if (failure != nil) != s.fail {
				t.Fatalf("in one process: %v", failure)
			}
			job := submit(t, c, path, s.spec)
			p := wait(t, c, job)
			if s.fail {
				if p.Phase != control.Failed || p.Reason != failure.Error() {
					t.Errorf("%+v, not failed: %v", p, failure)
				}
			} else if p.Phase != control.Done {
				t.Fatalf("%+v", p)
			}
			other := client(t, nodes[1])
			wait(t, other, job)
			same(t, fetch(t, other, job), want)
		})
	}
	// What ends its goroutine or cannot be recorded fails the job and not the node.
	for mode, want := range map[string]string{"results-goexit": "runtime.Goexit", "nan": "the value is NaN"} {
		job := submit(t, c, file(t, "model: probe\nparams: {mode: "+mode+"}\n"), control.Spec{})
		if p := wait(t, c, job); p.Phase != control.Failed || !strings.Contains(p.Reason, want) {
			t.Errorf("%s: %+v", mode, p)
		}
	}
}

// A submission that cannot run is refused at once, with what is wrong.
func TestSubmissionsThatCannotRun(t *testing.T) {
	n := testNode(t, "a", nil)
	c := client(t, n)
	for _, s := range []struct {
		text string
		spec control.Spec
		want string
	}{
		{"model: probe\n", control.Spec{Seed: "x"}, "expected a whole number"},
		{"model: probe\n", control.Spec{Set: []string{"params.pawse=1"}}, `did you mean "pause"`},
		{"model: probe\nparams: {lookahead: 0 s}\n", control.Spec{Regions: 2}, "lookahead 0"},
		{"model: probe\n", control.Spec{Set: []string{"params.mode=setup-panic"}}, "setup in panic"},
		{"model: probe\n", control.Spec{Set: []string{"params.mode=setup-goexit"}}, "runtime.Goexit"},
	} {
		bundle, err := scenario.Pack(file(t, s.text), scenario.Options{Models: append(models.All(), probe())})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Submit(t.Context(), api.Submission{Bundle: bundle.Data, Spec: s.spec})
		var told *api.Error
		if !errors.As(err, &told) || told.Kind != api.Invalid || !strings.Contains(told.Text, s.want) {
			t.Errorf("%+v: %v", s.spec, err)
		}
	}
	if _, jobs, err := c.Status(t.Context(), ""); err != nil || len(jobs) > 0 {
		t.Errorf("%d jobs (%v)", len(jobs), err)
	}
}

// reach waits until a job has reached a simulated time.
func reach(t testing.TB, c *api.Client, job string, at sim.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	there := errors.New("there")
	err := c.Watch(ctx, job, func(p api.Progress) error {
		if p.Phase.Ended() {
			return fmt.Errorf("it has ended: %+v", p)
		}
		if p.Now >= at {
			return there
		}
		return nil
	})
	if !errors.Is(err, there) {
		t.Fatalf("%s: %v", job, err)
	}
}

const slowly = "model: probe\nend: 20 s\nparams: {mode: slow, pause: 2000}\nrecord: {level: raw}\n"

// FAULTS row 2 with nodes that own regions: the coordination changes hands again and again.
func TestFault2CoordinatorStepsDown(t *testing.T) {
	path := file(t, slowly)
	want, err := local(t, path, control.Spec{Set: []string{"params.pause=0"}})
	if err != nil {
		t.Fatal(err)
	}
	nodes := testCluster(t, 3, nil)
	c := client(t, nodes[0])
	job := submit(t, c, path, control.Spec{Regions: 6})
	for i := range 4 {
		reach(t, c, job, sim.Time(sim.Duration(i+1)*sim.Second))
		for _, n := range nodes {
			if leader, _ := n.cluster.Leader(); leader == n.Name() {
				if err := n.StepDown(t.Context()); err != nil {
					t.Log(err)
				}
				break
			}
		}
	}
	if p := wait(t, c, job); p.Phase != control.Done {
		t.Fatalf("%+v", p)
	}
	same(t, fetch(t, c, job), want)
	took := uint64(0)
	for _, n := range nodes {
		took += n.loop.shown.Load().coordCounts.Takeovers
	}
	if took == 0 {
		t.Error("no coordinator took the job over")
	}
}

func TestPauseResumeStop(t *testing.T) {
	nodes := testCluster(t, 2, nil)
	c := client(t, nodes[0])
	path := file(t, slowly)
	want, err := local(t, path, control.Spec{Set: []string{"params.pause=0"}})
	if err != nil {
		t.Fatal(err)
	}
	job := submit(t, c, path, control.Spec{})
	reach(t, c, job, sim.Time(sim.Second))
	if err := c.Move(t.Context(), job, control.Paused); err != nil {
		t.Fatal(err)
	}
	if err := c.Move(t.Context(), job, control.Running); err != nil {
		t.Fatal(err)
	}
	if p := wait(t, c, job); p.Phase != control.Done {
		t.Fatalf("%+v", p)
	}
	same(t, fetch(t, c, job), want)

	first := submit(t, c, file(t, strings.ReplaceAll(slowly, "20 s", "10000 d")), control.Spec{})
	second := submit(t, c, path, control.Spec{})
	reach(t, c, first, sim.Time(sim.Second))
	if err := c.Move(t.Context(), second, control.Stopping); err != nil {
		t.Fatal(err)
	}
	if p := wait(t, c, second); p.Phase != control.Done || p.Reason != "stopped before it began" {
		t.Errorf("%+v", p)
	}
	if err := c.Move(t.Context(), first, control.Stopping); err != nil {
		t.Fatal(err)
	}
	if p := wait(t, c, first); p.Phase != control.Done || !strings.HasPrefix(p.Reason, "stopped by a user at ") {
		t.Fatalf("%+v", p)
	}
	o := fetch(t, c, first)
	if !o.summary.Interrupted || o.summary.Events == 0 || o.summary.End < sim.Time(sim.Second) {
		t.Errorf("%+v", o.summary)
	}
	// What an interrupted run tells is that of a run whose end is the time that was reached.
	shorter, err := local(t, file(t, strings.ReplaceAll(slowly, "20 s", fmt.Sprintf("%d ns", int64(o.summary.End)))), control.Spec{Set: []string{"params.pause=0"}})
	if err != nil || shorter.summary.Digest != o.summary.Digest || !bytes.Equal(shorter.files["events.csv"], o.files["events.csv"]) {
		t.Errorf("digest %s, not %s (%v)", o.summary.Digest, shorter.summary.Digest, err)
	}
	if err := c.Move(t.Context(), first, control.Paused); err == nil {
		t.Error("a job that has ended was paused")
	}
}

// A node that is told to end says so, and the others go on with the job, from the beginning where there is no
// checkpoint.
func TestShutdownOfAMember(t *testing.T) {
	nodes := testCluster(t, 3, nil)
	c := client(t, nodes[0])
	path := file(t, slowly)
	want, err := local(t, path, control.Spec{Set: []string{"params.pause=0"}})
	if err != nil {
		t.Fatal(err)
	}
	job := submit(t, c, path, control.Spec{})
	reach(t, c, job, sim.Time(sim.Second))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := nodes[2].Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if p := wait(t, c, job); p.Phase != control.Done {
		t.Errorf("%+v", p)
	}
	same(t, fetch(t, c, job), want)
}

// A job that takes checkpoints survives the loss of any member, the recording one and the coordinator included: it
// goes on from the last checkpoint, and digest and files are those of an undisturbed run.
func TestFault1LostMember(t *testing.T) {
	path := file(t, slowly)
	want, err := local(t, path, control.Spec{Set: []string{"params.pause=0"}})
	if err != nil {
		t.Fatal(err)
	}
	for lost := range 3 {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			nodes := testCluster(t, 3, func(c *Config) { c.Control.LostAfter = 300 * time.Millisecond })
			rest := slices.Delete(slices.Clone(nodes), lost, lost+1)
			c := client(t, rest[0])
			job := submit(t, c, path, control.Spec{Set: []string{"params.pause=8000"}, Checkpoints: control.Checkpoints{EverySim: sim.Second}})
			committed(t, rest[0], job, 2)
			if err := nodes[lost].Close(); err != nil {
				t.Error(err)
			}
			if p := wait(t, c, job); p.Phase != control.Done {
				t.Fatalf("%+v", p)
			}
			j := rest[0].machine.state.Load().Job(job)
			if j.Recoveries != 1 || j.Restore == nil || j.Restore.Number < 2 {
				t.Errorf("%d recoveries, from %+v", j.Recoveries, j.Restore)
			}
			same(t, fetch(t, c, job), want)
		})
	}
}

// committed waits until so many checkpoints of a job are committed.
func committed(t *testing.T, n *Node, job string, number uint64) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if j := n.machine.state.Load().Job(job); j != nil && j.Newest() != nil && j.Newest().Number >= number {
			return
		}
	}
	t.Fatalf("checkpoint %d of %s was waited for in vain", number, job)
}

// Who learns from one node that a job has ended is told so by any other at once, and gets the results there.
func TestResultsOfAnyNodeAtOnce(t *testing.T) {
	nodes := testCluster(t, 3, nil)
	path := file(t, "model: probe\nend: 1 s\n")
	for range 3 {
		for _, first := range nodes {
			job := submit(t, client(t, first), path, control.Spec{})
			if p := wait(t, client(t, first), job); p.Phase != control.Done {
				t.Fatalf("%+v", p)
			}
			for _, n := range nodes {
				_, jobs, err := client(t, n).Status(t.Context(), job)
				if err != nil || len(jobs) != 1 || jobs[0].Phase != control.Done {
					t.Errorf("%s ended by %s, by %s it is %+v: %v", job, first.Name(), n.Name(), jobs, err)
				}
				if _, err := client(t, n).Results(t.Context(), job); err != nil {
					t.Errorf("%s ended by %s, not by %s: %v", job, first.Name(), n.Name(), err)
				}
			}
		}
	}
}

// A node that comes back has the jobs that it had, and their results.
func TestRestartKeepsResults(t *testing.T) {
	dir := t.TempDir()
	keep := func(c *Config) { c.Dir = dir }
	n := testNode(t, "a", keep)
	c := client(t, n)
	job := submit(t, c, file(t, "model: probe\n"), control.Spec{})
	wait(t, c, job)
	want := fetch(t, c, job)
	if err := n.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = testNode(t, "a", keep)
	c = client(t, n)
	next := submit(t, c, file(t, "model: probe\n"), control.Spec{})
	if next != "job-2" {
		t.Errorf("the next job is %s", next)
	}
	wait(t, c, next)
	same(t, fetch(t, c, job), want)
	if _, err := Start(t.Context(), n.config); err == nil || !strings.Contains(err.Error(), "another node is using the data folder") {
		t.Errorf("a second node in one folder: %v", err)
	}
}

// With certificates nodes and clients know one another, and tokens have roles.
func TestTLSAndTokens(t *testing.T) {
	dir := t.TempDir()
	if err := certs.Create(dir, []string{"a", "b", "client"}, []string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	tokens, err := api.ParseTokens([]byte("read 0123456789abcdef-read\noperate 0123456789abcdef-operate\n"))
	if err != nil {
		t.Fatal(err)
	}
	load := func(name string) *certs.Files {
		files, err := certs.Load(filepath.Join(dir, certs.CAFile), filepath.Join(dir, certs.CertFile(name)), filepath.Join(dir, certs.KeyFile(name)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	nodes := testCluster(t, 2, func(c *Config) { c.Certs, c.Tokens, c.GossipKey = load(c.Name), tokens, make([]byte, 32) })
	ask := func(token string, own bool) *api.Client {
		config := load("client").Config()
		if !own {
			config.GetClientCertificate = nil
		}
		c, err := api.NewClient(api.ClientOptions{Address: "https://" + nodes[1].API(), Token: token, TLS: config, Call: patience})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	c := ask("", true)
	job := submit(t, c, file(t, "model: probe\n"), control.Spec{})
	if p := wait(t, c, job); p.Phase != control.Done {
		t.Errorf("%+v", p)
	}
	var told *api.Error
	if _, _, err := ask("", false).Status(t.Context(), ""); !errors.As(err, &told) || told.Kind != api.Unauthenticated {
		t.Errorf("nobody: %v", err)
	}
	reader := ask("0123456789abcdef-read", false)
	if _, jobs, err := reader.Status(t.Context(), ""); err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs (%v)", len(jobs), err)
	}
	if err := reader.Move(t.Context(), job, control.Stopping); !errors.As(err, &told) || told.Kind != api.Forbidden {
		t.Errorf("a reader: %v", err)
	}
	if err := ask("0123456789abcdef-operate", false).Move(t.Context(), job, control.Stopping); !errors.As(err, &told) || told.Kind != api.Conflict {
		t.Errorf("an operator: %v", err)
	}
}

func TestLogsOfAnyNode(t *testing.T) {
	nodes := testCluster(t, 2, nil)
	c := client(t, nodes[0])
	for _, name := range []string{"", "a", "b"} {
		found := false
		if err := c.Logs(t.Context(), api.LogQuery{Node: name, Lines: 1000}, func(l api.LogLine) error {
			found = found || l.Text == "node started"
			return nil
		}); err != nil || !found {
			t.Errorf("node %q: %v, %v", name, found, err)
		}
	}
	seen := errors.New("seen")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := c.Logs(ctx, api.LogQuery{Node: "b", Follow: true, Lines: 1}, func(l api.LogLine) error {
		if l.Text == "hello" {
			return seen
		}
		nodes[1].log.Info("hello", "from", "b")
		return nil
	})
	if !errors.Is(err, seen) {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	n := testNode(t, "a", nil)
	c := client(t, n)
	job := submit(t, c, file(t, strings.ReplaceAll(slowly, "20 s", "10000 d")), control.Spec{Regions: 2})
	reach(t, c, job, sim.Time(sim.Second))
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{n})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			have[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	for _, name := range []string{"simulated_seconds", "cap_seconds", "region_events_total", "region_entities", "leader", "epoch", "reports_received_total", "grants_sent_total"} {
		if have["simnode_"+name] <= 0 {
			t.Errorf("%s is %v", name, have["simnode_"+name])
		}
	}
	if got := have["simnode_region_entities"]; got != probes {
		t.Errorf("%v entities, not %d", got, probes)
	}
	if err := c.Move(t.Context(), job, control.Stopping); err != nil {
		t.Error(err)
	}
	wait(t, c, job)
}

// What a node keeps of jobs that the cluster has forgotten is removed, and nothing else.
func TestPrune(t *testing.T) {
	s := store{t.TempDir()}
	for _, name := range []string{"job-1", "job-2", "job-3", "job-07", "notes"} {
		if err := os.MkdirAll(filepath.Join(s.dir, "jobs", name, filesFolder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.prune(&control.State{NextJob: 2, Jobs: []*control.Job{{ID: "job-2"}}}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "jobs"))
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if !slices.Equal(left, []string{"job-07", "job-2", "job-3", "notes"}) {
		t.Errorf("%q are left", left)
	}
}

// No name from elsewhere reaches a file that is not in the list of the job.
func TestStoreOpensWhatIsListed(t *testing.T) {
	s := store{t.TempDir()}
	dir, err := s.create("job-1")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(dir, "a.csv"): "a", filepath.Join(dir, "secret"): "s", filepath.Join(s.dir, "secret"): "s"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.finish("job-1", &result{Files: []api.File{{Name: "a.csv", Size: 1}, {Name: "../../../secret", Size: 1}}}); err != nil {
		t.Fatal(err)
	}
	if data, err := s.read("job-1", "a.csv", 0); err != nil || string(data) != "a" {
		t.Errorf("%q, %v", data, err)
	}
	for _, name := range []string{"secret", "../../../secret", "", ".", "a.csv/../secret"} {
		if f, err := s.open("job-1", name); err == nil {
			t.Errorf("%q was opened", name)
			_ = f.Close()
		}
	}
	for _, id := range []string{"..", "", "job-", "job-x", "job-1/..", "job-01", "job-18446744073709551616"} {
		if _, err := s.load(id); err == nil {
			t.Errorf("job %q was looked for", id)
		}
	}
}

// What no coordinator takes is given up, with the reason.
func TestOrderWithoutCoordinator(t *testing.T) {
	n := testNode(t, "a", func(c *Config) { c.Expected, c.OrderFor = 3, 300*time.Millisecond })
	c := client(t, n)
	_, err := c.Submit(t.Context(), api.Submission{Bundle: packed(t, file(t, "model: probe\n"))})
	var e *api.Error
	if !errors.As(err, &e) || e.Kind != api.Unavailable || !strings.Contains(e.Text, "no coordinator has taken this within 300ms") || !strings.Contains(e.Text, "no leader") {
		t.Error(err)
	}
	// What it knows it tells, and that it may be old.
	k, _, err := c.Status(t.Context(), "")
	if err != nil || !strings.Contains(k.Old, "no leader") {
		t.Errorf("%+v: %v", k, err)
	}
}

// A port that is taken is told with the ways to choose another.
func TestPortsInUse(t *testing.T) {
	n := testNode(t, "a", nil)
	for want, change := range map[string]func(*Config){
		"--bind (SIMNODE_BIND, or bind in": func(c *Config) { c.Bind = n.Address() },
		"--api (SIMNODE_API, or api in":    func(c *Config) { c.API = n.API() },
	} {
		c := n.config
		c.Dir, c.API, c.Bind = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
		change(&c)
		if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}
