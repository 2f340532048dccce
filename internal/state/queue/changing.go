package queue

import (
	"encoding/binary"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// changing is a transaction that changes messages of one queue.
type changing struct {
	tx    *store.Tx
	in    queueID
	hints *hints
	// room is memory for keys and small values, which live until the transaction is committed: one allocation for those
	// of several messages.
	room []byte
}

// changingRoom is the number of bytes that the change of one message needs: two places with a position, the key of its
// text, and its expiry.
const changingRoom = 2*len(visibleKey{}) + positionTimedBytes + 16 + 2*expiringBytes

// take returns n bytes for append.
func (c *changing) take(n int) []byte {
	if cap(c.room) < n {
		c.room = make([]byte, 0, changingRoom)
	}
	b := c.room[:0:n]
	c.room = c.room[n:n:cap(c.room)]
	return b
}

func (c *changing) visibleKey(key *visibleKey) []byte { return append(c.take(len(key)), key[:]...) }

func (c *changing) messageKey(number uint64) []byte {
	return appendMessageKey(c.take(16), c.in, number)
}

func (c *changing) expiringKey(expires int64, number uint64) []byte {
	return appendExpiringKey(c.take(expiringBytes), expires, c.in, number)
}

// put enters a message into the order of messages, at a place that no other message has.
func (c *changing) put(key *visibleKey, p position) {
	c.tx.Put(bucketVisible, c.visibleKey(key), p.append(c.take(positionTimedBytes)))
	c.hints.placed(c.in, c.tx.Group(), key)
	if p.expires != Never {
		c.tx.Put(bucketExpiring, c.expiringKey(p.expires, key.number()),
			binary.BigEndian.AppendUint64(c.take(8), uint64(key.visible())))
	}
}

// place enters a new message, which no client has received, into the order of messages.
func (c *changing) place(number uint64, visible, expires int64) visibleKey {
	key := makeVisibleKey(c.in, visible, number)
	c.put(&key, position{expires: expires})
	return key
}

// leave takes a message from its place, before put gives it another one.
func (c *changing) leave(key *visibleKey) { c.tx.Delete(bucketVisible, c.visibleKey(key)) }

// erase removes the records of a message. The caller changes the counters.
func (c *changing) erase(key *visibleKey, p position) {
	c.leave(key)
	c.tx.Delete(bucketMessages, c.messageKey(key.number()))
	if p.expires != Never {
		c.tx.Delete(bucketExpiring, c.expiringKey(p.expires, key.number()))
	}
}

// move gives a message the place of the time at which it becomes visible, after a change with a visibility timeout. It
// returns the key of the place and the position there.
func (c *changing) move(from *visibleKey, p position, visible int64, timeout time.Duration) (visibleKey, position) {
	key, p := makeVisibleKey(c.in, visible, from.number()), p.changed(timeout)
	if key != *from {
		c.leave(from)
	}
	c.put(&key, p)
	return key, p
}

// gone subtracts from the number of messages.
func gone(tx *store.Tx, id queueID, n uint64) {
	c := readCounters(tx, id)
	c.messages -= min(n, c.messages)
	tx.Put(bucketCounters, id.key(), c.encode())
}
