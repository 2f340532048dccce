package bboltpage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A file that is written by a Writer has what bbolt's own writes would leave, at the moment of each sync: what is read
// from it is compared after each commit, and bbolt's own check finds nothing. Consecutive pages go in few calls.
func TestWriter(t *testing.T) {
	t.Parallel()
	db := check.Must(bolt.Open(filepath.Join(check.MemoryDir(t), "db"), 0o600, &bolt.Options{NoSync: true}))(t)
	defer db.Close()
	w := NewWriter(db)
	if w.write == nil {
		t.Fatal("the function by which bbolt writes was not found")
	}
	calls, own := 0, w.write
	w.write = func(b []byte, offset int64) (int, error) {
		calls++
		return own(b, offset)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	want := map[string]string{}
	pages := int64(0)
	for round := range 60 {
		tx := check.Must(db.Begin(true))(t)
		b := check.Must(tx.CreateBucketIfNotExists([]byte("b")))(t)
		for range rng.IntN(600) {
			key := binary.BigEndian.AppendUint32(nil, rng.Uint32N(5000))
			switch n := rng.IntN(10); {
			case n < 3:
				check.OK(t, b.Delete(key))
				delete(want, string(key))
			case n == 3 && round%8 == 0: // some values fill more than one write
				value := bytes.Repeat(key, rng.IntN(60_000))
				check.OK(t, b.Put(key, value))
				want[string(key)] = string(value)
			default:
				value := bytes.Repeat(key, rng.IntN(500))
				check.OK(t, b.Put(key, value))
				want[string(key)] = string(value)
			}
		}
		check.OK(t, w.Commit(tx))
		stats := tx.Stats()
		pages += stats.GetPageCount()
		got := map[string]string{}
		check.OK(t, db.View(func(tx *bolt.Tx) error {
			for err := range tx.Check() {
				t.Error(err)
			}
			return tx.Bucket([]byte("b")).ForEach(func(k, v []byte) error { got[string(k)] = string(v); return nil })
		}))
		if !maps.Equal(got, want) {
			t.Fatalf("round %d: the file has other content", round)
		}
	}
	if int64(calls) > pages/2 {
		t.Errorf("%d writes of %d pages", calls, pages)
	}
}

// All pages are written before bbolt syncs them, which is before it writes the meta page that refers to them; a commit
// whose pages cannot be written fails, and the next one finds the file as it was.
func TestWriterWritesPagesBeforeTheMetaPage(t *testing.T) {
	t.Parallel()
	db := check.Must(bolt.Open(filepath.Join(check.MemoryDir(t), "db"), 0o600, &bolt.Options{NoSync: true}))(t)
	defer db.Close()
	w := NewWriter(db)
	own, refused := w.write, errors.New("refused")
	var failAt, calls int
	w.write = func(b []byte, offset int64) (int, error) {
		if calls++; calls == failAt {
			return 0, refused
		}
		if meta := offset < int64(2*w.size); meta && len(w.waiting) > 0 {
			t.Error("the meta page was written before other pages")
		}
		return own(b, offset)
	}
	put := func(value string) error {
		tx := check.Must(db.Begin(true))(t)
		b := check.Must(tx.CreateBucketIfNotExists([]byte("b")))(t)
		for i := range 300 {
			check.OK(t, b.Put(binary.BigEndian.AppendUint32(nil, uint32(i)), bytes.Repeat([]byte(value), 500)))
		}
		return w.Commit(tx)
	}
	check.OK(t, put("a"))
	for failed := true; failed; failAt++ {
		calls = 0
		err := put("b")
		failed = failAt == 0 || err != nil
		if err != nil && !errors.Is(err, refused) {
			t.Fatal(err)
		}
		check.OK(t, db.View(func(tx *bolt.Tx) error {
			for err := range tx.Check() {
				t.Error(err)
			}
			if v := tx.Bucket([]byte("b")).Get(make([]byte, 4)); err != nil && failAt == 1 && v[0] != 'b' {
				t.Errorf("%q after a commit that failed", v[:1])
			}
			return nil
		}))
	}
	// A transaction that counts more pages than it writes, as none does, commits nothing.
	tx := check.Must(db.Begin(true))(t)
	w.tx, w.bytes, w.waiting = tx, -1<<40, make([]byte, 0, maxWrite)
	check.OK(t, tx.Bucket([]byte("b")).Put([]byte("k"), []byte("v")))
	if err := tx.Commit(); !errors.Is(err, errUnwritten) {
		t.Errorf("%v, want %v", err, errUnwritten)
	}
}
