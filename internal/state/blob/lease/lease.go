package lease

import (
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// State is the state of a lease as it is stored. Two of Azure's states come about by the passing of time alone and
// are computed by [Lease.At]: Expired out of Leased, Broken out of Breaking.
//
//	Available --Acquire--> Leased --Release--> Available
//	Leased --time--> Expired --Acquire, Renew--> Leased
//	Leased --Break--> Breaking --time--> Broken --Acquire--> Leased
//	Breaking, Broken, Expired --Release--> Available
//	Broken, Expired --a write without the lease--> Available
//
// https://learn.microsoft.com/rest/api/storageservices/lease-blob#remarks
// https://learn.microsoft.com/rest/api/storageservices/lease-container#remarks
type State byte

const (
	Available State = iota
	Leased
	Breaking
	Broken
	Expired
)

// String is the value of x-ms-lease-state.
func (s State) String() string {
	return [...]string{"available", "leased", "breaking", "broken", "expired"}[min(s, Expired)]
}

// Infinite is the duration of a lease that does not expire.
const Infinite int64 = -1

// Lease is the lease of a container or a blob. The zero value is Available. Only the transitions below set fields.
type Lease struct {
	State State
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
	case l.State == Leased && l.Duration != Infinite && now >= l.Until:
		l.State = Expired
	case l.State == Breaking && now >= l.Until:
		l.State, l.Until = Broken, 0
	}
	return l
}

// Status is the value of x-ms-lease-status.
func (l Lease) Status() string {
	if l.State == Leased || l.State == Breaking {
		return "locked"
	}
	return "unlocked"
}

// DurationKind is the value of x-ms-lease-duration, "" when it is not sent.
func (l Lease) DurationKind() string {
	switch {
	case l.State != Leased:
		return ""
	case l.Duration == Infinite:
		return "infinite"
	default:
		return "fixed"
	}
}

// breakingMost is the longest break period in seconds.
const breakingMost = 60

// capped returns the lease with the longest time that it can still last, and whether that is less than what it says:
// then a clock that was ahead by more than a minute gave it its time.
func (l Lease) capped(now ticks.Ticks) (Lease, bool) {
	most := l.Duration
	switch {
	case l.State == Breaking:
		most = breakingMost
	case l.State != Leased || l.Duration == Infinite:
		return l, false
	}
	const second = ticks.Ticks(time.Second / 100)
	if l.Until <= now+ticks.Ticks(most+60)*second {
		return l, false
	}
	l.Until = now + ticks.Ticks(most)*second
	return l, true
}

func leased(id string, seconds int64, now ticks.Ticks) Lease {
	l := Lease{State: Leased, ID: id, Duration: seconds}
	if seconds != Infinite {
		l.Until = now + ticks.Ticks(seconds*int64(time.Second/100))
	}
	return l
}

// Acquire takes the lease under id for seconds, or infinite. A caller that proposed no id draws a fresh one.
func (l Lease) Acquire(id string, seconds int64, now ticks.Ticks) (Lease, error) {
	// All transitions begin with the state at now: what is stored may have expired or been broken meanwhile. An
	// acquisition with the ID of the active lease starts its duration again.
	l = l.At(now)
	switch {
	case l.State == Leased && l.ID != id:
		return l, ErrPresent
	case l.State == Breaking && l.ID == id:
		return l, ErrBreakingAcquire
	case l.State == Breaking:
		return l, ErrPresent
	}
	return leased(id, seconds, now), nil
}

// Renew starts the lease's duration again. An expired lease can be renewed until a write without it, which
// would have made it Available.
func (l Lease) Renew(id string, now ticks.Ticks) (Lease, error) {
	l = l.At(now)
	switch {
	case l.State == Available || l.ID != id:
		return l, ErrID
	case l.State == Breaking || l.State == Broken:
		return l, ErrBroken
	}
	return leased(l.ID, l.Duration, now), nil
}

// change gives the lease a new ID. Changing to its current ID succeeds, so that the request can be repeated.
func (l Lease) change(id, proposed string, now ticks.Ticks) (Lease, error) {
	l = l.At(now)
	switch {
	case l.State == Available || l.State == Broken || l.State == Expired:
		return l, ErrNoLease
	// The client may repeat a change whose answer it has not received: the lease has the proposed ID then.
	case l.ID != id && l.ID != proposed:
		return l, ErrID
	case l.State == Breaking:
		return l, ErrBreakingChange
	}
	l.ID = proposed
	return l, nil
}

// release ends the lease at once.
func (l Lease) release(id string, now ticks.Ticks) (Lease, error) {
	l = l.At(now)
	if l.State == Available || l.ID != id {
		return l, ErrID
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
	case Available:
		return l, 0, ErrNoLease
	case Broken, Expired:
		return Lease{State: Broken, ID: l.ID}, 0, nil
	case Leased:
		// An infinite lease has no rest, so the period alone counts; the default is negative and becomes 0.
		if l.Duration == Infinite {
			left = max(0, ticks.Ticks(period))
		}
	}
	until := l.Until
	// A Breaking lease has the duration 0 and so comes to the second condition: its end moves forward only.
	if period >= 0 && (l.Duration == Infinite || ticks.Ticks(period) < left) {
		left = ticks.Ticks(period)
		until = now + left*second
	}
	if left == 0 {
		return Lease{State: Broken, ID: l.ID}, 0, nil
	}
	return Lease{State: Breaking, ID: l.ID, Until: until}, int64(left), nil
}

// CheckWrite checks whether the lease allows a write with the given lease ID, "" if the request has none.
func (l Lease) CheckWrite(id string, now ticks.Ticks, e *Errors) error {
	l = l.At(now)
	if id == "" {
		if l.State == Leased || l.State == Breaking {
			return e.Missing
		}
		return nil
	}
	return l.CheckRead(id, now, e)
}

// CheckRead checks whether the lease allows a read with the given lease ID, "" if the request has none. A read needs no
// lease ID, but one that is named must be right.
func (l Lease) CheckRead(id string, now ticks.Ticks, e *Errors) error {
	if id == "" {
		return nil
	}
	l = l.At(now)
	switch {
	case l.State == Available:
		return e.NotPresent
	case l.ID != id && (l.State == Leased || l.State == Breaking):
		return e.Mismatch
	case l.State == Broken || l.State == Expired:
		return e.Lost
	}
	return nil
}

// AfterWrite returns the lease after a permitted write, which removes a broken or expired lease.
func (l Lease) AfterWrite(now ticks.Ticks) Lease {
	l = l.At(now)
	if l.State == Broken || l.State == Expired {
		return Lease{}
	}
	return l
}
