package control

import (
	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// Message is what nodes send to one another about a job. To names it on the wire; see Append and Parse.
type Message interface{ kind() byte }

// Header stands in every message: which run of which job it speaks of. A message whose Epoch is not that
// of the receiver's job is refused and counted.
type Header struct {
	Epoch uint64
	// Term of the coordinator that the message comes from or answers to; 0 between members.
	Term uint64
}

// From the coordinator to a member.
type (
	// Assume says who coordinates from now on, and asks for Frozen. It is sent again until answered.
	Assume struct{ Header }
	// Settle asks for Full once Frames[m] event frames of each member m have been received.
	Settle struct {
		Header
		Frames []uint64
		// Shape asks for the lookahead as well.
		Shape bool
	}
	// Grants allow regions to run, and end the wait after Full or CutDone. Serial counts the grants of a
	// term, Cut is the last cut before them.
	Grants struct {
		Header
		Serial uint64
		Cut    uint64
		Grants []lbts.Grant
	}
	// Cut asks for cut number Number at time At, which every region has reached.
	Cut struct {
		Header
		Number uint64
		At     sim.Time
		Saving
	}
	// Retrieve asks a member to read the parts of the checkpoint that the epoch begins from of which it is
	// the source, and for Retrieved. All members have set the job up.
	Retrieve struct{ Header }
	// Abandon gives up a checkpoint that is not committed.
	Abandon struct {
		Header
		Number uint64
	}
	// Floor tells the member that records below which time all has run, once it has received
	// Frames[m] observation frames of each member m.
	Floor struct {
		Header
		At     sim.Time
		Frames []uint64
	}
	// Finish ends the run at time At. A member sends its part of the result to the one that records.
	Finish struct {
		Header
		At     sim.Time
		How    Ending
		Reason string
	}
	// Ping asks for a Pong.
	Ping struct{ Header }
)

// From a member to the coordinator.
type (
	// Frozen answers Assume: no region runs any more, Sent[m] event frames and Observed observation
	// frames were sent, CutNumber at CutAt is the last cut begun (0 at 0: none), Ending tells of a
	// Finish that was received. What was stored of a checkpoint that is not committed is told again after it.
	Frozen struct {
		Header
		Sent      []uint64
		Observed  uint64
		CutNumber uint64
		CutAt     sim.Time
		// CutDone says that the cut is complete here.
		CutDone bool
		// CutSaving is what the cut was begun with.
		CutSaving Saving
		// Save is the last checkpoint begun here, at SaveAt (0: none); SaveGivenUp says that it was given up.
		Save        uint64
		SaveAt      sim.Time
		SaveGivenUp bool
		// Restored says that this member has done what Retrieve asks for.
		Restored bool
		// Finishing is a Finish that was received before, or nil.
		Finishing *Finish
	}
	// Full answers Settle: the state of each of the member's regions, in order of region.
	Full struct {
		Header
		Regions []RegionState
		Shape   Shape
		Asides
	}
	// Report tells of all regions of the member that changed since the last report, at one moment.
	Report struct {
		Header
		Regions []lbts.Report
		Asides
	}
	// CutDone tells that a cut is complete here, with the next event of each of the member's regions.
	CutDone struct {
		Header
		Number uint64
		Next   []sim.Time
		Asides
	}
	// Recorded tells that the results are complete and where they can be had; from the member that
	// records.
	Recorded struct {
		Header
		Result []byte
	}
	// Broken tells that the member cannot go on: setting up failed, the engine broke its own rules, or
	// results cannot be written. Elsewhere says that another node might: the job goes back to the last
	// checkpoint without this process.
	Broken struct {
		Header
		Reason    string
		Elsewhere bool
	}
	// Retrieved answers Retrieve: everything for this member's regions is in.
	Retrieved struct{ Header }
	// Unfit tells that the member has no good copy of a part that it is to read: where it is the source, of
	// its own store or of the archive.
	Unfit struct {
		Header
		Number uint64
		Part   int
		Reason string
	}
	// Stored tells that the member's part of a checkpoint and its copy are durable, or why not.
	Stored struct {
		Header
		Number uint64
		Part   CheckpointPart
		Err    string
	}
	// Pong answers Ping: the agent lives. Busy tells what it is doing, for the watchdog.
	Pong struct {
		Header
		Busy string
	}
)

// Saving stands where a cut is begun.
type Saving struct {
	// Save is the number of the checkpoint to take at the cut, 0 for none.
	Save uint64
	// Last is the last committed checkpoint of the epoch, 0 for none; one that was begun later was given up.
	Last uint64
}

// Asides go with what a member reports.
type Asides struct {
	// StopAsked says that an entity asked for the end of the run.
	StopAsked bool
	// Backlog says that the member cannot take more: observations wait for a slow disk, or its links
	// are full. The coordinator gives no further bounds until it is gone.
	Backlog bool
	// Observed is how many observation frames the member has sent.
	Observed uint64
	// Events handled by the member so far.
	Events uint64
	// Failure is the first failure of a model there so far, or nil.
	Failure *Failure
}

// RegionState is what a full report says of a region.
type RegionState struct {
	Region int
	Next   sim.Time
	// Held is the largest bound that the region was granted.
	Held sim.Time
}

// Between members.
type (
	// Batch is a frame of events and publications; Number counts the frames from one member to another.
	Batch struct {
		Header
		Number uint64
		Data   []byte
	}
	// Parcel is what one member hands to another at a cut.
	Parcel struct {
		Header
		Number uint64
		At     sim.Time
		Saving
		Data []byte
	}
	// Restored is a piece of what a member restored for the regions of another one; Last ends it.
	Restored struct {
		Header
		Data []byte
		Last bool
	}
	// Observed is a frame of observations for the member that records; Number counts them by sender.
	Observed struct {
		Header
		Number uint64
		Data   []byte
	}
	// Final is a piece of a member's part of the result; Last ends it.
	Final struct {
		Header
		Data []byte
		Last bool
	}
)

// Failure is a model that broke its contract, placed in the order of events.
type Failure struct {
	Time     sim.Time
	Key, Seq uint64
	Text     string
}

// Ending is how a run ends.
type Ending byte

const (
	// EndReached is the end of the scenario.
	EndReached Ending = iota + 1
	// EndStopped is an end that an entity asked for.
	EndStopped
	// EndInterrupted is an end that a user asked for.
	EndInterrupted
	// EndFailed is a run that a model's failure ended.
	EndFailed
)

// Kinds of messages on the wire.
const (
	kindAssume byte = iota + 1
	kindSettle
	kindGrants
	kindCut
	kindFloor
	kindFinish
	kindPing
	kindFrozen
	kindFull
	kindReport
	kindCutDone
	kindRecorded
	kindBroken
	kindPong
	kindBatch
	kindParcel
	kindObserved
	kindFinal
	kindRetrieve
	kindAbandon
	kindRetrieved
	kindUnfit
	kindStored
	kindRestored
)

func (*Assume) kind() byte    { return kindAssume }
func (*Settle) kind() byte    { return kindSettle }
func (*Grants) kind() byte    { return kindGrants }
func (*Cut) kind() byte       { return kindCut }
func (*Floor) kind() byte     { return kindFloor }
func (*Finish) kind() byte    { return kindFinish }
func (*Ping) kind() byte      { return kindPing }
func (*Frozen) kind() byte    { return kindFrozen }
func (*Full) kind() byte      { return kindFull }
func (*Report) kind() byte    { return kindReport }
func (*CutDone) kind() byte   { return kindCutDone }
func (*Recorded) kind() byte  { return kindRecorded }
func (*Broken) kind() byte    { return kindBroken }
func (*Pong) kind() byte      { return kindPong }
func (*Batch) kind() byte     { return kindBatch }
func (*Parcel) kind() byte    { return kindParcel }
func (*Observed) kind() byte  { return kindObserved }
func (*Final) kind() byte     { return kindFinal }
func (*Retrieve) kind() byte  { return kindRetrieve }
func (*Abandon) kind() byte   { return kindAbandon }
func (*Retrieved) kind() byte { return kindRetrieved }
func (*Unfit) kind() byte     { return kindUnfit }
func (*Stored) kind() byte    { return kindStored }
func (*Restored) kind() byte  { return kindRestored }
