// Package mirror keeps copies of the extents of package extent on the nodes of a cluster.
//
// # Writing
//
// A node that appends records to an extent sends each of them to all other nodes. They write it at the same place of
// their copy of the extent and acknowledge it. With the last record of a content, they sync the copies first. The
// content is stored once a majority of the nodes has it on disk, this node included; only then metadata may refer to
// it. A node that does not keep up is left out, and copies what it has missed later.
//
//	Writer ── record ──> own extent            (extent.Writer)
//	   │  └── record ──> copy on each node      put.go, ──> serve.go
//	   └─ Commit: own sync, and syncs of enough copies to make a majority
//
// Content of some KiB takes another way: it is part of the record of the metadata's log, which all nodes apply.
//
// # Reading
//
// A node that does not have a record, or whose copy of it is damaged, fetches it from another node and keeps it
// (fetch.go).
//
// # Catching up
//
// Each node asks the others regularly which extents they have written, and copies what it lacks (catchup.go). So an
// empty node receives all content in the background, and serves what it does not have yet on demand.
//
// # Transport
//
// Messages are those of core NATS, over the connections of the cluster, which authenticate and encrypt. They may be
// lost: a sender waits for acknowledgements and sends again. The checksums of the records protect content from end to
// end.
package mirror
