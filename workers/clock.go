package workers

import (
	"time"
)

// Clock is a source of time and timers. The zero Config uses the system clock.
type Clock interface {
	Now() time.Time
	// NewTimer returns a timer that fires once, after d.
	NewTimer(d time.Duration) Timer
}

// Timer fires once on its channel, unless stopped before. (It is an alias so that a Clock is one of the packages below
// this one, too.)
type Timer = interface {
	C() <-chan time.Time
	// Stop prevents the timer from firing and releases it. It can be called several times.
	Stop()
}
