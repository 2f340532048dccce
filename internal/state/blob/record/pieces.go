package record

import (
	"encoding/binary"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// PieceList is the ordered list of pieces that make up a blob. A short list is stored in the blob's record. A
// long or growing one has an ID, and separate records in the content bucket, each with some pieces and keyed by the
// offset where the last of them ends: the first record at or after off+1 is the one that holds off.
//
// What has an id is counted: blobs, snapshots and copies refer to the same pieces. It is written by its first blob
// alone:
//
//   - the content of a block blob never changes;
//   - an append blob adds pieces past the length that any snapshot of it knows;
//   - a page blob changes in place, so a snapshot or copy of it takes a copy of the list (not of the bytes).
type PieceList struct {
	ID     uint64
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
		// Offsets are relative, so one damaged number moves all that follow; overflow shows as an end before its start.
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
		// Seven bytes are the least that a slice takes: three numbers and the checksum.
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

func DecodePieces(v []byte) ([]content.Piece, error) {
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

// LayOut gives pieces their offsets and returns the content made of them, with its length. It stores a long list under
// a new id with one reference.
func LayOut(tx *store.Tx, list []content.Piece) (PieceList, int64) {
	var length int64
	slices := 0
	for i := range list {
		list[i].Start = length
		length += list[i].Length
		slices += len(list[i].Slices)
	}
	// Most blobs are one piece: in the record itself they cost no second key and no counter.
	if len(list) <= maxInlinePieces && slices <= maxInlineSlices {
		return PieceList{pieces: list}, length
	}
	c := NewContent(tx)
	for len(list) > 0 {
		n, slices := 0, 0
		// A record has at least one piece, however many slices that has.
		for n < len(list) && n < piecesPerRecord && (n == 0 || slices+len(list[n].Slices) <= slicesPerRecord) {
			slices += len(list[n].Slices)
			n++
		}
		PutPieces(tx, c.ID, list[:n])
		list = list[n:]
	}
	return c, length
}

// NewContent starts a stored list with one reference.
func NewContent(tx *store.Tx) PieceList {
	c := PieceList{ID: NextID(tx)}
	setReferences(tx, c.ID, 1)
	return c
}

func PutPieces(tx *store.Tx, id uint64, list []content.Piece) {
	tx.Put(ContentBucket, PieceKey(id, list[len(list)-1].End()), encodePieces(list))
}

func References(tx *store.Tx, id uint64) uint64 {
	n, _ := binary.Uvarint(tx.Get(ContentBucket, PieceKey(id, 0)))
	return n
}

func setReferences(tx *store.Tx, id, n uint64) {
	tx.Put(ContentBucket, PieceKey(id, 0), binary.AppendUvarint(nil, n))
}

// share returns l for one more record to refer to.
func (l PieceList) share(tx *store.Tx) PieceList {
	if l.ID != 0 {
		setReferences(tx, l.ID, References(tx, l.ID)+1)
	}
	return l
}

// Drop gives up one reference. The pieces of a content without any are removed in the background.
func (l PieceList) Drop(tx *store.Tx) {
	if l.ID == 0 {
		return
	}
	switch n := References(tx, l.ID); n {
	// The number is lost or was dropped already; garbage would be recorded twice.
	case 0:
	// The pieces may be thousands. The background removes them, and the transaction only says that it has to.
	case 1:
		tx.Delete(ContentBucket, PieceKey(l.ID, 0))
		tx.Put(GarbageBucket, GarbageKey(GarbageContent, l.ID), []byte{Version})
	default:
		setReferences(tx, l.ID, n-1)
	}
}

// Walk calls fn with the pieces that hold bytes of [off, off+n), in order. limit is the length of the blob: pieces past
// it belong to a later state of an append blob.
func (l PieceList) Walk(tx *store.Tx, off, n, limit int64, fn func(*content.Piece) error) error {
	return l.WalkMarked(tx, off, n, limit, func(p *content.Piece) error {
		if isMark(p) {
			return nil
		}
		return fn(p)
	})
}

// WalkMarked is walk with the marks of cleared pages.
func (l PieceList) WalkMarked(tx *store.Tx, off, n, limit int64, fn func(*content.Piece) error) error {
	n = min(n, limit-off)
	if n <= 0 {
		return nil
	}
	if l.ID == 0 {
		return walkPieces(l.pieces, off, n, fn)
	}
	cur := tx.Cursor(ContentBucket)
	// Records are keyed by the end of their last piece, so the first at or after off+1 has the byte at off.
	for k, v := cur.Seek(PieceKey(l.ID, off+1)); k != nil; k, v = cur.Next() {
		id, _, err := ParsePieceKey(k)
		if err != nil {
			return err
		}
		// The keys of the next content follow.
		if id != l.ID {
			break
		}
		list, err := DecodePieces(v)
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

// Extract returns what [off, off+n) consists of. It ends at limit.
func (l PieceList) Extract(tx *store.Tx, off, n, limit int64) (x content.Extract, err error) {
	n = max(0, min(n, limit-off))
	x = content.NewExtract(off, n)
	err = l.Walk(tx, off, n, limit, func(p *content.Piece) error {
		x.Add(p)
		return nil
	})
	return x, err
}

// Cut removes [start, end) from the pieces of a page blob, and returns which parts of it had content or marks. Each
// piece has its own record.
func (l PieceList) Cut(tx *store.Tx, start, end int64) (removed []Span, err error) {
	var hit []content.Piece
	err = l.WalkMarked(tx, start, end-start, end, func(p *content.Piece) error {
		hit = append(hit, *p)
		removed = appendSpan(removed, Span{Start: max(p.Start, start), End: min(p.End(), end)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	// After the walk, since a cursor sees the writes of its own transaction. The parts of a piece outside the range are
	// put under the ends that they have now; the last one has the key that was deleted.
	for _, p := range hit {
		tx.Delete(ContentBucket, PieceKey(l.ID, p.End()))
		if p.Start < start {
			PutPieces(tx, l.ID, []content.Piece{p.Window(p.Start, start)})
		}
		if p.End() > end {
			PutPieces(tx, l.ID, []content.Piece{p.Window(end, p.End())})
		}
	}
	return removed, nil
}

// StorePages stores the pieces of a page blob under a new ID, one record each.
func StorePages(tx *store.Tx, list []content.Piece) PieceList {
	if len(list) == 0 {
		return PieceList{}
	}
	l := NewContent(tx)
	for i := range list {
		PutPieces(tx, l.ID, list[i:i+1])
	}
	return l
}

// Freeze returns b's content for one more record, which does not change when b does.
func (l PieceList) Freeze(tx *store.Tx, b *Blob) (PieceList, error) {
	// Block blobs never change a list, append blobs only add behind what others know: the list can be shared.
	if b.Kind != PageBlob || l.ID == 0 {
		return l.share(tx), nil
	}
	return l.copyPages(tx, b)
}

// Duplicate returns b's content for a blob that changes independently.
func (l PieceList) Duplicate(tx *store.Tx, b *Blob) (PieceList, error) {
	// Two append blobs would both write behind the same end, so each needs a list of its own.
	if b.Kind == BlockBlob || l.ID == 0 {
		return l.share(tx), nil
	}
	return l.copyPages(tx, b)
}

// copyPages stores the pieces of b's content again, under a new ID.
func (l PieceList) copyPages(tx *store.Tx, b *Blob) (PieceList, error) {
	var list []content.Piece
	err := l.WalkMarked(tx, 0, b.Length, b.Length, func(p *content.Piece) error {
		list = append(list, *p)
		return nil
	})
	if err != nil {
		return l, err
	}
	return StorePages(tx, list), nil
}

// isMark reports whether a piece is a mark of cleared pages.
func isMark(p *content.Piece) bool { return len(p.Slices) == 0 }
