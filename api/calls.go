package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"connectrpc.com/connect"

	pb "github.com/simnode/simnode/api/simnodev1"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/record"
	"github.com/simnode/simnode/scenario"
)

// calls answers the calls of simnode.proto: it checks what is asked, asks the backend and translates.
type calls struct{ *Server }

func (c calls) Status(ctx context.Context, r *connect.Request[pb.StatusRequest]) (*connect.Response[pb.StatusResponse], error) {
	b := c.config.Backend
	old := c.fresh(ctx)
	k := b.Cluster()
	out := &pb.StatusResponse{Cluster: k.Cluster, Node: k.Node, Leader: k.Leader, Term: k.Term, Old: old}
	for _, j := range b.Jobs() {
		if r.Msg.Job != "" && r.Msg.Job != j.ID {
			continue
		}
		var progress *pb.Progress
		if p, known := b.Progress(j.ID); known {
			progress = toProgress(p)
		}
		out.Jobs = append(out.Jobs, toJob(j, progress))
	}
	if r.Msg.Job != "" && len(out.Jobs) == 0 {
		return nil, wireError(noJob(r.Msg.Job, b.Jobs(), old))
	}
	return connect.NewResponse(out), nil
}

// freshFor is how long a node may take to learn what others know already.
const freshFor = time.Second

// fresh lets this node learn what others may have told already, and returns why it may not have, or nothing.
func (s *Server) fresh(ctx context.Context) (old string) {
	ctx, cancel := context.WithTimeout(ctx, freshFor)
	defer cancel()
	if err := s.config.Backend.Fresh(ctx); err != nil {
		return err.Error()
	}
	return ""
}

// noJob is the error for a job that is not among those known. old says why others may know more.
func noJob(job string, known []*control.Job, old string) *Error {
	number := jobNumber(job)
	for _, j := range known {
		if number > 0 && number < jobNumber(j.ID) {
			return Errorf(NotFound, "%s was removed: only the last %d ended jobs are kept", job, control.KeptJobs)
		}
	}
	if old != "" {
		return Errorf(Unavailable, "this node knows of no job %q, but others may: %s", clip(job), old)
	}
	return Errorf(NotFound, "there is no job %q here; simnode status lists the jobs", clip(job))
}

// jobNumber is the number in the id of a job, 0 if it is no id. Numbers rise and are not used twice.
func jobNumber(id string) uint64 {
	text, ok := strings.CutPrefix(id, "job-")
	n, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil || strconv.FormatUint(n, 10) != text {
		return 0
	}
	return n
}

// job finds a job by its id, at least as far as any node has told. One that has ended does not change any more.
func (s *Server) job(ctx context.Context, id string) (j *control.Job, old string, _ *Error) {
	if id == "" {
		return nil, "", Errorf(Invalid, "no job is named; give its id, such as job-1")
	}
	if j = s.find(id); j == nil || !j.Phase.Ended() {
		old = s.fresh(ctx)
		j = s.find(id)
	}
	if j == nil {
		return nil, old, noJob(id, s.config.Backend.Jobs(), old)
	}
	return j, old, nil
}

func (s *Server) find(id string) *control.Job {
	for _, j := range s.config.Backend.Jobs() {
		if j.ID == id {
			return j
		}
	}
	return nil
}

func (c calls) Nodes(context.Context, *connect.Request[pb.NodesRequest]) (*connect.Response[pb.NodesResponse], error) {
	out := &pb.NodesResponse{}
	for _, n := range c.config.Backend.Nodes() {
		out.Nodes = append(out.Nodes, toNode(n))
	}
	return connect.NewResponse(out), nil
}

