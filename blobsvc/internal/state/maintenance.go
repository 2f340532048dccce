package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Background work. All of it continues after a restart, since the pending work is in the database:
//
//   - garbage: the contents of deleted containers and directories, and contents and block sets without a reference, are
//     removed in batches;
//   - retention: soft-deleted blobs, directories and containers are removed at the end of their retention;
//   - expiry: blobs whose expiry time has come are deleted (blob_expiry.go);
//   - access times that were noted in memory are written (access_times.go);
//   - uncommitted blocks are dropped a week after the last of them was staged;
//   - compaction gives back the space of content that lost its last reference (compact.go).

// Maintenance has the background work, the checker, and the figures about both.
type Maintenance struct{ *core }

// Tidy removes deleted data past its retention, abandoned uncommitted blocks, and garbage. It reads all uncommitted
// blocks and deleted containers; Collect is cheaper.
func (s Maintenance) Tidy(ctx context.Context, now time.Time) error {
	return errors.Join(s.purgeContainers(ctx, now), s.purgeTrash(ctx, now), s.expireBlocks(ctx, now), s.Collect(ctx, now))
}

// Collect removes deleted blobs past their retention, and garbage.
func (s Maintenance) Collect(ctx context.Context, now time.Time) error {
	return errors.Join(s.purgeBlobs(ctx, now), s.collectGarbage(ctx))
}

