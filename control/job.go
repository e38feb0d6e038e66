package control

import "github.com/simnode/simnode/sim"

// Phase is where a job is in its life.
type Phase string

// The phases of a job. Initialising lasts from the submission until every member has set the job up, the
// wait for nodes and for earlier jobs included.
const (
	Initialising Phase = "initialising"
	Running      Phase = "running"
	Paused       Phase = "paused"
	Stopping     Phase = "stopping"
	// Suspending is a job that takes a last checkpoint, Suspended one that has and that nobody carries out.
	Suspending Phase = "suspending"
	Suspended  Phase = "suspended"
	Done       Phase = "done"
	Failed     Phase = "failed"
)

// Ended reports whether nothing follows the phase.
func (p Phase) Ended() bool { return p == Done || p == Failed }

// Job is a job as the replicated state knows it. It is never changed in place.
type Job struct {
	// ID is unique in the cluster: job-1, job-2 ...
	ID string `json:"id"`
	// Name of the scenario.
	Name string `json:"name"`
	// Bundle is the SHA-256 of the scenario with all its files, in hexadecimal: see State.Bundles.
	Bundle string `json:"bundle"`
	// Spec says how the bundle is to be run; it is the concern of who submits and who executes.
	Spec Spec `json:"spec"`
	// MostRegions is how many regions the program can be cut into: 1 with lookahead 0.
	MostRegions int `json:"most_regions"`
	// Submitted is the wall time of submission in Unix milliseconds: for people, never for results.
	Submitted int64 `json:"submitted"`

	Phase Phase `json:"phase"`
	// Epoch is that of the run of the job; 0 until it has members.
	Epoch uint64 `json:"epoch"`
	// Members by index: names of nodes. Boots tells the processes of one name apart.
	Members []string `json:"members,omitempty"`
	Boots   []string `json:"boots,omitempty"`
	// Owner of each region: an index in Members. Regions of a member are consecutive.
	Owner []int `json:"owner,omitempty"`
	// Recorder is the member that merges observations and writes results.
	Recorder int `json:"recorder"`

	// Checkpoints that are kept, in order of number; Begun is the highest number that one was begun with.
	Checkpoints []Checkpoint `json:"checkpoints,omitempty"`
	Begun       uint64       `json:"begun,omitempty"`
	// Asked says that a user wants a checkpoint now.
	Asked bool `json:"asked,omitempty"`
	// Restore is what the epoch began from; nil is the scenario's beginning.
	Restore *Restore `json:"restore,omitempty"`
	// Recoveries are the epochs after the first. Fruitless are those since the last checkpoint was
	// committed, Losses the reasons for them, the last ones at least.
	Recoveries int      `json:"recoveries,omitempty"`
	Fruitless  int      `json:"fruitless,omitempty"`
	Losses     []string `json:"losses,omitempty"`
	// Excluded are processes that said that they cannot work for the job; Damaged are copies of parts of
	// checkpoints that were found bad.
	Excluded []string `json:"excluded,omitempty"`
	Damaged  []Damage `json:"damaged,omitempty"`
	// Away says that nobody carries the job out, since it was suspended.
	Away bool `json:"away,omitempty"`

	// Reason why it failed, empty otherwise.
	Reason string `json:"reason,omitempty"`
	// Result as the recorder gave it, for a job that is done or failed; may be nil.
	Result []byte `json:"result,omitempty"`
}

// Spec is what the user chose for a run.
type Spec struct {
	Seed string   `json:"seed,omitempty"`
	End  string   `json:"end,omitempty"`
	Set  []string `json:"set,omitempty"`
	// Record level, empty for the scenario's.
	Record string `json:"record,omitempty"`
	// Regions in all; 0 for the default (two a worker of every member).
	Regions int `json:"regions,omitempty"`
	// Nodes to wait for; 0 for the cluster's expected size.
	Nodes int `json:"nodes,omitempty"`
	// Workers on each node; 0 for as many as it has processors.
	Workers int `json:"workers,omitempty"`
	// Checkpoints to take.
	Checkpoints Checkpoints `json:"checkpoints,omitzero"`
}

// Shape is what the coordinator must know of a program. Every member derives it from the bundle.
type Shape struct {
	End sim.Time
	// CutEvery is the time between cuts, sim.Forever if none are needed.
	CutEvery sim.Duration
	// StopEvery is between the times at which entities may end the run; 0 if they may not.
	StopEvery sim.Duration
	// Lookahead between regions before it is closed, of (from, to) at to*regions+from; or one number
	// for all pairs; or nil where a message leaves it out.
	Lookahead []sim.Duration
	// Digest of the program and of how it is cut: members whose digests differ would compute
	// different things.
	Digest uint64
}
