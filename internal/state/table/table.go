package table

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// CreateTable creates a table. It fails with [ErrTableExists].
func (s *Store) CreateTable(account, name string, now time.Time) error {
	at := s.ticks.Next(now)
	return s.db.Update(func(tx *store.Tx) error {
		key := tableKey(account, name)
		if tx.Get(bucketTables, key) != nil {
			return ErrTableExists
		}
		t := Table{id: nextTableID(tx, at, s.shard), Created: at, Name: name}
		tx.Put(bucketTables, key, t.encode())
		return s.changes.created(tx, account, name, t.id, at)
	})
}

// DeleteTable deletes a table. It takes the same time for any table: its entities are removed in the background, and a
// new table of the name can be created at once. It fails with [ErrTableNotFound].
func (s *Store) DeleteTable(account, name string) error {
	key := tableKey(account, name)
	err := s.db.Update(func(tx *store.Tx) error {
		id, err := idOf(tx, account, name)
		if err != nil {
			return err
		}
		deleteTable(tx, key, id)
		return nil
	})
	if err != nil {
		return err
	}
	// After the commit: a read in between could put the ID back that is about to be void.
	s.tables.forget(string(key))
	s.cleaner.Wake()
	return nil
}

// deleteTable removes a table's record and marks its entities for removal.
func deleteTable(tx *store.Tx, key []byte, id uint64) {
	tx.Delete(bucketTables, key)
	tx.Put(bucketDeleted, tableIDKey(id), []byte{})
}

// GetTable returns a table. It fails with [ErrTableNotFound].
func (s *Store) GetTable(account, name string) (t Table, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		t, err = getTable(tx, account, name)
		return err
	})
	return t, err
}

// ListTables calls visit for the tables of an account in the order of their names in lower case, beginning at from,
// until it returns false.
func (s *Store) ListTables(account, from string, visit func(Table) (more bool)) error {
	return s.db.View(func(tx *store.Tx) error {
		prefix := tableKey(account, "")
		c := tx.Cursor(bucketTables)
		for k, v := c.Seek(tableKey(account, from)); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			t, err := decodeTable(v)
			if err != nil {
				return err
			}
			if !visit(t) {
				return nil
			}
		}
		return nil
	})
}

// SetPolicies replaces the stored access policies of a table; nil removes them. It fails with [ErrTableNotFound].
func (s *Store) SetPolicies(account, name string, policies json.RawMessage) error {
	return s.db.Update(func(tx *store.Tx) error {
		t, err := getTable(tx, account, name)
		if err != nil {
			return err
		}
		t.Policies = policies
		tx.Put(bucketTables, tableKey(account, name), t.encode())
		return nil
	})
}
