package state

import (
	"encoding/binary"
	"errors"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
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

// PageBlobs has the operations on the pages of page blobs.
type PageBlobs struct{ *core }

// Write puts uploaded content at [start, end) of a page blob, or clears that range if up is nil. start and end are
// multiples of PageSize.
func (s PageBlobs) Write(w *Write, start, end int64, conditions SequenceConditions,
	up *content.Upload) (out PagesResult, err error) {
	result, err := s.updateBlob(w, (*Preconditions).checkWrite, func(c *change, b *Blob) error {
		if b.Kind != PageBlob {
			return ErrBlobType
		}
		if err := c.unlockFor(b, up); err != nil {
			return err
		}
		if err := conditions.check(b.Sequence); err != nil {
			return err
		}
		if err := b.checkChangeable(); err != nil {
			return err
		}
		if end > b.Length {
			return ErrPageRange
		}
		// The list is changed in place, which only records of its own allow: a blob without pages so far gets an ID for
		// them.
		if b.content.id == 0 {
			b.content = newContent(c.tx)
		}
		// Pieces must not overlap, so what was in the range goes first, also where the range is written again.
		removed, err := b.content.cut(c.tx, start, end)
		if err != nil {
			return err
		}
		if up != nil {
			p := up.Pieces(c.tx)
			p[0].Start = start
			putPieces(c.tx, b.content.id, p)
		} else {
			// Marks take the place of what was removed alone. Pages that were empty before need none, and get none.
			b.content.mark(c.tx, removed, c.at)
		}
		out.Sequence = b.Sequence
		c.changes(eventContent, b)
		return nil
	})
	out.Result = result
	return out, err
}

// cut removes [start, end) from the pieces of a page blob, and returns which parts of it had content or marks. Each
// piece has its own record.
func (l pieceList) cut(tx *store.Tx, start, end int64) (removed []Span, err error) {
	var hit []content.Piece
	err = l.walkMarked(tx, start, end-start, end, func(p *content.Piece) error {
		hit = append(hit, *p)
		removed = appendSpan(removed, Span{Start: max(p.Start, start), End: min(p.End(), end)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	// After the walk, since a cursor sees the writes of its own transaction. The parts of a piece outside the range are
	// put under the ends that they have now; the last one has the key that was deleted.
	for _, p := range hit {
		tx.Delete(contentBucket, pieceKey(l.id, p.End()))
		if p.Start < start {
			putPieces(tx, l.id, []content.Piece{p.Window(p.Start, start)})
		}
		if p.End() > end {
			putPieces(tx, l.id, []content.Piece{p.Window(end, p.End())})
		}
	}
	return removed, nil
}

// mark notes that ranges of a page blob, which have no pieces, were cleared at a time. A mark is a piece without
// slices, with the time in place of a block ID: Get Page Ranges has to show that pages were written and cleared since a
// snapshot in which they were empty. The space that marks take is bounded by what was written.
func (l pieceList) mark(tx *store.Tx, ranges []Span, at ticks.Ticks) {
	id := string(binary.BigEndian.AppendUint64(nil, uint64(at)))
	for _, r := range ranges {
		putPieces(tx, l.id, []content.Piece{{Start: r.Start, Length: r.End - r.Start, Block: id}})
	}
}

// isMark reports whether a piece is a mark of cleared pages.
func isMark(p *content.Piece) bool { return len(p.Slices) == 0 }

// resizePages changes the length of a page blob. Pages past the new end are removed, new pages are zeros.
func resizePages(tx *store.Tx, b *Blob, size int64) error {
	// Pages past the new end must not come back when the blob grows again.
	if size < b.Length && b.content.id != 0 {
		if _, err := b.content.cut(tx, size, b.Length); err != nil {
			return err
		}
	}
	b.Length = size
	return nil
}

// storePages stores the pieces of a page blob under a new ID, one record each.
func storePages(tx *store.Tx, list []content.Piece) pieceList {
	if len(list) == 0 {
		return pieceList{}
	}
	l := newContent(tx)
	for i := range list {
		putPieces(tx, l.id, list[i:i+1])
	}
	return l
}

// PageRanges are ranges of pages of a blob.
type PageRanges struct {
	Changed ticks.Ticks // of the blob
	Length  int64       // of the blob
	Spans   []Span
}

// Ranges returns the pages of a page blob that have content, or that differ from an earlier snapshot unless
// previous is 0. within limits the answer to the pages that it touches; nil is the whole blob.
func (s PageBlobs) Ranges(r *Read, within *Range, previous ticks.Ticks) (out PageRanges, err error) {
	var b Blob
	err = s.view(r, &b, func(tx *store.Tx, it item) (err error) {
		if b.Kind != PageBlob {
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
		out.Changed, out.Length = b.Changed, b.Length
		if previous == 0 {
			out.Spans, err = b.content.spans(tx, off, n, b.Length)
			return err
		}
		if Slot(previous) > b.slot {
			return ErrPreviousNewer
		}
		var old Blob
		if err := (Address{Snapshot: previous}).get(tx, it, r.now(), &old); err != nil {
			if errors.Is(err, ErrBlobNotFound) {
				return ErrPreviousNotFound
			}
			return err
		}
		out.Spans, err = diff(tx, &old, &b, off, n)
		return err
	})
	return out, err
}

// diff returns the pages of [off, off+n) that differ between two states of a page blob.
func diff(tx *store.Tx, old, b *Blob, off, n int64) ([]Span, error) {
	var lists [2][]content.Piece
	for i, x := range [...]*Blob{old, b} {
		// With the marks: a page that was written and cleared since is empty in both states, and has changed.
		err := x.content.walkMarked(tx, off, n, x.Length, func(p *content.Piece) error {
			lists[i] = append(lists[i], *p)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return diffPages(lists[0], lists[1], off, off+n), nil
}
