package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"
	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
	"github.com/lazuli-storage/lazuli/workers"
)

// Backend stores one task hub in a storage account. It is safe for concurrent use. Use [NewClient] in a process that
// only starts and watches workflows.
type Backend struct {
	options    Options
	names      names
	clock      workers.Clock
	log        *slog.Logger
	instances  instances
	histories  histories
	payloads   payloads
	workItems  queue
	poison     queue
	shared     queue
	apps       *apps   // nil: this is not an app that has named its functions
	control    []queue // by partition; known once the hub is open
	leases     *leases
	sessions   *sessions
	holder     *holder
	inWork     inWork
	cache      *cache
	stats      stats
	activities *activities
	entities   *entities
	parking    *parking
	watches    *watches
	started    started
	late       *lateRows
	deleting   deleting
	remaking   remaking

	opened       atomic.Bool
	mu           sync.Mutex // guards the next five
	run          *run
	stopped      bool // and not started again
	runsEntities entitybatch.Executor
	acceptor     workkind.Acceptor
	maxEntities  int
	// life is the context of work that belongs to the process, not to a call.
	life       context.Context
	background sync.WaitGroup
	polls      messages.Polls
}

var _ backend.Backend = (*Backend)(nil)

// New returns a backend. It sends no request.
func New(options Options) (*Backend, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	n := names{o.Hub}
	p := payloads{o.Storage.Blobs.ServiceClient().NewContainerClient(n.largeMessages())}
	b := &Backend{options: o, names: n, clock: o.Clock, log: o.Logger.With("hub", o.Hub), payloads: p,
		instances: instances{o.Storage.Tables.NewClient(n.instances()), p, o.Hub, partitionKey},
		histories: histories{o.Storage.Tables.NewClient(n.history()), p},
		sessions:  newSessions(), inWork: inWork{list: map[string]*work{}},
		holder: &holder{visibility: o.Visibility, list: map[*received]struct{}{}}, cache: newCache(o.CacheEvents),
		life: context.Background()}
	b.workItems, b.poison, b.shared = b.queue(n.workItems()), b.queue(n.poison()), b.queue(n.shared())
	b.activities = newActivities(b)
	b.entities = newEntities(b, entityStore{o.Storage.Tables.NewClient(n.entities()), p, &atomic.Int64{}})
	b.watches = &watches{list: map[string][]chan struct{}{}}
	b.late = &lateRows{sessions: b.sessions, list: map[string]*lateRow{}}
	b.parking = &parking{clock: o.Clock, list: map[string]parked{}, said: map[function]time.Time{}}
	return b, nil
}

func (b *Backend) queue(name string) queue {
	client := b.options.Storage.Queues.NewQueueClient(name)
	return queue{client, messages.NewPutter(client), messages.NewDeleter(client, deleteLinger), b.options.Visibility,
		b.clock}
}

// String names the backend in the engine's log.
func (b *Backend) String() string { return "azure storage hub " + b.options.Hub }

// hubInfo is the blob taskhub.json.
type hubInfo struct {
	TaskHubName    string
	CreatedAt      time.Time
	PartitionCount int
	Engine         string `json:",omitempty"` // EngineLazuli; hubs of earlier builds and of other engines have none
}

// CreateTaskHub implements backend.Backend. It creates the missing resources, and returns backend.ErrTaskHubExists if
// the hub exists.
func (b *Backend) CreateTaskHub(ctx context.Context) error {
	err := b.open(ctx)
	existed := err == nil
	if err != nil && !errors.Is(err, backend.ErrTaskHubNotFound) {
		return err
	}
	s := b.options.Storage
	for _, name := range []string{b.names.leases(), b.names.largeMessages()} {
		if _, err := s.Blobs.CreateContainer(ctx, name, nil); err != nil &&
			!bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			return fmt.Errorf("durable: create the container %s: %w", name, err)
		}
	}
	// The table of the entities first: without it the others would look like those of another engine.
	for _, t := range []string{b.names.entities(), b.names.instances(), b.names.history()} {
		if _, err := s.Tables.CreateTable(ctx, t, nil); err != nil {
			if _, code := status(err); code != "TableAlreadyExists" {
				return fmt.Errorf("durable: create the table %s: %w", t, err)
			}
		}
	}
	if !existed {
		if err := b.writeInfo(ctx); err != nil {
			return err
		}
		// Of two processes that make the hub at once, one has written the file. Its number of partitions counts for both.
		if err := b.open(ctx); err != nil {
			return err
		}
	}
	for _, q := range append([]queue{b.workItems}, b.control...) {
		if _, err := q.client.Create(ctx, nil); err != nil && !queueerror.HasCode(err, queueerror.QueueAlreadyExists) {
			return fmt.Errorf("durable: create a queue: %w", err)
		}
	}
	if err := b.leases.create(ctx); err != nil {
		return err
	}
	b.opened.Store(true)
	if existed {
		return backend.ErrTaskHubExists
	}
	return nil
}

