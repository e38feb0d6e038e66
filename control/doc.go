// Package control is the protocol of a cluster: the coordinator, a node's control part (the agent) and
// the replicated state, as state machines that take messages and ticks and give messages back.
//
// # What it promises
//
//   - Pure: no goroutine, clock, random number, socket or map order. Equal inputs give equal outputs, so
//     that a simulator (package chaos) replays any failure from its seed. Times are durations since the
//     machine was made and are never compared between nodes.
//   - A run goes on when its coordinator dies, from where it was: the next one asks each node once and
//     nothing is rolled back. No bound that a node holds ever goes back.
//   - One node owns a region in an epoch. What comes from another epoch, or from the coordinator of an
//     earlier term, is refused and counted.
//   - A job survives the loss of nodes: it goes back to its last committed checkpoint (to its beginning if
//     there is none) and goes on in a new epoch, on the nodes that are there. One that is only slow is not
//     lost. A failure of the model ends the job: it would come again.
//   - The number of the committed checkpoint never goes back, and a recovery never begins from another one
//     than the newest. If a part of that has no good copy, the job fails and names the part and who held it.
//   - A checkpoint is committed when every part and every copy is durable; what keeps one from it is told,
//     and the run goes on with the last one.
//
// # How a job runs
//
// The leader of the replicated log is the coordinator. A job is submitted to the log; when enough nodes
// are there, the coordinator gives it an epoch, members and owners of regions, in the log. Each member
// then sets the job up. From here on there is one path, taken at the start and whenever the coordinator
// changes:
//
//	coordinator            member
//	Assume(term)   ------>  refuses earlier terms from now on, stops taking turns, sends what it has
//	               <------  Frozen(frames sent to each member, cut begun)
//	Settle(frames) ------>  waits until it received what all others sent to it
//	               <------  Full(next event and bound of each region)
//	Grants         ------>  goes on
//
// With the channels empty and nobody sending, the full reports of all members fit together, whenever
// each was made; the solver (package lbts) starts from them, and bounds can only have grown.
//
// While it runs, a member sends event batches straight to other members and then a Report of its regions
// to the coordinator, all of one moment; the coordinator answers with Grants. When every region has
// reached the cap and no batch is on the way, the coordinator sends Cut; each member sends each other one
// Parcel (entities, events, boundary lists), and CutDone when it has all parcels. At the end it sends
// Finish; each member sends its part of the result to the member that records, which sends Recorded; the
// coordinator then commits the end to the log.
//
// Bounds pass neither the next cut nor the next time at which entities may end the run nor the end. A
// pause, or a member that cannot take more, holds them at the largest bound given so far; a stop makes
// that the end. After a failure of a model they pass its time by one tick: all regions run up to it, and
// the first failure in the order of events ends the run. Each of these is worked out anew from what the
// members state, so another coordinator comes to the same.
//
// A member that has begun a cut or the end binds the next coordinator: what one has begun all complete.
// What a coordinator said and nobody has begun is void, since it is refused once the next one is assumed.
//
// # Checkpoints
//
// One is due after some wall time, at some simulated time, when a user asks (Save), or to suspend the job. The
// coordinator has the log give it a number (Begin), which is never used again whatever becomes of it, and
// brings a cut about: at the largest bound given so far, as for a pause. Then
//
//	coordinator            member
//	Cut(save n)    ------>  does the cut, and begins to write its part, and a copy at the next member
//	               <------  CutDone, at once
//	Grants         ------>  runs on while it is written
//	               <------  Stored(n, part), when part and copy are durable, or why not
//
// When all are stored, it proposes Commit. If one cannot, it says Abandon to all; what was due is written with
// the next one. Cuts and parcels carry the last committed number, so that a member knows what became of the
// one before even where the log or Abandon is slower. The member that records is told Floor at the time of
// the cut before any later one: its part holds what was recorded up to there and nothing after.
//
// Another coordinator learns from Frozen what is being written, and members repeat Stored after it; it
// completes what nobody has given up.
//
// # Recovery
//
// A member is lost when its process was replaced, or is silent while gossip takes it for dead, or is silent for
// long, or says that it cannot go on and others may. The coordinator proposes Recover: a new epoch with the
// nodes that are there, owners, and who reads which part of the newest checkpoint. The log refuses it if the
// epoch is not current or a newer checkpoint was committed meanwhile. What the old epoch still sends is
// refused everywhere. Before the first Settle of an epoch that begins from a checkpoint,
//
//	Retrieve       ------>  reads its parts and sends Restored pieces to the members that own what is in them
//	               <------  Retrieved, when all pieces of all others are in; or Unfit: the copy is bad
//
// and after the first Full comes a cut at the checkpoint's time, which shows entities to the regions that need
// ghosts of them. After Unfit another epoch begins, in which the other holder reads.
//
// A job that is told to suspend takes a last checkpoint; then nobody carries it out (Job.Away) until it is told
// to run, which is a recovery without a loss.
//
// Grants, reports and cuts never go through the log. Job and lifecycle, epoch, members and owners, and checkpoints
// that were committed do.
//
// Every message travels on a link that delivers each message once and in order or, when the other process
// was replaced by another one, tells so (package link).
package control
