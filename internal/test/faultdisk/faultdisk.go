// Package faultdisk is a disk.FS for tests. It can make calls fail, shorten writes, and record all calls and replay
// them as the images that a crash may leave (see [Recorder]).
package faultdisk

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Kind is the kind of a call.
type Kind string

// The kinds of calls that change the disk.
const (
	Create   Kind = "create" // OpenFile with O_CREATE of a file that does not exist
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"
	Rename   Kind = "rename"
	Remove   Kind = "remove"
	SyncDir  Kind = "syncdir"
)

// The kinds of calls that change nothing, which fail by [FS.FailReads] alone.
const (
	Open Kind = "open" // OpenFile of a file that exists
	Size Kind = "size"
	Read Kind = "read"
)

// Op is one call.
type Op struct {
	Kind   Kind
	Name   string // name of the file or folder
	To     string // new name, for a rename
	Offset int64  // for a write
	Data   []byte // for a write; valid only during the call
	Size   int64  // for a truncation
}

// Short is an error for a Hook to return: the write is cut after N bytes, and fails with Err.
type Short struct {
	N   int
	Err error
}

// Error returns Err's text.
func (s *Short) Error() string { return s.Err.Error() }

// FS calls Hook before each operation on the disk; if Hook returns an error, the operation fails with it and has no
// effect. It is safe for concurrent use.
type FS struct {
	mu     sync.Mutex
	hook   func(Op) error
	done   func(Op)
	failed Op
	// reads returns the error of a call that changes nothing; nil makes none fail.
	reads func(kind Kind, name string) error
}

// Failed returns the first call that [FS.Fail] made fail, without its data; its kind is "" for none.
func (f *FS) Failed() Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// SetHook sets the function that is called before each operation; nil means no function.
func (f *FS) SetHook(hook func(Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// Failure describes how calls fail in [FS.Fail].
type Failure struct {
	// Err is the error of the calls.
	Err error
	// Once makes only one call fail; otherwise all later ones fail as well.
	Once bool
	// Partly makes a failing write write half of its bytes.
	Partly bool
}

// FailNth makes the n-th call from now on that is of one of the kinds, counted from 1, and all later ones, fail with
// err. Without kinds all calls count. It returns the number of calls so far.
func (f *FS) FailNth(n int, err error, kinds ...Kind) (calls func() int) {
	return f.Fail(n, Failure{Err: err}, kinds...)
}

// Fail makes the n-th call from now on that is of one of the kinds, counted from 1, fail. Without kinds all calls
// count. It returns the number of calls so far. A sweep repeats a run with n = 1, 2, ... until the run makes fewer than
// n calls.
func (f *FS) Fail(n int, failure Failure, kinds ...Kind) (calls func() int) {
	var mu sync.Mutex
	seen := 0
	f.SetHook(func(op Op) error {
		if len(kinds) > 0 && !slices.Contains(kinds, op.Kind) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen < n || seen > n && failure.Once {
			return nil
		}
		f.mu.Lock()
		if f.failed.Kind == "" {
			f.failed = Op{Kind: op.Kind, Name: op.Name, To: op.To}
		}
		f.mu.Unlock()
		if failure.Partly && op.Kind == Write {
			return &Short{N: len(op.Data) / 2, Err: failure.Err}
		}
		return &fs.PathError{Op: string(op.Kind), Path: op.Name, Err: failure.Err}
	})
	return func() int { mu.Lock(); defer mu.Unlock(); return seen }
}

// FailReads makes the calls of a kind that change nothing fail with err, on the file with a name in its folder. Without
// an error none fails.
func (f *FS) FailReads(kind Kind, name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads = nil; err == nil {
		return
	}
	f.reads = func(k Kind, path string) error {
		if k != kind || filepath.Base(path) != name {
			return nil
		}
		return &fs.PathError{Op: string(kind), Path: path, Err: err}
	}
}

func (f *FS) read(kind Kind, name string) error {
	f.mu.Lock()
	reads := f.reads
	f.mu.Unlock()
	if reads == nil {
		return nil
	}
	return reads(kind, name)
}

func (f *FS) run(op Op, do func() error) error {
	f.mu.Lock()
	hook, done := f.hook, f.done
	f.mu.Unlock()
	if hook != nil {
		if err := hook(op); err != nil {
			return err
		}
	}
	err := do()
	if err == nil && done != nil {
		done(op)
	}
	return err
}

// OpenFile implements disk.FS.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (file disk.File, err error) {
	open := func() error {
		file, err = disk.OS.OpenFile(name, flag, perm)
		return err
	}
	if _, missing := os.Lstat(name); missing != nil && flag&os.O_CREATE != 0 {
		err = f.run(Op{Kind: Create, Name: name}, open)
	} else if err = f.read(Open, name); err == nil {
		err = open()
	}
	if err != nil {
		return nil, err
	}
	return &openFile{file, f}, nil
}

// Rename implements disk.FS.
func (f *FS) Rename(from, to string) error {
	return f.run(Op{Kind: Rename, Name: from, To: to}, func() error { return disk.OS.Rename(from, to) })
}

// Remove implements disk.FS.
func (f *FS) Remove(name string) error {
	return f.run(Op{Kind: Remove, Name: name}, func() error { return disk.OS.Remove(name) })
}

// SyncDir implements disk.FS.
func (f *FS) SyncDir(dir string) error {
	return f.run(Op{Kind: SyncDir, Name: dir}, func() error { return disk.OS.SyncDir(dir) })
}

// directAlign is the alignment of writes past the page cache, in bytes.
const directAlign = 4096

type openFile struct {
	disk.File
	fs *FS
}

func (f *openFile) ReadAt(p []byte, offset int64) (n int, err error) {
	if err := f.fs.read(Read, f.Name()); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, offset)
}

func (f *openFile) Size() (int64, error) {
	if err := f.fs.read(Size, f.Name()); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *openFile) WriteAt(p []byte, offset int64) (n int, err error) {
	op := Op{Kind: Write, Name: f.Name(), Offset: offset, Data: p}
	err = f.fs.run(op, func() error { n, err = f.File.WriteAt(p, offset); return err })
	if short, ok := err.(*Short); ok {
		cut := min(short.N, len(p))
		if len(p)%directAlign == 0 && offset%directAlign == 0 {
			cut -= cut % directAlign // the file may take aligned writes only
		}
		if _, err := f.File.WriteAt(p[:cut], offset); err != nil {
			return 0, err
		}
		return cut, &fs.PathError{Op: "write", Path: f.Name(), Err: short.Err}
	}
	return n, err
}

func (f *openFile) Truncate(size int64) error {
	return f.fs.run(Op{Kind: Truncate, Name: f.Name(), Size: size}, func() error { return f.File.Truncate(size) })
}

func (f *openFile) Sync() error {
	return f.fs.run(Op{Kind: Sync, Name: f.Name()}, f.File.Sync)
}
