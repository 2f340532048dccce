package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/task"

	"github.com/lazuli-storage/lazuli/workers"
)

// Context lets a workflow call activities and other workflows, and wait for timers and events.
type Context = task.OrchestrationContext

// RetryPolicy defines when and how often a failed activity is called again. Its fields: MaxAttempts, the first one
// included; InitialRetryInterval, which must be positive; BackoffCoefficient, by which each pause is longer than the
// last, default 1; MaxRetryInterval and RetryTimeout, 0 for none; Handle, which says for which errors to try again.
type RetryPolicy = task.RetryPolicy

// ErrTimeout means that an event was not received before the timeout.
var ErrTimeout = task.ErrTaskCanceled

// Engine runs the workflows of an app: it goes into workers.Config.Durable.
type Engine struct {
	options Options
	worker  WorkerOptions

	ready chan struct{} // closed once there is a client

	mu     sync.Mutex // guards client
	client *Client
}

var _ workers.DurableEngine = (*Engine)(nil)

// NewEngine returns an engine. Storage, clock and logger are the app's unless the options say otherwise. The hub is
// made when the app starts.
func NewEngine(options Options, worker ...WorkerOptions) *Engine {
	e := &Engine{options: options, ready: make(chan struct{})}
	if len(worker) > 0 {
		e.worker = worker[0]
	}
	return e
}

// ErrNotStarted means that the app of the engine has not started yet, or could not open its hub.
var ErrNotStarted = errors.New("durable: the app has not started")

// Client returns a client of the app's hub, once the app has started.
func (e *Engine) Client() (*Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client == nil {
		return nil, ErrNotStarted
	}
	return e.client, nil
}

// WaitClient waits until the app has opened its hub, and returns a client of it.
func (e *Engine) WaitClient(ctx context.Context) (*Client, error) {
	select {
	case <-e.ready:
		return e.Client()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNotStarted, context.Cause(ctx))
	}
}

type clientKey struct{}

// WithClient implements workers.DurableEngine.
func (e *Engine) WithClient(ctx context.Context) context.Context {
	if c, err := e.Client(); err == nil {
		return context.WithValue(ctx, clientKey{}, c)
	}
	return ctx
}

// ClientFromContext returns the client of the app that a handler's context belongs to. Handlers of all triggers have it
// from their first call on, activities and operations of entities too. It is nil and false outside of handlers, and in
// apps without an engine; [Start] returns ErrNoClient then.
func ClientFromContext(ctx context.Context) (*Client, bool) {
	c, ok := ctx.Value(clientKey{}).(*Client)
	return c, ok
}

// orchestrator is a workers.Orchestrator of this engine.
type orchestrator struct{ run task.Orchestrator }

// OrchestratorOf implements workers.Orchestrator.
func (orchestrator) OrchestratorOf() string { return "durabletask-go" }

// Orchestrator makes a workflow of a function whose input and output are a Go value's JSON. The function runs again
// from its beginning at every step: it must be deterministic, take the time from Context.CurrentTimeUtc, and use
// activities for all effects.
func Orchestrator[In, Out any](f func(ctx *Context, in In) (Out, error)) workers.Orchestrator {
	if f == nil {
		return nil
	}
	return orchestrator{func(ctx *Context) (any, error) {
		var in In
		if err := ctx.GetInput(&in); err != nil {
			return nil, fmt.Errorf("the input is not a %T: %w", in, err)
		}
		return f(ctx, in)
	}}
}

// RawOrchestrator makes a workflow of a function of durabletask-go.
func RawOrchestrator(f task.Orchestrator) workers.Orchestrator { return orchestrator{f} }

// Call runs an activity and waits for its result.
func Call[Out any](ctx *Context, activity string, in any) (Out, error) {
	return Await[Out](ctx.CallActivity(activity, task.WithActivityInput(in)))
}

