package store

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// A leader waits for the callers that the last group has answered, and they share a sync or an append.
func TestCallersThatWereAnsweredShareTheNextCommit(t *testing.T) {
	t.Parallel()
	t.Run("sync", func(t *testing.T) {
		t.Parallel()
		db := openAt(t, filepath.Join(t.TempDir(), "db"), Options{})
		checkOneCommit(t, db, func() int64 { groups, _ := db.Commits(); return groups })
	})
	t.Run("append", func(t *testing.T) {
		t.Parallel()
		db := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, natscluster.Start(t, 1), 0, "shared")})
		checkOneCommit(t, db, func() int64 { return int64(db.replica.log.Status().Appends) })
	})
}

// checkOneCommit makes calls after a group that had answered as many.
func checkOneCommit(t *testing.T, db *DB, commits func() int64) {
	const callers = 8
	now := time.Now()
	db.mu.Lock()
	db.gathering.Limit = time.Hour
	db.gathering.Committed(callers, 0, now.Add(-time.Hour), now)
	db.mu.Unlock()
	before := commits()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if err := increment(db, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := commits() - before; got != 1 {
		t.Errorf("%d commits for %d calls, want 1", got, callers)
	}
}
