package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// TestEveryOperationCanFail makes each write, sync, creation and removal of a run fail, one run for each, for a moment
// or for good. The store must name the error, keep everything acknowledged, continue if nothing is uncertain, and leave
// files without damage. bbolt writes the main file itself: see TestDiskFull and TestCheckpointFails for its errors.
func TestEveryOperationCanFail(t *testing.T) {
	t.Parallel()
	faultdisk.Sweep(t, runWithFailure)
}

// runWithFailure makes the n-th operation of a run fail. It reports whether the run had so many.
func runWithFailure(t *testing.T, n int, failure faultdisk.Failure) bool {
	t.Helper()
	path := filepath.Join(check.MemoryDir(t), "db")
	fsys := &faultdisk.FS{}
	calls := fsys.Fail(n, failure)
	what := func() string { return fmt.Sprintf("operation %d fails with %v", n, failure.Err) }
	db, err := Open(path, Options{Buckets: []Bucket{"a", "b"}, FS: fsys})
	if err != nil {
		if !errors.Is(err, failure.Err) {
			t.Errorf("%s: open: %v", what(), err)
		}
		fsys.SetHook(nil)
		closeChecked(t, openAt(t, path, Options{FS: fsys}))
		return true
	}
	db.memtableSize = 400
	db.log.step = 512
	written, uncertain := model{}, map[string][]string{}
	reported := false
	for i := range 18 {
		k, v := fmt.Sprint(i%7), fmt.Sprintf("%0100d", i)
		err := db.Update(putting(k, v))
		reported = reported || err != nil
		switch {
		case err == nil:
			written[k] = v
			delete(uncertain, k)
		case !errors.Is(err, failure.Err):
			t.Errorf("%s: update: %v does not have the cause", what(), err)
		case errors.Is(err, ErrFailed):
			uncertain[k] = append(uncertain[k], v)
		}
		_ = db.awaitCheckpoint() // one operation at a time; a failed one is repeated
	}
	fsys.SetHook(nil)
	hit := calls() >= n
	// A log that cannot grow by its step grows by what it needs, and a mark that is not written says less.
	grown := failure.Err == syscall.ENOSPC && failure.Once
	unmarked := strings.Contains(strings.ToLower(filepath.Base(fsys.Failed().Name)), "mark")
	if hit && !reported && !grown && !unmarked {
		t.Errorf("%s, and no call returned an error", what())
	}
	for k, v := range written {
		want(t, db, "a", k, v)
	}
	err = db.Update(putting("after", "1"))
	if failed := db.failed.Load() != nil; failed != errors.Is(err, ErrFailed) || !failed && err != nil {
		t.Errorf("%s: the store has failed: %v; an update afterwards: %v", what(), failed, err)
	}
	killed := check.MemoryDir(t)
	snapshotDir(t, filepath.Dir(path), killed)
	closeErr := db.Close()
	if closeErr != nil && !errors.Is(closeErr, ErrFailed) {
		t.Errorf("%s: close: %v", what(), closeErr)
	}
	for _, path := range []string{filepath.Join(killed, "db"), path} {
		if found := examine(t, path); found > 0 {
			t.Errorf("%s: %d problems in the files", what(), found)
		}
		db := openAt(t, path, Options{})
		got := bucketContent(t, db, "a")
		for k := range written {
			if got[k] != written[k] && !slices.Contains(uncertain[k], got[k]) {
				t.Errorf("%s: after opening again %s is %q, want %q", what(), k, got[k], written[k])
			}
		}
		closeChecked(t, db)
	}
	return hit
}
