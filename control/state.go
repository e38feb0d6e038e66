package control

// State is what the log decides: a value that every node has a copy of. It changes by commands alone.
type State struct {
	// Applied counts the commands.
	Applied uint64 `json:"applied"`
	// Cluster is the name of the cluster, set by Found; empty until then.
	Cluster string `json:"cluster"`
	// NextJob numbers jobs, LastEpoch epochs; neither goes back.
	NextJob   uint64 `json:"next_job"`
	LastEpoch uint64 `json:"last_epoch"`
	// Jobs in order of submission: those that have not ended and the last KeptJobs that have.
	Jobs []*Job `json:"jobs"`
	// Bundles of the jobs, complete or being uploaded.
	Bundles []*Bundle `json:"bundles"`
	// Keys of commands applied lately, with their answers.
	Keys []Answered `json:"keys"`
}

// Bundle is a scenario with all its files, compressed, in pieces.
type Bundle struct {
	// Hash is the SHA-256 of the data, in hexadecimal.
	Hash string `json:"hash"`
	// Size in bytes when complete; len(Data) so far.
	Size     int    `json:"size"`
	Data     []byte `json:"data"`
	Complete bool   `json:"complete"`
}

// Answered is the answer to a command that was applied.
type Answered struct {
	Key   string `json:"key"`
	Job   string `json:"job,omitempty"`
	Error string `json:"error,omitempty"`
}

// Limits of the replicated state.
const (
	// KeptJobs is how many ended jobs are kept.
	KeptJobs = 64
	// MaxJobs is how many jobs may wait.
	MaxJobs = 1024
	// MaxIdle is how many bundles are kept that no job has needed yet.
	MaxIdle = 16
	// MaxRegions and MaxMembers bound a job, MaxResult its result in bytes.
	MaxRegions = 1024
	MaxMembers = 1024
	MaxResult  = 1 << 20
	// MaxBundle is the largest bundle in bytes; MaxPiece the largest piece of one in a command.
	MaxBundle = 64 << 20
	MaxPiece  = 256 << 10
	// keptKeys is how many answers are kept.
	keptKeys = 4096
	// maxText bounds names, keys and reasons in bytes.
	maxText = 64 << 10
)

// Command changes the State. Exactly one of the pointers is set.
type Command struct {
	// Key makes the command idempotent: one that was applied is not applied again.
	Key string `json:"key"`
	// At is the wall time of the proposer in Unix milliseconds: for people, never for results.
	At int64 `json:"at,omitempty"`

	Found  *Found  `json:"found,omitempty"`
	Upload *Upload `json:"upload,omitempty"`
	Submit *Submit `json:"submit,omitempty"`
	Start  *Start  `json:"start,omitempty"`
	Move   *Move   `json:"move,omitempty"`
	End    *End    `json:"end,omitempty"`

	Begin   *Begin   `json:"begin,omitempty"`
	Commit  *Commit  `json:"commit,omitempty"`
	Save    *Save    `json:"save,omitempty"`
	Recover *Recover `json:"recover,omitempty"`
}

type (
	// Found names the cluster. Another name than the one it has is an error.
	Found struct {
		Cluster string `json:"cluster"`
	}
	// Upload adds a piece to a bundle at Offset; pieces come in order, and one that is there already is
	// taken for done.
	Upload struct {
		Hash   string `json:"hash"`
		Size   int    `json:"size"`
		Offset int    `json:"offset"`
		Data   []byte `json:"data"`
	}
	// Submit adds a job with a complete bundle.
	Submit struct {
		Name        string `json:"name"`
		Bundle      string `json:"bundle"`
		Spec        Spec   `json:"spec"`
		MostRegions int    `json:"most_regions"`
	}
	// Start gives an initialising job its members, a new epoch and owners.
	Start struct {
		Job      string   `json:"job"`
		Members  []string `json:"members"`
		Boots    []string `json:"boots"`
		Owner    []int    `json:"owner"`
		Recorder int      `json:"recorder"`
	}
	// Move takes a job from one phase to another: running (from paused; from initialising by the
	// coordinator; from suspended), paused (from running), stopping (from any that has not ended),
	// suspending (from running, paused), suspended (from suspending by the coordinator). Any other is an
	// error. A job that is told to stop before it has members is done at once.
	Move struct {
		Job string `json:"job"`
		To  Phase  `json:"to"`
		// Epoch is that of the job where the coordinator says that every member has set it up, or that
		// its last checkpoint is committed, and 0 otherwise.
		Epoch uint64 `json:"epoch,omitempty"`
	}
	// End ends a job in phase done or failed.
	End struct {
		Job string `json:"job"`
		// Epoch must be that of the job, so that a late end of an earlier run does nothing.
		Epoch  uint64 `json:"epoch"`
		Phase  Phase  `json:"phase"`
		Reason string `json:"reason,omitempty"`
		Result []byte `json:"result,omitempty"`
	}
)
