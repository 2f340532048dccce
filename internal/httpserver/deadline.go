package httpserver

import (
	"errors"
	"os"
	"sync"
	"time"
)

// deadline is the deadline of one direction of a connection. It sets the system's deadline as rarely as possible: every
// request moves deadlines some six times, nearly always to a later time or away, and each time would cost work in the
// runtime's timers. So the system's deadline may fire too early; the failed call then learns from firedEarly that it
// can go on. And it is not set while no call could be interrupted by it: the next call learns from begin that its
// deadline has passed.
type deadline struct {
	arm func(time.Time) error // sets the system's deadline

	mu     sync.Mutex
	wanted time.Time // zero: no deadline
	armed  time.Time // the system's: at or before wanted, or zero for none; it may be later while calls is 0
	calls  int       // reads or writes under way
}

// interrupted is a deadline that makes calls fail at once: the one that net/http sets to interrupt a read. It is before
// any other deadline, also on a machine whose clock was never set and begins in 1970.
var interrupted = time.Unix(1, 0)

// interrupts reports whether t is [interrupted], and not a deadline that a call may wait for.
func interrupts(t time.Time) bool { return !t.IsZero() && !t.After(interrupted) }

// set moves the deadline. As with a connection's own, a blocked call is interrupted when the deadline moves nearer.
func (d *deadline) set(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if d.calls == 0 {
		return nil
	}
	return d.armNearer()
}

// begin is called before a read or write, and end after it. It fails with [os.ErrDeadlineExceeded] if net/http has
// interrupted the direction.
func (d *deadline) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if interrupts(d.wanted) {
		return os.ErrDeadlineExceeded
	}
	var err error
	if interrupts(d.armed) { // the call before was interrupted
		err = d.armNext(time.Now())
	} else {
		err = d.armNearer()
	}
	if err == nil {
		d.calls++
	}
	return err
}

func (d *deadline) end() {
	d.mu.Lock()
	d.calls--
	d.mu.Unlock()
}

// armNearer sets the system's deadline if it would fire later than the wanted one. The caller holds the lock.
func (d *deadline) armNearer() error {
	if d.wanted.IsZero() || !d.armed.IsZero() && !d.wanted.Before(d.armed) {
		return nil
	}
	return d.armLocked(d.wanted)
}

// armedAhead bounds how far ahead armNext arms: less than the time for a request's head, which is the next deadline to
// be set on an idle connection and so is armed already.
const armedAhead = headerTimeout / 2

// firedEarly reports whether err says that the system's deadline fired before the wanted one. It then arms the next
// one, and the failed call can go on.
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
	return d.armNext(now) == nil
}

// armNext sets the system's deadline after it has fired. The caller holds the lock.
func (d *deadline) armNext(now time.Time) error {
	next := now.Add(armedAhead)
	if !d.wanted.IsZero() && d.wanted.Before(next) {
		next = d.wanted
	}
	return d.armLocked(next)
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
