package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	pb "github.com/simnode/simnode/api/simnodev1"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
)

// codes of the kinds of errors, on the wire and as HTTP status for plain paths.
func codes(k Kind) (connect.Code, int) {
	switch k {
	case Invalid:
		return connect.CodeInvalidArgument, http.StatusBadRequest
	case NotFound:
		return connect.CodeNotFound, http.StatusNotFound
	case Conflict:
		return connect.CodeFailedPrecondition, http.StatusConflict
	case Unavailable:
		return connect.CodeUnavailable, http.StatusServiceUnavailable
	case Exhausted:
		return connect.CodeResourceExhausted, http.StatusTooManyRequests
	case Unauthenticated:
		return connect.CodeUnauthenticated, http.StatusUnauthorized
	case Forbidden:
		return connect.CodePermissionDenied, http.StatusForbidden
	}
	return connect.CodeInternal, http.StatusInternalServerError
}

func httpStatus(k Kind) int { _, status := codes(k); return status }

// wireError is an error as it is sent.
func wireError(e *Error) *connect.Error {
	code, _ := codes(e.Kind)
	return connect.NewError(code, e)
}

// kindOf is the kind that a code on the wire stands for; 0 for a fault of the other side.
func kindOf(code connect.Code) Kind {
	for k := Invalid; k <= Forbidden; k++ {
		if c, _ := codes(k); c == code {
			return k
		}
	}
	return 0
}

var errInternal = errors.New("the node failed at this, through no fault of the request: its log tells more (simnode logs)")

// tell turns an error of the backend into one for the caller.
func (s *Server) tell(call string, err error) error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return wireError(e)
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, context.Canceled)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
	}
	s.log.Error("an API call failed", "call", call, "error", err)
	return connect.NewError(connect.CodeInternal, errInternal)
}

// phases in the order of the enumeration on the wire.
func phases() []control.Phase {
	return []control.Phase{"", control.Initialising, control.Running, control.Paused, control.Stopping, control.Done, control.Failed}
}

func toPhase(p control.Phase) pb.Phase {
	for i, q := range phases() {
		if p == q {
			return pb.Phase(i)
		}
	}
	return pb.Phase_PHASE_UNSPECIFIED
}

func fromPhase(p pb.Phase) control.Phase {
	if list := phases(); p >= 0 && int(p) < len(list) {
		return list[p]
	}
	return ""
}

func toSpec(s control.Spec) *pb.Spec {
	return &pb.Spec{Seed: s.Seed, End: s.End, Set: s.Set, Record: s.Record,
		Regions: small(s.Regions), Nodes: small(s.Nodes), Workers: small(s.Workers),
		Checkpoints: fromCheckpoints(s.Checkpoints)}
}

func fromSpec(s *pb.Spec) control.Spec {
	return control.Spec{Seed: s.GetSeed(), End: s.GetEnd(), Set: s.GetSet(), Record: s.GetRecord(),
		Regions: int(s.GetRegions()), Nodes: int(s.GetNodes()), Workers: int(s.GetWorkers()),
		Checkpoints: toCheckpoints(s.GetCheckpoints())}
}

// small is a count on the wire.
func small(n int) uint32 { return uint32(max(0, min(n, 1<<30))) }

func toProgress(p Progress) *pb.Progress {
	return &pb.Progress{Phase: toPhase(p.Phase), NowNs: int64(p.Now), EndNs: int64(p.End), Events: p.Events,
		EventsPerS: p.Rate, WallS: p.Wall.Seconds(), Reason: p.Reason}
}

func fromProgress(p *pb.Progress) Progress {
	return Progress{Phase: fromPhase(p.GetPhase()), Now: sim.Time(p.GetNowNs()), End: sim.Time(p.GetEndNs()), Events: p.GetEvents(),
		Rate: p.GetEventsPerS(), Wall: time.Duration(p.GetWallS() * float64(time.Second)), Reason: p.GetReason()}
}

func toNode(n NodeStatus) *pb.Node {
	return &pb.Node{Name: n.Name, Role: string(n.Role), Address: n.Address, Api: n.API, Workers: small(n.Workers), State: n.State,
		Voter: n.Voter, Leader: n.Leader, HeardMs: toMillis(n.Heard), Version: n.Version}
}

func fromNode(n *pb.Node) NodeStatus {
	return NodeStatus{Name: n.GetName(), Role: control.Role(n.GetRole()), Address: n.GetAddress(), API: n.GetApi(), Workers: int(n.GetWorkers()),
		State: n.GetState(), Voter: n.GetVoter(), Leader: n.GetLeader(), Heard: fromMillis(n.GetHeardMs()), Version: n.GetVersion()}
}

func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// toJob leaves out what only the cluster is concerned with.
func toJob(j *control.Job, p *pb.Progress) *pb.Job {
	out := &pb.Job{Id: j.ID, Name: j.Name, Phase: toPhase(j.Phase), Spec: toSpec(j.Spec), SubmittedMs: j.Submitted,
		Members: j.Members, Regions: small(len(j.Owner)), Epoch: j.Epoch, Reason: j.Reason, Progress: p}
	if j.Recorder >= 0 && j.Recorder < len(j.Members) {
		out.Recorder = j.Members[j.Recorder]
	}
	return out
}

func fromJob(j *pb.Job) JobStatus {
	out := JobStatus{ID: j.GetId(), Name: j.GetName(), Phase: fromPhase(j.GetPhase()), Spec: fromSpec(j.GetSpec()), Submitted: fromMillis(j.GetSubmittedMs()),
		Members: j.GetMembers(), Regions: int(j.GetRegions()), Epoch: j.GetEpoch(), Recorder: j.GetRecorder(), Reason: j.GetReason()}
	if j.GetProgress() != nil {
		p := fromProgress(j.GetProgress())
		out.Progress = &p
	}
	return out
}

func toLine(l LogLine) *pb.LogLine {
	out := &pb.LogLine{TimeMs: toMillis(l.Time), Level: l.Level, Text: l.Text}
	for _, f := range l.Fields {
		out.Fields = append(out.Fields, &pb.LogField{Key: f.Key, Value: f.Value})
	}
	return out
}

func fromLine(l *pb.LogLine) LogLine {
	out := LogLine{Time: fromMillis(l.GetTimeMs()), Level: l.GetLevel(), Text: l.GetText()}
	for _, f := range l.GetFields() {
		out.Fields = append(out.Fields, LogField{f.GetKey(), f.GetValue()})
	}
	return out
}

func fromCheckpoints(c control.Checkpoints) *pb.Checkpoints {
	if c == (control.Checkpoints{}) {
		return nil
	}
	return &pb.Checkpoints{EveryMs: c.Every, EverySimNs: int64(c.EverySim), KeepLast: small(c.KeepLast), KeepEvery: c.KeepEvery}
}

func toCheckpoints(c *pb.Checkpoints) control.Checkpoints {
	return control.Checkpoints{
		Every: c.GetEveryMs(), EverySim: sim.Duration(c.GetEverySimNs()), KeepLast: int(c.GetKeepLast()), KeepEvery: c.GetKeepEvery(),
	}
}
