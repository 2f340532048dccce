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
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/internal/blobpath"
)

// BlobHandler handles a blob that is new or has changed. The client is of that blob. FromContext tells what the names in the
// path's braces stand for, in TriggerMetadata, beside "BlobTrigger" (container/name), "Uri" and "ETag".
type BlobHandler func(ctx context.Context, b *blob.Client) error

// WithPath sets which blobs trigger: "container/folder/{name}.csv". What is in braces matches any text; the container must be
// given in full. A container alone means all of its blobs.
func WithPath(path string) BlobOption {
	return blobOption(func(s *settings) { s.path = path })
}

// blobPoisonQueue is where blob triggers' messages go that failed for good, as in Azure Functions.
const blobPoisonQueue = "webjobs-blobtrigger-poison"

// Blob registers a handler for the blobs that match WithPath: each that is there when the app first starts, and each that is
// new or changed after that.
//
// Lazuli tells of a change at once. Elsewhere, and in case that something was missed,
// one instance, by a blob lease, lists the container at intervals of WithMaxPollingInterval (default 10 s; 2 s for an account on
// this machine; a minute on Lazuli) and puts a message for every blob whose ETag it has no receipt for; all instances share the messages. These
// go by the same rules as a queue trigger's: retries, a limit of attempts, poison (queue webjobs-blobtrigger-poison), renewal,
// drain. A receipt is an empty blob that bears the ETag; it goes when its blob goes. The scan keeps about 200
// bytes in memory for every blob in the container that matches.
//
// Every state of a blob that lasts until the next scan is handled, at least once. A blob that is gone or has changed before its
// message is handled is skipped: the change has a message of its own.
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

// hashedQueueName is the queue between what finds a trigger's work and its handlers. A hash keeps it within a queue name's rules.
func hashedQueueName(prefix, hostID, function string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(hostID + "/" + function))
	return fmt.Sprintf("%s%016x", prefix, h.Sum64())
}

// blobMessage tells of one state of a blob, in the format of Azure Functions.
type blobMessage struct {
	Type          string
	FunctionId    string
	BlobType      string
	ContainerName string
	BlobName      string
	ETag          string
}

// blobListener is a blob trigger at work: a scan on one instance, a queue listener on each.
type blobListener struct {
	function *Function
	pattern  blobpath.Pattern
	blobs    *azblob.Client
	scanner  *blobScanner
	lock     *singleton
	messages *queueListener
	every    time.Duration // between scans
	nudge    nudge         // ends the pause between scans
	asked    atomic.Bool   // somebody wants to know of a scan that begins after this was set,
	fresh    atomic.Bool   // and it is through
	followed time.Duration // between scans where the service tells of changes at once
	clock    Clock
	log      *slog.Logger
}

func newBlobListener(a *App, f *Function, storage *Storage, pattern blobpath.Pattern, h BlobHandler) (*blobListener, error) {
	store, err := a.openHost(storage)
	if err != nil {
		return nil, err
	}
	log := a.config.Logger.With("function", f.name)
	l := &blobListener{
		function: f, pattern: pattern, blobs: storage.Blobs, nudge: newNudge(), every: f.settings.maxPolling, clock: a.config.Clock, log: log,
		lock: &singleton{
			store: store, name: "locks/" + a.config.HostID + "/" + f.name + "/" + scope(f.settings.path) + ".BlobScan", owner: uuid.NewString(),
			period: a.config.LockPeriod, retry: a.config.LockPeriod / 3, clock: a.config.Clock, log: log,
		},
	}
	l.followed = l.every
	if l.every == 0 {
		l.every, l.followed = 10*time.Second, scanFollowed
		if storage.Local {
			l.every = 2 * time.Second
		}
	}
	if l.messages, err = newQueueListener(a, f, storage, l.handle(h)); err != nil {
		return nil, err
	}
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

func (l *blobListener) listen(soft, hard context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { l.lock.lead(soft, hard, l.scan) })
	err := l.messages.listen(soft, hard)
	wg.Wait()
	return err
}

// scanFollowed is how often a container is scanned, by default, whose changes the service tells at once: in case that it forgot one, and
// for the receipts of blobs that are gone.
const scanFollowed = time.Minute

// scan looks at the container again and again for as long as this instance holds the lock. In between it hears of changes at once, if
// the service tells them.
func (l *blobListener) scan(soft, _ context.Context) {
	failing := ""
	for soft.Err() == nil {
		// A scan may be broken off anywhere: what it has not come to, the next one finds.
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
					l.lock.pause(soft, time.Millisecond) // Many changes are told together, rather than one by one.
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
			l.log.Error("cannot scan the container; trying on", "container", l.pattern.Container, "err", sdkerr.Short(err))
		}
		l.nudge.pause(soft, l.clock, l.every)
	}
}

// put tells all instances of a state of a blob.
func (l *blobListener) put(ctx context.Context, m blobMessage) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = putCreating(ctx, l.messages.queue, base64.StdEncoding.EncodeToString(body))
	l.messages.wake()
	return err
}

// handle makes a queue handler of a blob handler.
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
			return nil // Gone since. (A HEAD has no body; the SDK takes the code from the header.)
		case err != nil:
			return fmt.Errorf("look at the blob: %w", err)
		case properties.ETag == nil || string(*properties.ETag) != m.ETag:
			return nil // Changed since: the change has, or will have, a message of its own.
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

// The moments around a scan's two effects for each blob.
var (
	pointBeforeNotify = fault.Declare("workers/before-blob-message")
	pointAfterNotify  = fault.Declare("workers/after-blob-message")
	pointAfterReceipt = fault.Declare("workers/after-blob-receipt")
)
