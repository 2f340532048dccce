// Package secretfile reads and writes files that hold secrets: keys of accounts, authorities and issuers. Only their owner can read them, and
// writes are atomic: after a crash a file has the old content or the new.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// ErrExposed means that users other than the file's owner may change a file with secrets.
var ErrExposed = errors.New("users other than the owner may write to the file")

// Mode is the mode of every file that this package writes.
const Mode fs.FileMode = 0o600

// Write replaces the content of path with data, atomically and synced. The folder must exist.
func Write(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with Mode
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err = f.Chmod(Mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return disk.SyncDir(filepath.Dir(path)) // so that the new name survives a power failure
}

// Create is like [Write] for a file that must not exist yet; it returns fs.ErrExist if it does.
func Create(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, Mode)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return disk.SyncDir(filepath.Dir(path))
}

// Read returns the content of a file of at most limit bytes. It returns [ErrExposed] if the file's group or all users may write to it, because
// they could replace the secrets. Files that other users may read are accepted, because container platforms mount secrets like that.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	if info.Mode().Perm()&0o022 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s: %w; run chmod 600 on it", path, ErrExposed)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, err
}
