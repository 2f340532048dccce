package blobsvc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Background work, in rounds:
//
//   - garbage: what deleted containers, dropped contents and dropped block sets left behind is removed in batches;
//   - retention: soft-deleted blobs and containers are removed when their time is over;
//   - expiry times: blobs whose time has come are deleted;
//   - change feed: recorded events go to its files;
//   - access times: what was read is noted, where that is tracked;
//   - expiry: uncommitted blocks are dropped a week after the last of them came;
//   - compaction: extents are compacted when enough content was given up, or now and then after any write.
//
// All of it continues after a restart, for the garbage is in the database.
const (
	// blockLifetime is how long uncommitted blocks are kept after the last of them came.
	// https://learn.microsoft.com/rest/api/storageservices/put-block#remarks
	blockLifetime = 7 * 24 * time.Hour
	// expireEvery is how often expired blocks are looked for.
	expireEvery = time.Hour
	// compactFreed is the content in bytes that must have been given up for a compaction ahead of time; compactSoon is
	// the shortest pause between two.
	compactFreed = 64 * mib
	compactSoon  = 30 * time.Second
	// compactEvery is how often extents are compacted when anything was given up, or written: uploads that were broken
	// off or refused leave bytes behind.
	compactEvery = 10 * time.Minute
	// compactAgain is when to look at extents again that were found dead: they are removed at the second look.
	compactAgain = 70 * time.Second
)

// cleaner is the state of the background work.
type cleaner struct {
	// wake asks for a round before the pause is over.
	wake chan struct{}
	// given is the content in bytes given up since the last compaction.
	given *atomic.Int64
}

func newCleaner() cleaner { return cleaner{make(chan struct{}, 1), new(atomic.Int64)} }

func (c *cleaner) wakeCleaner() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// freed counts content that nothing refers to any more.
func (c *cleaner) freed(n int64) { c.given.Add(n) }

// cleanForever works until ctx is done.
func (s *Service) cleanForever(ctx context.Context, every time.Duration) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	start := s.now()
	expired, compacted := start.Add(-expireEvery), start
	nextCompact := start.Add(compactEvery)
	size := s.extents.Size() // at the last compaction
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		now := s.now()
		if err := s.purge(ctx, now); err != nil && ctx.Err() == nil {
			s.log.Error("removing blobs past their retention failed", "service", "blob", "err", err)
		}
		if err := s.expireBlobs(ctx, now); err != nil && ctx.Err() == nil {
			s.log.Error("removing expired blobs failed", "service", "blob", "err", err)
		}
		if err := s.writeFeeds(ctx, now); err != nil && ctx.Err() == nil {
			s.log.Error("writing the change feed failed", "service", "blob", "err", err)
		}
		if err := s.flushAccesses(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("noting access times failed", "service", "blob", "err", err)
		}
		if err := s.collect(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("removing deleted blobs failed", "service", "blob", "err", err)
		}
		if now.Sub(expired) >= expireEvery {
			expired = now
			if err := s.purgeContainers(ctx, now); err != nil && ctx.Err() == nil {
				s.log.Error("removing containers past their retention failed", "service", "blob", "err", err)
			}
			if err := s.expireBlocks(ctx, now); err != nil && ctx.Err() == nil {
				s.log.Error("expiring uncommitted blocks failed", "service", "blob", "err", err)
			}
		}
		if s.given.Load() >= compactFreed && now.Sub(compacted) >= compactSoon || now.After(nextCompact) && (s.given.Load() > 0 || s.extents.Size() != size) {
			compacted, nextCompact = now, now.Add(compactEvery)
			s.given.Store(0)
			done, err := s.Compact(ctx)
			if err != nil && ctx.Err() == nil {
				s.log.Error("compacting extents failed", "service", "blob", "err", err)
			}
			if done.Rewritten > 0 || done.LiveBytes < done.LookedAtSize/2 {
				s.given.Add(1)
				nextCompact = now.Add(compactAgain)
			}
			size = s.extents.Size()
		}
		timer.Reset(every)
	}
}

// Clean does all background work but compaction now.
func (s *Service) Clean(ctx context.Context) error {
	now := s.now()
	return errors.Join(s.expireBlobs(ctx, now), s.flushAccesses(ctx), s.writeFeeds(ctx, now), s.tidy(ctx, now))
}

// tidy removes all garbage, what is past its retention, and expired blocks.
func (s *Service) tidy(ctx context.Context, now time.Time) error {
	return errors.Join(s.purge(ctx, now), s.purgeContainers(ctx, now), s.collect(ctx), s.expireBlocks(ctx, now))
}

