package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
)

// cleanBatch is the number of entities that one transaction removes: small enough not to delay writers.
const cleanBatch = 500

// clean removes the entities of deleted tables and their logs of changes. What is left to do is in bucketDeleted, so
// that a restart continues where the process ended.
func (s *Store) clean(ctx context.Context) {
	c := cleaner{db: s.db, batch: cleanBatch}
	for ctx.Err() == nil {
		began := time.Now()
		switch more, err := c.step(); {
		case err != nil:
			s.log.Error("cannot remove entities of deleted tables", "service", "table", "err", err)
			return
		case !more:
			return
		case c.from != nil:
			// Only between batches of one table: the last one of a table says that it was small.
			sweep.Pause(ctx, began, c.batch)
		}
	}
}

// cleaner removes one deleted table after another.
type cleaner struct {
	db    *store.DB
	batch int
	// from is the key to continue from among the entities of the table that is being removed. No entity is written below
	// it: writers look for the table in their own transaction.
	from []byte
}

// step removes one batch. more is false when no deleted table is left.
func (c *cleaner) step() (more bool, err error) {
	var next []byte
	err = c.db.Update(func(tx *store.Tx) error {
		// The transaction may run twice. The position is kept only after the commit; otherwise a failed batch would be
		// skipped.
		more, next = false, nil
		id, _ := tx.Cursor(bucketDeleted).Seek([]byte{})
		if len(id) != entity.TableIDLen {
			return nil
		}
		more = true
		next, err = c.remove(tx, tableIDKey(binary.BigEndian.Uint64(id)))
		return err
	})
	if err == nil {
		c.from = next
	}
	return more, err
}

// remove removes a batch of a table's entities, or, when all are removed, of its log. It returns the position to
// continue from, nil when nothing of the table is left.
func (c *cleaner) remove(tx *store.Tx, table []byte) (next []byte, err error) {
	from := c.from
	// The position is of another table, whose removal another node has completed.
	if !bytes.HasPrefix(from, table) {
		from = nil
	}
	next, err = sweep.Prefix(tx, bucketEntities, table, from, c.batch, nil)
	if err != nil || next != nil {
		return next, err
	}
	logged, err := sweep.Prefix(tx, bucketChanges, table, nil, c.batch, nil)
	if err != nil {
		return nil, err
	}
	if logged != nil {
		return append(bytes.Clone(table), 0xff), nil // behind the last entity
	}
	// The mark in bucketDeleted goes last: until then, a restart finds the table and goes on.
	tx.Delete(bucketWatched, table)
	tx.Delete(bucketDeleted, table)
	return nil, nil
}
