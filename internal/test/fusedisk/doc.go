// Package fusedisk lets tests make the calls of the operating system on files fail, also those of libraries that open
// files themselves, as nats-server and bbolt do.
//
// [Mount] mounts a FUSE file system on a folder; [Disk.Fail] makes kinds of calls on it fail with an error, and
// [Disk.Heal] ends that. A process of its own serves the file system, since a page fault of a mapped file stops a
// thread that the server could need. It needs Linux, /dev/fuse and the right to mount; tests are skipped without them.
// [MountSlow] is for measurements: each sync takes the same time, whatever else uses the disk below.
//
// Package faultdisk is faster, for code that writes through [disk.FS].
package fusedisk
