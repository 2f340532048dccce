package queue

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
)

const (
	// cleanBatch is the number of messages that one transaction in the background removes: small enough not to delay
	// requests.
	cleanBatch = 500
	// cleanInterval is the interval of looking for expired messages.
	cleanInterval = 5 * time.Second
)

// startCleaning starts the removal of expired messages and of what cleared and deleted queues have left. What is left
// to do is in the store, so that it continues after a restart.
func (s *Store) startCleaning() {
	s.cleaner = sweep.Start(s.clean)
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(cleanInterval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				s.cleaner.Wake()
			}
		}
	})
	s.stopClock = func() { close(done); wait.Wait() }
}

func (s *Store) stopCleaning() {
	s.stopClock()
	s.cleaner.Stop()
}

// clean runs until nothing is left to remove. An error ends it until it is woken again. In a cluster, the node that
// leads the log cleans: several would overtake each other with the same removals.
func (s *Store) clean(ctx context.Context) {
	g := garbage{db: s.db, batch: cleanBatch}
	for ctx.Err() == nil && s.leads() {
		began := time.Now()
		expired, err := s.removeSomeExpired(s.now().UnixNano())
		more := false
		if err == nil {
			more, err = g.step()
		}
		if err != nil || !expired && !more {
			if err != nil {
				s.log.Debug("cannot remove expired messages and deleted queues; trying again later", "service", "queue", "err", err)
			}
			return
		}
		sweep.Pause(ctx, began, 3*cleanBatch)
	}
}

// anyExpired reports whether there are expired messages, of any queue.
func anyExpired(tx *store.Tx, now int64) bool {
	k, _ := tx.Cursor(bucketExpiring).Seek([]byte{0})
	return len(k) == 24 && int64(binary.BigEndian.Uint64(k)) <= now
}

// removeExpired removes all expired messages.
func (s *Store) removeExpired(now int64) error {
	for {
		if more, err := s.removeSomeExpired(now); err != nil || !more {
			return err
		}
	}
}

// removeSomeExpired removes expired messages, up to a batch. more is set if there are others.
func (s *Store) removeSomeExpired(now int64) (more bool, err error) {
	if err := s.db.ViewLocal(func(tx *store.Tx) error { more = anyExpired(tx, now); return nil }); err != nil || !more {
		return false, err
	}
	err = s.db.Update(func(tx *store.Tx) error {
		more = false
		counts, total := make(map[queueID]uint64), 0
		c := tx.Cursor(bucketExpiring)
		for k, v := c.Seek([]byte{0}); len(k) == 24 && len(v) == 8; k, v = c.Next() {
			expires, id, number := int64(binary.BigEndian.Uint64(k)), queueID(binary.BigEndian.Uint64(k[8:])),
				binary.BigEndian.Uint64(k[16:])
			if expires > now {
				break
			}
			if total == cleanBatch {
				more = true
				break
			}
			key := makeVisibleKey(id, int64(binary.BigEndian.Uint64(v)), number)
			(&changing{tx: tx, in: id}).erase(&key, position{expires: expires})
			counts[id]++
			total++
		}
		// An id without counters is no longer that of a queue, and gone would write new ones.
		for id, n := range counts {
			if tx.Get(bucketCounters, id.key()) != nil {
				gone(tx, id, n)
			}
		}
		if len(counts) > 0 {
			tx.Note("remove expired messages")
		}
		return nil
	})
	return more, err
}

// garbage removes what cleared and deleted queues have left.
type garbage struct {
	db    *store.DB
	batch int
	// from is the place to continue from in bucketVisible. Nothing is before it, since no request writes records with an
	// id that was taken away.
	from []byte
}

// step removes one batch. more is false when nothing is left.
func (g *garbage) step() (more bool, err error) {
	// This look is not a transaction of the log, and nearly always finds nothing.
	err = g.db.ViewLocal(func(tx *store.Tx) error {
		k, _ := tx.Cursor(bucketGarbage).Seek([]byte{0})
		more = k != nil
		return nil
	})
	if err != nil || !more {
		return false, err
	}
	var next []byte
	err = g.db.Update(func(tx *store.Tx) error {
		next = nil
		k, _ := tx.Cursor(bucketGarbage).Seek([]byte{0})
		if more = len(k) == 8; !more {
			return nil
		}
		tx.Note("remove messages of cleared and deleted queues")
		next = g.remove(tx, bytes.Clone(k))
		return nil
	})
	if err == nil {
		g.from = next
	}
	return more, err
}

// remove removes a batch of the messages with an id, and the id when none is left. It returns the place to continue
// from.
func (g *garbage) remove(tx *store.Tx, id []byte) (next []byte) {
	from := g.from
	if !bytes.HasPrefix(from, id) {
		from = id
	}
	n := 0
	c := changing{tx: tx, in: queueID(binary.BigEndian.Uint64(id))}
	places := tx.Cursor(bucketVisible)
	for k, v := places.Seek(from); bytes.HasPrefix(k, id); k, v = places.Next() {
		if n == g.batch {
			return bytes.Clone(k)
		}
		n++
		p, ok := decodePosition(v)
		if !ok || len(k) != len(visibleKey{}) {
			tx.Delete(bucketVisible, bytes.Clone(k))
			continue
		}
		key := visibleKey(k)
		c.erase(&key, p)
	}
	// Messages without a place are left only by damage.
	if rest, err := sweep.Prefix(tx, bucketMessages, id, nil, g.batch, nil); rest != nil || err != nil {
		return append(bytes.Clone(id), 0xff)
	}
	// The mark in bucketGarbage goes last: until then, a restart finds the id and goes on.
	tx.Delete(bucketCounters, id)
	tx.Delete(bucketGarbage, id)
	return nil
}
