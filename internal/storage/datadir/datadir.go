package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// IssuerKeyFile is the name of the file that holds the key of the development issuer.
const IssuerKeyFile = "issuer-key.pem"

// ScopesFile is the name of the file that holds the keys of the Blob service's encryption scopes.
const ScopesFile = "encryption-scopes.json"

// DamagedFolder is the name of the folder that holds the files that a repair replaced.
const DamagedFolder = "damaged"

// Dir is an open, locked data folder.
type Dir struct {
	path  string
	lock  *lock
	temp  bool
	close sync.Once
	err   error
}

// Open locks the folder at path for this process, creating it and its parents (mode 0700) if absent. An existing
// folder keeps its permissions.
//
// Errors: a [PathError], [ErrLocked], [ErrFormat], or an error of the operating system.
func Open(path string) (*Dir, error) {
	path, err := clean(path)
	if err != nil {
		return nil, err
	}
	if err := disk.MkdirAll(path, 0o700); err != nil {
		return nil, &PathError{Path: path, Reason: "it cannot be created: " + cause(err)}
	}
	return open(path, true)
}

// OpenExisting is like Open, but the folder must hold data already: it creates only the lock file. It returns [ErrNotFound] if there is no data.
func OpenExisting(path string) (*Dir, error) {
	path, err := clean(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(path, formatFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w at %s", ErrNotFound, path)
	}
	return open(path, false)
}

func open(path string, create bool) (*Dir, error) {
	l, err := acquire(filepath.Join(path, lockFile))
	if err != nil {
		return nil, err
	}
	if err := finishRestore(path); err != nil {
		return nil, errors.Join(fmt.Errorf("finish restoring a snapshot: %w", err), l.release())
	}
	if err := checkFormat(path, create); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return &Dir{path: path, lock: l}, nil
}

// clean validates a path and makes it absolute.
func clean(path string) (string, error) {
	switch {
	case path == "":
		return "", &PathError{Path: `""`, Reason: "the path is empty"}
	case strings.ContainsRune(path, 0):
		return "", &PathError{Path: fmt.Sprintf("%q", path), Reason: "the path contains a NUL character"}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", &PathError{Path: path, Reason: err.Error()}
	}
	if abs == filepath.Dir(abs) {
		return "", &PathError{Path: abs, Reason: "this is a root folder; choose one below it"}
	}
	st, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(abs); err == nil {
			return "", &PathError{Path: abs, Reason: "this is a symbolic link to nothing"}
		}
	case err != nil:
		return "", &PathError{Path: abs, Reason: cause(err)}
	case !st.IsDir():
		return "", &PathError{Path: abs, Reason: "this is a file, not a folder"}
	}
	return abs, nil
}

// cause returns the operating system's error text, without the path.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// Path is the folder's absolute path.
func (d *Dir) Path() string { return d.path }

// Temporary reports whether the folder disappears with the process.
func (d *Dir) Temporary() bool { return d.temp }

// Tables is the path of the Table service's file.
func (d *Dir) Tables() string { return filepath.Join(d.path, "tables.db") }

// Blobs is the path of the Blob service's metadata file.
func (d *Dir) Blobs() string { return filepath.Join(d.path, "blobs.db") }

// Extents is the path of the folder with blob content.
func (d *Dir) Extents() string { return filepath.Join(d.path, "extents") }

// EncryptionScopes is the path of the file with the keys of the Blob service's encryption scopes.
func (d *Dir) EncryptionScopes() string { return filepath.Join(d.path, ScopesFile) }

// Queues is the path of the folder with the Queue service's streams.
func (d *Dir) Queues() string { return filepath.Join(d.path, "queues") }

// Cluster is the path of the folder with the identity and the streams of a node of a cluster.
func (d *Dir) Cluster() string { return filepath.Join(d.path, "cluster") }

// Damaged is the path of the folder that holds the files that a repair replaced.
func (d *Dir) Damaged() string { return filepath.Join(d.path, DamagedFolder) }

// Close releases the folder after all files in it were closed, and removes a temporary folder. A second call does nothing.
func (d *Dir) Close() error {
	d.close.Do(func() {
		if d.temp {
			// Remove the content while the lock is held: no other process may find the folder half removed and unlocked. Windows cannot remove
			// an open file, so the lock file is removed after it is closed.
			d.err = removeEntries(d.path, notLock)
		}
		d.err = errors.Join(d.err, d.lock.release())
		if d.temp {
			d.err = errors.Join(d.err, os.RemoveAll(d.path))
		}
	})
	return d.err
}
