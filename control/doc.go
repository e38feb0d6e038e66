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
//   - A node that is lost for good ends the job with an error that names it and when it was last heard;
//     one that is only slow does not.
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
// Grants, reports and cuts never go through the log. Job and lifecycle, epoch, members and owners do.
//
// Every message travels on a link that delivers each message once and in order or, when the other process
// was replaced by another one, tells so (package link).
package control
