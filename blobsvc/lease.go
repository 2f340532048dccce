package blobsvc

import (
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// leaseState is the state of a lease as it is stored. Two of Azure's states come about by the passing of time alone and
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
type leaseState byte

const (
	leaseAvailable leaseState = iota
	leaseLeased
	leaseBreaking
	leaseBroken
	leaseExpired
)

// String is the value of x-ms-lease-state.
func (s leaseState) String() string {
	return [...]string{"available", "leased", "breaking", "broken", "expired"}[min(s, leaseExpired)]
}

// infinite is the duration of a lease that does not expire.
const infinite int64 = -1

// lease is the lease of a container or a blob. The zero value is Available. Only the transitions below set fields.
type lease struct {
	state leaseState
	// id is the active lease id, empty when Available.
	id string
	// duration is in seconds, or infinite; it is 0 unless Leased or Expired.
	duration int64
	// until is when a Leased lease expires, 0 for an infinite one; or when a Breaking lease is broken.
	until ticks.Ticks
}

// at returns the lease as it is at now: a lease whose time has run out is Expired or Broken.
func (l lease) at(now ticks.Ticks) lease {
	switch {
	case l.state == leaseLeased && l.duration != infinite && now >= l.until:
		l.state = leaseExpired
	case l.state == leaseBreaking && now >= l.until:
		l.state, l.until = leaseBroken, 0
	}
	return l
}

// status is the value of x-ms-lease-status.
func (l lease) status() string {
	if l.state == leaseLeased || l.state == leaseBreaking {
		return "locked"
	}
	return "unlocked"
}

// durationKind is the value of x-ms-lease-duration, "" when it is not sent.
func (l lease) durationKind() string {
	switch {
	case l.state != leaseLeased:
		return ""
	case l.duration == infinite:
		return "infinite"
	default:
		return "fixed"
	}
}

func leased(id string, seconds int64, now ticks.Ticks) lease {
	l := lease{state: leaseLeased, id: id, duration: seconds}
	if seconds != infinite {
		l.until = now + ticks.Ticks(seconds*int64(time.Second/100))
	}
	return l
}

// acquire takes the lease under id for seconds, or infinite. A caller that proposed no id draws a fresh one.
func (l lease) acquire(id string, seconds int64, now ticks.Ticks) (lease, error) {
	l = l.at(now)
	switch {
	case l.state == leaseLeased && l.id != id:
		return l, errLeaseAlreadyPresent
	case l.state == leaseBreaking && l.id == id:
		return l, errLeaseIsBreakingAndCannotBeAcquired
	case l.state == leaseBreaking:
		return l, errLeaseAlreadyPresent
	}
	return leased(id, seconds, now), nil
}

// renew starts the lease's duration again. An expired lease can be renewed as long as nobody wrote without it, which
// would have made it Available.
func (l lease) renew(id string, now ticks.Ticks) (lease, error) {
	l = l.at(now)
	switch {
	case l.state == leaseAvailable || l.id != id:
		return l, errLeaseIDMismatchWithLeaseOperation
	case l.state == leaseBreaking || l.state == leaseBroken:
		return l, errLeaseIsBrokenAndCannotBeRenewed
	}
	return leased(l.id, l.duration, now), nil
}

// change gives the lease a new id. Changing to the id that it has is no error, so that the request can be repeated.
func (l lease) change(id, proposed string, now ticks.Ticks) (lease, error) {
	l = l.at(now)
	switch {
	case l.state == leaseAvailable || l.state == leaseBroken || l.state == leaseExpired:
		return l, errLeaseNotPresentWithLeaseOperation
	case l.id != id && l.id != proposed:
		return l, errLeaseIDMismatchWithLeaseOperation
	case l.state == leaseBreaking:
		return l, errLeaseIsBreakingAndCannotBeChanged
	}
	l.id = proposed
	return l, nil
}

// release ends the lease at once.
func (l lease) release(id string, now ticks.Ticks) (lease, error) {
	l = l.at(now)
	if l.state == leaseAvailable || l.id != id {
		return l, errLeaseIDMismatchWithLeaseOperation
	}
	return lease{}, nil
}

// breakPeriodDefault asks for the period that Azure chooses: what remains of a fixed lease, nothing of an infinite one.
const breakPeriodDefault int64 = -1

// breakIn ends the lease after a period in seconds (0 to 60, or breakPeriodDefault). remaining is the number of seconds
// until another lease can be acquired, which the answer carries. A second break can shorten the period, never lengthen it.
func (l lease) breakIn(period int64, now ticks.Ticks) (next lease, remaining int64, err error) {
	l = l.at(now)
	second := ticks.Ticks(time.Second / 100)
	left := max(0, (l.until-now+second-1)/second)
	switch l.state {
	case leaseAvailable:
		return l, 0, errLeaseNotPresentWithLeaseOperation
	case leaseBroken, leaseExpired:
		return lease{state: leaseBroken, id: l.id}, 0, nil
	case leaseLeased:
		if l.duration == infinite {
			left = max(0, ticks.Ticks(period))
		}
	}
	until := l.until
	if period >= 0 && (l.duration == infinite || ticks.Ticks(period) < left) {
		left = ticks.Ticks(period)
		until = now + left*second
	}
	if left == 0 {
		return lease{state: leaseBroken, id: l.id}, 0, nil
	}
	return lease{state: leaseBreaking, id: l.id, until: until}, int64(left), nil
}

// leaseErrors are the errors of using a resource, which differ by its kind.
type leaseErrors struct{ missing, mismatch, lost, notPresent error }

// checkWrite says whether a write with the given lease id, "" for none, may go on.
func (l lease) checkWrite(id string, now ticks.Ticks, e *leaseErrors) error {
	l = l.at(now)
	if id == "" {
		if l.state == leaseLeased || l.state == leaseBreaking {
			return e.missing
		}
		return nil
	}
	return l.checkRead(id, now, e)
}

// checkRead says whether a read with the given lease id, "" for none, may go on. A read needs no lease, but one that
// is named must be right.
func (l lease) checkRead(id string, now ticks.Ticks, e *leaseErrors) error {
	if id == "" {
		return nil
	}
	l = l.at(now)
	switch {
	case l.state == leaseAvailable:
		return e.notPresent
	case l.id != id && (l.state == leaseLeased || l.state == leaseBreaking):
		return e.mismatch
	case l.state == leaseBroken || l.state == leaseExpired:
		return e.lost
	}
	return nil
}

// afterWrite is the lease once a write was let through: a broken or expired one is gone.
func (l lease) afterWrite(now ticks.Ticks) lease {
	l = l.at(now)
	if l.state == leaseBroken || l.state == leaseExpired {
		return lease{}
	}
	return l
}
