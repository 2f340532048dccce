// Package crashimage builds what a disk may hold after the power failed, at every moment of a recorded run.
//
// [Record] runs a program under strace and keeps every operation on files below a folder: writes, syncs, creations,
// renames, removals. [Recording.Replay] goes through them one by one. At each step a [Disk] knows what has been synced and what
// has not, and [Disk.Write] writes an image: with nothing that was not synced, with all names and no content that was not
// synced, with a part of the content, or with everything, as after a kill.
//
// What the program prints is part of the recording, in its place. So a test knows at each step what the program had
// acknowledged.
//
// # Limits
//
// The disk keeps a sync's promise: what was written before a sync of a file, or created, renamed and removed before a
// sync of the folder, is there afterwards. Writes are dropped whole; a write of several pages is not torn inside. Memory
// mappings are not seen.
package crashimage
