// Package datadir owns the data folder of a Lazuli process. It creates the folder with safe permissions, holds its lock
// while the process lives, and checks that its files are those that it had.
//
// # Layout
//
//	MANIFEST     what the folder must hold, written first
//	LOCK         locked by the process that uses the folder, holds its process id
//	tables.db    Table service (package store); its log is in tables.db-log0, -log1 and -mark, and
//	             mark-tables.db has the mark once more, and MARKS those of all databases
//	blobs.db     Blob service's metadata (package store), likewise
//	extents/     Blob service's content (package extent)
//	queues.db    Queue service: queues and messages
//	queues/      the log of queues.db, a stream (JetStream)
//	RESERVE      space for a full disk (package diskspace)
//	archive/     what waits for an archive of the log
//	search-index/  indexes of the search-index role, which can be made again
//	damaged/     files that a repair replaced, see lazuli fsck --repair
//	dashboard.history  figures of queues that the dashboard shows
//	encryption-scopes.json  keys of the Blob service's encryption scopes, if there ever were any
//	shards/01/, ...  the other shards of a folder with more than one: tables.db, blobs.db, extents/, queues.db and
//	             encryption-scopes.json with what is beside them; the logs of their queues are in queues/
//
// The packages named define the content of the files. A folder may hold other files: they are not touched.
//
// # The manifest
//
//	lazuli data folder, format 1 (2 with more than one shard)
//	{"folder": id, "number": of this version, "open": whether a process uses the folder, "files": {path: what it must be, ...},
//	 "map": which account is in which shard, with more than one; see package shardmap}
//	crc32c 0123abcd
//
// It is replaced as a whole and durably, in three moments: [Open] compares the files with it, and notes that they are
// in use; [Dir.Record] lists them with the generations that they have since they were opened, before they change;
// [Dir.Close] notes size, generation and checksum of each file. Of a folder in use it holds the least: a file of
// another identity, or of a lower generation, is not the one that the folder had. What a file holds beyond that, its
// owner knows (the mark of a database, see package store). [Examine] is the same comparison for fsck.
//
// Nothing is removed because the manifest lacks it. A process that is killed at any step leaves the old manifest or the
// new one, and each of them is true.
//
// # Temporary folders
//
// [OpenTemp] creates a folder for a process that keeps no data. It is removed when the process ends. If the process was
// killed, a later process removes it when it finds it unlocked.
package datadir
