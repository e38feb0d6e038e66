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
	// Prepare begins to set the job up, with the regions of member me; the end comes as Prepared.
	Prepare(job *Job, me int)
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
	// Finish begins to end the run at time at; the member's part of the result comes as inputs
	// FinalPart.
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
	// Fault is an error of the engine itself.
	Fault error
}

// Outgoing is an event frame for a member.
type Outgoing struct {
	To     int
	Number uint64
	Data   []byte
}
