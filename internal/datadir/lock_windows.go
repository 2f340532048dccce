package datadir

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockOffset is where the locked byte lies. Windows refuses reads of locked bytes, and the process id at the
// beginning must stay readable.
const lockOffset = 1 << 30

// tryLock takes an exclusive lock on one byte.
func tryLock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: lockOffset})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errBusy
	}
	return err
}

// owned reports whether the file belongs to the user who runs this process: temporary folders are the user's own.
func owned(os.FileInfo) bool { return true }
