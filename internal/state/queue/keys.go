package queue

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The buckets of queues.db. Integers are big-endian with 8 bytes unless noted, times are nanoseconds since 1970.
const (
	// bucketQueues: account, 0x00, name -> id, JSON of queueInfo.
	bucketQueues store.Bucket = "queues"
	// bucketCounters: id -> number of messages, number of the next message, and in queues that were used since it was
	// recorded the latest time of a put or a hand-out; after a clock that was ahead, and while messages wait for it, also
	// when that was noticed and when to look again (see clock.go).
	bucketCounters store.Bucket = "counters"
	// bucketMessages: id, number -> inserted, expires, nonce, text.
	bucketMessages store.Bucket = "messages"
	// bucketVisible: id, time visible, number -> expires, dequeue count (4), changes (4), and of a message that was handed
	// out or changed the visibility timeout in seconds, rounded up (4).
	bucketVisible store.Bucket = "visible"
	// bucketExpiring: expires, id, number -> time visible. Messages that do not expire are not in it.
	bucketExpiring store.Bucket = "expiring"
	// bucketGarbage: id -> nothing. The ids that cleared and deleted queues had, until their records are removed.
	bucketGarbage store.Bucket = "garbage"
	// bucketService: "next-id" -> the next id of a queue; "receipt-key" -> 32 random bytes; "properties", 0x00, account ->
	// service properties as JSON.
	bucketService store.Bucket = "service"
)

// Buckets returns the buckets of queues.db, for [store.Options].
func Buckets() []store.Bucket {
	return []store.Bucket{bucketQueues, bucketCounters, bucketMessages, bucketVisible, bucketExpiring, bucketGarbage,
		bucketService}
}

var (
	keyNextID     = []byte("next-id")
	keyReceiptKey = []byte("receipt-key")
)

func propertiesKey(account string) []byte { return []byte("properties\x00" + account) }

func queueKey(account, name string) []byte {
	return append(append(append(make([]byte, 0, len(account)+1+len(name)), account...), 0), name...)
}

// splitQueueKey parses what queueKey builds.
func splitQueueKey(key []byte) (account, name string, ok bool) {
	a, n, ok := bytes.Cut(key, []byte{0})
	return string(a), string(n), ok
}

// queueID identifies a queue from its creation, or the last Clear Messages, on. Ids are not used again.
type queueID uint64

func (id queueID) key() []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }

// Never is the expiry of a message that does not expire.
const Never int64 = 0

// visibleKey is a key of bucketVisible: the place of a message.
type visibleKey [24]byte

func makeVisibleKey(id queueID, visible int64, number uint64) (k visibleKey) {
	binary.BigEndian.PutUint64(k[:], uint64(id))
	binary.BigEndian.PutUint64(k[8:], uint64(visible))
	binary.BigEndian.PutUint64(k[16:], number)
	return k
}

func (k *visibleKey) visible() int64 { return int64(binary.BigEndian.Uint64(k[8:])) }
func (k *visibleKey) number() uint64 { return binary.BigEndian.Uint64(k[16:]) }

func messageKey(id queueID, number uint64) []byte {
	return appendMessageKey(make([]byte, 0, 16), id, number)
}

func appendMessageKey(k []byte, id queueID, number uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(k, uint64(id)), number)
}

// expiringBytes is the length of a key of bucketExpiring, and more than that of a value.
const expiringBytes = 24

func expiringKey(expires int64, id queueID, number uint64) []byte {
	return appendExpiringKey(make([]byte, 0, expiringBytes), expires, id, number)
}

func appendExpiringKey(k []byte, expires int64, id queueID, number uint64) []byte {
	k = binary.BigEndian.AppendUint64(k, uint64(expires))
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(k, uint64(id)), number)
}

// queueInfo is the part of a queue's record that only operations on the queue itself read.
type queueInfo struct {
	Metadata []Meta          `json:"metadata,omitempty"`
	Policies json.RawMessage `json:"policies,omitempty"`
}

// Meta is one name and value of a queue's metadata.
type Meta struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func encodeQueue(id queueID, info *queueInfo) ([]byte, error) {
	text, err := json.Marshal(info)
	return append(id.key(), text...), err
}

func decodeQueue(value []byte) (id queueID, info queueInfo, err error) {
	if len(value) < 8 {
		return 0, info, fmt.Errorf("%w: the record of a queue has %d bytes", ErrDamaged, len(value))
	}
	if err := json.Unmarshal(value[8:], &info); err != nil {
		return 0, info, fmt.Errorf("%w: the record of a queue: %w", ErrDamaged, err)
	}
	return queueID(binary.BigEndian.Uint64(value)), info, nil
}

