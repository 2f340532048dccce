package blobsvc

import (
	"encoding/binary"
	"slices"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// content is where the bytes of a blob lie: an ordered list of pieces. A short list stands in the blob's own record. A
// long or growing one has an id, and records of its own in the content bucket, each with some pieces and keyed by the
// offset where the last of them ends: the first record at or after off+1 is the one that holds off.
//
// What has an id is counted: blobs, snapshots and copies refer to the same pieces. It is written by its first blob alone:
//
//   - the content of a block blob never changes;
//   - an append blob adds pieces past the length that any snapshot of it knows;
//   - a page blob changes in place, so a snapshot or copy of it takes a copy of the list (not of the bytes).
type content struct {
	id     uint64
	pieces []piece
}

// piece is a run of content: one block, one append, one write of pages.
type piece struct {
	// start is the offset in the blob; length is in bytes, more than 0.
	start, length int64
	// block is the id of the block, before base64; "" if there is none.
	block string
	// slices hold the bytes, length in all.
	slices []extent.Slice
	seal   encryption.Seal
	// by is how a block is encrypted that is not yet part of a blob.
	by encryption.ID
}

func (p *piece) end() int64 { return p.start + p.length }

const (
	// maxInlinePieces and maxInlineSlices bound what stands in a blob's own record.
	maxInlinePieces = 16
	maxInlineSlices = 32
	// piecesPerRecord bounds how many pieces of a block blob share a record.
	piecesPerRecord = 128
	// slicesPerRecord bounds their slices, unless one piece alone has more.
	slicesPerRecord = 512
)

// pieces is a list: number, then start relative to the end of the one before, length, block id and slices of each.
func (e *encoder) pieces(list []piece) {
	e.uvarint(uint64(len(list)))
	var end int64
	for i := range list {
		p := &list[i]
		if i == 0 {
			e.uvarint(uint64(p.start))
		} else {
			e.uvarint(uint64(p.start - end))
		}
		e.uvarint(uint64(p.length))
		e.string(p.block)
		e.slices(p.slices)
		end = p.end()
	}
}

func (d *decoder) pieces() []piece {
	list := make([]piece, d.count(4))
	var end int64
	for i := range list {
		p := &list[i]
		p.start = end + int64(d.uint())
		p.length = int64(d.uint())
		p.block = d.string()
		p.slices = d.slices()
		end = p.end()
		if p.start < 0 || p.length <= 0 || end < p.start {
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

func encodePieces(list []piece) []byte {
	e := newEncoder(32 * len(list))
	e.pieces(list)
	if sealed(list) {
		e.seals(list)
	}
	return e.b
}

func decodePieces(v []byte) ([]piece, error) {
	d := newDecoder(v)
	list := d.pieces()
	if d.more() {
		d.seals(list)
	}
	return list, d.err()
}

// sealed reports whether any of the pieces is encrypted.
func sealed(list []piece) bool {
	return slices.ContainsFunc(list, func(p piece) bool { return p.seal.IV != "" })
}

// seals are those of all pieces of a list, whose length they do not repeat.
func (e *encoder) seals(list []piece) {
	for i := range list {
		e.string(list[i].seal.IV)
		e.uvarint(uint64(list[i].seal.Offset))
	}
}

func (d *decoder) seals(list []piece) {
	for i := range list {
		list[i].seal = encryption.Seal{IV: d.string(), Offset: int64(d.uint())}
	}
}

// layOut gives pieces their offsets and returns the content made of them, with its length. It stores a long list under a
// new id with one reference.
func layOut(tx *store.Tx, list []piece) (content, int64) {
	var length int64
	slices := 0
	for i := range list {
		list[i].start = length
		length += list[i].length
		slices += len(list[i].slices)
	}
	if len(list) <= maxInlinePieces && slices <= maxInlineSlices {
		return content{pieces: list}, length
	}
	c := newContent(tx)
	for len(list) > 0 {
		n, slices := 0, 0
		for n < len(list) && n < piecesPerRecord && (n == 0 || slices+len(list[n].slices) <= slicesPerRecord) {
			slices += len(list[n].slices)
			n++
		}
		putPieces(tx, c.id, list[:n])
		list = list[n:]
	}
	return c, length
}

// newContent starts a stored list with one reference.
func newContent(tx *store.Tx) content {
	c := content{id: nextID(tx)}
	setReferences(tx, c.id, 1)
	return c
}

func putPieces(tx *store.Tx, id uint64, list []piece) {
	tx.Put(contentBucket, pieceKey(id, list[len(list)-1].end()), encodePieces(list))
}

func references(tx *store.Tx, id uint64) uint64 {
	n, _ := binary.Uvarint(tx.Get(contentBucket, pieceKey(id, 0)))
	return n
}

func setReferences(tx *store.Tx, id, n uint64) {
	tx.Put(contentBucket, pieceKey(id, 0), binary.AppendUvarint(nil, n))
}

// share returns c for one more record to refer to.
func (c content) share(tx *store.Tx) content {
	if c.id != 0 {
		setReferences(tx, c.id, references(tx, c.id)+1)
	}
	return c
}

// drop gives up one reference. The pieces of a content without any are removed in the background.
func (c content) drop(tx *store.Tx) {
	if c.id == 0 {
		return
	}
	switch n := references(tx, c.id); n {
	case 0:
	case 1:
		tx.Delete(contentBucket, pieceKey(c.id, 0))
		tx.Put(garbageBucket, garbageKey(garbageContent, c.id), []byte{recordVersion})
	default:
		setReferences(tx, c.id, n-1)
	}
}

// walk calls fn with the pieces that hold bytes of [off, off+n), in order. limit is the length of the blob: pieces past
// it belong to a later state of an append blob.
func (c content) walk(tx *store.Tx, off, n, limit int64, fn func(*piece) error) error {
	n = min(n, limit-off)
	if n <= 0 {
		return nil
	}
	if c.id == 0 {
		return walkPieces(c.pieces, off, n, fn)
	}
	cur := tx.Cursor(contentBucket)
	for k, v := cur.Seek(pieceKey(c.id, off+1)); k != nil; k, v = cur.Next() {
		id, _, err := parsePieceKey(k)
		if err != nil {
			return err
		}
		if id != c.id {
			break
		}
		list, err := decodePieces(v)
		if err != nil {
			return err
		}
		if len(list) > 0 && list[0].start >= off+n {
			break
		}
		if err := walkPieces(list, off, n, fn); err != nil {
			return err
		}
	}
	return nil
}

func walkPieces(list []piece, off, n int64, fn func(*piece) error) error {
	for i := range list {
		p := &list[i]
		if p.end() <= off {
			continue
		}
		if p.start >= off+n {
			break
		}
		if err := fn(p); err != nil {
			return err
		}
	}
	return nil
}

// extract is a range of a blob as it is read: the bytes of slices, from skip on, with zeros between them where a page blob
// has no content.
type extract struct {
	slices []extent.Slice
	skip   int64
	// content is how many bytes come from slices.
	content int64
	// runs are the lengths of what follows each other: content first, then zeros, then content, and so on. The first may
	// be 0.
	runs []int64
	// seals are those of the content, if it is encrypted.
	seals []encryption.Run
}

// extract returns what [off, off+n) consists of. It ends at limit.
func (c content) extract(tx *store.Tx, off, n, limit int64) (x extract, err error) {
	n = max(0, min(n, limit-off))
	end, at := off+n, off
	x.runs = make([]int64, 1, 3)
	zeros := func(n int64) {
		if n > 0 {
			x.runs = append(x.runs, n, 0)
		}
	}
	err = c.walk(tx, off, n, limit, func(p *piece) error {
		from, to := max(p.start, off), min(p.end(), end)
		zeros(from - at)
		if x.slices == nil {
			x.skip = from - p.start // only the first piece can begin before the range
		}
		x.slices = append(x.slices, p.slices...)
		if p.seal.IV != "" {
			x.seals = append(x.seals, encryption.Run{Seal: p.seal.At(from - p.start), Length: to - from})
		}
		x.runs[len(x.runs)-1] += to - from
		x.content += to - from
		at = to
		return nil
	})
	zeros(end - at)
	return x, err
}

// window returns the part of p that lies in [from, to), both within it.
func (p *piece) window(from, to int64) piece {
	out := piece{start: from, length: to - from, block: p.block, seal: p.seal.At(from - p.start)}
	at := p.start
	for _, x := range p.slices {
		lo, hi := max(from, at), min(to, at+x.Length)
		switch {
		case lo >= hi:
		case hi-lo == x.Length:
			out.slices = append(out.slices, x)
		default:
			out.slices = append(out.slices, x.Sub(lo-at, hi-lo))
		}
		at += x.Length
	}
	return out
}
