// Package checkpoint keeps the checkpoints of a run in a folder, so that a run can go on from one of them after
// anything that may happen to a process or a disk.
//
// A checkpoint has a number, which rises and is never used twice. It consists of parts, one for each member of a
// cluster that stores its share (in one process there is one), and of a manifest that names them. A part holds
// chunks: opaque bytes of one region of the map, with a kind. The package knows nothing of what is in them.
//
// A checkpoint stores an increment: what changed since the one before, and a rolling share of the rest. The state
// of a region at checkpoint n is that of the increments from the region's base to n, the newest first. An increment
// is kept whole for as long as one checkpoint that is kept needs it, and then removed whole.
//
//	w, err := s.Write(n, 0, chain, estimate)  // chain: the checkpoints this one builds on
//	err = w.Put(region, kind, data)           // as often as needed
//	err = w.Describe(RegionPart{Region: region, Base: base, ...})
//	part, err := w.Close()                    // durable
//	err = s.Commit(&Manifest{Number: n, Parts: []PartRef{part.Ref()}, ...})
//
// What the package promises:
//
//   - A part is durable when Writer.Close returns, a manifest when Commit returns. A checkpoint whose manifest is not
//     committed does not exist; a crash at any moment leaves every committed one whole.
//   - What Read hands out is what was put in, or there is a *DamageError that names the checkpoint, the region and
//     the chunk, or the file. It holds for any bit flipped in any file, for files cut short, missing, exchanged or put
//     back from an older copy (Options.AtLeast). Each chunk has a hash of its own, its region a count and a root over
//     them, the part a root over its regions and over the older parts it builds on, the manifest a checksum, and each
//     file of a folder that was closed a SHA-256, which is compared before the database sees the file.
//   - A folder that was not closed is opened in a process of its own first (Probe), since the database may die of
//     damaged files. The program calls Probing at its beginning for that.
//   - A full disk refuses a checkpoint with a *FullError before or while it is written, and harms none that exists.
//   - The space taken is bounded by what the kept checkpoints need.
//
// The store is Badger (github.com/dgraph-io/badger) in managed mode, where the number of a checkpoint is the commit
// timestamp of all it writes. Compaction runs only at a commit, so that the space it needs can be checked before.
//
// The folder holds: identity (what the folder is for), head (the committed checkpoints), sums (sizes and hashes of
// files), lock, ballast (space set aside for closing on a full disk), and db, which is Badger's.
package checkpoint