// collect removes garbage until there is none.
func (s *Service) collect(ctx context.Context) error {
	for ctx.Err() == nil {
		var key []byte
		var account string
		err := s.db.View(func(tx *store.Tx) error {
			k, v := tx.Cursor(garbageBucket).Seek(nil)
			key = bytes.Clone(k)
			if len(v) > 0 {
				account = string(v[1:])
			}
			return nil
		})
		if err != nil || key == nil {
			return err
		}
		kind, id, err := parseGarbageKey(key)
		if err != nil {
			return err
		}
		for done := false; !done; {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err := s.db.Update(func(tx *store.Tx) error {
				var err error
				if done, err = removeBatch(tx, kind, id, account); done && err == nil {
					tx.Delete(garbageBucket, key)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// removeBatch removes up to sweep.Batch keys of one piece of garbage. done is set when nothing is left.
func removeBatch(tx *store.Tx, kind byte, id uint64, account string) (done bool, err error) {
	switch kind {
	case garbageContent:
		return removeKeys(tx, contentBucket, id, nil)
	case garbageBlocks:
		return removeKeys(tx, blocksBucket, id, nil)
	case garbageContainer:
		var b Blob
		done, err = removeKeys(tx, blobsBucket, id, func(k, v []byte) error {
			if err := decodeBlob(v, &b); err != nil {
				return err
			}
			_, name, slot, err := parseBlobKey(k)
			if err == nil && slot == baseSlot && len(b.Tags) > 0 {
				tx.Delete(tagsBucket, tagsKey(account, id, string(name), slot))
			}
			if b.Deleted != 0 {
				tx.Delete(deletedBlobsBucket, purgeKey(b.purgeAt(), k))
			}
			b.content.drop(tx)
			return err
		})
		if !done || err != nil {
			return false, err
		}
		done, err = removeKeys(tx, pendingBucket, id, func(_, v []byte) error {
			p, err := decodePending(v)
			if err == nil {
				dropBlockSet(tx, p)
			}
			return err
		})
		if !done || err != nil {
			return false, err
		}
		return removeKeys(tx, copiesBucket, id, func(_, v []byte) error {
			job, err := decodeCopyJob(v)
			if err == nil {
				dropBlockSet(tx, job.chunks())
			}
			return err
		})
	}
	return false, errKey
}

// removeKeys removes up to [sweep.Batch] keys that begin with id. each, if not nil, is called for them first.
func removeKeys(tx *store.Tx, bucket store.Bucket, id uint64, each func(k, v []byte) error) (done bool, err error) {
	next, err := sweep.Prefix(tx, bucket, generationPrefix(id), nil, sweep.Batch, each)
	return next == nil, err
}

// expireBlocks drops uncommitted blocks that were abandoned.
func (s *Service) expireBlocks(ctx context.Context, now time.Time) error {
	limit := ticks.Of(now.Add(-blockLifetime))
	_, err := s.sweep(ctx, sweep.Rule{Bucket: pendingBucket, Decide: func(_, v []byte) (sweep.Decision, error) {
		p, err := decodePending(v)
		if err != nil || p.last > limit {
			return sweep.Keep, err
		}
		return sweep.Remove, nil
	}, Remove: func(tx *store.Tx, _, v []byte) (int64, error) {
		p, err := decodePending(v)
		if err == nil {
			dropBlockSet(tx, p)
		}
		return 1, err
	}})
	return err
}

// sweep removes from a bucket what the rule finds, and counts the content that it freed.
func (s *Service) sweep(ctx context.Context, r sweep.Rule) (any bool, err error) {
	done, err := sweep.Run(ctx, s.db, r)
	s.freed(done.Freed)
	return done.Removed > 0, err
}

// sweepDue removes from a bucket the entries that are due: their keys begin with the time of that, in ticks. remove does
// the rest for each and returns how many bytes of content it freed.
func (s *Service) sweepDue(ctx context.Context, bucket store.Bucket, now time.Time, remove func(tx *store.Tx, k, v []byte) (int64, error)) (any bool, err error) {
	limit := uint64(ticks.Of(now))
	return s.sweep(ctx, sweep.Rule{Bucket: bucket, Remove: remove, Decide: func(k, _ []byte) (sweep.Decision, error) {
		switch {
		case len(k) <= 8:
			return sweep.Keep, errKey
		case binary.BigEndian.Uint64(k) > limit:
			return sweep.Stop, nil
		}
		return sweep.Remove, nil
	}})
}

// Compact gives space back: it removes extents that nothing refers to and moves the rest of those that little refers
// to. It may run beside requests.
func (s *Service) Compact(ctx context.Context) (extent.Compacted, error) {
	return s.CompactWith(ctx, extent.CompactOptions{})
}

// Unbounded are options for a compaction that nothing else runs beside.
var Unbounded = extent.CompactOptions{BytesPerSecond: -1}

// CompactWith is Compact with options.
func (s *Service) CompactWith(ctx context.Context, o extent.CompactOptions) (extent.Compacted, error) {
	return s.extents.Compact(ctx, extent.Owner{Refs: s.references, Move: s.move}, o)
}

// The first byte of a place's key says which bucket the rest is a key of.
const (
	placeBlob    byte = 'b'
	placeBlock   byte = 'u'
	placeContent byte = 'c'
)

// references calls yield for every slice that a record refers to.
func (s *Service) references(ctx context.Context, yield func(extent.Ref) bool) error {
	return s.db.View(func(tx *store.Tx) error { return eachReference(ctx, tx, yield) })
}

// allReferences is an Options.Refs of package extent.
func (s *Service) allReferences(yield func(extent.Ref) bool) error {
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
			place = append(append(place[:0], bucket.kind), k...)
			more, err := bucket.slices(k, v)
			if err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// move makes records refer to the new places of content. A record that changed in between is left alone.
func (s *Service) move(_ context.Context, moves []extent.Move) error {
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
