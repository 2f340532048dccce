package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A transaction of a checkpoint has as many keys as belong in, or fill, a limited number of pages.
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
			}
			return nil
		}))
		transactions = 0
		check.OK(t, db.freeze())
		check.OK(t, db.awaitCheckpoint())
		return transactions - 1 // the last one has only the progress
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
		{"too many small keys", 2 * chunkKeys, func(i int) string { return key(1) + key(i) }, "",
			func(n int) bool { return n == 2 }},
	} {
		if n := checkpoint(tc.keys, tc.key, tc.value); !tc.want(n) {
			t.Errorf("%s: %d transactions", tc.name, n)
		}
	}
}
