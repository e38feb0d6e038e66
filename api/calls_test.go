package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/simnode/simnode/api/simnodev1"
	"github.com/simnode/simnode/api/simnodev1/simnodev1connect"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
)

func TestClientSeesWhatTheNodeSays(t *testing.T) {
	f := newFake()
	_, address := serve(t, openConfig(f))
	c := newTestClient(t, ClientOptions{Address: address})
	k, jobs, err := c.Status(t.Context(), "")
	if err != nil || k != f.Cluster() || len(jobs) != 3 {
		t.Fatalf("%+v, %+v, %v", k, jobs, err)
	}
	want := JobStatus{ID: "job-1", Name: "first", Phase: control.Done, Members: []string{"a", "b"}, Regions: 3, Recorder: "b", Epoch: 7, Submitted: time.UnixMilli(1000)}
	if !reflect.DeepEqual(jobs[0], want) {
		t.Errorf("got %+v\nwant %+v", jobs[0], want)
	}
	progress, _ := f.Progress("job-2")
	if jobs[1].Progress == nil || *jobs[1].Progress != progress || !reflect.DeepEqual(jobs[1].Spec, f.jobs[1].Spec) {
		t.Errorf("got %+v", jobs[1])
	}
	nodes, err := c.Nodes(t.Context())
	if err != nil || !reflect.DeepEqual(nodes, f.Nodes()) {
		t.Errorf("got %+v, %v", nodes, err)
	}
	spec := control.Spec{Seed: "1", End: "6 h", Set: []string{"a=b"}, Record: "raw", Regions: 2, Nodes: 3, Workers: 4, Checkpoints: control.Checkpoints{Every: 5, EverySim: 6, KeepLast: 7, KeepEvery: 8}}
	bundle := packed(t)
	if job, err := c.Submit(t.Context(), Submission{"name", bundle, spec}); err != nil || job != "job-9" {
		t.Errorf("%q, %v", job, err)
	}
	if len(f.got) != 1 || !reflect.DeepEqual(f.got[0], Submission{"name", bundle, spec}) {
		t.Errorf("the node got %d submissions", len(f.got))
	}
	results, err := c.Results(t.Context(), "job-1")
	if want, _ := f.Results(t.Context(), ""); err != nil || !reflect.DeepEqual(results, want) {
		t.Errorf("got %+v, %v", results, err)
	}
	var file bytes.Buffer
	if err := c.File(t.Context(), "job-1", "rows.csv", &file); err != nil || !bytes.Equal(file.Bytes(), bigFile()) {
		t.Errorf("%d bytes, %v", file.Len(), err)
	}
}

func TestPhasesOnTheWire(t *testing.T) {
	for _, p := range phases()[1:] {
		if got := fromPhase(toPhase(p)); got != p || !strings.HasSuffix(toPhase(p).String(), strings.ToUpper(string(p))) {
			t.Errorf("%s: %v, %s", p, toPhase(p), got)
		}
	}
	if fromPhase(-1) != "" || fromPhase(100) != "" || toPhase("x") != 0 {
		t.Error("a phase that is none")
	}
}

