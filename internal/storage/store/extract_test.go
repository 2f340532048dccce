package store

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestExtractWritesAFileOfASingleServer(t *testing.T) {
	t.Parallel()
	buckets := []Bucket{"a", "b"}
	db := check.Must(Open(filepath.Join(t.TempDir(), "db"), Options{Buckets: buckets}))(t)
	defer db.Close()
	put := func(from, to int) {
		t.Helper()
		check.OK(t, db.Update(func(tx *Tx) error {
			for i := from; i < to; i++ {
				tx.Put(buckets[i%2], fmt.Appendf(nil, "%05d", i), fmt.Append(nil, "value ", i))
			}
			return nil
		}))
	}
	put(0, 20000) // several frames
	path := filepath.Join(t.TempDir(), "extracted")
	check.OK(t, db.Extract(path))
	put(20000, 20010) // later
	if err := db.Extract(path); err == nil {
		t.Error("a file that exists was replaced")
	}

	to := check.Must(Open(path, Options{Buckets: buckets}))(t)
	defer to.Close()
	check.OK(t, to.Check(func(err error) { t.Error(err) }))
	check.OK(t, to.View(func(tx *Tx) error {
		n := 0
		for _, b := range buckets {
			c := tx.Scan(b)
			for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
				var i int
				check.Must(fmt.Sscanf(string(k), "%d", &i))(t)
				if string(v) != fmt.Sprint("value ", i) || buckets[i%2] != b {
					t.Fatalf("%q in %s is %q", k, b, v)
				}
				n++
			}
		}
		if n != 20000 {
			t.Errorf("%d entries", n)
		}
		return nil
	}))
	check.OK(t, to.Update(func(tx *Tx) error { tx.Put("a", []byte("more"), []byte("x")); return nil }))
}
