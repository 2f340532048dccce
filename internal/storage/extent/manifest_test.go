package extent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestFilesThatAreNotTheNewest removes, cuts, swaps and replaces whole files of a store that was closed, and of one
// whose process was killed. Open must refuse it, or find everything that was committed.
func TestFilesThatAreNotTheNewest(t *testing.T) {
	t.Parallel()
	dir, older := t.TempDir(), t.TempDir()
	copyTo := func(to string) {
		t.Helper()
		if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, Options{SealSize: 100_000})
	var kept []content
	put := func(from, to int) {
		for i := from; i < to; i++ {
			p := random(uint64(i), 3_000)
			kept = append(kept, content{store(t, s, p), p})
		}
		s.sealing.Wait()
	}
	put(0, 50)
	copyTo(older)
	put(50, 90)
	bulk := random(7, 600_000)
	kept = append(kept, content{store(t, s, bulk), bulk})
	killed, closed := t.TempDir(), t.TempDir()
	copyTo(killed)
	closeChecked(t, s)
	copyTo(closed)

	for state, from := range map[string]string{"killed": killed, "closed": closed} {
		all, err := os.ReadDir(from)
		if err != nil {
			t.Fatal(err)
		}
		outcomes := map[string]int{}
		try := func(name string, damage func(dir string) error) {
			t.Helper()
			to := t.TempDir()
			if err := os.CopyFS(to, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			if err := damage(to); err != nil {
				if errors.Is(err, os.ErrNotExist) {
					return
				}
				t.Fatal(err)
			}
			problems, err := Verify(to)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(to, Options{})
			if (err != nil) != (len(problems) > 0) {
				t.Errorf("%s, %s: Open returns %v, and Verify %v", state, name, err, problems)
			}
			if err != nil {
				outcomes["refused"]++
				if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "fsck --repair") ||
					!strings.Contains(err.Error(), problems[0].Error()) {
					t.Errorf("%s, %s: %v", state, name, err)
				}
				if err := Accept(to, filepath.Join(t.TempDir(), "aside"), func(string) {}, func(string) {}); err != nil {
					t.Errorf("%s, %s: accept: %v", state, name, err)
				}
				if err := open(t, to, Options{}).Close(); err != nil {
					t.Error(err)
				}
				return
			}
			outcomes["opened"]++
			for _, c := range kept {
				wantContent(t, s, c.slices, c.bytes)
			}
			closeChecked(t, s)
		}
		for i, e := range all {
			name := e.Name()
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			try(name+" removed", func(dir string) error { return os.Remove(filepath.Join(dir, name)) })
			sizes := []int64{0, 1, fileHeaderSize, info.Size() / 2, info.Size() - 1}
			if parts := strings.SplitN(name, ".", 2); len(parts) == 2 { // at the ends of records
				sizes = append(sizes, fileHeaderSize+recordHeaderSize+3_000, info.Size()-recordHeaderSize-3_000)
			}
			for _, n := range sizes {
				if n >= 0 {
					try(fmt.Sprintf("%s cut to %d of %d", name, n, info.Size()),
						func(dir string) error { return os.Truncate(filepath.Join(dir, name), n) })
				}
			}
			try(name+" of an earlier moment", func(dir string) error {
				p, err := os.ReadFile(filepath.Join(older, name))
				if err != nil {
					return err
				}
				return os.WriteFile(filepath.Join(dir, name), p, 0o600)
			})
			if other := all[(i+1)%len(all)].Name(); strings.HasPrefix(name, "0") && strings.HasPrefix(other, "0") {
				try(name+" swapped with "+other, func(dir string) error {
					a, b := filepath.Join(dir, name), filepath.Join(dir, other)
					return errors.Join(os.Rename(a, a+".x"), os.Rename(b, a), os.Rename(a+".x", b))
				})
			}
		}
		t.Logf("%s: %v", state, outcomes)
		if outcomes["refused"] < 15 {
			t.Errorf("%s: %v: the test shows nothing", state, outcomes)
		}
	}
}

// The text of a list is what encoding/json reads as that list.
func TestListingText(t *testing.T) {
	t.Parallel()
	if n, of := reflect.TypeFor[listing]().NumField(), reflect.TypeFor[listed]().NumField(); n != 4 || of != 4 {
		t.Errorf("the list has %d fields, and an extent %d: is each in the text?", n, of)
	}
	for _, want := range []listing{
		{ID: "folder", Extents: map[string]listed{}},
		{ID: newFolderID(), Number: 7, Marked: true, Extents: map[string]listed{
			idText(3): {Size: 20},
			idText(1): {Size: 1 << 40, Finished: true, Unsynced: true},
			idText(2): {Size: 30, Finished: true, Sum: strings.Repeat("0a", 32)}}},
		{ID: "folder", Extents: map[string]listed{idText(1): {Sum: "\"\n\\"}, "\"": {Sum: "é"}}},
	} {
		var got listing
		check.OK(t, json.Unmarshal(check.Must(want.text())(t), &got))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// slowList is a file system that holds the writes of the list of extents.
type slowList struct {
	disk.FS
	writing, letGo chan struct{}
}

// OpenFile implements disk.FS.
func (s slowList) OpenFile(name string, flag int, mode fs.FileMode) (disk.File, error) {
	if filepath.Base(name) == ManifestFile+sumfile.PartSuffix {
		s.writing <- struct{}{}
		<-s.letGo
	}
	return s.FS.OpenFile(name, flag, mode)
}

// A sync is marked while the list of extents is written.
func TestSyncsDoNotWaitForTheList(t *testing.T) {
	t.Parallel()
	s := slowList{disk.OS, make(chan struct{}), make(chan struct{})}
	m := &manifest{fs: s, dir: t.TempDir(), list: listing{ID: newFolderID(), Extents: map[string]listed{}},
		slots: map[uint64]int{}}
	var all sync.WaitGroup
	all.Go(func() { check.OK(t, m.created(1, 0)) })
	<-s.writing
	s.letGo <- struct{}{}
	all.Wait()
	all.Go(func() { check.OK(t, m.finished(2, listed{})) })
	<-s.writing
	all.Go(func() { m.synced(1, 100) })
	defer all.Wait()
	defer close(s.letGo)
	check.Eventually(t, func() bool { return check.Must(readMarks(m.dir))(t)[1] == 100 }, "the sync is marked")
}
