// Package datadir owns the folder that a Lazuli process keeps its data in: it creates it with safe permissions, holds
// its lock for as long as the process lives, and checks that its format is one that this program reads.
//
// # Layout
//
//	FORMAT       version of the layout, written first, see [Format]
//	LOCK         locked by the process that uses the folder, holds its process id
//	tables.db    Table service (package store); its log is beside it, tables.db-log0 and -log1
//	blobs.db     Blob service's metadata (package store), likewise
//	extents/     Blob service's content (package extent)
//	queues/      Queue service's streams (JetStream)
//	RESERVE      space for a full disk (package diskspace)
//	damaged/     files that a repair replaced, see lazuli fsck --repair
//	encryption-scopes.json  keys of the Blob service's encryption scopes, if there ever were any
//
// What is inside the files is the business of the packages named. A folder may hold other files: they are left alone.
//
// # Temporary folders
//
// [OpenTemp] makes a folder for a process that keeps nothing. It goes when the process ends, or, if the process was
// killed, when a later one starts and finds it unlocked.
package datadir
