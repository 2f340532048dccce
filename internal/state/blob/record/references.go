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

func EachReference(ctx context.Context, tx *store.Tx, yield func(extent.Ref) bool) error {
	// place is the key of the present record. It is used again for the next one, so yield must not keep it.
	var place []byte
	each := func(list []extent.Slice) bool {
		for _, x := range list {
			if !yield(extent.Ref{Slice: x, Key: place}) {
				return false
			}
		}
		return true
	}
	var b Blob
	for _, bucket := range [...]struct {
		kind   byte
		name   store.Bucket
		slices func(k, v []byte) (more bool, err error)
	}{
		{PlaceBlob, BlobsBucket, func(_, v []byte) (bool, error) {
			if err := DecodeBlob(v, &b); err != nil {
				return false, err
			}
			for i := range b.Content.pieces {
				if !each(b.Content.pieces[i].Slices) {
					return false, nil
				}
			}
			return true, nil
		}},
		{PlaceBlock, BlocksBucket, func(_, v []byte) (bool, error) {
			p, err := DecodeBlock(v)
			return err == nil && each(p.Slices), err
		}},
		{PlaceContent, ContentBucket, func(k, v []byte) (bool, error) {
			// The end is 0 in the key of the number of references, which has no pieces.
			if _, end, err := ParsePieceKey(k); err != nil || end == 0 {
				return err == nil, err
			}
			list, err := DecodePieces(v)
			if err != nil {
				return false, err
			}
			for i := range list {
				if !each(list[i].Slices) {
					return false, nil
				}
			}
			return true, nil
		}},
	} {
		n := 0
		cur := tx.Cursor(bucket.name)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			if n++; n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			// The key of the record, behind a byte that names the bucket: move finds the record by it when the content has
			// another place.
			place = append(append(place[:0], bucket.kind), k...)
			more, err := bucket.slices(k, v)
			if err != nil || !more {
				return err
			}
		}
	}
	return nil
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
