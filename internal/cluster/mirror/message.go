package mirror

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// A message to putSubject has a record, with the filler behind it, and the extents to sync before it is acknowledged:
//
//	0   1  version
//	1   2  number k of extents to sync
//	3   8  id of the extent of the record
//	11  8  offset of the record
//	19  8k ids of the extents to sync
//	       the records with their headers; empty for a sync alone
//
// The acknowledgement:
//
//	0   1  status
//	1   8  epoch of the process that acknowledges
//	9      the error as text
//
// A question is JSON (question), its answer:
//
//	0   1  status
//	1   8  offset
//	9      data, or the error as text
const messageVersion = 1

const (
	putHeader    = 19
	answerHeader = 9
)

// maxSyncs is the maximum number of extents that a message names.
const maxSyncs = 1 << 12

// The status of an acknowledgement or answer.
const (
	statusOK      = 0
	statusMissing = 1 // the node does not have the record
	statusFailed  = 2
)

// errMessage means that a message does not parse.
var errMessage = errors.New("mirror: a message does not parse")

// put is a message to putSubject.
type put struct {
	id      uint64
	offset  int64
	syncs   []uint64
	records []byte
}

func (p *put) appendTo(b []byte) []byte {
	b = append(b, messageVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.syncs)))
	b = binary.BigEndian.AppendUint64(b, p.id)
	b = binary.BigEndian.AppendUint64(b, uint64(p.offset))
	for _, id := range p.syncs {
		b = binary.BigEndian.AppendUint64(b, id)
	}
	return append(b, p.records...)
}

func parsePut(b []byte) (p put, err error) {
	if len(b) < putHeader {
		return p, errMessage
	}
	if b[0] != messageVersion {
		return p, fmt.Errorf("mirror: a message of version %d; this release knows version %d", b[0], messageVersion)
	}
	k := int(binary.BigEndian.Uint16(b[1:]))
	p.id, p.offset = binary.BigEndian.Uint64(b[3:]), int64(binary.BigEndian.Uint64(b[11:]))
	b = b[putHeader:]
	if len(b) < 8*k {
		return p, errMessage
	}
	for range k {
		p.syncs = append(p.syncs, binary.BigEndian.Uint64(b))
		b = b[8:]
	}
	p.records = b
	return p, nil
}

// answer encodes an acknowledgement or an answer.
func answer(err error, number uint64, data []byte) []byte {
	status := byte(statusOK)
	switch {
	case errors.Is(err, extent.ErrNotFound), errors.Is(err, extent.ErrCorrupt), errors.Is(err, extent.ErrRange):
		status = statusMissing
	case err != nil:
		status = statusFailed
	}
	if err != nil {
		data = []byte(err.Error())
	}
	b := make([]byte, 0, answerHeader+len(data))
	b = binary.BigEndian.AppendUint64(append(b, status), number)
	return append(b, data...)
}

// errMissing means that another node does not have what it was asked for.
var errMissing = errors.New("mirror: the other node does not have it")

func parseAnswer(b []byte) (number uint64, data []byte, err error) {
	if len(b) < answerHeader {
		return 0, nil, errMessage
	}
	number, data = binary.BigEndian.Uint64(b[1:]), b[answerHeader:]
	switch b[0] {
	case statusOK:
		return number, data, nil
	case statusMissing:
		return number, nil, fmt.Errorf("%w: %s", errMissing, data)
	default:
		return number, nil, fmt.Errorf("mirror: the other node failed: %s", data)
	}
}

// question holds what a node asks another one.
type question struct {
	Version int    `json:"version"`
	From    string `json:"from"` // the name of the node that asks
	Op      string `json:"op"`
	Extent  uint64 `json:"extent,omitempty,string"`
	Offset  int64  `json:"offset,omitempty"`
	Length  int64  `json:"length,omitempty"`
	CRC     uint32 `json:"crc,omitempty"`
	// Paged asks for a part of the list of extents, after Extent. A release that does not know it answers with the whole
	// list.
	Paged bool `json:"paged,omitempty"`
}

// The operations.
const (
	opRecord  = "record"  // the record that contains a slice
	opRecords = "records" // records of an extent from an offset on
	opList    = "list"    // the extents of the node
)

// listing is the answer to opList.
type listing struct {
	Owner   uint64   `json:"owner,string"`   // the number of the node
	Extents []listed `json:"extents"`        // in the order of their ids
	More    bool     `json:"more,omitempty"` // others follow
}

// listed is an extent of a node.
type listed struct {
	ID    uint64 `json:"id,string"`
	Size  int64  `json:"size"`
	Final bool   `json:"final,omitempty"` // the node has written it, and does not write to it any more
}

func (q *question) slice() extent.Slice {
	return extent.Slice{Extent: q.Extent, Offset: q.Offset, Length: q.Length, CRC: q.CRC}
}

func (q *question) encode() []byte {
	q.Version = messageVersion
	b, err := json.Marshal(q)
	if err != nil {
		panic("mirror: " + err.Error()) // a struct of numbers and strings
	}
	return b
}
