package blob

import (
	"bytes"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// StoredAccount is an account that was added while the server runs. Err is set if its record cannot be read.
type StoredAccount struct {
	Name string
	record.Account
	Err   error
	Value []byte // the record as it is stored
}

// AccountTable has the accounts that are added while the server runs, in the database of the Blob service.
type AccountTable struct{ db *store.DB }

// NewAccountTable returns the accounts in a database, see [record.Buckets].
func NewAccountTable(db *store.DB) AccountTable { return AccountTable{db} }

// ReadStoredAccount reads a record of an account.
func ReadStoredAccount(name string, value []byte) StoredAccount {
	a, err := record.DecodeAccount(value)
	return StoredAccount{name, a, err, value}
}

// List returns up to n accounts whose names begin with prefix and sort after after, by name.
func (s AccountTable) List(prefix, after string, n int) (list []StoredAccount, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		list = nil
		within := record.AccountKey(prefix)
		cur := tx.Cursor(record.MetaBucket)
		// No name has 0x00, so that a key with it is the next one after that of the name.
		from := within
		if after != "" && after >= prefix {
			from = append(record.AccountKey(after), 0)
		}
		for k, v := cur.Seek(from); len(list) < n && bytes.HasPrefix(k, within); k, v = cur.Next() {
			name, _ := record.ParseAccountKey(k)
			list = append(list, ReadStoredAccount(name, bytes.Clone(v)))
		}
		return nil
	})
	return list, err
}

// Stored returns one account; ok is false if it does not exist.
func (s AccountTable) Stored(name string) (a StoredAccount, ok bool, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		v := tx.Get(record.MetaBucket, record.AccountKey(name))
		if ok = v != nil; ok {
			a = ReadStoredAccount(name, bytes.Clone(v))
		}
		return nil
	})
	return a, ok, err
}

// ChangeStored replaces an account by what change returns for the current one, which is nil if it does not exist; nil
// removes the record. change may run twice; if it fails, nothing is replaced.
func (s AccountTable) ChangeStored(name string, change func(old *StoredAccount) (*record.Account, error)) error {
	return s.db.Update(func(tx *store.Tx) error {
		key := record.AccountKey(name)
		var old *StoredAccount
		if v := tx.Get(record.MetaBucket, key); v != nil {
			a := ReadStoredAccount(name, bytes.Clone(v))
			old = &a
		}
		next, err := change(old)
		switch {
		case err != nil:
			return err
		case next != nil:
			tx.Put(record.MetaBucket, key, next.Encode())
		case old != nil:
			tx.Delete(record.MetaBucket, key)
		}
		return nil
	})
}

// HasContainers reports whether an account has a container that the system has not made, deleted ones included as long
// as they can be restored.
func (s AccountTable) HasContainers(account string) (has bool, err error) {
	within := record.ContainerKey(account, "")
	err = s.db.View(func(tx *store.Tx) error {
		has = false
		for _, bucket := range []store.Bucket{record.ContainersBucket, record.DeletedContainersBucket} {
			cur := tx.Cursor(bucket)
			for k, _ := cur.Seek(within); !has && bytes.HasPrefix(k, within); k, _ = cur.Next() {
				container, _, _ := strings.Cut(string(k[len(within):]), "\x00")
				// The files of a static website are of the client, although the system has made their container.
				has = !IsSystem(container) || container == record.WebContainer
			}
		}
		return nil
	})
	return has, err
}

// forgetBatch is the number of events that one transaction of Forget removes.
const forgetBatch = 1000

// Forget removes what an account without containers still has: the state of its change feed, and the events that are
// not in it.
func (s AccountTable) Forget(account string) error {
	scope := append([]byte(account), 0)
	for more := true; more; {
		err := s.db.Update(func(tx *store.Tx) error {
			more = false
			var keys [][]byte
			cur := tx.Cursor(record.ChangesBucket)
			for k, _ := cur.Seek(scope); bytes.HasPrefix(k, scope); k, _ = cur.Next() {
				if more = len(keys) == forgetBatch; more {
					break
				}
				keys = append(keys, bytes.Clone(k))
			}
			for _, k := range keys {
				tx.Delete(record.ChangesBucket, k)
			}
			if key := feedStateKey(account); tx.Get(record.MetaBucket, key) != nil {
				tx.Delete(record.MetaBucket, key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