// collectGarbage removes all garbage.
func (s Maintenance) collectGarbage(ctx context.Context) error {
	// From the first key each time: the removal of a directory adds garbage, which may come before the present key.
	for ctx.Err() == nil {
		var key []byte
		var account string
		// An old state does no harm. If another node has removed the piece meanwhile, the batch finds nothing below its id
		// and deletes a key that is gone.
		err := s.db.ViewLocal(func(tx *store.Tx) error {
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
		r := remover{account: account}
		for done := false; !done; {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			began := time.Now()
			var reached remover
			err := s.db.Update(func(tx *store.Tx) error {
				// The closure may run more than once, and each run begins where the last committed batch ended. r moves on only
				// after the commit.
				reached = r
				var err error
				// The key goes in the transaction of the last batch, so that a crash before that leaves the rest to the next
				// start.
				if done, err = reached.batch(tx, kind, id); done && err == nil {
					tx.Delete(garbageBucket, key)
				}
				return err
			})
			if err != nil {
				return err
			}
			if kind == garbageNode {
				if err := fault.Point(pointCollect); err != nil {
					return err
				}
			}
			if r = reached; !done {
				sweep.Pause(ctx, began, sweep.Batch)
			}
		}
	}
	return ctx.Err()
}

// remover removes one piece of garbage in batches. It continues behind the keys that earlier batches removed: nothing
// is written among them.
type remover struct {
	account string
	bucket  store.Bucket // that next is a key of
	next    []byte
}

// batch removes up to [sweep.Batch] keys. done is set when nothing is left.
func (r *remover) batch(tx *store.Tx, kind byte, id uint64) (done bool, err error) {
	switch kind {
	case garbageContent:
		return r.keys(tx, contentBucket, id, nil)
	case garbageBlocks:
		return r.keys(tx, blocksBucket, id, nil)
	case garbageContainer:
		return r.contents(tx, generation(id))
	case garbageNode:
		return r.node(tx, inode(id))
	}
	return false, errKey
}

// contents is batch for the contents of a container.
func (r *remover) contents(tx *store.Tx, gen generation) (done bool, err error) {
	var b Blob
	// Index entries go with their records: nothing else removes the entry of a tag index whose record is gone.
	done, err = r.keys(tx, blobsBucket, uint64(gen), func(k, v []byte) error {
		if err := decodeBlob(v, &b); err != nil {
			return err
		}
		it, slot, err := parseBlobKey(k)
		if err == nil && slot == baseSlot && len(b.Tags) > 0 {
			tx.Delete(tagsBucket, tagsKey(r.account, it))
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
	done, err = r.keys(tx, pendingBucket, uint64(gen), func(_, v []byte) error {
		p, err := decodePending(v)
		if err == nil {
			dropBlockSet(tx, p)
		}
		return err
	})
	if !done || err != nil {
		return false, err
	}
	return r.keys(tx, copiesBucket, uint64(gen), func(k, v []byte) error {
		job, err := decodeCopyJob(k, v)
		if err == nil {
			dropBlockSet(tx, job.chunks())
		}
		return err
	})
}

// keys removes up to [sweep.Batch] keys that begin with id. each, if not nil, is called for them first.
func (r *remover) keys(tx *store.Tx, bucket store.Bucket, id uint64, each func(k, v []byte) error) (done bool,
	err error) {
	var from []byte
	if r.bucket == bucket {
		from = r.next
	}
	r.bucket = bucket
	r.next, err = sweep.Prefix(tx, bucket, setPrefix(id), from, sweep.Batch, each)
	return r.next == nil, err
}

// expireBlocks drops uncommitted blocks that were abandoned.
func (s Maintenance) expireBlocks(ctx context.Context, now time.Time) error {
	limit := ticks.Of(now.Add(-blockLifetime))
	return s.sweep(ctx, sweep.Rule{Bucket: pendingBucket, Decide: func(_, v []byte) (sweep.Decision, error) {
		p, err := decodePending(v)
		if err != nil || p.last > limit {
			return sweep.Keep, err
		}
		return sweep.Remove, nil
	}, Remove: func(tx *store.Tx, k, v []byte) (int64, error) {
		p, err := decodePending(v)
		if err != nil {
			return 1, err
		}
		dropBlockSet(tx, p)
		it, err := parsePendingKey(k)
		if err != nil {
			return 1, err
		}
		// In a tree the first block made an entry for a file that has no record; without blocks it would lead to nothing.
		return 1, forget(tx, it, p.parent, p.name)
	}})
}

// sweep removes from a bucket the records that the rule selects, and counts the content that it freed.
func (s Maintenance) sweep(ctx context.Context, r sweep.Rule) error {
	done, err := sweep.Run(ctx, s.db, r)
	s.freed.Add(done.Freed)
	return err
}

// sweepDue removes from a bucket the entries that are due: their keys begin with the time of that, in ticks. remove
// does the rest for each and returns how many bytes of content it freed.
func (s Maintenance) sweepDue(ctx context.Context, bucket store.Bucket, now time.Time,
	remove func(tx *store.Tx, k, v []byte) (int64, error)) error {
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

// discardNode leaves an inode without an entry, and everything below it, to the background.
func discardNode(tx *store.Tx, n inode) {
	tx.Put(garbageBucket, garbageKey(garbageNode, uint64(n)), []byte{recordVersion})
}

// node is batch for an inode: the entries of a directory, what was deleted in a container, then its own records.
// Directories below it become garbage of their own.
func (r *remover) node(tx *store.Tx, n inode) (done bool, err error) {
	// The own records come last. A directory below is not entered here, so that a batch has a limit whatever is below.
	done, err = r.keys(tx, namesBucket, uint64(n), func(_, v []byte) error {
		e, err := decodeEntry(v)
		switch {
		case err != nil:
			return err
		case e.kind == entryDirectory:
			discardNode(tx, e.inode)
			return nil
		}
		return removeItem(tx, e.inode.item())
	})
	if !done || err != nil {
		return false, err
	}
	// Only the root of a container has such keys: what was deleted in the container and can no longer be restored.
	done, err = r.keys(tx, trashBucket, uint64(n), func(_, v []byte) error {
		t, err := decodeTrash(v)
		if err == nil {
			discardNode(tx, t.inode)
		}
		return err
	})
	if !done || err != nil {
		return false, err
	}
	return true, removeItem(tx, n.item())
}

// removeItem removes all records of an item of a tree.
func removeItem(tx *store.Tx, it item) error {
	scope := namePrefix(it)
	var keys [][]byte
	var b Blob
	cur := tx.Cursor(blobsBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		if err := decodeBlob(v, &b); err != nil {
			return err
		}
		if b.Deleted != 0 {
			tx.Delete(deletedBlobsBucket, purgeKey(b.purgeAt(), k))
		}
		b.content.drop(tx)
		keys = append(keys, bytes.Clone(k))
	}
	// After the walk, since a cursor sees the writes of its own transaction.
	for _, k := range keys {
		tx.Delete(blobsBucket, k)
	}
	if v := tx.Get(pendingBucket, scope); v != nil {
		p, err := decodePending(v)
		if err != nil {
			return err
		}
		tx.Delete(pendingBucket, scope)
		dropBlockSet(tx, p)
	}
	if v := tx.Get(copiesBucket, scope); v != nil {
		job, err := decodeCopyJob(scope, v)
		if err != nil {
			return err
		}
		tx.Delete(copiesBucket, scope)
		dropBlockSet(tx, job.chunks())
	}
	return nil
}
