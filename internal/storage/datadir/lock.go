package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/filelock"
)

const lockFile = "LOCK"

// lock is a locked file. The operating system releases the lock when the process ends, for any reason; the file stays.
type lock struct{ f *os.File }

// acquire locks the file at name, creating it if absent, and writes this process's id to it.
func acquire(name string) (*lock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &PathError{Path: filepath.Dir(name), Reason: "it cannot be written to: " + cause(err)}
	}
	err = filelock.Try(f)
	if errors.Is(err, filelock.ErrBusy) {
		pid := holder(f)
		return nil, errors.Join(lockedError(filepath.Dir(name), pid), f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w", errors.Join(err, filelock.Close(f)))
	}
	return &lock{f}, nil
}

// acquireShared locks the file at name for reading, in a folder that cannot be written to. Without a file there is
// nothing to lock.
func acquireShared(name string) (*lock, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &lock{}, nil
	}
	if err != nil {
		return nil, &PathError{Path: filepath.Dir(name), Reason: "it cannot be read: " + cause(err)}
	}
	err = filelock.TryShared(f)
	if errors.Is(err, filelock.ErrBusy) {
		return nil, errors.Join(lockedError(filepath.Dir(name), holder(f)), f.Close())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &lock{f}, nil
}

// release releases the lock.
func (l *lock) release() error {
	if l.f == nil {
		return nil
	}
	return filelock.Close(l.f)
}

// holder reads the process id from a lock file. It returns 0 if the file has no id yet, between another process's lock
// and its write.
func holder(f *os.File) int {
	var b [20]byte
	n, _ := f.ReadAt(b[:], 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return pid
}
