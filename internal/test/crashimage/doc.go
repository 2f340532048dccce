// Package crashimage builds the possible contents of a disk after a power failure, at every moment of a recorded run.
//
// [Record] runs a program under strace and records every operation on files below a folder: writes, syncs, creations,
// renames, removals. [Recording.Replay] applies them one by one. At each step a [Disk] knows which changes are synced,
// and [Disk.Write] writes an image: without unsynced changes, with all names and no unsynced content, with a part of
// the content, with everything, as after a kill, or with a part of the removals.
//
// The recording includes the program's output at its position. So a test knows at each step which operations the
// program had acknowledged.
//
// # Limits
//
// The disk honours syncs: content that was written before a sync of a file, and names that were created, renamed or
// removed before a sync of the folder, exist afterwards. A write is dropped completely or not at all; a write of
// several pages is not torn. Memory mappings are not recorded.
package crashimage
