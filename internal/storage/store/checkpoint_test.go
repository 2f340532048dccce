package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A transaction of a checkpoint has as many keys as belong in, or fill, a limited number of pages, and the last one the
// progress of the file, too.
func TestCheckpointsAreSplitByPages(t *testing.T) {
	t.Parallel()
	db := open(t, Options{Relaxed: true})
	db.memtableSize = 64 << 20
	transactions := 0
	db.fault = func() error { transactions++; return nil }
	// checkpoint puts keys and returns the number of transactions that write them to the file.
	checkpoint := func(keys int, key func(i int) string, value string) int {
		check.OK(t, db.Update(func(tx *Tx) error {
			for i := range keys {
				tx.Put("a", []byte(key(i)), []byte(value))
				if i < 10 {
					tx.Put("b", []byte(key(i)), nil) // in the same transaction as the last of the others
				}
			}
			return nil
		}))
		transactions = 0
		check.OK(t, db.freeze())
		check.OK(t, db.awaitCheckpoint())
		return transactions
	}
	key := func(i int) string { return fmt.Sprintf("%06d", i) }
	for _, tc := range []struct {
		name  string
		keys  int
		key   func(int) string
		value string
		want  func(n int) bool
	}{
		{"values that fill 1,500 pages", 6000, key, strings.Repeat("x", 1024), func(n int) bool { return n == 3 }},
		{"one key in each leaf", 1500, func(i int) string { return key(4*i) + " " }, "",
			func(n int) bool { return n >= 2 && n <= 4 }},
		{"small keys in few leaves", 3000, func(i int) string { return key(0) + key(i) }, "",
			func(n int) bool { return n == 1 }},
		{"too many small keys", 2*chunkKeys - 10, func(i int) string { return key(1) + key(i) }, "",
			func(n int) bool { return n == 2 }},
	} {
		if n := checkpoint(tc.keys, tc.key, tc.value); !tc.want(n) {
			t.Errorf("%s: %d transactions", tc.name, n)
		}
	}
}

// A checkpoint that failed is tried again by a write that comes when the memtable has grown to its size again, and not
// only when it has grown to the size at which writers wait.
func TestAFailedCheckpointIsTriedAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{Relaxed: true})
	db.memtableSize = 20 * entryOverhead
	var full atomic.Bool
	full.Store(true)
	db.fault = func() error {
		if full.Load() {
			return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
		}
		return nil
	}
	n := 0
	fill := func(until func(*layers) bool) {
		t.Helper()
		for ; !until(db.layers.Load()); n++ {
			if n > 1000 {
				t.Fatal("the memtable does not grow")
			}
			put(t, db, "a", fmt.Sprint(n), "v")
		}
	}
	fill(func(l *layers) bool { return l.frozen != nil })
	if err := db.awaitCheckpoint(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the checkpoint: %v, want ENOSPC", err)
	}
	fill(func(l *layers) bool { return l.active.bytes >= db.memtableSize })
	full.Store(false)
	put(t, db, "a", "again", "v")
	if err := db.awaitCheckpoint(); err != nil || db.layers.Load().frozen != nil {
		t.Errorf("after the next write: %v, and the memtable was written: %v", err, db.layers.Load().frozen == nil)
	}
}
