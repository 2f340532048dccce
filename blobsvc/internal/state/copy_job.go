package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// A copy from outside the process is pending: the blob exists and is empty, and a job in the copies bucket has the
// source. The content arrives in chunks, which are uncommitted blocks of a set of the job's own until the last has
// arrived; progress is durable with each.
//
//	begin ──> chunk ──> ... ──> end: the blob has its content
//	            │  └─ rewind: what has arrived is dropped
//	            └──> fail, abort: the blob stays, empty

// CopyJob is a pending copy.
type CopyJob struct {
	Account, Container string
	// ID is the copy's.
	ID, URL, Intent string
	// ETag is the source's when the copy began, "" if it has none.
	ETag string
	// Snapshot is the source's snapshot that an incremental copy copies, 0 for any other copy.
	Snapshot ticks.Ticks
	// set has the chunks that have arrived, blocks is their number.
	set    uint64
	blocks int64
	// key is the key of the job; it is not stored.
	key []byte
}

func (j *CopyJob) encode() []byte {
	e := newEncoder(128)
	for _, s := range [...]string{j.Account, j.Container, j.ID, j.URL, j.Intent, j.ETag} {
		e.string(s)
	}
	e.uvarint(j.set)
	e.uvarint(uint64(j.blocks))
	if j.Snapshot != 0 {
		e.uvarint(uint64(j.Snapshot))
	}
	return e.b
}

// decodeCopyJob reads a job and its key.
func decodeCopyJob(k, v []byte) (j CopyJob, err error) {
	d := newDecoder(v)
	for _, s := range [...]*string{&j.Account, &j.Container, &j.ID, &j.URL, &j.Intent, &j.ETag} {
		*s = d.string()
	}
	j.set, j.blocks = d.uint(), int64(d.uint())
	if d.more() {
		j.Snapshot = ticks.Ticks(d.uint())
	}
	j.key = bytes.Clone(k)
	return j, d.err()
}

// chunks represents the set of chunks that have arrived.
func (j *CopyJob) chunks() pendingRecord { return pendingRecord{set: j.set, count: j.blocks} }

// putJob stores the job of a copy to b.
func (c *change) putJob(b *Blob, job *CopyJob) error {
	if l := b.Lease.At(c.now); l.State == LeaseLeased && l.Duration != LeaseInfinite {
		return ErrFiniteLease
	}
	job.Account, job.Container, job.ID = c.Account, c.Container, b.Copy.ID
	job.set, job.blocks = nextID(c.tx), 0
	job.key = pendingKey(c.item)
	c.tx.Put(copiesBucket, job.key, job.encode())
	return nil
}