// CallTask begins an activity without waiting for its result: [Await], [WhenAll] and [WhenAny] do.
func CallTask(ctx *Context, activity string, in any) task.Task {
	return ctx.CallActivity(activity, task.WithActivityInput(in))
}

// CallWithRetry is Call, tried again as the policy says.
func CallWithRetry[Out any](ctx *Context, activity string, in any, policy RetryPolicy) (Out, error) {
	return Await[Out](ctx.CallActivity(activity, task.WithActivityInput(in), task.WithActivityRetryPolicy(&policy)))
}

// CallWorkflowWithRetry is CallWorkflow, tried again as the policy says.
func CallWorkflowWithRetry[Out any](ctx *Context, workflow string, in any, policy RetryPolicy) (Out, error) {
	return Await[Out](ctx.CallSubOrchestrator(workflow, task.WithSubOrchestratorInput(in),
		task.WithSubOrchestrationRetryPolicy(&policy)))
}

// CallWorkflow runs another workflow as part of this one and waits for its result.
func CallWorkflow[Out any](ctx *Context, workflow string, in any) (Out, error) {
	return Await[Out](ctx.CallSubOrchestrator(workflow, task.WithSubOrchestratorInput(in)))
}

// WaitForEvent waits for an event; with a negative timeout, it waits without a limit. After the timeout it returns
// ErrTimeout.
func WaitForEvent[T any](ctx *Context, name string, timeout time.Duration) (T, error) {
	return Await[T](ctx.WaitForSingleEvent(name, timeout))
}

// Sleep waits for d, however long.
func Sleep(ctx *Context, d time.Duration) error { return ctx.CreateTimer(d).Await(nil) }

// Await waits for a task and returns its result.
func Await[Out any](t task.Task) (Out, error) {
	var out Out
	err := t.Await(&out)
	if err != nil {
		err = withFailure(t, err)
	}
	return out, err
}

// Start implements workers.DurableEngine.
func (e *Engine) Start(ctx context.Context, setup workers.DurableSetup) (workers.DurableRun, error) {
	o := e.options
	if o.Storage == nil {
		o.Storage = setup.Storage
	}
	if o.Clock == nil {
		o.Clock = setup.Clock
	}
	if o.Logger == nil {
		o.Logger = setup.Logger
	}
	b, err := New(o)
	if err != nil {
		return nil, &workers.DurableSetupError{Err: err}
	}
	r := task.NewTaskRegistry()
	x := &goExecutor{entities: map[string]entityRunner{}, versions: map[string]string{},
		failures: map[string]error{}}
	calls := map[string]ExternalCall{}
	for name, any := range setup.Orchestrations {
		if x, ok := any.(external); ok {
			calls[name] = x.call
			continue
		}
		own, ok := any.(orchestrator)
		if !ok {
			return nil, &workers.DurableSetupError{Err: fmt.Errorf(
				"durable: orchestration %q is not one of durable.Orchestrator", name)}
		}
		if err := r.AddOrchestratorN(name, x.informed(own.run)); err != nil {
			return nil, &workers.DurableSetupError{Err: err}
		}
	}
	for name, h := range setup.Activities {
		if err := r.AddActivityN(name, activityOf(h)); err != nil {
			return nil, &workers.DurableSetupError{Err: err}
		}
	}
	for name, any := range setup.Entities {
		own, ok := any.(entityRunner)
		if !ok {
			return nil, &workers.DurableSetupError{Err: fmt.Errorf("durable: entity %q is not one of durable.NewEntity", name)}
		}
		if _, elsewhere := any.(externalEntity); !elsewhere { // Those call the app's functions themselves.
			own = invoked{own, name, setup.Invoke}
		}
		x.entities[strings.ToLower(name)] = own
	}
	if len(setup.Orchestrations)+len(setup.Activities)+len(setup.Entities) == 0 {
		return e.startClient(ctx, b)
	}
	functions := map[WorkKind][]string{WorkOrchestration: slices.Collect(maps.Keys(setup.Orchestrations)),
		WorkActivity: slices.Collect(maps.Keys(setup.Activities)), WorkEntity: slices.Collect(maps.Keys(x.entities))}
	if err := b.declare(functions); err != nil {
		return nil, &workers.DurableSetupError{Err: err}
	}
	x.Executor = task.NewTaskExecutor(r)
	var executor backend.Executor = externals{x, calls}
	if len(x.entities) > 0 {
		executor = entityExecutor{executor, x}
	}
	w := b.NewWorker(executor, e.worker)
	if err := w.Start(context.WithoutCancel(ctx)); errors.Is(err, ErrForeignHub) {
		return nil, &workers.DurableSetupError{Err: err}
	} else if err != nil {
		return nil, err
	}
	e.publish(b)
	return &engineRun{b, w}, nil
}

