package record

import (
	"errors"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
)

// ErrBadRequest means that a request is not valid.
var ErrBadRequest = errors.New("durable: the request is not valid")

// ErrTooLarge means that an input, output or event is larger than Options.MaxPayload.
var ErrTooLarge = errors.New("durable: the payload is too large")

// Errors of a Client, compared with errors.Is.
var (
	// ErrInstanceNotFound means that no instance has the ID.
	ErrInstanceNotFound = api.ErrInstanceNotFound
	// ErrInstanceExists means that the ID is in use.
	ErrInstanceExists = api.ErrDuplicateInstance
	// ErrNotCompleted means that the instance is still running.
	ErrNotCompleted = api.ErrNotCompleted
	// ErrHubNotFound means that the account has no hub with the name.
	ErrHubNotFound = backend.ErrTaskHubNotFound
)

// ErrForeignHub means that a hub is one of another engine, and that nothing was written to it. A [Reader] reads it.
var ErrForeignHub = errors.New("durable: the task hub belongs to another engine")

// ErrNotFailed means that the instance cannot be rewound because it has not failed.
var ErrNotFailed = errors.New("durable: the instance has not failed")

// ErrNoClient means that a start was asked of a client that is nil: the context from which it was taken is not that of
// a handler, or the handler's app has no Config.Durable.
var ErrNoClient = errors.New("durable: no client: the context is not one of a handler of an app with Config.Durable")
