package blob

import (
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Current returns once changes that any node has made before the call are known to this node.
func (s Accounts) Current() error {
	return s.db.View(func(*store.Tx) error { return nil })
}

// EachProperties calls fn with the service properties of all accounts, as [Accounts.ChangeProperties] stored them.
func (s Accounts) EachProperties(fn func(account string, value []byte) error) error {
	return s.db.View(func(tx *store.Tx) error {
		cur := tx.Cursor(record.AccountsBucket)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			if err := fn(string(k), v); err != nil {
				return err
			}
		}
		return nil
	})
}

// ChangeProperties replaces the service properties of an account by what change returns for the current ones, nil for
// none. website creates the container of its static website if it does not exist. change may run twice; if it fails,
// nothing is replaced.
func (s Accounts) ChangeProperties(account string, now time.Time,
	change func(old []byte) (value []byte, website bool, err error)) error {
	changed := s.ticks.Next(now)
	return s.db.Update(func(tx *store.Tx) error {
		value, website, err := change(tx.Get(record.AccountsBucket, []byte(account)))
		if err != nil {
			return err
		}
		tx.Put(record.AccountsBucket, []byte(account), value)
		if key := record.ContainerKey(account, record.WebContainer); website && tx.Get(record.ContainersBucket, key) == nil {
			rec := record.Container{Generation: record.Generation(record.NextID(tx)), Changed: s.node.Stamp(tx, changed)}
			tx.Put(record.ContainersBucket, key, rec.Encode())
		}
		return nil
	})
}

// Reset deletes the containers of an account whose names begin with prefix, and returns how many there were. It ignores
// leases and immutability, and nothing can be restored. With an empty prefix it deletes the service properties too.
func (s Accounts) Reset(account, prefix string) (deleted int, err error) {
	err = s.db.Update(func(tx *store.Tx) error {
		var err error
		if deleted, err = deleteContainers(tx, record.ContainersBucket, account, prefix); err != nil {
			return err
		}
		if _, err = deleteContainers(tx, record.DeletedContainersBucket, account, prefix); err != nil {
			return err
		}
		if prefix == "" {
			tx.Delete(record.AccountsBucket, []byte(account))
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reset %s: %w", account, err)
	}
	s.node.Freed.Add(int64(deleted))
	return deleted, nil
}

// Namespace reports whether an account has containers, and then whether they are trees.
func (s Accounts) Namespace(account string) (hierarchical, known bool, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		hierarchical, known, err = namespaceOf(tx, account)
		return err
	})
	return hierarchical, known, err
}
