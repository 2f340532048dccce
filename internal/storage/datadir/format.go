package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Format is the version of the layout that this program writes. When a program opens a folder of an older format for writing, it upgrades the
// folder. It refuses newer formats.
//
//  1. the first format
//  2. the queues' streams are append-only, and their records have checksums: a program of format 1 cannot read them
//  3. page blobs note which pages were cleared: a program of format 2 fails to read such blobs
const Format = 3

const (
	formatFile = "FORMAT"
	// formatHead precedes the version number, on a separate line.
	formatHead = "lazuli data folder, format "
)

// checkFormat reads the folder's format. If create is set, it writes a format to a folder without data.
func checkFormat(path string, create bool) error {
	name := filepath.Join(path, formatFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && create {
		return initialise(path, name)
	}
	if err != nil {
		return fmt.Errorf("read data folder's format: %w", err)
	}
	number, ok := strings.CutPrefix(strings.TrimSpace(string(text)), formatHead)
	v, err := strconv.Atoi(number)
	switch {
	case !ok || err != nil || v < 1:
		return fmt.Errorf("%w: %s was not written by Lazuli; restore the folder from a copy, or choose another with --location",
			ErrFormat, name)
	case v > Format:
		return fmt.Errorf("%w: %s has format %d, and this program supports formats up to %d; use the newer release that wrote it, or choose another folder with --location",
			ErrFormat, path, v, Format)
	case v < Format && create:
		return mark(path, name)
	}
	return nil
}

// initialise writes the format to an empty folder. The format is on disk before any data is.
func initialise(path, name string) error {
	for _, file := range []string{"tables.db", "blobs.db"} {
		if _, err := os.Lstat(filepath.Join(path, file)); err == nil {
			return fmt.Errorf("%w: %s holds %s but no %s file; restore the file if it was lost (one line: %q), or choose another folder with --location",
				ErrFormat, path, file, formatFile, formatHead+strconv.Itoa(Format))
		}
	}
	return mark(path, name)
}

// mark writes this program's format into the folder, durably.
func mark(path, name string) error {
	f, err := os.CreateTemp(path, formatFile+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("mark data folder: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s%d\n", formatHead, Format)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("mark data folder: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return syncFolder(path)
}

// syncFolder makes the folder's entries durable.
func syncFolder(path string) error {
	if err := disk.SyncDir(path); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}