// publish makes the client of an open hub known.
func (e *Engine) publish(b *Backend) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client == nil {
		close(e.ready)
	}
	e.client = b.Client()
}

// startClient opens the hub, which it makes if it is absent, for an app that only uses its client. It takes no part in
// the hub's work.
func (e *Engine) startClient(ctx context.Context, b *Backend) (workers.DurableRun, error) {
	if err := b.CreateTaskHub(ctx); err != nil && !errors.Is(err, backend.ErrTaskHubExists) {
		return nil, err
	}
	e.publish(b)
	return clientRun{}, nil
}

// clientRun is the run of an engine without functions.
type clientRun struct{}

// Stop implements workers.DurableRun.
func (clientRun) Stop(context.Context) error { return nil }

// Idle implements workers.DurableRun.
func (clientRun) Idle(context.Context) (bool, error) { return true, nil }

// invoked runs the batches of an entity as calls of the app's function.
type invoked struct {
	entityRunner
	name   string
	invoke func(ctx context.Context, entity string, batch func(context.Context) error) error
}

func (e invoked) runBatch(ctx context.Context, batch *EntityBatch) (*EntityResult, error) {
	var result *EntityResult
	err := e.invoke(ctx, e.name, func(ctx context.Context) error {
		var err error
		result, err = e.entityRunner.runBatch(ctx, batch)
		return err
	})
	if err != nil {
		return nil, err // A stuck operation may still write its result.
	}
	return result, nil
}

type engineRun struct {
	b *Backend
	w backend.TaskHubWorker
}

// Stop implements workers.DurableRun.
func (r *engineRun) Stop(ctx context.Context) error { return r.w.Shutdown(ctx) }

// Idle implements workers.DurableRun.
func (r *engineRun) Idle(ctx context.Context) (bool, error) { return r.b.Idle(ctx) }

// Idle reports whether this process has no work in progress and no queue of the hub has a visible message. It is for
// tests: if other processes use the hub, the result can be out of date.
func (b *Backend) Idle(ctx context.Context) (bool, error) {
	if !b.quiet() {
		return false, nil
	}
	defer b.polls.Exclude()() // A message that was just received is neither visible nor known here.
	queues := append([]queue{b.workItems}, b.control...)
	if b.apps != nil && b.apps.isOneOf() {
		queues = append(queues, b.shared)
	}
	for i, q := range queues {
		got, err := q.client.PeekMessage(ctx, nil)
		if err != nil && !isNotFound(err) {
			return false, fmt.Errorf("durable: check for messages: %w", err)
		}
		if len(got.Messages) > 0 {
			if partition := i - 1; partition >= 0 && partition < len(b.control) && !b.leases.owns(partition) {
				b.leases.balanceEarly()
			}
			return false, nil
		}
	}
	return b.quiet(), nil
}

// quiet reports whether this process has no work in progress.
func (b *Backend) quiet() bool {
	b.sessions.mu.Lock()
	sessions := len(b.sessions.all)
	b.sessions.mu.Unlock()
	b.activities.mu.Lock()
	running := len(b.activities.running)
	b.activities.mu.Unlock()
	return !b.late.hurry() && sessions == 0 && running == 0 && b.deleting.count.Load() == 0
}
