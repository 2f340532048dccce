package tablesvc

import (
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// tableIDs remembers the ids of tables for reads, which saves them a look-up in the store. Writes look in their own
// transaction, which alone is the authority. A table that is deleted is forgotten before the deletion is answered, so
// that no later read finds its entities.
type tableIDs struct {
	mu sync.Mutex
	// deletions counts; an id that was read before a deletion and comes after it is not remembered.
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

// now returns what put needs to know of the time before the id was read.
func (t *tableIDs) now() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deletions
}

func (t *tableIDs) put(key string, id, before uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deletions == before {
		t.ids.Store(key, id)
	}
}

// forget is called when the deletion of a table has been committed.
func (t *tableIDs) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deletions++
	t.ids.Delete(key)
}

// viewTable runs fn on a snapshot, with the id of the table. fn may run twice. It fails with errTableNotFound, and with
// fn's errors.
func (s *Service) viewTable(account, name string, fn func(tx *store.Tx, id uint64) error) error {
	key := account + "\x00" + strings.ToLower(name)
	if id, ok := s.tables.get(key); ok {
		err := s.db.View(func(tx *store.Tx) error { return fn(tx, id) })
		if again, ok := s.tables.get(key); ok && again == id {
			return err
		} // the table was deleted meanwhile, and its entities may have been half removed
	}
	before := s.tables.now()
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
