package extent

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// writeback starts writing a part of the file and does not wait. It is a hint, so its error is ignored.
func writeback(f *os.File, offset, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, n, unix.SYNC_FILE_RANGE_WRITE)
}

const canReopen = true

// reopen opens a file that may no longer have a name. The new handle has its own position.
func reopen(f *os.File) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
