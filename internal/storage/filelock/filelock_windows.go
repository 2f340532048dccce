package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// offset is where the locked byte lies. Windows refuses reads of locked bytes, and what stands at the beginning of a
// lock file must stay readable.
const offset = 1 << 30

func lock(f *os.File, m mode) error {
	var flags uint32
	if m != shared {
		flags = windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	if m != exclusiveWait {
		flags |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: offset})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrBusy
	}
	return err
}
