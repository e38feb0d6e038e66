package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
	"github.com/simnode/simnode/summary"
)

// smallCluster is a cluster of one that runs a job in its call of Submit, in one process.
type smallCluster struct {
	dir string

	mu      sync.Mutex
	jobs    []*control.Job
	at      map[string]api.Progress
	results map[string]api.Results
	moves   []string
	changed chan struct{}
	token   string
	// leaderless, if it is not nil, makes Nodes name no leader and Submit give up once Nodes was called.
	leaderless chan struct{}
	// seen, if it is not nil, is called with what Watch has sent.
	seen func(api.Progress)
}

// startCluster serves one and makes it the one that commands ask.
func startCluster(t *testing.T) *smallCluster {
	t.Helper()
	k := &smallCluster{dir: t.TempDir(), at: map[string]api.Progress{}, results: map[string]api.Results{}, changed: make(chan struct{}), token: "operate-0123456789abcdef"}
	tokens, err := api.ParseTokens([]byte("operate " + k.token + "\nread read-0123456789abcdef\n"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := api.New(api.Config{Backend: k, Access: api.Access{Tokens: tokens}})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Setenv("SIMNODE_CLUSTER", l.Addr().String())
	t.Setenv("SIMNODE_TOKEN", k.token)
	for _, name := range []string{"SIMNODE_CA", "SIMNODE_CERT", "SIMNODE_KEY"} {
		t.Setenv(name, "")
	}
	return k
}

// put adds or changes a job.
func (k *smallCluster) put(j control.Job, p api.Progress) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.Phase, p.Reason = j.Phase, j.Reason
	k.at[j.ID] = p
	defer func() { close(k.changed); k.changed = make(chan struct{}) }()
	for i, old := range k.jobs {
		if old.ID == j.ID {
			k.jobs = slices.Clone(k.jobs)
			k.jobs[i] = &j
			return
		}
	}
	k.jobs = append(slices.Clone(k.jobs), &j)
}

func (k *smallCluster) Submit(ctx context.Context, s api.Submission) (string, error) {
	if k.leaderless != nil {
		<-k.leaderless
		return "", api.Errorf(api.Unavailable, "no coordinator has taken this")
	}
	o := scenario.Options{Models: testModels(), Set: s.Spec.Set, Seed: s.Spec.Seed, End: s.Spec.End}
	sc, err := scenario.LoadBundle(s.Bundle, o)
	if err != nil {
		return "", api.Errorf(api.Invalid, "%s", err.Error())
	}
	id := fmt.Sprintf("job-%d", len(k.Jobs())+1)
	j := control.Job{ID: id, Name: s.Name, Spec: s.Spec, Phase: control.Done, Members: []string{"a"}, Owner: []int{0, 0}}
	text := sc.Record.Level
	if s.Spec.Record != "" {
		text = s.Spec.Record
	}
	level, err := record.ParseLevel(text)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(k.dir, id)
	rec, err := record.New(sc.Program, record.Options{Level: level, Dir: dir, CSV: true})
	if err != nil {
		return "", err
	}
	options := node.Options{Regions: max(1, s.Spec.Regions), Workers: 1, Trace: level == record.Raw, Sink: rec, Bins: summary.PageBins}
	start := time.Now()
	out, err := node.Run(ctx, sc.Program, options)
	if err != nil {
		_ = rec.Discard()
		j.Phase, j.Reason = control.Failed, err.Error()
		k.put(j, api.Progress{})
		return id, nil
	}
	if err := rec.Finish(out.End); err != nil {
		return "", err
	}
	run := summary.Run{Scenario: sc, Name: sc.Path, Dir: dir, Level: level, Regions: options.Regions, Workers: 1, Recorder: rec, Outcome: out, Wall: time.Since(start)}
	sum, err := run.Write()
	if err != nil {
		return "", err
	}
	var r api.Results
	for i, path := range sum.Outputs {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		sum.Outputs[i] = filepath.Base(path)
		r.Files = append(r.Files, api.File{Name: filepath.Base(path), Size: info.Size()})
	}
	if r.Summary, err = sum.JSON(); err != nil {
		return "", err
	}
	k.mu.Lock()
	k.results[id] = r
	k.mu.Unlock()
	k.put(j, api.Progress{Now: out.End, End: sc.Program.End, Events: out.Events, Wall: time.Second})
	return id, nil
}

func (k *smallCluster) Fresh(context.Context) error { return nil }

func (k *smallCluster) Cluster() api.ClusterStatus {
	return api.ClusterStatus{Cluster: "small\x1b[31m", Node: "a", Leader: "a", Term: 2}
}

func (k *smallCluster) Jobs() []*control.Job {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.jobs
}

func (k *smallCluster) Progress(job string) (api.Progress, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, is := k.at[job]
	return p, is
}

func (k *smallCluster) Watch(ctx context.Context, job string) (<-chan api.Progress, error) {
	out := make(chan api.Progress)
	go func() {
		defer close(out)
		for {
			k.mu.Lock()
			p, changed := k.at[job], k.changed
			k.mu.Unlock()
			select {
			case out <- p:
				if k.seen != nil {
					k.seen(p)
				}
			case <-ctx.Done():
				return
			}
			if p.Phase.Ended() {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (k *smallCluster) Move(_ context.Context, job string, to control.Phase) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.moves = append(k.moves, job+" "+string(to))
	return nil
}

func (k *smallCluster) Nodes() []api.NodeStatus {
	if k.leaderless != nil {
		close(k.leaderless)
		return []api.NodeStatus{{Name: "a", Role: control.Both, State: "alive"}, {Name: "b", Role: control.Both, State: "suspect"}, {Name: "w", Role: control.Works}}
	}
	return []api.NodeStatus{{Name: "a", Role: control.Both, State: "alive", Leader: true, Voter: true, Workers: 2, Address: "h:1", API: "h:2", Heard: time.UnixMilli(0).Add(time.Hour), Version: "v"},
		{Name: "b\n", Role: control.Works, State: "gone"}}
}

func (k *smallCluster) Logs(_ context.Context, q api.LogQuery) (<-chan api.LogLine, error) {
	out := make(chan api.LogLine, 2)
	out <- api.LogLine{Time: time.UnixMilli(1), Level: "INFO", Text: "began\x07", Fields: []api.LogField{{Key: "node", Value: q.Node}, {Key: "why", Value: "a b"}}}
	out <- api.LogLine{Time: time.UnixMilli(2), Level: "WARN", Text: fmt.Sprint(q.Lines, q.Follow)}
	close(out)
	return out, nil
}

func (k *smallCluster) Results(_ context.Context, job string) (api.Results, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, is := k.results[job]
	if !is {
		return r, api.Errorf(api.NotFound, "%s has no results", job)
	}
	return r, nil
}

func (k *smallCluster) OpenFile(_ context.Context, job, name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(k.dir, job, filepath.Base(name)))
}

func (k *smallCluster) Ready() error { return nil }

// A job of a cluster tells and leaves the same as run.
func TestSubmitGivesWhatRunGives(t *testing.T) {
	startCluster(t)
	for _, format := range []string{"json", "text"} {
		file, out := probeFile(t, "record: {level: statistical, report: false}\n")
		flags := []string{file, "--seed", "7", "--end", "90 s", "--set", "params.entities=30", "--record", "raw", "--regions", "1"}
		local := simnode(t.Context(), append([]string{"run", "--out", out, "--workers", "1", "-o", format}, flags...)...)
		if local.code != Done {
			t.Fatal(local.stderr)
		}
		want := files(t, out)
		submitted := simnode(t.Context(), append([]string{"submit", "--watch", "-o", format, "--no-progress"}, flags...)...)
		if submitted.code != Done || submitted.stderr != "" {
			t.Fatalf("exit %d: %s", submitted.code, submitted.stderr)
		}
		other := filepath.Join(filepath.Dir(out), "fetched")
		fetched := simnode(t.Context(), "results", "--out", other, "-o", format)
		if fetched.code != Done || fetched.stderr != "" {
			t.Fatalf("exit %d: %s", fetched.code, fetched.stderr)
		}
		if got := files(t, other); !reflect.DeepEqual(got, want) {
			t.Errorf("fetched %v\nwant %v", sortedNames(got), sortedNames(want))
		}
		if got, want := same(fetched.stdout, other), same(local.stdout, out); got != want {
			t.Errorf("fetched\n%s\nwant\n%s", got, want)
		}
		if got, want := same(submitted.stdout, ""), same(local.stdout, out+"/"); got != want {
			t.Errorf("watched\n%s\nwant\n%s", got, want)
		}
	}
}

// same leaves out of a summary what differs between two runs.
func same(text, dir string) string {
	text = regexp.MustCompile(`(?m)^(wall|rate|peak RSS) .*$`).ReplaceAllString(mask(text), "$1")
	if dir == "" {
		return text
	}
	return strings.ReplaceAll(text, dir, "")
}

// files are the contents of a folder, but for the summary, whose numbers differ.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range names(t, dir) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if all[name] = string(data); name == summary.File {
			all[name] = same(string(data), dir)
		}
	}
	return all
}

