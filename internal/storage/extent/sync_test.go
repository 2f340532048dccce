package extent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// trace notes the changes of a disk, as "kind name" with the base names of files.
type trace struct {
	mu  sync.Mutex
	ops []string
}

func (tr *trace) hook(op faultdisk.Op) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.ops = append(tr.ops, string(op.Kind)+" "+filepath.Base(op.Name))
	return nil
}

// before fails the test unless the operations are in the trace in this order.
func (tr *trace) before(t *testing.T, wanted ...string) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	rest := tr.ops
	for _, want := range wanted {
		at := slices.Index(rest, want)
		if at < 0 {
			t.Fatalf("%q is not in its place of %q; all operations:\n%s", want, wanted, strings.Join(tr.ops, "\n"))
		}
		rest = rest[at+1:]
	}
}

// The process that wrote an extent was killed: its last writes may be in the memory of the system alone. Once the
// extent has its final name nothing syncs it any more, so that a power failure after the start would take content that
// was acknowledged.
func TestARecoveredExtentIsSyncedBeforeItIsNamed(t *testing.T) {
	t.Parallel()
	dir, killed := t.TempDir(), t.TempDir()
	s := open(t, dir, Options{})
	p := random(1, 10_000)
	slices := store(t, s, p)
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	unfinished, err := filepath.Glob(filepath.Join(killed, "*"+openSuffix))
	if err != nil || len(unfinished) != 1 {
		t.Fatalf("%d unfinished extents, %v; want 1", len(unfinished), err)
	}

	disk, tr := &faultdisk.FS{}, &trace{}
	disk.SetHook(tr.hook)
	again := open(t, killed, Options{FS: disk, Refs: refsOf(&[]content{{slices, p}})})
	if got := load(t, again, slices, 0, int64(len(p))); string(got) != string(p) {
		t.Error("the content is another one")
	}
	name := filepath.Base(unfinished[0])
	tr.before(t, "sync "+name, "rename "+name, "syncdir "+filepath.Base(killed))
}

// The manifest says that there is a file of marks; a start without that file is refused. So its content and its name
// are durable before that manifest is.
func TestTheMarksAreDurableBeforeTheManifestNamesThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk, tr := &faultdisk.FS{}, &trace{}
	disk.SetHook(tr.hook)
	s := open(t, dir, Options{FS: disk})
	store(t, s, random(1, 10_000))
	tr.before(t, "create "+MarksFile, "write "+MarksFile, "sync "+MarksFile, "syncdir "+filepath.Base(dir),
		"rename "+ManifestFile+".part")
}

// A start takes an extent that the manifest lists, and that has no file, for a loss. So the file and its name are
// durable before the manifest lists it; and the content is durable before the write is acknowledged.
func TestAnExtentIsDurableBeforeTheManifestListsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk, tr := &faultdisk.FS{}, &trace{}
	s := open(t, dir, Options{FS: disk})
	disk.SetHook(tr.hook)
	x := store(t, s, random(2, 10_000))[0]
	disk.SetHook(nil)
	name := filepath.Base(s.path(x.Extent, openSuffix))
	tr.before(t, "create "+name, "sync "+name, "syncdir "+filepath.Base(dir), "rename "+ManifestFile+".part",
		"write "+name, "sync "+name)
	// The file of marks, which is made next, syncs the folder, too; for later extents it is there.
	if at := slices.Index(tr.ops, "sync "+name); tr.ops[at+1] != "syncdir "+filepath.Base(dir) {
		t.Errorf("%q follows the sync of the extent's file", tr.ops[at+1])
	}
}

// SyncPuts syncs the file of a copy alone. So its name is durable before a record is in it, and the record is durable
// when SyncPuts returns.
func TestACopyIsDurableBeforeItsRecordsAre(t *testing.T) {
	t.Parallel()
	from := open(t, t.TempDir(), Options{Mirrored: true})
	check.OK(t, from.Mirror(alone{}, 7))
	x := store(t, from, random(1, 500))[0]
	offset, record, err := from.Record(x)
	check.OK(t, err)

	dir := t.TempDir()
	disk, tr := &faultdisk.FS{}, &trace{}
	s := open(t, dir, Options{FS: disk, Mirrored: true})
	check.OK(t, s.Mirror(alone{}, 8))
	disk.SetHook(tr.hook)
	check.OK(t, s.Put(x.Extent, offset, record))
	check.OK(t, s.SyncPuts(x.Extent))
	disk.SetHook(nil)
	name := filepath.Base(s.path(x.Extent, copySuffix))
	tr.before(t, "create "+name, "sync "+name, "syncdir "+filepath.Base(dir), "write "+name, "sync "+name)
}