func (b *Backend) infoBlob() *blockblob.Client {
	return b.options.Storage.Blobs.ServiceClient().NewContainerClient(b.names.leases()).NewBlockBlobClient(hubInfoBlob)
}

func (b *Backend) writeInfo(ctx context.Context) error {
	text, err := json.Marshal(hubInfo{b.options.Hub, b.clock.Now().UTC(), b.options.Partitions, EngineLazuli})
	if err != nil {
		return err
	}
	_, err = b.infoBlob().UploadBuffer(ctx, text, &blockblob.UploadBufferOptions{AccessConditions: &blob.AccessConditions{
		ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}})
	if err != nil && !bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		return fmt.Errorf("durable: write %s: %w", hubInfoBlob, err)
	}
	return nil
}

// open reads the description of the hub. It returns backend.ErrTaskHubNotFound if the hub does not exist.
func (b *Backend) open(ctx context.Context) error {
	buffer := make([]byte, 4096)
	n, err := b.infoBlob().DownloadBuffer(ctx, buffer, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound, bloberror.ContainerBeingDeleted) {
		// A hub of DTFx may have no such file, and nothing may be written to it.
		if engine, err := b.findEngine(ctx, false); err != nil {
			return err
		} else if engine == EngineDTFx {
			return b.foreign(engine)
		}
		return backend.ErrTaskHubNotFound
	}
	if err != nil {
		return fmt.Errorf("durable: read %s: %w", hubInfoBlob, err)
	}
	var info hubInfo
	err = json.Unmarshal(buffer[:n], &info)
	if err == nil && (info.PartitionCount < 1 || info.PartitionCount > 16) {
		err = fmt.Errorf("%d partitions", info.PartitionCount)
	}
	if err != nil {
		return fmt.Errorf("durable: the blob %s/%s does not describe a hub: %w", b.names.leases(), hubInfoBlob, err)
	}
	if info.Engine != EngineLazuli {
		if engine, err := b.findEngine(ctx, true); err != nil {
			return err
		} else if engine == EngineDTFx {
			return b.foreign(engine)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// A hub that is open already keeps its queues and leases.
	if len(b.control) == info.PartitionCount {
		return nil
	}
	b.control = nil
	for i := range info.PartitionCount {
		b.control = append(b.control, b.queue(b.names.control(i)))
	}
	b.leases = &leases{container: b.options.Storage.Blobs.ServiceClient().NewContainerClient(b.names.leases()),
		names: b.names, partitions: info.PartitionCount,
		worker: b.options.Worker, duration: b.options.LeaseDuration, clock: b.clock, log: b.log,
		early: make(chan struct{}, 1), held: map[int]string{}}
	if b.apps != nil {
		b.leases.found = b.apps.found
	}
	return nil
}

// DeleteTaskHub implements backend.Backend. On Azure, creating a hub with the same name fails for about 30 seconds
// afterwards.
func (b *Backend) DeleteTaskHub(ctx context.Context) error {
	found := b.open(ctx)
	if found != nil && !errors.Is(found, backend.ErrTaskHubNotFound) {
		return found
	}
	b.opened.Store(false)
	s := b.options.Storage
	var errs []error
	ignore := func(err error) {
		if err != nil && !isNotFound(err) {
			errs = append(errs, err)
		}
	}
	for _, q := range append([]queue{b.workItems, b.poison, b.shared}, b.control...) {
		_, err := q.client.Delete(ctx, nil)
		ignore(err)
	}
	for _, t := range []string{b.names.instances(), b.names.history(), b.names.entities()} {
		_, err := s.Tables.DeleteTable(ctx, t, nil)
		ignore(err)
	}
	for _, name := range []string{b.names.largeMessages(), b.names.leases()} {
		_, err := s.Blobs.DeleteContainer(ctx, name, nil)
		ignore(err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("durable: delete the hub %s: %w", b.options.Hub, err)
	}
	return found
}

func (b *Backend) ready() error {
	if !b.opened.Load() {
		return backend.ErrNotInitialized
	}
	return nil
}

// ErrBadRequest means that a request is not valid.
var ErrBadRequest = errors.New("durable: the request is not valid")

// Clock returns the backend's clock.
func (b *Backend) Clock() workers.Clock { return b.clock }

// work is a work item of the engine with the backend's data for it.
type work struct {
	session   *session
	messages  []*received
	postponed []*received
	events    []newRow
	history   *history // the history to continue; empty when the instance starts again
	base      *history // as it was read
	attempts  int64
	dropped   int
	settled   bool // completed or abandoned
	// continued counts how often the workflow has continued as new; paused means that its last execution has not run, see
	// maxContinued.
	continued    int
	paused       bool
	customStatus *wrapperspb.StringValue // of the last execution that ran
	// version and tags are those of the execution that runs, or is to run next.
	version string
	tags    map[string]string
	effects effects
	// span is what the last answer has told of the execution's span; answered says that there was one.
	span     []byte
	answered bool
}

const workProperty = "lazuli.durable.work"

func (b *Backend) item(w *work) *backend.OrchestrationWorkItem {
	id := api.InstanceID(w.session.instance)
	wi := &backend.OrchestrationWorkItem{InstanceID: id, LockedBy: b.options.Worker,
		RetryCount: int32(max(0, w.attempts-1)),
		State:      backend.NewOrchestrationRuntimeState(id, w.history.events), Properties: map[string]any{workProperty: w}}
	for _, r := range w.events {
		wi.NewEvents = append(wi.NewEvents, r.event)
	}
	b.inWork.add(w)
	return wi
}

// GetOrchestrationWorkItem implements backend.Backend. A backend that was started waits for work until ctx is done or
// the backend stops; one that was never started checks once.
func (b *Backend) GetOrchestrationWorkItem(ctx context.Context) (*backend.OrchestrationWorkItem, error) {
	if err := b.ready(); err != nil {
		return nil, err
	}
	if r := b.running(); r != nil {
		select {
		case w := <-r.work:
			return b.item(w), nil
		case <-r.ctx.Done():
			return nil, backend.ErrNoWorkItems
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if b.hasStopped() {
		return nil, backend.ErrNoWorkItems
	}
	return b.pull(ctx)
}

// pull checks all partitions for work once.
func (b *Backend) pull(ctx context.Context) (*backend.OrchestrationWorkItem, error) {
	for i := range b.control {
		for {
			n, _, err := b.receive(ctx, b.control[i], receiveMost, new(time.Duration),
				func(list []*received) { b.receiveControl(ctx, nil, i, list) })
			if err != nil {
				return nil, err
			}
			if n < receiveMost {
				break
			}
		}
	}
	for w := b.sessions.next(); w != nil; w = b.sessions.next() {
		if item := b.prepare(ctx, w); item != nil {
			return b.item(item), nil
		}
	}
	return nil, backend.ErrNoWorkItems
}

// source says where a history is from.
type source int

const (
	fromStorage source = iota
	fromCache          // it may be out of date
	fromGuess          // it is empty, since the instance has just been created
)

// history returns an instance's history, with its row. The caller has the instance's session in hand, with messages for
// it. If guess is true, the history of a new instance is not looked for.
func (b *Backend) history(ctx context.Context, instance string, list []*received, guess bool) (h *history, from source,
	err error) {
	if h := b.cache.get(instance); h != nil {
		return h, fromCache, nil
	}
	late := b.late.get(instance)
	if guess && late == nil {
		if h, err := b.guess(ctx, instance, list); h != nil || err != nil {
			return h, fromGuess, err
		}
	}
	h, err = b.histories.read(ctx, instance)
	if err != nil {
		return nil, fromStorage, err
	}
	// The row is read after the history: it says whether the messages of the checkpoint that was read have been sent.
	if h.row, err = b.instances.get(ctx, instance); err != nil {
		return nil, fromStorage, err
	}
	if late != nil && late.StartID == h.StartID && late.Checkpoint == h.Checkpoint {
		h.delivered = late.delivered
	}
	b.stats.loads.Add(1)
	return h, fromStorage, nil
}

// guess returns an empty history if a message that has come for the first time starts an instance that was created for
// it. If there is a history all the same, its sentinel refuses the first checkpoint, and the message comes again.
func (b *Backend) guess(ctx context.Context, instance string, list []*received) (*history, error) {
	i := slices.IndexFunc(list, func(r *received) bool { return r.event.GetExecutionStarted() != nil })
	if i < 0 || list[i].attempts > 1 {
		return nil, nil
	}
	row, err := b.instances.get(ctx, instance)
	if err != nil || row == nil || row.StartID != event.ExecutionOf(list[i].event) || row.Checkpoint > 0 || row.Replaces {
		return nil, err
	}
	b.stats.loads.Add(1)
	h := newHistory()
	h.row = row
	return h, nil
}

// GetOrchestrationRuntimeState implements backend.Backend.
func (b *Backend) GetOrchestrationRuntimeState(ctx context.Context,
	wi *backend.OrchestrationWorkItem) (*backend.OrchestrationRuntimeState, error) {
	if err := b.ready(); err != nil {
		return nil, err
	}
	if w, ok := wi.Properties[workProperty].(*work); ok {
		return backend.NewOrchestrationRuntimeState(wi.InstanceID, w.history.events), nil
	}
	h, err := b.histories.read(ctx, string(wi.InstanceID))
	if err != nil {
		return nil, err
	}
	return backend.NewOrchestrationRuntimeState(wi.InstanceID, h.events), nil
}

// GetOrchestrationMetadata implements backend.Backend.
func (b *Backend) GetOrchestrationMetadata(ctx context.Context, id api.InstanceID) (*api.OrchestrationMetadata, error) {
	if err := b.ready(); err != nil {
		return nil, err
	}
	row, m, err := b.instances.described(ctx, string(id))
	if err == nil && row == nil {
		return nil, api.ErrInstanceNotFound
	}
	return m, err
}

// AbandonOrchestrationWorkItem implements backend.Backend.
func (b *Backend) AbandonOrchestrationWorkItem(_ context.Context, wi *backend.OrchestrationWorkItem) error {
	if err := b.ready(); err != nil {
		return err
	}
	w, ok := wi.Properties[workProperty].(*work)
	if !ok || w.settled {
		return backend.ErrWorkItemLockLost
	}
	w.settled = true
	b.inWork.remove(w)
	b.retry(w.session, w.messages)
	return nil
}

// entityExecutor returns what runs the entities of this process, or nil.
func (b *Backend) entityExecutor() entitybatch.Executor {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runsEntities
}

// AddNewOrchestrationEvent implements backend.Backend.
func (b *Backend) AddNewOrchestrationEvent(ctx context.Context, id api.InstanceID, e *backend.HistoryEvent) error {
	if err := b.ready(); err != nil {
		return err
	}
	return b.addEvent(ctx, string(id), e, newID())
}

func (b *Backend) addEvent(ctx context.Context, instance string, e *Event, id string) error {
	if e == nil || e.Timestamp == nil {
		return errors.New("durable: the event is nil or has no time")
	}
	if err := checkInstanceID(instance); err != nil {
		return err
	}
	if err := b.checkPayload(e); err != nil {
		return err
	}
	_, err := b.send(ctx, outgoing{message: &message{ID: id, Instance: instance, event: e}})
	return err
}

// ErrTooLarge means that an input, output or event is larger than Options.MaxPayload.
var ErrTooLarge = errors.New("durable: the payload is too large")

// eventRest bounds what an event has beside its payload: names, traces, failure details.
const eventRest = 32 << 10

func (b *Backend) checkPayload(e *Event) error {
	v, _ := event.PayloadOf(e)
	if n := len(v.GetValue()); n > b.options.MaxPayload {
		return fmt.Errorf("%w: %s has %d bytes; %d are allowed", ErrTooLarge, event.Type(e), n, b.options.MaxPayload)
	}
	if n := sizeWithoutPayload(e); n > eventRest {
		return fmt.Errorf("%w: %s has %d bytes beside its payload; %d are allowed", ErrTooLarge, event.Type(e), n, eventRest)
	}
	return nil
}
