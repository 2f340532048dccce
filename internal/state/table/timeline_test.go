package table

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// When a snapshot replaces the state, positions from after the snapshot are unknown, even if the log has their numbers
// again. Those from before are known.
func TestPositionsAfterASnapshotIsRestored(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	begin := f.want(t, "", nil)
	f.insert(t, "a")
	first := f.want(t, begin, []string{"a"})
	one := f.copy(t)

	f.insert(t, "lost1")
	lost := f.want(t, first, []string{"lost1"})
	f.restore(t, one)
	f.want(t, lost, nil) // The number is greater than the log's.
	f.insert(t, "b")
	f.insert(t, "c")
	f.want(t, lost, nil) // The log has the number, of another change.
	f.want(t, begin, []string{"a", "b", "c"})
	second := f.want(t, first, []string{"b", "c"})

	two := f.copy(t)
	f.insert(t, "lost2")
	lost2 := f.want(t, second, []string{"lost2"})
	f.restore(t, two)
	f.insert(t, "d")
	f.want(t, second, []string{"d"})
	f.want(t, first, []string{"b", "c", "d"})
	f.want(t, lost, nil)
	f.want(t, lost2, nil)

	f.restore(t, one) // the older of the two
	f.insert(t, "e")
	f.want(t, first, []string{"e"})
	f.want(t, second, nil)
	f.want(t, lost2, nil)
}

// A table that is created after a snapshot was restored is not taken for one of its name that the replaced state had.
func TestTableIDsAfterASnapshotIsRestored(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	check.OK(t, f.DeleteTable("acc", "Orders"))
	empty := f.copy(t)
	check.OK(t, f.CreateTable("acc", "Orders", f.now))
	lost := f.want(t, "", nil)
	f.restore(t, empty)
	check.OK(t, f.CreateTable("acc", "Orders", f.now))
	f.want(t, "", nil)
	f.want(t, lost, nil)
}

func TestOldTimelinesAreForgotten(t *testing.T) {
	t.Parallel()
	var all timelines
	for id := uint64(1); id <= 2*maxTimelines; id++ {
		all = all.fork(id, id*10)
	}
	back, err := decodeTimelines(all.append(nil))
	check.OK(t, err)
	if len(back) != maxTimelines || !back.knows(2*maxTimelines, 1<<40) || back.knows(0, 1) || back.knows(1, 1) {
		t.Errorf("%d: %v", len(back), back)
	}
	previous := uint64(2*maxTimelines - 1)
	if end := (previous + 1) * 10; !back.knows(previous, end) || back.knows(previous, end+1) {
		t.Errorf("%v", back)
	}
	if _, err := decodeTimelines(make([]byte, 15)); err == nil {
		t.Error("damaged timelines are decoded")
	}
}

// copy returns the folder of a copy of the state.
func (f *feedFixture) copy(t *testing.T) string {
	t.Helper()
	check.OK(t, f.Close())
	to := t.TempDir()
	check.OK(t, os.CopyFS(to, os.DirFS(f.dir)))
	f.Store = open(t, filepath.Join(f.dir, "tables.db"))
	return to
}

// restore replaces the state by a copy, as a restored snapshot does.
func (f *feedFixture) restore(t *testing.T, from string) {
	t.Helper()
	check.OK(t, f.Close())
	f.dir = t.TempDir()
	check.OK(t, os.CopyFS(f.dir, os.DirFS(from)))
	f.now = f.now.Add(time.Second)
	path := filepath.Join(f.dir, "tables.db")
	check.OK(t, Fork(path, f.now))
	f.Store = open(t, path)
}
