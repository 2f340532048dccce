package state

import (
	"encoding/binary"
	"slices"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// pieceList is the ordered list of pieces that make up a blob. A short list is stored in the blob's record. A
// long or growing one has an ID, and separate records in the content bucket, each with some pieces and keyed by the
// offset where the last of them ends: the first record at or after off+1 is the one that holds off.
//
// What has an id is counted: blobs, snapshots and copies refer to the same pieces. It is written by its first blob
// alone:
//
//   - the content of a block blob never changes;
//   - an append blob adds pieces past the length that any snapshot of it knows;
//   - a page blob changes in place, so a snapshot or copy of it takes a copy of the list (not of the bytes).
type pieceList struct {
	id     uint64
	pieces []content.Piece
}

const (
	// maxInlinePieces and maxInlineSlices limit the pieces and slices in a blob's record.
	maxInlinePieces = 16
	maxInlineSlices = 32
	// piecesPerRecord bounds how many pieces of a block blob share a record.
	piecesPerRecord = 128
	// slicesPerRecord bounds their slices, unless one piece alone has more.
	slicesPerRecord = 512
)

// pieces is a list: number, then start relative to the end of the one before, length, block id and slices of each.
func (e *encoder) pieces(list []content.Piece) {
	e.uvarint(uint64(len(list)))
	var end int64
	for i := range list {
		p := &list[i]
		if i == 0 {
			e.uvarint(uint64(p.Start))
		} else {
			e.uvarint(uint64(p.Start - end))
		}
		e.uvarint(uint64(p.Length))
		e.string(p.Block)
		e.slices(p.Slices)
		end = p.End()
	}
}

func (d *decoder) pieces() []content.Piece {
	list := make([]content.Piece, d.count(4))
	var end int64
	for i := range list {
		p := &list[i]
		p.Start = end + int64(d.uint())
		p.Length = int64(d.uint())
		p.Block = d.string()
		p.Slices = d.slices()
		end = p.End()
		if p.Start < 0 || p.Length <= 0 || end < p.Start {
			d.fail()
			return nil
		}
	}
	return list
}

// skipPieces reads over a list.
func (d *decoder) skipPieces() {
	for range d.count(4) {
		d.uint()
		d.uint()
		d.string()
		for range d.count(7) {
			d.uint()
			d.uint()
			d.uint()
			if len(d.s) < 4 {
				d.fail()
				return
			}
			d.s = d.s[4:]
		}
	}
}

func encodePieces(list []content.Piece) []byte {
	e := newEncoder(32 * len(list))
	e.pieces(list)
	if sealed(list) {
		e.seals(list)
	}
	return e.b
}

func decodePieces(v []byte) ([]content.Piece, error) {
	d := newDecoder(v)
	list := d.pieces()
	if d.more() {
		d.seals(list)
	}
	return list, d.err()
}

// sealed reports whether any of the pieces is encrypted.
func sealed(list []content.Piece) bool {
	return slices.ContainsFunc(list, func(p content.Piece) bool { return p.Seal.IV != "" })
}

// seals are those of all pieces of a list, whose length they do not repeat.
func (e *encoder) seals(list []content.Piece) {
	for i := range list {
		e.string(list[i].Seal.IV)
		e.uvarint(uint64(list[i].Seal.Offset))
	}
}

func (d *decoder) seals(list []content.Piece) {
	for i := range list {
		list[i].Seal = encryption.Seal{IV: d.string(), Offset: int64(d.uint())}
	}
}

// layOut gives pieces their offsets and returns the content made of them, with its length. It stores a long list under
// a new id with one reference.
func layOut(tx *store.Tx, list []content.Piece) (pieceList, int64) {
	var length int64
	slices := 0
	for i := range list {
		list[i].Start = length
		length += list[i].Length
		slices += len(list[i].Slices)
	}
	if len(list) <= maxInlinePieces && slices <= maxInlineSlices {
		return pieceList{pieces: list}, length
	}
	c := newContent(tx)
	for len(list) > 0 {
		n, slices := 0, 0
		// A record has at least one piece, however many slices that has.
		for n < len(list) && n < piecesPerRecord && (n == 0 || slices+len(list[n].Slices) <= slicesPerRecord) {
			slices += len(list[n].Slices)
			n++
		}
		putPieces(tx, c.id, list[:n])
		list = list[n:]
	}
	return c, length
}

// newContent starts a stored list with one reference.
func newContent(tx *store.Tx) pieceList {
	c := pieceList{id: nextID(tx)}
	setReferences(tx, c.id, 1)
	return c
}

func putPieces(tx *store.Tx, id uint64, list []content.Piece) {
	tx.Put(contentBucket, pieceKey(id, list[len(list)-1].End()), encodePieces(list))
}

func references(tx *store.Tx, id uint64) uint64 {
	n, _ := binary.Uvarint(tx.Get(contentBucket, pieceKey(id, 0)))
	return n
}

func setReferences(tx *store.Tx, id, n uint64) {
	tx.Put(contentBucket, pieceKey(id, 0), binary.AppendUvarint(nil, n))
}

// share returns l for one more record to refer to.
func (l pieceList) share(tx *store.Tx) pieceList {
	if l.id != 0 {
		setReferences(tx, l.id, references(tx, l.id)+1)
	}
	return l
}

// drop gives up one reference. The pieces of a content without any are removed in the background.
func (l pieceList) drop(tx *store.Tx) {
	if l.id == 0 {
		return
	}
	switch n := references(tx, l.id); n {
	// The number is lost or was dropped already; garbage would be recorded twice.
	case 0:
	case 1:
		tx.Delete(contentBucket, pieceKey(l.id, 0))
		tx.Put(garbageBucket, garbageKey(garbageContent, l.id), []byte{recordVersion})
	default:
		setReferences(tx, l.id, n-1)
	}
}

// walk calls fn with the pieces that hold bytes of [off, off+n), in order. limit is the length of the blob: pieces past
// it belong to a later state of an append blob.
func (l pieceList) walk(tx *store.Tx, off, n, limit int64, fn func(*content.Piece) error) error {
	return l.walkMarked(tx, off, n, limit, func(p *content.Piece) error {
		if isMark(p) {
			return nil
		}
		return fn(p)
	})
}

// walkMarked is walk with the marks of cleared pages.
func (l pieceList) walkMarked(tx *store.Tx, off, n, limit int64, fn func(*content.Piece) error) error {
	n = min(n, limit-off)
	if n <= 0 {
		return nil
	}
	if l.id == 0 {
		return walkPieces(l.pieces, off, n, fn)
	}
	cur := tx.Cursor(contentBucket)
	// Records are keyed by the end of their last piece, so the first at or after off+1 has the byte at off.
	for k, v := cur.Seek(pieceKey(l.id, off+1)); k != nil; k, v = cur.Next() {
		id, _, err := parsePieceKey(k)
		if err != nil {
			return err
		}
		if id != l.id {
			break
		}
		list, err := decodePieces(v)
		if err != nil {
			return err
		}
		if len(list) > 0 && list[0].Start >= off+n {
			break
		}
		if err := walkPieces(list, off, n, fn); err != nil {
			return err
		}
	}
	return nil
}

func walkPieces(list []content.Piece, off, n int64, fn func(*content.Piece) error) error {
	for i := range list {
		p := &list[i]
		if p.End() <= off {
			continue
		}
		if p.Start >= off+n {
			break
		}
		if err := fn(p); err != nil {
			return err
		}
	}
	return nil
}

// extract returns what [off, off+n) consists of. It ends at limit.
func (l pieceList) extract(tx *store.Tx, off, n, limit int64) (x content.Extract, err error) {
	n = max(0, min(n, limit-off))
	x = content.NewExtract(off, n)
	err = l.walk(tx, off, n, limit, func(p *content.Piece) error {
		x.Add(p)
		return nil
	})
	return x, err
}
