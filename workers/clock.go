package workers

import "time"

// Clock is a source of time and timers. The zero Config uses the system clock.
type Clock interface {
	Now() time.Time
	// NewTimer returns a timer that fires once, after d.
	NewTimer(d time.Duration) Timer
}

// Timer fires once on its channel, unless stopped before.
type Timer interface {
	C() <-chan time.Time
	// Stop prevents the timer from firing and releases it. It can be called several times.
	Stop()
}

type systemClock struct{}

func (systemClock) Now() time.Time                 { return time.Now() }
func (systemClock) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ t *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.t.C }
func (t systemTimer) Stop()               { t.t.Stop() }
