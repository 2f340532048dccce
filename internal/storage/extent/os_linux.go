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

// adviseSequential enlarges the kernel's read-ahead for a file. Explicit reads ahead (FADV_WILLNEED) fill the page
// cache page by page instead, which took six times the processor time. It is a hint, so its error is ignored.
func adviseSequential(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL) }

// canDirect is set if files can be written with directFlag, which has the meaning of O_DIRECT.
const (
	canDirect  = true
	directFlag = unix.O_DIRECT
)

const canReopen = true

// reopen opens a file that may no longer have a name. The new handle has its own position.
func reopen(f *os.File) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
