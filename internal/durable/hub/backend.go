package hub

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/lease"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
	"github.com/lazuli-storage/lazuli/workers"
)

// Backend stores one task hub in a storage account. It is safe for concurrent use. Use [NewClient] in a process that
// only starts and watches workflows.
type Backend struct {
	options    Options
	names      record.Names
	clock      workers.Clock
	log        *slog.Logger
	instances  record.Instances
	histories  record.Histories
	payloads   record.Payloads
	workItems  inflight.Queue
	poison     inflight.Queue
	shared     inflight.Queue
	apps       *apps            // nil: this is not an app that has named its functions
	control    []inflight.Queue // by partition; known once the hub is open
	leases     *lease.Leases
	sessions   *inflight.Sessions
	holder     *inflight.Holder
	inWork     inWork
	cache      *record.Cache
	stats      stats
	activities *activities
	entities   *entities
	parking    *inflight.Parking
	watches    *inflight.Watches
	started    inflight.Started
	late       *inflight.LateRows
	deleting   inflight.Deleting
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

// String names the backend in the engine's log.
func (b *Backend) String() string { return "azure storage hub " + b.options.Hub }

func (b *Backend) ready() error {
	if !b.opened.Load() {
		return backend.ErrNotInitialized
	}
	return nil
}

// work is a work item of the engine with the backend's data for it.
type work struct {
	session   *inflight.Session
	messages  []*inflight.Received
	postponed []*inflight.Received
	events    []record.NewRow
	history   *record.History // the history to continue; empty when the instance starts again
	base      *record.History // as it was read
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

// entityExecutor returns what runs the entities of this process, or nil.
func (b *Backend) entityExecutor() entitybatch.Executor {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runsEntities
}

// eventRest bounds what an event has beside its payload: names, traces, failure details.
const eventRest = 32 << 10

func (b *Backend) checkPayload(e *record.Event) error {
	v, _ := event.PayloadOf(e)
	if n := len(v.GetValue()); n > b.options.MaxPayload {
		return fmt.Errorf("%w: %s has %d bytes; %d are allowed", record.ErrTooLarge, event.Type(e), n, b.options.MaxPayload)
	}
	if n := record.SizeWithoutPayload(e); n > eventRest {
		return fmt.Errorf("%w: %s has %d bytes beside its payload; %d are allowed", record.ErrTooLarge, event.Type(e), n,
			eventRest)
	}
	return nil
}

// activities are the work items of the hub that this process has.
type activities struct {
	b *Backend

	mu      sync.Mutex // guards running
	running map[string]*activity
}

// activity is one that runs here, or waits to. The engine knows activities by instance and number, so that two copies
// must not run at once in one process.
type activity struct {
	key   string
	first *inflight.Received // the copy that is run
	// the first one and those that came later; all are deleted with it. Guarded by activities.mu.
	copies []*inflight.Received
	began  time.Time
}

// apps are the apps of a hub, as far as this one knows them. It implements workkind.Acceptor.
type apps struct {
	b       *Backend
	own     map[string]bool // functions of this app
	content []byte
	blob    string
	several chan struct{} // closed when another app is known

	mu     sync.Mutex      // guards the rest
	read   map[string]bool // blobs of other apps, and whether their names are known
	others map[string]bool // functions of other apps
}

// entities are the entities that this process works on.
type entities struct {
	b     *Backend
	store record.EntityStore

	mu sync.Mutex // guards open
	// open are the entities whose session here will look into the inbox again before it ends, each with a message that
	// the session holds.
	open map[string]*inflight.Received
}

// run is the time between Start and Stop.
type run struct {
	ctx        context.Context
	cancel     context.CancelFunc
	work       chan *work
	activities chan *activity
	all        sync.WaitGroup

	mu         sync.Mutex // guards partitions
	partitions map[int]context.CancelFunc
}

func (b *Backend) running() *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.run
}

// hasStopped reports whether the backend was started and has stopped. It fetches no work then, which would not be given
// back.
func (b *Backend) hasStopped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

// inWork are the work items that the engine has, by instance.
type inWork struct {
	mu   sync.Mutex // guards list
	list map[string]*work
}

func (i *inWork) add(w *work) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list[w.session.Instance] = w
}

func (i *inWork) remove(w *work) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.list[w.session.Instance] == w {
		delete(i.list, w.session.Instance)
	}
}

func (i *inWork) of(instance string) *work {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.list[instance]
}

// effects hold what a workflow's answers ask for and the engine cannot apply, or would lose: messages to entities,
// tags, versions, and what is sent before a workflow continues as new. The checkpoint adds them to what the engine
// makes of the rest.
type effects struct {
	// before are events of executions that have ended since by continuing as new, in the form of carry.
	before []*record.Event
	// events are the messages to entities of the present execution.
	events []*record.Event
	tasks  map[int32]map[string]string // tags of activities and child workflows, by task
	traces map[int32][]byte            // their trace contexts, where the worker has made them
}

// remaking is the state of Backend.remake.
type remaking struct {
	mu   sync.Mutex // guards last, and makes the hub once for all that miss it
	last time.Time
}

// stats count what a backend has done in this process.
type stats struct {
	checkpoints, conflicts, dropped, loads, activities, poisoned, received, entityBatches, entityOperations atomic.Int64
}

func activityName(instance string, task int32) string { return fmt.Sprintf("%s/%d", instance, task) }

// checkpointTimeout bounds a checkpoint. A checkpoint continues while the process stops.
const checkpointTimeout = 2 * time.Minute

func newEntities(b *Backend, store record.EntityStore) *entities {
	return &entities{b: b, store: store, open: map[string]*inflight.Received{}}
}

func newActivities(b *Backend) *activities { return &activities{b: b, running: map[string]*activity{}} }
