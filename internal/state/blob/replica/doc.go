// Package replica opens the files of the Blob service's state, the database and the extents: those of a single server,
// or of a node of a cluster, which it keeps in step with the other nodes.
//
// A [Node] of a cluster is a view of a replicated log, to which several nodes write. So everything that a change
// depends on is in the database, and the memory of a node follows the log (follow.go). Three things differ from a
// single server:
//
//   - Times. The clocks of nodes differ. The database has the last time that identifies a change, and a transaction
//     takes a later one ([Node.Stamp]). So times are unique in the cluster and ascend in the order of the log, and a
//     lease does not end early on a node whose clock is behind.
//   - Background work runs on all nodes at a time without harm: each step is a transaction that checks what it changes.
//     [Node.Claim] lets one node do work that the others would only repeat.
//   - Events. Whether an account has subscriptions is read in the transaction of the change.
//
// Content has no log of its own: extents are copied between nodes (package mirror), or are in streams of an external
// NATS (streams.go). Only what is small is in the log of the database, beside the record that refers to it (logged.go).
//
// The package knows records by their buckets and keys. It does not know the operations on blobs.
package replica
