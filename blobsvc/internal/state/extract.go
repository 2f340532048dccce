package state

import (
	"bytes"
	"context"
	"fmt"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Extract writes the state of a node to new files of a server alone: the database at path, the content it refers to in
// the folder extents, and the keys of encryption scopes at keys, if there are any.
func (s *Store) Extract(ctx context.Context, path, extents, keys string) error {
	release := s.extents.Hold()
	defer release()
	if err := s.db.Extract(path); err != nil {
		return err
	}
	references := func(yield func(extent.Ref) bool) error { return References(path, yield) }
	if err := s.extents.Extract(ctx, extents, references); err != nil {
		return err
	}
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