// gRPC over HTTP/2 without TLS, gRPC-web, and the protocol of connect in binary and JSON, on one port.
func TestProtocolsOnOnePort(t *testing.T) {
	_, address := serve(t, Config{Backend: newFake(), Access: Access{Tokens: testTokens(t)}})
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	two := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	one := &http.Client{Transport: &http.Transport{}}
	defer two.CloseIdleConnections()
	defer one.CloseIdleConnections()
	for name, c := range map[string]simnodev1connect.ClusterClient{
		"grpc":       simnodev1connect.NewClusterClient(two, "http://"+address, connect.WithGRPC(), connect.WithInterceptors(bearer(readToken))),
		"grpc-web":   simnodev1connect.NewClusterClient(one, "http://"+address, connect.WithGRPCWeb(), connect.WithInterceptors(bearer(readToken))),
		"grpc-web-2": simnodev1connect.NewClusterClient(two, "http://"+address, connect.WithGRPCWeb(), connect.WithInterceptors(bearer(readToken))),
		"connect":    simnodev1connect.NewClusterClient(one, "http://"+address, connect.WithInterceptors(bearer(readToken))),
		"json":       simnodev1connect.NewClusterClient(one, "http://"+address, connect.WithProtoJSON(), connect.WithInterceptors(bearer(readToken))),
		"gzip":       simnodev1connect.NewClusterClient(two, "http://"+address, connect.WithSendGzip(), connect.WithInterceptors(bearer(readToken))),
	} {
		t.Run(name, func(t *testing.T) {
			a, err := c.Status(t.Context(), connect.NewRequest(&pb.StatusRequest{Job: "job-2"}))
			if err != nil || len(a.Msg.Jobs) != 1 || a.Msg.Jobs[0].Progress.Events != 1<<60 {
				t.Fatalf("%v, %v", a, err)
			}
			stream, err := c.File(t.Context(), connect.NewRequest(&pb.FileRequest{Job: "job-1", Name: "rows.csv"}))
			n := 0
			for err == nil && stream.Receive() {
				n += len(stream.Msg().Data)
			}
			if err = errors.Join(err, stream.Err(), stream.Close()); err != nil || n != len(bigFile()) {
				t.Errorf("%d bytes, %v", n, err)
			}
			if _, err = c.Stop(t.Context(), connect.NewRequest(&pb.StopRequest{Job: "job-2"})); connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("stop: %v", err)
			}
			if _, err = c.Status(t.Context(), connect.NewRequest(&pb.StatusRequest{Job: "job-7"})); connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("no such job: %v", err)
			}
		})
	}
}

