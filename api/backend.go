package api

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
)

// Backend is what the API asks of a node. Every node answers for the whole cluster.
//
// Calls come from many goroutines at once. Those with a context end when it is done. An error of type
// *Error is told to the caller; any other is logged and told as an internal error.
type Backend interface {
	// Submit adds a job and returns its id. The bundle is whole (scenario.CheckBundle) and at most
	// MaxBundle bytes, and the backend may keep it; that the scenario in it can be set up is for Submit
	// to find (Invalid, with the problems as the text).
	Submit(ctx context.Context, s Submission) (job string, err error)
	// Fresh waits, until ctx is done, until this node knows all that any other one knew when it was called. Its
	// error says why it may not.
	Fresh(ctx context.Context) error
	// Cluster tells of the cluster as this node sees it.
	Cluster() ClusterStatus
	// Jobs in order of submission. They are not changed afterwards, by either side.
	Jobs() []*control.Job
	// Progress of a job, false where that is not known, as before it has begun.
	Progress(job string) (Progress, bool)
	// Watch sends how far a job is now and whenever it changes, several times a second at most. After
	// the last one, which is Done or Failed, or when ctx is done, the channel is closed.
	Watch(ctx context.Context, job string) (<-chan Progress, error)
	// Move asks for another phase: control.Paused, Running or Stopping. That the job allows it is for
	// Move to find.
	Move(ctx context.Context, job string, to control.Phase) error
	// Nodes in order of name.
	Nodes() []NodeStatus
	// Logs sends log lines of a node; see LogQuery. The channel is closed after the last one, or when
	// ctx is done.
	Logs(ctx context.Context, q LogQuery) (<-chan LogLine, error)
	// Results of a job that has ended.
	Results(ctx context.Context, job string) (Results, error)
	// OpenFile opens a file of a job that has ended; name is one that Results lists.
	OpenFile(ctx context.Context, job, name string) (io.ReadCloser, error)
	// Ready says why the node cannot serve yet, such as that there is no leader.
	Ready() error
}

type (
	// Submission is a job to be added.
	Submission struct {
		// Name for people; empty for that of the scenario.
		Name   string
		Bundle []byte
		Spec   control.Spec
	}

	// ClusterStatus is a node's view of its cluster.
	ClusterStatus struct {
		Cluster, Node string
		// Leader is empty while there is none.
		Leader string
		Term   uint64
		// Old says why the answer may be older than what another node has told; empty if it is not. It is
		// set for clients alone.
		Old string
	}

	// Progress is how far a job is.
	Progress struct {
		Phase control.Phase
		// Now is the simulated time below which all has run, End that of the scenario.
		Now, End sim.Time
		Events   uint64
		// Rate is events handled a second of wall time, lately.
		Rate float64
		// Wall time since the job began to run.
		Wall time.Duration
		// Reason why the job failed or ended early, what it waits for, or whom nothing is heard of.
		Reason string
	}

	// NodeStatus is a node.
	NodeStatus struct {
		Name    string
		Role    control.Role
		Address string
		API     string
		Workers int
		// State is alive; suspect for one that is not heard; stopping or stopped for one that ended in order
		// and may come back; leaving or gone for one that left for good.
		State         string
		Voter, Leader bool
		// Heard is when the node that answers last heard of it; zero if unknown.
		Heard   time.Time
		Version string
	}

	// LogQuery asks for log lines.
	LogQuery struct {
		// Node by name; empty for this one.
		Node string
		// Follow goes on with the lines that follow.
		Follow bool
		// Lines is how many of the last lines to begin with.
		Lines int
	}

	// LogLine is a line of a node's log.
	LogLine struct {
		Time   time.Time
		Level  string
		Text   string
		Fields []LogField
	}

	// LogField is a fact of a log line.
	LogField struct{ Key, Value string }

	// Results of a job.
	Results struct {
		// Summary is the JSON document that "simnode run -o json" prints.
		Summary []byte
		// Files in the order in which the summary names them, each a plain name such as rows.csv.
		Files []File
	}

	// File is one of a job's files.
	File struct {
		Name string
		Size int64
	}
)

// MaxBundle is the largest bundle in bytes.
const MaxBundle = control.MaxBundle

// Kind is what sort of thing went wrong.
type Kind int

const (
	// Invalid is a request that can never do.
	Invalid Kind = iota + 1
	// NotFound is a job, node or file that is not there.
	NotFound
	// Conflict is a request that the state of the job does not allow.
	Conflict
	// Unavailable is a cluster that cannot do it now, as without a leader; it may be tried again.
	Unavailable
	// Exhausted is a limit that is reached.
	Exhausted
	// Unauthenticated is a request without a valid token or certificate.
	Unauthenticated
	// Forbidden is a request beyond the role of who asks.
	Forbidden
)

// Error is a fault that the caller is told of: what happened, and what to do.
type Error struct {
	Kind Kind
	Text string
}

func (e *Error) Error() string { return e.Text }

// Errorf makes an Error.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{kind, fmt.Sprintf(format, args...)}
}
