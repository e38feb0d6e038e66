package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/node"
	"github.com/simnode/simnode/scenario"
	"github.com/simnode/simnode/sim"
)

// backend answers the API.
type backend struct{ *Node }

var _ api.Backend = backend{}

// watchEvery is between looks at how far a watched job is.
const watchEvery = 200 * time.Millisecond

// Submit implements api.Backend.
func (b backend) Submit(ctx context.Context, s api.Submission) (string, error) {
	path, err := scenario.CheckBundle(s.Bundle)
	if err != nil {
		return "", api.Errorf(api.Invalid, "%v", err)
	}
	most, err := b.try(ctx, s)
	if err != nil {
		return "", err
	}
	name := s.Name
	if name == "" {
		base := filepath.Base(path)
		name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	sum := sha256.Sum256(s.Bundle)
	hash := hex.EncodeToString(sum[:])
	if have := b.machine.state.Load().Bundle(hash); have == nil || !have.Complete {
		if err := b.upload(ctx, hash, s.Bundle); err != nil {
			return "", err
		}
	}
	submit := control.Command{Submit: &control.Submit{Name: name, Bundle: hash, Spec: s.Spec, MostRegions: most}}
	answer, err := b.order(ctx, submit)
	for range 3 {
		if err == nil || !control.BundleMissing(err.Error()) {
			break
		}
		// It went with the last job that needed it, between the look or the upload and the order.
		if err := b.upload(ctx, hash, s.Bundle); err != nil {
			return "", err
		}
		answer, err = b.order(ctx, submit)
	}
	return answer.Job, err
}

// try sets a submission up as members will, and returns in how many regions it can run.
func (b backend) try(ctx context.Context, s api.Submission) (most int, err error) {
	done := make(chan error, 1)
	go func() {
		done <- guard("the scenario's setup", func() error {
			sc, _, err := load(s.Bundle, b.config.Models, s.Spec)
			if err != nil {
				return api.Errorf(api.Invalid, "%v", err)
			}
			if err := sc.CheckRun(max(s.Spec.Regions, 1), max(s.Spec.Workers, 1)); err != nil {
				return api.Errorf(api.Invalid, "%v", err)
			}
			if err := node.Check(sc.Program, node.Options{Regions: s.Spec.Regions}); err != nil {
				return api.Errorf(api.Invalid, "%v", err)
			}
			if most = control.MaxRegions; sc.Program.Limits.Lookahead == 0 {
				most = 1
			}
			return nil
		})
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	var told *api.Error
	if err != nil && !errors.As(err, &told) {
		err = api.Errorf(api.Invalid, "%v", err)
	}
	return most, err
}

// upload puts a bundle into the log; pieces that are there already change nothing.
func (b backend) upload(ctx context.Context, hash string, data []byte) error {
	for at := 0; at < len(data); at += control.MaxPiece {
		part := data[at:min(at+control.MaxPiece, len(data))]
		if _, err := b.order(ctx, control.Command{Upload: &control.Upload{Hash: hash, Size: len(data), Offset: at, Data: part}}); err != nil {
			return err
		}
	}
	return nil
}

// order appends a command to the log and waits for the answer, and until this node has applied it too: who
// is answered finds what was asked for.
func (b backend) order(ctx context.Context, cmd control.Command) (control.Answered, error) {
	cmd.Key, cmd.At = rand.Text(), time.Now().UnixMilli()
	ctx, cancel := context.WithTimeout(ctx, b.config.OrderFor)
	defer cancel()
	answer, err := b.apply(ctx, cmd)
	if err != nil {
		return answer, api.Errorf(api.Unavailable, "no coordinator has taken this within %v: %v; simnode nodes tells who is there", b.config.OrderFor, err)
	}
	if answer.Error != "" {
		return answer, api.Errorf(api.Conflict, "%s", answer.Error)
	}
	return answer, b.applied(ctx, cmd.Key)
}

// applied waits until this node has applied the command with a key.
func (b backend) applied(ctx context.Context, key string) error {
	for {
		state, news := b.machine.watch()
		if slices.ContainsFunc(state.Keys, func(a control.Answered) bool { return a.Key == key }) {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return api.Errorf(api.Unavailable, "it is done, but this node has not learned of it yet; ask again in a moment")
		case <-b.ctx.Done():
			return api.Errorf(api.Unavailable, "this node ends; ask another one")
		}
	}
}

// apply appends a command that has its key.
func (n *Node) apply(ctx context.Context, cmd control.Command) (answer control.Answered, err error) {
	data, err := control.MarshalCommand(cmd)
	if err != nil {
		return answer, err
	}
	if data, err = n.cluster.Apply(ctx, data); err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(data, &answer)
}

// Fresh implements api.Backend.
func (b backend) Fresh(ctx context.Context) error { return b.cluster.Fresh(ctx) }

// Cluster implements api.Backend.
func (b backend) Cluster() api.ClusterStatus {
	leader, term := b.cluster.Leader()
	return api.ClusterStatus{Cluster: b.config.Cluster, Node: b.config.Name, Leader: leader, Term: term}
}

// Jobs implements api.Backend.
func (b backend) Jobs() []*control.Job {
	var list []*control.Job
	for _, job := range b.machine.state.Load().Jobs {
		list = append(list, shown(job))
	}
	return list
}

// job returns a job as people see it, or nil.
func (b backend) job(id string) *control.Job {
	job := b.machine.state.Load().Job(id)
	if job == nil {
		return nil
	}
	return shown(job)
}

// shown is a job as people see it: one whose model could not make its results has failed, though it ran to
// its end; one that a user stopped says so.
func shown(job *control.Job) *control.Job {
	r, err := decodeResult(job)
	if err != nil || r == nil {
		return job
	}
	seen := *job
	switch {
	case r.Failure != "":
		seen.Phase, seen.Reason = control.Failed, r.Failure
	case r.Interrupted && job.Reason == "":
		seen.Reason = stopText(r.Reached)
	}
	return &seen
}

// Progress implements api.Backend.
func (b backend) Progress(id string) (api.Progress, bool) {
	ctx, cancel := context.WithTimeout(b.ctx, time.Second)
	defer cancel()
	job := b.job(id)
	if job == nil {
		return api.Progress{}, false
	}
	return b.far(ctx, job), true
}

// far tells how far a job is.
func (b backend) far(ctx context.Context, job *control.Job) api.Progress {
	p := api.Progress{Phase: job.Phase, Reason: job.Reason}
	if job.Phase.Ended() {
		if r, err := decodeResult(job); err == nil && r != nil {
			p.Now, p.End, p.Events, p.Wall = r.Reached, r.End, r.Events, r.Wall
			if r.Wall > 0 {
				p.Rate = float64(r.Events) / r.Wall.Seconds()
			}
		}
		return p
	}
	if began := b.machine.beganAt(job.ID); began > 0 {
		p.Wall = max(time.Since(time.UnixMilli(began)), 0)
	}
	if job.Epoch == 0 {
		p.Reason = b.waits(job)
		return p
	}
	now, why := b.asked.progress(ctx, job.ID)
	if now == nil {
		now = &progress{Waits: why}
	}
	b.asked.last.fill(job.ID, job.Epoch, now)
	p.Now, p.End, p.Events, p.Rate, p.Reason = now.Now, now.End, now.Events, now.Rate, now.Waits
	return p
}

// waits says what a job waits for that has no members.
func (b backend) waits(job *control.Job) string {
	if first := b.machine.state.Load().Current(); first != nil && first.ID != job.ID {
		return "waiting for the end of " + first.ID
	}
	need := job.Spec.Nodes
	if need == 0 {
		need = b.config.JobNodes
	}
	return fmt.Sprintf("waiting for %d working nodes, %d are there", need, b.nodes.working())
}

// decodeResult returns what the log holds of a job's result; nil if there is none.
func decodeResult(job *control.Job) (*result, error) {
	if len(job.Result) == 0 {
		return nil, nil
	}
	r := &result{}
	if err := json.Unmarshal(job.Result, r); err != nil {
		return nil, fmt.Errorf("the result of %s in the log cannot be read: %w", job.ID, err)
	}
	return r, nil
}

// Watch implements api.Backend.
func (b backend) Watch(ctx context.Context, id string) (<-chan api.Progress, error) {
	if b.machine.state.Load().Job(id) == nil {
		return nil, api.Errorf(api.NotFound, "there is no job %q", id)
	}
	out := make(chan api.Progress, 1)
	b.group.Go(func() {
		defer close(out)
		b.watch(ctx, id, out)
	})
	return out, nil
}

func (b backend) watch(ctx context.Context, id string, out chan<- api.Progress) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var last api.Progress
	for first := true; ; first = false {
		_, news := b.machine.watch()
		job := b.job(id)
		if job == nil {
			return
		}
		if p := b.far(ctx, job); first || p != last {
			select {
			case out <- p:
			case <-ctx.Done():
				return
			case <-b.ctx.Done():
				return
			}
			last = p
		}
		if job.Phase.Ended() {
			return
		}
		if !b.changed(ctx, job, news, tick.C) {
			return
		}
	}
}

// changed waits until it is time to look at a job again, or its phase is another; false if nobody looks.
func (b backend) changed(ctx context.Context, job *control.Job, news <-chan struct{}, tick <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-b.ctx.Done():
			return false
		case <-tick:
			return true
		case <-news:
			var state *control.State
			state, news = b.machine.watch()
			if now := state.Job(job.ID); now == nil || now.Phase != job.Phase {
				return true
			}
		}
	}
}