func TestJSONAsCurlSendsIt(t *testing.T) {
	f := newFake()
	_, address := serve(t, openConfig(f))
	base := "http://" + address + "/simnode.v1.Cluster/"
	code, text, _ := ask(t, "POST", base+"Status", `{"job":"job-2"}`, "Content-Type", "application/json")
	var got struct {
		Cluster string
		Jobs    []struct {
			ID       string
			Phase    string
			Progress struct{ NowNs string }
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	if got.Cluster != "test" || got.Jobs[0].Phase != "PHASE_RUNNING" || got.Jobs[0].Progress.NowNs != "1000000000" {
		t.Errorf("%s", text)
	}
	bundle := packed(t)
	body := fmt.Sprintf(`{"bundle":%q,"spec":{"seed":"7"}}`, base64.StdEncoding.EncodeToString(bundle))
	code, text, _ = ask(t, "POST", base+"Submit", body, "Content-Type", "application/json")
	if code != 200 || !strings.Contains(text, "job-9") || len(f.got) != 1 || !bytes.Equal(f.got[0].Bundle, bundle) || f.got[0].Spec.Seed != "7" {
		t.Errorf("%d %s", code, text)
	}
	for name, c := range map[string]struct {
		path, body, kind string
		want             int
		text             string
	}{
		"no JSON":       {"Status", "{", "application/json", 400, "invalid_argument"},
		"unknown field": {"Status", `{"jobs":1}`, "application/json", 400, "jobs"},
		"with charset":  {"Status", `{"jobs":1}`, "application/json; charset=utf-8", 400, "jobs"},
		"nothing":       {"Status", "", "application/json", 400, "expected a JSON object"},
		"wrong type":    {"Status", "{}", "text/plain", 415, ""},
		"no job":        {"Stop", "{}", "application/json", 400, "no job is named"},
		"unknown job":   {"Pause", `{"job":"../etc"}`, "application/json", 404, `there is no job \"../etc\" here`},
		"wrong phase":   {"Resume", `{"job":"job-2"}`, "application/json", 400, "job-2 is running and cannot be resumed"},
		"too large":     {"Status", `{"job":"` + strings.Repeat("x", maxBody) + `"}`, "application/json", 429, "resource_exhausted"},
	} {
		code, text, _ := ask(t, "POST", base+c.path, c.body, "Content-Type", c.kind)
		if name == "wrong phase" && code == 200 {
			continue // Asking for the phase that it is in does nothing.
		}
		if code != c.want || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
}

func TestLifecycle(t *testing.T) {
	f := newFake()
	_, address := serve(t, openConfig(f))
	c := newTestClient(t, ClientOptions{Address: address})
	for _, x := range []struct {
		job  string
		to   control.Phase
		kind Kind
		want string
	}{
		{"job-2", control.Paused, 0, "job-2 paused"},
		{"job-3", control.Running, 0, "job-3 running"},
		{"job-2", control.Stopping, 0, "job-2 stopping"},
		{"job-2", control.Running, 0, ""},
		{"job-3", control.Paused, 0, ""},
		{"job-1", control.Paused, Conflict, "job-1 has ended (done) and cannot be paused"},
		{"job-1", control.Running, Conflict, "job-1 has ended (done) and cannot be resumed"},
		{"job-1", control.Stopping, Conflict, "job-1 has ended (done) and cannot be stopped"},
		{"job-4", control.Stopping, NotFound, `there is no job "job-4" here; simnode status lists the jobs`},
		{"", control.Stopping, Invalid, "no job is named"},
		{"job-2", control.Done, Invalid, `nobody can ask for phase "done"`},
	} {
		f.moves = nil
		err := c.Move(t.Context(), x.job, x.to)
		var e *Error
		switch {
		case x.kind == 0 && (err != nil || strings.Join(f.moves, "") != x.want):
			t.Errorf("%s to %s: %v, %q", x.job, x.to, err, f.moves)
		case x.kind != 0 && (!errors.As(err, &e) || e.Kind != x.kind || !strings.HasPrefix(e.Text, x.want) || len(f.moves) > 0):
			t.Errorf("%s to %s: %v, %q", x.job, x.to, err, f.moves)
		}
	}
	f.jobs[1].Phase = control.Initialising
	if err := c.Move(t.Context(), "job-2", control.Paused); err == nil || !strings.Contains(err.Error(), "job-2 is initialising and cannot be paused; only a running job can") {
		t.Errorf("got %v", err)
	}
}

func TestSubmissionsAreChecked(t *testing.T) {
	f := newFake()
	_, address := serve(t, openConfig(f))
	c := newTestClient(t, ClientOptions{Address: address})
	good := packed(t)
	for want, s := range map[string]Submission{
		"bundle: it is empty":                               {},
		"bundle: it is damaged before contents.json":        {Bundle: []byte("model: tiny\n")},
		"name: expected at most 200 bytes":                  {Name: strings.Repeat("x", 201), Bundle: good},
		"name: expected at most 200 bytes of printable":     {Name: "a\nb", Bundle: good},
		"spec.seed: expected":                               {Spec: control.Spec{Seed: strings.Repeat("1", 201)}, Bundle: good},
		"spec.end: expected at most 200 bytes of printable": {Spec: control.Spec{End: "1\x00"}, Bundle: good},
		"spec.record: ":                                     {Spec: control.Spec{Record: "rwa"}, Bundle: good},
		"spec.regions: 1025; use a number from 1 to 1024":   {Spec: control.Spec{Regions: 1025}, Bundle: good},
		"spec.nodes: 2000; use":                             {Spec: control.Spec{Nodes: 2000}, Bundle: good},
		"spec.workers: 1073741824; use":                     {Spec: control.Spec{Workers: 1 << 40}, Bundle: good},
		"spec.set: 1001 overrides":                          {Spec: control.Spec{Set: make([]string, 1001)}, Bundle: good},
		"spec.set: 1 overrides of 1048577 bytes":            {Spec: control.Spec{Set: []string{strings.Repeat("x", maxSet+1)}}, Bundle: good},
	} {
		_, err := c.Submit(t.Context(), s)
		var e *Error
		if !errors.As(err, &e) || e.Kind != Invalid || !strings.HasPrefix(e.Text, want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if len(f.got) > 0 {
		t.Errorf("the node got %d of them", len(f.got))
	}
}

// A message that is small on the wire and large when decompressed is refused.
func TestCompressedFlood(t *testing.T) {
	_, address := serve(t, openConfig(newFake()))
	c := simnodev1connect.NewClusterClient(http.DefaultClient, "http://"+address, connect.WithSendGzip())
	defer http.DefaultClient.CloseIdleConnections()
	_, err := c.Status(t.Context(), connect.NewRequest(&pb.StatusRequest{Job: strings.Repeat("x", 40<<20)}))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("got %v", err)
	}
}

// What the backend did not mean to tell is not told, and is logged.
func TestInternalErrorsKeepTheirText(t *testing.T) {
	var log syncBuffer
	f := newFake()
	config := openConfig(f)
	config.Log = slog.New(slog.NewTextHandler(&log, nil))
	_, address := serve(t, config)
	c := newTestClient(t, ClientOptions{Address: address})
	f.err = errors.New("secret path")
	_, err := c.Results(t.Context(), "job-1")
	var e *Error
	if !errors.As(err, &e) || e.Kind != 0 || strings.Contains(err.Error(), "secret") || !strings.Contains(log.String(), "secret path") {
		t.Errorf("%v; log %s", err, log.String())
	}
	f.err = fmt.Errorf("wrapped: %w", Errorf(Unavailable, "there is no leader"))
	if _, err := c.Results(t.Context(), "job-1"); !errors.As(err, &e) || e.Kind != Unavailable || e.Text != "there is no leader" {
		t.Errorf("got %v", err)
	}
	if code, text, _ := ask(t, "GET", "http://"+address+"/jobs/job-1/files/rows.csv", ""); code != 503 || text != "there is no leader\n" {
		t.Errorf("%d %s", code, text)
	}
	f.err, f.panics = nil, true
	if _, _, err := c.Status(t.Context(), ""); !errors.As(err, &e) || strings.Contains(err.Error(), "secret") || !strings.Contains(log.String(), "panic=secret") {
		t.Errorf("%v; log %s", err, log.String())
	}
}

func TestFilesAreOnlyThoseOfTheJob(t *testing.T) {
	f := newFake()
	_, address := serve(t, openConfig(f))
	c := newTestClient(t, ClientOptions{Address: address})
	for _, name := range []string{"../rows.csv", "/etc/passwd", "summary.json", "", "rows.csv\x00", "ROWS.CSV"} {
		err := c.File(t.Context(), "job-1", name, io.Discard)
		var e *Error
		if !errors.As(err, &e) || e.Kind != NotFound || !strings.HasSuffix(e.Text, "; it has rows.csv, report.html, odd.bin") {
			t.Errorf("%q: %v", name, err)
		}
	}
	for path, want := range map[string]int{
		"/jobs/job-1/files/rows.csv": 200, "/jobs/job-1/files/..%2frows.csv": 404, "/jobs/job-1/files/": 404, "/jobs/job-1/files/../files/rows.csv": 200,
		"/jobs/job-2/files/rows.csv": 409, "/jobs/job-5/files/rows.csv": 404, "/jobs/": 404, "/jobs/job-1": 404,
	} {
		if code, text, h := ask(t, "GET", "http://"+address+path, ""); code != want || code == 200 && (text != string(bigFile()) || h.Get("Content-Type") != "text/csv; charset=utf-8") {
			t.Errorf("%s: %d %.80s", path, code, text)
		}
	}
	for name, want := range map[string]string{"report.html": "text/html; charset=utf-8", "odd.bin": "application/octet-stream"} {
		if _, _, h := ask(t, "GET", "http://"+address+"/jobs/job-1/files/"+name, ""); h.Get("Content-Type") != want || h.Get("Content-Security-Policy") == "" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", name, h)
		}
	}
	if code, _, _ := ask(t, "POST", "http://"+address+"/jobs/job-1/files/rows.csv", ""); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", code)
	}
}

// A file that ends early is an error at the other end, and never a whole file.
func TestBrokenFileIsNotTakenForWhole(t *testing.T) {
	f := newFake()
	f.file = newBrokenFile()
	_, address := serve(t, openConfig(f))
	c := newTestClient(t, ClientOptions{Address: address})
	var got bytes.Buffer
	if err := c.File(t.Context(), "job-1", "rows.csv", &got); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	f.file = newBrokenFile()
	if _, text, _ := ask(t, "GET", "http://"+address+"/jobs/job-1/files/rows.csv", ""); !strings.HasPrefix(text, "cut: ") {
		t.Errorf("got %.80s", text)
	}
}

func TestWatchEndsWithTheJob(t *testing.T) {
	f := newFake()
	config := openConfig(f)
	config.Limits.Body = 20 * time.Millisecond // The stream lasts longer than a body may take.
	_, address := serve(t, config)
	c := newTestClient(t, ClientOptions{Address: address})
	var seen []sim.Time
	go func() {
		for i := range 5 {
			time.Sleep(20 * time.Millisecond)
			f.progress <- Progress{Phase: control.Running, Now: sim.Time(i), End: 10, Events: uint64(i)}
		}
		f.progress <- Progress{Phase: control.Failed, Now: 9, Reason: "node b was lost"}
	}()
	var last Progress
	err := c.Watch(t.Context(), "job-2", func(p Progress) error {
		seen, last = append(seen, p.Now), p
		return nil
	})
	if err != nil || !slices.Equal(seen, []sim.Time{0, 1, 2, 3, 4, 9}) || last.Phase != control.Failed || last.Reason != "node b was lost" {
		t.Errorf("%v, %+v, %v", seen, last, err)
	}
	if err := c.Watch(t.Context(), "job-8", nil); err == nil || !strings.Contains(err.Error(), `there is no job "job-8"`) {
		t.Errorf("got %v", err)
	}
	f.progress <- Progress{}
	own := errors.New("own")
	if err := c.Watch(t.Context(), "job-2", func(Progress) error { return own }); !errors.Is(err, own) {
		t.Errorf("got %v", err)
	}
}

// The watch goes on with another node when the one that served it goes away.
func TestFault10WatchGoesOnAtAnotherNode(t *testing.T) {
	f := newFake()
	first, addressA := serve(t, openConfig(f))
	_, addressB := serve(t, openConfig(f))
	c := newTestClient(t, ClientOptions{Address: addressA + ", " + addressB})
	f.progress <- Progress{Phase: control.Running, Now: 1}
	n := 0
	err := c.Watch(t.Context(), "job-2", func(p Progress) error {
		if n++; n == 1 {
			go func() {
				_ = first.Shutdown(context.Background())
				f.progress <- Progress{Phase: control.Running, Now: 2}
				f.progress <- Progress{Phase: control.Done, Now: 3}
			}()
		}
		return nil
	})
	if err != nil || n != 3 {
		t.Errorf("saw %d, %v", n, err)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	c := newTestClient(t, ClientOptions{Address: address})
	_, _, err = c.Status(t.Context(), "")
	if !isUnreachable(err) || !strings.Contains(err.Error(), "no node answers at "+address) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	if err := c.Watch(t.Context(), "job-1", nil); !isUnreachable(err) {
		t.Errorf("got %v", err)
	}
	// A listener that says nothing.
	if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	silent := newTestClient(t, ClientOptions{Address: l.Addr().String(), Call: 50 * time.Millisecond})
	if _, err := silent.Nodes(t.Context()); !isUnreachable(err) || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := silent.Nodes(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// A dead node before one that lives.
	_, good := serve(t, openConfig(newFake()))
	if _, err := newTestClient(t, ClientOptions{Address: address + "," + good}).Nodes(t.Context()); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"a": "http://a:7373", "a:1": "http://a:1", "http://a": "http://a:7373", "https://a.b:2/": "https://a.b:2", "[::1]:3": "http://[::1]:3", "[::1]": "http://[::1]:7373",
		"127.0.0.1": "http://127.0.0.1:7373", ":7405": "http://127.0.0.1:7405",
	} {
		if got, err := baseURL(address, false); err != nil || got != want {
			t.Errorf("%s: %s, %v", address, got, err)
		}
	}
	if got, err := baseURL("a", true); err != nil || got != "https://a:7373" {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", ":", ":x", "a:b", "a:0", "a:70000", "ftp://a", "a/b", "a?x", "u@a", "a b", "http://", "a:1:2"} {
		if got, err := baseURL(bad, false); err == nil || !strings.Contains(err.Error(), "expected HOST:PORT") {
			t.Errorf("%q: %s, %v", bad, got, err)
		}
	}
	if _, err := baseURL("http://a", true); err == nil {
		t.Error("clear text with certificates")
	}
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"a:1", "[::1]:3", "https://x", "%41", "a%zz:1"} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, address string, tls bool) {
		url, err := baseURL(address, tls)
		if err == nil {
			if again, err := baseURL(url, false); err != nil || again != url {
				t.Errorf("%q: %q, then %q, %v", address, url, again, err)
			}
			if tls && !strings.HasPrefix(url, "https://") {
				t.Errorf("%q: %q without TLS", address, url)
			}
		}
	})
}

