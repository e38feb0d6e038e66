package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Backend with one running and one ended job.
type fake struct {
	mu       sync.Mutex
	jobs     []*control.Job
	got      []Submission
	moves    []string
	progress chan Progress
	lines    chan LogLine
	query    LogQuery
	err      error
	notReady error
	panics   bool
	// fresh is Fresh, if it is not nil.
	fresh func(context.Context) error
	file  io.ReadCloser
	// hold makes Submit wait.
	hold chan struct{}
}

func newFake() *fake {
	return &fake{
		jobs: []*control.Job{
			{ID: "job-1", Name: "first", Phase: control.Done, Members: []string{"a", "b"}, Owner: []int{0, 0, 1}, Recorder: 1, Epoch: 7, Submitted: 1000},
			{ID: "job-2", Name: "second", Phase: control.Running, Spec: control.Spec{Seed: "5", Set: []string{"params.x=1"}, Regions: 4}},
			{ID: "job-3", Name: "third", Phase: control.Paused},
		},
		progress: make(chan Progress, 100), lines: make(chan LogLine, 1000),
	}
}

func (f *fake) Submit(ctx context.Context, s Submission) (string, error) {
	f.mu.Lock()
	f.got = append(f.got, s)
	f.mu.Unlock()
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "job-9", f.err
}

func (f *fake) Fresh(ctx context.Context) error {
	if f.fresh != nil {
		return f.fresh(ctx)
	}
	return nil
}

func (f *fake) Cluster() ClusterStatus {
	if f.panics {
		panic("secret")
	}
	return ClusterStatus{"test", "a", "b", 3, ""}
}
func (f *fake) Jobs() []*control.Job { return f.jobs }

func (f *fake) Progress(job string) (Progress, bool) {
	return Progress{Phase: control.Running, Now: sim.Time(sim.Second), End: sim.Time(sim.Hour), Events: 1 << 60, Rate: 1e6, Wall: time.Second}, job == "job-2"
}

func (f *fake) Watch(ctx context.Context, job string) (<-chan Progress, error) {
	out := make(chan Progress)
	go func() {
		defer close(out)
		for {
			select {
			case p := <-f.progress:
				out <- p
				if p.Phase.Ended() {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, f.err
}

func (f *fake) Move(_ context.Context, job string, to control.Phase) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moves = append(f.moves, job+" "+string(to))
	return f.err
}

func (f *fake) Nodes() []NodeStatus {
	return []NodeStatus{{Name: "a", Role: control.Both, Address: "1.2.3.4:1", API: "1.2.3.4:2", Workers: 2, State: "alive", Voter: true, Leader: true,
		Heard: time.UnixMilli(5), Version: "v1"}, {Name: "b", Role: control.Works, State: "gone"}}
}

func (f *fake) Logs(ctx context.Context, q LogQuery) (<-chan LogLine, error) {
	f.mu.Lock()
	f.query = q
	f.mu.Unlock()
	out := make(chan LogLine)
	go func() {
		defer close(out)
		for {
			select {
			case l, more := <-f.lines:
				if !more {
					return
				}
				select {
				case out <- l:
				case <-ctx.Done():
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, f.err
}

func (f *fake) Results(context.Context, string) (Results, error) {
	return Results{[]byte(`{"digest": "x"}`), []File{{"rows.csv", 200_000}, {"report.html", 3}, {"odd.bin", 1}}}, f.err
}

// bigFile is what rows.csv holds.
func bigFile() []byte { return bytes.Repeat([]byte("0123456789"), 20_000) }

func (f *fake) OpenFile(_ context.Context, job, name string) (io.ReadCloser, error) {
	if f.file != nil {
		return f.file, nil
	}
	return io.NopCloser(bytes.NewReader(bigFile())), nil
}

func (f *fake) Ready() error { return f.notReady }

// brokenFile fails in its middle.
type brokenFile struct{ io.Reader }

func (brokenFile) Close() error { return nil }

func newBrokenFile() brokenFile {
	return brokenFile{io.MultiReader(bytes.NewReader(bigFile()), errReader{})}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("/secret/path: bad disk") }

const (
	readToken    = "read-0123456789abcdef"
	operateToken = "operate-0123456789abcdef"
)

func testTokens(t testing.TB) *Tokens {
	tokens, err := ParseTokens([]byte("# for tests\nread " + readToken + "\noperate " + operateToken + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// serve starts a server on loopback and returns its address.
func serve(t testing.TB, c Config) (*Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(c)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

// open is a config of a server without tokens.
func openConfig(f *fake) Config {
	return Config{Backend: f, Access: Access{Open: true}, Metrics: prometheus.NewRegistry()}
}

func newTestClient(t testing.TB, o ClientOptions) *Client {
	t.Helper()
	c, err := NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// packed is a bundle of a small scenario.
func packed(t testing.TB) []byte {
	t.Helper()
	type params struct {
		N int `param:"n" default:"1"`
	}
	m := sim.Define(sim.Model{Name: "tiny", Version: 1}, func(b *sim.Builder, p *params) error {
		b.SetEnd(sim.Time(sim.Second))
		tick := sim.DefineEvent[sim.None](b, "tick", sim.Planned)
		k := sim.DefineKind[struct{ N int64 }](b, "thing", "")
		sim.Handle(k, tick, func(*sim.Context, *struct{ N int64 }, sim.None) {})
		b.SetLimits(sim.Limits{Lookahead: sim.Second})
		sim.Add(k, sim.Vec{}, struct{ N int64 }{})
		return nil
	})
	path := filepath.Join(t.TempDir(), "tiny.yaml")
	if err := os.WriteFile(path, []byte("model: tiny\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := scenario.Pack(path, scenario.Options{Models: []sim.Model{m}})
	if err != nil {
		t.Fatal(err)
	}
	return b.Data
}

// ask makes an HTTP request and returns status and body.
func ask(t testing.TB, method, url, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	a, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err != nil {
		return a.StatusCode, "cut: " + err.Error(), a.Header
	}
	return a.StatusCode, string(data), a.Header
}
