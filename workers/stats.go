package workers

import (
	"sync/atomic"
	"time"
)

// stats are a function's counters since the app was made.
type stats struct {
	inFlight                                                       atomic.Int64
	succeeded, failed, poisoned, snoozed, leaseRenewals, leaseLost atomic.Int64
	released                                                       atomic.Int64
	lastError                                                      atomic.Pointer[LastError]
}

// LastError is a failure and its time.
type LastError struct {
	At  time.Time
	Err error
}

// FunctionStats is a snapshot of what a function has done in this process.
type FunctionStats struct {
	Name, Trigger string
	// InFlight is how many messages are in work now.
	InFlight int64
	// Succeeded and Failed count handler calls by their outcome.
	Succeeded, Failed int64
	// Poisoned counts messages moved to the poison queue, Snoozed those put back without an attempt, Released those
	// given back because the app stopped.
	Poisoned, Snoozed, Released int64
	// LeaseRenewals and LeaseLost count renewals that succeeded and leases that were lost.
	LeaseRenewals, LeaseLost int64
	// LastError is the latest failure of a handler or of the trigger; nil if there was none.
	LastError *LastError
}

// Stats returns a snapshot for every function, in order of registration. It may be called at any time.
func (a *App) Stats() []FunctionStats {
	all := make([]FunctionStats, 0, len(a.functions))
	for _, f := range a.functions {
		s := &f.stats
		all = append(all, FunctionStats{
			Name: f.name, Trigger: f.trigger,
			InFlight: s.inFlight.Load(), Succeeded: s.succeeded.Load(), Failed: s.failed.Load(),
			Poisoned: s.poisoned.Load(), Snoozed: s.snoozed.Load(), Released: s.released.Load(),
			LeaseRenewals: s.leaseRenewals.Load(), LeaseLost: s.leaseLost.Load(),
			LastError: s.lastError.Load(),
		})
	}
	return all
}
