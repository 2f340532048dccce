package workers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/blobpath"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// BlobHandler handles a blob that is new or has changed. b is a client of that blob. FromContext returns, in
// TriggerMetadata, the values of the names in braces in the path, and "BlobTrigger" (container/name), "Uri" and "ETag".
type BlobHandler func(ctx context.Context, b *blob.Client) error

// WithPath sets the path of the blobs that trigger the function, such as "container/folder/{name}.csv". A name in
// braces matches any text. The container's name must be complete. A path without a blob name matches all blobs of the
// container.
func WithPath(path string) BlobOption {
	return blobOption(func(s *settings) { s.path = path })
}

// WithEventGrid turns the scans off: the function runs for blobs that [Function.BlobCreated] announces, as a blob
// trigger with the source EventGrid does in Azure Functions. Events announce blobs that are created after the
// subscription; others are not handled.
func WithEventGrid() BlobOption {
	return blobOption(func(s *settings) { s.events = true })
}

// ErrNotRunning means that the app of a function does not run.
var ErrNotRunning = errors.New("workers: the app does not run")

// BlobCreated announces a blob to a function with [WithEventGrid]: it puts the message that makes an instance handle
// the blob in its present state, with retries and poison queue. Blobs that do not match the path, or do not exist any
// more, are ignored. It fails with [ErrNotRunning], or if storage fails; announcing a blob twice is allowed, and can
// handle it twice.
func (f *Function) BlobCreated(ctx context.Context, container, blob string) error {
	l := f.blobs.Load()
	if l == nil {
		return ErrNotRunning
	}
	if container != l.pattern.Container || !l.scanner.matches(blob) {
		return nil
	}
	properties, err := l.blobs.ServiceClient().NewContainerClient(container).NewBlobClient(blob).GetProperties(ctx, nil)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get the properties of the blob: %w", err)
	}
	m := blobMessage{Type: "BlobTrigger", FunctionId: f.name, ContainerName: container, BlobName: blob}
	if properties.ETag != nil {
		m.ETag = string(*properties.ETag)
	}
	if t := properties.BlobType; t != nil {
		m.BlobType = string(*t)
	}
	return l.put(ctx, m)
}

// blobPoisonQueue is the poison queue of all blob triggers, as in Azure Functions.
const blobPoisonQueue = "webjobs-blobtrigger-poison"

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
	f := register(a, name, blobTrigger, options)
	fail := func(err error) {
		if err != nil {
			a.errs = append(a.errs, fmt.Errorf("workers: function %q: %w", name, err))
		}
	}
	if h == nil {
		fail(errors.New("the handler is nil"))
	}
	pattern, err := blobpath.Parse(f.settings.path)
	fail(err)
	f.settings.queueName = hashedQueueName("azure-webjobs-blobtrigger-", a.config.HostID, name)
	f.settings.encoding = Base64
	fail(f.settings.validateQueue())
	f.listen = func(a *App, f *Function, storage *Storage) (listener, error) {
		return newBlobListener(a, f, storage, pattern, h)
	}
	return f
}

// scope distinguishes the locks of functions with the same name that watch different sources.
func scope(source string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(source))
	return fmt.Sprintf("%016x", h.Sum64())
}

// hashedQueueName is the name of the queue between the instance that finds changes and the handlers. The hash makes it
// a valid queue name.
func hashedQueueName(prefix, hostID, function string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(hostID + "/" + function))
	return fmt.Sprintf("%s%016x", prefix, h.Sum64())
}

// blobMessage describes one version of a blob, in the format of Azure Functions.
type blobMessage struct {
	Type          string
	FunctionId    string
	BlobType      string
	ContainerName string
	BlobName      string
	ETag          string
}

// blobListener runs a blob trigger: a scan on one instance, a queue listener on each instance.
type blobListener struct {
	function *Function
	pattern  blobpath.Pattern
	blobs    *azblob.Client
	scanner  *blobScanner
	lock     *singleton
	messages *queueListener
	every    time.Duration // between scans
	nudge    nudge         // interrupts the pause between scans
	asked    atomic.Bool   // idle waits for a scan that starts after this was set
	fresh    atomic.Bool   // such a scan has finished
	followed time.Duration // between scans if the service reports changes
	clock    Clock
	log      *slog.Logger
}

