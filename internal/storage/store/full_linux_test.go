package store

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/fulldisk"
)

// TestDiskFull fills the disk until writes fail, then makes room: everything acknowledged must be there, nothing of
// what was refused, and writes must go on without opening the file again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	if !fulldisk.Alone(t) {
		return
	}
	for _, c := range []struct {
		name         string
		limit        uint64
		memtableSize int
	}{
		{"log", 5 << 20, 64 << 20},        // the log cannot grow to its second step
		{"main file", 36 << 20, 64 << 10}, // small generations: the main file is the one that grows
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			db := openAt(t, path, Options{})
			db.memtableSize = c.memtableSize
			put(t, db, "a", "before", "1")
			lift := fulldisk.Limit(t, c.limit)
			value := bytes.Repeat([]byte("v"), 20_000)
			written, refused := 0, 0
			for refused < 3 && written < 10_000 {
				err := db.Update(func(tx *Tx) error { tx.Put("a", fmt.Appendf(nil, "%06d", written), value); return nil })
				if err != nil {
					refused++
				} else {
					written++
				}
			}
			if refused == 0 || written == 0 {
				t.Fatalf("%d written, %d refused: the test shows nothing", written, refused)
			}
			want(t, db, "a", fmt.Sprintf("%06d", written), "") // refused
			want(t, db, "a", fmt.Sprintf("%06d", written-1), string(value))
			lift()
			put(t, db, "a", "after", "1")
			closeChecked(t, db)

			db = openAt(t, path, Options{})
			want(t, db, "a", "before", "1")
			want(t, db, "a", "after", "1")
			for i := range written {
				want(t, db, "a", fmt.Sprintf("%06d", i), string(value))
			}
			want(t, db, "a", fmt.Sprintf("%06d", written), "")
		})
	}
}
