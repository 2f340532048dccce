package state

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// LeaseAction is one of the operations on a lease.
type LeaseAction byte

// The operations, as the reference names them.
const (
	LeaseAcquire LeaseAction = iota + 1
	LeaseRenew
	LeaseChange
	LeaseRelease
	LeaseBreak
)

// LeaseRequest is one operation on a lease.
type LeaseRequest struct {
	Action LeaseAction
	// ID is the lease ID of the caller; Proposed is the one that an acquire or a change gives the lease.
	ID, Proposed string
	// Duration is the duration of an acquired lease in seconds, or LeaseInfinite. Period is the break period in seconds,
	// or BreakPeriodDefault.
	Duration, Period int64
}

// apply moves the machine. remaining is the time in seconds until a broken lease can be acquired.
func (q *LeaseRequest) apply(l Lease, now ticks.Ticks) (next Lease, remaining int64, err error) {
	switch q.Action {
	case LeaseAcquire:
		next, err = l.acquire(q.Proposed, q.Duration, now)
	case LeaseRenew:
		next, err = l.renew(q.ID, now)
	case LeaseChange:
		next, err = l.change(q.ID, q.Proposed, now)
	case LeaseRelease:
		next, err = l.release(q.ID, now)
	case LeaseBreak:
		next, remaining, err = l.breakIn(q.Period, now)
	}
	return next, remaining, err
}

// LeaseResult is the result of an operation on a lease.
type LeaseResult struct {
	Lease Lease
	// Remaining is the time in seconds until a broken lease can be acquired.
	Remaining int64
	// Changed is the time of the last change of the resource, which the operation leaves as it is.
	Changed ticks.Ticks
}

// neverChanged is the time of the last change of a blob that has uncommitted blocks alone: 1601, as the service answers
// it.
const neverChanged ticks.Ticks = 504_911_232_000_000_000

// pending reads what the blob has of uncommitted blocks; found is false if it has none.
func (c *change) pending() (p pendingRecord, found bool, err error) {
	v := c.tx.Get(pendingBucket, pendingKey(c.item))
	if v == nil {
		return p, false, nil
	}
	p, err = decodePending(v)
	return p, err == nil, err
}

// leaseUncommitted runs an operation on the lease of a blob that has uncommitted blocks alone, which the blob keeps
// when they are committed. It fails with [ErrBlobNotFound]. Recorded: CommitBlockListAsync_Lease of
// https://github.com/Azure/azure-sdk-for-net/tree/main/sdk/storage/Azure.Storage.Blobs/tests
func (s Blobs) leaseUncommitted(w *Write, q *LeaseRequest) (out LeaseResult, err error) {
	_, err = s.update(w, func(c *change) error {
		if err := c.enterExisting(); err != nil {
			return err
		}
		p, found, err := c.pending()
		if err != nil {
			return err
		}
		if !found {
			return ErrBlobNotFound
		}
		if c.base(new(Blob)) == nil { // committed meanwhile
			return ErrBlobNotFound
		}
		if err := c.If.Conditions.checkCreate(); err != nil {
			return err
		}
		if p.lease, out.Remaining, err = q.apply(p.lease, c.now); err != nil {
			return err
		}
		out.Lease, out.Changed = p.lease, neverChanged
		c.tx.Put(pendingBucket, pendingKey(c.item), p.encode())
		return nil
	})
	return out, err
}

// Lease runs an operation on the lease of a blob.
func (s Blobs) Lease(w *Write, q *LeaseRequest) (out LeaseResult, err error) {
	out, err = s.leaseCommitted(w, q)
	if errors.Is(err, ErrBlobNotFound) && w.At.IsBase() {
		return s.leaseUncommitted(w, q)
	}
	return out, err
}

func (s Blobs) leaseCommitted(w *Write, q *LeaseRequest) (out LeaseResult, err error) {
	_, err = s.updateBlob(w, (*Preconditions).checkLeasing, func(c *change, b *Blob) (err error) {
		if b.Lease, out.Remaining, err = q.apply(b.Lease, c.now); err != nil {
			return err
		}
		out.Lease, out.Changed = b.Lease, b.Changed
		c.put(b)
		return nil
	})
	return out, err
}

// Lease runs an operation on the lease of a container. Of the preconditions, the conditional headers alone
// count.
func (s Containers) Lease(w *ContainerWrite, q *LeaseRequest) (out LeaseResult, err error) {
	err = s.db.Update(func(tx *store.Tx) error {
		rec, err := getContainer(tx, w.Account, w.Container)
		if err != nil {
			return err
		}
		if err := w.If.Conditions.checkWrite(rec.Changed); err != nil {
			return err
		}
		if rec.Lease, out.Remaining, err = q.apply(rec.Lease, s.now(tx, w.Now)); err != nil {
			return err
		}
		out.Lease, out.Changed = rec.Lease, rec.Changed
		putContainer(tx, w.Account, w.Container, &rec)
		return nil
	})
	return out, err
}