func newBlobListener(a *App, f *Function, storage *Storage, pattern blobpath.Pattern, h BlobHandler) (*blobListener,
	error) {
	store, err := a.openHost(storage)
	if err != nil {
		return nil, err
	}
	log := a.config.Logger.With("function", f.name)
	l := &blobListener{
		function: f, pattern: pattern, blobs: storage.Blobs, nudge: newNudge(), every: f.settings.maxPolling,
		clock: a.config.Clock, log: log,
		// One process of an app lists the container; the others only handle messages.
		lock: &singleton{
			store: store, name: "locks/" + a.config.HostID + "/" + f.name + "/" + scope(f.settings.path) + ".BlobScan",
			owner:  uuid.NewString(),
			period: a.config.LockPeriod, retry: a.config.LockPeriod / 3, clock: a.config.Clock, log: log,
		},
	}
	l.followed = l.every
	if l.every == 0 {
		l.every, l.followed = 10*time.Second, scanFollowed
		// A server on this machine answers lists at once, and a developer waits for the result.
		if storage.Local {
			l.every = 2 * time.Second
		}
	}
	if l.messages, err = newQueueListener(a, f, storage, l.handle(h)); err != nil {
		return nil, err
	}
	// All blob triggers share one poison queue, as in the Functions host: a message names its blob and function.
	l.messages.poisonName = blobPoisonQueue
	if l.messages.poison, err = a.openQueue(storage, blobPoisonQueue); err != nil {
		return nil, err
	}
	l.scanner = &blobScanner{
		blobs: storage.Blobs, pattern: pattern, function: f.name, log: log,
		receipts: "blobreceipts/" + a.config.HostID + "/" + f.name + "/" + pattern.Container + "/",
		put:      l.put,
	}
	return l, nil
}

func (l *blobListener) messageQueue() queueClient { return l.messages.queue }

func (l *blobListener) wake() { l.messages.wake() }

// begin lets BlobCreated announce blobs.
func (l *blobListener) begin(context.Context) error {
	if l.function.settings.events {
		l.function.blobs.Store(l)
	}
	return nil
}

func (l *blobListener) listen(soft, hard context.Context) error {
	if l.function.settings.events {
		defer l.function.blobs.Store(nil)
		return l.messages.listen(soft, hard)
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.lock.lead(soft, hard, l.scan) })
	err := l.messages.listen(soft, hard)
	wg.Wait()
	return err
}

// scanFollowed is the default interval between scans if the service reports changes. The scans are a safeguard, and
// delete the receipts of deleted blobs.
const scanFollowed = time.Minute

// scan scans the container repeatedly while this instance holds the lock. Between scans it follows the changes that the
// service reports.
func (l *blobListener) scan(soft, _ context.Context) {
	failing := ""
	for soft.Err() == nil {
		// A scan can stop at any point; the next one finds the rest.
		asked := l.asked.Load()
		err := contain(func() error { return l.scanner.scan(soft) })
		if err == nil && asked {
			l.asked.Store(false)
			l.fresh.Store(true)
		}
		if err == nil && l.scanner.position != "" {
			failing = ""
			until := l.clock.Now().Add(l.followed)
			for err == nil && soft.Err() == nil && l.scanner.position != "" && l.clock.Now().Before(until) {
				asked := l.clock.Now()
				err = contain(func() error { return l.scanner.follow(soft, until.Sub(asked)) })
				if l.clock.Now().Sub(asked) < time.Millisecond {
					l.lock.pause(soft, time.Millisecond) // So that one response reports several changes.
				}
			}
			if err == nil {
				continue // The next scan is due.
			}
		}
		switch {
		case err == nil:
			failing = ""
		case soft.Err() != nil:
		case sdkerr.Text(err) != failing:
			failing = sdkerr.Text(err)
			l.function.stats.fail(l.clock.Now(), err)
			l.log.Error("scan of the container failed; retrying", "container", l.pattern.Container, "err", sdkerr.Short(err))
		}
		l.nudge.pause(soft, l.clock, l.every)
	}
}

// put puts a message, which any instance can handle.
func (l *blobListener) put(ctx context.Context, m blobMessage) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = putCreating(ctx, l.messages.queue, base64.StdEncoding.EncodeToString(body))
	l.messages.wake()
	return err
}

// handle converts a blob handler to a queue handler.
func (l *blobListener) handle(h BlobHandler) QueueHandler {
	return func(ctx context.Context, raw QueueMessage) error {
		var m blobMessage
		if err := json.Unmarshal(raw.Body, &m); err != nil {
			return Permanent(fmt.Errorf("not a blob trigger's message: %w", err))
		}
		client := l.blobs.ServiceClient().NewContainerClient(m.ContainerName).NewBlobClient(m.BlobName)
		properties, err := client.GetProperties(ctx, nil)
		switch {
		case isMissing(err):
			return nil // The blob was deleted. (A HEAD response has no body; the SDK takes the code from the header.)
		case err != nil:
			return fmt.Errorf("get the properties of the blob: %w", err)
		case properties.ETag == nil || string(*properties.ETag) != m.ETag:
			return nil // The blob was changed; the change has, or will have, another message.
		}
		if ic, ok := FromContext(ctx); ok {
			values, _ := l.pattern.Match(m.BlobName)
			maps.Copy(ic.TriggerMetadata, values)
			ic.TriggerMetadata["BlobTrigger"] = m.ContainerName + "/" + m.BlobName
			ic.TriggerMetadata["Uri"] = client.URL()
			ic.TriggerMetadata["ETag"] = m.ETag
		}
		return h(ctx, client)
	}
}

// Fault points around the two writes of a scan for each blob.
var (
	pointBeforeNotify = fault.Declare("workers/before-blob-message")
	pointAfterNotify  = fault.Declare("workers/after-blob-message")
	pointAfterReceipt = fault.Declare("workers/after-blob-receipt")
)
