package durable

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/workers/durable/internal/replay"
)

// Errors of a Client, compared with errors.Is.
var (
	// ErrInstanceNotFound means that no instance has the ID.
	ErrInstanceNotFound = record.ErrInstanceNotFound
	// ErrInstanceExists means that the ID is in use.
	ErrInstanceExists = record.ErrInstanceExists
	// ErrNotCompleted means that the instance is still running.
	ErrNotCompleted = record.ErrNotCompleted
	// ErrNotFailed means that the instance cannot be rewound because it has not failed.
	ErrNotFailed = record.ErrNotFailed
	// ErrEntityNotFound means that no entity has the ID, or that it has not handled its first message yet.
	ErrEntityNotFound = hub.ErrEntityNotFound
	// ErrHubNotFound means that the account has no hub with the name.
	ErrHubNotFound = record.ErrHubNotFound
	// ErrBadRequest means that a request is not valid: an instance's ID that cannot be stored, for instance.
	ErrBadRequest = record.ErrBadRequest
	// ErrTooLarge means that an input, output or event is larger than Options.MaxPayload.
	ErrTooLarge = record.ErrTooLarge
	// ErrNoClient means that there is no client: a context is not that of a handler, the handler's app has no
	// Config.Durable, or the app of the engine has not started yet or could not open its hub.
	ErrNoClient = record.ErrNoClient
)

// Errors inside a workflow.
var (
	// ErrTimeout means that an event was not received before the timeout.
	ErrTimeout = replay.ErrCanceled
	// ErrLocked means that the workflow has locked entities already.
	ErrLocked = errors.New("durable: the workflow has locked entities already")
)
