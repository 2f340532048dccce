package tablesvc

import (
	"bytes"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Reset deletes the tables of an account whose names begin with prefix, in any case, and returns how many there were. An empty
// prefix is everything, the service properties too. It is an operator's tool, not an operation of the REST reference.
func (s *Service) Reset(account, prefix string) (deleted int, err error) {
	var keys [][]byte
	remove := func() error {
		keys, err = s.removeTables(account, prefix)
		return err
	}
	if prefix == "" {
		err = s.properties.Remove(account, remove)
	} else {
		err = remove()
	}
	if err != nil {
		return 0, err
	}
	for _, k := range keys {
		s.tables.forget(string(k))
	}
	s.reaper.notify()
	return len(keys), nil
}

// removeTables removes the records of the tables, and with an empty prefix the service properties. It returns the keys of
// the tables.
func (s *Service) removeTables(account, prefix string) (keys [][]byte, err error) {
	err = s.db.Update(func(tx *store.Tx) error {
		keys = keys[:0]
		start := tableKey(account, prefix)
		cur := tx.Cursor(bucketTables)
		for k, v := cur.Seek(start); k != nil && bytes.HasPrefix(k, start); k, v = cur.Next() {
			t, err := decodeTable(v)
			if err != nil {
				return err
			}
			keys = append(keys, bytes.Clone(k))
			tx.Put(bucketDoomed, tableIDKey(t.id), []byte{})
		}
		for _, k := range keys {
			tx.Delete(bucketTables, k)
		}
		if prefix == "" {
			tx.Delete(bucketService, propertiesKey(account))
		}
		return nil
	})
	return keys, err
}
