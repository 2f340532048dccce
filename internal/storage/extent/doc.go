// Package extent stores content in append-only files and returns references to it.
//
// # Concepts
//
// A [Store] is a folder of extents. An extent is a file of records; a record is a header and at most 1 MiB of payload.
// A [Writer] takes content of any length and returns [Slice] values, each of which refers to a payload. The owner
// decides what the slices mean and how long they are needed, and keeps them in package store. A [Reader] reads a range
// of a list of slices.
//
// Nothing is ever overwritten. Content that no metadata refers to is dead. [Store.Compact] asks the owner for all live
// slices, moves the live content of extents that are mostly dead, and deletes dead extents.
//
// # Writing
//
//	w := s.NewWriter(size)
//	defer w.Close()
//	io.Copy(w, body)
//	slices, err := w.Commit() // durable
//	db.Update(...)            // make the metadata refer to slices
//
// The order matters: content is durable before metadata refers to it. Close comes last, because Compact may treat
// unreferenced content as dead from then on. Content of a few KiB can share the sync of the owner's log, see
// [Writer.CommitLogged].
//
// Small contents of many writers go to one extent and share its syncs. Writers with more than 256 KiB are distributed
// over a few other extents, so that they wait neither for each other nor delay small writes.
//
// # Damage and crashes
//
// Each record has a CRC, which is checked before its bytes are read; see verify.go.
//
// Records are appended in order, under a lock, and a sync covers all of a file. After a power failure, any part of the
// data that was not synced may be missing. Open walks the extents that were being written. Content that the metadata
// refers to was synced and must be intact, otherwise Open fails. Data after the last intact record is cut off. Extents
// that were walked take no more appends.
//
// # Format, version 1
//
// See format.go. An extent being written is called <id>.open, a finished one <id>.extent, where id is in hexadecimal.
package extent