// Move implements api.Backend.
func (b backend) Move(ctx context.Context, id string, to control.Phase) error {
	_, err := b.order(ctx, control.Command{Move: &control.Move{Job: id, To: to}})
	return err
}

// Logs implements api.Backend.
func (b backend) Logs(ctx context.Context, q api.LogQuery) (<-chan api.LogLine, error) {
	out := make(chan api.LogLine, 64)
	if q.Node == "" || q.Node == b.config.Name {
		b.group.Go(func() {
			defer close(out)
			b.ownLogs(ctx, q, out)
		})
		return out, nil
	}
	first, err := b.peers.ask(ctx, q.Node, question{Ask: askLogs, Last: q.Lines})
	if err != nil {
		return nil, err
	}
	b.group.Go(func() {
		defer close(out)
		b.otherLogs(ctx, q, first, out)
	})
	return out, nil
}

func (b backend) ownLogs(ctx context.Context, q api.LogQuery, out chan<- api.LogLine) {
	at := b.book.before(q.Lines)
	for {
		lines, next, news := b.book.after(at, linesInAnswer)
		if !b.passLines(ctx, lines, out) {
			return
		}
		at = next
		if len(lines) > 0 {
			continue
		}
		if !q.Follow {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		case <-b.ctx.Done():
			return
		}
	}
}

