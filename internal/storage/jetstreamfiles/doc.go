// Package jetstreamfiles syncs, verifies, cuts and repairs the files of nats-server's file store.
//
// These files are a private format of another project. This package relies on the source of nats-server 2.15 (server/filestore.go), and the
// tests compare each point with a real server, so that an incompatible upgrade fails in the tests:
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
// Because of the last point, [Verify] and [Prepare] distinguish two cases. The torn end of a file, left by a crash, may be cut off. Damage
// before records that had been synced may not.
//
// # Syncing
//
// [Syncer] makes durable what JetStream has acknowledged. Concurrent callers share a sync. A missing folder or block is an error, because its
// records were acknowledged.
package jetstreamfiles
