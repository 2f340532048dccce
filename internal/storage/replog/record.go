package replog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/minio/crc64nvme"
)

// A message of the stream, integers big-endian:
//
//	0   8  CRC-64/NVME of bytes 8 to the end
//	8   1  version, 1
//	9   1  kind: 1 record, 2 part, 3 mark
//	10  1  record: 1 if the place of the record before it was not known when this one was written; else zero
//	11  1  zero
//	12  4  record: number of its parts; part: index; mark: zero
//	16  8  writer: a random number, one for each Open
//	24  8  counter: number of the record among those of the writer; its parts have the same
//	32  8  record: sequence of the valid record before it, 0 for none
//	40  8  record: CRC of that record, 0 for none
//	48  8  the writer's clock, nanoseconds since 1970
//	56     payload
//
// A record whose payload is too long for a message has parts, which are published before it. Its payload is those of
// its parts, in order, and then its own.
const (
	headerSize    = 56
	recordVersion = 1
)

type kind byte

const (
	kindRecord kind = 1
	kindPart   kind = 2
	kindMark   kind = 3
)

type header struct {
	kind        kind
	parts       uint32
	writer      uint64
	counter     uint64
	prev, chain uint64
	guessed     bool // prev is where that record was expected
	at          int64
}

// errSum means that a message does not have the right checksum, or is too short to have one.
var errSum = errors.New("the checksum does not match")

// encode returns a message.
func encode(h header, payload []byte) []byte {
	p := make([]byte, headerSize, headerSize+len(payload))
	p[8], p[9] = recordVersion, byte(h.kind)
	if h.guessed {
		p[10] = 1
	}
	binary.BigEndian.PutUint32(p[12:], h.parts)
	binary.BigEndian.PutUint64(p[16:], h.writer)
	binary.BigEndian.PutUint64(p[24:], h.counter)
	binary.BigEndian.PutUint64(p[32:], h.prev)
	binary.BigEndian.PutUint64(p[40:], h.chain)
	binary.BigEndian.PutUint64(p[48:], uint64(h.at))
	p = append(p, payload...)
	binary.BigEndian.PutUint64(p, crc64nvme.Checksum(p[8:]))
	return p
}

// decode parses a message. The payload is a part of p. Errors: errSum, ErrVersion.
func decode(p []byte) (h header, payload []byte, err error) {
	if len(p) < headerSize || sumOf(p) != crc64nvme.Checksum(p[8:]) {
		return h, nil, errSum
	}
	h = header{
		kind:    kind(p[9]),
		guessed: p[10] == 1,
		parts:   binary.BigEndian.Uint32(p[12:]),
		writer:  binary.BigEndian.Uint64(p[16:]),
		counter: binary.BigEndian.Uint64(p[24:]),
		prev:    binary.BigEndian.Uint64(p[32:]),
		chain:   binary.BigEndian.Uint64(p[40:]),
		at:      int64(binary.BigEndian.Uint64(p[48:])),
	}
	if p[8] != recordVersion || h.kind < kindRecord || h.kind > kindMark {
		return h, nil, fmt.Errorf("%w: version %d, kind %d", ErrVersion, p[8], p[9])
	}
	return h, p[headerSize:len(p):len(p)], nil
}

// sumOf returns the checksum that a message has.
func sumOf(p []byte) uint64 { return binary.BigEndian.Uint64(p) }

// MaxRecord is the size of the largest payload, in bytes.
const MaxRecord = 256 << 20
