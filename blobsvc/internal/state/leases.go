package state

import (
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

// Lease runs an operation on the lease of a blob.
func (s Blobs) Lease(w *Write, q *LeaseRequest) (out LeaseResult, err error) {
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
