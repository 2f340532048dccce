package httpserver

import (
	"errors"
	"os"
	"sync"
	"time"
)

// deadline is the deadline of one direction of a connection. It sets the system's deadline as rarely as possible: every
// request moves deadlines some six times, nearly always to a later time or away, and each time would cost work in the
// runtime's timers. So the system's deadline may fire too early; the failed call then learns from firedEarly that it can
// go on.
type deadline struct {
	arm func(time.Time) error // sets the system's deadline

	mu     sync.Mutex
	wanted time.Time // zero: no deadline
	armed  time.Time // the system's: at or before wanted, or zero for none
}

// set moves the deadline. As with a connection's own, a blocked call is interrupted when the deadline moves nearer.
func (d *deadline) set(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if t.IsZero() || !d.armed.IsZero() && !t.Before(d.armed) {
		return nil
	}
	return d.armLocked(t)
}

// armedAhead bounds how far ahead firedEarly arms: less than the time for a request's head, which is the next deadline to be
// set on an idle connection and so is armed already.
const armedAhead = headerTimeout / 2

// firedEarly reports whether err says that the system's deadline fired before the wanted one. It then arms the next one, and
// the failed call can go on.
func (d *deadline) firedEarly(err error) bool {
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
	return d.armLocked(next) == nil
}

// armExactly sets the system's deadline to the wanted one, for a call that cannot go on after a failure.
func (d *deadline) armExactly() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed.Equal(d.wanted) {
		return nil
	}
	return d.armLocked(d.wanted)
}

// armLocked sets the system's deadline. The caller holds the lock.
func (d *deadline) armLocked(t time.Time) error {
	d.armed = t
	return d.arm(t)
}
