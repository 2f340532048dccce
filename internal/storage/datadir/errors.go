package datadir

import (
	"errors"
	"fmt"
)

// ErrLocked is the error for a folder that another process uses. The error's text names the process.
var ErrLocked = errors.New("data folder is in use")

// ErrFormat is the error for a folder whose format this program cannot read. The error's text says how to proceed.
var ErrFormat = errors.New("data folder has a format that this program cannot read")

// ErrManifest is the error for a folder whose manifest is missing or damaged.
var ErrManifest = errors.New("the manifest of the data folder (" + ManifestFile + ") is missing or damaged")

// ErrNotFound is the error of OpenExisting for a folder without data.
var ErrNotFound = errors.New("no data folder")

// PathError reports a path that cannot be a data folder.
type PathError struct {
	Path, Reason string
}

func (e *PathError) Error() string { return fmt.Sprintf("data folder %s: %s", e.Path, e.Reason) }

func lockedError(path string, pid int) error {
	who := "by another process"
	if pid > 0 {
		who = fmt.Sprintf("by process %d", pid)
	}
	return fmt.Errorf("%w %s: %s; stop that process or choose another folder with --location", ErrLocked, who, path)
}
