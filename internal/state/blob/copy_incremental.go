package blob

import (
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// An incremental copy makes a snapshot of a page blob a snapshot of the destination. A source in this process refers to
// the same bytes, so the copy is complete at once. A copy from outside the process is a pending copy (copy_job.go) of
// the pages alone that differ from the snapshot that was copied before. They arrive as blocks of the job's set, under
// their offsets, and the destination keeps its content until all have arrived. Then, in one transaction, they take
// their places, the pages that the source has cleared are removed, and the snapshot is created. Progress is the offset
// up to which everything has arrived.

// CopyIncremental copies a snapshot of this process.
func (s Copies) CopyIncremental(w *Write, src *Source, cp *Copy) (Result, error) {
	if src.At.Snapshot == 0 {
		return Result{}, ErrIncrementalNoSnapshot
	}
	source := src.Account + "/" + src.Container + "/" + src.Blob
	return s.update(w, func(c *change) error {
		var from, b record.Blob
		if err := src.read(c.tx, c.now, &from); err != nil {
			return err
		}
		if from.Kind != record.PageBlob {
			return ErrSourceType
		}
		exists, err := c.incrementalTarget(source, src.At.Snapshot, &b)
		if err != nil {
			return err
		}
		if !exists {
			// A deleted blob of the name stays as it does when a blob is written.
			b = record.Blob{Kind: record.PageBlob, Incremental: record.Incremental{Source: source}}
			if err := c.replace(&b); err != nil {
				return err
			}
		}
		if err := c.sameEncryption(src, &b, &from); err != nil {
			return err
		}
		// The content before belongs to the snapshots of b that were made of it, which have references of their own.
		b.Content.Drop(c.tx)
		b.Metadata = nil
		b.Adopt(&from)
		// Frozen, as a snapshot: pages that are written to the source later must not change what was copied.
		if b.Content, err = from.Content.Freeze(c.tx, &from); err != nil {
			return err
		}
		b.Copy = record.CopyState{ID: cp.ID, Source: cp.URL, Status: record.CopySuccess, Total: from.Length}
		c.written = true
		return c.endIncremental(&b, src.At.Snapshot)
	})
}

// incrementalTarget decides whether a snapshot of source may be copied into the blob of c, and reads that if it exists.
func (c *change) incrementalTarget(source string, snapshot ticks.Ticks, b *record.Blob) (exists bool, err error) {
	if err := c.enter(); err != nil {
		return false, err
	}
	switch err := c.base(b); {
	case errors.Is(err, record.ErrBlobNotFound):
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
	return true, b.CheckChangeable()
}

// endIncremental creates a snapshot of b, which has the content of a snapshot of its source.
func (c *change) endIncremental(b *record.Blob, snapshot ticks.Ticks) (err error) {
	b.EndCopy(record.CopySuccess, c.at)
	b.Copy.Copied = b.Length
	b.Incremental.Last = snapshot
	b.Incremental.To = c.later
	c.put(b)
	_, err = c.snapshot(b, c.later, nil)
	c.result.Changed = b.Changed
	c.result.Encryption = b.Encryption
	return err
}

// CheckIncremental reports early whether BeginIncremental would refuse the destination.
func (s Copies) CheckIncremental(w *Write, source string, snapshot ticks.Ticks) error {
	return s.db.View(func(tx *store.Tx) error {
		c := change{Write: w, s: s.core, tx: tx, now: ticks.Of(w.Now)}
		_, err := c.incrementalTarget(source, snapshot, new(record.Blob))
		return err
	})
}

// BeginIncremental begins an incremental copy from outside the process. from has the properties of the source, source
// is its address without the snapshot.
func (s Copies) BeginIncremental(w *Write, from *record.Blob, source string, cp *Copy) (Result, error) {
	return s.update(w, func(c *change) error {
		var b record.Blob
		exists, err := c.incrementalTarget(source, cp.Job.Snapshot, &b)
		if err != nil {
			return err
		}
		id, err := c.encryption(false)
		if err != nil {
			return err
		}
		if !exists {
			b = record.Blob{Kind: record.PageBlob, Encryption: id, Incremental: record.Incremental{Source: source}}
		} else if err := b.Encryption.Matches(id); err != nil {
			return err
		}
		// Adopt takes the length of the source as well, and the content is still the present one: it stays until the new one
		// has arrived, so that a copy that fails leaves what there was.
		length := b.Length
		b.Metadata = nil
		b.Adopt(from)
		b.Length = length
		b.Copy = record.CopyState{ID: cp.ID, Source: cp.URL, Status: record.CopyPending, Total: from.Length}
		// A new blob goes the way of all writes, with its lease, versions and blocks. One that exists announces the copy, and
		// nothing else of it changes.
		if !exists {
			if err := c.replace(&b); err != nil {
				return err
			}
		} else {
			c.changes(record.EventStarted, &b)
			c.result.Encryption = b.Encryption
		}
		return c.putJob(&b, cp.Job)
	})
}

// AddSpans records ranges of pages that have arrived, one behind the other in up. It fails with [ErrCopyMoved] if the
// copy is past them.
func (s Copies) AddSpans(job *record.CopyJob, spans []record.Span, up *content.Upload, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *record.CopyJob, b *record.Blob) (record.EventKind, error) {
		// Spans have gaps, the pages that did not change; so a later start is right, and an earlier one is a repetition.
		if b.Copy.Copied > spans[0].Start {
			return 0, ErrCopyMoved
		}
		all, at := up.Pieces(c.tx)[0], int64(0)
		for _, x := range spans {
			n := x.End - x.Start
			p := all.Window(at, at+n)
			p.Encryption = all.Encryption
			c.tx.Put(record.BlocksBucket, record.BlockKey(job.Set, chunkID(x.Start)), record.EncodeBlock(p))
			at += n
		}
		job.Blocks += int64(len(spans))
		b.Copy.Copied = spans[len(spans)-1].End
		return 0, nil
	})
}

// EndSnapshot completes an incremental copy: what has arrived takes its place, the cleared pages are removed, and the
// snapshot is created.
func (s Copies) EndSnapshot(job *record.CopyJob, cleared []record.Span, now time.Time) error {
	return s.updateCopy(job, now, func(c *change, job *record.CopyJob, b *record.Blob) (record.EventKind, error) {
		if err := resizePages(c.tx, b, b.Copy.Total); err != nil {
			return 0, err
		}
		// Pieces of pages are changed in place, which only a list with an ID allows.
		if b.Content.ID == 0 {
			b.Content = record.NewContent(c.tx)
		}
		for _, x := range cleared {
			removed, err := b.Content.Cut(c.tx, x.Start, x.End)
			if err != nil {
				return 0, err
			}
			b.Content.Mark(c.tx, removed, c.at)
		}
		list, err := job.Arrived(c.tx)
		if err != nil {
			return 0, err
		}
		// A piece that is put must not overlap others, so its range is cut out of the old pages first.
		for i := range list {
			if _, err := b.Content.Cut(c.tx, list[i].Start, list[i].End()); err != nil {
				return 0, err
			}
			record.PutPieces(c.tx, b.Content.ID, list[i:i+1])
		}
		job.Chunks().Drop(c.tx)
		return record.EventContent, c.endIncremental(b, job.Snapshot)
	})
}
