package blob

import (
	"context"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
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
		return pin.View(func(tx *store.Tx) error { return record.EachReference(ctx, tx, yield) })
	}
	return s.extents.Backup(ctx, references, held, emit)
}

// Adopt completes files that were written from a backup, those of a single server: the database at path, the content in
// the folder extents. It writes the keys of encryption scopes that a cluster keeps in its database to the file keys.
func Adopt(path, extents, keys string) error {
	scopes, err := replica.ScopeKeys(path)
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

// Settle opens the database and the extents of a stopped single server and closes them: files of former releases are
// converted, and what a crash has left is put in order. keys is the file with the keys of encryption scopes.
func Settle(path, extents, keys string) error {
	scopes, err := encryption.OpenScopes(keys, func(string) []string { return nil })
	if err != nil {
		return fmt.Errorf("encryption scopes: %w", err)
	}
	s, err := Open(Config{Path: path, Extents: extents, Scopes: scopes})
	if err != nil {
		return err
	}
	return s.Close()
}
