package queuesvc

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
)

// Errors of the Queue service.
// https://learn.microsoft.com/rest/api/storageservices/queue-service-error-codes
var (
	// errQueueNotFound: no queue has that name.
	errQueueNotFound = &wire.Error{Status: http.StatusNotFound, Code: "QueueNotFound",
		Message: "The specified queue does not exist."}
	// errQueueAlreadyExists: Create Queue of a queue that exists with other metadata.
	errQueueAlreadyExists = &wire.Error{Status: http.StatusConflict, Code: "QueueAlreadyExists",
		Message: "The specified queue already exists."}
	// errMessageNotFound: the message was deleted, has expired, or never existed.
	errMessageNotFound = &wire.Error{Status: http.StatusNotFound, Code: "MessageNotFound",
		Message: "The specified message does not exist."}
	// errPopReceiptMismatch: the message was dequeued or updated since the pop receipt was issued.
	errPopReceiptMismatch = &wire.Error{Status: http.StatusBadRequest, Code: "PopReceiptMismatch",
		Message: "The specified pop receipt did not match the pop receipt for a dequeued message."}
	// errStorage: the disk refuses writes, which natsserver or package store has logged.
	errStorage = wire.ErrServerBusy.WithMessage(
		"The server cannot write to its disk at the moment. Please retry your request.")
	// errNoMajority: the node is not connected to a majority of its cluster, which natsserver has logged.
	errNoMajority = wire.ErrServerBusy.WithMessage(
		"This node has no connection to a majority of its cluster at the moment. Please retry your request, or ask " +
			"another node.")
	// errDamaged: the data of the queue cannot be read. Package state has logged it.
	errDamaged = wire.ErrServerBusy.WithMessage(
		"The queue's data is damaged. It is not used until the server's operator has repaired it.")
	// errMessageTooLarge: a message's text is over 64 KiB.
	errMessageTooLarge = wire.ErrRequestBodyTooLarge.With("MaxLimit", strconv.Itoa(maxMessage))
	// errNameLength: a queue's name has fewer than 3 or more than 63 characters.
	errNameLength = wire.ErrOutOfRangeInput.WithMessage(
		"The specified resource name length is not within the permissible limits.")
	// errName: a queue's name has a character that is not allowed.
	errName = wire.ErrInvalidResourceName.WithMessage("The specifed resource name contains invalid characters.")
)

// failure converts errors of package state to errors of the REST API.
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
	case errors.Is(err, natsserver.ErrStorage), errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrDisk):
		if diskspace.IsFull(err) {
			return wire.ErrInsufficientStorage
		}
		return errStorage
	case errors.Is(err, state.ErrDamaged):
		return errDamaged
	case errors.Is(err, store.ErrUnavailable):
		return errNoMajority
	case errors.Is(err, store.ErrUnknown):
		if c.HTTP.Context().Err() == nil {
			s.log.Warn("the outcome of a change of a queue is not known", "account", c.Account, "queue", c.queue, "op",
				c.Operation,
				"request_id", c.ID, "err", err)
		}
		return wire.ErrServerBusy // clients try again
	}
	return err
}
