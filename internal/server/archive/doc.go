// Package archive sends the logs of a server to a place of backups, so that the state of any moment can be restored.
//
//	Update ──> log of the database, synced ──> spool ──> caller is answered
//	                                            │  every 10 s, or 8 MiB: cut
//	                                            ▼
//	           log/<timeline>/<number>          segments in the place: groups, and the content that they refer to
//	           log/<timeline>/head              says up to when there is nothing after the last segment
//	           backups/<time>                   bases: backups that say where they are in the log
//
// # Times
//
// Each group of each database has a time, taken before it goes to the log and later than all times before. A write that
// was acknowledged before T has a time before T, one that began after T has a later one: so the groups up to T are the
// state of T, over all databases. A segment records the time up to which it and its predecessors are complete.
//
// # Spool
//
// Groups are gathered in the folder archive of the data folder. They are synced before a checkpoint lets the log of the
// database drop them (see [store.Archive]): after a crash, Open finds groups that the spool does not have in the log,
// with their times. While the place cannot be reached, the spool grows to a bound; beyond it, it is dropped.
//
// # Timelines
//
// A timeline is a sequence of segments without a gap: the groups of each database follow each other, and each segment
// names the one before it by its checksum. Whenever that does not hold, another timeline begins, and with it another
// base: the spool was dropped, a database was replaced, the server ran without an archive, or another process writes
// the same numbers. Nothing in between can be restored, and [Reachable] says so.
//
// # Content
//
// Extents are append-only, so their records are sent as they are, from where the last segment ended. Small content is
// in an extent before its group is committed, and so never in the groups. An extent stays in the data folder until its
// records were sent (see [extent.Store.Retain]).
//
// # Shards
//
// A folder with more than one shard has an archive for each, in a part of the place ([backup.Shard]) with its own
// timeline and bases: a [Shard]. They share the clock, so that the groups up to T are the state of T over all shards;
// the bound of the spool; and the owner of the place, whom one of them finds out for all (Archive.keeper).
//
// # Clusters
//
// The nodes of a cluster have one archive ([Archive.OpenNode]). Each has a spool of the groups of all logs, which are
// the same on all nodes, and one node sends. The file head has the last groups that the place has, so that the others
// drop them from their spools, and go on from there when that node is lost. Two nodes that send do no harm: a segment
// is created once, and the other node adopts it.
//
//	node A   spool ──> segments, head ──┐
//	node B   spool <── head ────────────┤ place
//	node C   spool <── head ────────────┘
//
// The time of a group is the clock of its writer, which is in its record. A segment promises a time that was taken
// before a barrier of all logs ([Node]): so the spool has every group that was acknowledged before it. Groups that come
// later get times after the promise, and each log's times ascend. Content is sent when a group refers to it, and from
// any node. A timeline begins with a base, and is announced with it.
//
// # Restoring
//
// [Moment] is a [backup.Sharded]: of each shard the base, the groups after it up to a time, and all content. So a
// restore writes and checks the folder in the same way as a restore of a backup.
package archive
