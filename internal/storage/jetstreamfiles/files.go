package jetstreamfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// SyncStream makes the creation of a stream, or a change of its configuration, durable.
func SyncStream(streamDir string) error {
	for _, path := range []string{
		filepath.Join(streamDir, metaFile), filepath.Join(streamDir, metaSumFile), filepath.Join(streamDir, messagesFolder),
		streamDir, filepath.Dir(streamDir),
	} {
		if err := syncPath(path); err != nil {
			return fmt.Errorf("jetstreamfiles: %w", err)
		}
	}
	return nil
}

// SyncFolders makes the creation of a folder and of its parents durable, up to the existing folder top.
func SyncFolders(path, top string) error {
	for {
		if err := syncPath(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("jetstreamfiles: %w", err)
		}
		if path == top || path == filepath.Dir(path) {
			return nil
		}
		path = filepath.Dir(path)
	}
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
