package blob

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// PageSize is the size of a page in bytes.
const PageSize = 512

// SequenceConditions are the conditions of Put Page on the sequence number.
type SequenceConditions struct {
	LE, LT, EQ          int64
	HasLE, HasLT, HasEQ bool
}

func (q SequenceConditions) check(n int64) error {
	if q.HasLE && n > q.LE || q.HasLT && n >= q.LT || q.HasEQ && n != q.EQ {
		return ErrSequenceNumber
	}
	return nil
}

// PagesResult is the result of a write of pages.
type PagesResult struct {
	Result
	// Sequence is the blob's sequence number.
	Sequence int64
}

// Write puts uploaded content at [start, end) of a page blob, or clears that range if up is nil. start and end are
// multiples of PageSize.
func (s PageBlobs) Write(w *Write, start, end int64, conditions SequenceConditions,
	up *content.Upload) (out PagesResult, err error) {
	result, err := s.updateBlob(w, (*Preconditions).checkWrite, func(c *change, b *record.Blob) error {
		if b.Kind != record.PageBlob {
			return ErrBlobType
		}
		if err := c.unlockFor(b, up); err != nil {
			return err
		}
		if err := conditions.check(b.Sequence); err != nil {
			return err
		}
		if err := b.CheckChangeable(); err != nil {
			return err
		}
		if end > b.Length {
			return ErrPageRange
		}
		// The list is changed in place, which only records of its own allow: a blob without pages so far gets an ID for
		// them.
		if b.Content.ID == 0 {
			b.Content = record.NewContent(c.tx)
		}
		// Pieces must not overlap, so what was in the range goes first, also where the range is written again.
		removed, err := b.Content.Cut(c.tx, start, end)
		if err != nil {
			return err
		}
		if up != nil {
			p := up.Pieces(c.tx)
			p[0].Start = start
			record.PutPieces(c.tx, b.Content.ID, p)
		} else {
			// Marks take the place of what was removed alone. Pages that were empty before need none, and get none.
			b.Content.Mark(c.tx, removed, c.at)
		}
		out.Sequence = b.Sequence
		c.changes(record.EventContent, b)
		return nil
	})
	out.Result = result
	return out, err
}

// resizePages changes the length of a page blob. Pages past the new end are removed, new pages are zeros.
func resizePages(tx *store.Tx, b *record.Blob, size int64) error {
	// Pages past the new end must not come back when the blob grows again.
	if size < b.Length && b.Content.ID != 0 {
		if _, err := b.Content.Cut(tx, size, b.Length); err != nil {
			return err
		}
	}
	b.Length = size
	return nil
}

// PageRanges are ranges of pages of a blob.
type PageRanges struct {
	Changed ticks.Ticks // of the blob
	Length  int64       // of the blob
	Spans   []record.Span
}

// Ranges returns the pages of a page blob that have content, or that differ from an earlier snapshot unless
// previous is 0. within limits the answer to the pages that it touches; nil is the whole blob.
func (s PageBlobs) Ranges(r *Read, within *Range, previous ticks.Ticks) (out PageRanges, err error) {
	var b record.Blob
	err = s.view(r, &b, func(tx *store.Tx, it record.Item) (err error) {
		if b.Kind != record.PageBlob {
			return ErrBlobType
		}
		if b.IsIncremental() {
			return ErrIncremental
		}
		off, n := int64(0), b.Length
		if within != nil {
			if off, n, err = within.Within(b.Length); err != nil {
				return err
			}
			// Any byte of a page in the range takes in the whole page.
			end := (off + n + PageSize - 1) / PageSize * PageSize
			off -= off % PageSize
			n = end - off
		}
		out.Changed = b.Changed
		out.Length = b.Length
		if previous == 0 {
			out.Spans, err = b.Content.Spans(tx, off, n, b.Length)
			return err
		}
		// Slots are times, and that of the base blob is behind all of them: the state asked about is never the older one.
		if record.Slot(previous) > b.Slot {
			return ErrPreviousNewer
		}
		var old record.Blob
		if err := (record.Address{Snapshot: previous}).Get(tx, it, r.now(), &old); err != nil {
			if errors.Is(err, record.ErrBlobNotFound) {
				return ErrPreviousNotFound
			}
			return err
		}
		// A write of the whole blob leaves no marks of what it cleared, so that a comparison across it would be wrong.
		if b.Replaced > previous {
			return ErrReplaced
		}
		out.Spans, err = diff(tx, &old, &b, off, n)
		return err
	})
	return out, err
}

// diff returns the pages of [off, off+n) that differ between two states of a page blob.
func diff(tx *store.Tx, old, b *record.Blob, off, n int64) ([]record.Span, error) {
	var lists [2][]content.Piece
	for i, x := range [...]*record.Blob{old, b} {
		// With the marks: a page that was written and cleared since is empty in both states, and has changed.
		err := x.Content.WalkMarked(tx, off, n, x.Length, func(p *content.Piece) error {
			lists[i] = append(lists[i], *p)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return record.DiffPages(lists[0], lists[1], off, off+n), nil
}
