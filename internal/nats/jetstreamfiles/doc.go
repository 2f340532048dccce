// Package jetstreamfiles verifies, reads and syncs the files of nats-server's file store.
//
// These files are a private format of another project. This package relies on the source of nats-server 2.15
// (server/filestore.go), and the tests compare each point with a real server, so that an incompatible upgrade fails in
// the tests:
//
//   - a stream's folder holds meta.inf, meta.sum (a HighwayHash of it, in hexadecimal), and msgs with <n>.blk files
//   - records are appended to the block with the highest number; when that is full, the next number is begun
//   - an acknowledged record has been written to its block, and synced with the option SyncAlways; the name of a new
//     block has not
//   - the layout of a record and its checksum (record.go)
//   - at a start, what index.db does not cover is read from the blocks; from the first record on that cannot be
//     read, a block is cut off, whatever follows there
//
// Because of the last point, [Verify] distinguishes two cases. The torn end of a stream, left by a crash, may be cut
// off. Damage before intact records, which had been synced, may not.
package jetstreamfiles
