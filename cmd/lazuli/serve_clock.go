package main

import (
	"time"

	"github.com/lazuli-storage/lazuli/server/testclock"
)

// serverClock is the test clock of a server, which wakes the services when it is set.
type serverClock struct {
	testclock.Clock
	services *lateBackend
}

// now returns the clock's function; nil is the system's clock.
func (c *serverClock) now() func() time.Time {
	if c == nil {
		return time.Now
	}
	return c.Now
}

// Change sets the clock forward and wakes what waits.
func (c *serverClock) Change(text string) error {
	if err := c.Clock.Change(text); err != nil {
		return err
	}
	if b := c.services.get(); b != nil {
		b.ClockChanged()
	}
	return nil
}
