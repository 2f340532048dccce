package secretfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("old and readable"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != Mode {
		t.Fatalf("mode %v, want %v; %v", info.Mode(), Mode, err)
	}
	if got, err := Read(path, 3); err != nil || string(got) != "new" {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := Read(path, 2); err == nil {
		t.Error("a file over the limit is read")
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%d files are left, want 1", len(entries))
	}
	if err := Create(path, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create over an existing file: %v", err)
	}
	if err := Create(path+"2", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path + "2"); info.Mode().Perm() != Mode {
		t.Errorf("Create makes mode %v", info.Mode())
	}
}

// A file that its group shares stays shared, and so does its owner; a folder with the setgid bit shares new files.
func TestWriteForAGroup(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no permissions of groups")
	}
	dir := t.TempDir()
	for _, c := range []struct {
		name        string
		folder, old fs.FileMode // old 0: no file
		want        fs.FileMode
	}{
		{"new", 0o700, 0, 0o600},
		{"new in a shared folder", 0o750 | fs.ModeSetgid, 0, 0o640},
		{"replaced", 0o700, 0o600, 0o600},
		{"replaced, shared", 0o700, 0o640, 0o640},
		{"replaced, open", 0o700, 0o644, 0o600},
	} {
		folder := filepath.Join(dir, c.name)
		path := filepath.Join(folder, "keys")
		err := errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, c.folder))
		if c.old != 0 {
			err = errors.Join(err, os.WriteFile(path, nil, c.old), os.Chmod(path, c.old))
			if os.Getuid() == 0 {
				err = errors.Join(err, os.Chown(path, 12, 34))
			}
		}
		if err := errors.Join(err, Write(path, []byte("new"))); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != c.want {
			t.Errorf("%s: mode %v, want %v; %v", c.name, info.Mode(), c.want, err)
		}
		if owner := ownerOf(info); c.old != 0 && os.Getuid() == 0 && owner != [2]uint32{12, 34} {
			t.Errorf("%s: the owner is now %v", c.name, owner)
		}
	}
}

func TestWriteFailsWhole(t *testing.T) {
	t.Parallel()
	if err := Write(filepath.Join(t.TempDir(), "absent", "keys"), nil); err == nil {
		t.Error("writing into an absent folder succeeds")
	}
}

func TestReadRefusesExposedFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	for mode, ok := range map[fs.FileMode]bool{0o600: true, 0o644: true, 0o660: false, 0o602: false} {
		if err := os.WriteFile(path, bytes.Repeat([]byte("k"), 10), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path, 100); errors.Is(err, ErrExposed) == ok {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if _, err := Read(t.TempDir(), 100); err == nil {
		t.Error("a folder is read")
	}
}
