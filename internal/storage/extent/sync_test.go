package extent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

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
