package extent

import (
	"errors"
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

// mapFile maps a part of a file into memory, for reading. It reads its pages at once, since a fault for each of them
// costs more. unmap must be called. ok is false if the system cannot map it.
func mapFile(f *os.File, offset int64, n int) (p []byte, unmap func(), ok bool) {
	within := int(offset % int64(os.Getpagesize()))
	m, err := unix.Mmap(int(f.Fd()), offset-int64(within), within+n, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, nil, false
	}
	return m[within : within+n : within+n], func() { _ = unix.Munmap(m) }, true
}

// cannotRead reports whether a write failed because the memory that it was given is a mapping that cannot be read.
func cannotRead(err error) bool { return errors.Is(err, unix.EFAULT) }

const canReopen = true

// reopen opens a file that may no longer have a name. The new handle has its own position.
func reopen(f *os.File) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
