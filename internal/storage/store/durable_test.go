package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// marksOnly are files that a power failure may take, since another one says the same.
var marksOnly = []string{MarksFile}

// A file that was closed has all: a log, or a mark, that came back would be applied to it, or refuse it.
func TestAClosedFileHasNoLogAfterAPowerFailure(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		db := openAt(t, filepath.Join(dir, "db"), Options{})
		put(t, db, "a", "k", "v")
		closeChecked(t, db)
	})
	r.Durable(t, marksOnly)
	r.Order(t, "remove db-log0", "remove db-log1", "remove mark-db", "sync .")
}

// The first mark of an opening is on disk before a record of it is acknowledged: without one, an older copy of the
// file, with its log, would be taken for this one.
func TestTheFirstMarkIsDurable(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		db := openAt(t, filepath.Join(dir, "db"), Options{})
		put(t, db, "a", "k", "v")
		crashimage.Prepared(t, dir)
		closeChecked(t, db)
		db = openAt(t, filepath.Join(dir, "db"), Options{})
		put(t, db, "a", "k", "w")
	})
	r.Order(t, "create db-mark", "write db-mark", "sync db-mark", "sync .", "write db-log*", "sync db-log*")
}

// A file of a backup or an import has its content and its name when Create returns; a file that was set aside is not in
// its former place again.
func TestFilesMadeAndSetAsideAreDurable(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		db := openAt(t, filepath.Join(check.MemoryDir(t), "db"), Options{})
		fillNode(t, db, 1000)
		made := filepath.Join(dir, "made")
		check.OK(t, os.Mkdir(made, 0o700))
		check.OK(t, os.WriteFile(filepath.Join(dir, "damaged"), []byte("x"), 0o600))
		crashimage.Prepared(t, dir)
		check.OK(t, db.Extract(filepath.Join(made, "db")))
		check.OK(t, SetAside(filepath.Join(dir, "damaged"), "damaged"))
		closeChecked(t, db)
	})
	r.Durable(t, nil)
}

// While a file is repaired, the damaged one and its log are in their new folder before the repaired one has the name,
// and that one is whole.
func TestARepairIsDurable(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		sample(t, dir, true)
		f := check.Must(os.OpenFile(filepath.Join(dir, "db"), os.O_RDWR, 0))(t)
		_, err := f.WriteAt([]byte("damage"), 5*4096+100)
		check.OK(t, err)
		check.OK(t, f.Close())
		crashimage.Prepared(t, dir)
		check.Must(Repair(filepath.Join(dir, "db"), []Bucket{"a", "b"}, filepath.Join(dir, "aside"), nil,
			func(*DamageError) {}))(t)
	})
	r.Durable(t, nil)
	r.Order(t, "sync db-repair", "link db", "rename db-log0", "sync aside", "rename db-repair", "sync .")
}

// placed are attachments that note which files are there when they are synced.
type placed struct {
	*attached
	dir   string
	found []string
}

func (p *placed) Sync() error {
	entries, err := os.ReadDir(p.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "db-log") {
			p.found = append(p.found, e.Name())
		}
	}
	if err != nil {
		return err
	}
	return p.attached.Sync()
}

// The log is the only other place of what is attached: it leaves its place after the extents are synced.
func TestARepairSyncsAttachmentsBeforeTheLogGoes(t *testing.T) {
	t.Parallel()
	dir := check.MemoryDir(t)
	a := &placed{attached: newAttached(), dir: dir}
	sample(t, dir, true)
	check.Must(Repair(filepath.Join(dir, "db"), []Bucket{"a", "b"}, filepath.Join(dir, "aside"), a,
		func(d *DamageError) { t.Error(d) }))(t)
	if len(a.found) == 0 {
		t.Error("the attachments were not synced while the log was in its place")
	}
}
