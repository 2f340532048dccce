package blobtrigger

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/blobpath"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/locks"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// Events has the listener of a blob trigger whose blobs are announced.
type Events struct {
	running atomic.Pointer[listener] // nil while the app does not run
}

// Announce puts the message of a blob, if it exists and matches; running is false if the function does not run.
func (e *Events) Announce(ctx context.Context, container, blob string) (running bool, err error) {
	l := e.running.Load()
	if l == nil {
		return false, nil
	}
	if container != l.pattern.Container || !l.scanner.matches(blob) {
		return true, nil
	}
	properties, err := l.blobs.ServiceClient().NewContainerClient(container).NewBlobClient(blob).GetProperties(ctx, nil)
	if locks.IsMissing(err) {
		return true, nil
	}
	if err != nil {
		return true, fmt.Errorf("get the properties of the blob: %w", err)
	}
	m := message{Type: "BlobTrigger", FunctionId: l.function.Name, ContainerName: container, BlobName: blob}
	if properties.ETag != nil {
		m.ETag = string(*properties.ETag)
	}
	if t := properties.BlobType; t != nil {
		m.BlobType = string(*t)
	}
	return true, l.put(ctx, m)
}

// blobPoisonQueue is the poison queue of all blob triggers, as in Azure Functions.
const blobPoisonQueue = "webjobs-blobtrigger-poison"

// SetQueue sets the queue of a blob trigger's messages.
func SetQueue(f *trigger.Function, hostID string) {
	f.Settings.QueueName = trigger.HashedQueueName("azure-webjobs-blobtrigger-", hostID, f.Name)
	f.Settings.Encoding = trigger.Base64Encoding
}

// scope distinguishes the locks of functions with the same name that watch different sources.
func scope(source string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(source))
	return fmt.Sprintf("%016x", h.Sum64())
}

// message describes one version of a blob, in the format of Azure Functions.
type message struct {
	Type          string
	FunctionId    string
	BlobType      string
	ContainerName string
	BlobName      string
	ETag          string
}

// listener runs a blob trigger: a scan on one instance, a queue listener on each instance.
type listener struct {
	function *trigger.Function
	events   *Events
	pattern  blobpath.Pattern
	blobs    *azblob.Client
	scanner  *scanner
	lock     *locks.Singleton
	messages *trigger.QueueListener
	every    time.Duration // between scans
	nudge    calls.Nudge   // interrupts the pause between scans
	asked    atomic.Bool   // idle waits for a scan that starts after this was set
	fresh    atomic.Bool   // such a scan has finished
	followed time.Duration // between scans if the service reports changes
	clock    calls.Clock
	log      *slog.Logger
}

// New makes the listener of a blob trigger whose path is pattern. events is where Function.BlobCreated announces
// blobs.
func New(env *trigger.Environment, f *trigger.Function, events *Events, pattern blobpath.Pattern,
	h func(context.Context, *blob.Client) error) (*listener, error) {
	store, err := env.OpenHost()
	if err != nil {
		return nil, err
	}
	l := &listener{
		function: f, events: events, pattern: pattern, blobs: env.Blobs, nudge: calls.NewNudge(),
		every: f.Settings.MaxPolling, clock: env.Clock, log: env.Log,
		// One process of an app lists the container; the others only handle messages.
		lock: env.Singleton(store, f.Name+"/"+scope(f.Settings.Path)+".BlobScan"),
	}
	l.followed = l.every
	if l.every == 0 {
		l.every, l.followed = 10*time.Second, scanFollowed
		// A server on this machine answers lists at once, and a developer waits for the result.
		if env.Local {
			l.every = 2 * time.Second
		}
	}
	if l.messages, err = trigger.NewQueueListener(env, f, l.handle(h)); err != nil {
		return nil, err
	}
	// All blob triggers share one poison queue, as in the Functions host: a message names its blob and function.
	l.messages.PoisonName = blobPoisonQueue
	if l.messages.Poison, err = env.OpenQueue(blobPoisonQueue); err != nil {
		return nil, err
	}
	l.scanner = &scanner{
		blobs: env.Blobs, pattern: pattern, function: f.Name, log: env.Log,
		receipts: "blobreceipts/" + env.HostID + "/" + f.Name + "/" + pattern.Container + "/",
		put:      l.put,
	}
	return l, nil
}