func (b backend) passLines(ctx context.Context, lines []api.LogLine, out chan<- api.LogLine) bool {
	for _, line := range lines {
		select {
		case out <- line:
		case <-ctx.Done():
			return false
		case <-b.ctx.Done():
			return false
		}
	}
	return true
}

// otherLogs asks another node for lines until there are no more or, if they are followed, again and again.
func (b backend) otherLogs(ctx context.Context, q api.LogQuery, a *answer, out chan<- api.LogLine) {
	for {
		if !b.passLines(ctx, a.Lines, out) || len(a.Lines) == 0 && !q.Follow {
			return
		}
		if len(a.Lines) == 0 {
			select {
			case <-time.After(watchEvery):
			case <-ctx.Done():
				return
			case <-b.ctx.Done():
				return
			}
		}
		next, err := b.peers.ask(ctx, q.Node, question{Ask: askLogs, After: a.After})
		if err != nil {
			return
		}
		a = next
	}
}

// Results implements api.Backend.
func (b backend) Results(ctx context.Context, id string) (api.Results, error) {
	job := b.job(id)
	if job == nil {
		return api.Results{}, api.Errorf(api.NotFound, "there is no job %q", id)
	}
	r, err := decodeResult(job)
	if err != nil {
		return api.Results{}, err
	}
	if r == nil || r.Recorder == "" {
		reason := job.Reason
		if reason == "" {
			reason = string(job.Phase)
		}
		return api.Results{}, api.Errorf(api.NotFound, "%s has no results: %s", id, reason)
	}
	if r.Summary == "" && job.Phase == control.Done {
		if r, err = b.resultAt(ctx, r.Recorder, id); err != nil {
			return api.Results{}, err
		}
	}
	return api.Results{Summary: []byte(r.Summary), Files: r.Files}, nil
}

// resultAt returns the result that a node keeps of a job.
func (b backend) resultAt(ctx context.Context, node, id string) (*result, error) {
	if node == b.config.Name {
		r, err := b.store.load(id)
		if err == nil && r == nil {
			err = api.Errorf(api.NotFound, "the results of %s are no longer in the data folder of node %s", id, node)
		}
		return r, err
	}
	a, err := b.peers.ask(ctx, node, question{Ask: askResult, Job: id})
	if err != nil {
		return nil, err
	}
	if a.Result == nil {
		return nil, fmt.Errorf("node %s answered without the result of %s", node, id)
	}
	return a.Result, nil
}