// Pending returns the jobs of all pending copies.
func (s Copies) Pending() (jobs []CopyJob, err error) {
	err = s.db.ViewLocal(func(tx *store.Tx) error {
		cur := tx.Cursor(copiesBucket)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			job, err := decodeCopyJob(k, v)
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
func (s Copies) Load(job *CopyJob, b *Blob) (now CopyJob, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		now, err = loadCopy(tx, job.key, job.ID, b)
		return err
	})
	return now, err
}

// loadCopy reads a job and its blob. It fails with errCopyGone.
func loadCopy(tx *store.Tx, key []byte, id string, b *Blob) (job CopyJob, err error) {
	v := tx.Get(copiesBucket, key)
	if v == nil {
		return job, ErrCopyGone
	}
	if job, err = decodeCopyJob(key, v); err != nil {
		return job, err
	}
	it, err := parsePendingKey(key)
	if err != nil {
		return job, err
	}
	// A later copy into the same name has the same key and another ID. The contents of a deleted container remain until
	// the background has removed them, and the copy must not go on in it.
	if job.ID != id || tx.Get(containersBucket, containerKey(job.Account, job.Container)) == nil {
		return job, ErrCopyGone
	}
	switch err := getBlob(tx, it, baseSlot, 0, b); {
	case errors.Is(err, ErrBlobNotFound):
		return job, ErrCopyGone
	case err != nil:
		return job, err
	case b.Copy.ID != id || b.Copy.Status != CopyPending:
		return job, ErrCopyGone
	}
	return job, nil
}

// updateCopy changes job and blob of a pending copy in one transaction. fn returns the event with which the copy is
// over, 0 if it is not.
func (s Copies) updateCopy(job *CopyJob, now time.Time,
	fn func(c *change, job *CopyJob, b *Blob) (over event, err error)) error {
	it, err := parsePendingKey(job.key)
	if err != nil {
		return err
	}
	w := Write{Ref: Ref{Account: job.Account, Container: job.Container, Blob: it.name}, Now: now,
		Policy: s.policyOf(job.Account), Origin: eventlog.Origin{Operation: "CopyBlob"}}
	_, err = s.update(&w, func(c *change) error {
		// The job is found by its item. A rename may have given the file another path since the copy began, and the event
		// needs the present one.
		if c.item = it; it.inTree() {
			account, container, path, ok, err := pathOf(c.tx, it.inode())
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
		var b Blob
		stored, err := loadCopy(c.tx, job.key, job.ID, &b)
		if err != nil {
			return err
		}
		over, err := fn(c, &stored, &b)
		if err != nil {
			return err
		}
		// The job goes in the transaction that ends the copy, so that no restart finds one whose blob is complete.
		if over == 0 {
			c.tx.Put(copiesBucket, job.key, stored.encode())
		} else {
			c.tx.Delete(copiesBucket, job.key)
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
func (s Copies) AddChunk(job *CopyJob, at int64, up *content.Upload, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *CopyJob, b *Blob) (event, error) {
		// Another process may have fetched this chunk, or have rewound the copy. Chunks have no gaps: the content is what
		// has arrived, in order.
		if b.Copy.Copied != at {
			return 0, ErrCopyMoved
		}
		c.tx.Put(blocksBucket, blockKey(job.set, chunkID(at)), encodeBlock(up.Pieces(c.tx)[0]))
		job.blocks++
		b.Copy.Copied = at + up.Length
		return 0, nil
	})
}

// Rewind drops what has arrived.
func (s Copies) Rewind(job *CopyJob, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *CopyJob, b *Blob) (event, error) {
		// A new set, since the background may need some time to remove the blocks of the old one.
		dropBlockSet(c.tx, job.chunks())
		job.set, job.blocks = nextID(c.tx), 0
		b.Copy.Copied = 0
		return 0, nil
	})
}

// End makes the chunks the blob's content.
func (s Copies) End(job *CopyJob, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *CopyJob, b *Blob) (event, error) {
		list, err := job.arrived(c.tx)
		if err != nil {
			return 0, err
		}
		// The list was read before: it has the pieces, and the blob refers to them when the transaction is committed.
		dropBlockSet(c.tx, job.chunks())
		if b.Kind == BlockBlob {
			b.content, b.Length = layOut(c.tx, list)
		} else {
			for i := range list {
				list[i].Start = b.Length
				b.Length += list[i].Length
			}
			b.content = storePages(c.tx, list)
			if b.Kind == AppendBlob {
				b.Blocks = int64(len(list))
			}
		}
		b.endCopy(CopySuccess, c.at)
		return eventCreated, nil
	})
}

// Fail ends a copy that cannot be completed. Its blob stays, empty.
func (s Copies) Fail(job *CopyJob, description string, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *CopyJob, b *Blob) (event, error) {
		dropBlockSet(c.tx, job.chunks())
		b.endCopy(CopyFailed, c.at)
		b.Copy.Description = description
		return eventContent, nil
	})
}

// Abort ends the pending copy of an ID.
func (s Copies) Abort(w *Write, id string) error {
	_, err := s.updateBlob(w, (*Preconditions).checkAbort, func(c *change, b *Blob) error {
		if b.Copy.Status != CopyPending {
			return ErrNoCopyPending
		}
		if b.Copy.ID != id {
			return ErrCopyID
		}
		key := pendingKey(c.item)
		job, err := loadCopy(c.tx, key, id, new(Blob))
		if err != nil {
			return err
		}
		dropBlockSet(c.tx, job.chunks())
		c.tx.Delete(copiesBucket, key)
		b.endCopy(CopyAborted, c.at)
		c.put(b)
		c.note(eventContent, b)
		return nil
	})
	return err
}

// endCopy gives the copy into b its last status.
func (b *Blob) endCopy(status string, at ticks.Ticks) {
	b.Copy.Status, b.Copy.Completed, b.Changed = status, at, at
}

// arrived returns what has arrived, in order, each piece at the offset that its block is named by.
func (j *CopyJob) arrived(tx *store.Tx) (list []content.Piece, err error) {
	scope := setPrefix(j.set)
	cur := tx.Cursor(blocksBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		p, err := decodeBlock(v)
		if err != nil {
			return nil, err
		}
		if len(k) < len(scope)+8 {
			return nil, errKey
		}
		p.Start = int64(binary.BigEndian.Uint64(k[len(k)-8:]))
		list = append(list, p)
	}
	return list, nil
}
