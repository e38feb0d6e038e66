// Package server is a node of a cluster as a process runs it: it wires gossip, log and links (package
// cluster), the protocol (control), the engine (node), recording (record, summary) and the door for
// people (api).
//
// # What it promises
//
//   - One goroutine, the loop, owns the protocol's state machines. It never waits: not for a disk, a
//     network, a model or a person. What takes long is begun elsewhere, and its end comes as an input.
//   - Between an event and the grant that it allows there is no timer and no sleep. All inputs that are
//     there are taken at once.
//   - Whatever a model does, in its setup, its handlers, its states or its results, is an error of the job
//     and not of the node.
//   - Memory is bounded. Where a disk or another node is too slow, the run slows down.
//   - The results of a job are those of a run in one process: the same summary, files and failure.
//   - Names that come over the network are never paths: folders are named by checked ids of jobs, files
//     are those of the folder's own list.
//   - Shutdown ends in a fixed order: the door closes, work is handed over, the run is dropped, the loop
//     ends, then links, log and gossip.
//
// Files: settings*.go read flags, environment and file; node.go wires and ends; loop.go is the loop;
// executor.go carries out a member's share of a job and recording.go what the recording member does
// besides; store.go is the folder of results; peers.go lets nodes ask one another; backend.go answers the
// API; logs.go keeps log lines; metrics.go counts.
package server
