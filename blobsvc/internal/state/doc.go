// Package state stores the data of the Blob service and changes it: containers, blobs with their snapshots and
// versions, uncommitted blocks, leases, tags, pending copies, and the events of the change feed.
//
// # Concepts
//
// A [Store] is one database of package store and the extents of package extent. keys.go has the drawing of the
// database's keys, codec.go the form of its records. A blob refers to its content by pieces (pieces.go), so that Put
// Block List, Snapshot Blob and Copy Blob move no bytes; package content moves the bytes themselves.
//
// The fields of a Store have its operations by subject: [Containers], [Blobs], what [BlockBlobs], [AppendBlobs] and
// [PageBlobs] have of their own, [Tags], [Immutability], [Copies], [Paths] of the dfs endpoint, [Accounts], [Feed],
// [Maintenance] and [Membership] in a cluster. A subject is one pointer to the files and settings that all share.
//
// Callers speak in values. A [Ref] names a blob, snapshot or version; a [Write] or [Read] says on whose behalf it is
// changed or read, under which [Preconditions] and which [Policy]; a [Result] is the result of a committed write.
// Errors are the sentinels of errors.go.
//
// A change is one transaction. Its closure may run more than once, so each run has its own change value (write.go), and
// everything that must not differ between two runs, such as the times that identify changes, is drawn before.
// blob_put.go has the write that all operations share which replace a blob. The lease is a state machine without I/O
// (lease.go); so is the evaluation of a block list (block_list.go).
//
// # The namespace
//
// The keys of a blob's records begin with its item (item.go): in a container of a flat account the container's
// generation and the blob's name, in a hierarchical account an inode. There a container is a tree of directories and
// files. A path is resolved to its item once, in the transaction that uses it, where the access control lists on the
// way are checked as well (package posix); everything else works on items and is the same for both. So a rename moves
// one entry of a directory, whatever is below it; the deletion of a directory removes one entry, and the background
// collects the rest.
//
// The methods of [Maintenance] do background work; the service calls them in rounds. [Check] knows every invariant.
//
// # What it is not
//
// It knows no HTTP and nothing of the protocol: it imports neither net/http nor a package of internal/azure, and a lint
// test keeps it so. The handlers of package blobsvc parse requests, call this package, and render the results.
//
// # Where to start
//
// write.go for how a change runs; item.go for names; blob_put.go for Put Blob; blob_list.go for how listings seek;
// lease.go for the lease.
package state
