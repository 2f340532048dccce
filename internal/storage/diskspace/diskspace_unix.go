//go:build !windows

package diskspace

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const errQuota = syscall.EDQUOT

func capacity(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Blocks * uint64(s.Bsize)), nil
}

func free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(uint64(s.Bavail) * uint64(s.Bsize)), nil
}
