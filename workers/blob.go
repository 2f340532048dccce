package workers

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lazuli-storage/lazuli/internal/sdk/blobpath"
	"github.com/lazuli-storage/lazuli/workers/internal/blobtrigger"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// BlobHandler handles a blob that is new or has changed. b is a client of that blob. FromContext returns, in
// TriggerMetadata, the values of the names in braces in the path, and "BlobTrigger" (container/name), "Uri" and "ETag".
type BlobHandler func(ctx context.Context, b *blob.Client) error

// WithPath sets the path of the blobs that trigger the function, such as "container/folder/{name}.csv". A name in
// braces matches any text. The container's name must be complete. A path without a blob name matches all blobs of the
// container.
func WithPath(path string) BlobOption {
	return blobOption(func(s *trigger.Settings) { s.Path = path })
}

// WithEventGrid turns the scans off: the function runs for blobs that [Function.BlobCreated] announces, as a blob
// trigger with the source EventGrid does in Azure Functions. Events announce blobs that are created after the
// subscription; others are not handled.
func WithEventGrid() BlobOption {
	return blobOption(func(s *trigger.Settings) { s.Events = true })
}

// ErrNotRunning means that the app of a function does not run.
var ErrNotRunning = errors.New("workers: the app does not run")

// BlobCreated announces a blob to a function with [WithEventGrid]: it puts the message that makes an instance handle
// the blob in its present state, with retries and poison queue. Blobs that do not match the path, or do not exist any
// more, are ignored. It fails with [ErrNotRunning], or if storage fails; announcing a blob twice is allowed, and can
// handle it twice.
func (f *Function) BlobCreated(ctx context.Context, container, blob string) error {
	if f.blobs == nil {
		return ErrNotRunning
	}
	running, err := f.blobs.Announce(ctx, container, blob)
	if err == nil && !running {
		return ErrNotRunning
	}
	return err
}

// Blob registers a handler for the blobs that match WithPath: for those that exist when the app first starts, and for
// each blob that is created or changed later.
//
// Lazuli reports changes at once. On other services, and as a safeguard, one instance, which holds a blob lease, lists
// the container at intervals of WithMaxPollingInterval (default 10 s; 2 s for an account on this machine; 1 min on
// Lazuli) and puts a message for every blob whose ETag has no receipt. All instances handle the messages, by the rules
// of queue triggers: retries, maximum dequeue count, poison queue (webjobs-blobtrigger-poison), lease renewal, drain. A
// receipt is an empty blob with the ETag in its metadata; it is deleted after its blob was deleted. The scan needs
// about 200 bytes of memory for each matching blob.
//
// Every version of a blob that exists until the next scan is handled at least once. If a blob was deleted or changed
// before its message is handled, the message is dropped; the change has another message.
func (a *App) Blob(name string, h BlobHandler, options ...BlobOption) *Function {
	f := register(a, name, trigger.BlobTrigger, options)
	fail := func(err error) {
		if err != nil {
			a.errs = append(a.errs, fmt.Errorf("workers: function %q: %w", name, err))
		}
	}
	if h == nil {
		fail(errors.New("the handler is nil"))
	}
	pattern, err := blobpath.Parse(f.core.Settings.Path)
	fail(err)
	blobtrigger.SetQueue(f.core, a.config.HostID)
	// The queue is the runtime's own, so that its name and encoding are no options.
	fail(f.core.Settings.ValidateQueue())
	f.blobs = &blobtrigger.Events{}
	f.listen = func(a *App, f *Function, storage *Storage) (trigger.Listener, error) {
		return blobtrigger.New(a.environment(f, storage), f.core, f.blobs, pattern, h)
	}
	return f
}
