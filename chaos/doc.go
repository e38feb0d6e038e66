// Package chaos plays whole clusters in one thread, disturbs them, and compares what comes out with an
// undisturbed run.
//
// # What it promises
//
//   - A seed decides everything: topology, settings, program, faults, delays. Equal seeds give equal runs,
//     step by step, on any machine of one architecture: any failure can be repeated.
//   - What is tested is what runs in production: control.Agent and control.Coordinator, link.Session,
//     node.Part with its captures, node.Merger and node.Assembly. Only sockets, clocks, disks, the replicated
//     log and gossip are models of this package.
//   - A run fails if its outcome (digest, events, entities, every observation in order) differs from the
//     undisturbed run, whatever was lost and restored on the way; if a job fails though its model does not and a
//     good copy of each part of its checkpoint is there, or there is no checkpoint; if it does not end within a
//     bound once the faults are over, or if an invariant is broken at any step.
//   - The invariants are checked from outside, on the true state of all nodes and all that is on the way,
//     not on what the protocol believes.
//   - A failure is told with its seed, the step, the command that repeats it, the faults that are needed
//     for it and the last events before it.
//
// # A seed
//
// A seed draws one to eight nodes with their roles, the settings of all machines, how links behave (a
// stream that keeps order and breaks, or datagrams that are lost, repeated, reordered and damaged), a
// small random model, jobs, and a plan of faults: crashes, pauses, partitions of all kinds, resets,
// elections, leaders that do not know that they are deposed, jumping clocks, slow nodes, slow disks, users
// that pause, stop, suspend and ask for checkpoints. Processes with a role (coordinator, recorder, a node and
// then its partner, any other) are killed in a phase (running, cut, writing, copying, committing, restoring);
// Kills counts all pairs. A disk loses what was not synced, tears it, is full; that of one node in a run may
// lose or alter what it had said to be durable, or be put back as it was before. Faults end at some time; from
// then on the run must come to its end.
//
// # Invariants
//
// At every step that concerns them:
//
//   - one process owns a region in an epoch; epoch, term, cut and the bounds held never go back at a node,
//     and a node does nothing for a coordinator of an earlier term or for another epoch;
//   - a bound that a node takes is never above the lower bound computed by brute force from the queues of
//     all regions and all that is on the way, and names all it needs;
//   - nothing arrives at or below a time that its region has run;
//   - frames arrive once, in order and as they were sent, and at a cut none is on the way; no region has
//     passed a cut or the end before it is there;
//   - a cut conserves entities;
//   - a checkpoint that is committed has every part, with all increments that it needs, durable and whole at
//     both holders, but for disks that were altered; its number, time and epoch never go back;
//   - the part of the member that records tells of exactly what was observed before its time;
//   - observations come in the order of the reference, none missing, none twice.
//
// # Mutants
//
// A [Mutant] is a deliberate mistake at a seam between the machines. The tests show that each is caught.
//
// Files: seed.go are the random streams and settings that a seed draws, plan.go its faults, model.go its
// programs; clock.go is the heap of events; world.go is the cluster, host.go a node, executor.go its work on
// jobs, saving.go and restoring.go its work on checkpoints, platter.go its disk, phase.go who is killed when;
// network.go the links, log.go the replicated log, gossip.go who sees whom, user.go who submits jobs;
// truth.go and judge.go are the invariants and the comparison; run.go and campaign.go run seeds and report;
// mutant.go holds the mutants.
package chaos
