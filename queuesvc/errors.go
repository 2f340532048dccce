package queuesvc

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
)

// The Queue service's own failures.
// https://learn.microsoft.com/rest/api/storageservices/queue-service-error-codes
var (
	// errQueueNotFound: there is no queue of that name.
	errQueueNotFound = &wire.Error{Status: http.StatusNotFound, Code: "QueueNotFound",
		Message: "The specified queue does not exist."}
	// errQueueAlreadyExists: Create Queue, where there is one with other metadata.
	errQueueAlreadyExists = &wire.Error{Status: http.StatusConflict, Code: "QueueAlreadyExists",
		Message: "The specified queue already exists."}
	// errMessageNotFound: the message was deleted, has expired, or never was.
	errMessageNotFound = &wire.Error{Status: http.StatusNotFound, Code: "MessageNotFound",
		Message: "The specified message does not exist."}
	// errPopReceiptMismatch: the message was dequeued or updated since the pop receipt was given out.
	errPopReceiptMismatch = &wire.Error{Status: http.StatusBadRequest, Code: "PopReceiptMismatch",
		Message: "The specified pop receipt did not match the pop receipt for a dequeued message."}
	// errStorage: the disk does not take what is written. The state has logged it.
	errStorage = wire.ErrServerBusy.WithMessage("The server cannot write to its disk at the moment. Please retry your request.")
	// errDamaged: what is kept of the queue cannot be read. The state has logged it.
	errDamaged = wire.ErrServerBusy.WithMessage("The queue's data is damaged. It is not used until the server's operator has repaired it.")
	// errMessageTooLarge: a message's text is over 64 KiB.
	errMessageTooLarge = wire.ErrRequestBodyTooLarge.With("MaxLimit", strconv.Itoa(maxMessage))
	// errNameLength: a queue's name has under 3 or over 63 characters.
	errNameLength = wire.ErrOutOfRangeInput.WithMessage(
		"The specified resource name length is not within the permissible limits.")
	// errName: a queue's name has other characters than it may.
	errName = wire.ErrInvalidResourceName.WithMessage("The specifed resource name contains invalid characters.")
)

// failure turns the state's errors into the client's.
func (s *Service) failure(c *call, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, state.ErrQueueNotFound):
		return errQueueNotFound
	case errors.Is(err, state.ErrQueueExists):
		return errQueueAlreadyExists
	case errors.Is(err, state.ErrMessageNotFound):
		return errMessageNotFound
	case errors.Is(err, state.ErrReceiptMismatch):
		return errPopReceiptMismatch
	case errors.Is(err, state.ErrStorage) && diskspace.IsFull(err):
		return wire.ErrInsufficientStorage
	case errors.Is(err, state.ErrStorage):
		return errStorage
	case errors.Is(err, state.ErrDamaged):
		return errDamaged
	case errors.Is(err, state.ErrUnavailable):
		if c.HTTP.Context().Err() == nil {
			s.log.Warn("queue state is not available", "account", c.Account, "queue", c.queue, "op", c.Operation,
				"request_id", c.ID, "err", err)
		}
		return wire.ErrServerBusy // clients try again
	}
	return err
}
