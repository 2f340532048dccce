package record

import (
	"bytes"
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Pending sums up the uncommitted blocks of one blob name.
type Pending struct {
	// Set is the first part of the keys of the blocks.
	Set uint64
	// Last is the time at which the last block came; a week later all are dropped.
	Last ticks.Ticks
	// Count is the number of blocks, IDLength the length of their ids in bytes, before base64.
	Count    int64
	IDLength int
	// Parent and name are the entry of the file in a tree when its first block came.
	Parent Inode
	Name   string
	// Lease is the lease of the blob, which the blocks are committed to.
	Lease lease.Lease
}

func (p Pending) Encode() []byte {
	b := append(make([]byte, 0, 16), Version)
	b = binary.AppendUvarint(b, p.Set)
	b = binary.AppendUvarint(b, uint64(p.Last))
	b = binary.AppendUvarint(b, uint64(p.Count))
	b = binary.AppendUvarint(b, uint64(p.IDLength))
	if p.Parent == 0 && p.Lease == (lease.Lease{}) {
		return b
	}
	b = binary.AppendUvarint(b, uint64(p.Parent))
	b = append(binary.AppendUvarint(b, uint64(len(p.Name))), p.Name...)
	e := encoder{b}
	e.lease(pendingLease, p.Lease)
	return e.b
}

// pendingLease is the tag of the lease, which a record may end with.
const pendingLease = 1

func DecodePending(v []byte) (Pending, error) {
	d := newDecoder(v)
	p := Pending{Set: d.uint(), Last: ticks.Ticks(d.uint()), Count: int64(d.uint()), IDLength: int(d.uint())}
	if d.more() {
		p.Parent = Inode(d.uint())
		p.Name = d.string()
	}
	if d.more() {
		if d.byte() != pendingLease {
			return p, ErrMalformed
		}
		p.Lease = d.lease()
	}
	return p, d.err()
}

// EncodeBlock is the record of an uncommitted block: its piece, without the id, which is in the key.
func EncodeBlock(p content.Piece) []byte {
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

func DecodeBlock(v []byte) (p content.Piece, err error) {
	d := newDecoder(v)
	p.Length = int64(d.uint())
	p.Slices = d.slices()
	if d.more() {
		p.Seal.IV = d.string()
		p.Encryption = encryption.ID{KeySHA256: d.string(), Scope: d.string()}
	}
	return p, d.err()
}

// discardAtOnce is up to how many uncommitted blocks are removed in the transaction that commits or discards them;
// more are left to the background.
const discardAtOnce = 64

// Drop removes the blocks of the set.
func (p Pending) Drop(tx *store.Tx) {
	// The record that named the set is removed in this transaction or names another set, so that nothing finds the
	// blocks while they wait for the background.
	if p.Count > discardAtOnce {
		tx.Put(GarbageBucket, GarbageKey(GarbageBlocks, p.Set), []byte{Version})
		return
	}
	scope := IDPrefix(p.Set)
	var keys [][]byte
	cur := tx.Cursor(BlocksBucket)
	for k, _ := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, _ = cur.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		tx.Delete(BlocksBucket, k)
	}
}
