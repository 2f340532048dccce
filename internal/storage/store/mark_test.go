package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestFilesThatAreNotTheNewest replaces, cuts and swaps whole files of a store whose process was killed. It must be
// refused, or open with everything that was acknowledged; and Examine must find what Open refuses.
func TestFilesThatAreNotTheNewest(t *testing.T) {
	t.Parallel()
	dir, older, closed, other := check.MemoryDir(t), check.MemoryDir(t), check.MemoryDir(t), check.MemoryDir(t)
	path := filepath.Join(dir, "db")
	db := openAt(t, path, Options{})
	put(t, db, "a", "first", "1")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	copyAll(t, dir, closed)
	db = openAt(t, path, Options{})
	db.memtableSize = 2_000
	db.log.step = 8 << 10
	want := model{"first": "1"}
	write := func(from, n int) {
		for i := from; i < from+n; i++ {
			k := fmt.Sprint(i)
			want[k] = fmt.Sprintf("%0100d", i)
			put(t, db, "a", k, want[k])
			if err := db.awaitCheckpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(0, 31)
	copyAll(t, dir, older)
	write(31, 33)
	sample(t, other, true)

	remove := func(name string) func(dir string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
	}
	cut := func(name string, n int64) func(dir string) error {
		return func(dir string) error { return os.Truncate(filepath.Join(dir, name), n) }
	}
	replace := func(name, from string) func(dir string) error {
		return func(dir string) error {
			p, err := os.ReadFile(filepath.Join(from, name))
			if errors.Is(err, fs.ErrNotExist) && (name == "mark-db" || name == MarksFile) { // sample does not copy them
				p, err = os.ReadFile(filepath.Join(from, "db-mark"))
			}
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, name), p, 0o600)
		}
	}
	type damage struct {
		name string
		do   func(dir string) error
	}
	damages := []damage{
		{"logs swapped", func(dir string) error {
			a, b, c := filepath.Join(dir, "db-log0"), filepath.Join(dir, "db-log1"), filepath.Join(dir, "c")
			return errors.Join(os.Rename(a, c), os.Rename(b, a), os.Rename(c, b))
		}},
		{"the file of the last orderly stop", replace("db", closed)},
		{"all of an earlier moment, but for the second mark", func(dir string) error {
			return errors.Join(replace("db", older)(dir), replace("db-log0", older)(dir), replace("db-log1", older)(dir),
				replace("db-mark", older)(dir))
		}},
	}
	// Each of the other two marks alone tells that a copy, complete in itself, is older.
	for _, newer := range []string{"mark-db", MarksFile} {
		damages = append(damages, damage{"all of an earlier moment, but for " + newer, func(dir string) error {
			p, err := os.ReadFile(filepath.Join(dir, newer))
			for _, name := range []string{"db", "db-log0", "db-log1", "db-mark", "mark-db", MarksFile} {
				err = errors.Join(err, replace(name, older)(dir))
			}
			return errors.Join(err, os.WriteFile(filepath.Join(dir, newer), p, 0o600))
		}})
	}
	for _, name := range []string{"db", "db-log0", "db-log1", "db-mark", "mark-db", MarksFile} {
		damages = append(damages, damage{name + " removed", remove(name)},
			damage{name + " of another store", replace(name, other)},
			damage{name + " of an earlier moment", replace(name, older)})
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{0, 1, 512, 4096, 5000, info.Size() / 2, info.Size() - 1} {
			damages = append(damages, damage{fmt.Sprintf("%s cut to %d of %d bytes", name, n, info.Size()),
				cut(name, min(n, info.Size()))})
		}
	}
	outcomes := map[string]int{}
	for _, d := range damages {
		for _, kind := range []Options{{}, {ReadOnly: true}} {
			to := check.MemoryDir(t)
			copyAll(t, dir, to)
			if err := d.do(to); err != nil {
				t.Fatal(d.name, err)
			}
			found := 0
			if err := Examine(filepath.Join(to, "db"), []Bucket{"a", "b"}, func(*DamageError) { found++ }); err != nil {
				found++
			}
			kind.Buckets = []Bucket{"a", "b"}
			again, err := Open(filepath.Join(to, "db"), kind)
			switch {
			case errors.Is(err, ErrDamaged) || errors.Is(err, ErrFormat):
				if outcomes["refused"]++; found == 0 {
					t.Errorf("%s: refused (%v), and Examine finds nothing", d.name, err)
				}
				continue
			case err != nil:
				t.Fatal(d.name, err)
			}
			got := bucketContent(t, again, "a")
			closeChecked(t, again)
			if outcomes["opened"]++; len(got) != len(want) {
				t.Errorf("%s: %d keys are left of %d, and nothing was reported", d.name, len(got), len(want))
			}
		}
	}
	t.Logf("%d damages: %v", len(damages), outcomes)
	if outcomes["refused"] < 40 {
		t.Errorf("%v: the test shows nothing", outcomes)
	}
}

// copyAll copies the files of a folder.
func copyAll(t *testing.T, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := copySparse(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// The databases of a data folder have a third mark each: none overwrites that of another.
func TestPlacesOfMarks(t *testing.T) {
	t.Parallel()
	taken := map[int64]string{}
	for _, name := range []string{"tables.db", "blobs.db", "queues.db"} {
		if other, ok := taken[markPlace(name)]; ok {
			t.Errorf("%s has the place of %s", name, other)
		}
		taken[markPlace(name)] = name
	}
}
