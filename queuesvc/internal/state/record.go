package state

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// Never is the expiry of a message that does not expire.
const Never int64 = 0

// slot is where a message lives: a subject of the queue's stream. When the message is gone another may take its place.
// The upper half tells the front-end that made the slot, so that two never make the same; the lower half is a number, counted
// on from slotHex.
type slot uint64

// slotHex is the bit of the slots whose token is written in hexadecimal. JetStream keeps subjects in trees whose nodes have room for
// 4, 10, 16, 48 or 256 children: sixteen that are full take 20 bytes a child, the 36 of the slots without this bit, which were
// made before there was one, 32. Each message has its place in such a tree, and often in two.
const slotHex slot = 1 << 31

// token is the slot as the last token of a subject: sixteen hexadecimal digits, or at most thirteen with base 36.
func (s slot) token() string {
	if s&slotHex == 0 {
		return strconv.FormatUint(uint64(s), 36)
	}
	var b [8]byte
	return hex.EncodeToString(binary.BigEndian.AppendUint64(b[:0], uint64(s)))
}

// parseSlot reads what token writes.
func parseSlot(text string) (slot, bool) {
	base := 36
	if len(text) == 16 {
		base = 16
	}
	n, err := strconv.ParseUint(text, base, 64)
	return slot(n), err == nil && slot(n).token() == text
}

// ID is a message's identity, a GUID: the slot, and a random number that tells it from others in the slot.
type ID [16]byte

func makeID(s slot, nonce uint64) (id ID) {
	binary.BigEndian.PutUint64(id[:8], uint64(s))
	binary.BigEndian.PutUint64(id[8:], nonce)
	return id
}

func (id ID) slot() slot { return slot(binary.BigEndian.Uint64(id[:8])) }

func (id ID) nonce() uint64 { return binary.BigEndian.Uint64(id[8:]) }

// String returns the GUID: lower-case hexadecimal digits in groups of 8, 4, 4, 4 and 12.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:], id[0:4])
	hex.Encode(b[9:], id[4:6])
	hex.Encode(b[14:], id[6:8])
	hex.Encode(b[19:], id[8:10])
	hex.Encode(b[24:], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// ParseID reads what String writes, in either case.
func ParseID(s string) (id ID, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, false
	}
	var digits [32]byte
	n := copy(digits[0:], s[0:8])
	n += copy(digits[n:], s[9:13])
	n += copy(digits[n:], s[14:18])
	n += copy(digits[n:], s[19:23])
	copy(digits[n:], s[24:36])
	_, err := hex.Decode(id[:], digits[:])
	return id, err == nil
}

// State is all of a message but its identity and body. Times are nanoseconds since 1970, UTC.
type State struct {
	Inserted     int64
	Expires      int64 // Never if it does not
	NextVisible  int64
	DequeueCount uint32
}

// Message is a message as callers see it.
type Message struct {
	ID ID
	State
	// Receipt is the pop receipt: the sequence number of the record that this is.
	Receipt Receipt
	Body    []byte
}

// The record's headers. The payload is the message's body as it is.
//
//	Lazuli-Message: 1 <nonce> <inserted> <expires> <next visible> <dequeue count> <writer>
//	Lazuli-Message: 1 deleted <writer>
//	Lazuli-Message: 1 cleared <writer>
//
// 1 is the format's version; the nonce is hexadecimal, the other numbers are decimal. The writer is unique for each change, and tells whoever had no
// answer to a publish whether the record that is there is his.
const (
	headerRecord  = "Lazuli-Message"
	formatVersion = "1"
	wordDeleted   = "deleted"
	wordCleared   = "cleared"
)

// recordKind is what a record says of its subject.
type recordKind uint8

const (
	recordMessage   recordKind = iota // the message exists
	recordTombstone                   // it was deleted: the slot is free
	recordCleared                     // all older records of the stream are void
)

// record is a parsed record header.
type record struct {
	kind   recordKind
	nonce  uint64 // of the message's ID
	state  State
	writer string
}

// errRecord means that a record cannot be read: it is not ours, or of a later version.
var errRecord = errors.New("not a message record of a known version")

// encode returns the header's value.
func (r *record) encode() string {
	b := make([]byte, 0, 96)
	b = append(b, formatVersion...)
	switch r.kind {
	case recordTombstone:
		b = append(b, ' ')
		b = append(b, wordDeleted...)
	case recordCleared:
		b = append(b, ' ')
		b = append(b, wordCleared...)
	default:
		b = append(b, ' ')
		b = strconv.AppendUint(b, r.nonce, 16)
		for _, n := range [...]int64{r.state.Inserted, r.state.Expires, r.state.NextVisible, int64(r.state.DequeueCount)} {
			b = append(b, ' ')
			b = strconv.AppendInt(b, n, 10)
		}
	}
	b = append(b, ' ')
	b = append(b, r.writer...)
	return string(b)
}

// decodeRecord reads what encode writes.
func decodeRecord(s string) (record, error) {
	version, rest, _ := strings.Cut(s, " ")
	if version != formatVersion {
		return record{}, errRecord
	}
	word, rest, ok := strings.Cut(rest, " ")
	switch {
	case !ok:
		return record{}, errRecord
	case word == wordDeleted:
		return record{kind: recordTombstone, writer: rest}, nil
	case word == wordCleared:
		return record{kind: recordCleared, writer: rest}, nil
	}
	nonce, err := strconv.ParseUint(word, 16, 64)
	if err != nil {
		return record{}, errRecord
	}
	var n [4]int64
	for i := range n {
		if word, rest, ok = strings.Cut(rest, " "); !ok {
			return record{}, errRecord
		}
		v, err := strconv.ParseInt(word, 10, 64)
		if err != nil || v < 0 {
			return record{}, errRecord
		}
		n[i] = v
	}
	if n[3] > 1<<32-1 || rest == "" {
		return record{}, errRecord
	}
	return record{
		nonce:  nonce,
		state:  State{Inserted: n[0], Expires: n[1], NextVisible: n[2], DequeueCount: uint32(n[3])},
		writer: rest,
	}, nil
}
