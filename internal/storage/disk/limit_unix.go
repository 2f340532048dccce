//go:build unix

package disk

import "golang.org/x/sys/unix"

// OpenFiles returns the number of files that the process may have open.
func OpenFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20))
}