func sortedNames(files map[string]string) []string {
	var list []string
	for name := range files {
		list = append(list, fmt.Sprintf("%s (%d bytes)", name, len(files[name])))
	}
	slices.Sort(list)
	return list
}

func TestSubmitPrintsTheJob(t *testing.T) {
	k := startCluster(t)
	file, _ := probeFile(t, "")
	if r := simnode(t.Context(), "submit", file, "--nodes", "3", "--workers", "2"); r.code != Done || r.stdout != "job-1\n" || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	if r := simnode(t.Context(), "submit", file, "-o", "json", "--name", "a trial"); r.stdout != "{\n  \"job\": \"job-2\"\n}\n" {
		t.Errorf("%+v", r)
	}
	jobs := k.Jobs()
	if jobs[0].Name != "probe" || jobs[0].Spec.Nodes != 3 || jobs[0].Spec.Workers != 2 || jobs[1].Name != "a trial" {
		t.Errorf("%+v, %+v", jobs[0], jobs[1])
	}
}

// What is wrong with a scenario is told as run tells it, without asking the cluster.
func TestSubmitChecksFirst(t *testing.T) {
	t.Setenv("SIMNODE_CLUSTER", "127.0.0.1:1")
	file, out := probeFile(t, "params: {entities: 0, lookahead: x}\nend: -1 s\n")
	for _, flags := range [][]string{{file}, {file, "--seed", "x"}, {file + "x"}, {file, "--set", "params.mode=odd"}, {file, "--seed="}, {}, {file, file}, {file, "--record", "odd"}} {
		want := simnode(t.Context(), append([]string{"run", "--out", out}, flags...)...)
		got := simnode(t.Context(), append([]string{"submit"}, flags...)...)
		if got.code != BadUsage || got.code != want.code || strings.ReplaceAll(got.stderr, "submit", "run") != want.stderr {
			// The last words of usage lines are alike but for the name of the command.
			t.Errorf("%v: exit %d\n%s\nwant\n%s", flags, got.code, got.stderr, want.stderr)
		}
	}
	good, _ := probeFile(t, "params: {lookahead: 0 s}\n")
	if r := simnode(t.Context(), "submit", good, "--regions", "2"); r.code != BadUsage || !strings.Contains(r.stderr, "lookahead 0") {
		t.Errorf("%+v", r)
	}
	if r := simnode(t.Context(), "submit", good); r.code != Unreachable || !strings.Contains(r.stderr, "no node answers at 127.0.0.1:1: ") {
		t.Errorf("%+v", r)
	}
}

