package blob

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Put writes a whole blob with the content that was uploaded. Without up the blob has no content: it is a page blob
// of zeros, or an empty append blob. blob has the properties from the request; this function sets times and versions.
func (s Blobs) Put(w *Write, blob *record.Blob, up *content.Upload) (Result, error) {
	return s.update(w, func(c *change) (err error) {
		b := *blob
		c.afresh = true
		if up != nil {
			b.Encryption = up.Encryption()
			b.Content, b.Length = record.LayOut(c.tx, up.Pieces(c.tx))
		} else if b.Encryption, err = c.encryption(false); err != nil {
			return err
		}
		return c.replace(&b)
	})
}

// CheckPut reports early whether a body is worth receiving: it fails as Put would if the preconditions of w do not
// hold. The transaction of Put decides.
func (s Blobs) CheckPut(w *Write) error {
	return s.db.View(func(tx *store.Tx) error {
		p, err := w.find(tx)
		if err != nil {
			return err
		}
		var b record.Blob
		now := ticks.Of(w.Now)
		switch err := record.GetBlob(tx, p.Item, record.BaseSlot, now, &b); {
		case err == nil:
			return w.If.checkOverwrite(&b, now)
		case errors.Is(err, record.ErrBlobNotFound):
			// A lease on uncommitted blocks counts as well; the blob that receives it is that of Put, not this one.
			return w.checkCreate(tx, p.Item, new(record.Blob), now)
		default:
			return err
		}
	})
}
