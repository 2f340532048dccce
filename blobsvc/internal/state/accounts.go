package state

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Accounts has the operations on what an account has as a whole.
type Accounts struct{ *core }

// EachProperties calls fn with the service properties of all accounts, as [Accounts.ChangeProperties] stored them.
func (s Accounts) EachProperties(fn func(account string, value []byte) error) error {
	return s.db.View(func(tx *store.Tx) error {
		cur := tx.Cursor(accountsBucket)
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
		value, website, err := change(tx.Get(accountsBucket, []byte(account)))
		if err != nil {
			return err
		}
		tx.Put(accountsBucket, []byte(account), value)
		if key := containerKey(account, WebContainer); website && tx.Get(containersBucket, key) == nil {
			rec := Container{generation: generation(nextID(tx)), Changed: s.stamp(tx, changed)}
			tx.Put(containersBucket, key, rec.encode())
		}
		return nil
	})
}

// Reset deletes the containers of an account whose names begin with prefix, and returns how many there were. It ignores
// leases and immutability, and nothing can be restored. With an empty prefix it deletes the service properties too.
func (s Accounts) Reset(account, prefix string) (deleted int, err error) {
	err = s.db.Update(func(tx *store.Tx) error {
		var err error
		if deleted, err = deleteContainers(tx, containersBucket, account, prefix); err != nil {
			return err
		}
		if _, err = deleteContainers(tx, deletedContainersBucket, account, prefix); err != nil {
			return err
		}
		if prefix == "" {
			tx.Delete(accountsBucket, []byte(account))
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reset %s: %w", account, err)
	}
	s.freed.Add(int64(deleted))
	return deleted, nil
}

// IsSystem reports whether the system writes a container; such containers are flat in all accounts.
func IsSystem(container string) bool {
	return strings.HasPrefix(container, "$") && container != RootContainer
}

// checkNamespace fails with [ErrNamespace] if the account has containers of the other kind: an account is hierarchical
// from its first container on, or never.
func checkNamespace(tx *store.Tx, account, container string, hierarchical bool) error {
	if IsSystem(container) {
		return nil
	}
	is, known, err := namespaceOf(tx, account)
	if err == nil && known && is != hierarchical {
		err = ErrNamespace
	}
	return err
}

// namespaceOf reports whether an account is hierarchical, by its first container; known is false for an account without
// containers.
func namespaceOf(tx *store.Tx, account string) (hierarchical, known bool, err error) {
	scope := containerKey(account, "")
	cur := tx.Cursor(containersBucket)
	for k, _ := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, _ = cur.Next() {
		if name := string(k[len(scope):]); !IsSystem(name) {
			gen, err := containerGeneration(tx, account, name)
			return gen.isTree(), true, err
		}
	}
	return false, false, nil
}

// Namespace reports whether an account has containers, and then whether they are trees.
func (s Accounts) Namespace(account string) (hierarchical, known bool, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		hierarchical, known, err = namespaceOf(tx, account)
		return err
	})
	return hierarchical, known, err
}
