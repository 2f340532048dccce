package blob

import (
	"cmp"
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// LeaseResult is the result of an operation on a lease.
type LeaseResult struct {
	Lease lease.Lease
	// Remaining is the time in seconds until a broken lease can be acquired.
	Remaining int64
	// Changed is the time of the last change of the resource, which the operation leaves as it is.
	Changed ticks.Ticks
}

// neverChanged is the time of the last change of a blob that has uncommitted blocks alone: 1601, as the service answers
// it.
const neverChanged ticks.Ticks = 504_911_232_000_000_000

// pending reads what the blob has of uncommitted blocks; found is false if it has none.
func (c *change) pending() (p record.Pending, found bool, err error) {
	v := c.tx.Get(record.PendingBucket, record.PendingKey(c.Item))
	if v == nil {
		return p, false, nil
	}
	p, err = record.DecodePending(v)
	return p, err == nil, err
}

// leaseUncommitted runs an operation on the lease of a blob that has uncommitted blocks alone, which the blob keeps
// when they are committed. It fails with [record.ErrBlobNotFound]. Recorded: CommitBlockListAsync_Lease of
// https://github.com/Azure/azure-sdk-for-net/tree/main/sdk/storage/Azure.Storage.Blobs/tests
func (s Blobs) leaseUncommitted(w *Write, q *lease.Request) (out LeaseResult, err error) {
	_, err = s.update(w, func(c *change) error {
		if err := c.enterExisting(); err != nil {
			return err
		}
		p, found, err := c.pending()
		if err != nil {
			return err
		}
		if !found {
			return record.ErrBlobNotFound
		}
		if c.base(new(record.Blob)) == nil { // committed meanwhile
			return record.ErrBlobNotFound
		}
		if err := c.If.Conditions.checkCreate(); err != nil {
			return err
		}
		if p.Lease, out.Remaining, err = q.Apply(p.Lease, c.now); err != nil {
			return err
		}
		out.Lease = p.Lease
		out.Changed = neverChanged
		c.tx.Put(record.PendingBucket, record.PendingKey(c.Item), p.Encode())
		return nil
	})
	return out, err
}

// Lease runs an operation on the lease of a blob.
func (s Blobs) Lease(w *Write, q *lease.Request) (out LeaseResult, err error) {
	out, err = s.leaseCommitted(w, q)
	if errors.Is(err, record.ErrBlobNotFound) && w.At.IsBase() {
		return s.leaseUncommitted(w, q)
	}
	return out, err
}

func (s Blobs) leaseCommitted(w *Write, q *lease.Request) (out LeaseResult, err error) {
	var refused error
	_, err = s.updateBlob(w, (*Preconditions).checkLeasing, func(c *change, b *record.Blob) (err error) {
		if b.Lease, out.Remaining, refused, err = q.ApplyCapped(b.Lease, c.now); err != nil {
			return err
		}
		out.Lease = b.Lease
		out.Changed = b.Changed
		c.put(b)
		return nil
	})
	return out, cmp.Or(err, refused)
}

// Lease runs an operation on the lease of a container. Of the preconditions, the conditional headers alone
// count.
func (s Containers) Lease(w *ContainerWrite, q *lease.Request) (out LeaseResult, err error) {
	var refused error
	err = s.db.Update(func(tx *store.Tx) error {
		rec, err := record.GetContainer(tx, w.Account, w.Container)
		if err != nil {
			return err
		}
		if err := w.If.Conditions.checkWrite(rec.Changed); err != nil {
			return err
		}
		if rec.Lease, out.Remaining, refused, err = q.ApplyCapped(rec.Lease, s.node.Now(tx, w.Now)); err != nil {
			return err
		}
		out.Lease = rec.Lease
		out.Changed = rec.Changed
		record.PutContainer(tx, w.Account, w.Container, &rec)
		return nil
	})
	return out, cmp.Or(err, refused)
}
