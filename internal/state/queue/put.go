package queue

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// NewMessage is a message to put.
type NewMessage struct {
	Body []byte
	// Visibility is the time after which the message becomes visible.
	Visibility time.Duration
}

// Put adds a message. The caller must not change body until Put returns. The message becomes visible after visibility
// and expires after ttl, or never if ttl is Forever.
func (q *Queue) Put(body []byte, visibility, ttl time.Duration, now time.Time) (m Message, err error) {
	list, err := q.PutAll([]NewMessage{{body, visibility}}, ttl, now)
	if err != nil {
		return m, err
	}
	return list[0], nil
}

// recordSpace has buffers for the records of a Put; larger ones than maxRecordSpace are left to the collector.
var recordSpace = sync.Pool{New: func() any { return new([]byte) }}

const maxRecordSpace = 256 << 10

// PutAll is Put for several messages in one transaction: all are added, in their order, or none.
func (q *Queue) PutAll(list []NewMessage, ttl time.Duration, now time.Time) ([]Message, error) {
	put, records := make([]Message, len(list)), make([][]byte, len(list))
	nonces := make([]uint64, len(list))
	size := 0
	for _, x := range list {
		size += contentHeader + len(x.Body)
	}
	// Of all records. The transaction copies them to the log, and nothing has them once it has ended.
	space := recordSpace.Get().(*[]byte)
	room := slices.Grow((*space)[:0], size)
	defer func() {
		if *space = room; cap(room) <= maxRecordSpace {
			recordSpace.Put(space)
		}
	}()
	for i, x := range list {
		s, err := next(nil, Event{Kind: Put, Visibility: x.Visibility, TTL: ttl}, now.UnixNano())
		if err != nil {
			return nil, err
		}
		nonces[i] = rand.Uint64()
		c := content{s.Inserted, s.Expires, nonces[i], x.Body}
		begin := len(room)
		room = c.append(room)
		put[i], records[i] = Message{State: s, Body: x.Body}, room[begin:len(room):len(room)]
	}
	// Nonces and records are made before the transaction, which may run again. Numbers and receipts are made within it:
	// they depend on the counters that it reads.
	err := q.update("put", func(tx *store.Tx, id queueID) error {
		n := readCounters(tx, id)
		c := q.changing(tx, id, len(put))
		for i := range put {
			m := &put[i]
			number := n.next + uint64(i)
			tx.Put(bucketMessages, c.messageKey(number), records[i])
			key := c.place(number, m.NextVisible, m.Expires)
			m.ID = makeID(number, nonces[i])
			m.Receipt = q.store.receipts.receipt(&key, m.ID, 0)
		}
		n.next += uint64(len(put))
		n.messages += uint64(len(put))
		// A clock that is behind this time makes a later request rectify the queue, see clock.go.
		n.latest = max(n.latest, now.UnixNano())
		tx.Put(bucketCounters, id.key(), n.encode())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return put, nil
}