// A failed job fails with the words of a failed run.
func TestFailedJob(t *testing.T) {
	startCluster(t)
	file, out := probeFile(t, "params: {mode: panic}\n")
	want := simnode(t.Context(), "run", file, "--out", out, "--regions", "1")
	got := simnode(t.Context(), "submit", file, "--watch", "--no-progress")
	if got != want || got.code != Failed {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if r := simnode(t.Context(), "watch"); r.code != Failed || r.stderr != want.stderr {
		t.Errorf("watch: %+v", r)
	}
	if r := simnode(t.Context(), "results"); r.code != BadUsage || r.stderr != "simnode: job-1 has no results\n" {
		t.Errorf("results: %+v", r)
	}
	if r := simnode(t.Context(), "status"); r.code != Done || !strings.Contains(r.stdout, "failed") || !strings.Contains(r.stdout, "index out of range") {
		t.Errorf("status: %+v", r)
	}
}

func TestEveryClientCommandTellsWhenNobodyAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	file, _ := probeFile(t, "")
	e := &env{program: "simnode", models: testModels()}
	for _, c := range e.clusterCommands() {
		args := []string{c.Name(), "--cluster", address}
		if c.Name() == "submit" {
			args = append(args, file)
		}
		r := simnode(t.Context(), args...)
		if r.code != Unreachable || r.stdout != "" || !strings.HasPrefix(r.stderr, "simnode: no node answers at "+address) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: %+v", c.Name(), r)
		}
		if !strings.Contains(c.Long, "3 no node can be reached") {
			t.Errorf("%s: the help does not tell exit code 3", c.Name())
		}
	}
}

