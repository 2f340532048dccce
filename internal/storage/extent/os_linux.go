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

// mapFile maps a part of a file into memory, for reading. Its pages are entered when they are read, sixteen at a fault:
// to enter them at once (MAP_POPULATE) takes longer, since it looks at each of them alone. unmap must be called. ok is
// false if the system cannot map it.
func mapFile(f *os.File, offset int64, n int) (p []byte, unmap func(), ok bool) {
	within := int(offset % int64(os.Getpagesize()))
	m, err := unix.Mmap(int(f.Fd()), offset-int64(within), within+n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, false
	}
	return m[within : within+n : within+n], func() { _ = unix.Munmap(m) }, true
}

// mapMemory returns memory of its own pages, which are zero. ok is false if the system has none.
func mapMemory(n int) (p []byte, ok bool) {
	p, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	return p, err == nil
}

// adviseLarge asks for large pages. It is a hint, so its error is ignored.
func adviseLarge(p []byte) { _ = unix.Madvise(p, unix.MADV_HUGEPAGE) }

// discardMemory gives memory of mapMemory back to the system: it is zero at its next use. It is a hint, so its error is
// ignored.
func discardMemory(p []byte) { _ = unix.Madvise(p, unix.MADV_DONTNEED) }

// cannotRead reports whether a write failed because the memory that it was given is a mapping that cannot be read.
func cannotRead(err error) bool { return errors.Is(err, unix.EFAULT) }

const canReopen = true

// reopen opens a file that may no longer have a name. The new handle has its own position.
func reopen(f *os.File) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
