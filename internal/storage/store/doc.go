// Package store keeps ordered keys and values in one file: bbolt with group commit.
//
// # Concepts
//
// A [DB] is one file, with a log while it is open, and a fixed set of buckets. [DB.View] runs a closure on a snapshot,
// [DB.Update] runs one that may write. Update calls of concurrent goroutines are gathered while the previous commit is
// being synced, run one after another, and committed together: the whole group needs one sync. No call waits for a
// timer; a single caller commits at once, in its own goroutine.
//
// Each Update closure writes to its own overlay, a [WriteSet], which joins that of its group only if the closure
// returns nil. A closure that fails or panics changes nothing and does not affect the others.
//
// When Update returns nil the writes have been synced to disk (unless [Options].Relaxed or [Options].Ephemeral).
//
// # The life of a write
//
//	closure ──> write set of the closure ──> write set of the group ──> log, synced ──> memtable ──> bbolt
//	             (writeset.go)                (group.go)                (log.go)      (memtable.go) (checkpoint.go)
//
// The write set of a group becomes one record of the log: one sequential write and one sync, whereas bbolt would write
// every page on the path and sync twice. From then on it is visible, in a memtable. A memtable that has grown to some
// MiB is frozen and written to bbolt in the background, while the next one takes new writes. After a crash, Open
// replays the part of the log that the file lacks. Close leaves only the file, without a log.
//
// A transaction therefore sees a stack of layers: its own writes, those of its group, two memtables, bbolt. [Cursor]
// merges them.
//
// The write set of a group is complete and deterministic: it is also what a replicated log would carry.
//
// # Damage
//
// Each value has a checksum (checksum.go). Reads go through package bboltpage, which checks the pages. Damaged data
// ends the closure, and View or Update returns ErrDamaged. Open refuses a file whose structure or log is damaged;
// [Examine] finds all damage, and [Repair] keeps the intact data.
//
// # What it is not
//
// It is not a query engine and does not interpret keys: each service builds and parses its keys in its own keys.go.
// Blob content does not belong here, see package extent.
//
// # Memory
//
// bbolt maps its file. Mapped pages count as resident memory although the kernel may reclaim them at any time; a
// trimmer (see trim.go) releases them when the process holds more than [Options].MaxMapped of them. Of a larger file,
// the leaves and the branches above them are not read through the mapping, but by system calls (see
// bboltpage.Snapshot), because page faults and trims would cost more than the reads.
package store
