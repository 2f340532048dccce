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

// sweepAge is the minimum age at which an unlocked temporary folder counts as abandoned. A younger folder may have been
// created and not locked yet.
const sweepAge = time.Minute

// OpenTemp creates a folder for a process that keeps no data, inside parent, or inside the system's folder for
// temporary files if parent is "". It also removes the folders that killed processes left there.
func OpenTemp(parent string) (*Dir, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	sweep(parent, time.Now().Add(-sweepAge))
	path, err := os.MkdirTemp(parent, tempPrefix) // mode 0700
	if err != nil {
		return nil, fmt.Errorf("create temporary data folder: %w", err)
	}
	d, err := open(path, 1, nil)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	d.temp = true
	return d, nil
}

// sweep removes this user's temporary folders inside parent that were created before the given time and that no process
// has locked. Folders that cannot be removed are left for the next sweep.
func sweep(parent string, before time.Time) {
	paths, err := filepath.Glob(filepath.Join(parent, tempPrefix+"*"))
	if err != nil { // parent contains pattern characters: the old folders only take space
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

// notLock reports whether an entry of a temporary folder is to be removed before the lock is released.
func notLock(name string) bool { return name != lockFile }
