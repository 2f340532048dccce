package lazulitest

import (
	"slices"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
)

// Clock is a clock that only the test moves. It serves the services ([WithFakeClock]) and an app (workers.Config.Clock)
// alike: message visibility, leases, retries, timers and expiry all follow it.
type Clock struct {
	mu      sync.Mutex
	now     time.Time
	timers  []*fakeTimer
	changed []func() // called after each Advance
}

var _ workers.Clock = (*Clock)(nil)

// NewClock returns a clock that stands at the time of the call, in whole seconds.
func NewClock() *Clock { return &Clock{now: time.Now().UTC().Truncate(time.Second)} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// NewTimer implements workers.Clock.
func (c *Clock) NewTimer(d time.Duration) workers.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{clock: c, at: c.now.Add(d), c: make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- c.now
		return t
	}
	c.timers = append(c.timers, t)
	return t
}

// Advance sets the clock forward by d, and fires every timer that is due by then, the earliest first. What is to follow
// happens after it has returned, in other goroutines: wait for it with [Account.Drain] or by its outcome.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	slices.SortStableFunc(c.timers, func(a, b *fakeTimer) int { return a.at.Compare(b.at) })
	due := 0
	for due < len(c.timers) && !c.timers[due].at.After(c.now) {
		c.timers[due].c <- c.now
		due++
	}
	c.timers = slices.Clone(c.timers[due:])
	changed := slices.Clone(c.changed)
	c.mu.Unlock()
	for _, fn := range changed {
		fn()
	}
}

func (c *Clock) onChange(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = append(c.changed, fn)
}

type fakeTimer struct {
	clock *Clock
	at    time.Time
	c     chan time.Time
}

// C implements workers.Timer.
func (t *fakeTimer) C() <-chan time.Time { return t.c }

// Stop implements workers.Timer.
func (t *fakeTimer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.clock.timers = slices.DeleteFunc(t.clock.timers, func(other *fakeTimer) bool { return other == t })
}
