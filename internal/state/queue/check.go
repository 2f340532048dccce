package queue

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Counts are totals of what [Check] has read.
type Counts struct {
	Queues, Messages int
	// Bytes is the size of all messages' texts.
	Bytes int64
}

// Values checks the values that are opaque to this package: Properties and Policies return an error for a value that
// the service cannot have stored.
type Values struct {
	Properties, Policies func(value []byte) error
}

// Check reads the whole file and reports each inconsistency. It reads one state and changes nothing.
//
//   - every record of a queue can be read; ids are unique, below the next id, and not garbage
//   - the number of messages in a queue is that in its counters, and their numbers are below the next one
//   - every place has a message, every message a place, and every message that expires an entry in the order of expiry,
//     which names its place
//   - every record belongs to a queue or to garbage
func Check(db *store.DB, values Values, report func(error)) (n Counts, err error) {
	err = db.View(func(tx *store.Tx) error {
		c := checker{tx: tx, values: values, report: report, queues: make(map[queueID]*checkedQueue)}
		c.all()
		n = c.counts
		return nil
	})
	return n, err
}

type checkedQueue struct {
	name     string // "" for garbage
	unknown  bool   // no record says what it is
	counters counters
	next     uint64 // the number after the highest one
	places   uint64
	messages uint64
	expiring uint64 // places that expire, minus entries
	textless uint64 // places without a text
}

func (q *checkedQueue) String() string {
	switch {
	case q.unknown:
		return "a queue without a record"
	case q.name == "":
		return "a deleted queue"
	}
	return "queue " + q.name
}

type checker struct {
	tx     *store.Tx
	values Values
	report func(error)
	queues map[queueID]*checkedQueue
	counts Counts

	fixes *store.Fixes // of Repair; nil plans none
}

func (c *checker) all() {
	c.checkQueues()
	c.checkPlaces()
	c.checkMessages()
	c.checkExpiring()
	c.checkService()
}

func (c *checker) problem(format string, args ...any) { c.report(fmt.Errorf(format, args...)) }

func (c *checker) each(b store.Bucket, fn func(k, v []byte)) {
	cur := c.tx.Scan(b)
	for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
		fn(k, v)
	}
}

func (c *checker) checkQueues() {
	next := queueID(1)
	if v := c.tx.Get(bucketService, keyNextID); len(v) == 8 {
		next = queueID(binary.BigEndian.Uint64(v))
	}
	c.each(bucketQueues, func(k, v []byte) {
		account, name, ok := splitQueueKey(k)
		id, info, err := decodeQueue(v)
		name = name + " of account " + account
		switch {
		case !ok:
			c.problem("the key %q is not a queue's", k)
			return
		case err != nil:
			c.problem("queue %s: %w", name, err)
			return
		case id == 0 || id >= next:
			c.problem("queue %s: its id %d is not below the next id %d", name, id, next)
		case c.queues[id] != nil:
			c.problem("queue %s: its id %d is also that of %v", name, id, c.queues[id])
		}
		if len(info.Policies) > 0 {
			if err := c.values.Policies(info.Policies); err != nil {
				c.problem("queue %s: access policies: %w", name, err)
			}
		}
		c.counts.Queues++
		c.queues[id] = &checkedQueue{name: name, counters: readCounters(c.tx, id)}
	})
	// An entry without a name stands for a queue whose messages are being removed: the later checks find its id, and do
	// not report its records as those of no queue.
	c.each(bucketGarbage, func(k, _ []byte) {
		if len(k) != 8 {
			c.problem("the key %q is not that of a deleted queue", k)
			return
		}
		id := queueID(binary.BigEndian.Uint64(k))
		if q := c.queues[id]; q != nil {
			c.problem("%v exists, and its messages are being removed", q)
			return
		}
		c.queues[id] = &checkedQueue{}
	})
	c.each(bucketCounters, func(k, v []byte) {
		if len(k) != 8 || !countersFit(v) ||
			c.queues[queueID(binary.BigEndian.Uint64(k))] == nil {
			c.problem("the counters %x belong to no queue", k)
		}
	})
}

// queue returns the queue with the id in the first bytes of a key.
func (c *checker) queue(id []byte, b store.Bucket, key []byte) *checkedQueue {
	q := c.queues[queueID(binary.BigEndian.Uint64(id))]
	if q == nil {
		c.problem("bucket %s, key %x: there is no queue with its id", b, key)
		q = &checkedQueue{unknown: true}
		c.queues[queueID(binary.BigEndian.Uint64(id))] = q
	}
	return q
}

