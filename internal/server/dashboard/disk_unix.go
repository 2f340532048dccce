//go:build unix

package dashboard

import "syscall"

// diskSize returns the free bytes and the size of the file system that holds a folder, -1 where they are not known.
func diskSize(folder string) (free, size int64) {
	var s syscall.Statfs_t
	if syscall.Statfs(folder, &s) != nil {
		return -1, -1
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize)
}
