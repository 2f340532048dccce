package queue

import (
	"context"
	"math"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// MaxVisible is the highest value of [Properties.Visible].
const MaxVisible = 10_000

// Properties are the properties of a queue.
type Properties struct {
	Metadata []Meta
	// Messages is the number of messages, visible or not. Expired ones do not count.
	//
	// https://learn.microsoft.com/rest/api/storageservices/get-queue-metadata#response-headers
	Messages int
	// Visible is the number of visible messages, up to MaxVisible, if it was asked for.
	Visible int
	// Aside is the number of messages that were found to be unreadable since the start.
	Aside int
}

// Properties returns the properties of the queue, with Visible if visible is set.
func (q *Queue) Properties(ctx context.Context, now time.Time, visible bool) (p Properties, err error) {
	for {
		expired := false
		err = q.view(func(tx *store.Tx, id queueID) error {
			_, info, err := decodeQueue(tx.Get(bucketQueues, q.key))
			p = Properties{Metadata: info.Metadata, Messages: int(readCounters(tx, id).messages)}
			expired = p.Messages > 0 && anyExpired(tx, now.UnixNano())
			if visible {
				p.Visible = q.visible(tx, id, now)
			}
			q.store.mu.Lock()
			defer q.store.mu.Unlock()
			p.Aside = len(q.store.aside[id])
			return err
		})
		if err != nil || !expired || ctx.Err() != nil {
			return p, err
		}
		if err := q.store.removeExpired(now.UnixNano()); err != nil {
			return p, err
		}
	}
}

// visible returns the number of visible messages, up to MaxVisible.
func (q *Queue) visible(tx *store.Tx, id queueID, now time.Time) (n int) {
	for _, p := range q.places(tx, id, Position{}, now.UnixNano()) {
		if p.expires == Never || p.expires > now.UnixNano() {
			n++
		}
		if n == MaxVisible {
			break
		}
	}
	return n
}

// NextVisible returns the time after now at which the queue's next message becomes visible, as far as this process
// knows: 0 if a message is visible, and an hour if the queue has no messages. It is a hint when to poll again.
func (q *Queue) NextVisible(now time.Time) (d time.Duration) {
	d = time.Hour
	_ = q.store.db.ViewLocal(func(tx *store.Tx) error {
		id, err := q.id(tx)
		if err != nil {
			return err
		}
		for key := range q.places(tx, id, Position{}, math.MaxInt64) {
			d = max(0, time.Duration(key.visible()-now.UnixNano()))
			break
		}
		if c := readCounters(tx, id); c.again != 0 {
			d = min(d, max(0, time.Duration(c.again-now.UnixNano())))
		}
		return nil
	})
	return d
}
