package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// offset is the position of the locked byte. Windows refuses reads of locked bytes, and the content at the start of a
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

func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{Offset: offset})
}
