package queue

import (
	"bytes"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// A message that was put while the clock was a day ahead would be hidden for a day once the clock is right, and one
// that was handed out as well. So each queue records the time of its latest put or hand-out, and a request that finds
// it later than now looks at the messages that become visible later than now.
//
// A message that was put later than now, and that no client has received, gets the place that it would have if it was
// put now: what was put without a delay is visible, what was put with one becomes visible when that has passed.
//
// A message that was handed out later than now stays where it is until its visibility timeout has passed once more,
// counted from the request that has noticed: its client may still work on it, and another place would make the pop
// receipt of the client void. The queue records when the first such message is due (counters.again), and a request
// after that makes it visible.

// clockTolerance is by how much recorded times may be later than the clock: the clocks of the nodes of a cluster differ
// a little.
const clockTolerance = int64(time.Minute)

// behind reports whether a request is to look at the messages that become visible later than now: now is behind the
// time of a put or a hand-out, or a message that was handed out by a clock that was ahead is due.
func behind(tx *store.Tx, id queueID, now int64) bool {
	c := readCounters(tx, id)
	return c.latest > now+clockTolerance || c.again != 0 && now >= c.again
}

// usedEvery is by how much the recorded time may be behind that of the latest hand-out: a request that hands messages
// out, and finds it so recent, does not change the counters.
const usedEvery = int64(30 * time.Second)

// used records the time of a hand-out or a change.
func used(tx *store.Tx, id queueID, now int64) {
	if c := readCounters(tx, id); now > c.latest+usedEvery {
		c.latest = now
		tx.Put(bucketCounters, id.key(), c.encode())
	}
}

// maxRectified is the number of hidden messages that one transaction of rectify looks at.
const maxRectified = 1000

// rectify gives the messages that were put later than now other places, and makes those visible that were handed out
// later than now and are due, in as many transactions as the number of hidden messages takes. It records now as the
// time of the latest put, and when the next message is due.
func (q *Queue) rectify(now time.Time) error {
	at := now.UnixNano()
	r := rectifying{q: q, now: at}
	var from visibleKey
	moved, again, ahead := 0, int64(0), time.Duration(0)
	for done := false; !done; {
		var here rectified
		err := q.update("rectify", func(tx *store.Tx, id queueID) error {
			// The transaction may run again: what it counts begins again, too.
			next := makeVisibleKey(id, at+clockTolerance, 0)
			if from != (visibleKey{}) && bytes.Equal(from[:8], next[:8]) {
				next = from
			}
			counted := readCounters(tx, id)
			ahead = max(ahead, time.Duration(counted.latest-at))
			// A clock that was ahead once more has handed out messages since. They wait for their timeouts, too.
			if r.noticed = counted.noticed; counted.again == 0 || counted.latest > at+clockTolerance {
				r.noticed = at
			}
			here = r.run(tx, id, next)
			if done = here.done; !done {
				return nil
			}
			counted.latest = min(counted.latest, at)
			counted.noticed, counted.again = 0, earlier(again, here.again)
			if counted.again != 0 {
				counted.noticed = r.noticed
			}
			tx.Put(bucketCounters, id.key(), counted.encode())
			return nil
		})
		if err != nil {
			return err
		}
		from, moved, again = here.next, moved+here.moved, earlier(again, here.again)
	}
	if moved > 0 {
		q.store.log.Warn("messages were put or handed out by a clock that was ahead; they have got times by this one",
			"account", q.Account, "queue", q.Name, "messages", moved, "ahead", max(ahead, 0).Round(time.Second).String())
	}
	return nil
}

// earlier returns the earlier of two times, of which 0 is no time.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// rectifying is a run of rectify.
type rectifying struct {
	q   *Queue
	now int64
	// noticed is the time from which on the visibility timeouts of messages that were handed out later than now count.
	noticed int64
}

// rectified is the result of one transaction.
type rectified struct {
	next  visibleKey // where to go on, unless done is set
	done  bool
	moved int
	again int64 // when the first message that was not moved is due; 0 if none is to be moved later
}

// run looks at up to maxRectified places.
func (r *rectifying) run(tx *store.Tx, id queueID, from visibleKey) (out rectified) {
	type place struct {
		key visibleKey
		p   position
	}
	var list []place // a cursor does not go on past changes of its bucket
	out.done = true
	c := tx.Cursor(bucketVisible)
	seen := 0
	for k, v := c.Seek(from[:]); len(k) == len(from) && bytes.Equal(k[:8], from[:8]); k, v = c.Next() {
		if seen == maxRectified {
			out.next, out.done = visibleKey(k), false
			break
		}
		seen++
		if p, ok := decodePosition(v); ok && (p.changes == 0 || p.timed) {
			list = append(list, place{visibleKey(k), p})
		}
	}
	change := r.q.changing(tx, id, 0)
	for i := range list {
		x := &list[i]
		began := x.key.visible() - int64(x.p.timeout)
		var due int64
		if x.p.changes > 0 {
			due = max(after(r.noticed, x.p.timeout), r.now)
		} else {
			content, ok := r.q.content(tx, id, x.key.number())
			if !ok {
				continue
			}
			began = content.inserted
			due = after(r.now, time.Duration(x.key.visible()-began))
		}
		switch {
		case began <= r.now+clockTolerance: // by a clock like this one
		case x.p.changes > 0 && due > r.now:
			// Not more often than once a second, however many messages are due.
			out.again = earlier(out.again, max(due, r.now+int64(time.Second)))
		default:
			change.move(&x.key, x.p, due, time.Duration(due-r.now))
			out.moved++
		}
	}
	return out
}
