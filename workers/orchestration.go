package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/durable/call"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/workers/engine"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// Orchestration registers a workflow in the form of the engine in Config.Durable, for packages that make such forms.
// Programs call durable.Register:
//
//	app := workers.New(workers.Config{Durable: durable.NewEngine(durable.Options{})})
//	durable.Register(app, "order", func(ctx *durable.Context, o Order) (Receipt, error) { ... })
func (a *App) Orchestration(name string, o engine.Orchestrator, options ...CommonOption) *Function {
	f := register(a, name, trigger.OrchestrationTrigger, options)
	if o == nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: the orchestrator is nil", name))
	}
	a.durable.orchestrations = append(a.durable.orchestrations, orchestration{f, o})
	f.listen = listenDurable
	return f
}

// Activity registers a step of workflows. It runs at least once for each call by a workflow, through the app's
// middleware, on any instance of the app. A paused activity keeps what it has received until it is resumed.
func (a *App) Activity(name string, h engine.Activity, options ...CommonOption) *Function {
	f := register(a, name, trigger.ActivityTrigger, options)
	if h == nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: the handler is nil", name))
	}
	a.durable.activities = append(a.durable.activities, activity{f, h})
	f.listen = listenDurable
	return f
}

// Activity registers an activity whose input and output are a Go value's JSON.
func Activity[In, Out any](a *App, name string, h func(ctx context.Context, in In) (Out, error),
	options ...CommonOption) *Function {
	if h == nil {
		return a.Activity(name, nil, options...)
	}
	return a.Activity(name, func(ctx context.Context, input []byte) ([]byte, error) {
		var in In
		if len(input) > 0 {
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, fmt.Errorf("the input is not of type %T: %w", in, err)
			}
		}
		out, err := h(ctx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}, options...)
}

// Entity registers the entities of a name: objects with a state, which survive crashes, and operations, which workflows
// and clients call. It needs Config.Durable. Operations that are handled together are one call of the function: the
// app's middleware runs once for them.
func (a *App) Entity(name string, e engine.Entity, options ...CommonOption) *Function {
	f := register(a, name, trigger.EntityTrigger, options)
	if e == nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: the entity is nil", name))
	}
	a.durable.entities = append(a.durable.entities, entity{f, e})
	f.listen = listenDurable
	return f
}

type orchestration struct {
	function     *Function
	orchestrator engine.Orchestrator
}

type activity struct {
	function *Function
	handler  engine.Activity
}

type entity struct {
	function *Function
	entity   engine.Entity
}

// durableFunctions are the orchestrators, activities and entities of an app.
type durableFunctions struct {
	entities       []entity
	orchestrations []orchestration
	activities     []activity
}

// listenDurable makes one listener for all durable functions of an app, at the first of them.
func listenDurable(a *App, f *Function, storage *Storage) (trigger.Listener, error) {
	if a.config.Durable == nil {
		return nil, errors.New("workflows need Config.Durable: durable.NewEngine of workers/durable")
	}
	// One engine opens one hub, with which it runs the functions of all names. The others are waiting listeners, so that
	// the app has a listener for each function.
	first := (*Function)(nil)
	for _, other := range a.functions {
		if !other.isDurable() {
			continue
		}
		if first == nil {
			first = other
		}
		if other.core.Settings.Connection != first.core.Settings.Connection {
			return nil, fmt.Errorf("its connection is %q, that of %q is %q; a task hub is in one account",
				other.core.Settings.Connection, first.core.Name, first.core.Settings.Connection)
		}
	}
	if f != first {
		return waitingListener{}, nil
	}
	return newDurableListener(a, storage), nil
}

// clientListener makes the listener of an app whose engine runs no functions, and only gives handlers a client.
func (a *App) clientListener() (*durableListener, error) {
	storage, err := a.config.connect(connstr.DefaultConnection)
	if err != nil {
		return nil, err
	}
	return newDurableListener(a, storage), nil
}

// waitingListener represents a function that another listener serves.
type waitingListener struct{}

func (waitingListener) Listen(soft, _ context.Context) error { <-soft.Done(); return nil }

func (waitingListener) Wake() {}

// durableListener is the engine of an app at work.
type durableListener struct {
	app     *App
	storage *Storage
	run     atomic.Pointer[engine.Run]
	ready   chan struct{} // closed once the hub is open
	failed  chan struct{} // closed if the engine refuses what it was given
}

func newDurableListener(a *App, storage *Storage) *durableListener {
	return &durableListener{app: a, storage: storage, ready: make(chan struct{}), failed: make(chan struct{})}
}

func (l *durableListener) Wake() {}

// admit waits until handlers can have the engine's client, and returns false if soft is done before. Without the
// wait, a handler whose message was in the queue at the start would fail, and the message could become poison.
func (l *durableListener) admit(soft context.Context) bool {
	if l == nil {
		return true
	}
	select {
	case <-l.ready:
		return true
	case <-soft.Done():
		return false
	}
}

