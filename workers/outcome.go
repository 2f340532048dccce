package workers

import (
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// ErrLeaseLost is the cause of a cancelled handler context when another instance may have received the message.
var ErrLeaseLost = calls.ErrLeaseLost

// ErrStopping is the cause of a cancelled handler context when the app stops and the drain timeout has passed.
var ErrStopping = calls.ErrStopping

// ErrTimeout is the cause of a cancelled handler context when the handler exceeded WithTimeout.
var ErrTimeout = calls.ErrTimeout

// ErrStuck is the error recorded for a handler that did not return after its context was cancelled.
var ErrStuck = calls.ErrStuck

// PanicError is the error recorded for a handler that panicked.
type PanicError = status.PanicError

// Permanent marks an error that a retry cannot fix: the message is moved to the poison queue at once.
// Permanent(nil) is nil.
func Permanent(err error) error { return calls.Permanent(err) }

// IsPermanent reports whether an error, or one inside it, was marked by [Permanent].
func IsPermanent(err error) bool { return calls.IsPermanent(err) }

// RetryAfter marks an error after which the message becomes visible again after delay, instead of the delay of the
// retry policy. The attempt counts. RetryAfter(nil, d) is nil.
func RetryAfter(err error, delay time.Duration) error { return calls.RetryAfter(err, delay) }

// Logged marks an error that the handler has logged. The runtime treats it like any other error, but does not log it.
// Logged(nil) is nil.
func Logged(err error) error { return calls.Logged(err) }

// Snooze returns an error that postpones a message: it becomes visible again after delay, and the attempt does not
// count. Since a queue cannot lower a dequeue count, the runtime puts a copy with a new ID and the remaining time to
// live, and deletes the original. The count of earlier failures restarts at zero.
func Snooze(delay time.Duration) error { return calls.Snooze(delay) }
