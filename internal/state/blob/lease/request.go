package lease

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Action is one of the operations on a lease.
type Action byte

// The operations, as the reference names them.
const (
	Acquire Action = iota + 1
	Renew
	Change
	Release
	Break
)

// Request is one operation on a lease.
type Request struct {
	Action Action
	// ID is the lease ID of the caller; Proposed is the one that an acquire or a change gives the lease.
	ID, Proposed string
	// Duration is the duration of an acquired lease in seconds, or [Infinite]. Period is the break period in seconds,
	// or [BreakPeriodDefault].
	Duration, Period int64
}

// Apply moves the machine. remaining is the time in seconds until a broken lease can be acquired.
func (q *Request) Apply(l Lease, now ticks.Ticks) (next Lease, remaining int64, err error) {
	switch q.Action {
	case Acquire:
		next, err = l.Acquire(q.Proposed, q.Duration, now)
	case Renew:
		next, err = l.Renew(q.ID, now)
	case Change:
		next, err = l.change(q.ID, q.Proposed, now)
	case Release:
		next, err = l.release(q.ID, now)
	case Break:
		next, remaining, err = l.breakIn(q.Period, now)
	}
	return next, remaining, err
}

// ApplyCapped is Apply for a transaction that commits also when it refuses an acquisition: a lease of a clock that was
// ahead would otherwise keep all others out until the clock has caught up. refused is the error of the request then.
func (q *Request) ApplyCapped(l Lease, now ticks.Ticks) (next Lease, remaining int64, refused, err error) {
	next, remaining, err = q.Apply(l, now)
	if q.Action == Acquire && (errors.Is(err, ErrPresent) || errors.Is(err, ErrBreakingAcquire)) {
		if capped, late := l.capped(now); late {
			return capped, 0, err, nil
		}
	}
	return next, remaining, nil, err
}
