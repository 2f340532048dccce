package table

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestCheck: a sound file has no findings, and each kind of damage is found.
func TestCheck(t *testing.T) {
	t.Parallel()
	good := Table{id: 1, Created: entity.MinTicks, Name: "People"}
	record := entity.NewRecord(entity.MinTicks, 0).Append("A", entity.Int32Value(1))
	for _, tc := range []struct {
		name   string
		damage func(tx *store.Tx)
		want   string
	}{
		{"sound", func(*store.Tx) {}, ""},
		{"table record", func(tx *store.Tx) { tx.Put(bucketTables, tableKey("acc", "other"), []byte{9}) },
			"table record is damaged"},
		{"name", func(tx *store.Tx) { tx.Put(bucketTables, tableKey("acc", "other"), good.encode()) },
			`the record is of table "People"`},
		{"no name", func(tx *store.Tx) {
			tx.Put(bucketTables, tableKey("acc", "1x"), (&Table{id: 2, Name: "1x"}).encode())
		}, `"1x" is not a table name`},
		{"id twice", func(tx *store.Tx) {
			tx.Put(bucketTables, tableKey("acc", "other"), (&Table{id: 1, Name: "other"}).encode())
		}, "table id 1 is also the id of"},
		{"id not taken", func(tx *store.Tx) {
			tx.Put(bucketTables, tableKey("acc", "other"), (&Table{id: 7, Name: "other"}).encode())
		}, "table id 7 is not below the next id 3"},
		{"deleted and existing", func(tx *store.Tx) { tx.Put(bucketDeleted, tableIDKey(1), []byte{}) },
			"both exists and is deleted"},
		{"key of a deleted table", func(tx *store.Tx) { tx.Put(bucketDeleted, []byte("x"), []byte{}) }, "not a table id"},
		{"orphan", func(tx *store.Tx) { tx.Put(bucketEntities, entity.AppendKey(nil, 5, "p", "r"), record) },
			"there is no table with the id 5"},
		{"entity record", func(tx *store.Tx) { tx.Put(bucketEntities, entity.AppendKey(nil, 1, "p", "x"), record[:12]) },
			"entity record is damaged"},
		{"entity key", func(tx *store.Tx) { tx.Put(bucketEntities, []byte("short"), record) }, "not an entity key"},
		{"key character", func(tx *store.Tx) { tx.Put(bucketEntities, entity.AppendKey(nil, 1, "a/b", "x"), record) },
			"out of range"},
		{"policies", func(tx *store.Tx) {
			tx.Put(bucketTables, tableKey("acc", "other"), (&Table{id: 2, Name: "other", Policies: []byte("{}")}).encode())
		}, "access policies: json: cannot unmarshal object"},
		{"log of changes", func(tx *store.Tx) {
			tx.Put(bucketChanges, changeKey(1, 5), (&FeedChange{Kind: Inserted, After: entity.NewRecord(0, 0)}).encode())
		}, "the log of table 1 has the changes 0 to 0, not 5"},
		{"properties", func(tx *store.Tx) { tx.Put(bucketService, propertiesKey("acc"), []byte("{")) },
			"unexpected end of JSON"},
		{"awaited table", func(tx *store.Tx) { tx.Put(bucketService, awaitedKey("acc", "later"), []byte("{")) },
			"note of an awaited table"},
		{"service key", func(tx *store.Tx) { tx.Put(bucketService, []byte("x"), []byte("{")) }, "unknown key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			db, err := OpenFile(filepath.Join(t.TempDir(), "tables.db"), store.Options{Relaxed: true})
			check.OK(t, err)
			defer db.Close()
			check.OK(t, db.Update(func(tx *store.Tx) error {
				tx.Put(bucketService, keyNextTableID, tableIDKey(3))
				tx.Put(bucketTables, tableKey("acc", "People"), good.encode())
				tx.Put(bucketDeleted, tableIDKey(2), []byte{})
				tx.Put(bucketEntities, entity.AppendKey(nil, 1, "p", "r"), record)
				tx.Put(bucketEntities, entity.AppendKey(nil, 2, "p", "r"), record)
				return nil
			}))
			check.OK(t, db.Update(func(tx *store.Tx) error { tc.damage(tx); return nil }))
			var found []string
			n, err := Check(db, values, func(f Finding) { found = append(found, f.String()) })
			check.OK(t, err)
			text := strings.Join(found, "\n")
			if tc.want == "" && (text != "" || n != Counts{1, 2, 1}) || !strings.Contains(text, tc.want) {
				t.Errorf("counts %v, findings:\n%s\nwant %q", n, text, tc.want)
			}
		})
	}
}

// values checks opaque values as JSON.
var values = Values{
	Properties: func(b []byte) error { return json.Unmarshal(b, new(struct{})) },
	Policies:   func(b []byte) error { return json.Unmarshal(b, new([]struct{})) },
}

func TestTableRecord(t *testing.T) {
	t.Parallel()
	want := Table{id: 9, Created: 12345, Name: "People"}
	got, err := decodeTable(want.encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Table{})); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	for n := range want.encode() {
		if _, err := decodeTable(want.encode()[:n]); err == nil {
			t.Errorf("a record cut to %d bytes was parsed", n)
		}
	}
}
