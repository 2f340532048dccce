package jetstreamfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// SyncStream makes the creation of a stream, or a change of its configuration, durable, and the names of the folders
// above it, up to top.
func SyncStream(streamDir, top string) error {
	paths := []string{filepath.Join(streamDir, metaFile), filepath.Join(streamDir, metaSumFile),
		filepath.Join(streamDir, MessagesFolder), streamDir}
	for dir := streamDir; dir != top && dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		paths = append(paths, dir)
	}
	return syncAll(paths...)
}

// syncAll syncs files and folders at the same time: file systems with a journal combine such syncs.
func syncAll(paths ...string) error {
	var g errgroup.Group
	for _, path := range paths {
		g.Go(func() error {
			if err := syncPath(path); err != nil {
				return fmt.Errorf("jetstreamfiles: %w", err)
			}
			return nil
		})
	}
	return g.Wait()
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if runtime.GOOS == "windows" { // folders cannot be synced there
		if info, err := f.Stat(); err != nil || info.IsDir() {
			return err
		}
	}
	return f.Sync()
}

// SyncRecords makes the records of a stream durable that the server has written.
func SyncRecords(streamDir string) error {
	numbers, err := Blocks(streamDir)
	if err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	paths := []string{filepath.Join(streamDir, MessagesFolder)}
	for _, n := range numbers {
		paths = append(paths, blockPath(streamDir, n))
	}
	err = syncAll(paths...)
	if errors.Is(err, fs.ErrNotExist) { // the old end of the stream was cut off meanwhile
		return SyncRecords(streamDir)
	}
	return err
}
