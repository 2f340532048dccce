package jetstreamfiles

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/minio/highwayhash"
)

// The format of a record in a block, in little-endian order:
//
//	length 4, highest bit: has headers | sequence 8, two highest bits: erased, tombstone | time 8 | subject length 2 |
//	subject | with headers: header length 4, headers | payload | checksum 8
//
// The checksum is a 64-bit HighwayHash over sequence, time, subject, headers and payload. Its key is the SHA-256 of
// "<stream>-<block number>".
const (
	recordHead     = 22
	recordSum      = 8
	headersBit     = 1 << 31
	erasedBit      = 1 << 63
	tombstoneBit   = 1 << 62
	maxRecord      = 32 << 20
	headerLengthAt = 4
)

// record is a parsed record. Its slices are parts of the block.
type record struct {
	seq       uint64
	time      int64
	tombstone bool
	erased    bool
	subject   []byte
	headers   []byte // as on the wire, "NATS/1.0\r\n..."; nil if the record has no headers
	payload   []byte
	size      int // of the whole record
	valid     bool
}

// parseRecord reads the record at the beginning of buf. ok is false if its lengths cannot be right; valid says whether
// the checksum matches.
func parseRecord(buf []byte, sum hash.Hash64) (r record, ok bool) {
	if len(buf) < recordHead+recordSum {
		return record{}, false
	}
	length := binary.LittleEndian.Uint32(buf)
	size, subjectLength := int(length&^headersBit), int(binary.LittleEndian.Uint16(buf[20:]))
	fixed := recordHead + subjectLength + recordSum
	if length&headersBit != 0 {
		fixed += headerLengthAt
	}
	if size < fixed || size > len(buf) || size > maxRecord {
		return record{}, false
	}
	seq := binary.LittleEndian.Uint64(buf[4:])
	r = record{seq: seq &^ (erasedBit | tombstoneBit), time: int64(binary.LittleEndian.Uint64(buf[12:])),
		tombstone: seq&tombstoneBit != 0, erased: seq&erasedBit != 0, size: size}
	body := buf[recordHead : size-recordSum]
	r.subject = body[:subjectLength]
	body = body[subjectLength:]
	if length&headersBit != 0 {
		n := int(binary.LittleEndian.Uint32(body))
		body = body[headerLengthAt:]
		if n > len(body) || n < 0 {
			n = 0 // the length is damaged; the checksum does not cover it
			r.headers, r.payload = nil, body
			return r, true
		}
		r.headers, r.payload = body[:n], body[n:]
	} else {
		r.payload = body
	}
	r.valid = bytes.Equal(checksum(sum, buf[4:20], r.subject, body), buf[size-recordSum:size])
	return r, true
}

// checksum is JetStream's checksum of a record; body is headers and payload.
func checksum(sum hash.Hash64, fixed, subject, body []byte) []byte {
	sum.Reset()
	sum.Write(fixed)
	sum.Write(subject)
	sum.Write(body)
	return sum.Sum(nil)
}

// hashOf returns the hash of what belongs to a name: "<stream>-<block number>" for the records of a block.
func hashOf(name string) hash.Hash64 {
	key := sha256.Sum256([]byte(name))
	sum, err := highwayhash.New64(key[:])
	if err != nil {
		panic("jetstreamfiles: " + err.Error()) // the key's length is right
	}
	return sum
}

func uint32le(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
