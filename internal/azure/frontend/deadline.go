package frontend

import (
	"errors"
	"os"
	"sync"
	"time"
)

// deadline is one direction's deadline of a connection, of which the operating system's part is moved as rarely as can be.
// Every request moves deadlines some six times, nearly always to a later time or away; each time would cost the runtime's timers.
// So one that is armed is left to fire too early, and whoever meets it looks here at what is wanted by then.
type deadline struct {
	arm func(time.Time) error // sets the connection's

	mu     sync.Mutex
	wanted time.Time // zero: none
	armed  time.Time // at or before wanted, or zero: none
}

// want sets the deadline. As with a connection's own, what is blocked is interrupted when it is moved nearer.
func (d *deadline) want(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if t.IsZero() || !d.armed.IsZero() && !t.Before(d.armed) {
		return nil
	}
	return d.move(t)
}

// armedAhead is how far ahead early arms at most: below the time for a request's head, so that this one, which is the next to be
// wanted on an idle connection, is armed already.
const armedAhead = headerTimeout / 2

// early reports whether err says that a deadline fired before the one that is wanted. If so, that one is armed, and what failed can go on.
func (d *deadline) early(err error) bool {
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wanted.IsZero() && !d.wanted.After(now) {
		return false
	}
	next := d.wanted
	if near := now.Add(armedAhead); near.Before(next) {
		next = near
	}
	return d.move(next) == nil
}

// exact arms what is wanted, for what cannot go on after it failed.
func (d *deadline) exact() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed.Equal(d.wanted) {
		return nil
	}
	return d.move(d.wanted)
}

// move arms t. The lock is held.
func (d *deadline) move(t time.Time) error {
	d.armed = t
	return d.arm(t)
}
