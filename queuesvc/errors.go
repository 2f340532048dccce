package queuesvc

import (
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	state "github.com/lazuli-storage/lazuli/internal/state/queue"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
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
	// errMessageNotFound: the message was deleted, has expired, or never existed; or it was dequeued or updated since the
	// pop receipt was issued, for which the reference has PopReceiptMismatch and the service this error:
	// https://github.com/Azure/azure-storage-python/issues/300, https://github.com/Azure/azure-storage-net/issues/285
	errMessageNotFound = &wire.Error{Status: http.StatusNotFound, Code: "MessageNotFound",
		Message: "The specified message does not exist."}
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

// azureErrors are the errors of the packages below the handlers, and the errors that answer them.
var azureErrors = wire.Answers{
	state.ErrQueueNotFound:   errQueueNotFound,
	state.ErrQueueExists:     errQueueAlreadyExists,
	state.ErrMessageNotFound: errMessageNotFound,
	state.ErrReceiptMismatch: errMessageNotFound,
	state.ErrDamaged:         errDamaged,
	natsserver.ErrStorage:    wire.ErrDisk,
	store.ErrFailed:          wire.ErrDisk,
	store.ErrDisk:            wire.ErrDisk,
	store.ErrNodeDisk:        wire.ErrDisk,
	store.ErrUnavailable:     errNoMajority,
	store.ErrUnknown:         wire.ErrServerBusy, // clients try again
	store.ErrReadOnly:        wire.ErrWriteToSecondary,
	store.ErrFenced:          wire.ErrFenced,
}

// azureError maps the errors of package state to those of the protocol. It is the front-end's Errors.
func azureError(err error) error {
	if diskspace.IsFull(err) {
		return wire.ErrInsufficientStorage
	}
	return azureErrors.Of(err)
}
