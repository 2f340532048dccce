// Package extent keeps content in append-only files, and gives it back by reference.
//
// # Concepts
//
// A [Store] is a folder of extents. An extent is a file of records; a record is a header and at most 1 MiB of payload.
// A [Writer] takes content of any length and answers with [Slice] values, each naming a payload; what the slices mean
// and how long they are wanted is the owner's business, who keeps them in package store. A [Reader] reads a range of
// a list of slices.
//
// Nothing is ever overwritten. Content that no metadata refers to is dead; [Store.Compact] finds it by asking the owner
// for everything live, moves what is left of nearly dead extents, and deletes them.
//
// # Writing
//
//	w := s.NewWriter(size)
//	defer w.Close()
//	io.Copy(w, body)
//	slices, err := w.Commit() // durable
//	db.Update(...)            // make the metadata refer to slices
//
// The order matters: content is durable before metadata refers to it, and Close, which comes last, is what allows
// Compact to take unreferenced content for dead.
//
// Small contents of many writers go to one extent and share its syncs. Writers with more than 256 KiB spread over a few
// other extents, so that they neither queue behind each other nor hold up the small ones.
//
// # Damage and crashes
//
// Each record has a CRC, which is checked before its bytes are read; see verify.go.
//
// Records are appended in order, under a lock, and a sync covers all of a file. After a power failure any part of what was not synced may
// be missing. Open walks the extents that were being written. What the metadata refers to was synced, and must be intact, or Open
// fails; what follows the last intact record is cut. Extents that were walked take no more appends.
//
// # Format, version 1
//
// See format.go. An extent being written is called <id>.open, a finished one <id>.extent, where id is in hexadecimal.
package extent
