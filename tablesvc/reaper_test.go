package tablesvc

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// put writes n entities of a table straight into the store.
func put(t *testing.T, db *store.DB, table uint64, n int) {
	t.Helper()
	ok(t, db.Update(func(tx *store.Tx) error {
		for i := range n {
			tx.Put(bucketEntities, entity.AppendKey(nil, table, "p", string(rune('a'+i))), entity.NewRecord(entity.MinTicks, 0))
		}
		return nil
	}))
}

func count(t *testing.T, db *store.DB, table uint64) (n int) {
	t.Helper()
	ok(t, db.View(func(tx *store.Tx) error {
		n = 0
		c := tx.Cursor(bucketEntities)
		for k, _ := c.Seek(tableIDKey(table)); bytes.HasPrefix(k, tableIDKey(table)); k, _ = c.Next() {
			n++
		}
		return nil
	}))
	return n
}

// TestReaperWorksInBatches: each step removes no more than a batch, and the neighbours of a deleted table stay.
func TestReaperWorksInBatches(t *testing.T) {
	db, err := Open(filepath.Join(t.TempDir(), "tables.db"), store.Options{Relaxed: true})
	ok(t, err)
	defer db.Close()
	for table := uint64(1); table <= 4; table++ {
		put(t, db, table, 10)
	}
	ok(t, db.Update(func(tx *store.Tx) error {
		tx.Put(bucketDoomed, tableIDKey(2), []byte{})
		tx.Put(bucketDoomed, tableIDKey(4), []byte{})
		return nil
	}))
	r := reaper{db: db, batch: 4}
	for i, left := range [][2]int{{6, 10}, {2, 10}, {0, 10}, {0, 6}, {0, 2}, {0, 0}} {
		if more, err := r.step(); err != nil || !more {
			t.Fatalf("step %d: %v, %v", i, more, err)
		}
		if got := [2]int{count(t, db, 2), count(t, db, 4)}; got != left {
			t.Fatalf("after step %d there are %v left, want %v", i, got, left)
		}
	}
	if more, err := r.step(); err != nil || more {
		t.Errorf("there is more to do: %v, %v", more, err)
	}
	if count(t, db, 1) != 10 || count(t, db, 3) != 10 {
		t.Error("entities of other tables went")
	}
}

// TestReaperResumes: what a stopped process left is removed by the next one.
func TestReaperResumes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tables.db")
	db, err := Open(path, store.Options{Relaxed: true})
	ok(t, err)
	put(t, db, 1, 20)
	ok(t, db.Update(func(tx *store.Tx) error { tx.Put(bucketDoomed, tableIDKey(1), []byte{}); return nil }))
	r := startReaper(db, slog.New(slog.DiscardHandler))
	r.stop()
	r.stop() // twice is once
	ok(t, db.Close())

	if db, err = Open(path, store.Options{Relaxed: true}); err != nil {
		t.Fatal(err)
	}
	r = startReaper(db, slog.New(slog.DiscardHandler))
	waitEmpty(t, db, 1) // it began by itself
	r.stop()
	ok(t, db.Close())
}

// TestReaperIsTold: a deletion sets it to work.
func TestReaperIsTold(t *testing.T) {
	f := start(t)
	fill(t, f.table("people"), "p", 20, "x")
	if n := count(t, f.svc.db, 1); n != 20 {
		t.Fatalf("the first table has %d entities", n)
	}
	_, err := f.sdk.DeleteTable(ctx, "people", nil)
	ok(t, err)
	waitEmpty(t, f.svc.db, 1)
}

// waitEmpty waits until a table has no entities.
func waitEmpty(t *testing.T, db *store.DB, table uint64) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); count(t, db, table) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the entities of a deleted table are still there")
		}
	}
}