// MessageQueue implements trigger.Queued.
func (l *listener) MessageQueue() queues.Client { return l.messages.Queue }

// Wake implements trigger.Listener.
func (l *listener) Wake() { l.messages.Wake() }

// Begin lets BlobCreated announce blobs.
func (l *listener) Begin(context.Context) error {
	if l.function.Settings.Events {
		l.events.running.Store(l)
	}
	return nil
}

// Listen implements trigger.Listener.
func (l *listener) Listen(soft, hard context.Context) error {
	if l.function.Settings.Events {
		defer l.events.running.Store(nil)
		return l.messages.Listen(soft, hard)
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.lock.Lead(soft, hard, l.scan) })
	err := l.messages.Listen(soft, hard)
	wg.Wait()
	return err
}

// scanFollowed is the default interval between scans if the service reports changes. The scans are a safeguard, and
// delete the receipts of deleted blobs.
const scanFollowed = time.Minute

// scan scans the container repeatedly while this instance holds the lock. Between scans it follows the changes that the
// service reports.
func (l *listener) scan(soft, _ context.Context) {
	failing := ""
	for soft.Err() == nil {
		// A scan can stop at any point; the next one finds the rest.
		asked := l.asked.Load()
		err := calls.Contain(func() error { return l.scanner.scan(soft) })
		if err == nil && asked {
			l.asked.Store(false)
			l.fresh.Store(true)
		}
		if err == nil && l.scanner.position != "" {
			failing = ""
			until := l.clock.Now().Add(l.followed)
			for err == nil && soft.Err() == nil && l.scanner.position != "" && l.clock.Now().Before(until) {
				asked := l.clock.Now()
				err = calls.Contain(func() error { return l.scanner.follow(soft, until.Sub(asked)) })
				if l.clock.Now().Sub(asked) < time.Millisecond {
					l.lock.Pause(soft, time.Millisecond) // So that one response reports several changes.
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
			l.function.Stats.Fail(l.clock.Now(), err)
			l.log.Error("scan of the container failed; retrying", "container", l.pattern.Container, "err", sdkerr.Short(err))
		}
		l.nudge.Pause(soft, l.clock, l.every)
	}
}

// put puts a message, which any instance can handle.
func (l *listener) put(ctx context.Context, m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = queues.PutCreating(ctx, l.messages.Queue, base64.StdEncoding.EncodeToString(body))
	l.messages.Wake()
	return err
}

// handle converts a blob handler to a queue handler.
func (l *listener) handle(h func(context.Context, *blob.Client) error) trigger.QueueHandler {
	return func(ctx context.Context, raw bindings.QueueMessage) error {
		var m message
		if err := json.Unmarshal(raw.Body, &m); err != nil {
			return calls.Permanent(fmt.Errorf("not a blob trigger's message: %w", err))
		}
		client := l.blobs.ServiceClient().NewContainerClient(m.ContainerName).NewBlobClient(m.BlobName)
		properties, err := client.GetProperties(ctx, nil)
		switch {
		case locks.IsMissing(err):
			return nil // The blob was deleted. (A HEAD response has no body; the SDK takes the code from the header.)
		case err != nil:
			return fmt.Errorf("get the properties of the blob: %w", err)
		case properties.ETag == nil || string(*properties.ETag) != m.ETag:
			return nil // The blob was changed; the change has, or will have, another message.
		}
		if i := trigger.InvocationOf(ctx); i != nil {
			values, _ := l.pattern.Match(m.BlobName)
			maps.Copy(i.Metadata, values)
			i.Metadata["BlobTrigger"] = m.ContainerName + "/" + m.BlobName
			i.Metadata["Uri"] = client.URL()
			i.Metadata["ETag"] = m.ETag
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

// Idle reports whether all changes of the container have been handled.
func (l *listener) Idle(ctx context.Context) (bool, error) {
	if l.function.Settings.Events {
		return l.messages.Idle(ctx)
	}
	position := l.scanner.reached.Load()
	switch {
	case position == nil, *position == "" && !l.fresh.CompareAndSwap(true, false):
		// Without a change feed, a scan must have started after this call.
		l.asked.Store(true)
		l.nudge.Give()
		return false, nil
	case *position != "":
		page, err := l.scanner.changes(ctx, *position, 0)
		if err != nil || !page.known || len(page.items) > 0 {
			return false, err
		}
	}
	return l.messages.Idle(ctx)
}
