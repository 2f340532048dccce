package record

import (
	"bytes"
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// CopyJob is a pending copy.
type CopyJob struct {
	Account, Container string
	// ID is the copy's.
	ID, URL, Intent string
	// ETag is the source's when the copy began, "" if it has none.
	ETag string
	// Snapshot is the source's snapshot that an incremental copy copies, 0 for any other copy.
	Snapshot ticks.Ticks
	// Set has the chunks that have arrived, blocks is their number.
	Set    uint64
	Blocks int64
	// Key is the key of the job; it is not stored.
	Key []byte
}

func (j *CopyJob) Encode() []byte {
	e := newEncoder(128)
	for _, s := range [...]string{j.Account, j.Container, j.ID, j.URL, j.Intent, j.ETag} {
		e.string(s)
	}
	e.uvarint(j.Set)
	e.uvarint(uint64(j.Blocks))
	if j.Snapshot != 0 {
		e.uvarint(uint64(j.Snapshot))
	}
	return e.b
}

// DecodeCopyJob reads a job and its key.
func DecodeCopyJob(k, v []byte) (j CopyJob, err error) {
	d := newDecoder(v)
	for _, s := range [...]*string{&j.Account, &j.Container, &j.ID, &j.URL, &j.Intent, &j.ETag} {
		*s = d.string()
	}
	j.Set = d.uint()
	j.Blocks = int64(d.uint())
	// Records of releases before incremental copies end here.
	if d.more() {
		j.Snapshot = ticks.Ticks(d.uint())
	}
	j.Key = bytes.Clone(k)
	return j, d.err()
}

// Chunks represents the set of chunks that have arrived.
func (j *CopyJob) Chunks() Pending { return Pending{Set: j.Set, Count: j.Blocks} }

// Arrived returns what has arrived, in order, each piece at the offset that its block is named by.
func (j *CopyJob) Arrived(tx *store.Tx) (list []content.Piece, err error) {
	scope := IDPrefix(j.Set)
	cur := tx.Cursor(BlocksBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		p, err := DecodeBlock(v)
		if err != nil {
			return nil, err
		}
		if len(k) < len(scope)+8 {
			return nil, ErrKey
		}
		// The ID of a chunk is its offset, so that the order of keys is that of the content.
		p.Start = int64(binary.BigEndian.Uint64(k[len(k)-8:]))
		list = append(list, p)
	}
	return list, nil
}
