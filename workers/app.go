package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/gctuner"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/workers/bindings"
)

// QueueMessage is a message that a queue handler receives.
type QueueMessage = bindings.QueueMessage

// QueueHandler handles one message.
type QueueHandler func(ctx context.Context, m QueueMessage) error

// App is a set of functions with their triggers. Register the functions, then Run the app, or Start and Stop it. A
// stopped app can be started again. Functions must not be registered concurrently, nor while the app runs.
type App struct {
	config     Config
	middleware []Middleware
	functions  []*Function
	names      map[string]bool
	errs       []error // of registration; Start returns them
	durable    durableFunctions
	openQueue  func(*Storage, string) (queueClient, error)
	openHost   func(*Storage) (hostStore, error)

	mu      sync.Mutex // guards current
	current *run       // nil when not started
}

// New returns an app without functions.
func New(config Config) *App {
	a := &App{config: config.withDefaults(), names: map[string]bool{}, openQueue: openAzureQueue, openHost: openAzureHost}
	if config.Durable != nil {
		a.Use(durableClients{config.Durable})
	}
	return a
}

// HostID returns the Config.HostID of the app, or the default that it has without one.
func (a *App) HostID() string { return a.config.HostID }

// Function is a registered handler with its trigger.
type Function struct {
	name     string
	trigger  string
	settings settings
	follows  bool // registered by FollowTable
	// listen creates the trigger's listener for one run of the app.
	listen func(a *App, f *Function, storage *Storage) (listener, error)
	stats  stats
	gate   gate
	batch  batchHandler                 // of a queue trigger whose handler gets several messages a call
	blobs  atomic.Pointer[blobListener] // of a blob trigger that runs
}

// The names of the triggers, as in Azure Functions where it has them.
const (
	queueTrigger = "queueTrigger"
	blobTrigger  = "blobTrigger"
	timerTrigger = "timerTrigger"
	tableTrigger = "tableTrigger"
)

// source returns what the function listens to, as attributes of a log record.
func (f *Function) source() []any {
	s := &f.settings
	switch f.trigger {
	case blobTrigger:
		return []any{"path", s.path}
	case tableTrigger:
		return []any{"table", s.table}
	case timerTrigger:
		return []any{"schedule", s.schedule}
	case orchestrationTrigger, activityTrigger, entityTrigger, scheduleTrigger:
		return nil
	}
	return []any{"queue", strings.Join(f.queues(), ", ")}
}

// queues returns the names of the queues that a function of the queue trigger listens to.
func (f *Function) queues() []string {
	if p := f.settings.priority; p != nil {
		return p.names
	}
	return []string{f.settings.queueName}
}

// Name returns the name under which the function is registered.
func (f *Function) Name() string { return f.name }

// listener runs a trigger. listen starts calls until soft is done, waits for running calls, and returns. When hard is
// done, it cancels running calls and returns as soon as possible.
type listener interface {
	listen(soft, hard context.Context) error
	// wake interrupts a wait for new work.
	wake()
}

// beginner is implemented by listeners that must be in a certain state before Start returns.
type beginner interface {
	// begin returns when the listener misses no event that comes after it. It may be called again.
	begin(ctx context.Context) error
}

// Queue registers a handler for the messages of a queue, by default the queue with the function's name. Start reports
// invalid settings.
func (a *App) Queue(name string, h QueueHandler, options ...QueueOption) *Function {
	f := register(a, name, queueTrigger, options)
	if h == nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: the handler is nil", name))
	}
	if p := f.settings.priority; p != nil && len(p.names) > 0 {
		f.settings.queueName = p.names[0]
	}
	if err := f.settings.validateQueue(); err != nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: %w", name, err))
	}
	f.listen = func(a *App, f *Function, storage *Storage) (listener, error) {
		if f.settings.priority != nil {
			return newPriorityListener(a, f, storage, h)
		}
		return newQueueListener(a, f, storage, h)
	}
	return f
}

// register adds a function. O is the option type of its trigger; options in Config.Defaults that are not an O are
// skipped.
func register[O Option](a *App, name, trigger string, options []O) *Function {
	f := &Function{name: name, trigger: trigger, settings: defaultSettings(name)}
	f.stats.init()
	for _, o := range a.config.Defaults {
		if o, ok := o.(O); ok {
			o.apply(&f.settings)
		}
	}
	for _, o := range options {
		o.apply(&f.settings)
	}
	switch {
	case strings.TrimSpace(name) == "":
		a.errs = append(a.errs, errors.New("workers: a function has no name"))
	case a.names[name]:
		a.errs = append(a.errs, fmt.Errorf("workers: two functions are called %q", name))
	}
	a.names[name] = true
	a.functions = append(a.functions, f)
	return f
}

// Message is a queue message with its body decoded from JSON.
type Message[T any] struct {
	// Body is the decoded body.
	Body T
	// Raw is the received message.
	Raw QueueMessage
}

// Queue registers a handler for messages whose bodies are a T in JSON. A message whose body is not is moved to the
// poison queue at once, since later attempts would fail too.
func Queue[T any](a *App, name string, h func(ctx context.Context, m *Message[T]) error,
	options ...QueueOption) *Function {
	return a.Queue(name, func(ctx context.Context, raw QueueMessage) error {
		m := Message[T]{Raw: raw}
		if err := json.Unmarshal(raw.Body, &m.Body); err != nil {
			return Permanent(fmt.Errorf("the body is not of type %T: %w", m.Body, err))
		}
		return h(ctx, &m)
	}, options...)
}

// Wake makes every function that listens to the queue poll now, instead of at the end of its polling interval. Senders
// in the same process use it.
func (a *App) Wake(queue string) {
	a.mu.Lock()
	r := a.current
	a.mu.Unlock()
	if r == nil {
		return
	}
	for i, f := range a.functions {
		if f.trigger == queueTrigger && slices.Contains(f.queues(), queue) {
			r.listeners[i].wake()
		}
	}
}

// Run starts the app, waits until ctx is done, and stops it within Config.DrainTimeout. It returns nil if every handler
// returned, by itself or after its context was cancelled.
func (a *App) Run(ctx context.Context) error {
	if !a.config.KeepGC {
		defer gctuner.Default.Start()()
	}
	beat := a.config.Heartbeat
	if beat == 0 {
		beat = hostrow.Every
	}
	if err := a.start(ctx, beat); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := a.drainContext()
	defer cancel()
	return a.Stop(stop)
}

func (a *App) drainContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	if a.config.DrainTimeout < 0 {
		cancel()
		return ctx, cancel
	}
	timer := a.config.Clock.NewTimer(a.config.DrainTimeout)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// ErrNoFunction is returned for a name under which no function is registered.
var ErrNoFunction = errors.New("workers: the function does not exist")

var (
	errStarted     = errors.New("workers: the app is running already")
	errNoFunctions = errors.New("workers: the app has no functions")
)
