package control

import (
	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// Executor carries out a member's share of a job. The agent calls it and never waits in it: what takes
// long is begun, and its end comes as an input of the agent. Package node implements it; data in frames
// is its own affair.
//
// Calls come from one goroutine at a time.
type Executor interface {
	// Prepare begins to set the job up, with the regions of member me; the end comes as Prepared. With
	// Job.Restore the regions are empty: what is in them comes by Retrieve and TakeRestored.
	Prepare(job *Job, me int)
	// Retrieve begins to read the parts of the checkpoint in Job.Restore of which this member is the source,
	// for its own regions and, as inputs RestorePiece, for those of every other member. The end comes
	// as RestoreEnded, when the last pieces of all other members are in as well. A part that is not good is
	// told by Unreadable in its place.
	Retrieve()
	// TakeRestored takes in a piece of what another member restored for the regions of this one. It may come
	// before Retrieve; pieces of a member come in order.
	TakeRestored(from int, data []byte, last bool) error
	// Grant raises the bounds of regions.
	Grant(grants []lbts.Grant) error
	// Hold keeps regions from being run, or lets them run again. Turns that are under way end in
	// their own time: Collected.Busy tells.
	Hold(on bool)
	// Collect takes what there is to send and to report since the last call: first the frames, then
	// the report that counts on them.
	Collect() Collected
	// Receive takes in event frame number n of a member; frames of a member come in order.
	Receive(from int, n uint64, data []byte) error
	// Cut does the member's share of a cut at t, which every region has reached, and returns the
	// parcel for each member (nil for itself). No region is run then, nor until the next Hold(false).
	Cut(t sim.Time) ([][]byte, error)
	// TakeParcel takes in the parcel of another member for the cut under way. Parcels come in order of
	// member, whatever the order in which they arrived.
	TakeParcel(from int, data []byte) error
	// EndCut ends a cut whose parcels are all taken in and returns the next event of each of the
	// member's regions, in order of region.
	EndCut() ([]sim.Time, error)
	// Shape returns what the coordinator must know of the program.
	Shape() Shape
	// State returns the state of the member's regions, in order of region.
	State() []RegionState
	// Checkpoint begins checkpoint n of the member's regions at time at, that of the cut that has just
	// ended. It returns at once; part and copy are written while the regions run on, and the end comes as
	// Saved. Partner is the member that gets the copy, -1 if there is none. On the member that records the
	// part holds the recording exactly up to at: Floor is called with at before any later time.
	Checkpoint(n uint64, at sim.Time, partner int)
	// Abandon gives checkpoint n up, which was begun and is not committed, written or not. What it should
	// have held is due in the next one.
	Abandon(n uint64)
	// Committed says that checkpoint n is committed: the next ones may build on it. With kept, all others
	// may be removed but for what those need (Needed); it may be called first with kept nil, when that is
	// not known here yet.
	Committed(n uint64, kept []Checkpoint)
	// Finish begins to end the run at time at; the member's part of the result comes as inputs
	// FinalPart. A checkpoint that was not told by Saved is given up before.
	Finish(at sim.Time, how Ending, reason string)
	// Drop ends the job here at once and forgets it.
	Drop(reason string)

	// The rest is called on the member that records only.

	// Record takes in observations of a member, its own included.
	Record(from int, n uint64, data []byte) error
	// Floor tells that all below at has run, once frames[m] observation frames of each member m have
	// been taken in.
	Floor(at sim.Time, frames []uint64) error
	// RecordFinal takes in a piece of a member's part of the result, its own included, after Finish.
	// When all are complete the end comes as the input Recording.
	RecordFinal(from int, data []byte, last bool) error
}

// Collected is what an executor has to send and to report.
type Collected struct {
	// Busy says that some region is being run.
	Busy bool
	// Batches are event frames, at most one for each member.
	Batches []Outgoing
	// Observations are for the member that records; nil if there are none.
	Observations []byte
	// Reports of the regions that changed, all of one moment. Batch numbers in Sent and Received are
	// the numbers of frames between members.
	Reports []lbts.Report
	// Changed says that there is something to report, be it in Asides alone.
	Changed bool
	// StopAsked says that an entity has asked for the end of the run.
	StopAsked bool
	// Backlog says that the member cannot take more. What waits for the floor to pass is no backlog: it
	// waits for bounds that a backlog keeps back.
	Backlog bool
	// Events handled so far.
	Events uint64
	// Failure is the first failure of a model here so far. The region that failed runs nothing above
	// its time, and reports a next event above it when nothing at it is left to run either.
	Failure *Failure
	// Fault is an error of the engine itself; where it is a *Unable (errors.As), of this node alone.
	Fault error
}

// Unable is an error for which this node cannot go on with a job, while another one may: a disk that fails, or
// a node that is about to end.
type Unable struct{ Err error }

func (e *Unable) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *Unable) Unwrap() error { return e.Err }

// Outgoing is an event frame for a member.
type Outgoing struct {
	To     int
	Number uint64
	Data   []byte
}
