package table

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// put writes n entities of a table straight into the store.
func put(t *testing.T, db *store.DB, table uint64, n int) {
	t.Helper()
	check.OK(t, db.Update(func(tx *store.Tx) error {
		for i := range n {
			tx.Put(bucketEntities, entity.AppendKey(nil, table, "p", string(rune('a'+i))), entity.NewRecord(entity.MinTicks, 0))
		}
		return nil
	}))
}

func count(t *testing.T, db *store.DB, table uint64) (n int) {
	t.Helper()
	check.OK(t, db.View(func(tx *store.Tx) error {
		n = 0
		c := tx.Cursor(bucketEntities)
		for k, _ := c.Seek(tableIDKey(table)); bytes.HasPrefix(k, tableIDKey(table)); k, _ = c.Next() {
			n++
		}
		return nil
	}))
	return n
}

// TestCleanerRemovesInBatches: each step removes no more than a batch, and the neighbours of a deleted table stay.
func TestCleanerRemovesInBatches(t *testing.T) {
	t.Parallel()
	db, err := OpenFile(filepath.Join(t.TempDir(), "tables.db"), store.Options{Relaxed: true})
	check.OK(t, err)
	defer db.Close()
	for table := uint64(1); table <= 4; table++ {
		put(t, db, table, 10)
	}
	check.OK(t, db.Update(func(tx *store.Tx) error {
		tx.Put(bucketDeleted, tableIDKey(2), []byte{})
		tx.Put(bucketDeleted, tableIDKey(4), []byte{})
		return nil
	}))
	r := cleaner{db: db, batch: 4}
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
		t.Error("entities of other tables were removed")
	}
}

// A position in another table has no meaning in this one; and a step that fails keeps its position, and says so.
func TestPositionsOfTheCleaner(t *testing.T) {
	t.Parallel()
	db, err := OpenFile(filepath.Join(t.TempDir(), "tables.db"), store.Options{Relaxed: true})
	check.OK(t, err)
	put(t, db, 2, 10)
	check.OK(t, db.Update(func(tx *store.Tx) error { tx.Put(bucketDeleted, tableIDKey(2), []byte{}); return nil }))
	r := cleaner{db: db, batch: 4, from: entity.AppendKey(nil, 3, "p", "a")}
	if _, err := r.step(); err != nil || count(t, db, 2) != 6 {
		t.Errorf("from a position of another table: %d entities are left, %v; want 6", count(t, db, 2), err)
	}
	check.OK(t, db.Close())
	from := bytes.Clone(r.from)
	if _, err := r.step(); err == nil || !bytes.Equal(r.from, from) || from == nil {
		t.Errorf("a step that fails: %v, and the position %x after %x", err, r.from, from)
	}
}

// What one process leaves is removed by the next one.
func TestCleanerResumes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tables.db")
	db, err := OpenFile(path, store.Options{Relaxed: true})
	check.OK(t, err)
	put(t, db, 1, 20)
	check.OK(t, db.Update(func(tx *store.Tx) error { tx.Put(bucketDeleted, tableIDKey(1), []byte{}); return nil }))
	check.OK(t, db.Close())
	waitEmpty(t, open(t, path), 1) // it begins without a call
}

func TestDeleteTableWakesTheCleaner(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tables.db"))
	numberTables(t, s.db)
	check.OK(t, s.CreateTable("acc", "people", time.Now()))
	put(t, s.db, 1, 20)
	if n := count(t, s.db, 1); n != 20 {
		t.Fatalf("the first table has %d entities", n)
	}
	check.OK(t, s.DeleteTable("acc", "people"))
	waitEmpty(t, s, 1)
}

// numberTables makes the ids of tables begin with 1.
func numberTables(t *testing.T, db *store.DB) {
	t.Helper()
	check.OK(t, db.Update(func(tx *store.Tx) error {
		tx.Put(bucketService, keyNextTableID, tableIDKey(1))
		return nil
	}))
}

// waitEmpty waits until a table has no entities.
func waitEmpty(t *testing.T, s *Store, table uint64) {
	t.Helper()
	check.Eventually(t, func() bool { return count(t, s.db, table) == 0 },
		"the entities of a deleted table are still in the store")
}

// open opens a store until the test ends.
func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, store.Options{Relaxed: true}, Follower{}, slog.New(slog.DiscardHandler))
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, s.Close()) })
	return s
}
