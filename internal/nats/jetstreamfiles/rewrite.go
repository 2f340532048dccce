package jetstreamfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// indexFile is the server's index of a stream, which the server can create again from the blocks.
const indexFile = "index.db"

// Rewrite writes the last two blocks of a stream and its meta files again, durably, after a sync of them failed: pages
// that the operating system could not write may be missing on the disk although they are in memory, and no later sync
// would write them. The server must not be running.
func Rewrite(streamDir string) error {
	numbers, err := Blocks(streamDir)
	if err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	paths := []string{filepath.Join(streamDir, metaFile), filepath.Join(streamDir, metaSumFile)}
	for _, n := range numbers[max(0, len(numbers)-2):] {
		paths = append(paths, blockPath(streamDir, n))
	}
	for _, path := range paths {
		buf, err := readBlock(path, nil)
		if err == nil {
			err = secretfile.Write(path, buf)
		}
		if err != nil {
			return fmt.Errorf("jetstreamfiles: %w", err)
		}
	}
	return nil
}

// Cut cuts a stream off at damage: the records behind it are removed as well. The blocks from the damaged one on are
// kept in a new folder beside them. The server must not be running.
func Cut(streamDir string, d Damage) error {
	numbers, err := Blocks(streamDir)
	if err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	buf, err := readBlock(blockPath(streamDir, d.Block), nil)
	if err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	// Without its index, the server reads the blocks.
	if err := os.Remove(filepath.Join(streamDir, MessagesFolder, indexFile)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	aside := filepath.Join(streamDir, fmt.Sprintf("cut-%d", time.Now().UnixNano()))
	if err := disk.MkdirAll(aside, 0o700); err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	for i := len(numbers) - 1; i >= 0 && numbers[i] >= d.Block; i-- {
		path := blockPath(streamDir, numbers[i])
		if err := os.Rename(path, filepath.Join(aside, filepath.Base(path))); err != nil {
			return fmt.Errorf("jetstreamfiles: %w", err)
		}
	}
	if err := secretfile.Write(blockPath(streamDir, d.Block), buf[:d.Offset]); err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	return syncAll(aside, filepath.Join(streamDir, MessagesFolder), streamDir)
}

// SetAsideEmpty moves a stream without an intact record to a new folder in dir, and returns that folder; "" for a
// stream with records, which stays. The server must not be running.
func SetAsideEmpty(streamDir, dir string) (aside string, err error) {
	empty := true
	if _, err := scan(streamDir, func(r *record) { empty = empty && r == nil }); err != nil &&
		!errors.Is(err, fs.ErrNotExist) || !empty {
		return "", err
	}
	aside = filepath.Join(dir, fmt.Sprintf("%s-%d", filepath.Base(streamDir), time.Now().UnixNano()))
	if err := os.Rename(streamDir, aside); err != nil {
		return "", fmt.Errorf("jetstreamfiles: %w", err)
	}
	return aside, syncAll(dir, filepath.Dir(streamDir))
}
