package table

import (
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// tableIDs caches the ids of tables for reads, which saves them a search in the store. Writes read the record in their
// own transaction, which is the authority. A deleted table is removed from the cache before DeleteTable returns, so
// that no later read finds its entities.
type tableIDs struct {
	mu sync.Mutex
	// deletions is their number. put refuses an id that was read before the latest deletion.
	deletions uint64
	ids       sync.Map // account, 0x00, name in lower case -> uint64
}

func (t *tableIDs) get(key string) (id uint64, ok bool) {
	v, ok := t.ids.Load(key)
	if !ok {
		return 0, false
	}
	return v.(uint64), true
}

// deletionCount returns the number of deletions, for put.
func (t *tableIDs) deletionCount() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deletions
}

// put caches an id unless a table was deleted since deletionCount returned before.
func (t *tableIDs) put(key string, id, before uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deletions == before {
		t.ids.Store(key, id)
	}
}

// forget removes a table whose deletion has been committed.
func (t *tableIDs) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deletions++
	t.ids.Delete(key)
}

// viewTable runs fn on a snapshot, with the id of the table. fn may run twice. It fails with [ErrTableNotFound], and
// with fn's errors.
func (s *Store) viewTable(account, name string, fn func(tx *store.Tx, id uint64) error) error {
	key := account + "\x00" + strings.ToLower(name)
	if id, ok := s.tables.get(key); ok {
		err := s.db.View(func(tx *store.Tx) error { return fn(tx, id) })
		if again, ok := s.tables.get(key); ok && again == id {
			return err
		}
		// The table was deleted meanwhile: fn may have seen only some of its entities.
	}
	// This is read before the id, so that put refuses an id that a deletion in between may have made void.
	before := s.tables.deletionCount()
	var id uint64
	err := s.db.View(func(tx *store.Tx) (err error) {
		if id, err = idOf(tx, account, name); err != nil {
			return err
		}
		return fn(tx, id)
	})
	if err == nil {
		s.tables.put(key, id, before)
	}
	return err
}
