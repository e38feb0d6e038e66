package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/models"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
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
	path := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// submit hands a scenario in, when the cluster takes it.
func submit(t testing.TB, c *api.Client, path string, spec control.Spec) string {
	t.Helper()
	bundle, err := scenario.Pack(path, scenario.Options{Models: append(models.All(), probe())})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	job, err := c.Submit(ctx, api.Submission{Name: "s.yaml", Bundle: bundle.Data, Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return job
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
		if o.summary, err = (summary.Run{Scenario: s, Name: "s.yaml", Path: dir, Level: level, Regions: 3, Workers: 2, Recorder: recorder, Outcome: out}).Write(); err != nil {
			t.Fatal(err)
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
	life  = "model: life\nparams: {generations: 60}\nrecord: {level: statistical}\n"
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
			same(t, fetch(t, client(t, nodes[0]), job), want)
		})
	}
}

var _ = io.EOF
