package table

import (
	"bytes"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Reset deletes the tables of an account whose names begin with prefix, in any case, and returns their number. An
// empty prefix also removes the service properties.
func (s *Store) Reset(account, prefix string) (deleted int, err error) {
	var keys [][]byte
	err = s.db.Update(func(tx *store.Tx) error {
		keys = keys[:0]
		start := tableKey(account, prefix)
		var ids []uint64
		cur := tx.Cursor(bucketTables)
		for k, v := cur.Seek(start); k != nil && bytes.HasPrefix(k, start); k, v = cur.Next() {
			id, ok := tableID(v)
			if !ok {
				return fmt.Errorf("table record of %q is damaged", k)
			}
			keys, ids = append(keys, bytes.Clone(k)), append(ids, id)
		}
		for i, k := range keys {
			deleteTable(tx, k, ids[i])
		}
		if prefix == "" {
			tx.Delete(bucketService, propertiesKey(account))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, k := range keys {
		s.tables.forget(string(k))
	}
	s.cleaner.Wake()
	return len(keys), nil
}
