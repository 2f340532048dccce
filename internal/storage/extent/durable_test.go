package extent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// The log drops what it has of the extents when Sync has returned.
func TestRestoredRecordsAreSynced(t *testing.T) {
	t.Parallel()
	dir, killed := t.TempDir(), t.TempDir()
	s := open(t, dir, Options{Logged: 4_000})
	_, l, _ := commitLogged(t, s, random(1, 100))
	check.OK(t, os.CopyFS(killed, os.DirFS(dir)))
	disk, tr := &faultdisk.FS{}, &trace{}
	disk.SetHook(tr.hook)
	r := NewRestorer(killed, disk, false)
	check.OK(t, r.Restore(l.Key, l.Value))
	check.OK(t, r.Sync())
	disk.SetHook(nil)
	unfinished, err := filepath.Glob(filepath.Join(killed, "*"+openSuffix))
	if err != nil || len(unfinished) != 1 {
		t.Fatal(unfinished, err)
	}
	name := filepath.Base(unfinished[0])
	tr.before(t, "write "+name, "sync "+name)
}

// A record that replaces a damaged one of a bulk extent is durable when Put returns: SyncPuts has nothing to do for it.
func TestAReplacedBulkRecordIsSynced(t *testing.T) {
	t.Parallel()
	dir := directDir(t)
	disk, tr := &faultdisk.FS{}, &trace{}
	s := open(t, dir, Options{FS: disk})
	x := store(t, s, random(1, bulkThreshold))[0]
	offset, record, err := s.Record(x)
	check.OK(t, err)
	disk.SetHook(tr.hook)
	check.OK(t, s.Put(x.Extent, offset, record))
	disk.SetHook(nil)
	name := filepath.Base(s.path(x.Extent, openSuffix))
	tr.before(t, "write "+name, "sync "+name)
}

// Restored extents have their names before the manifest lists them: a start would take those without a file for lost.
func TestRestoredExtentsAreNamedBeforeTheManifestListsThem(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		s := open(t, check.MemoryDir(t), Options{})
		p := random(1, 10_000)
		kept := []content{{store(t, s, p), p}}
		crashimage.Prepared(t, dir)
		check.OK(t, extract(t, s, filepath.Join(dir, "extents"), refsOf(&kept)))
	})
	r.Order(t, "rename extents/*"+copySuffix, "sync extents", "write extents/"+ManifestFile+".part",
		"rename extents/"+ManifestFile+".part", "sync extents")
}

// Marks of before belong to another manifest, which they would make of this one: they are gone before Accept returns.
func TestAnAcceptedLossIsDurable(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		from := check.MemoryDir(t) // of a process that was killed: an orderly end removes the marks
		s := open(t, from, Options{})
		x := store(t, s, random(1, 10_000))[0]
		check.OK(t, os.CopyFS(dir, os.DirFS(from)))
		check.OK(t, os.Remove(filepath.Join(dir, filepath.Base(s.path(x.Extent, openSuffix)))))
		crashimage.Prepared(t, dir)
		lost := 0
		check.OK(t, Accept(dir, filepath.Join(dir, "aside"), func(string) {}, func(string) { lost++ }))
		if lost != 1 {
			t.Errorf("%d extents are lost, want 1", lost)
		}
	})
	r.Durable(t, nil)
	r.Order(t, "rename "+ManifestFile+".part", "sync .", "remove "+MarksFile, "sync .")
}

// A damaged extent is in the folder aside before the repaired one has its place.
func TestARepairedExtentIsDurable(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		from := check.MemoryDir(t)
		s := open(t, from, Options{})
		p := random(1, 10_000)
		kept := []content{{store(t, s, p), p}}
		path := s.path(kept[0].slices[0].Extent, openSuffix)
		check.OK(t, os.CopyFS(dir, os.DirFS(from)))
		f := check.Must(os.OpenFile(filepath.Join(dir, filepath.Base(path)), os.O_RDWR, 0))(t)
		_, err := f.WriteAt([]byte{p[5000] ^ 1}, kept[0].slices[0].Offset+5000)
		check.OK(t, err)
		check.OK(t, f.Close())
		crashimage.Prepared(t, dir)
		if n, err := Repair(dir, filepath.Join(dir, "aside"), refsOf(&kept), func(string) {}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	})
	r.Order(t, "write aside/*"+openSuffix, "sync aside/*"+openSuffix, "sync aside", "sync .",
		"rename "+ManifestFile+".part")
}