// OpenFile implements api.Backend.
func (b backend) OpenFile(ctx context.Context, id, name string) (io.ReadCloser, error) {
	job := b.machine.state.Load().Job(id)
	if job == nil {
		return nil, api.Errorf(api.NotFound, "there is no job %q", id)
	}
	r, err := decodeResult(job)
	if err != nil || r == nil || r.Recorder == "" {
		return nil, errors.Join(err, api.Errorf(api.NotFound, "%s has no files", id))
	}
	if r.Recorder == b.config.Name {
		return b.store.open(id, name)
	}
	for _, f := range r.Files {
		if f.Name == name {
			return &farFile{ctx: ctx, peers: b.peers, node: r.Recorder, job: id, name: name, left: f.Size}, nil
		}
	}
	return nil, api.Errorf(api.NotFound, "%s has no file %q", id, name)
}

// farFile reads a file of another node, a piece at a time.
type farFile struct {
	ctx             context.Context
	peers           *peers
	node, job, name string
	at, left        int64
	data            []byte
}

// Read implements io.Reader.
func (f *farFile) Read(p []byte) (int, error) {
	if len(f.data) == 0 {
		if f.left <= 0 {
			return 0, io.EOF
		}
		a, err := f.peers.ask(f.ctx, f.node, question{Ask: askFile, Job: f.job, File: f.name, Offset: f.at})
		if err != nil {
			return 0, err
		}
		if len(a.Data) == 0 {
			return 0, fmt.Errorf("%s of %s on node %s ends %d bytes early: %w", f.name, f.job, f.node, f.left, io.ErrUnexpectedEOF)
		}
		f.data = a.Data
		f.at += int64(len(a.Data))
		f.left -= int64(len(a.Data))
	}
	n := copy(p, f.data)
	f.data = f.data[n:]
	return n, nil
}

// Close implements io.Closer.
func (f *farFile) Close() error { return nil }

// Ready implements api.Backend.
func (b backend) Ready() error {
	if leader, _ := b.cluster.Leader(); leader == "" {
		return errors.New("the cluster has no coordinator yet")
	}
	if b.machine.state.Load().Cluster == "" {
		return errors.New("this node has not read the cluster's log yet")
	}
	return nil
}

// serve answers a question of another node.
func (n *Node) serve(_ context.Context, q *question) (*answer, error) {
	switch q.Ask {
	case askProgress:
		return &answer{Progress: n.asked.own(q.Job)}, nil
	case askLogs:
		after := q.After
		if q.Last > 0 {
			after = n.book.before(q.Last)
		}
		lines, next, _ := n.book.after(after, linesInAnswer)
		return &answer{Lines: lines, After: next}, nil
	case askResult:
		r, err := n.store.load(q.Job)
		if err == nil && r == nil {
			err = api.Errorf(api.NotFound, "the results of %s are no longer in the data folder of node %s", q.Job, n.config.Name)
		}
		return &answer{Result: r}, err
	case askFile:
		data, err := n.store.read(q.Job, q.File, q.Offset)
		return &answer{Data: data}, err
	}
	return nil, api.Errorf(api.Invalid, "node %s does not know the question %q: it may be of another version", n.config.Name, q.Ask)
}

// far keeps what was learned lately of how far jobs are.
type far struct {
	*Node
	samples sampler
	cache   cache
	last    lastKnown
}

// progress returns how far a job is that has not ended; nil and why where nobody knows.
func (f *far) progress(ctx context.Context, job string) (p *progress, why string) {
	leader, _ := f.cluster.Leader()
	switch leader {
	case f.config.Name:
		return f.own(job), ""
	case "":
		return nil, "the cluster has no coordinator"
	}
	p = f.cache.get(job, func() *progress {
		a, err := f.peers.ask(ctx, leader, question{Ask: askProgress, Job: job})
		switch {
		case err != nil:
			return &progress{Waits: "coordinator " + leader + " does not answer"}
		case a.Progress == nil:
			return &progress{}
		}
		return a.Progress
	})
	known := *p // The cache keeps its own.
	return &known, ""
}

// planned is the end of a program, 0 if it has none.
func planned(p *sim.Program) sim.Time {
	if p.End == sim.Never {
		return 0
	}
	return p.End
}
