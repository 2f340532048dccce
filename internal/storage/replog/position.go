package replog

import (
	"encoding/binary"
	"fmt"
)

// Position is the point up to which a node has processed a log. The zero value is the beginning. It must be stored
// together with what was applied.
type Position struct {
	// Seq is the sequence of the stream up to which every message was processed.
	Seq uint64
	// Log is the sequence of the last record up to Seq, valid or not; 0 for none.
	Log uint64
	// Last is the sequence of the last valid record, which is the prev of the next one; 0 for none.
	Last uint64
	// Chain is the checksum of that record.
	Chain uint64
	// Resume is the sequence after which a restarted node reads the stream: Last, or less if the parts of a record were in
	// the stream at Last and the record was not.
	Resume uint64
	// At is the clock of that record's writer when it began to append it, in nanoseconds since 1970. Only a
	// position that a log passes to apply sets it; the encoding leaves it out.
	At int64
}

const positionSize = 5 * 8

// AppendBinary appends an encoding of fixed size to b. It never fails.
func (p Position) AppendBinary(b []byte) ([]byte, error) {
	for _, n := range []uint64{p.Seq, p.Log, p.Last, p.Chain, p.Resume} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b, nil
}

// UnmarshalBinary parses the encoding of AppendBinary.
func (p *Position) UnmarshalBinary(b []byte) error {
	if len(b) != positionSize {
		return fmt.Errorf("replog: a position of %d bytes", len(b))
	}
	for i, n := range []*uint64{&p.Seq, &p.Log, &p.Last, &p.Chain, &p.Resume} {
		*n = binary.BigEndian.Uint64(b[8*i:])
	}
	if p.Log > p.Seq || p.Last > p.Log || p.Resume > p.Seq {
		return fmt.Errorf("replog: impossible position %+v", *p)
	}
	return nil
}