func TestJobsMayBeLeftOut(t *testing.T) {
	k := startCluster(t)
	if r := simnode(t.Context(), "stop"); r.code != BadUsage || !strings.Contains(r.stderr, "no job is waiting or running") {
		t.Errorf("%+v", r)
	}
	if r := simnode(t.Context(), "results"); r.code != BadUsage || !strings.Contains(r.stderr, "no job has ended yet") {
		t.Errorf("%+v", r)
	}
	if r := simnode(t.Context(), "watch"); r.code != BadUsage {
		t.Errorf("%+v", r)
	}
	k.put(control.Job{ID: "job-1", Phase: control.Done}, api.Progress{})
	k.put(control.Job{ID: "job-2", Phase: control.Running}, api.Progress{})
	for name, want := range map[string]string{"stop": "job-2 is asked to stop\n", "pause": "job-2 is asked to pause\n"} {
		if r := simnode(t.Context(), name); r.code != Done || r.stdout != want {
			t.Errorf("%+v", r)
		}
	}
	if r := simnode(t.Context(), "resume", "job-2", "-o", "json"); r.stdout != "{\n  \"job\": \"job-2\",\n  \"asked\": \"running\"\n}\n" {
		t.Errorf("%+v", r)
	}
	k.put(control.Job{ID: "job-3", Phase: control.Paused}, api.Progress{})
	if r := simnode(t.Context(), "stop"); r.code != BadUsage || !strings.Contains(r.stderr, "there are several jobs: name one of job-2, job-3") {
		t.Errorf("%+v", r)
	}
	if r := simnode(t.Context(), "stop", "job-1"); r.code != Failed || !strings.Contains(r.stderr, "job-1 has ended (done) and cannot be stopped") {
		t.Errorf("%+v", r)
	}
	if r := simnode(t.Context(), "stop", "job-9"); r.code != BadUsage || !strings.Contains(r.stderr, `there is no job "job-9"`) {
		t.Errorf("%+v", r)
	}
	if r := simnode(t.Context(), "stop", "job-1", "job-2"); r.code != BadUsage || !strings.Contains(r.stderr, "stop takes one job") {
		t.Errorf("%+v", r)
	}
	slices.Sort(k.moves)
	if want := []string{"job-2 paused", "job-2 stopping"}; !slices.Equal(k.moves, want) {
		t.Errorf("moves %q", k.moves)
	}
}

