// Package clock provides a clock that tests control.
package clock

import (
	"sync"
	"time"
)

// Clock is a clock that stands still until the test moves it, so that nothing expires on a slow machine. It is safe for
// concurrent use.
type Clock struct {
	mu   sync.Mutex
	now  time.Time
	step time.Duration
}

// New returns a clock that starts at the machine's time, which the SDKs use for signatures, and advances by step each
// time it is read. With a step, every event has a unique time.
func New(step time.Duration) *Clock { return &Clock{now: time.Now().Truncate(time.Second), step: step} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(c.step)
	return c.now
}

// Advance moves the clock by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
