package state

import (
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// pendingRecord sums up the uncommitted blocks of one blob name.
type pendingRecord struct {
	// set is the first part of the keys of the blocks.
	set uint64
	// last is the time at which the last block came; a week later all are dropped.
	last ticks.Ticks
	// count is the number of blocks, idLength the length of their ids in bytes, before base64.
	count    int64
	idLength int
	// parent and name are the entry of the file in a tree when its first block came.
	parent inode
	name   string
	// lease is the lease of the blob, which the blocks are committed to.
	lease Lease
}

func (p pendingRecord) encode() []byte {
	b := append(make([]byte, 0, 16), recordVersion)
	b = binary.AppendUvarint(b, p.set)
	b = binary.AppendUvarint(b, uint64(p.last))
	b = binary.AppendUvarint(b, uint64(p.count))
	b = binary.AppendUvarint(b, uint64(p.idLength))
	if p.parent == 0 && p.lease == (Lease{}) {
		return b
	}
	b = binary.AppendUvarint(b, uint64(p.parent))
	b = append(binary.AppendUvarint(b, uint64(len(p.name))), p.name...)
	e := encoder{b}
	e.lease(pendingLease, p.lease)
	return e.b
}

// pendingLease is the tag of the lease, which a record may end with.
const pendingLease = 1

func decodePending(v []byte) (pendingRecord, error) {
	d := newDecoder(v)
	p := pendingRecord{set: d.uint(), last: ticks.Ticks(d.uint()), count: int64(d.uint()), idLength: int(d.uint())}
	if d.more() {
		p.parent, p.name = inode(d.uint()), d.string()
	}
	if d.more() {
		if d.byte() != pendingLease {
			return p, errRecord
		}
		p.lease = d.lease()
	}
	return p, d.err()
}

// encodeBlock is the record of an uncommitted block: its piece, without the id, which is in the key.
func encodeBlock(p content.Piece) []byte {
	e := newEncoder(32)
	e.uvarint(uint64(p.Length))
	e.slices(p.Slices)
	if p.Seal.IV != "" {
		e.string(p.Seal.IV)
		e.string(p.Encryption.KeySHA256)
		e.string(p.Encryption.Scope)
	}
	return e.b
}

func decodeBlock(v []byte) (p content.Piece, err error) {
	d := newDecoder(v)
	p.Length = int64(d.uint())
	p.Slices = d.slices()
	if d.more() {
		p.Seal.IV = d.string()
		p.Encryption = encryption.ID{KeySHA256: d.string(), Scope: d.string()}
	}
	return p, d.err()
}
