package store

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// The log drops what the file has: so the file's name is on disk before it follows the log.
func TestAFileHasItsNameBeforeItFollowsALog(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		c := natscluster.Start(t, 1)
		crashimage.Prepared(t, dir)
		closeChecked(t, openAt(t, filepath.Join(dir, "db"), Options{Log: openLog(t, c, 0, "shared")}))
	})
	r.Order(t, "create db", "write db", "sync .")
}

// The mark of a log that has one view is on disk, with its name, before the file says that it needs the mark.
func TestTheMarkOfAPrivateLogIsDurable(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		path, c := filepath.Join(dir, "db"), natscluster.Start(t, 1)
		closeChecked(t, openAt(t, path, Options{Log: openLog(t, c, 0, "alone"), Private: true}))
		crashimage.Prepared(t, dir)
		closeChecked(t, openAt(t, path, Options{Log: openLog(t, c, 0, "alone"), Private: true}))
	})
	r.Order(t, "create db-mark", "write db-mark", "sync db-mark", "sync .", "write db")
}

// A file that was made from a snapshot has its name before the log goes on from there.
func TestAFileFromASnapshotHasItsNameDurably(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		c := natscluster.Start(t, 1)
		a := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
		fillNode(t, a, 1000)
		check.OK(t, a.Snapshot(t.Context()))
		fillNode(t, a, 1000)
		check.OK(t, a.Snapshot(t.Context())) // which cuts the log at the one before
		crashimage.Prepared(t, dir)
		b := openAt(t, filepath.Join(dir, "db"), Options{Log: openLog(t, c, 0, "shared")})
		if content(t, a) != content(t, b) {
			t.Error("the new node has other data")
		}
	})
	r.Order(t, "sync db"+joinSuffix, "rename db"+joinSuffix, "sync .")
}

// The file is at no moment ahead of its log: a checkpoint syncs the log first, and writes nothing if that fails.
func TestACheckpointSyncsTheReplicatedLogFirst(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	var mu sync.Mutex
	var order []string
	note := func(what string) error {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
		return nil
	}
	l := check.Must(replog.Open(t.Context(), confirmed(t, c, 0, replog.Config{Conn: c.Conn(t, 0), Name: "synced",
		Replicas: 1, Node: "n0", Timeout: logTimeout, Log: slog.New(slog.DiscardHandler),
		Sync: func(string) error { return note("log") }})))(t)
	db := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: l})
	db.fault = func() error { return note("file") }
	put(t, db, "a", "k", "v")
	check.OK(t, db.freeze())
	check.OK(t, db.awaitCheckpoint())
	mu.Lock()
	defer mu.Unlock()
	if len(order) < 2 || order[0] != "log" || !slices.Contains(order, "file") {
		t.Errorf("a checkpoint does %q, want the log first", order)
	}
}

// After a sync of the file has failed, the two pages that lead to all others are on disk before pages are used again.
func TestTheMetaPagesAreSyncedAgain(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		db := openAt(t, filepath.Join(dir, "db"), Options{})
		put(t, db, "a", "k", "v")
		check.OK(t, db.keepMetas())
		crashimage.Prepared(t, dir)
		check.OK(t, db.resync())
		if db.unsynced != nil {
			t.Error("they are written with the next transaction again")
		}
		check.OK(t, os.WriteFile(filepath.Join(dir, "after"), nil, 0o600)) // the end of the test syncs the file, too
	})
	r.Order(t, "write db", "sync db", "truncate after")
}
