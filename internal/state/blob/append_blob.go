package blob

import (
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// maxAppends is the number of blocks that an append blob can have.
const maxAppends = 50_000

// AppendConditions are the conditions that only Append Block knows.
type AppendConditions struct {
	// Position is the length that the blob must have, MaxSize the largest length that it may grow to.
	Position, MaxSize       int64
	HasPosition, HasMaxSize bool
}

// check compares the conditions with a blob of length bytes that is to grow by n.
func (a AppendConditions) check(length, n int64) error {
	if a.HasPosition && a.Position != length {
		return ErrAppendPosition
	}
	if a.HasMaxSize && length+n > a.MaxSize {
		return ErrMaxSize
	}
	return nil
}

// AppendResult is the result of an append.
type AppendResult struct {
	Result
	// Offset is the position of the appended content, Blocks the new number of blocks.
	Offset, Blocks int64
}

// Append adds uploaded content to the end of an append blob.
func (s AppendBlobs) Append(w *Write, conditions AppendConditions, up *content.Upload) (out AppendResult, err error) {
	result, err := s.updateBlob(w, (*Preconditions).checkWrite, func(c *change, b *record.Blob) error {
		if b.Kind != record.AppendBlob {
			return ErrBlobType
		}
		if b.Lake {
			return ErrLake
		}
		if err := c.unlockFor(b, up); err != nil {
			return err
		}
		if err := conditions.check(b.Length, up.Length); err != nil {
			return err
		}
		out.Offset = b.Length
		if err := c.extend(b, up); err != nil {
			return err
		}
		out.Blocks = b.Blocks
		c.changes(record.EventContent, b)
		return nil
	})
	out.Result = result
	return out, err
}

// extend adds uploaded content to the end of b, an append blob.
func (c *change) extend(b *record.Blob, up *content.Upload) error {
	if err := b.CheckChangeable(); err != nil {
		return err
	}
	if b.Sealed {
		return ErrSealed
	}
	if b.Blocks >= maxAppends {
		return ErrTooManyAppends
	}
	if b.Content.ID == 0 {
		b.Content = record.NewContent(c.tx)
	}
	// The piece is put under its end, past all that snapshots know: they share the list, and read it up to their own
	// lengths.
	p := up.Pieces(c.tx)
	p[0].Start = b.Length
	record.PutPieces(c.tx, b.Content.ID, p)
	b.Length += up.Length
	b.Blocks++
	return nil
}

// Seal ends an append blob. Sealing a sealed blob succeeds and changes nothing. Of the conditions, the position
// alone counts.
func (s AppendBlobs) Seal(w *Write, conditions AppendConditions) (Result, error) {
	return s.updateBlob(w, (*Preconditions).checkWrite, func(c *change, b *record.Blob) error {
		if b.Kind != record.AppendBlob {
			return ErrBlobType
		}
		if conditions.HasPosition && conditions.Position != b.Length {
			return ErrAppendPosition
		}
		c.result.Changed = b.Changed
		if !b.Sealed {
			b.Sealed = true
			c.changes(record.EventProperties, b)
		}
		return nil
	})
}
