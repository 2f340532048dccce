package blob

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// A copy from outside the process is pending: the blob exists and is empty, and a job in the copies bucket has the
// source. The content arrives in chunks, which are uncommitted blocks of a set of the job's own until the last has
// arrived; progress is durable with each.
//
//	begin ──> chunk ──> ... ──> end: the blob has its content
//	            │  └─ rewind: what has arrived is dropped
//	            └──> fail, abort: the blob stays, empty

// putJob stores the job of a copy to b.
func (c *change) putJob(b *record.Blob, job *record.CopyJob) error {
	if l := b.Lease.At(c.now); l.State == lease.Leased && l.Duration != lease.Infinite {
		return ErrFiniteLease
	}
	job.Account = c.Account
	job.Container = c.Container
	job.ID = b.Copy.ID
	job.Set = record.NextID(c.tx)
	job.Blocks = 0
	job.Key = record.PendingKey(c.Item)
	c.tx.Put(record.CopiesBucket, job.Key, job.Encode())
	return nil
}

// Pending returns the jobs of all pending copies.
func (s Copies) Pending() (jobs []record.CopyJob, err error) {
	err = s.db.ViewLocal(func(tx *store.Tx) error {
		cur := tx.Cursor(record.CopiesBucket)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			job, err := record.DecodeCopyJob(k, v)
			if err != nil {
				return err
			}
			jobs = append(jobs, job)
		}
		return nil
	})
	return jobs, err
}

// Load reads the present state of a job, and its blob into b. It fails with [ErrCopyGone].
func (s Copies) Load(job *record.CopyJob, b *record.Blob) (now record.CopyJob, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		now, err = loadCopy(tx, job.Key, job.ID, b)
		return err
	})
	return now, err
}

// loadCopy reads a job and its blob. It fails with ErrCopyGone.
func loadCopy(tx *store.Tx, key []byte, id string, b *record.Blob) (job record.CopyJob, err error) {
	v := tx.Get(record.CopiesBucket, key)
	if v == nil {
		return job, ErrCopyGone
	}
	if job, err = record.DecodeCopyJob(key, v); err != nil {
		return job, err
	}
	it, err := record.ParsePendingKey(key)
	if err != nil {
		return job, err
	}
	// A later copy into the same name has the same key and another ID. The contents of a deleted container remain until
	// the background has removed them, and the copy must not go on in it.
	if job.ID != id || tx.Get(record.ContainersBucket, record.ContainerKey(job.Account, job.Container)) == nil {
		return job, ErrCopyGone
	}
	switch err := record.GetBlob(tx, it, record.BaseSlot, 0, b); {
	case errors.Is(err, record.ErrBlobNotFound):
		return job, ErrCopyGone
	case err != nil:
		return job, err
	case b.Copy.ID != id || b.Copy.Status != record.CopyPending:
		return job, ErrCopyGone
	}
	return job, nil
}

// updateCopy changes job and blob of a pending copy in one transaction. fn returns the event with which the copy is
// over, 0 if it is not.
func (s Copies) updateCopy(job *record.CopyJob, now time.Time,
	fn func(c *change, job *record.CopyJob, b *record.Blob) (over record.EventKind, err error)) error {
	it, err := record.ParsePendingKey(job.Key)
	if err != nil {
		return err
	}
	w := Write{Ref: Ref{Account: job.Account, Container: job.Container, Blob: it.Name}, Now: now,
		Policy: s.policyOf(job.Account), Origin: eventlog.Origin{Operation: "CopyBlob"}}
	_, err = s.update(&w, func(c *change) error {
		// The job is found by its item. A rename may have given the file another path since the copy began, and the event
		// needs the present one.
		if c.Item = it; it.InTree() {
			account, container, path, ok, err := record.PathOf(c.tx, it.Inode())
			if err != nil {
				return err
			}
			if !ok {
				return ErrCopyGone
			}
			moved := w
			moved.Ref = Ref{Account: account, Container: container, Blob: path}
			c.Write = &moved
		}
		var b record.Blob
		stored, err := loadCopy(c.tx, job.Key, job.ID, &b)
		if err != nil {
			return err
		}
		over, err := fn(c, &stored, &b)
		if err != nil {
			return err
		}
		// The job goes in the transaction that ends the copy, so that no restart finds one whose blob is complete.
		if over == 0 {
			c.tx.Put(record.CopiesBucket, job.Key, stored.Encode())
		} else {
			c.tx.Delete(record.CopiesBucket, job.Key)
		}
		c.put(&b)
		if over != 0 {
			c.note(over, &b)
		}
		return nil
	})
	return err
}

