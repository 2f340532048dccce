package replica

import (
	"bytes"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// scopeKeyPrefix begins the keys of the keys of encryption scopes, which the nodes of a cluster share. A single machine
// has them in a file.
var scopeKeyPrefix = []byte("scope:")

// agreeOnScopes makes the scopes use the keys of the cluster.
func (s *Node) agreeOnScopes() error {
	s.scopes.Agree(s.agreeOnKey)
	return s.DB.View(func(tx *store.Tx) error {
		cur := tx.Cursor(record.MetaBucket)
		for k, v := cur.Seek(scopeKeyPrefix); bytes.HasPrefix(k, scopeKeyPrefix); k, v = cur.Next() {
			if err := s.scopes.Learn(string(k[len(scopeKeyPrefix):]), v); err != nil {
				return err
			}
		}
		return nil
	})
}

// agreeOnKey returns the key of a scope in the cluster, and stores the given one if the cluster has no key for it.
func (s *Node) agreeOnKey(id string, key []byte) (agreed []byte, err error) {
	err = s.DB.Update(func(tx *store.Tx) error {
		k := append(bytes.Clone(scopeKeyPrefix), id...)
		if agreed = bytes.Clone(tx.Get(record.MetaBucket, k)); agreed == nil {
			agreed = key
			tx.Put(record.MetaBucket, k, key)
		}
		return nil
	})
	return agreed, err
}

// ScopeKeys returns the keys of encryption scopes in a database that was extracted, by their ids.
func ScopeKeys(path string) (map[string][]byte, error) {
	db, err := store.Open(path, store.Options{Buckets: record.Buckets(), ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	keys := map[string][]byte{}
	return keys, db.View(func(tx *store.Tx) error {
		c := tx.Cursor(record.MetaBucket)
		for k, v := c.Seek(scopeKeyPrefix); bytes.HasPrefix(k, scopeKeyPrefix); k, v = c.Next() {
			keys[string(k[len(scopeKeyPrefix):])] = bytes.Clone(v)
		}
		return nil
	})
}
