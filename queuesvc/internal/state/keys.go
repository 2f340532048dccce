package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The buckets of queues.db. Integers are big-endian with 8 bytes unless noted, times are nanoseconds since 1970.
const (
	// bucketQueues: account, 0x00, name -> id, JSON of queueInfo.
	bucketQueues store.Bucket = "queues"
	// bucketCounters: id -> number of messages, number of the next message, and in queues that were used since it was
	// recorded the latest time of a put.
	bucketCounters store.Bucket = "counters"
	// bucketMessages: id, number -> inserted, expires, nonce, text.
	bucketMessages store.Bucket = "messages"
	// bucketVisible: id, time visible, number -> expires, dequeue count (4), changes (4).
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
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, 16), uint64(id)), number)
}

func expiringKey(expires int64, id queueID, number uint64) []byte {
	k := binary.BigEndian.AppendUint64(make([]byte, 0, 24), uint64(expires))
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
	// latest is the latest time at which a message was put, 0 if none was since it is recorded.
	latest int64
}

// The lengths of counters, without and with the time of the latest put.
const (
	countersBytes    = 16
	countersAllBytes = 24
)

func (c counters) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, countersAllBytes), c.messages)
	b = binary.BigEndian.AppendUint64(b, c.next)
	return binary.BigEndian.AppendUint64(b, uint64(c.latest))
}

func readCounters(tx *store.Tx, id queueID) (c counters) {
	v := tx.Get(bucketCounters, id.key())
	if len(v) == countersBytes || len(v) == countersAllBytes {
		c.messages, c.next = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
	}
	if len(v) == countersAllBytes {
		c.latest = int64(binary.BigEndian.Uint64(v[16:]))
	}
	return c
}

// position is the value of a key in bucketVisible: what changes when a message is handed out, besides its place.
type position struct {
	expires  int64
	dequeues uint32
	changes  uint32 // how often the message was handed out or changed; part of the pop receipt
}

func (p position) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), uint64(p.expires))
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, p.dequeues), p.changes)
}

func decodePosition(v []byte) (p position, ok bool) {
	if len(v) != 16 {
		return p, false
	}
	return position{int64(binary.BigEndian.Uint64(v)), binary.BigEndian.Uint32(v[8:]), binary.BigEndian.Uint32(v[12:])},
		true
}

// content is the value of a key in bucketMessages.
type content struct {
	inserted, expires int64
	nonce             uint64
	text              []byte
}

const contentHeader = 24

func (c *content) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, contentHeader+len(c.text)), uint64(c.inserted))
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
