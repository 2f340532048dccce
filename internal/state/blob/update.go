package blob

import "github.com/lazuli-storage/lazuli/internal/state/blob/record"

// updateBlob changes the record that w names, once check has found that w's preconditions hold. change may run twice;
// it stores the record itself.
func (s *core) updateBlob(w *Write, check blobCheck, fn func(c *change, b *record.Blob) error) (Result, error) {
	return s.update(w, func(c *change) error {
		if err := c.enterExisting(); err != nil {
			return err
		}
		// A read of the base blob treats an expired one as absent. Its snapshots and versions have no expiry time of their
		// own, so the base blob is deleted first, with what goes with it.
		if !w.At.IsBase() {
			if err := c.expireDue(); err != nil {
				return err
			}
		}
		var b record.Blob
		if err := w.At.Get(c.tx, c.Item, c.now, &b); err != nil {
			return err
		}
		if err := c.mayChange(&b); err != nil {
			return err
		}
		if err := check(&w.If, &b, c.now); err != nil {
			return err
		}
		return fn(c, &b)
	})
}
