// Package logstore keeps the log and the votes of one raft node on disk.
//
// # What it promises
//
//   - What was stored without an error is there after a crash or a power failure, byte for byte, or Open
//     and GetLog return an error that names file, position and index. Nothing damaged is ever taken for
//     an older or shorter log: raft would break its word if it forgot a vote or an entry silently.
//   - A write that was under way in a crash is there whole or not at all.
//   - Terms and votes can be written to a full disk: their file has its full size from the start.
//   - A failed fsync is never retried: what it should have written may be lost though a second one
//     succeeds (A. Rebello et al., "Can Applications Recover from fsync Failures?", 2020). The log
//     refuses all writes from then on. A full disk that is noticed before fsync only fails that write.
//   - A write that takes longer than a limit calls a function: raft never notices that its disk hangs,
//     and a leader would lead on for ever without committing anything.
//   - The folder of another node or another cluster is refused.
//
// # Files
//
// A folder holds "state" and segments "log-N", N the index of the first entry, in decimal with 20 digits.
//
// A segment is a row of records: CRC-32C of the rest (4 bytes), length of the body (4), body: index (8),
// term (8), type (1), time of appending (8), length of the extensions (4), extensions, data. Numbers are
// little-endian.
//
// The state is formation, term, vote, first and last index and where the last record ends, with a CRC-32C, stored
// twice in two sectors of the disk. An append writes records, syncs them, writes the state and syncs that.
// So what stands behind the end is a write that was never confirmed and is cut off; anything before it
// must be whole. With two copies, one damaged sector costs nothing.
//
// It is its own format and not bbolt, which keeps raft logs in other programs, for three reasons: bbolt
// falls back to the transaction before when its newest meta page is damaged, which is a silent loss here;
// on a damaged tree it panics in a goroutine of its own, which nobody can recover from; and it reads
// through a memory map, where a cut file is a SIGBUS and not an error.
package logstore