func TestLogs(t *testing.T) {
	f := newFake()
	_, address := serve(t, openConfig(f))
	c := newTestClient(t, ClientOptions{Address: address})
	var want []LogLine
	for i := range 600 {
		l := LogLine{time.UnixMilli(int64(i + 1)), "INFO", fmt.Sprint("line ", i), []LogField{{"k", "v"}}}
		want = append(want, l)
		f.lines <- l
	}
	close(f.lines)
	var got []LogLine
	err := c.Logs(t.Context(), LogQuery{Node: "a", Follow: true, Lines: 600}, func(l LogLine) error { got = append(got, l); return nil })
	if err != nil || !reflect.DeepEqual(got, want) || f.query != (LogQuery{"a", true, 600}) {
		t.Errorf("%d lines, %+v, %v", len(got), f.query, err)
	}
	if err := c.Logs(t.Context(), LogQuery{}, nil); err != nil || f.query != (LogQuery{Lines: usualLines}) {
		t.Errorf("%+v, %v", f.query, err)
	}
	for want, q := range map[string]LogQuery{`there is no node "c"`: {Node: "c"}, "10001 lines are asked for": {Lines: 10001}} {
		if err := c.Logs(t.Context(), q, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestHealthReadyMetrics(t *testing.T) {
	f := newFake()
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "simnode_test_total"})
	registry.MustRegister(counter)
	counter.Add(3)
	config := openConfig(f)
	config.Metrics = registry
	_, address := serve(t, config)
	f.notReady = errors.New("there is no leader yet")
	for path, want := range map[string]string{"/healthz": "200 ok\n", "/readyz": "503 not ready: there is no leader yet\n"} {
		if code, text, _ := ask(t, "GET", "http://"+address+path, ""); fmt.Sprint(code, " ", text) != want {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	f.notReady = nil
	if code, text, _ := ask(t, "GET", "http://"+address+"/readyz", ""); code != 200 || text != "ready\n" {
		t.Errorf("%d %s", code, text)
	}
	if code, text, _ := ask(t, "GET", "http://"+address+"/metrics", ""); code != 200 || !strings.Contains(text, "simnode_test_total 3") {
		t.Errorf("%d %s", code, text)
	}
}

// At most so many submissions at once: the next one waits, and is told to come again.
func TestSubmissionsAtOnce(t *testing.T) {
	f := newFake()
	f.hold = make(chan struct{})
	config := openConfig(f)
	config.Limits = Limits{Submits: 1, Wait: 20 * time.Millisecond}
	s, address := serve(t, config)
	c := newTestClient(t, ClientOptions{Address: address})
	bundle := packed(t)
	first := make(chan error, 1)
	go func() {
		_, err := c.Submit(context.Background(), Submission{Bundle: bundle})
		first <- err
	}()
	for len(s.submits) == 0 {
		time.Sleep(time.Millisecond)
	}
	_, err := c.Submit(t.Context(), Submission{Bundle: bundle})
	var e *Error
	if !errors.As(err, &e) || e.Kind != Exhausted {
		t.Errorf("got %v", err)
	}
	close(f.hold)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if _, err := c.Submit(t.Context(), Submission{Bundle: bundle}); err != nil {
		t.Error(err)
	}
}

func TestStreamsAtOnce(t *testing.T) {
	f := newFake()
	config := openConfig(f)
	config.Limits.Streams = 1
	s, address := serve(t, config)
	c := newTestClient(t, ClientOptions{Address: address})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Logs(ctx, LogQuery{Follow: true}, nil) }()
	for len(s.streams) == 0 {
		time.Sleep(time.Millisecond)
	}
	var e *Error
	if err := c.Watch(t.Context(), "job-2", nil); !errors.As(err, &e) || e.Kind != Exhausted {
		t.Errorf("got %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for len(s.streams) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// Connections that say nothing, or never end their request, are closed in time; meanwhile others are
// served.
func TestHalfOpenConnections(t *testing.T) {
	config := openConfig(newFake())
	config.Limits = Limits{Header: 50 * time.Millisecond, Body: 50 * time.Millisecond}
	_, address := serve(t, config)
	url := simnodev1connect.ClusterStatusProcedure
	var conns []net.Conn
	for _, text := range []string{
		"",
		"GET /healthz HTTP/1.1\r\n",
		"POST " + url + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"POST " + url + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/odd\r\nContent-Length: 100\r\n\r\n{",
		"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n",
		"POST /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n",
		"POST " + url + " HTTP/1.1\r\nHost: evil\r\nContent-Length: 100\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	if _, err := newTestClient(t, ClientOptions{Address: address}).Nodes(t.Context()); err != nil {
		t.Error(err)
	}
	for i, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, bufio.NewReader(conn)); err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Errorf("connection %d is still open", i)
			}
		}
	}
}

// One address cannot take all connections.
func TestConnectionsAreBounded(t *testing.T) {
	config := openConfig(newFake())
	config.Limits = Limits{Connections: 8, Header: time.Minute}
	_, address := serve(t, config)
	var conns []net.Conn
	for range 20 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	for i, conn := range conns[2:] {
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		var timeout net.Error
		if _, err := conn.Read(make([]byte, 1)); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("connection %d beyond the bound is kept", i+2)
		}
	}
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	conn, err := other.Dial("tcp", address)
	if err != nil {
		t.Skip("127.0.0.2 cannot be used here: ", err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	data, err2 := io.ReadAll(conn)
	if err := errors.Join(err, err2); err != nil || !strings.HasSuffix(string(data), "\r\n\r\nok\n") {
		t.Errorf("%q, %v", data, err)
	}
	for _, c := range conns {
		c.Close()
	}
	// Those that left make room.
	for range 1000 {
		if conn, err := net.Dial("tcp", address); err == nil {
			_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			data, _ := io.ReadAll(conn)
			conn.Close()
			if len(data) > 0 {
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("there is no room after all have left")
}

// A client that reads nothing does not hold a stream for ever.
func TestSlowReaderIsCutOff(t *testing.T) {
	f := newFake()
	endless := make(chan struct{})
	f.file = endlessFile{endless}
	config := openConfig(f)
	config.Limits.Write = 50 * time.Millisecond
	_, address := serve(t, config)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /jobs/job-1/files/rows.csv HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-endless:
	case <-time.After(20 * time.Second):
		t.Error("the file is still open")
	}
}

type endlessFile struct{ closed chan struct{} }

func (endlessFile) Read(p []byte) (int, error) { return len(p), nil }
func (e endlessFile) Close() error             { close(e.closed); return nil }

// Shutdown ends streams at once and waits for the rest.
func TestShutdown(t *testing.T) {
	f := newFake()
	f.hold = make(chan struct{})
	s, address := serve(t, openConfig(f))
	c := newTestClient(t, ClientOptions{Address: address, Patience: time.Nanosecond})
	watched, submitted := make(chan error, 1), make(chan error, 1)
	bundle := packed(t)
	go func() { watched <- c.Watch(context.Background(), "job-2", func(Progress) error { return nil }) }()
	go func() {
		_, err := c.Submit(context.Background(), Submission{Bundle: bundle})
		submitted <- err
	}()
	for len(s.streams)+len(s.submits) < 2 {
		time.Sleep(time.Millisecond)
	}
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(context.Background()) }()
	var e *Error
	if err := <-watched; !errors.As(err, &e) || e.Kind != Unavailable || !strings.Contains(e.Text, "shutting down") {
		t.Errorf("watch: %v", err)
	}
	close(f.hold)
	if err := <-submitted; err != nil {
		t.Errorf("submit: %v", err)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

func TestSubmitIsNotHandedInTwice(t *testing.T) {
	f := newFake()
	f.hold = make(chan struct{})
	defer close(f.hold)
	_, a := serve(t, openConfig(f))
	g := newFake()
	_, b := serve(t, openConfig(g))
	c := newTestClient(t, ClientOptions{Address: a + "," + b, Call: 10 * time.Millisecond})
	if _, err := c.Submit(t.Context(), Submission{Bundle: packed(t)}); !isUnreachable(err) {
		t.Errorf("got %v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.got) > 0 {
		t.Error("a submission that may have been taken was handed to another node")
	}
}

// A node that is behind another one says nothing that the other one has told better.
func TestAnswersAreNotOld(t *testing.T) {
	b := newFake()
	_, address := serve(t, openConfig(b))
	c := newTestClient(t, ClientOptions{Address: address})
	all := b.jobs
	b.jobs = nil
	b.fresh = func(context.Context) error { b.jobs = all; return nil }
	if _, jobs, err := c.Status(t.Context(), ""); err != nil || len(jobs) != 3 {
		t.Errorf("%d jobs: %v", len(jobs), err)
	}
	b.jobs = nil
	if _, err := c.Results(t.Context(), "job-1"); err != nil {
		t.Error(err)
	}
	b.jobs = nil
	if err := c.Move(t.Context(), "job-2", control.Paused); err != nil {
		t.Error(err)
	}

	// Where it cannot learn, it says so, and does not say that something is not there.
	b.fresh = func(context.Context) error { return errors.New("there is no leader") }
	k, jobs, err := c.Status(t.Context(), "")
	if err != nil || len(jobs) != 3 || k.Old != "there is no leader" {
		t.Errorf("%+v, %d jobs: %v", k, len(jobs), err)
	}
	if _, err := c.Results(t.Context(), "job-1"); err != nil {
		t.Errorf("results of a job that has ended are not old: %v", err)
	}
	var e *Error
	if _, err := c.Results(t.Context(), "job-2"); !errors.As(err, &e) || e.Kind != Unavailable || !strings.Contains(e.Text, "no leader") {
		t.Error(err)
	}
	if _, _, err := c.Status(t.Context(), "job-8"); !errors.As(err, &e) || e.Kind != Unavailable || !strings.Contains(e.Text, "no leader") {
		t.Error(err)
	}
	// The phase that is known may not be the last: whether the job may go there is not for this node to say.
	if err := c.Move(t.Context(), "job-2", control.Running); err != nil {
		t.Error(err)
	}
}

// Ended jobs beyond those that are kept are not said never to have been.
func TestRemovedJob(t *testing.T) {
	b := newFake()
	_, address := serve(t, openConfig(b))
	c := newTestClient(t, ClientOptions{Address: address})
	b.jobs = b.jobs[1:]
	var e *Error
	if _, err := c.Results(t.Context(), "job-1"); !errors.As(err, &e) || e.Kind != NotFound || e.Text != "job-1 was removed: only the last 64 ended jobs are kept" {
		t.Error(err)
	}
	for _, id := range []string{"job-9", "job-01", "job-0", "job-", "first"} {
		if _, err := c.Results(t.Context(), id); err == nil || !strings.Contains(err.Error(), "there is no job") {
			t.Error(err)
		}
	}
}
