// Package clock is a clock that tests move.
package clock

import (
	"sync"
	"time"
)

// Clock is a clock that stands still until the test moves it, so that nothing expires because the machine is slow. It is
// safe for concurrent use.
type Clock struct {
	mu   sync.Mutex
	now  time.Time
	step time.Duration
}

// New returns a clock at the machine's time, with which the SDKs sign requests, that moves by step each time it is read. A
// step gives every event a time of its own.
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
