package maintain

import (
	"bytes"
	"context"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
)

// pointCollect lies between two parts of the removal of a deleted directory's content. A test can stop the process
// there.
var pointCollect = fault.Declare("lake/collecting")

// collectGarbage removes all garbage.
func (s *Maintenance) collectGarbage(ctx context.Context) error {
	// From the first key each time: the removal of a directory adds garbage, which may come before the present key.
	for ctx.Err() == nil {
		var key []byte
		var account string
		// An old state does no harm. If another node has removed the piece meanwhile, the batch finds nothing below its id
		// and deletes a key that is gone.
		err := s.node.DB.ViewLocal(func(tx *store.Tx) error {
			k, v := tx.Cursor(record.GarbageBucket).Seek(nil)
			key = bytes.Clone(k)
			if len(v) > 0 {
				account = string(v[1:])
			}
			return nil
		})
		if err != nil || key == nil {
			return err
		}
		kind, id, err := record.ParseGarbageKey(key)
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
			err := s.node.DB.Update(func(tx *store.Tx) error {
				// The closure may run more than once, and each run begins where the last committed batch ended. r moves on only
				// after the commit.
				reached = r
				var err error
				// The key goes in the transaction of the last batch, so that a crash before that leaves the rest to the next
				// start.
				if done, err = reached.batch(tx, kind, id); done && err == nil {
					tx.Delete(record.GarbageBucket, key)
				}
				return err
			})
			if err != nil {
				return err
			}
			if kind == record.GarbageNode {
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
	case record.GarbageContent:
		return r.keys(tx, record.ContentBucket, id, nil)
	case record.GarbageBlocks:
		return r.keys(tx, record.BlocksBucket, id, nil)
	case record.GarbageContainer:
		return r.contents(tx, record.Generation(id))
	case record.GarbageNode:
		return r.node(tx, record.Inode(id))
	}
	return false, record.ErrKey
}

// contents is batch for the contents of a container.
func (r *remover) contents(tx *store.Tx, gen record.Generation) (done bool, err error) {
	var b record.Blob
	// Index entries go with their records: nothing else removes the entry of a tag index whose record is gone.
	done, err = r.keys(tx, record.BlobsBucket, uint64(gen), func(k, v []byte) error {
		if err := record.DecodeBlob(v, &b); err != nil {
			return err
		}
		it, slot, err := record.ParseBlobKey(k)
		if err == nil && slot == record.BaseSlot && len(b.Tags) > 0 {
			tx.Delete(record.TagsBucket, record.TagsKey(r.account, it))
		}
		if b.Deleted != 0 {
			tx.Delete(record.DeletedBlobsBucket, record.PurgeKey(b.PurgeAt(), k))
		}
		b.Content.Drop(tx)
		return err
	})
	if !done || err != nil {
		return false, err
	}
	// The blocks of a set are given up in the transaction that removes the record which names the set.
	done, err = r.keys(tx, record.PendingBucket, uint64(gen), func(_, v []byte) error {
		p, err := record.DecodePending(v)
		if err == nil {
			p.Drop(tx)
		}
		return err
	})
	if !done || err != nil {
		return false, err
	}
	return r.keys(tx, record.CopiesBucket, uint64(gen), func(k, v []byte) error {
		job, err := record.DecodeCopyJob(k, v)
		if err == nil {
			job.Chunks().Drop(tx)
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
	r.next, err = sweep.Prefix(tx, bucket, record.IDPrefix(id), from, sweep.Batch, each)
	return r.next == nil, err
}

// node is batch for an inode: the entries of a directory, what was deleted in a container, then its own records.
// Directories below it become garbage of their own.
func (r *remover) node(tx *store.Tx, n record.Inode) (done bool, err error) {
	// The own records come last. A directory below is not entered here, so that a batch has a limit whatever is below.
	done, err = r.keys(tx, record.NamesBucket, uint64(n), func(_, v []byte) error {
		e, err := record.DecodeEntry(v)
		switch {
		case err != nil:
			return err
		case e.Kind == record.EntryDirectory:
			return tree.Discard(tx, e.Inode)
		}
		return tree.RemoveItem(tx, e.Inode.Item())
	})
	if !done || err != nil {
		return false, err
	}
	// Only the root of a container has such keys: what was deleted in the container and can no longer be restored.
	done, err = r.keys(tx, record.TrashBucket, uint64(n), func(_, v []byte) error {
		t, err := record.DecodeTrash(v)
		if err != nil {
			return err
		}
		return tree.Discard(tx, t.Inode)
	})
	if !done || err != nil {
		return false, err
	}
	return true, tree.RemoveItem(tx, n.Item())
}
