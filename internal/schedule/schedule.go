// Package schedule is the seam at which a simulation takes over from the runtime: the time, random numbers, waits and
// goroutines of the code that replicates (replog, mirror). That code gets them only from the functions of this package,
// so that the simulation decides what happens next, and the same seed gives the same run. internal/test/simulate
// implements [Schedule].
package schedule

import (
	"context"
	"math/rand/v2"
	"time"
)

// Schedule decides what happens next. Nil, outside of tests, leaves that to the runtime.
type Schedule interface {
	Now() time.Time
	// Random returns the next number of the seed.
	Random() uint64
	// Go begins a task, of which one runs at a time.
	Go(task func())
	// Park ends the turn of the task that calls. It returns once ready has returned true, or d is over.
	Park(d time.Duration, ready func() bool)
}

// Now returns the time.
func Now(s Schedule) time.Time {
	if s != nil {
		return s.Now()
	}
	return time.Now()
}

// begun is the origin of the beats of [NextBeat]. It has a monotonic clock, so setting the wall clock moves no beat.
var begun = time.Now()

// NextBeat returns the next of the times, an interval apart, at which everything in the process that has this interval
// wakes up. A node has hundreds of logs that look for work twice a second. If each did so at a time of its own, the
// process would be woken as often, and a wake-up costs more than the look.
func NextBeat(s Schedule, now time.Time, every time.Duration) time.Time {
	if s != nil {
		return now.Add(every)
	}
	past := now.Sub(begun) % every
	if past < 0 {
		past += every
	}
	return now.Add(every - past)
}

// Random returns a random number.
func Random(s Schedule) uint64 {
	if s != nil {
		return s.Random()
	}
	return rand.Uint64()
}

// Go starts a goroutine.
func Go(s Schedule, task func()) {
	if s != nil {
		s.Go(task)
		return
	}
	go task()
}

// Sleep waits. It returns false if ctx ends before.
func Sleep(ctx context.Context, s Schedule, d time.Duration) bool {
	if s != nil {
		s.Park(d, func() bool { return ctx.Err() != nil })
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
