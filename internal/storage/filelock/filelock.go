// Package filelock locks files between processes. A lock belongs to the open file: the operating system releases it
// when the file is closed or its process ends, for any reason.
package filelock

import (
	"errors"
	"os"
)

// ErrBusy means that another process, or another open file of this one, holds the lock.
var ErrBusy = errors.New("locked")

// Try takes an exclusive lock on f, or fails with [ErrBusy] at once.
func Try(f *os.File) error { return lock(f, exclusive) }

// TryShared takes a lock on f that others may share, or fails with [ErrBusy] at once.
func TryShared(f *os.File) error { return lock(f, shared) }

// Wait takes an exclusive lock on f as soon as no other process holds it.
func Wait(f *os.File) error { return lock(f, exclusiveWait) }

// Close ends the lock on f and closes f. Closing f alone ends the lock some time later if this process is starting a
// child just then: the child has a copy of each open file until its program begins.
func Close(f *os.File) error { return errors.Join(unlock(f), f.Close()) }

type mode int

const (
	exclusive mode = iota
	exclusiveWait
	shared
)
