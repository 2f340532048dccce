// Package content moves the bytes of blobs into extents and out of them.
//
// [Store] makes the bytes of a request body, of a copy source or of a file of the change feed durable; the [Upload]
// that it returns belongs to no blob until package state commits a record that refers to its pieces. An [Extract] says
// what a range of a blob consists of, and a [Reader] reads it. Encryption happens on the way (package encryption).
//
// # What it is not
//
// It knows no names and no records: which pieces make up which blob is the concern of package state.
package content

import (
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// Piece is a run of a blob's content: one block, one append, or one write of pages.
type Piece struct {
	// Start is the offset in the blob; Length is in bytes, more than 0.
	Start, Length int64
	// Block is the ID of the block, before base64; "" if none exists.
	Block string
	// Slices hold the bytes; their lengths add up to Length.
	Slices []extent.Slice
	Seal   encryption.Seal
	// Encryption identifies the key of a block that is not yet part of a blob.
	Encryption encryption.ID
}

// End is the offset in the blob of the first byte after p.
func (p *Piece) End() int64 { return p.Start + p.Length }

// Window returns the part of p in [from, to), both within p.
func (p *Piece) Window(from, to int64) Piece {
	out := Piece{Start: from, Length: to - from, Block: p.Block, Seal: p.Seal.At(from - p.Start)}
	at := p.Start
	for _, x := range p.Slices {
		lo, hi := max(from, at), min(to, at+x.Length)
		switch {
		case lo >= hi:
		case hi-lo == x.Length:
			out.Slices = append(out.Slices, x)
		default:
			out.Slices = append(out.Slices, x.Sub(lo-at, hi-lo))
		}
		at += x.Length
	}
	return out
}

// Place is the place of the byte at an offset of the blob: the extent, and the offset in it. ok is false if p does not
// hold that byte.
func (p *Piece) Place(off int64) (id uint64, at int64, ok bool) {
	off -= p.Start
	for _, x := range p.Slices {
		if off < x.Length {
			return x.Extent, x.Offset + off, off >= 0
		}
		off -= x.Length
	}
	return 0, 0, false
}
