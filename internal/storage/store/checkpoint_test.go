package store

import (
	"fmt"
	"strings"
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
		{"values that fill 3,000 pages", 12_000, key, strings.Repeat("x", 1024), func(n int) bool { return n == 3 }},
		{"one key in each leaf", 3000, func(i int) string { return key(4*i) + " " }, "",
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
