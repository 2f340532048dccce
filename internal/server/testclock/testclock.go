// Package testclock has the clock of a server for tests: it runs at the speed of the system's clock, and can be set
// forward. Messages become visible, leases end and retention passes without waiting for it.
//
// Signatures are checked by the system's clock, since clients date their requests by theirs.
package testclock

import (
	"errors"
	"sync/atomic"
	"time"
)

// MaxOffset is the time by which the clock can be ahead of the system's clock.
const MaxOffset = 100 * 365 * 24 * time.Hour

// ErrRange means that the clock would go back, or too far forward.
var ErrRange = errors.New("the test clock can only be set forward, by at most 100 years in all")

// Clock is a clock that can be set forward. The zero value has the system's time. It is safe for concurrent use.
type Clock struct{ offset atomic.Int64 }

// Now returns the clock's time.
func (c *Clock) Now() time.Time { return time.Now().Add(c.Offset()) }

// Offset returns how far the clock is ahead of the system's clock.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Advance sets the clock forward by d. It fails with [ErrRange].
func (c *Clock) Advance(d time.Duration) error {
	if d <= 0 || d > MaxOffset {
		return ErrRange
	}
	for {
		old := c.offset.Load()
		if time.Duration(old) > MaxOffset-d {
			return ErrRange
		}
		if c.offset.CompareAndSwap(old, old+int64(d)) {
			return nil
		}
	}
}

// Set sets the clock forward to a time. It fails with [ErrRange].
func (c *Clock) Set(t time.Time) error { return c.Advance(t.Sub(c.Now())) }

// Change advances the clock by a time such as "1h30m", or sets it to one such as "2026-03-01T12:00:00Z".
func (c *Clock) Change(text string) error {
	if d, err := time.ParseDuration(text); err == nil {
		return c.Advance(d)
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return errors.New("want a duration such as 1h30m, or a time such as 2026-03-01T12:00:00Z")
	}
	return c.Set(t)
}
