package calls

import (
	"time"
)

// Clock is a source of time and timers: a workers.Clock.
type Clock interface {
	Now() time.Time
	NewTimer(d time.Duration) Timer
}

// Timer fires once on its channel, unless stopped before.
type Timer = interface {
	C() <-chan time.Time
	Stop()
}

// SystemClock is the clock of this machine.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now() }

// NewTimer implements Clock.
func (SystemClock) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ t *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.t.C }

func (t systemTimer) Stop() { t.t.Stop() }
