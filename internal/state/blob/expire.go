package blob

import (
	"errors"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// expireLater records when the base blob b expires, if it does.
func (c *change) expireLater(b *record.Blob) {
	if b.Expires != 0 {
		c.tx.Put(record.ExpiringBucket, record.ExpiryKey(b.Expires, c.key(record.BaseSlot)),
			record.ContainerKey(c.Account, c.Container))
	}
}

// expireDue deletes the base blob if its expiry time has come.
func (c *change) expireDue() error {
	var b record.Blob
	switch err := record.LoadBlob(c.tx, c.Item, record.BaseSlot, &b); {
	case errors.Is(err, record.ErrBlobNotFound):
		return nil
	case err != nil:
		return err
	case !b.Expired(c.now):
		return nil
	}
	return c.expire()
}

// expire deletes the base blob with its uncommitted blocks and those snapshots that are not protected. It is a separate
// change in the transaction of c.
func (c *change) expire() (err error) {
	// The write that found the expired blob may have conditions, which do not concern this deletion: e has none, and
	// its event is that of a deletion.
	e := change{s: c.s, tx: c.tx, Place: c.Place, now: c.now, at: c.at, later: c.later,
		Write: &Write{Ref: c.Ref, Now: c.Now, Policy: c.Policy, Origin: eventlog.Origin{Operation: "DeleteBlob"}}}
	if err := e.expireAll(); err != nil {
		return err
	}
	if c.InTree() { // the path has no item any more
		if c.Place, err = c.find(c.tx); err != nil {
			return err
		}
	}
	// update counts and reports for c alone.
	c.freed += e.freed
	c.eventLogged = c.eventLogged || e.eventLogged
	return nil
}

func (c *change) expireAll() error {
	if c.Item.InTree() && c.Policy.RetentionDays > 0 {
		var b record.Blob
		if err := record.LoadBlob(c.tx, c.Item, record.BaseSlot, &b); err != nil {
			return err
		}
		_, err := c.trash(&b, record.EventDeleted)
		return err
	}
	slots, err := c.snapshots(false)
	if err != nil {
		return err
	}
	// A protected snapshot outlives its blob: an expiry that waited for it would leave a name that is neither readable nor
	// writable, and no request would reach the snapshot to end its protection.
	slots = slices.DeleteFunc(slots, func(slot record.Slot) bool {
		var b record.Blob
		return record.GetBlob(c.tx, c.Item, slot, 0, &b) == nil && b.CheckDeletable(c.now) != nil
	})
	if err := c.removeSlots(append(slots, record.BaseSlot)); err != nil {
		return err
	}
	c.discardBlocks()
	return nil
}

// expired is the maintain.ExpireFunc of a core.
func (s *core) expired(tx *store.Tx, x *maintain.Expired) (freed int64, err error) {
	w := Write{Ref: Ref{Account: x.Account, Container: x.Container, Blob: x.Blob}, Now: x.Now,
		Policy: s.policyOf(x.Account)}
	c := change{Write: &w, s: s, tx: tx, Place: tree.Place{Item: x.Item, Path: x.Blob}, now: ticks.Of(x.Now)}
	// As in update: without times of its own, a deleted file would count as deleted long ago, and be purged at once.
	c.at = s.node.Stamp(tx, s.ticks.Next(x.Now))
	c.later = s.node.Stamp(tx, s.ticks.Next(x.Now))
	err = c.expire()
	return c.freed, err
}
