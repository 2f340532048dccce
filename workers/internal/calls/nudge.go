package calls

import (
	"context"
	"time"
)

// Nudge interrupts a pause. A nudge without a pause is kept for the next one.
type Nudge chan struct{}

// NewNudge returns a nudge that was not given yet.
func NewNudge() Nudge { return make(Nudge, 1) }

// Give ends the pause under way, or the next one.
func (n Nudge) Give() {
	select {
	case n <- struct{}{}:
	default:
	}
}

// Pause waits for d, for a nudge, or until ctx is done.
func (n Nudge) Pause(ctx context.Context, clock Clock, d time.Duration) {
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-n:
	case <-ctx.Done():
	}
}
