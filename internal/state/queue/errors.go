package queue

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Errors for events that are not possible, see machine.go.
var (
	// ErrMessageNotFound: the message does not exist, was deleted, or has expired.
	ErrMessageNotFound = errors.New("message not found")
	// ErrNotVisible: the message may not be handed out now.
	ErrNotVisible = errors.New("message is not visible")
	// ErrReceiptMismatch: the message was dequeued or changed since the pop receipt was issued.
	ErrReceiptMismatch = errors.New("pop receipt does not match")
	// ErrPastExpiry: the message would become visible only after it expired.
	ErrPastExpiry = errors.New("visibility timeout ends after the message expires")
)

// Errors of operations, in addition to those of package store and those above.
var (
	// ErrQueueNotFound: the queue does not exist.
	ErrQueueNotFound = errors.New("queue not found")
	// ErrQueueExists: the queue exists with other metadata.
	ErrQueueExists = errors.New("queue exists with other metadata")
	// ErrDamaged: the records of the queue cannot be read.
	ErrDamaged = store.ErrDamaged
)
