// Package jetstreamfiles knows the files of nats-server's file store: it syncs, verifies, cuts and repairs them.
//
// These files are another project's private format. What this package relies on was read in nats-server 2.15
// (server/filestore.go), and the tests compare each point with a real server, so that an upgrade that changes one of
// them fails here and not at a power failure:
//
//   - a stream's folder holds meta.inf, meta.sum (a HighwayHash of it, in hexadecimal), and msgs with <n>.blk files
//   - records are appended to the block with the highest number; when that is full, the next number is begun
//   - a stream without limits never rewrites or removes a block by itself; a purge up to a sequence that is the first
//     of its block removes the blocks before it, and changes no other
//   - an acknowledged record has been written to its block (but not synced)
//   - the layout of a record and its checksum (record.go)
//   - at a start, what index.db does not cover is read from the blocks; from the first record on that cannot be
//     read, a block is cut off, whatever follows there
//
// The last point is why [Verify] and [Prepare] exist: they tell the torn end of a file, which a crash leaves and
// which may be cut off, from damage before records that had been synced, which may not.
//
// # Syncing
//
// [Syncer] makes durable what JetStream has acknowledged. Concurrent callers share a sync. A missing folder or a
// missing block is an error: the records that it held were acknowledged.
package jetstreamfiles
