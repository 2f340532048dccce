// Package disk is an interface to the part of the file system that the storage engines write through. With it, tests
// can make each call fail, shorten writes, and lose data that was not synced.
//
// Content is not read through this interface: a Reader of package extent passes files to the kernel.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// FS creates, renames and removes files. [OS] is the implementation on the operating system; its errors are those of
// package os.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the names in a folder durable. It does nothing where folders cannot be synced (Windows).
	SyncDir(dir string) error
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes content and size durable. After an error the content of the disk is unknown, and a later Sync may succeed
	// although data was lost.
	Sync() error
	// OS returns the underlying file.
	OS() *os.File
}

// OS is the operating system's file system.
var OS FS = system{}

type system struct{}

func (system) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (system) Rename(from, to string) error { return os.Rename(from, to) }
func (system) Remove(name string) error     { return os.Remove(name) }
func (system) SyncDir(dir string) error     { return SyncDir(dir) }

type file struct{ *os.File }

func (f file) OS() *os.File { return f.File }
func (f file) Sync() error  { return dataSync(f.File) }

func (f file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" { // folders cannot be synced there
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// MkdirAll is like os.MkdirAll and makes each folder that it creates durable: it syncs the parent folders.
func MkdirAll(path string, perm fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := MkdirAll(parent, perm); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(path, perm); err != nil {
		return err
	}
	return SyncDir(parent)
}

// PartSuffix is the end of the name of a file that [WriteFile] has not finished.
const PartSuffix = ".part"

// WriteFile writes a file below dir: after a crash it has its old content or the new one. The folder of the file must
// exist. A link that leads out of dir is an error, and one in place of the file is replaced: the folder may come from a
// stranger.
func WriteFile(dir, name string, data []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	part := name + PartSuffix
	f, err := root.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(part))
	}
	return SyncDir(filepath.Dir(filepath.Join(dir, name)))
}

// ReadFile reads a file below dir. A link that leads out of dir is an error.
func ReadFile(dir, name string) ([]byte, error) {
	f, err := os.OpenInRoot(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// CopyFile copies a file to one that does not exist, and makes its content durable; its name is durable after a
// [SyncDir]. Where the file system can, the copy shares its blocks.
func CopyFile(fsys FS, from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := fsys.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out.OS(), in) // between two files, which lets the system share blocks
	if err == nil {
		// The caller renames the copy, or removes the original: from then on nothing else has the content.
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
