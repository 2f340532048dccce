package blob

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// Move gives a blob of a flat account another name, in one transaction: what is there is replaced as by Put. Headers,
// metadata unless it is replaced, tags, tier and expiry time stay; the lease, previous versions and uncommitted blocks
// belong to the old name and go with it. A blob with snapshots is refused.
func (s Paths) Move(w *Write, src *RenameSource, changes *RenameChanges) (Result, error) {
	return s.update(w, func(c *change) error {
		leaving := *w
		leaving.Ref = src.Ref
		leaving.If = src.If
		leaving.Node = nil
		// The deletion of the old name is a change of its own in the same transaction: it has its own place, effects and
		// event.
		from := change{Write: &leaving, s: c.s, tx: c.tx, now: c.now, at: c.at, later: c.later}
		if err := from.enter(); err != nil {
			return err
		}
		var b record.Blob
		switch err := from.base(&b); {
		case errors.Is(err, record.ErrBlobNotFound):
			return ErrRenameNotFound
		case err != nil:
			return err
		}
		if err := src.If.checkDelete(&b, c.now); err != nil {
			return &SourceError{err}
		}
		slots, err := from.snapshots(true)
		if err != nil {
			return err
		}
		switch {
		case len(slots) > 0:
			return ErrSnapshotsPresent
		case b.Copy.Status == record.CopyPending:
			return ErrCopyPending
		case b.IsIncremental():
			return ErrIncremental
		}
		if err := c.mayTake(src, &b); err != nil {
			return err
		}
		if src.Container == w.Container && src.Blob == w.Blob {
			c.result.Changed = b.Changed
			return nil
		}
		moved := b
		// replace numbers the version, and takes the lease of what it replaces.
		moved.Lease = lease.Lease{}
		moved.Version = 0
		moved.Protection = record.Protection{}
		if changes.Metadata != nil {
			moved.Metadata = *changes.Metadata
		}
		// Before remove, which may drop the last reference to the content.
		if moved.Content, err = b.Content.Duplicate(c.tx, &b); err != nil {
			return err
		}
		if err := c.replace(&moved); err != nil {
			return err
		}
		from.discardBlocks()
		if err := from.remove(&b); err != nil {
			return err
		}
		// update counts and reports for c alone.
		c.freed += from.freed
		c.eventLogged = c.eventLogged || from.eventLogged
		return nil
	})
}
