package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/gctuner"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/internal/blobtrigger"
	"github.com/lazuli-storage/lazuli/workers/internal/locks"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
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
	openQueue  func(*Storage, string) (queues.Client, error)
	openHost   func(*Storage) (locks.Store, error)

	mu      sync.Mutex // guards current
	current *run       // nil when not started
}

// New returns an app without functions.
func New(config Config) *App {
	a := &App{config: config.withDefaults(), names: map[string]bool{}, openQueue: openQueueOf, openHost: openHostOf}
	if config.Durable != nil {
		a.Use(durableClients{config.Durable})
	}
	return a
}

// HostID returns the Config.HostID of the app, or the default that it has without one.
func (a *App) HostID() string { return a.config.HostID }

// Function is a registered handler with its trigger.
type Function struct {
	core    *trigger.Function
	follows bool // registered by FollowTable
	// listen creates the trigger's listener for one run of the app.
	listen func(a *App, f *Function, storage *Storage) (trigger.Listener, error)
	blobs  *blobtrigger.Events // of a blob trigger
}

// source returns what the function listens to, as attributes of a log record.
func (f *Function) source() []any {
	s := &f.core.Settings
	switch f.core.Trigger {
	case trigger.BlobTrigger:
		return []any{"path", s.Path}
	case trigger.TableTrigger:
		return []any{"table", s.Table}
	case trigger.TimerTrigger:
		return []any{"schedule", s.Schedule}
	case trigger.OrchestrationTrigger, trigger.ActivityTrigger, trigger.EntityTrigger, trigger.ScheduleTrigger:
		return nil
	}
	return []any{"queue", strings.Join(f.queues(), ", ")}
}

// queues returns the names of the queues that a function of the queue trigger listens to.
func (f *Function) queues() []string { return f.core.Queues() }

// Name returns the name under which the function is registered.
func (f *Function) Name() string { return f.core.Name }

// Queue registers a handler for the messages of a queue, by default the queue with the function's name. Start reports
// invalid settings.
func (a *App) Queue(name string, h QueueHandler, options ...QueueOption) *Function {
	f := register(a, name, trigger.QueueTrigger, options)
	if h == nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: the handler is nil", name))
	}
	if p := f.core.Settings.Priority; p != nil && len(p.Names) > 0 {
		f.core.Settings.QueueName = p.Names[0]
	}
	if err := f.core.Settings.ValidateQueue(); err != nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: %w", name, err))
	}
	f.listen = func(a *App, f *Function, storage *Storage) (trigger.Listener, error) {
		return trigger.NewMessageListener(a.environment(f, storage), f.core, h)
	}
	return f
}

// register adds a function. O is the option type of its trigger; options in Config.Defaults that are not an O are
// skipped.
func register[O Option](a *App, name, kind string, options []O) *Function {
	f := &Function{core: trigger.NewFunction(name, kind)}
	// An option of the function replaces what a default has set: it comes later.
	for _, o := range a.config.Defaults {
		if o, ok := o.(O); ok {
			o.apply(&f.core.Settings)
		}
	}
	for _, o := range options {
		o.apply(&f.core.Settings)
	}
	switch {
	case strings.TrimSpace(name) == "":
		a.errs = append(a.errs, errors.New("workers: a function has no name"))
	case a.names[name]:
		a.errs = append(a.errs, fmt.Errorf("workers: two functions are called %q", name))
	}
	// It is registered in spite of a mistake: Start returns all mistakes at once.
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
		if f.core.Trigger == trigger.QueueTrigger && slices.Contains(f.queues(), queue) {
			r.listeners[i].Wake()
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

// fromQueue reports whether the function's work comes as messages of a queue that is its own.
func (f *Function) fromQueue() bool {
	timed := f.core.Trigger == trigger.TimerTrigger || f.core.Trigger == trigger.ScheduleTrigger
	return !timed && !f.isDurable() && !f.follows
}

// isDurable reports whether the app's engine runs the function.
func (f *Function) isDurable() bool {
	switch f.core.Trigger {
	case trigger.OrchestrationTrigger, trigger.ActivityTrigger, trigger.EntityTrigger:
		return true
	}
	return false
}
