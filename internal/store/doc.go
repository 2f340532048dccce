// Package store keeps ordered keys and values in one file: bbolt underneath, group commit and an overlay on top.
//
// # Concepts
//
// A [DB] is one file and a fixed set of buckets. [DB.View] runs a closure on a snapshot, [DB.Update] runs one that may
// write. Update calls of concurrent goroutines are gathered while the previous commit is being synced and run one
// after another in one bbolt transaction: one sync pays for the whole group. Nobody waits for a timer; a lone caller
// commits at once, in its own goroutine.
//
// Each Update closure writes to an overlay of its own (a [WriteSet]), which is applied only if the closure returns nil.
// A closure that fails, or panics, leaves no trace and disturbs no neighbour. The write set is also the value that a
// replicated log would carry.
//
// When Update returns nil the writes have been synced to disk (unless [Options].Relaxed or [Options].Ephemeral).
//
// # What it is not
//
// It is no query engine and knows nothing of what the keys mean: each service builds and parses its keys in its own
// keys.go. Blob content does not belong here, see package extent.
//
// # Memory
//
// bbolt maps its file. Mapped pages count as resident memory although the kernel may take them back at any time; a
// trimmer (see trim.go) returns them once the process holds more than [Options].MaxMapped of them.
package store
