// Package blob stores the data of the Blob service and changes it: containers, blobs with their snapshots and
// versions, uncommitted blocks, leases, tags, pending copies, and the events of the change feed.
//
// # Floors
//
// The state is built in floors; each package knows those below it alone:
//
//	blob        the operations: this package, with preconditions, versions, soft delete, copies, events
//	listing     pages of blobs, paths and containers
//	maintain    background work: garbage, retention, expiry, compaction
//	offline     check and repair of files that no process has open
//	tree        paths, inodes and entries of hierarchical accounts
//	replica     the database and the extents of a server, and the node of a cluster
//	record      the stored forms: keys and records, with a drawing of both
//	lease, posix, content, encryption
//
// # Concepts
//
// A [Store] is one database of package store and the extents of package extent. A blob refers to its content by pieces
// ([record.PieceList]), so that Put Block List, Snapshot Blob and Copy Blob move no bytes; package content moves the
// bytes themselves.
//
// The fields of a Store have its operations by subject: [Containers], [Blobs], what [BlockBlobs], [AppendBlobs] and
// [PageBlobs] have of their own, [Tags], [Immutability], [Copies], [Paths] of the dfs endpoint, [Accounts] and [Feed].
// A subject is one pointer to the files and settings that all share. The fields Maintenance and Membership lead to the
// floors below.
//
// Callers speak in values. A [Ref] names a blob, snapshot or version; a [Write] or [Read] says on whose behalf it is
// changed or read, under which [Preconditions] and which [Policy]; a [Result] is the result of a committed write.
// Errors are the sentinels of errors.go and of the packages below.
//
// A change is one transaction. Its closure may run more than once, so each run has its own change value (change.go),
// and everything that must not differ between two runs, such as the times that identify changes, is drawn before. What
// all operations share that write stands in files of its own, each of which uses those after it:
//
//	update.go         runs an operation on a record that exists, once its preconditions hold
//	replace.go        writes a blob over another, or where no blob is
//	expire.go         deletes a blob whose expiry time has come
//	remove.go         removes a record: it becomes a version, soft-deleted, or garbage
//	blob_versions.go  keeps the state before a write as a version
//	event.go          records the event of a change
//	change.go         the change itself: its transaction, place and times
//
// The lease is a state machine without I/O (package lease); so is the evaluation of a block list (block_list.go).
//
// # The namespace
//
// The keys of a blob's records begin with its item ([record.Item]): in a container of a flat account the container's
// generation and the blob's name, in a hierarchical account an inode. There a container is a tree of directories and
// files. A path is resolved to its item once, in the transaction that uses it, where the access control lists on the
// way are checked as well (package tree); everything else works on items and is the same for both.
//
// # What it is not
//
// It knows no HTTP and nothing of the protocol: it imports neither net/http nor a package of internal/azure, and a lint
// test keeps it so. The handlers of package blobsvc parse requests, call this package, and render the results.
//
// # Where to start
//
// change.go for how a change runs; replace.go for what Put Blob does; package tree for how a path is resolved; package
// listing for how listings seek; package lease for the lease.
package blob
