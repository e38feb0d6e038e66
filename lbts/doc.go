// Package lbts tells regions how far they may run: reports in, grants out.
//
// LBTS is the lower bound on the time stamp of anything that can still reach a region. A region
// that holds a grant runs every event strictly below its bound; nothing that arrives later can
// belong before it. The package promises:
//
//   - Safe: once a region has what its grant needs, no event below the bound can still arrive.
//   - Live: while events remain, delivering what is on the way and reporting it lets some region
//     advance. No region waits for one that cannot reach it, and time never creeps: bounds come
//     from the times of events, not from earlier bounds.
//   - Steady: a bound never goes back. A report that contradicts what was granted is refused with
//     an error and changes nothing.
//   - Pure: no clock, network, goroutine or random number; equal calls give equal answers.
//
// The effective time of a region, E, is the least of its next event and of the batches still on the
// way to it. The bound of region i is the least over all regions j of E(j) + D(j, i), where D is the
// lookahead closed over shortest paths and D(i, i) the shortest cycle. DESIGN.md in this folder says
// why that is safe and why the run ends. The method is that of K. M. Chandy and J. Misra
// ("Distributed simulation", 1979) without null messages: one place sees all reports and solves for
// the bounds, as in R. M. Fujimoto, "Parallel and Distributed Simulation Systems" (2000), chapter 3;
// batch numbers per channel take the place of the counting rounds of F. Mattern ("Efficient
// algorithms for distributed snapshots and global virtual time approximation", 1993).
//
// # Regions that share memory
//
// Events change hands inside the critical section that also guards the Solver. When region i ends a
// stretch of work, under the lock:
//
//  1. for each region j it has events for: put them in j's inbox and call Deliver(i, j, least);
//  2. take its own inbox into its queue;
//  3. call Report with Next, the time of the first event in its queue, no Sent and no Received;
//  4. call Grant(i), now or whenever it is to run again.
//
// Deliver comes before Report, since Report states that everything the region did is known. Next
// must count all that was delivered so far: a region that reports while its inbox is not empty must
// take the least of that too.
//
// # Regions that exchange batches which travel
//
// Batches on a channel (from one region to another) are numbered 1, 2, 3 ... and arrive in that
// order. A report states Next, for each channel out the latest batch sent since the last report with
// the least time stamp in what was sent since, and for each channel in the last batch received.
// Everything a region did before it made a report must have been sent: no event waits in a buffer.
// Next counts exactly the batches that Received states. Reports of one region are handed to the
// Solver in the order in which they were made, each once; reports of different regions in any order,
// so a batch may be stated as received before its sender states that it was sent. A grant may arrive
// late, and after a later one: each stands alone, and counts once the batches it needs have arrived.
// Reports made before a Reopen must not be handed in after it: the frame that carries them has an
// epoch for that.
//
// A process that runs several regions reports for all of them at one moment, with ReportAll: its batches
// are then numbered by process, what its regions hand to one another stays in memory, and a batch counts
// on each channel that it has events for.
//
// # Another coordinator
//
// When the place that sees all reports is lost, another one begins anew: no region is run, each takes in
// all that was sent to it, and then states its next event and its bound. Resume goes on from there.
//
// A Solver is not safe for concurrent use. Only NewMatrix, Spatial, New, Reopen, Resume, Absent, Describe and
// refusals allocate, and channels until they have grown to what is on the way at once.
package lbts
