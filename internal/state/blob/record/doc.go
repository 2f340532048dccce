// Package record has the stored forms of the Blob service: the buckets and keys of its database, the records in them,
// and what a record alone decides. Everything else of the state is written in terms of it.
//
// # Concepts
//
// keys.go has the drawing of the database's keys, codec.go the form of a record: a version and tagged fields. The keys
// of a blob's records begin with its [Item], which item.go explains. A [Blob] is a committed blob, a snapshot or a
// version; its content is a [PieceList]. A [Container] has a [Generation], a directory or file of a tree an [Inode]. A
// [Pending] sums up uncommitted blocks, a [Trash] is a deleted item of a tree, a [CopyJob] is a copy under way, and an
// [Event] is what the change feed and the event log tell of a change.
//
// # What it is not
//
// It knows no clock, no policy of an account, and no transaction but the one that it is given. Functions that take a
// *store.Tx read or write single records in it; package state, above it, decides which records change together.
package record
