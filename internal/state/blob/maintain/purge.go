package maintain

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// purgeBlobs removes deleted blobs whose retention is over.
func (s *Maintenance) purgeBlobs(ctx context.Context, now time.Time) error {
	return s.sweepDue(ctx, record.DeletedBlobsBucket, now, func(tx *store.Tx, k, _ []byte) (int64, error) {
		v := tx.Get(record.BlobsBucket, k[8:])
		if v == nil {
			return 0, nil
		}
		var b record.Blob
		if err := record.DecodeBlob(v, &b); err != nil {
			return 0, err
		}
		// The entry alone decides: each change that restores or moves a deleted record removes its entry in the same
		// transaction.
		tx.Delete(record.BlobsBucket, k[8:])
		b.Content.Drop(tx)
		return b.Length, nil
	})
}

// purgeContainers removes deleted containers whose retention is over; the background removes their contents.
func (s *Maintenance) purgeContainers(ctx context.Context, now time.Time) error {
	limit := ticks.Of(now)
	return s.sweep(ctx, sweep.Rule{Bucket: record.DeletedContainersBucket,
		Decide: func(_, v []byte) (sweep.Decision, error) {
			rec, err := record.DecodeContainer(v)
			if err != nil || rec.PurgeAt() > limit {
				return sweep.Keep, err
			}
			return sweep.Remove, nil
		}, Remove: func(tx *store.Tx, k, v []byte) (int64, error) {
			account, _, _, err := record.ParseDeletedContainerKey(k)
			if err != nil {
				return 0, err
			}
			rec, err := record.DecodeContainer(v)
			if err != nil {
				return 1, err
			}
			return 1, tree.DiscardContents(tx, account, rec.Generation)
		}})
}

// purgeTrash leaves to the background what can no longer be restored.
func (s *Maintenance) purgeTrash(ctx context.Context, now time.Time) error {
	limit := ticks.Of(now)
	return s.sweep(ctx, sweep.Rule{Bucket: record.TrashBucket, Decide: func(_, v []byte) (sweep.Decision, error) {
		rec, err := record.DecodeTrash(v)
		if err != nil || rec.PurgeAt() > limit {
			return sweep.Keep, err
		}
		return sweep.Remove, nil
	}, Remove: func(tx *store.Tx, _, v []byte) (int64, error) {
		rec, err := record.DecodeTrash(v)
		if err != nil {
			return 1, err
		}
		return 1, tree.Discard(tx, rec.Inode)
	}})
}

// blockLifetime is the time for which uncommitted blocks are kept after the last of them was staged.
// https://learn.microsoft.com/rest/api/storageservices/put-block#remarks
const blockLifetime = 7 * 24 * time.Hour

// expireBlocks drops uncommitted blocks that were abandoned.
func (s *Maintenance) expireBlocks(ctx context.Context, now time.Time) error {
	limit := ticks.Of(now.Add(-blockLifetime))
	return s.sweep(ctx, sweep.Rule{Bucket: record.PendingBucket, Decide: func(_, v []byte) (sweep.Decision, error) {
		p, err := record.DecodePending(v)
		if err != nil || p.Last > limit {
			return sweep.Keep, err
		}
		return sweep.Remove, nil
	}, Remove: func(tx *store.Tx, k, v []byte) (int64, error) {
		p, err := record.DecodePending(v)
		if err != nil {
			return 1, err
		}
		p.Drop(tx)
		it, err := record.ParsePendingKey(k)
		if err != nil {
			return 1, err
		}
		// In a tree the first block made an entry for a file that has no record; without blocks it would lead to nothing.
		return 1, tree.Forget(tx, it, p.Parent, p.Name)
	}})
}

// sweep removes from a bucket the records that the rule selects, and counts the content that it freed.
func (s *Maintenance) sweep(ctx context.Context, r sweep.Rule) error {
	done, err := sweep.Run(ctx, s.node.DB, r)
	s.node.Freed.Add(done.Freed)
	return err
}

// sweepDue removes from a bucket the entries that are due: their keys begin with the time of that, in ticks. remove
// does the rest for each and returns how many bytes of content it freed.
func (s *Maintenance) sweepDue(ctx context.Context, bucket store.Bucket, now time.Time,
	remove func(tx *store.Tx, k, v []byte) (int64, error)) error {
	limit := uint64(ticks.Of(now))
	return s.sweep(ctx, sweep.Rule{Bucket: bucket, Remove: remove, Decide: func(k, _ []byte) (sweep.Decision, error) {
		switch {
		case len(k) <= 8:
			return sweep.Keep, record.ErrKey
		case binary.BigEndian.Uint64(k) > limit:
			return sweep.Stop, nil
		}
		return sweep.Remove, nil
	}})
}
