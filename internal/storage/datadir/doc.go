// Package datadir owns the data folder of a Lazuli process. It creates the folder with safe permissions, holds its lock while the process lives,
// and checks that this program supports its format.
//
// # Layout
//
//	FORMAT       version of the layout, written first, see [Format]
//	LOCK         locked by the process that uses the folder, holds its process id
//	tables.db    Table service (package store); its log is in tables.db-log0 and -log1
//	blobs.db     Blob service's metadata (package store), likewise
//	extents/     Blob service's content (package extent)
//	queues/      Queue service's streams (JetStream)
//	RESERVE      space for a full disk (package diskspace)
//	search-index/  indexes of the search-index role, which can be made again
//	damaged/     files that a repair replaced, see lazuli fsck --repair
//	encryption-scopes.json  keys of the Blob service's encryption scopes, if there ever were any
//
// The packages named define the content of the files. A folder may hold other files: they are not touched.
//
// # Temporary folders
//
// [OpenTemp] creates a folder for a process that keeps no data. It is removed when the process ends. If the process was killed, a later process
// removes it when it finds it unlocked.
package datadir
