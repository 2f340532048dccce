package state

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

const (
	// compactFreed is the content in bytes that must have been freed for a compaction ahead of time, unless the disk is
	// full; compactSoon is the shortest pause between two.
	compactFreed = 64 << 20
	compactSoon  = 30 * time.Second
	// compactEvery is the interval of compactions if content was freed or written: uploads that were interrupted or
	// refused leave bytes behind.
	compactEvery = 10 * time.Minute
	// compactAgain is the time until the second check of extents without references: they are removed at the second check.
	compactAgain = 70 * time.Second
)

// schedule is the time of the next compaction.
type schedule struct {
	last, next time.Time
	size       int64 // of the extents in bytes, at the last compaction
}

// CompactDue compacts extents if it is worth it now. full says that writes are refused because the disk is full. One
// goroutine calls it, now and then.
func (s Maintenance) CompactDue(ctx context.Context, now time.Time, full bool) error {
	t := &s.compaction
	if t.last.IsZero() {
		*t = schedule{last: now, next: now.Add(compactEvery), size: s.extents.Size()}
	}
	ahead := (s.freed.Load() >= compactFreed || full && s.freed.Load() > 0) && now.Sub(t.last) >= compactSoon
	due := now.After(t.next) && (s.freed.Load() > 0 || s.extents.Size() != t.size)
	if !ahead && !due {
		return nil
	}
	t.last, t.next = now, now.Add(compactEvery)
	// Before the work: what is freed while it runs counts for the next time.
	s.freed.Store(0)
	done, err := s.Compact(ctx, extent.CompactOptions{})
	if done.Rewritten > 0 || done.LiveBytes < done.LookedAtSize/2 {
		s.freed.Add(1)
		t.next = now.Add(compactAgain)
	}
	t.size = s.extents.Size()
	return err
}

// maxCompactRounds bounds CompactFolder: the first round moves content, the second deletes the extents that it was
// moved away from.
const maxCompactRounds = 16

// CompactFolder gives back all the space that it can, in the state of a service that is stopped: it removes garbage and
// rewrites extents until they have no unreferenced content. It moves at most bytesPerSecond; 0 means no limit. before
// and after are the sizes of the extents in bytes. ctx can stop it at any time; completed work is kept. progress, if it
// is not nil, receives the bytes that were moved and those to move.
func CompactFolder(ctx context.Context, path, extents string, bytesPerSecond int64,
	progress func(moved, total int64)) (before, after int64, err error) {
	s := newStore(&core{})
	if err := s.openFiles(path, extents, store.Options{}, -1); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	files := s.extents
	before = files.Size()
	if err := s.Maintenance.Tidy(ctx, time.Now()); err != nil {
		return before, files.Size(), err
	}
	o := extent.CompactOptions{MinLive: 1, BytesPerSecond: cmp.Or(bytesPerSecond, -1)}
	var moved int64 // in the rounds before
	if progress != nil {
		o.Progress = func(now, total int64) { progress(moved+now, moved+total) }
	}
	for range maxCompactRounds {
		done, err := s.Maintenance.Compact(ctx, o)
		moved += done.Moved
		if err != nil {
			return before, files.Size(), err
		}
		if done.Deleted == 0 && done.Rewritten == 0 {
			break
		}
	}
	return before, files.Size(), nil
}

// Compact gives space back: it removes extents without references, and moves the rest of those with few references. It
// may run beside requests.
func (s Maintenance) Compact(ctx context.Context, o extent.CompactOptions) (extent.Compacted, error) {
	done, err := s.extents.Compact(ctx, extent.Owner{Refs: s.references, Move: s.move}, o)
	s.compactions.Add(1)
	s.compactionFreed.Add(done.Freed)
	s.compactionMoved.Add(done.Moved)
	return done, err
}

// The first byte of the key of a reference says which bucket the rest is a key of.
const (
	placeBlob    byte = 'b'
	placeBlock   byte = 'u'
	placeContent byte = 'c'
)

// references calls yield for every slice that a record refers to.
func (s *core) references(ctx context.Context, yield func(extent.Ref) bool) error {
	return s.db.View(func(tx *store.Tx) error { return eachReference(ctx, tx, yield) })
}

// allReferences is an Options.Refs of package extent.
func (s *core) allReferences(yield func(extent.Ref) bool) error {
	return s.references(context.Background(), yield)
}

func eachReference(ctx context.Context, tx *store.Tx, yield func(extent.Ref) bool) error {
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
		{placeBlob, blobsBucket, func(_, v []byte) (bool, error) {
			if err := decodeBlob(v, &b); err != nil {
				return false, err
			}
			for i := range b.content.pieces {
				if !each(b.content.pieces[i].Slices) {
					return false, nil
				}
			}
			return true, nil
		}},
		{placeBlock, blocksBucket, func(_, v []byte) (bool, error) {
			p, err := decodeBlock(v)
			return err == nil && each(p.Slices), err
		}},
		{placeContent, contentBucket, func(k, v []byte) (bool, error) {
			if _, end, err := parsePieceKey(k); err != nil || end == 0 {
				return err == nil, err
			}
			list, err := decodePieces(v)
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

// move makes records refer to the new places of content. A record that changed since then is left alone.
func (s Maintenance) move(_ context.Context, moves []extent.Move) error {
	return s.db.Update(func(tx *store.Tx) error {
		for _, m := range moves {
			if len(m.Key) == 0 {
				return errKey
			}
			if err := moveAt(tx, m.Key[0], m.Key[1:], m.From, m.To); err != nil {
				return err
			}
		}
		return nil
	})
}

func moveAt(tx *store.Tx, kind byte, key []byte, from, to extent.Slice) error {
	swap := func(list []extent.Slice) (hit bool) {
		for i := range list {
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
	switch kind {
	case placeBlob:
		v := tx.Get(blobsBucket, key)
		if v == nil {
			return nil
		}
		var b Blob
		if err := decodeBlob(v, &b); err != nil {
			return err
		}
		if swapAll(b.content.pieces) {
			tx.Put(blobsBucket, key, b.encode())
		}
	case placeBlock:
		v := tx.Get(blocksBucket, key)
		if v == nil {
			return nil
		}
		p, err := decodeBlock(v)
		if err != nil {
			return err
		}
		if swap(p.Slices) {
			tx.Put(blocksBucket, key, encodeBlock(p))
		}
	case placeContent:
		v := tx.Get(contentBucket, key)
		if v == nil {
			return nil
		}
		list, err := decodePieces(v)
		if err != nil {
			return err
		}
		if swapAll(list) {
			tx.Put(contentBucket, key, encodePieces(list))
		}
	default:
		return errKey
	}
	return nil
}
