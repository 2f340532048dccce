package jetstreamfiles

import (
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync syncs content and size, but not times.
func fdatasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