func (l *durableListener) Listen(soft, hard context.Context) error {
	a := l.app
	functions := engine.Functions{Orchestrations: map[string]engine.Orchestrator{}, Entities: map[string]engine.Entity{},
		Activities: map[string]engine.Activity{}}
	entities := map[string]func(context.Context, func(context.Context) error) error{}
	for _, e := range a.durable.entities {
		functions.Entities[e.function.core.Name] = e.entity
		entities[e.function.core.Name] = l.invoker(hard, e.function)
	}
	functions.Invoke = func(ctx context.Context, entity string, batch func(context.Context) error) error {
		return entities[entity](ctx, batch)
	}
	for _, o := range a.durable.orchestrations {
		functions.Orchestrations[o.function.core.Name] = o.orchestrator
	}
	for _, x := range a.durable.activities {
		functions.Activities[x.function.core.Name] = l.handler(hard, x)
	}
	run, err := l.begin(soft, functions)
	if run == nil {
		if err != nil {
			close(l.failed)
			a.config.Logger.Error("the workflows cannot run, and nothing that needs their hub starts", "err", err)
		}
		return err
	}
	l.run.Store(&run)
	close(l.ready)
	<-soft.Done()
	// Stop ends once the activities have: hard cancels those that still run then.
	return run.Stop(context.WithoutCancel(soft))
}

// begin starts the engine, and tries again while the account cannot be reached.
func (l *durableListener) begin(soft context.Context, functions engine.Functions) (engine.Run, error) {
	app := l.app.config
	app.Storage = l.storage // that of the functions' connection
	back := queues.PollingBackOff{Max: app.LockPeriod}
	for {
		run, err := app.Durable.Start(soft, app, functions)
		var refused *engine.SetupError
		if err == nil || errors.As(err, &refused) {
			return run, err
		}
		if soft.Err() != nil {
			return nil, nil
		}
		app.Logger.Warn("cannot open the task hub; trying again", "err", err)
		calls.NewNudge().Pause(soft, app.Clock, back.Empty(0.5))
	}
}

// handler runs an activity as an invocation of its function.
func (l *durableListener) handler(hard context.Context, x activity) engine.Activity {
	invoke := l.invoker(hard, x.function)
	return func(ctx context.Context, input []byte) ([]byte, error) {
		var output []byte
		err := invoke(ctx, func(ctx context.Context) error {
			var err error
			output, err = x.handler(ctx, input)
			return err
		})
		if err != nil {
			return nil, err // A stuck handler may still write its output.
		}
		return output, nil
	}
}

// invoker returns what runs a call of an activity or entity as an invocation of its function. The call has all that
// handlers of other triggers have: middleware, outputs, the invocation, and a context that is cancelled with a cause.
func (l *durableListener) invoker(hard context.Context,
	f *Function) func(ctx context.Context, call func(context.Context) error) error {
	a := l.app
	invoke := a.invoker(f, l.storage)
	log := a.config.Logger.With("function", f.core.Name)
	return func(ctx context.Context, run func(context.Context) error) error {
		// A paused function or a limit of rate holds the call back before it counts as in flight.
		if !f.core.Gate.Pass(ctx) {
			return context.Cause(ctx)
		}
		f.core.Stats.InFlight.Add(1)
		defer f.core.Stats.InFlight.Add(-1)
		i := &trigger.Invocation{ID: uuid.NewString(), Metadata: map[string]string{}}
		defer f.core.Stats.Call(i, a.config.Clock)()
		log := log.With("invocation_id", i.ID)
		if c, ok := call.Of(ctx); ok {
			log = log.With("instance", c.Instance, "task", c.Task, "attempt", c.Attempt)
		}
		both, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		// The hard stop cancels with its cause, which tells the engine to repeat the call elsewhere.
		defer context.AfterFunc(hard, func() { cancel(context.Cause(hard)) })()
		limits := calls.Supervision{Clock: a.config.Clock, Timeout: f.core.Settings.Timeout, Stuck: a.config.StuckTimeout,
			Log: log}
		err := calls.Supervise(both, limits, func(ctx context.Context) error {
			return invoke(trigger.WithInvocation(ctx, i), i, run)
		})
		if err != nil && both.Err() != nil {
			err = interrupted(both, err)
		}
		f.core.Stats.End(i, a.config.Clock.Now(), err)
		if err != nil {
			f.core.Stats.Fail(a.config.Clock.Now(), err)
			calls.LogFailure(log, err)
		}
		return err
	}
}

// interrupted adds the cause for which a call was cancelled to its error: ErrLeaseLost or ErrStopping. By it, the
// engine knows that the call has not failed, and runs again.
func interrupted(ctx context.Context, err error) error {
	cause := ErrStopping
	if errors.Is(context.Cause(ctx), ErrLeaseLost) {
		cause = ErrLeaseLost
	}
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

func (l *durableListener) Idle(ctx context.Context) (bool, error) {
	run := l.run.Load()
	if run == nil {
		return false, nil
	}
	return (*run).Idle(ctx)
}

// durableClients gives handlers the engine's client.
type durableClients struct{ engine engine.Durable[Config] }

// Wrap implements Middleware.
func (d durableClients) Wrap(next Handler) Handler {
	return func(ctx context.Context, mc *MiddlewareContext) error { return next(d.engine.WithClient(ctx), mc) }
}
