// Package secretfile reads and writes files that hold secrets: keys of accounts, authorities and issuers. Their owner
// alone can read them, and their group in a folder that shares its files with its group (setgid). Writes are atomic:
// after a crash a file has the old content or the new.
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

// Mode is the mode of files that this package writes. A file whose folder has the setgid bit is readable by the group
// of the folder as well: a package installs such a folder for the files that root writes and its service reads.
const (
	Mode       fs.FileMode = 0o600
	sharedMode fs.FileMode = 0o640
)

// Write replaces the content of path with data, atomically and synced. The folder must exist.
func Write(path string, data []byte) error {
	return place(path, data, func(temporary string) error { return os.Rename(temporary, path) })
}

// Create is like [Write] for a file that must not exist yet; it returns fs.ErrExist if it does. On a file system
// without hard links, a file that another process creates at the same moment is replaced.
func Create(path string, data []byte) error {
	return place(path, data, func(temporary string) error {
		err := os.Link(temporary, path) // which, unlike a rename, replaces no file
		if err == nil {
			return os.Remove(temporary)
		}
		if _, missing := os.Lstat(path); missing == nil {
			return fs.ErrExist
		}
		return os.Rename(temporary, path)
	})
}

// place writes data to a temporary file in the folder of path, and calls give, which gives the file its name.
func place(path string, data []byte, give func(temporary string) error) (err error) {
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
	if err = share(f, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = give(f.Name())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return disk.SyncDir(filepath.Dir(path)) // so that the new name survives a power failure
}

// share gives f, which is to have the name path, its owner and permissions: those of the file that it replaces, or
// those of a new file in the folder. A group that could read the old file can read the new one.
func share(f *os.File, path string) error {
	old, err := os.Stat(path)
	if err == nil {
		if err := keepOwner(f, old); err != nil {
			return err
		}
		if old.Mode().Perm()&0o044 == 0o040 { // 0644 is what any program makes, and no decision
			return f.Chmod(sharedMode)
		}
		return f.Chmod(Mode)
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if folder.Mode()&fs.ModeSetgid != 0 {
		return f.Chmod(sharedMode)
	}
	return f.Chmod(Mode)
}

// ReadableByAll reports whether all users of the machine can read a file.
func ReadableByAll(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows"
}

// Read returns the content of a file of at most limit bytes. It returns [ErrExposed] if the file's group or all users
// may write to it, because they could replace the secrets. Files that other users may read are accepted, because
// container platforms mount secrets like that.
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