func TestStatusNodesLogs(t *testing.T) {
	k := startCluster(t)
	if r := simnode(t.Context(), "status"); r.stdout != "cluster small\\x1b[31m, leader a\nno jobs\n" {
		t.Errorf("%+v", r)
	}
	k.put(control.Job{ID: "job-1", Name: "n", Phase: control.Running, Members: []string{"a", "b"}, Owner: []int{0, 1}, Recorder: 0, Submitted: 3600_000, Spec: control.Spec{Seed: "3"}},
		api.Progress{Now: sim.Time(sim.Minute), End: sim.Time(4 * sim.Minute), Events: 12345, Rate: 1e6, Wall: 1500 * time.Millisecond})
	for _, c := range []struct {
		args string
		want string
	}{
		{"status", "cluster small\\x1b[31m, leader a\nJOB    NAME  PHASE    DONE  EVENTS  NODES  REASON\njob-1  n     running  25 %  12,345  a,b    -\n"},
		{"status job-1", "job        job-1\nname       n\nphase      running\nsubmitted  1970-01-01T01:00:00Z\nnodes      a, b\nrecorder   a\nregions    2\ntime       1m of 4m\ndone       25 %\n" +
			"events     12,345\nrate       1 M events/s\nwall       1.5s\n"},
		{"nodes", "NODE  STATE  ROLE    VOTE    WORKERS  ADDRESS  API  HEARD                 VERSION\na     alive  both    leader  2        h:1      h:2  1970-01-01T01:00:00Z  v\nb\\n   gone   worker  -       0        -        -    -                     -\n"},
		{"logs a --lines 5 --follow", "1970-01-01T00:00:00.001Z INFO  began\\a node=a why=\"a b\"\n1970-01-01T00:00:00.002Z WARN  5 true\n"},
		{"logs -o json", `{"time":"1970-01-01T00:00:00.001Z","level":"INFO","text":"began\u0007","fields":[{"key":"node","value":""},{"key":"why","value":"a b"}]}` + "\n" +
			`{"time":"1970-01-01T00:00:00.002Z","level":"WARN","text":"100 false","fields":[]}` + "\n"},
	} {
		r := simnode(t.Context(), strings.Fields(c.args)...)
		if r.code != Done || r.stdout != c.want || r.stderr != "" {
			t.Errorf("%s: exit %d\n%s%s\nwant\n%s", c.args, r.code, r.stdout, r.stderr, c.want)
		}
	}
	var status statusJSON
	if err := json.Unmarshal([]byte(simnode(t.Context(), "status", "-o", "json").stdout), &status); err != nil || len(status.Jobs) != 1 || status.Jobs[0].Progress.End != 240 {
		t.Errorf("%+v, %v", status, err)
	}
	for _, args := range []string{"status job-7", "logs c", "logs a b", "nodes a", "status a b", "logs --lines 0"} {
		if r := simnode(t.Context(), strings.Fields(args)...); r.code != BadUsage || r.stderr == "" {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// The watch tells of each phase, and an interrupt ends it and not the job.
func TestWatch(t *testing.T) {
	k := startCluster(t)
	job := control.Job{ID: "job-1", Phase: control.Initialising, Reason: "waits for 1 more node"}
	k.put(job, api.Progress{})
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs lockedBuffer
	code := make(chan int, 1)
	go func() { code <- Run(ctx, []string{"simnode", "watch"}, &out, &errs, testModels()...) }()
	waitFor(t, &errs, "job-1 is initialising: waits for 1 more node\n")
	job.Phase, job.Reason = control.Paused, ""
	k.put(job, api.Progress{})
	waitFor(t, &errs, "job-1 is paused\n")
	cancel()
	if c := <-code; c != Interrupted || out.String() != "" || !strings.HasSuffix(errs.String(), "job-1 goes on: simnode watch job-1 follows it, simnode stop job-1 ends it\n") {
		t.Errorf("exit %d: %s%s", c, out.String(), errs.String())
	}
	if len(k.moves) > 0 {
		t.Errorf("moves %q", k.moves)
	}
}

// A job that was stopped has the summary and the code of an interrupted run.
func TestWatchOfAStoppedJob(t *testing.T) {
	k := startCluster(t)
	k.put(control.Job{ID: "job-1", Phase: control.Done}, api.Progress{Now: 5e9, End: sim.Time(10 * sim.Second)})
	k.results["job-1"] = api.Results{Summary: []byte(`{"scenario": "s.yaml", "end_time_s": 5, "interrupted": true, "outputs": [], "results": {}}`)}
	r := simnode(t.Context(), "watch", "job-1")
	if r.code != Interrupted || !strings.Contains(r.stdout, "end        5s (interrupted; the scenario ends at 10s)\n") {
		t.Errorf("%+v", r)
	}
	if r := simnode(t.Context(), "results", "job-1"); r.code != Done {
		t.Errorf("%+v", r)
	}
	k.results["job-1"] = api.Results{Summary: []byte(`no summary`)}
	if r := simnode(t.Context(), "results", "job-1"); r.code != Failed || !strings.Contains(r.stderr, "job-1: this is no summary of a run") {
		t.Errorf("%+v", r)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func waitFor(t *testing.T, b *lockedBuffer, text string) {
	t.Helper()
	for range 4000 {
		if strings.Contains(b.String(), text) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("no %q in %q", text, b.String())
}

// A cluster cannot make the client write outside of the folder, nor take half a file for a whole one.
func TestFetchDistrustsTheCluster(t *testing.T) {
	k := startCluster(t)
	k.put(control.Job{ID: "job-1", Phase: control.Done}, api.Progress{})
	if err := os.MkdirAll(filepath.Join(k.dir, "job-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(k.dir, "job-1", "rows.csv"), []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"../rows.csv": "no plain name", "/rows.csv": "no plain name", ".bashrc": "no plain name", "rows.exe": "no plain name", "a\\rows.csv": "no plain name",
		"": "no plain name", ".csv": "no plain name", "rows.csv": "rows.csv came with 4 bytes instead of 5; fetch it again"} {
		k.mu.Lock()
		k.results["job-1"] = api.Results{Summary: []byte(`{"results": {}}`), Files: []api.File{{Name: name, Size: 5}}}
		k.mu.Unlock()
		out := filepath.Join(t.TempDir(), "deep", "out")
		r := simnode(t.Context(), "results", "--out", out)
		if r.code != Failed || r.stdout != "" || !strings.Contains(r.stderr, want) || len(names(t, out)) > 0 {
			t.Errorf("%q: %+v, %q", name, r, names(t, out))
		}
	}
}

func TestRefusedByTheCluster(t *testing.T) {
	k := startCluster(t)
	k.put(control.Job{ID: "job-2", Phase: control.Running}, api.Progress{})
	t.Setenv("SIMNODE_TOKEN", "")
	for args, want := range map[string]string{
		"status":                               "this needs a token: give --token, SIMNODE_TOKEN",
		"nodes --token wrong-0123456789abcdef": "the token is not one that this node accepts",
		"stop --token read-0123456789abcdef":   "this needs role operate, and the token has role read",
		"stop --token=":                        "--token is given without a value",
		"nodes --cluster=":                     "--cluster is given without a value",
		"nodes --cluster ftp://x":              `cluster address "ftp://x": only http:// and https:// are known`,
		"nodes --cert x --key y":               "--cert and --key need --ca",
		"nodes --ca x --cert y":                "--cert and --key belong together",
		"nodes --ca /nowhere":                  "--ca: open /nowhere: no such file",
		"nodes --ca client_test.go":            "--ca: client_test.go holds no certificate",
		"nodes -o yaml":                        "allowed: text, json",
	} {
		if r := simnode(t.Context(), strings.Fields(args)...); r.code != BadUsage || r.stdout != "" || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "0123456789") {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if r := simnode(t.Context(), "stop", "--token", k.token); r.code != Done {
		t.Errorf("%+v", r)
	}
}

// FuzzPlainName: a name that passes stays in the folder.
func FuzzPlainName(f *testing.F) {
	for _, name := range []string{"rows.csv", "../x.csv", "a/b.csv", "a\\b.csv", ".csv", "nul.csv", "x.csv\x00"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if plainName(name) && (!filepath.IsLocal(name) || filepath.Base(name) != name || filepath.Dir(filepath.Join("d", name)) != "d" || name == lockFile) {
			t.Errorf("%q passes", name)
		}
	})
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[31m", "a\"b\n", "é", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if out := visible(s); strings.ContainsFunc(out, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }) {
			t.Errorf("%q prints as %q", s, out)
		}
	})
}

// A submission that no coordinator takes says what it waits for, and gives up.
func TestSubmitWithoutCoordinator(t *testing.T) {
	k := startCluster(t)
	k.leaderless = make(chan struct{})
	dir := folder(t, map[string]string{"s.yaml": "model: probe\nend: 1 s\n"})
	r := simnode(t.Context(), "submit", filepath.Join(dir, "s.yaml"))
	want := "simnode: waiting for a coordinator: of the nodes that may coordinate, there are a; missing are b (suspect)\nsimnode: no coordinator has taken this\n"
	if r.code != Unreachable || r.stderr != want {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

// While a job runs, people are told of a node that is not heard.
func TestWatchTellsOfSilence(t *testing.T) {
	k := startCluster(t)
	k.put(control.Job{ID: "job-1", Name: "x", Phase: control.Running, Reason: "nothing heard from c for 5 s"}, api.Progress{})
	k.seen = func(p api.Progress) {
		if p.Phase == control.Running {
			k.put(control.Job{ID: "job-1", Name: "x", Phase: control.Failed, Reason: "over"}, api.Progress{})
		}
	}
	r := simnode(t.Context(), "watch", "job-1")
	if r.code != Failed || !strings.HasPrefix(r.stderr, "nothing heard from c for 5 s\n") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}
