package state

import (
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// An incremental copy makes a snapshot of a page blob a snapshot of the destination. A source in this process refers to
// the same bytes, so the copy is complete at once. A copy from outside the process is a pending copy (copy_job.go) of
// the pages alone that differ from the snapshot that was copied before. They arrive as blocks of the job's set, under
// their offsets, and the destination keeps its content until all have arrived. Then, in one transaction, they take
// their places, the pages that the source has cleared are removed, and the snapshot is created. Progress is the offset
// up to which everything has arrived.

// IsIncremental reports whether b is the destination of incremental copies itself, of which only the snapshots are
// read.
func (b *Blob) IsIncremental() bool { return b.slot == baseSlot && b.Incremental.Source != "" }

// CopyIncremental copies a snapshot of this process.
func (s Copies) CopyIncremental(w *Write, src *Source, cp *Copy) (Result, error) {
	if src.At.Snapshot == 0 {
		return Result{}, ErrIncrementalNoSnapshot
	}
	source := src.Account + "/" + src.Container + "/" + src.Blob
	return s.update(w, func(c *change) error {
		var from, b Blob
		if err := src.read(c.tx, c.now, &from); err != nil {
			return err
		}
		if from.Kind != PageBlob {
			return ErrSourceType
		}
		exists, err := c.incrementalTarget(source, src.At.Snapshot, &b)
		if err != nil {
			return err
		}
		if !exists {
			// A deleted blob of the name stays as it does when a blob is written.
			b = Blob{Kind: PageBlob, Incremental: Incremental{Source: source}}
			if err := c.replace(&b); err != nil {
				return err
			}
		}
		if err := c.sameEncryption(src, &b, &from); err != nil {
			return err
		}
		b.content.drop(c.tx)
		b.Metadata = nil
		b.Adopt(&from)
		if b.content, err = from.content.freeze(c.tx, &from); err != nil {
			return err
		}
		b.Copy = CopyState{ID: cp.ID, Source: cp.URL, Status: CopySuccess, Total: from.Length}
		c.written = true
		return c.endIncremental(&b, src.At.Snapshot)
	})
}

// incrementalTarget decides whether a snapshot of source may be copied into the blob of c, and reads that if it exists.
func (c *change) incrementalTarget(source string, snapshot ticks.Ticks, b *Blob) (exists bool, err error) {
	if err := c.enter(); err != nil {
		return false, err
	}
	switch err := c.base(b); {
	case errors.Is(err, ErrBlobNotFound):
		return false, c.If.checkCreate()
	case err != nil:
		return false, err
	case !c.Rights.Overwrite:
		return false, ErrOverwriteForbidden
	case b.Incremental.Source != source:
		return false, ErrIncrementalSource
	case b.Incremental.Last >= snapshot:
		return false, ErrIncrementalEarlier
	}
	if err := c.If.checkDelete(b, c.now); err != nil {
		return false, err
	}
	return true, b.checkChangeable()
}

// endIncremental creates a snapshot of b, which has the content of a snapshot of its source.
func (c *change) endIncremental(b *Blob, snapshot ticks.Ticks) (err error) {
	b.endCopy(CopySuccess, c.at)
	b.Copy.Copied = b.Length
	b.Incremental.Last, b.Incremental.To = snapshot, c.second
	c.put(b)
	_, err = c.snapshot(b, c.second, nil)
	c.result.Changed, c.result.Encryption = b.Changed, b.Encryption
	return err
}

// CheckIncremental reports early whether BeginIncremental would refuse the destination.
func (s Copies) CheckIncremental(w *Write, source string, snapshot ticks.Ticks) error {
	return s.db.View(func(tx *store.Tx) error {
		c := change{Write: w, s: s.core, tx: tx, now: ticks.Of(w.Now)}
		_, err := c.incrementalTarget(source, snapshot, new(Blob))
		return err
	})
}

// BeginIncremental begins an incremental copy from outside the process. from has the properties of the source, source
// is its address without the snapshot.
func (s Copies) BeginIncremental(w *Write, from *Blob, source string, cp *Copy) (Result, error) {
	return s.update(w, func(c *change) error {
		var b Blob
		exists, err := c.incrementalTarget(source, cp.Job.Snapshot, &b)
		if err != nil {
			return err
		}
		id, err := c.encryption(false)
		if err != nil {
			return err
		}
		if !exists {
			b = Blob{Kind: PageBlob, Encryption: id, Incremental: Incremental{Source: source}}
		} else if err := b.Encryption.Matches(id); err != nil {
			return err
		}
		length := b.Length // of the present content, which stays until the new one has arrived
		b.Metadata = nil
		b.Adopt(from)
		b.Length = length
		b.Copy = CopyState{ID: cp.ID, Source: cp.URL, Status: CopyPending, Total: from.Length}
		if !exists {
			if err := c.replace(&b); err != nil {
				return err
			}
		} else {
			c.changes(eventStarted, &b)
			c.result.Encryption = b.Encryption
		}
		return c.putJob(&b, cp.Job)
	})
}

// AddSpans records ranges of pages that have arrived, one behind the other in up. It fails with [ErrCopyMoved] if the
// copy is past them.
func (s Copies) AddSpans(job *CopyJob, spans []Span, up *content.Upload, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *CopyJob, b *Blob) (event, error) {
		// Spans have gaps, the pages that did not change; so a later start is right, and an earlier one is a repetition.
		if b.Copy.Copied > spans[0].Start {
			return 0, ErrCopyMoved
		}
		all, at := up.Pieces(c.tx)[0], int64(0)
		for _, x := range spans {
			n := x.End - x.Start
			p := all.Window(at, at+n)
			p.Encryption = all.Encryption
			c.tx.Put(blocksBucket, blockKey(job.set, chunkID(x.Start)), encodeBlock(p))
			at += n
		}
		job.blocks += int64(len(spans))
		b.Copy.Copied = spans[len(spans)-1].End
		return 0, nil
	})
}

// EndSnapshot completes an incremental copy: what has arrived takes its place, the cleared pages are removed, and the
// snapshot is created.
func (s Copies) EndSnapshot(job *CopyJob, cleared []Span, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *CopyJob, b *Blob) (event, error) {
		if err := resizePages(c.tx, b, b.Copy.Total); err != nil {
			return 0, err
		}
		// Pieces of pages are changed in place, which only a list with an ID allows.
		if b.content.id == 0 {
			b.content = newContent(c.tx)
		}
		for _, x := range cleared {
			removed, err := b.content.cut(c.tx, x.Start, x.End)
			if err != nil {
				return 0, err
			}
			b.content.mark(c.tx, removed, c.at)
		}
		list, err := job.arrived(c.tx)
		if err != nil {
			return 0, err
		}
		// A piece that is put must not overlap others, so its range is cut out of the old pages first.
		for i := range list {
			if _, err := b.content.cut(c.tx, list[i].Start, list[i].End()); err != nil {
				return 0, err
			}
			putPieces(c.tx, b.content.id, list[i:i+1])
		}
		dropBlockSet(c.tx, job.chunks())
		return eventContent, c.endIncremental(b, job.Snapshot)
	})
}
