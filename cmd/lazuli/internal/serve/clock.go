package serve

import (
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/testclock"
	"github.com/lazuli-storage/lazuli/workers"
)

// serverClock is the test clock of a server, which wakes the services, and fires the timers of roles and workflows,
// when it is set.
type serverClock struct {
	testclock.Clock
	services *lateBackend

	mu     sync.Mutex
	timers map[*clockTimer]struct{}
}

var _ workers.Clock = (*serverClock)(nil)

// now returns the clock's function; nil is the system's clock.
func (c *serverClock) now() func() time.Time {
	if c == nil {
		return time.Now
	}
	return c.Now
}

// ofWorkers returns the clock for roles and workflows; nil is the system's clock.
func (c *serverClock) ofWorkers() workers.Clock {
	if c == nil {
		return nil
	}
	return c
}

// Change sets the clock forward, and wakes what waits.
func (c *serverClock) Change(text string) error {
	if err := c.Clock.Change(text); err != nil {
		return err
	}
	c.mu.Lock()
	for t := range c.timers {
		t.t.Reset(t.at.Sub(c.Now()))
	}
	c.mu.Unlock()
	if b := c.services.get(); b != nil {
		b.ClockChanged()
	}
	return nil
}

// NewTimer implements workers.Clock.
func (c *serverClock) NewTimer(d time.Duration) workers.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &clockTimer{clock: c, at: c.Now().Add(d), t: time.NewTimer(d)}
	if c.timers == nil {
		c.timers = map[*clockTimer]struct{}{}
	}
	c.timers[t] = struct{}{}
	return t
}

// clockTimer fires at a time of the clock.
type clockTimer struct {
	clock *serverClock
	at    time.Time
	t     *time.Timer
}

// C implements workers.Timer.
func (t *clockTimer) C() <-chan time.Time { return t.t.C }

// Stop implements workers.Timer.
func (t *clockTimer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
	t.t.Stop()
}
