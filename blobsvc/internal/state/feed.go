package state

import (
	"errors"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// FeedFile is a file of a change feed: a block blob that is written as a whole, or an append blob that grows.
type FeedFile struct {
	Name, ContentType string
	Content           *content.Upload
	// Append adds the content to the file.
	Append bool
}

// put stores the file's record.
func (f *FeedFile) put(tx *store.Tx, gen generation, at ticks.Ticks) error {
	var old Blob
	it := item{gen, f.Name}
	err := getBlob(tx, it, baseSlot, 0, &old)
	exists := err == nil
	if err != nil && !errors.Is(err, ErrBlobNotFound) {
		return err
	}
	b := Blob{Kind: BlockBlob, Created: at, Changed: at, Headers: Headers{ContentType: f.ContentType}}
	switch {
	case !f.Append:
		if exists {
			b.Created = old.Created
			old.content.drop(tx)
		}
		b.Headers.MD5 = string(f.Content.MD5)
		b.content, b.Length = layOut(tx, f.Content.Pieces(tx))
	default:
		if b.Kind = AppendBlob; exists {
			b = old
			b.Changed = at
		} else {
			b.content = newContent(tx)
		}
		p := f.Content.Pieces(tx)
		p[0].Start = b.Length
		putPieces(tx, b.content.id, p)
		b.Length += f.Content.Length
		b.Blocks++
	}
	putBlob(tx, it, baseSlot, &b)
	return nil
}
