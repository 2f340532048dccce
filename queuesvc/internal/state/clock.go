package state

import (
	"bytes"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// A message that was put while the clock was a day ahead would be hidden for a day once the clock is right, and on a
// cluster for each node whose clock is. So each queue records the time of its latest put, and a request that finds it
// later than now gives the messages that were put later than now, and that no client has received, the places that they
// would have had if they were put now: what was put without a delay is visible, what was put with one becomes visible
// when that has passed. Messages that were handed out keep their time: another place would make the pop receipt of
// their client void.

// clockTolerance is by how much recorded times may be later than the clock: the clocks of the nodes of a cluster differ
// a little.
const clockTolerance = int64(time.Minute)

// behind reports whether now is behind the time of a put to the queue.
func behind(tx *store.Tx, id queueID, now int64) bool {
	return readCounters(tx, id).latest > now+clockTolerance
}

// maxRectified is the number of hidden messages that one transaction of rectify looks at.
const maxRectified = 1000

// rectify gives the messages that were put later than now other places, in as many transactions as the number of hidden
// messages takes, and records now as the time of the latest put.
func (q *Queue) rectify(now time.Time) error {
	at := now.UnixNano()
	var from visibleKey
	moved, ahead := 0, time.Duration(0)
	for done := false; !done; {
		var here int
		var next visibleKey
		err := q.update("rectify", func(tx *store.Tx, id queueID) error {
			// The transaction may run again: what it counts begins again, too.
			here, next, done = 0, makeVisibleKey(id, at+clockTolerance, 0), true
			if from != (visibleKey{}) && bytes.Equal(from[:8], next[:8]) {
				next = from
			}
			counted := readCounters(tx, id)
			ahead = max(ahead, time.Duration(counted.latest-at))
			if next, here, done = q.rectifyFrom(tx, id, next, at); !done {
				return nil
			}
			if counted.latest > at {
				counted.latest = at
				tx.Put(bucketCounters, id.key(), counted.encode())
			}
			return nil
		})
		if err != nil {
			return err
		}
		from, moved = next, moved+here
	}
	if moved > 0 {
		q.store.log.Warn("messages were put by a clock that was ahead; they have got times by this one", "account", q.Account,
			"queue", q.Name, "messages", moved, "ahead", ahead.Round(time.Second).String())
	}
	return nil
}

// rectifyFrom looks at up to maxRectified places. It returns the place at which to go on.
func (q *Queue) rectifyFrom(tx *store.Tx, id queueID, from visibleKey,
	now int64) (next visibleKey, moved int, done bool) {
	type place struct {
		key visibleKey
		p   position
	}
	var list []place // a cursor does not go on past changes of its bucket
	done = true
	c := tx.Cursor(bucketVisible)
	seen := 0
	for k, v := c.Seek(from[:]); len(k) == len(from) && bytes.Equal(k[:8], from[:8]); k, v = c.Next() {
		if seen == maxRectified {
			next, done = visibleKey(k), false
			break
		}
		seen++
		if p, ok := decodePosition(v); ok && p.changes == 0 {
			list = append(list, place{visibleKey(k), p})
		}
	}
	for i := range list {
		x := &list[i]
		content, ok := q.content(tx, id, x.key.number())
		if !ok || content.inserted <= now+clockTolerance {
			continue
		}
		delay := time.Duration(x.key.visible() - content.inserted)
		move(tx, id, &x.key, x.p, State{NextVisible: after(now, delay)})
		moved++
	}
	return next, moved, done
}
