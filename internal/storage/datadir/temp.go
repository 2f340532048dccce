package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// tempPrefix begins the names of temporary folders.
const tempPrefix = "lazuli-temp-"

// sweepAge is how old a temporary folder must be before it is taken for abandoned: a younger one may be between its
// creation and its lock.
const sweepAge = time.Minute

// OpenTemp makes a folder for a process that keeps nothing, inside parent, or, if that is "", inside the system's
// folder for temporary files. It also removes those that killed processes left there.
func OpenTemp(parent string) (*Dir, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	sweep(parent, time.Now().Add(-sweepAge))
	path, err := os.MkdirTemp(parent, tempPrefix) // mode 0700
	if err != nil {
		return nil, fmt.Errorf("create temporary data folder: %w", err)
	}
	d, err := open(path, true)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	d.temp = true
	return d, nil
}

// sweep removes this user's temporary folders inside parent that were made before the given time and that no process
// holds. What cannot be removed is left for the next time.
func sweep(parent string, before time.Time) {
	paths, err := filepath.Glob(filepath.Join(parent, tempPrefix+"*"))
	if err != nil { // parent holds characters with a meaning in patterns: nothing is lost but room
		return
	}
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || !owned(info) || info.ModTime().After(before) {
			continue
		}
		if l, err := acquire(filepath.Join(path, lockFile)); err == nil {
			_ = removeEntries(path, notLock)
			_ = l.release()
			_ = os.RemoveAll(path)
		}
	}
}

// notLock are the entries of a temporary folder that go before its lock does.
func notLock(name string) bool { return name != lockFile }
