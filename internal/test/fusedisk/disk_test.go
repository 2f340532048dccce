//go:build linux

package fusedisk

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Calls of the kind asked for fail with the error asked for, on the files asked for, as often as asked for.
func TestCallsFail(t *testing.T) {
	t.Parallel()
	d := Mount(t)
	file, folder := filepath.Join(d.Dir, "a", "file"), filepath.Join(d.Dir, "a", "folder")
	if err := errors.Join(os.Mkdir(filepath.Join(d.Dir, "a"), 0o700), os.WriteFile(file, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	opened := func(do func(f *os.File) error) func() error {
		return func() error {
			f, err := os.OpenFile(file, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			return errors.Join(do(f), f.Close())
		}
	}
	for _, c := range []struct {
		kind Kind
		call func() error
	}{
		{Create, func() error { return os.MkdirAll(folder, 0o700) }},
		{Write, opened(func(f *os.File) error { _, err := f.WriteAt([]byte("y"), 1); return err })},
		{Read, func() error { _, err := os.ReadFile(file); return err }},
		{Truncate, func() error { return os.Truncate(file, 1) }},
		{Sync, opened((*os.File).Sync)},
		{Rename, func() error { return errors.Join(os.Rename(file, file+"2"), os.Rename(file+"2", file)) }},
		{Remove, func() error { return os.Remove(folder) }},
	} {
		failing := Failure{Err: syscall.EROFS, Path: "a", Kinds: []Kind{c.kind}}
		d.Fail(failing)
		if err := c.call(); !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v, want EROFS", c.kind, err)
		}
		failing.Once = true
		d.Fail(failing)
		if err := c.call(); !errors.Is(err, syscall.EROFS) && c.kind != Read { // the system repeats reads
			t.Errorf("%s: %v, want EROFS once", c.kind, err)
		}
		if n := d.Failures(); n != 1 {
			t.Errorf("%s: %d calls failed, want 1", c.kind, n)
		}
		failing.After = 100
		d.Fail(failing)
		if err := c.call(); err != nil {
			t.Errorf("%s: %v, although the first 100 calls work", c.kind, err)
		}
		if n := d.Heal(); n != 0 {
			t.Errorf("%s: %d calls failed, want none of the first 100", c.kind, n)
		}
	}
	d.Fail(Failure{Err: syscall.EIO, Path: "b", Kinds: append(Changes, Read)})
	if _, err := os.ReadFile(file); err != nil {
		t.Errorf("a file outside the path: %v", err)
	}
}

// Syncs of a slow disk take their time, and nothing else does.
func TestSlowSyncs(t *testing.T) {
	t.Parallel()
	const sync = 300 * time.Millisecond
	folder, files := t.TempDir(), t.TempDir()
	unmount, err := MountSlow(folder, files, sync)
	if err != nil {
		t.Skip("a file system cannot be mounted here: ", err)
	}
	f, err := os.Create(filepath.Join(folder, "file"))
	if err == nil {
		_, err = f.Write([]byte("x"))
	}
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := errors.Join(f.Sync(), f.Sync(), f.Close()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 2*sync {
		t.Errorf("two syncs took %v", took)
	}
	if err := unmount(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(files, "file")); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
}
