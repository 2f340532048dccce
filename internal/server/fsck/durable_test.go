package fsck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	must "github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// Files that were swapped have their own names.
func TestSwappedFilesAreDurable(t *testing.T) {
	t.Parallel()
	crashimage.OfTest(t, func(dir string) {
		for _, name := range []string{"a", "a-log0", "b", "b-mark"} {
			must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("content of "+name), 0o600))
		}
		crashimage.Prepared(t, dir)
		must.OK(t, swap(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	}).Durable(t, nil)
}

// A file that was set aside is in its folder, and does not come back to its place.
func TestAFileSetAsideStaysAside(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		path := filepath.Join(dir, "data")
		d := must.Must(datadir.Open(path))(t)
		for _, name := range []string{"tables.db", "tables.db-log1"} {
			must.OK(t, os.WriteFile(filepath.Join(path, name), []byte("damaged"), 0o600))
		}
		crashimage.Prepared(t, dir)
		must.OK(t, (&check{dir: d}).setAside("tables.db"))
	})
	r.Durable(t, []string{"LOCK"})
}

// The damaged log of the queues, and the file that needs it, are in their new folder, and the file that needs no log
// has the name.
func TestRepairedQueuesAreDurable(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		path := filepath.Join(dir, "data")
		must.OK(t, os.CopyFS(path, os.DirFS(populate(t))))
		blocks, err := filepath.Glob(filepath.Join(path, "queues", "jetstream", "*", "streams", "*", "msgs", "*.blk"))
		if err != nil || len(blocks) != 1 {
			t.Fatal(blocks, err)
		}
		log := must.Must(os.ReadFile(blocks[0]))(t)
		log[len(log)/2] ^= 1
		must.OK(t, os.WriteFile(blocks[0], log, 0o600))
		crashimage.Prepared(t, dir)
		report := must.Must(Check(t.Context(), path, Options{Repair: true}))(t)
		if !strings.Contains(strings.Join(report.Repaired, " "), "a file that needs no log") {
			t.Errorf("repaired: %q", report.Repaired)
		}
	})
	r.Durable(t, []string{"LOCK", "RESERVE", "MARKS"})
	r.Order(t, "rename data/queues", "rename data/queues.db", "rename data/queues.db-repair", "sync data/damaged/*",
		"sync data")
}
