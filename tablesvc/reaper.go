package tablesvc

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// reaper removes the entities of deleted tables in the background, a bounded batch per transaction. What is left to do
// stands in bucketDoomed, so that a restart goes on where the process ended.
type reaper struct {
	db    *store.DB
	log   *slog.Logger
	wake  chan struct{} // of one element: a pending wake-up is enough
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once
	batch int
	// from is where to go on in the table that is being removed: what was removed need not be walked past again. It
	// belongs to run. Nothing is written below it: whoever writes looks for the table in the same transaction.
	from []byte
}

// reaperBatch is how many entities are removed in one transaction: few enough that writers hardly notice.
const reaperBatch = 500

// startReaper starts with what an earlier process left.
func startReaper(db *store.DB, log *slog.Logger) *reaper {
	r := &reaper{db: db, log: log, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), batch: reaperBatch}
	r.notify()
	go r.run()
	return r
}

// notify says that a table was deleted.
func (r *reaper) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stop ends the work after the current batch and waits for that.
func (r *reaper) stop() {
	r.once.Do(func() { close(r.quit) })
	<-r.done
}

func (r *reaper) run() {
	defer close(r.done)
	for {
		select {
		case <-r.quit:
			return
		case <-r.wake:
		}
		for {
			more, err := r.step()
			if err != nil {
				r.log.Error("removing entities of deleted tables", "err", err)
			}
			if err != nil || !more {
				break
			}
			select {
			case <-r.quit:
				return
			default:
			}
		}
	}
}

// step removes one batch. more is false when no deleted table is left.
func (r *reaper) step() (more bool, err error) {
	var next []byte
	err = r.db.Update(func(tx *store.Tx) error {
		more, next = false, nil
		id, _ := tx.Cursor(bucketDoomed).Seek([]byte{})
		if len(id) != entity.TableIDLen {
			return nil
		}
		more = true
		table := binary.BigEndian.Uint64(id)
		prefix := tableIDKey(table)
		keys := make([][]byte, 0, r.batch)
		start := prefix
		if bytes.HasPrefix(r.from, prefix) {
			start = r.from
		}
		c := tx.Cursor(bucketEntities)
		for k, _ := c.Seek(start); k != nil && bytes.HasPrefix(k, prefix) && len(keys) < r.batch; k, _ = c.Next() {
			keys = append(keys, bytes.Clone(k))
		}
		for _, k := range keys {
			tx.Delete(bucketEntities, k)
		}
		if len(keys) == r.batch {
			next = append(bytes.Clone(keys[len(keys)-1]), 0)
			return nil
		}
		// The entities are gone; now what was logged of them.
		next, keys = append(bytes.Clone(prefix), 0xff), keys[:0]
		c = tx.Cursor(bucketChanges)
		for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix) && len(keys) < r.batch; k, _ = c.Next() {
			keys = append(keys, bytes.Clone(k))
		}
		for _, k := range keys {
			tx.Delete(bucketChanges, k)
		}
		if len(keys) < r.batch {
			tx.Delete(bucketWatched, prefix)
			tx.Delete(bucketDoomed, prefix)
			next = nil
		}
		return nil
	})
	if err == nil {
		r.from = next
	}
	return more, err
}