// streaming ends with the call or when the server shuts down.
func (s *Server) streaming(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

// ended is how a stream ends whose context may be done.
func (s *Server) ended(ctx context.Context) error {
	if s.closing.Err() != nil {
		return wireError(Errorf(Unavailable, "this node is shutting down; ask another node"))
	}
	return s.tell("", ctx.Err())
}

func (c calls) Watch(ctx context.Context, r *connect.Request[pb.WatchRequest], to *connect.ServerStream[pb.WatchResponse]) error {
	if _, _, err := c.job(ctx, r.Msg.Job); err != nil {
		return wireError(err)
	}
	ctx, cancel := c.streaming(ctx)
	defer cancel()
	from, err := c.config.Backend.Watch(ctx, r.Msg.Job)
	if err != nil {
		return c.tell("Watch", err)
	}
	for p := range from {
		if err := to.Send(&pb.WatchResponse{Progress: toProgress(p)}); err != nil {
			return err
		}
	}
	return c.ended(ctx)
}

// Bounds of a log query.
const (
	usualLines = 100
	maxLines   = 10_000
	// linesPerMessage are sent in one go if they are there.
	linesPerMessage = 256
)

func (c calls) Logs(ctx context.Context, r *connect.Request[pb.LogsRequest], to *connect.ServerStream[pb.LogsResponse]) error {
	q := LogQuery{Node: r.Msg.Node, Follow: r.Msg.Follow, Lines: int(r.Msg.Lines)}
	switch {
	case q.Lines == 0:
		q.Lines = usualLines
	case q.Lines > maxLines:
		return wireError(Errorf(Invalid, "%d lines are asked for; at most %d are kept", q.Lines, maxLines))
	}
	if q.Node != "" && !c.knows(q.Node) {
		return wireError(Errorf(NotFound, "there is no node %q; simnode nodes lists them", clip(q.Node)))
	}
	ctx, cancel := c.streaming(ctx)
	defer cancel()
	from, err := c.config.Backend.Logs(ctx, q)
	if err != nil {
		return c.tell("Logs", err)
	}
	for line := range from {
		if err := to.Send(&pb.LogsResponse{Lines: gather(line, from)}); err != nil {
			return err
		}
	}
	return c.ended(ctx)
}

// gather takes the lines that are there already with the first.
func gather(first LogLine, from <-chan LogLine) []*pb.LogLine {
	lines := []*pb.LogLine{toLine(first)}
	for len(lines) < linesPerMessage {
		select {
		case line, more := <-from:
			if !more {
				return lines
			}
			lines = append(lines, toLine(line))
		default:
			return lines
		}
	}
	return lines
}

func (s *Server) knows(node string) bool {
	for _, n := range s.config.Backend.Nodes() {
		if n.Name == node {
			return true
		}
	}
	return false
}

func (c calls) Results(ctx context.Context, r *connect.Request[pb.ResultsRequest]) (*connect.Response[pb.ResultsResponse], error) {
	results, err := c.results(ctx, r.Msg.Job)
	if err != nil {
		return nil, c.tell("Results", err)
	}
	out := &pb.ResultsResponse{Summary: string(results.Summary)}
	for _, f := range results.Files {
		out.Files = append(out.Files, &pb.FileInfo{Name: f.Name, Size: f.Size})
	}
	return connect.NewResponse(out), nil
}

// results are those of a job that has ended.
func (s *Server) results(ctx context.Context, id string) (Results, error) {
	j, old, missing := s.job(ctx, id)
	switch {
	case missing != nil:
		return Results{}, missing
	case !j.Phase.Ended() && old != "":
		return Results{}, Errorf(Unavailable, "%s is %s as far as this node knows, and others may know more: %s", id, j.Phase, old)
	case !j.Phase.Ended():
		return Results{}, Errorf(Conflict, "%s is %s and has no results yet; simnode watch %s waits for its end", id, j.Phase, id)
	}
	return s.config.Backend.Results(ctx, id)
}

// open opens a file of a job: only one that the job's own list names.
func (s *Server) open(ctx context.Context, job, name string) (io.ReadCloser, error) {
	results, err := s.results(ctx, job)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range results.Files {
		if f.Name == name {
			return s.config.Backend.OpenFile(ctx, job, name)
		}
		names = append(names, f.Name)
	}
	if len(names) == 0 {
		return nil, Errorf(NotFound, "%s has left no files; was it run with record off?", job)
	}
	return nil, Errorf(NotFound, "%s has no file %q; it has %s", job, clip(name), strings.Join(names, ", "))
}

// pieceSize is how much of a file goes into a message.
const pieceSize = 64 << 10

func (c calls) File(ctx context.Context, r *connect.Request[pb.FileRequest], to *connect.ServerStream[pb.FileResponse]) error {
	ctx, cancel := c.streaming(ctx)
	defer cancel()
	file, err := c.open(ctx, r.Msg.Job, r.Msg.Name)
	if err != nil {
		return c.tell("File", err)
	}
	defer file.Close()
	piece := make([]byte, pieceSize)
	for {
		n, err := io.ReadFull(file, piece)
		if n > 0 {
			if err := to.Send(&pb.FileResponse{Data: piece[:n]}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case ctx.Err() != nil:
			return c.ended(ctx)
		case err != nil:
			return c.tell("File", err)
		}
	}
}

// download is File for browsers and curl.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	file, err := s.open(r.Context(), r.PathValue("job"), name)
	var e *Error
	switch {
	case errors.As(err, &e):
		plain(w, httpStatus(e.Kind), e.Text)
		return
	case err != nil:
		s.log.Error("an API call failed", "call", "download", "error", err)
		plain(w, http.StatusInternalServerError, errInternal.Error())
		return
	}
	defer file.Close()
	h := w.Header()
	h.Set("Content-Type", contentType(name))
	h.Set("X-Content-Type-Options", "nosniff")
	// A page that a model made must not act for who looks at it.
	h.Set("Content-Security-Policy", "sandbox allow-scripts")
	if _, err := io.Copy(w, file); err != nil {
		s.log.Warn("a file was not sent whole", "file", name, "error", err)
		panic(http.ErrAbortHandler) // So that the client sees that the file is not whole.
	}
}

// contentType of a file by its name, the same on every machine.
func contentType(name string) string {
	kind := map[string]string{
		".html": "text/html; charset=utf-8", ".json": "application/json", ".csv": "text/csv; charset=utf-8", ".svg": "image/svg+xml",
	}[path.Ext(name)]
	if kind == "" {
		return "application/octet-stream"
	}
	return kind
}

func (c calls) Submit(ctx context.Context, r *connect.Request[pb.SubmitRequest]) (*connect.Response[pb.SubmitResponse], error) {
	s := Submission{Name: r.Msg.Name, Bundle: r.Msg.Bundle, Spec: fromSpec(r.Msg.Spec)}
	if err := checkSubmission(s); err != nil {
		return nil, wireError(err)
	}
	job, err := c.config.Backend.Submit(ctx, s)
	if err != nil {
		return nil, c.tell("Submit", err)
	}
	return connect.NewResponse(&pb.SubmitResponse{Job: job}), nil
}

// Bounds of a submission.
const (
	maxName   = 200
	maxWord   = 200
	maxSets   = 1000
	maxSet    = 1 << 20
	maxCounts = 1024
)

// checkSubmission finds what is wrong without loading the scenario.
func checkSubmission(s Submission) *Error {
	if err := checkSpec(s.Spec); err != nil {
		return err
	}
	if len(s.Name) > maxName || !printable(s.Name) {
		return Errorf(Invalid, "name: expected at most %d bytes of printable text", maxName)
	}
	switch {
	case len(s.Bundle) == 0:
		return Errorf(Invalid, "bundle: it is empty; simnode submit packs a scenario with all its files")
	case len(s.Bundle) > MaxBundle:
		return Errorf(Invalid, "bundle: %d bytes; at most %d are taken", len(s.Bundle), MaxBundle)
	}
	if _, err := scenario.CheckBundle(s.Bundle); err != nil {
		return Errorf(Invalid, "%s", err.Error())
	}
	return nil
}

func checkSpec(s control.Spec) *Error {
	for _, word := range []struct{ name, text string }{{"seed", s.Seed}, {"end", s.End}} {
		if len(word.text) > maxWord || !printable(word.text) {
			return Errorf(Invalid, "spec.%s: expected at most %d bytes of printable text", word.name, maxWord)
		}
	}
	if s.Record != "" {
		if _, err := record.ParseLevel(s.Record); err != nil {
			return Errorf(Invalid, "spec.record: %s", err.Error())
		}
	}
	total := 0
	for _, set := range s.Set {
		total += len(set)
	}
	if len(s.Set) > maxSets || total > maxSet {
		return Errorf(Invalid, "spec.set: %d overrides of %d bytes; at most %d of %d bytes in all are taken", len(s.Set), total, maxSets, maxSet)
	}
	for _, count := range []struct {
		name string
		n    int
	}{{"regions", s.Regions}, {"nodes", s.Nodes}, {"workers", s.Workers}} {
		if count.n < 0 || count.n > maxCounts {
			return Errorf(Invalid, "spec.%s: %d; use a number from 1 to %d, or 0 for the default", count.name, count.n, maxCounts)
		}
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func (c calls) Pause(ctx context.Context, r *connect.Request[pb.PauseRequest]) (*connect.Response[pb.PauseResponse], error) {
	return answer(&pb.PauseResponse{}, c.move(ctx, r.Msg.Job, control.Paused))
}

func (c calls) Resume(ctx context.Context, r *connect.Request[pb.ResumeRequest]) (*connect.Response[pb.ResumeResponse], error) {
	return answer(&pb.ResumeResponse{}, c.move(ctx, r.Msg.Job, control.Running))
}

func (c calls) Stop(ctx context.Context, r *connect.Request[pb.StopRequest]) (*connect.Response[pb.StopResponse], error) {
	return answer(&pb.StopResponse{}, c.move(ctx, r.Msg.Job, control.Stopping))
}

// answer is an empty answer or an error.
func answer[T any](empty *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(empty), nil
}

// move asks for another phase of a job. Asking for the one that it is in does nothing; that a job may go
// there otherwise is for the backend to say, but what can be told now is told well.
func (s *Server) move(ctx context.Context, id string, to control.Phase) error {
	j, old, missing := s.job(ctx, id)
	if missing != nil {
		return wireError(missing)
	}
	verb := map[control.Phase]string{control.Paused: "paused", control.Running: "resumed", control.Stopping: "stopped"}[to]
	switch {
	case old != "": // The phase may be another one by now.
	case j.Phase == to:
		return nil
	case j.Phase.Ended():
		return wireError(Errorf(Conflict, "%s has ended (%s) and cannot be %s", id, j.Phase, verb))
	case to == control.Running && j.Phase != control.Paused, to == control.Paused && j.Phase != control.Running:
		return wireError(Errorf(Conflict, "%s is %s and cannot be %s; %s", id, j.Phase, verb, wantedPhase(to)))
	}
	if err := s.config.Backend.Move(ctx, id, to); err != nil {
		return s.tell(fmt.Sprintf("move to %s", to), err)
	}
	return nil
}

func wantedPhase(to control.Phase) string {
	if to == control.Running {
		return "only a paused job can"
	}
	return "only a running job can"
}
