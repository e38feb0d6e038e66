// Package cluster makes one cluster of many processes: who is there (gossip), who coordinates (an elected
// leader), what was decided (a replicated log), and links between nodes.
//
// # What it promises
//
//   - A command that [Cluster.Apply] returned an answer for survives the loss of any minority of the voters.
//     Every node applies the same commands in the same order. A command may be applied twice when its fate
//     was unknown, so commands carry keys.
//   - At most one node leads in a term, and [Events.Lead] is called on it once it has applied all that
//     earlier leaders committed. Terms only rise.
//   - A leader that dies, is cut off, or whose disk hangs or fills up is replaced: on loopback within two
//     seconds, with [LAN] times within three, a hanging disk after [Timing.WriteLimit] on top.
//   - A cluster is founded once. Two groups that were founded apart never merge and never overwrite one
//     another; one that nobody has used yet gives way to the other.
//   - A node that lost its disk does not vote until it has been sent what it forgot.
//   - Clusters of other names, and other protocol versions, are refused with an error that names both.
//   - Gossip only suggests: what is decided is decided in the log.
//
// # One port
//
// A node has one address. TCP on it carries links, the log, requests and the streams of gossip (package
// transport, TLS if given); UDP on the same number carries the packets of gossip (encrypted if a key is given).
//
// # How a cluster is founded and grows
//
// A node with an empty data folder waits. When as many nodes that may coordinate as are expected are there,
// none of them is in a cluster, and that has been so for [Timing.Settle], the one with the least name founds
// the cluster, alone, and invites the others one after another; each is sent the log first and then made a
// voter, up to five. Commands are taken from when more than half of the expected (of five, if more are
// expected) vote. That is the same path on which nodes join later, and it makes a founding by two groups
// at once harmless: at most one of them gets that far, and the other gives way. A log says from its first moment
// which founding it belongs to, and so does every stream that carries it: raft itself would let a node vote in
// two clusters.
//
// The leader keeps the configuration of the log in accord with gossip, one change at a time and only while a
// majority of the voters stays alive:
//
//   - a node that came is invited, first without a vote; nodes that only work stay without one;
//   - a node that may coordinate and has caught up votes, while there are fewer than five voters;
//   - a node that leaves, or that gossip has taken for dead for [Timing.GoneAfter], is removed, and another
//     one takes its vote. Three voters of which one is dead stay as they are if there is no other: two
//     would not bear more;
//   - a voter that comes back with an empty disk loses its vote first;
//   - a node that was removed and comes back deletes what it had before it is added again.
//
// # Departures from the libraries' defaults
//
// The address of a raft server is its node's name; the connection is made to where gossip says that
// node is, so that addresses may change. Raft's heartbeat fast path is off: it can change the term from
// outside the main goroutine. A node whose log cannot be written for want of room does not stand for election.
package cluster
