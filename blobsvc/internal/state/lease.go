package state

import (
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// LeaseState is the state of a lease as it is stored. Two of Azure's states come about by the passing of time alone and
// are computed by [lease.at]: Expired out of Leased, Broken out of Breaking.
//
//	Available --Acquire--> Leased --Release--> Available
//	Leased --time--> Expired --Acquire, Renew--> Leased
//	Leased --Break--> Breaking --time--> Broken --Acquire--> Leased
//	Breaking, Broken, Expired --Release--> Available
//	Broken, Expired --a write without the lease--> Available
//
// https://learn.microsoft.com/rest/api/storageservices/lease-blob#remarks
// https://learn.microsoft.com/rest/api/storageservices/lease-container#remarks
type LeaseState byte

const (
	LeaseAvailable LeaseState = iota
	LeaseLeased
	LeaseBreaking
	LeaseBroken
	LeaseExpired
)

// String is the value of x-ms-lease-state.
func (s LeaseState) String() string {
	return [...]string{"available", "leased", "breaking", "broken", "expired"}[min(s, LeaseExpired)]
}

// LeaseInfinite is the duration of a lease that does not expire.
const LeaseInfinite int64 = -1

// Lease is the lease of a container or a blob. The zero value is Available. Only the transitions below set fields.
type Lease struct {
	State LeaseState
	// ID is the active lease id, empty when Available.
	ID string
	// Duration is in seconds, or infinite; it is 0 unless Leased or Expired.
	Duration int64
	// Until is the time at which a Leased lease expires, 0 for an infinite one; or when a Breaking lease is broken.
	Until ticks.Ticks
}

// At returns the lease as it is at now: after its time a lease is Expired or Broken.
func (l Lease) At(now ticks.Ticks) Lease {
	switch {
	case l.State == LeaseLeased && l.Duration != LeaseInfinite && now >= l.Until:
		l.State = LeaseExpired
	case l.State == LeaseBreaking && now >= l.Until:
		l.State, l.Until = LeaseBroken, 0
	}
	return l
}

// Status is the value of x-ms-lease-status.
func (l Lease) Status() string {
	if l.State == LeaseLeased || l.State == LeaseBreaking {
		return "locked"
	}
	return "unlocked"
}

// DurationKind is the value of x-ms-lease-duration, "" when it is not sent.
func (l Lease) DurationKind() string {
	switch {
	case l.State != LeaseLeased:
		return ""
	case l.Duration == LeaseInfinite:
		return "infinite"
	default:
		return "fixed"
	}
}

func leased(id string, seconds int64, now ticks.Ticks) Lease {
	l := Lease{State: LeaseLeased, ID: id, Duration: seconds}
	if seconds != LeaseInfinite {
		l.Until = now + ticks.Ticks(seconds*int64(time.Second/100))
	}
	return l
}

// acquire takes the lease under id for seconds, or infinite. A caller that proposed no id draws a fresh one.
func (l Lease) acquire(id string, seconds int64, now ticks.Ticks) (Lease, error) {
	// All transitions begin with the state at now: what is stored may have expired or been broken meanwhile. An
	// acquisition with the ID of the active lease starts its duration again.
	l = l.At(now)
	switch {
	case l.State == LeaseLeased && l.ID != id:
		return l, ErrLeasePresent
	case l.State == LeaseBreaking && l.ID == id:
		return l, ErrLeaseBreakingAcquire
	case l.State == LeaseBreaking:
		return l, ErrLeasePresent
	}
	return leased(id, seconds, now), nil
}

// renew starts the lease's duration again. An expired lease can be renewed until a write without it, which
// would have made it Available.
func (l Lease) renew(id string, now ticks.Ticks) (Lease, error) {
	l = l.At(now)
	switch {
	case l.State == LeaseAvailable || l.ID != id:
		return l, ErrLeaseID
	case l.State == LeaseBreaking || l.State == LeaseBroken:
		return l, ErrLeaseBroken
	}
	return leased(l.ID, l.Duration, now), nil
}

// change gives the lease a new ID. Changing to its current ID succeeds, so that the request can be repeated.
func (l Lease) change(id, proposed string, now ticks.Ticks) (Lease, error) {
	l = l.At(now)
	switch {
	case l.State == LeaseAvailable || l.State == LeaseBroken || l.State == LeaseExpired:
		return l, ErrNoLease
	// The client may repeat a change whose answer it has not received: the lease has the proposed ID then.
	case l.ID != id && l.ID != proposed:
		return l, ErrLeaseID
	case l.State == LeaseBreaking:
		return l, ErrLeaseBreakingChange
	}
	l.ID = proposed
	return l, nil
}

// release ends the lease at once.
func (l Lease) release(id string, now ticks.Ticks) (Lease, error) {
	l = l.At(now)
	if l.State == LeaseAvailable || l.ID != id {
		return l, ErrLeaseID
	}
	return Lease{}, nil
}

// BreakPeriodDefault asks for the period that Azure chooses: what remains of a fixed lease, nothing of an infinite one.
const BreakPeriodDefault int64 = -1

// breakIn ends the lease after a period in seconds (0 to 60, or [BreakPeriodDefault]). remaining is the number of
// seconds until another lease can be acquired, rounded up so that a client that waits for so long can acquire it, which
// the answer carries. A second break can shorten the period, never lengthen it.
func (l Lease) breakIn(period int64, now ticks.Ticks) (next Lease, remaining int64, err error) {
	l = l.At(now)
	second := ticks.Ticks(time.Second / 100)
	// left is the time in seconds after which the lease would end without this request: the rest of a fixed lease, or
	// of a break that is under way.
	left := max(0, (l.Until-now+second-1)/second)
	switch l.State {
	case LeaseAvailable:
		return l, 0, ErrNoLease
	case LeaseBroken, LeaseExpired:
		return Lease{State: LeaseBroken, ID: l.ID}, 0, nil
	case LeaseLeased:
		// An infinite lease has no rest, so the period alone counts; the default is negative and becomes 0.
		if l.Duration == LeaseInfinite {
			left = max(0, ticks.Ticks(period))
		}
	}
	until := l.Until
	// A Breaking lease has the duration 0 and so comes to the second condition: its end moves forward only.
	if period >= 0 && (l.Duration == LeaseInfinite || ticks.Ticks(period) < left) {
		left = ticks.Ticks(period)
		until = now + left*second
	}
	if left == 0 {
		return Lease{State: LeaseBroken, ID: l.ID}, 0, nil
	}
	return Lease{State: LeaseBreaking, ID: l.ID, Until: until}, int64(left), nil
}

// checkWrite checks whether the lease allows a write with the given lease ID, "" if the request has none.
func (l Lease) checkWrite(id string, now ticks.Ticks, e *leaseErrors) error {
	l = l.At(now)
	if id == "" {
		if l.State == LeaseLeased || l.State == LeaseBreaking {
			return e.missing
		}
		return nil
	}
	return l.checkRead(id, now, e)
}

// checkRead checks whether the lease allows a read with the given lease ID, "" if the request has none. A read needs no
// lease ID, but one that is named must be right.
func (l Lease) checkRead(id string, now ticks.Ticks, e *leaseErrors) error {
	if id == "" {
		return nil
	}
	l = l.At(now)
	switch {
	case l.State == LeaseAvailable:
		return e.notPresent
	case l.ID != id && (l.State == LeaseLeased || l.State == LeaseBreaking):
		return e.mismatch
	case l.State == LeaseBroken || l.State == LeaseExpired:
		return e.lost
	}
	return nil
}

// afterWrite returns the lease after a permitted write, which removes a broken or expired lease.
func (l Lease) afterWrite(now ticks.Ticks) Lease {
	l = l.At(now)
	if l.State == LeaseBroken || l.State == LeaseExpired {
		return Lease{}
	}
	return l
}
