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
)

// Triggers of workflows, by their names in Azure Functions.
const (
	orchestrationTrigger = "orchestrationTrigger"
	activityTrigger      = "activityTrigger"
	entityTrigger        = "entityTrigger"
)

// Orchestration registers a workflow in the form of the engine in Config.Durable, for packages that make such forms.
// Programs call durable.Register:
//
//	app := workers.New(workers.Config{Durable: durable.NewEngine(durable.Options{})})
//	durable.Register(app, "order", func(ctx *durable.Context, o Order) (Receipt, error) { ... })
func (a *App) Orchestration(name string, o engine.Orchestrator, options ...CommonOption) *Function {
	f := register(a, name, orchestrationTrigger, options)
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
	f := register(a, name, activityTrigger, options)
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
	f := register(a, name, entityTrigger, options)
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
func listenDurable(a *App, f *Function, storage *Storage) (listener, error) {
	if a.config.Durable == nil {
		return nil, errors.New("workflows need Config.Durable: durable.NewEngine of workers/durable")
	}
	first := (*Function)(nil)
	for _, other := range a.functions {
		if !other.isDurable() {
			continue
		}
		if first == nil {
			first = other
		}
		if other.settings.connection != first.settings.connection {
			return nil, fmt.Errorf("its connection is %q, that of %q is %q; a task hub is in one account",
				other.settings.connection, first.name, first.settings.connection)
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

func (waitingListener) listen(soft, _ context.Context) error { <-soft.Done(); return nil }
func (waitingListener) wake()                                {}

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

func (l *durableListener) wake() {}

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

func (l *durableListener) listen(soft, hard context.Context) error {
	a := l.app
	functions := engine.Functions{Orchestrations: map[string]engine.Orchestrator{}, Entities: map[string]engine.Entity{},
		Activities: map[string]engine.Activity{}}
	entities := map[string]func(context.Context, func(context.Context) error) error{}
	for _, e := range a.durable.entities {
		functions.Entities[e.function.name] = e.entity
		entities[e.function.name] = l.invoker(hard, e.function)
	}
	functions.Invoke = func(ctx context.Context, entity string, batch func(context.Context) error) error {
		return entities[entity](ctx, batch)
	}
	for _, o := range a.durable.orchestrations {
		functions.Orchestrations[o.function.name] = o.orchestrator
	}
	for _, x := range a.durable.activities {
		functions.Activities[x.function.name] = l.handler(hard, x)
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
	back := pollingBackOff{max: app.LockPeriod}
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
		newNudge().pause(soft, app.Clock, back.empty(0.5))
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
	wrapped := a.compose()
	log := a.config.Logger.With("function", f.name)
	return func(ctx context.Context, run func(context.Context) error) error {
		// A paused function or a limit of rate holds the call back before it counts as in flight.
		if !f.gate.pass(ctx) {
			return context.Cause(ctx)
		}
		f.stats.inFlight.Add(1)
		defer f.stats.inFlight.Add(-1)
		ic := &InvocationContext{InvocationID: uuid.NewString(), FunctionID: a.config.HostID + "/" + f.name,
			FunctionName: f.name, TriggerType: f.trigger,
			TriggerMetadata: map[string]string{}, call: run}
		defer f.stats.call(ic, a.config.Clock)()
		log := log.With("invocation_id", ic.InvocationID)
		if c, ok := call.Of(ctx); ok {
			log = log.With("instance", c.Instance, "task", c.Task, "attempt", c.Attempt)
		}
		both, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		// The hard stop cancels with its cause, which tells the engine to repeat the call elsewhere.
		defer context.AfterFunc(hard, func() { cancel(context.Cause(hard)) })()
		err := supervise(both, supervision{clock: a.config.Clock, timeout: f.settings.timeout, stuck: a.config.StuckTimeout,
			log: log}, func(ctx context.Context) error {
			return wrapped(bind(NewContext(ctx, ic), a, l.storage), &MiddlewareContext{ic})
		})
		if err != nil && both.Err() != nil {
			err = interrupted(both, err)
		}
		f.stats.end(ic, a.config.Clock.Now(), err)
		if err != nil {
			f.stats.fail(a.config.Clock.Now(), err)
			logFailure(log, err)
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

func (l *durableListener) idle(ctx context.Context) (bool, error) {
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

// fromQueue reports whether the function's work comes as messages of a queue that is its own.
func (f *Function) fromQueue() bool {
	return f.trigger != timerTrigger && f.trigger != scheduleTrigger && !f.isDurable() && !f.follows
}

// isDurable reports whether the app's engine runs the function.
func (f *Function) isDurable() bool {
	return f.trigger == orchestrationTrigger || f.trigger == activityTrigger || f.trigger == entityTrigger
}
