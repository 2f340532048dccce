package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// content reads a folder's content, by path.
func content(t *testing.T, d *Dir) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(d.Path(), func(path string, e os.DirEntry, err error) error {
		rel, _ := filepath.Rel(d.Path(), path)
		switch {
		case err != nil:
			return err
		case e.IsDir():
			if own(rel) {
				return filepath.SkipDir
			}
			return nil
		case own(rel), rel == ManifestFile:
			return nil
		}
		text, err := os.ReadFile(path)
		files[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: got %q, want %q", name, got[name], text)
		}
	}
}

func must0(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	d := open1(t, t.TempDir())
	old := map[string]string{"tables.db": "old", "extents/1.open": "content"}
	for name, text := range old {
		write(t, filepath.Join(d.Path(), name), text)
	}
	index := filepath.Join(d.Path(), SearchFolder, "shop", "people", "state.json") // no part of a snapshot
	write(t, index, "index")
	must0(t, d.Save("a", false, nil))
	if _, err := os.Stat(filepath.Join(d.Path(), SnapshotsFolder, "a", SearchFolder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a search index is in the snapshot: %v", err)
	}
	if err := d.Save("a", false, nil); !errors.Is(err, ErrSnapshotExists) {
		t.Errorf("saved twice: %v", err)
	}
	write(t, d.Tables(), "new")
	write(t, d.Blobs(), "new")
	must0(t, os.RemoveAll(d.Extents()))
	must0(t, d.Save("b", false, nil))
	refused := errors.New("refused")
	if err := d.Restore("a", func(path string) error {
		if _, err := os.Stat(filepath.Join(path, "tables.db")); err != nil {
			t.Errorf("the copy has no tables: %v", err)
		}
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("a copy that cannot be prepared: %v", err)
	}
	same(t, content(t, d), map[string]string{"tables.db": "new", "blobs.db": "new"})
	must0(t, d.Restore("a", nil))
	if _, err := os.Stat(index); err != nil {
		t.Errorf("the search index was removed: %v", err)
	}
	same(t, content(t, d), old)
	must0(t, d.Restore("b", nil))
	same(t, content(t, d), map[string]string{"tables.db": "new", "blobs.db": "new"})
	must0(t, d.Save("a", true, nil))
	list, err := d.Snapshots()
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[1].Name != "b" {
		t.Errorf("snapshots %v, %v", list, err)
	}
	must0(t, d.RemoveSnapshot("b"))
	for name, err := range map[string]error{"restore": d.Restore("b", nil), "remove": d.RemoveSnapshot("b")} {
		if !errors.Is(err, ErrSnapshotNotFound) {
			t.Errorf("%s of what is gone: %v", name, err)
		}
	}
	for _, name := range []string{"", "..", "a/b", "a.b", "a\x00"} {
		if err := d.Save(name, false, nil); !errors.Is(err, ErrSnapshotName) {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

func TestNoSnapshotOfATemporaryFolder(t *testing.T) {
	t.Parallel()
	d, err := OpenTemp(t.TempDir())
	must0(t, err)
	defer d.Close()
	if err := d.Save("a", false, nil); !errors.Is(err, ErrTemporary) {
		t.Errorf("got %v", err)
	}
}

// Wherever a restoration is interrupted, the next Open finds the old content or ends what was begun.
func TestRestoreBrokenOff(t *testing.T) {
	t.Parallel()
	fresh := map[string]string{"tables.db": "fresh", "queues/x/y": "fresh"}
	for name, tc := range map[string]struct {
		setup func(path string)
		want  map[string]string
	}{
		"the copy is not whole": {func(
			path string) {
			write(t, filepath.Join(path, restoringFolder+partSuffix, "tables.db"), "half")
		},
			map[string]string{"tables.db": "old", "blobs.db": "old"}},
		"the copy is whole": {func(path string) {
			for name, text := range fresh {
				write(t, filepath.Join(path, restoringFolder, name), text)
			}
			must0(t, disk.CopyFile(disk.OS, filepath.Join(path, ManifestFile),
				filepath.Join(path, restoringFolder, ManifestFile)))
		}, fresh},
		"some is moved": {func(path string) {
			must0(t, os.Remove(filepath.Join(path, "blobs.db")))
			write(t, filepath.Join(path, restoringFolder+".moving"), "")
			write(t, filepath.Join(path, "tables.db"), "fresh")
			write(t, filepath.Join(path, restoringFolder, "queues/x/y"), "fresh")
		}, fresh},
		"all is moved": {func(path string) {
			must0(t, os.Remove(filepath.Join(path, "blobs.db")))
			write(t, filepath.Join(path, restoringFolder+".moving"), "")
			write(t, filepath.Join(path, "tables.db"), "fresh")
			write(t, filepath.Join(path, "queues/x/y"), "fresh")
		}, fresh},
	} {
		t.Run(name, func(t *testing.T) {
			d := open1(t, t.TempDir())
			write(t, d.Tables(), "old")
			write(t, d.Blobs(), "old")
			must0(t, d.Close())
			tc.setup(d.Path())
			d = open1(t, d.Path())
			same(t, content(t, d), tc.want)
			// Nothing is left that a later restoration would stumble over.
			must0(t, d.Save("s", false, nil))
			write(t, d.Blobs(), "later")
			must0(t, d.Restore("s", nil))
			same(t, content(t, d), tc.want)
		})
	}
}
