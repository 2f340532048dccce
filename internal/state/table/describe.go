package table

import (
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Describe calls fn with a function that names for people what keys of buckets in the file at path belong to, as far as
// the rest of the file tells.
func Describe(path string, fn func(name func(bucket store.Bucket, key []byte) string)) error {
	db, err := store.Open(path, store.Options{Buckets: Buckets(), ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *store.Tx) error {
		// Damaged records are skipped: their tables are then named by their number.
		tables := map[uint64]string{}
		cur := tx.Cursor(bucketTables)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			if t, err := decodeTable(v); err == nil {
				account, _, _ := splitTableKey(k)
				tables[t.id] = account + "/" + t.Name
			}
		}
		fn(func(bucket store.Bucket, key []byte) string {
			switch bucket {
			case bucketTables:
				if account, name, ok := splitTableKey(key); ok {
					return fmt.Sprintf("table %s/%s", account, name)
				}
			case bucketEntities:
				if id, partition, row, ok := entity.SplitKey(key); ok {
					table := tables[id]
					if table == "" {
						table = fmt.Sprintf("number %d, which is gone", id)
					}
					return fmt.Sprintf("table %s, PartitionKey %q, RowKey %q", table, entity.DecodeKeyPart(partition),
						entity.DecodeKeyPart(row))
				}
			}
			return fmt.Sprintf("%s, key %q", bucket, key)
		})
		return nil
	})
}
