package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrExtracted means that the folder to make exists.
var ErrExtracted = errors.New("a folder of that name exists")

// ErrExtractedName means that the name of a folder to make is not valid.
var ErrExtractedName = errors.New("the name of the folder has 1 to 64 letters, digits, dashes and underscores")

// Extracted makes a data folder of a name inside the data folder of a node, in the folder [ExtractedFolder]. fill gets
// the new folder, open and empty. If it returns an error, or the process is killed, nothing has the name. Errors:
// [ErrExtractedName], [ErrExtracted], and that of fill.
func (d *Dir) Extracted(name string, fill func(*Dir) error) (path string, err error) {
	if !snapshotName().MatchString(name) {
		return "", ErrExtractedName
	}
	path = filepath.Join(d.path, ExtractedFolder, name)
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%w: %s", ErrExtracted, path)
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
