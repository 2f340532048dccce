package workers

import "time"

// Clock tells the time and wakes at a time. The zero Config uses the system's.
type Clock interface {
	Now() time.Time
	// NewTimer returns a timer that fires once, after d.
	NewTimer(d time.Duration) Timer
}

// Timer fires once on its channel, unless stopped before.
type Timer interface {
	C() <-chan time.Time
	// Stop prevents the timer from firing, and frees it. Stopping twice is harmless.
	Stop()
}

type systemClock struct{}

func (systemClock) Now() time.Time                 { return time.Now() }
func (systemClock) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ t *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.t.C }
func (t systemTimer) Stop()               { t.t.Stop() }
