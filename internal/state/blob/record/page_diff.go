package record

import (
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Span is a range of pages, end exclusive; cleared in a diff if it held content before and holds none now.
type Span struct {
	Start, End int64
	Cleared    bool
}

// appendSpan adds a span, joining it to the last if they adjoin and are of one kind.
func appendSpan(list []Span, s Span) []Span {
	if n := len(list); n > 0 && list[n-1].End == s.Start && list[n-1].Cleared == s.Cleared {
		list[n-1].End = s.End
		return list
	}
	return append(list, s)
}

// Spans returns the pages of [off, off+n) that hold content.
func (l PieceList) Spans(tx *store.Tx, off, n, limit int64) (list []Span, err error) {
	err = l.Walk(tx, off, n, limit, func(p *content.Piece) error {
		list = appendSpan(list, Span{Start: max(p.Start, off), End: min(p.End(), off+n)})
		return nil
	})
	return list, err
}

// DiffPages returns the pages that differ between two states of a page blob. Pages are the same if they are the same
// bytes of the same slices: pages that were written again count as changed, also if the bytes are equal. Pages that
// were cleared count as cleared, also if they were empty before they were written and cleared.
func DiffPages(before, after []content.Piece, off, end int64) []Span {
	var out []Span
	add := func(from, to int64, cleared bool) {
		from, to = max(from, off), min(to, end)
		if from < to {
			out = appendSpan(out, Span{from, to, cleared})
		}
	}
	// i and j are the first pieces of both states that do not end before at. Before at, out has all that differs.
	i, j := 0, 0
	at := off
	for at < end {
		for i < len(before) && before[i].End() <= at {
			i++
		}
		for j < len(after) && after[j].End() <= at {
			j++
		}
		// Each round looks at [at, next), in which both states have one piece or none.
		next := end
		var was, is *content.Piece
		if i < len(before) {
			if p := &before[i]; p.Start <= at {
				was, next = p, min(next, p.End())
			} else {
				next = min(next, p.Start)
			}
		}
		if j < len(after) {
			if p := &after[j]; p.Start <= at {
				is, next = p, min(next, p.End())
			} else {
				next = min(next, p.Start)
			}
		}
		switch {
		// Pages that were there are gone, and no mark says when. They read as zeros now.
		case is == nil && was != nil && !isMark(was):
			add(at, next, true)
		case is != nil && (was == nil || !samePages(was, is, at)):
			add(at, next, isMark(is))
		}
		at = next
	}
	return out
}

// samePages reports whether two pieces have the same bytes of the same extent at an offset of the blob. What follows in
// both is the same then: what one write brought is never rearranged.
func samePages(a, b *content.Piece, off int64) bool {
	if isMark(a) && isMark(b) {
		return a.Block == b.Block
	}
	x, i, ok := a.Place(off)
	y, j, ok2 := b.Place(off)
	return ok && ok2 && x == y && i == j
}

// Mark notes that ranges of a page blob, which have no pieces, were cleared at a time. A mark is a piece without
// slices, with the time in place of a block ID: Get Page Ranges has to show that pages were written and cleared since a
// snapshot in which they were empty. The space that marks take is bounded by what was written.
func (l PieceList) Mark(tx *store.Tx, ranges []Span, at ticks.Ticks) {
	id := string(binary.BigEndian.AppendUint64(nil, uint64(at)))
	for _, r := range ranges {
		PutPieces(tx, l.ID, []content.Piece{{Start: r.Start, Length: r.End - r.Start, Block: id}})
	}
}
