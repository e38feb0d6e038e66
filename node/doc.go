// Package node runs a program: regions with their own event queues, worked on by several workers under
// grants, with cuts at which entities change owner.
//
// # What it promises
//
// The digest, the results and the order of observations depend on the program alone, never on the
// number of regions, workers or processors:
//
//   - each entity handles its events in the order of (time, priority, source, sequence), which names
//     neither regions nor arrival;
//   - a region handles an event only below its grant, so nothing that should precede it can still
//     arrive (package lbts);
//   - queries see publications by the time at which they were made, and the region holds a ghost of
//     everything that its entities may see until the next cut;
//   - digests are sums over entities; observations are merged in the order of the events that made
//     them.
//
// A model that breaks its contract ends the run with a Failure, the same one for any number of regions.
//
// # How it works
//
// A worker takes a region with work below its grant, preferring its own, runs it to the end of a bucket
// of its queue, and reports: what it sent, its next event. Grants come from one lbts.Solver under one
// mutex; reports are few compared with events. When all regions have reached the next cut, one worker
// does it while the others wait.
//
// Files: queue*.go are the event queue; entity.go and directory.go say where entities are; region.go
// runs events and acts.go is what handlers may do; view.go is published state and ghosts; cut.go is
// migration and boundary lists; conductor.go is workers and grants; observe.go orders observations;
// failure.go explains what a model did wrong; run.go is where a run begins and ends.
package node