func chunkID(at int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(at))) }

// AddChunk records the chunk at an offset, which has arrived. It fails with [ErrCopyMoved] if the copy is elsewhere by
// now.
func (s Copies) AddChunk(job *record.CopyJob, at int64, up *content.Upload, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *record.CopyJob, b *record.Blob) (record.EventKind, error) {
		// Another process may have fetched this chunk, or have rewound the copy. Chunks have no gaps: the content is what
		// has arrived, in order.
		if b.Copy.Copied != at {
			return 0, ErrCopyMoved
		}
		c.tx.Put(record.BlocksBucket, record.BlockKey(job.Set, chunkID(at)), record.EncodeBlock(up.Pieces(c.tx)[0]))
		job.Blocks++
		b.Copy.Copied = at + up.Length
		return 0, nil
	})
}

// Rewind drops what has arrived.
func (s Copies) Rewind(job *record.CopyJob, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *record.CopyJob, b *record.Blob) (record.EventKind, error) {
		// A new set, since the background may need some time to remove the blocks of the old one.
		job.Chunks().Drop(c.tx)
		job.Set = record.NextID(c.tx)
		job.Blocks = 0
		b.Copy.Copied = 0
		return 0, nil
	})
}

// End makes the chunks the blob's content.
func (s Copies) End(job *record.CopyJob, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *record.CopyJob, b *record.Blob) (record.EventKind, error) {
		list, err := job.Arrived(c.tx)
		if err != nil {
			return 0, err
		}
		// The list was read before: it has the pieces, and the blob refers to them when the transaction is committed.
		job.Chunks().Drop(c.tx)
		if b.Kind == record.BlockBlob {
			b.Content, b.Length = record.LayOut(c.tx, list)
		} else {
			for i := range list {
				list[i].Start = b.Length
				b.Length += list[i].Length
			}
			b.Content = record.StorePages(c.tx, list)
			if b.Kind == record.AppendBlob {
				b.Blocks = int64(len(list))
			}
		}
		b.EndCopy(record.CopySuccess, c.at)
		return record.EventCreated, nil
	})
}

// Fail ends a copy that cannot be completed. Its blob stays, empty.
func (s Copies) Fail(job *record.CopyJob, description string, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *record.CopyJob, b *record.Blob) (record.EventKind, error) {
		job.Chunks().Drop(c.tx)
		b.EndCopy(record.CopyFailed, c.at)
		b.Copy.Description = description
		return record.EventContent, nil
	})
}

// Abort ends the pending copy of an ID.
func (s Copies) Abort(w *Write, id string) error {
	_, err := s.updateBlob(w, (*Preconditions).checkAbort, func(c *change, b *record.Blob) error {
		if b.Copy.Status != record.CopyPending {
			return ErrNoCopyPending
		}
		if b.Copy.ID != id {
			return ErrCopyID
		}
		key := record.PendingKey(c.Item)
		job, err := loadCopy(c.tx, key, id, new(record.Blob))
		if err != nil {
			return err
		}
		job.Chunks().Drop(c.tx)
		c.tx.Delete(record.CopiesBucket, key)
		b.EndCopy(record.CopyAborted, c.at)
		c.put(b)
		c.note(record.EventContent, b)
		return nil
	})
	return err
}
