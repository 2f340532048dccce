package state

import (
	"bytes"
	"context"
	"fmt"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Database returns the database.
func (s *Store) Database() *store.DB { return s.db }

// Hold keeps the content that the database refers to until release is called.
func (s *Store) Hold() (release func()) { return s.extents.Hold() }

// BackupContent calls emit with the content that a pinned database refers to, see [extent.Store.Backup]. Hold was
// called before the database was pinned.
func (s *Store) BackupContent(ctx context.Context, pin *store.Pin, held func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	references := func(yield func(extent.Ref) bool) error {
		return pin.View(func(tx *store.Tx) error { return eachReference(ctx, tx, yield) })
	}
	return s.extents.Backup(ctx, references, held, emit)
}

// Adopt completes files that were written from a backup, those of a server alone: the database at path, the content in
// the folder extents. It writes the keys of encryption scopes that a cluster keeps in its database to the file keys.
func Adopt(path, extents, keys string) error {
	scopes, err := scopeKeys(path)
	if err != nil {
		return err
	}
	if len(scopes) > 0 {
		if err := encryption.WriteKeys(keys, scopes); err != nil {
			return fmt.Errorf("encryption scopes: %w", err)
		}
	}
	return Settle(path, extents, keys)
}

// scopeKeys returns the keys of encryption scopes in a database that was extracted, by their ids.
func scopeKeys(path string) (map[string][]byte, error) {
	db, err := store.Open(path, store.Options{Buckets: Buckets(), ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	keys := map[string][]byte{}
	return keys, db.View(func(tx *store.Tx) error {
		c := tx.Cursor(metaBucket)
		for k, v := c.Seek(scopeKeyPrefix); bytes.HasPrefix(k, scopeKeyPrefix); k, v = c.Next() {
			keys[string(k[len(scopeKeyPrefix):])] = bytes.Clone(v)
		}
		return nil
	})
}
