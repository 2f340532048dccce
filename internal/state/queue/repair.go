package queue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Repair puts in order what damage has left in the file of a stopped service, which needs no log, by what [Check]
// finds. A message without a text is given up. One that has lost its place, and with it the time of its visibility and
// its dequeue count, is visible. A queue that has lost its record gets the name lost-ID. note is called for each
// change; lost means that something could not be kept. known has the keys of lost records, by bucket, that
// were reported before: note is not called for them again.
func Repair(path string, values Values, known map[string][][]byte, note func(what string, lost bool)) (err error) {
	db, err := openFile(path, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	f := &store.Fixes{}
	err = db.View(func(tx *store.Tx) error {
		c := checker{tx: tx, values: values, report: func(error) {}, queues: make(map[queueID]*checkedQueue), fixes: f}
		c.all()
		c.repair(reported(known), note)
		return nil
	})
	if err != nil {
		return err
	}
	return f.Apply(db)
}

// reported returns how many texts of messages are among lost records, by queue.
func reported(known map[string][][]byte) map[queueID]uint64 {
	n := map[queueID]uint64{}
	for _, key := range known[string(bucketMessages)] {
		if len(key) == 16 {
			n[queueID(binary.BigEndian.Uint64(key))]++
		}
	}
	return n
}

// repair plans what depends on all records of a queue. The checks have planned the rest. reported are the numbers of
// messages without a text that need no further note.
func (c *checker) repair(reported map[queueID]uint64, note func(what string, lost bool)) {
	account := c.anyAccount()
	next := queueID(1)
	for id, q := range c.queues {
		next = max(next, id+1)
		// The counter also counts messages of which the damage has left nothing. It and the places without a text may count
		// the same messages, so the larger of the two is reported, not the sum.
		gone := q.textless
		if q.name != "" && q.counters.messages > q.messages {
			gone = max(gone, q.counters.messages-q.messages)
		}
		if gone -= min(gone, reported[id]); gone > 0 && q.name != "" {
			note(fmt.Sprintf("%v: %d messages, of which there is no text", q, gone), true)
		}
		if q.messages > q.places-q.textless {
			c.placeless(id, q, note)
		}
		switch {
		case q.unknown && q.messages > 0:
			name := fmt.Sprintf("lost-%d", id)
			value, _ := encodeQueue(id, &queueInfo{}) // cannot fail without policies
			c.fixes.Put(bucketQueues, queueKey(account, name), value)
			note(fmt.Sprintf("the name, metadata and policies of a queue: its %d messages are in queue %s of account %s",
				q.messages, name, account), true)
		case q.unknown, q.name == "":
			continue
		}
		// The next number must be above every number that is in use: a second message with the same number would overwrite
		// the text of the first.
		fixed := q.counters
		fixed.messages, fixed.next = q.messages, max(fixed.next, q.next, 1)
		if fixed != q.counters {
			c.fixes.Put(bucketCounters, id.key(), fixed.encode())
			note(fmt.Sprintf("%v: its messages were counted again", q), q.counters == (counters{}))
		}
	}
	c.each(bucketCounters, func(k, _ []byte) {
		if q := c.queues[queueID(binary.BigEndian.Uint64(k))]; q == nil || q.unknown && q.messages == 0 {
			c.fixes.Delete(bucketCounters, k)
		}
	})
	// An id that is given twice would put the messages of two queues together.
	if v := c.tx.Get(bucketService, keyNextID); len(v) != 8 || queueID(binary.BigEndian.Uint64(v)) < next {
		c.fixes.Put(bucketService, keyNextID, next.key())
	}
}

// placeless gives the messages of a queue that have no place one at which they are visible; those of garbage go.
func (c *checker) placeless(id queueID, q *checkedQueue, note func(what string, lost bool)) {
	placed := make([]uint64, 0, q.places) // no map: a queue may have millions
	within := func(b store.Bucket, fn func(k, v []byte)) {
		cur := c.tx.Scan(b)
		for k, v := cur.Seek(id.key()); bytes.HasPrefix(k, id.key()); k, v = cur.Next() {
			fn(k, v)
		}
	}
	within(bucketVisible, func(k, _ []byte) { placed = append(placed, binary.BigEndian.Uint64(k[16:])) })
	slices.Sort(placed)
	n := 0
	within(bucketMessages, func(k, v []byte) {
		number := binary.BigEndian.Uint64(k[8:])
		m, ok := decodeContent(v)
		if _, found := slices.BinarySearch(placed, number); found || !ok {
			return
		}
		// The queue is known and has no name: it was deleted or cleared, and its messages are to go.
		if q.name == "" && !q.unknown {
			c.fixes.Delete(bucketMessages, k)
			return
		}
		n++
		key := makeVisibleKey(id, m.inserted, number)
		c.fixes.Put(bucketVisible, key[:], position{expires: m.expires}.encode())
		if m.expires != Never {
			c.fixes.Put(bucketExpiring, expiringKey(m.expires, id, number), key[8:16])
		}
	})
	if n > 0 {
		note(fmt.Sprintf("%v: of %d messages the dequeue counts and the times until which they were hidden; "+
			"they are visible", q, n), true)
	}
}

// anyAccount returns the account of the first queue, for those that have lost theirs.
func (c *checker) anyAccount() string {
	cur := c.tx.Scan(bucketQueues)
	if k, _ := cur.Seek(nil); k != nil {
		account, _, _ := splitQueueKey(k)
		return account
	}
	cur = c.tx.Scan(bucketService)
	if k, _ := cur.Seek(propertiesKey("")); bytes.HasPrefix(k, propertiesKey("")) {
		return string(k[len(propertiesKey("")):])
	}
	return "devstoreaccount1"
}

// Describe calls fn with a function that names for people what keys in the file at path belong to, as far as the rest
// of the file tells.
func Describe(path string, fn func(name func(bucket store.Bucket, key []byte) string)) error {
	db, err := openFile(path, store.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *store.Tx) error {
		names := map[queueID]string{}
		cur := tx.Cursor(bucketQueues)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			account, name, _ := splitQueueKey(k)
			if id, _, err := decodeQueue(v); err == nil {
				names[id] = account + "/" + name
			}
		}
		queue := func(id []byte) string {
			n := queueID(binary.BigEndian.Uint64(id))
			if names[n] == "" {
				return fmt.Sprintf("queue number %d, which is gone", n)
			}
			return "queue " + names[n]
		}
		fn(func(bucket store.Bucket, key []byte) string {
			number := func(at int) uint64 { return binary.BigEndian.Uint64(key[at:]) }
			// The file is damaged, so each length is compared before the numbers in a key are read.
			switch account, name, ok := splitQueueKey(key); {
			case bucket == bucketQueues && ok:
				return fmt.Sprintf("queue %s/%s", account, name)
			case bucket == bucketCounters && len(key) == 8:
				return "the number of messages in " + queue(key)
			case bucket == bucketMessages && len(key) == 16:
				return fmt.Sprintf("%s, message %d", queue(key), number(8))
			case bucket == bucketVisible && len(key) == 24:
				return fmt.Sprintf("%s, place of message %d", queue(key), number(16))
			case bucket == bucketExpiring && len(key) == 24:
				return fmt.Sprintf("%s, expiry of message %d", queue(key[8:]), number(16))
			}
			return fmt.Sprintf("%s, key %q", bucket, key)
		})
		return nil
	})
}