// counters is the value of a key in bucketCounters.
type counters struct {
	messages, next uint64
	// latest is the latest time at which a message was put or handed out, 0 if none was since it is recorded. Of hand-outs
	// it may be some seconds behind (see used).
	latest int64
	// noticed is when a request found that messages were handed out by a clock that was ahead, and again when the first
	// of them is due. Both are 0 if there are no such messages.
	noticed, again int64
}

// The lengths of counters: without and with the latest time, and with all.
const (
	countersBytes       = 16
	countersLatestBytes = 24
	countersAllBytes    = 40
)

func (c counters) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, countersAllBytes), c.messages)
	b = binary.BigEndian.AppendUint64(b, c.next)
	b = binary.BigEndian.AppendUint64(b, uint64(c.latest))
	if c.again == 0 {
		return b
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(c.noticed)), uint64(c.again))
}

func readCounters(tx *store.Tx, id queueID) (c counters) {
	v := tx.Get(bucketCounters, id.key())
	if !countersFit(v) {
		return c
	}
	c.messages, c.next = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
	if len(v) >= countersLatestBytes {
		c.latest = int64(binary.BigEndian.Uint64(v[16:]))
	}
	if len(v) == countersAllBytes {
		c.noticed, c.again = int64(binary.BigEndian.Uint64(v[24:])), int64(binary.BigEndian.Uint64(v[32:]))
	}
	return c
}

// countersFit reports whether a value has one of the lengths of counters.
func countersFit(v []byte) bool {
	return len(v) == countersBytes || len(v) == countersLatestBytes || len(v) == countersAllBytes
}

// position is the value of a key in bucketVisible: what changes when a message is handed out, besides its place.
type position struct {
	expires  int64
	dequeues uint32
	changes  uint32 // how often the message was handed out or changed; part of the pop receipt
	// timeout is the visibility timeout of the last change, if timed is set. Records of former releases do not have it.
	timeout time.Duration
	timed   bool
}

// The lengths of positions, without and with a timeout.
const (
	positionBytes      = 16
	positionTimedBytes = 20
)

// changed returns the position after a change with a visibility timeout.
func (p position) changed(timeout time.Duration) position {
	p.changes++
	p.timed, p.timeout = true, (timeout + time.Second - 1).Truncate(time.Second)
	return p
}

func (p position) encode() []byte { return p.append(make([]byte, 0, positionTimedBytes)) }

func (p position) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.expires))
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, p.dequeues), p.changes)
	if !p.timed {
		return b
	}
	return binary.BigEndian.AppendUint32(b, uint32(min(p.timeout/time.Second, math.MaxUint32)))
}

func decodePosition(v []byte) (p position, ok bool) {
	if len(v) != positionBytes && len(v) != positionTimedBytes {
		return p, false
	}
	p = position{expires: int64(binary.BigEndian.Uint64(v)), dequeues: binary.BigEndian.Uint32(v[8:]),
		changes: binary.BigEndian.Uint32(v[12:])}
	if len(v) == positionTimedBytes {
		p.timed, p.timeout = true, time.Duration(binary.BigEndian.Uint32(v[16:]))*time.Second
	}
	return p, true
}

// content is the value of a key in bucketMessages.
type content struct {
	inserted, expires int64
	nonce             uint64
	text              []byte
}

const contentHeader = 24

func (c *content) encode() []byte { return c.append(make([]byte, 0, contentHeader+len(c.text))) }

func (c *content) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(c.inserted))
	b = binary.BigEndian.AppendUint64(b, uint64(c.expires))
	b = binary.BigEndian.AppendUint64(b, c.nonce)
	return append(b, c.text...)
}

func decodeContent(v []byte) (c content, ok bool) {
	if len(v) < contentHeader {
		return c, false
	}
	return content{int64(binary.BigEndian.Uint64(v)), int64(binary.BigEndian.Uint64(v[8:])),
		binary.BigEndian.Uint64(v[16:]), v[contentHeader:]}, true
}

// ID is a message's identity, a GUID: its number in the queue, and a random number, so that it cannot be guessed.
type ID [16]byte

func makeID(number, nonce uint64) (id ID) {
	binary.BigEndian.PutUint64(id[:8], number)
	binary.BigEndian.PutUint64(id[8:], nonce)
	return id
}

func (id ID) number() uint64 { return binary.BigEndian.Uint64(id[:8]) }

// String returns the GUID: lower-case hexadecimal digits in groups of 8, 4, 4, 4 and 12.
func (id ID) String() string { return uuid.UUID(id).String() }

// ParseID parses the text of String, in either case.
func ParseID(s string) (id ID, ok bool) {
	u, err := uuid.Parse(s)
	return ID(u), err == nil && len(s) == 36 // the package knows longer and shorter forms
}
