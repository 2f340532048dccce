package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Extracted makes a data folder of a name inside the data folder of a node, in the folder [ExtractedFolder]. fill gets the new folder, open and empty. If
// it returns an error, or the process is killed, nothing has the name. Errors: [ErrSnapshotName], [ErrSnapshotExists], and that of fill.
func (d *Dir) Extracted(name string, fill func(*Dir) error) (path string, err error) {
	if !snapshotName().MatchString(name) {
		return "", ErrSnapshotName
	}
	path = filepath.Join(d.path, ExtractedFolder, name)
	if _, err := os.Lstat(path); err == nil {
		return "", ErrSnapshotExists
	}
	part := path + partSuffix
	if err := os.RemoveAll(part); err != nil {
		return "", err
	}
	in, err := Open(part)
	if err != nil {
		return "", err
	}
	if err := errors.Join(fill(in), in.Close()); err != nil {
		return "", errors.Join(err, os.RemoveAll(part))
	}
	if err := os.Rename(part, path); err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	return path, errors.Join(syncFolder(filepath.Dir(path)), syncFolder(d.path))
}
