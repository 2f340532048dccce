package replog

import "errors"

// Errors of Append and Barrier.
var (
	// ErrConflict means that another record became valid first. The payload was not and will not be applied. This node has
	// applied the other record.
	ErrConflict = errors.New("replog: another record was appended first")

	// ErrUnavailable means that no majority of the log's servers answered in time. Nothing was appended.
	ErrUnavailable = errors.New("replog: the log has no majority of its servers or cannot be reached")

	// ErrDisk means that this node cannot write to its disk, or has no room on it: an error that is one of these is an
	// ErrUnavailable as well. Nothing was appended; other nodes may serve.
	ErrDisk = errors.New("replog: the disk of this node is full or refuses writes")

	// ErrLater is what apply returns for a record that it cannot take now, for lack of room on the disk, see [Log.Follow].
	ErrLater = errors.New("replog: a record cannot be applied now")

	// ErrUnknown means that no majority of the log's servers answered in time, and that the record may become valid later
	// or may already be.
	ErrUnknown = errors.New("replog: the outcome of an append is unknown: the log has no majority of its servers or " +
		"cannot be reached")

	// ErrClosed means that Close was called before the record was appended, or while its outcome was not known.
	ErrClosed = errors.New("replog: closed")
)

// diskError is an [ErrDisk] with its cause. It is an ErrUnavailable without that error's text, which speaks of the
// other nodes.
type diskError struct{ cause error }

func (e *diskError) Error() string        { return ErrDisk.Error() + ": " + e.cause.Error() }
func (e *diskError) Unwrap() error        { return e.cause }
func (e *diskError) Is(target error) bool { return target == ErrDisk || target == ErrUnavailable }

// Errors after which a log no longer follows: every later Append and Barrier returns the same error, and so does
// [Log.Err].
var (
	// ErrPurged means that records which this node has not applied are no longer in the log: the node needs a snapshot.
	ErrPurged = errors.New("replog: the log no longer has records that this node needs")

	// ErrDamaged means that a message of the log is missing or has a wrong checksum on every replica that was asked.
	ErrDamaged = errors.New("replog: a message of the log is damaged")

	// ErrDiverged means that this node has applied records that the log does not have.
	ErrDiverged = errors.New("replog: this node has applied records that are not in the log")

	// ErrVersion means that a newer release has written to the log. Nothing after its record was applied.
	ErrVersion = errors.New("replog: a record was written by a newer release")

	// ErrApply means that the function passed to Follow failed. The error wraps its error.
	ErrApply = errors.New("replog: cannot apply a record")
)
