package record

import (
	"context"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The first byte of the key of a reference says which bucket the rest is a key of.
const (
	PlaceBlob    byte = 'b'
	PlaceBlock   byte = 'u'
	PlaceContent byte = 'c'
)

// referring are the buckets whose records refer to content, with the byte that begins the keys of their references.
var referring = [...]struct {
	kind byte
	name store.Bucket
}{{PlaceBlob, BlobsBucket}, {PlaceBlock, BlocksBucket}, {PlaceContent, ContentBucket}}

// EachReference calls yield with the content that any record refers to, until it returns false.
func EachReference(ctx context.Context, tx *store.Tx, yield func(extent.Ref) bool) error {
	// place is the key of the present record. It is used again for the next one, so yield must not keep it.
	var place []byte
	each := func(x extent.Slice) bool { return yield(extent.Ref{Slice: x, Key: place}) }
	var b Blob
	for _, bucket := range referring {
		n := 0
		cur := tx.Cursor(bucket.name)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			if n++; n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			// The key of the record, behind a byte that names the bucket: move finds the record by it when the content has
			// another place.
			place = append(append(place[:0], bucket.kind), k...)
			more, err := eachSlice(bucket.name, k, v, &b, each)
			if err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// EachSlice calls yield with the content that the record v at k in a bucket refers to, until it returns false; more is
// false then. Records of buckets that refer to none have none.
func EachSlice(bucket store.Bucket, k, v []byte, yield func(extent.Slice) bool) (more bool, err error) {
	return eachSlice(bucket, k, v, new(Blob), yield)
}

// eachSlice is EachSlice with a blob that is used again.
func eachSlice(bucket store.Bucket, k, v []byte, b *Blob, yield func(extent.Slice) bool) (more bool, err error) {
	var list []content.Piece
	switch bucket {
	case BlobsBucket:
		err = DecodeBlob(v, b)
		list = b.Content.pieces
	case BlocksBucket:
		var p [1]content.Piece
		p[0], err = DecodeBlock(v)
		list = p[:]
	case ContentBucket:
		// The end is 0 in the key of the number of references, which has no pieces.
		if _, end, err := ParsePieceKey(k); err != nil || end == 0 {
			return err == nil, err
		}
		list, err = DecodePieces(v)
	}
	if err != nil {
		return false, err
	}
	for i := range list {
		for _, x := range list[i].Slices {
			if !yield(x) {
				return false, nil
			}
		}
	}
	return true, nil
}

func MoveAt(tx *store.Tx, kind byte, key []byte, from, to extent.Slice) error {
	swap := func(list []extent.Slice) (hit bool) {
		for i := range list {
			// Compared by place and length: several slices of one record move one by one, and each is found by its own.
			if x := &list[i]; x.Extent == from.Extent && x.Offset == from.Offset && x.Length == from.Length {
				*x, hit = to, true
			}
		}
		return hit
	}
	swapAll := func(list []content.Piece) (hit bool) {
		for i := range list {
			hit = swap(list[i].Slices) || hit
		}
		return hit
	}
	// A record that is gone needs no move. One that no longer has the slice is not written: hit stays false.
	switch kind {
	case PlaceBlob:
		v := tx.Get(BlobsBucket, key)
		if v == nil {
			return nil
		}
		var b Blob
		if err := DecodeBlob(v, &b); err != nil {
			return err
		}
		if swapAll(b.Content.pieces) {
			tx.Put(BlobsBucket, key, b.Encode())
		}
	case PlaceBlock:
		v := tx.Get(BlocksBucket, key)
		if v == nil {
			return nil
		}
		p, err := DecodeBlock(v)
		if err != nil {
			return err
		}
		if swap(p.Slices) {
			tx.Put(BlocksBucket, key, EncodeBlock(p))
		}
	case PlaceContent:
		v := tx.Get(ContentBucket, key)
		if v == nil {
			return nil
		}
		list, err := DecodePieces(v)
		if err != nil {
			return err
		}
		if swapAll(list) {
			tx.Put(ContentBucket, key, encodePieces(list))
		}
	default:
		return ErrKey
	}
	return nil
}
