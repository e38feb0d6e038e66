package control

import "time"

// Input is what happens to a Coordinator or an Agent.
type Input interface{ input() }

// Inputs of both machines.
type (
	// Applied says that the replicated state has changed. State is never changed afterwards.
	Applied struct{ State *State }
	// Heard is a message from a node: its name and the boot id of its process.
	Heard struct {
		From, Boot string
		Message    Message
	}
	// Tick says that time has passed; both machines want one several times a second.
	Tick struct{}
)

// Inputs of a Coordinator.
type (
	// Lead says that this node leads the log from now on and has applied all of it. Term is the
	// log's own.
	Lead struct{ Term uint64 }
	// Follow says that it leads no longer.
	Follow struct{}
	// Members tells which nodes are there, as far as gossip knows, in order of name.
	Members struct{ Nodes []Node }
)

// Inputs of an Agent: what the executor began has ended. Epoch is that of the job it was begun for.
type (
	// Prepared ends Executor.Prepare; Err is empty if it went well. Elsewhere says that another node might do
	// better.
	Prepared struct {
		Epoch     uint64
		Err       string
		Elsewhere bool
	}
	// Progress says that regions have been run, or otherwise that Executor.Collect has something.
	Progress struct{ Epoch uint64 }
	// FinalPart is a piece of this member's part of the result.
	FinalPart struct {
		Epoch uint64
		Data  []byte
		Last  bool
	}
	// Recording ends the work of the member that records: the job's result, or why there is none.
	Recording struct {
		Epoch  uint64
		Result []byte
		Err    string
	}
	// RestorePiece is a piece of what Executor.Retrieve read for the regions of member To; Last ends it.
	RestorePiece struct {
		Epoch uint64
		To    int
		Data  []byte
		Last  bool
	}
	// RestoreEnded says that everything for this member's regions is in, or why it cannot be.
	RestoreEnded struct {
		Epoch     uint64
		Err       string
		Elsewhere bool
	}
	// Unreadable says that a part that this member is the source of has no good copy where it is to be read.
	Unreadable struct {
		Epoch, Number uint64
		Part          int
		Reason        string
	}
	// Saved ends Executor.Checkpoint: the part and its copy are durable, or Err says why not. The agent
	// fills in Member and Boot.
	Saved struct {
		Epoch, Number uint64
		Part          CheckpointPart
		Err           string
	}
)

// Node is a node as gossip knows it.
type Node struct {
	Name, Boot string
	Role       Role
	// Workers is how many regions it can work on at once.
	Workers int
	// Alive is false for a node that gossip suspects to be gone.
	Alive bool
	// Leaving says that it announced to leave.
	Leaving bool
}

// Role says what a node is for.
type Role string

// A node coordinates (votes in the log) and works (owns regions) unless told otherwise.
const (
	Both        Role = "both"
	Coordinates Role = "coordinator"
	Works       Role = "worker"
)

// Output is what a Coordinator or an Agent asks for.
type Output interface{ output() }

type (
	// Send puts a message on the link to a node; to the own node too. Where Boot is not empty it is for
	// that process of the node: as long as the link leads to another one, or to none, the message waits. A
	// link that meets another process drops what the one before had not taken, and nobody would send it
	// again.
	Send struct {
		To, Boot string
		Message  Message
	}
	// Propose asks to append a command to the log. It may be lost, and may be applied later even if
	// it seemed lost; commands are idempotent by their Key.
	Propose struct{ Command Command }
	// Note tells of something that people should know of. Fields come in pairs of key and value.
	Note struct {
		Level  Level
		Text   string
		Fields []string
	}
)

// Level of a Note.
type Level byte

// Levels of notes.
const (
	Info Level = iota
	Warn
	Alarm
)

// Config holds the times of both machines. They affect when something happens and never a result.
type Config struct {
	// PingEvery is between pings of a member that sent nothing else; default 250 ms.
	PingEvery time.Duration
	// SilentAfter is how long a member is silent before the watchdog names it in a note; default 2 s.
	SilentAfter time.Duration
	// LostAfter is how long a member may be silent, while gossip too takes it for dead, until it
	// counts as lost; default 3 s. One that answers pings is never lost however slow it is.
	LostAfter time.Duration
	// GoneAfter is how long a member may be silent whatever gossip says; default 60 s.
	GoneAfter time.Duration
	// AskEvery is between repetitions of a question (Assume, Settle, Cut, Finish) that was not
	// answered; links lose nothing, so it matters only when the other process forgot; default 1 s.
	AskEvery time.Duration
	// FloorEvery is between Floor messages while a job runs; default 50 ms.
	FloorEvery time.Duration
	// ExpectedNodes is how many working nodes a job waits for if it does not say itself; default 1.
	ExpectedNodes int
	// SaveWait is how long a checkpoint may take until it is given up; default 5 minutes.
	SaveWait time.Duration
	// RetryAfter is how long after a checkpoint that was given up the next one is tried; default 10 s.
	RetryAfter time.Duration
	// HolderWait is how long a job waits for a node that holds a part of the checkpoint to go on from;
	// default 2 minutes.
	HolderWait time.Duration
	// MostRecoveries is how often a job may go back without a new checkpoint in between until it fails;
	// default 10.
	MostRecoveries int
}

func (Applied) input()   {}
func (Heard) input()     {}
func (Tick) input()      {}
func (Lead) input()      {}
func (Follow) input()    {}
func (Members) input()   {}
func (Prepared) input()  {}
func (Progress) input()  {}
func (FinalPart) input() {}
func (Recording) input() {}

func (RestorePiece) input() {}
func (RestoreEnded) input() {}
func (Unreadable) input()   {}
func (Saved) input()        {}

func (Send) output()    {}
func (Propose) output() {}
func (Note) output()    {}
