package state

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// Never is the expiry of a message that does not expire.
const Never int64 = 0

// slot is the position of a message: a subject of the queue's stream. When the message was deleted, another may use the slot. The upper half
// identifies the front-end that created the slot, so that slots are unique; the lower half is a number, counted from slotHex.
type slot uint64

// slotHex is the bit of slots whose token is hexadecimal. JetStream keeps subjects in trees whose nodes have space for 4, 10, 16, 48 or 256
// children: a full node of sixteen takes 20 bytes per child. Older slots without this bit have tokens with base 36, which take 32. Each message
// has an entry in such a tree, and often in two.
const slotHex slot = 1 << 31

// token returns the slot as the last token of a subject: sixteen hexadecimal digits, or at most thirteen digits with base 36.
func (s slot) token() string {
	var room [16]byte
	return string(s.appendToken(room[:0]))
}

func (s slot) appendToken(dst []byte) []byte {
	if s&slotHex == 0 {
		return strconv.AppendUint(dst, uint64(s), 36)
	}
	var b [8]byte
	return hex.AppendEncode(dst, binary.BigEndian.AppendUint64(b[:0], uint64(s)))
}

// parseSlot parses the text of token.
func parseSlot(text string) (slot, bool) {
	base := 36
	if len(text) == 16 {
		base = 16
	}
	n, err := strconv.ParseUint(text, base, 64)
	return slot(n), err == nil && slot(n).token() == text
}

// ID is a message's identity, a GUID: the slot, and a random number that distinguishes it from other messages in the slot.
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

// ParseID parses the text of String, in either case.
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

// State is a message without its identity and body. Times are nanoseconds since 1970, UTC.
type State struct {
	Inserted     int64
	Expires      int64 // Never if the message does not expire
	NextVisible  int64
	DequeueCount uint32
}

// Message is a message as returned to callers.
type Message struct {
	ID ID
	State
	// Receipt is the number in the pop receipt.
	Receipt Receipt
	Body    []byte
}

// The headers of a record. The payload is the unchanged body of the message.
//
//	Lazuli-Message: 2 <nonce> <inserted> <expires> <next visible> <dequeue count> <receipt> <body sum> <writer>
//	Lazuli-Message: 2 deleted <writer>
//	Lazuli-Message: 2 cleared <writer>
//	Lazuli-Sum:     <sum>
//	Lazuli-Synced:  <sequence>
//
// 2 is the format's version; the nonce and the sums are hexadecimal, the other numbers are decimal. The receipt is 0 unless the record is a copy
// of an older one (compact.go): then it is the sequence of the older one. The writer is unique for each change: a caller that got no answer to a
// publish uses it to find out whether the current record is its own.
//
// The sums are CRC32C. The body's sum is part of the record; the other covers the subject's last token and the value of Lazuli-Message. So the
// headers can be verified without the body. Lazuli-Synced is absent if this process does not control the durability; see
// [natsserver.HeaderSynced].
//
// Version 1 had neither receipt nor sums. Its records are read, but no longer written.
const (
	headerRecord  = natsserver.HeaderRecord
	headerSum     = natsserver.HeaderSum
	headerSynced  = natsserver.HeaderSynced
	formatVersion = "2"
	formerVersion = "1"
	wordDeleted   = "deleted"
	wordCleared   = "cleared"
)

// clearedToken is the last token of the subject of records that void all older ones.
const clearedToken = "cleared"

// recordKind is the meaning of a record for its subject.
type recordKind uint8

const (
	recordMessage   recordKind = iota // the message exists
	recordTombstone                   // the message was deleted: the slot is free
	recordCleared                     // all older records of the stream are void
)

// record is a parsed record header.
type record struct {
	kind    recordKind
	former  bool   // version 1, without sums
	nonce   uint64 // part of the message's ID
	state   State
	receipt uint64 // sequence of the record that this is a copy of; 0 for an original
	bodySum uint32
	writer  string
}

var (
	// errRecord: the record is not a message record, or has a later version.
	errRecord = errors.New("not a message record of a known version")
	// errDamaged: the record does not match its checksum.
	errDamaged = errors.New("record does not match its checksum")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }

// sumText is the value of headerSum for a subject's last token and a header's value.
func sumText(token, value string) string { return natsserver.Sum(token, value) }

// encode returns the header's value.
func (r *record) encode() string {
	b := make([]byte, 0, 128)
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
		b = append(b, ' ')
		b = strconv.AppendUint(b, r.receipt, 10)
		b = append(b, ' ')
		b = strconv.AppendUint(b, uint64(r.bodySum), 16)
	}
	b = append(b, ' ')
	b = append(b, r.writer...)
	return string(b)
}

// decodeHeader decodes the headers of a record whose subject ends with token. It returns errDamaged if they do not match their checksum.
func decodeHeader(token string, header nats.Header) (record, error) {
	value, want := header.Get(headerRecord), header.Get(headerSum)
	if want != "" && want != sumText(token, value) {
		return record{}, errDamaged
	}
	r, err := decodeRecord(value)
	if err == nil && want == "" && !r.former {
		return record{}, errDamaged
	}
	return r, err
}

// checkBody returns errDamaged if the body does not match the record's checksum.
func (r *record) checkBody(body []byte) error {
	if r.kind == recordMessage && !r.former && sum(body) != r.bodySum {
		return errDamaged
	}
	return nil
}

// decodeRecord decodes the text of encode, and version 1.
func decodeRecord(s string) (record, error) {
	version, rest, _ := strings.Cut(s, " ")
	if version != formatVersion && version != formerVersion {
		return record{}, errRecord
	}
	r := record{former: version == formerVersion}
	word, rest, ok := strings.Cut(rest, " ")
	switch {
	case !ok || rest == "":
		return record{}, errRecord
	case word == wordDeleted:
		r.kind, r.writer = recordTombstone, rest
		return r, nil
	case word == wordCleared:
		r.kind, r.writer = recordCleared, rest
		return r, nil
	}
	var err error
	if r.nonce, err = strconv.ParseUint(word, 16, 64); err != nil {
		return record{}, errRecord
	}
	var n [4]int64
	for i := range n {
		if word, rest, ok = strings.Cut(rest, " "); !ok {
			return record{}, errRecord
		}
		if n[i], err = strconv.ParseInt(word, 10, 64); err != nil || n[i] < 0 {
			return record{}, errRecord
		}
	}
	if !r.former {
		receipt, after, ok := strings.Cut(rest, " ")
		bodySum, after, ok2 := strings.Cut(after, " ")
		if r.receipt, err = strconv.ParseUint(receipt, 10, 64); err != nil || !ok || !ok2 {
			return record{}, errRecord
		}
		n, err := strconv.ParseUint(bodySum, 16, 32)
		if err != nil {
			return record{}, errRecord
		}
		r.bodySum, rest = uint32(n), after
	}
	if n[3] > 1<<32-1 || rest == "" {
		return record{}, errRecord
	}
	r.state = State{Inserted: n[0], Expires: n[1], NextVisible: n[2], DequeueCount: uint32(n[3])}
	r.writer = rest
	return r, nil
}
