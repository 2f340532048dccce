package tablesvc

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// TestCheck: a sound file has no findings, and each kind of damage is found.
func TestCheck(t *testing.T) {
	good := table{id: 1, created: entity.MinTicks, name: "People"}
	record := entity.NewRecord(entity.MinTicks, 0).Append("A", entity.Int32Value(1))
	for _, tc := range []struct {
		name   string
		damage func(tx *store.Tx)
		want   string
	}{
		{"sound", func(*store.Tx) {}, ""},
		{"table record", func(tx *store.Tx) { tx.Put(bucketTables, tableKey("acc", "other"), []byte{9}) }, "table record is damaged"},
		{"name", func(tx *store.Tx) { tx.Put(bucketTables, tableKey("acc", "other"), good.encode()) }, `the record is of table "People"`},
		{"id twice", func(tx *store.Tx) {
			tx.Put(bucketTables, tableKey("acc", "other"), table{id: 1, name: "other"}.encode())
		}, "table id 1 is also that of"},
		{"id not taken", func(tx *store.Tx) {
			tx.Put(bucketTables, tableKey("acc", "other"), table{id: 7, name: "other"}.encode())
		}, "table id 7 is not below the next id 3"},
		{"deleted and there", func(tx *store.Tx) { tx.Put(bucketDoomed, tableIDKey(1), []byte{}) }, "is deleted and there"},
		{"doomed key", func(tx *store.Tx) { tx.Put(bucketDoomed, []byte("x"), []byte{}) }, "no table id"},
		{"orphan", func(tx *store.Tx) { tx.Put(bucketEntities, entity.AppendKey(nil, 5, "p", "r"), record) }, "there is no table with the id 5"},
		{"entity record", func(tx *store.Tx) { tx.Put(bucketEntities, entity.AppendKey(nil, 1, "p", "x"), record[:12]) }, "entity record is damaged"},
		{"entity key", func(tx *store.Tx) { tx.Put(bucketEntities, []byte("short"), record) }, "no entity key"},
		{"key character", func(tx *store.Tx) { tx.Put(bucketEntities, entity.AppendKey(nil, 1, "a/b", "x"), record) }, "out of range"},
		{"properties", func(tx *store.Tx) { tx.Put(bucketService, propertiesKey("acc"), []byte("{")) }, "unexpected end of JSON"},
		{"service key", func(tx *store.Tx) { tx.Put(bucketService, []byte("x"), []byte("{")) }, "unknown key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			db, err := Open(filepath.Join(t.TempDir(), "tables.db"), store.Options{Relaxed: true})
			ok(t, err)
			defer db.Close()
			ok(t, db.Update(func(tx *store.Tx) error {
				tx.Put(bucketService, keyNextTableID, tableIDKey(3))
				tx.Put(bucketTables, tableKey("acc", "People"), good.encode())
				tx.Put(bucketDoomed, tableIDKey(2), []byte{})
				tx.Put(bucketEntities, entity.AppendKey(nil, 1, "p", "r"), record)
				tx.Put(bucketEntities, entity.AppendKey(nil, 2, "p", "r"), record)
				return nil
			}))
			ok(t, db.Update(func(tx *store.Tx) error { tc.damage(tx); return nil }))
			var found []string
			n, err := Check(db, func(f Finding) { found = append(found, f.String()) })
			ok(t, err)
			text := strings.Join(found, "\n")
			if tc.want == "" && (text != "" || n != Counts{1, 2, 1}) || !strings.Contains(text, tc.want) {
				t.Errorf("counts %v, findings:\n%s\nwant %q", n, text, tc.want)
			}
		})
	}
}

func TestTableRecord(t *testing.T) {
	want := table{id: 9, created: 12345, name: "People"}
	if got, err := decodeTable(want.encode()); err != nil || got.id != 9 || got.created != 12345 || got.name != "People" {
		t.Errorf("got %v, %v", got, err)
	}
	for n := range want.encode() {
		if _, err := decodeTable(want.encode()[:n]); err == nil {
			t.Errorf("a record cut to %d bytes was read", n)
		}
	}
}