func (c *checker) checkPlaces() {
	c.each(bucketVisible, func(k, v []byte) {
		p, ok := decodePosition(v)
		if !ok || len(k) != len(visibleKey{}) {
			c.problem("bucket %s, key %x: it cannot be read", bucketVisible, k)
			return
		}
		key, q := visibleKey(k), c.queue(k, bucketVisible, k)
		q.places++
		// Repair needs the numbers that are in use, whatever the counters say.
		q.next = max(q.next, key.number()+1)
		id := queueID(binary.BigEndian.Uint64(k))
		if q.name != "" && key.number() >= q.counters.next {
			c.problem("%v: message %d has a number that is not below the next one", q, key.number())
		}
		lost := c.tx.Get(bucketMessages, messageKey(id, key.number())) == nil
		if lost {
			c.problem("%v: message %d has a place and no text", q, key.number())
			q.textless++
			c.fixes.Delete(bucketVisible, k)
			c.fixes.Delete(bucketExpiring, expiringKey(p.expires, id, key.number()))
		}
		if p.expires != Never {
			q.expiring++
			if v := c.tx.Get(bucketExpiring, expiringKey(p.expires, id, key.number())); !bytes.Equal(v, k[8:16]) {
				c.problem("%v: the entry by which message %d expires does not name its place", q, key.number())
				if !lost {
					c.fixes.Put(bucketExpiring, expiringKey(p.expires, id, key.number()), k[8:16])
				}
			}
		}
	})
}

func (c *checker) checkMessages() {
	c.each(bucketMessages, func(k, v []byte) {
		m, ok := decodeContent(v)
		if !ok || len(k) != 16 {
			c.problem("bucket %s, key %x: it cannot be read", bucketMessages, k)
			return
		}
		q := c.queue(k, bucketMessages, k)
		q.messages++
		q.next = max(q.next, binary.BigEndian.Uint64(k[8:])+1)
		if q.name != "" {
			c.counts.Messages++
			c.counts.Bytes += int64(len(m.text))
		}
		if m.expires != Never && m.expires <= m.inserted {
			c.problem("%v: message %d expires before it was put", q, binary.BigEndian.Uint64(k[8:]))
		}
	})
	for _, q := range c.queues {
		switch {
		case q.messages != q.places:
			c.problem("%v: it has %d messages, and places for %d", q, q.messages, q.places)
		case q.name != "" && q.counters.messages != q.messages:
			c.problem("%v: it has %d messages, and counts %d", q, q.messages, q.counters.messages)
		}
	}
}

func (c *checker) checkExpiring() {
	c.each(bucketExpiring, func(k, v []byte) {
		if len(k) != 24 || len(v) != 8 {
			c.problem("bucket %s, key %x: it cannot be read", bucketExpiring, k)
			return
		}
		q := c.queue(k[8:], bucketExpiring, k)
		q.expiring--
		if c.tx.Get(bucketVisible, slices.Concat(k[8:16], v, k[16:])) == nil {
			c.problem("%v: message %d has an entry by which it expires, and no place there", q, binary.BigEndian.Uint64(k[16:]))
			c.fixes.Delete(bucketExpiring, k)
		}
	})
	for _, q := range c.queues {
		if q.expiring != 0 {
			c.problem("%v: the messages that expire differ from the entries in the order of expiry by %d", q, int64(q.expiring))
		}
	}
}

func (c *checker) checkService() {
	c.each(bucketService, func(k, v []byte) {
		switch {
		case bytes.Equal(k, keyNextID):
			if len(v) != 8 {
				c.problem("the next id of queues has %d bytes", len(v))
			}
		case bytes.Equal(k, keyReceiptKey):
			if len(v) != receiptKeyBytes {
				c.problem("the key of the pop receipts has %d bytes", len(v))
			}
		case bytes.HasPrefix(k, propertiesKey("")):
			if err := c.values.Properties(v); err != nil {
				c.problem("service properties of %s: %w", k[len(propertiesKey("")):], err)
			}
		default:
			c.problem("bucket %s has the unknown key %q", bucketService, k)
		}
	})
}
