package table

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestRepair takes records away, and repairs the file: it is consistent then, has all entities, and says what is lost.
func TestRepair(t *testing.T) {
	t.Parallel()
	record := entity.NewRecord(entity.MinTicks, 0).Append("A", entity.Int32Value(1))
	change := (&FeedChange{Kind: Inserted, After: entity.NewRecord(0, 0)}).encode()
	for _, tc := range []struct {
		name   string
		damage func(tx *store.Tx)
		want   string // what is lost
		tables string
	}{
		{"nothing", func(*store.Tx) {}, "", "people"},
		{"a table", func(tx *store.Tx) { tx.Delete(bucketTables, tableKey("acc", "People")) },
			"its entities are in table lost1 of account devstoreaccount1", "lost1"},
		{"a table of several", func(tx *store.Tx) {
			tx.Put(bucketTables, tableKey("acc", "other"), (&Table{id: 3, Name: "other"}).encode())
			tx.Delete(bucketTables, tableKey("acc", "People"))
		}, "its entities are in table lost1 of account acc", "lost1 other"},
		{"that a table was deleted", func(tx *store.Tx) { tx.Delete(bucketDeleted, tableIDKey(2)) },
			"its entities are in table lost2 of account acc", "lost2 people"},
		{"the next id", func(tx *store.Tx) { tx.Delete(bucketService, keyNextTableID) }, "", "people"},
		{"all tables, and the next id", func(tx *store.Tx) {
			tx.Delete(bucketTables, tableKey("acc", "People"))
			tx.Delete(bucketDeleted, tableIDKey(2))
			tx.Delete(bucketService, keyNextTableID)
		}, "its entities are in table lost2 of account devstoreaccount1", "lost1 lost2"},
		{"a log of changes", func(tx *store.Tx) { tx.Put(bucketChanges, changeKey(1, 5), change) },
			"1 records of logs of changes", "people"},
		{"the table of a log", func(tx *store.Tx) { tx.Put(bucketWatched, tableIDKey(9), nil) }, "", "people"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "tables.db")
			db := check.Must(OpenFile(path, store.Options{Relaxed: true}))(t)
			check.OK(t, db.Update(func(tx *store.Tx) error {
				tx.Put(bucketService, keyNextTableID, tableIDKey(4))
				tx.Put(bucketTables, tableKey("acc", "People"), (&Table{id: 1, Name: "People"}).encode())
				tx.Put(bucketDeleted, tableIDKey(2), []byte{})
				for _, id := range []uint64{1, 1, 2} {
					tx.Put(bucketEntities, entity.AppendKey(nil, id, "p", "r"), record)
				}
				return nil
			}))
			check.OK(t, db.Update(func(tx *store.Tx) error { tc.damage(tx); return nil }))
			check.OK(t, db.Close())
			lost, before := "", 0
			check.OK(t, Repair(path, RepairOptions{Before: func() error { before++; return nil },
				Note: func(what string, isLost bool) {
					if isLost {
						lost += what
					}
				}}))
			if (lost == "") != (tc.want == "") || !strings.Contains(lost, tc.want) || before > 1 {
				t.Errorf("lost %q, want %q; Before was called %d times", lost, tc.want, before)
			}
			db = check.Must(OpenFile(path, store.Options{}))(t)
			defer db.Close()
			n := check.Must(Check(db, values, func(f Finding) { t.Errorf("after the repair: %v", f) }))(t)
			var names []string
			check.OK(t, db.View(func(tx *store.Tx) error {
				cur := tx.Cursor(bucketTables)
				for k, _ := cur.Seek(nil); k != nil; k, _ = cur.Next() {
					_, name, _ := splitTableKey(k)
					names = append(names, name)
				}
				return nil
			}))
			if n.Entities != 2 || strings.Join(names, " ") != tc.tables {
				t.Errorf("%d entities, want 2; tables %v, want %s", n.Entities, names, tc.tables)
			}
			// A new table must not get the entities of another one.
			check.OK(t, db.View(func(tx *store.Tx) error {
				if next := tx.Get(bucketService, keyNextTableID); bytes.Compare(next, tableIDKey(3)) < 0 {
					t.Errorf("the next id is %x, and ids up to 2 are in use", next)
				}
				return nil
			}))
		})
	}
}
