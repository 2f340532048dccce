package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/external"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable/internal/inside"
	"github.com/lazuli-storage/lazuli/workers/engine"
)

// Engine runs the workflows of an app: it goes into workers.Config.Durable.
type Engine struct {
	options Options

	ready chan struct{} // closed once there is a client

	mu     sync.Mutex // guards client
	client *Client
}

var _ engine.Durable[workers.Config] = (*Engine)(nil)

// NewEngine returns an engine. Storage, clock and logger are the app's unless the options say otherwise. The hub is
// made when the app starts.
func NewEngine(options Options) *Engine {
	return &Engine{options: options, ready: make(chan struct{})}
}

var errNotStarted = fmt.Errorf("%w: the app has not started", ErrNoClient)

// Client returns a client of the app's hub, once the app has started; ErrNoClient before.
func (e *Engine) Client() (*Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client == nil {
		return nil, errNotStarted
	}
	return e.client, nil
}

// WaitClient waits until the app has opened its hub, and returns a client of it; ErrNoClient if ctx is done before.
func (e *Engine) WaitClient(ctx context.Context) (*Client, error) {
	select {
	case <-e.ready:
		return e.Client()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errNotStarted, context.Cause(ctx))
	}
}

type clientKey struct{}

// WithClient implements engine.Durable.
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

// Start implements engine.Durable.
func (e *Engine) Start(ctx context.Context, app workers.Config, functions engine.Functions) (engine.Run, error) {
	o := e.options
	if o.Storage == nil {
		o.Storage = app.Storage
	}
	if o.Clock == nil {
		o.Clock = app.Clock
	}
	if o.Logger == nil {
		o.Logger = app.Logger
	}
	b, err := hub.New(hub.Options(o))
	if err != nil {
		return nil, &engine.SetupError{Err: err}
	}
	x := &goExecutor{workflows: map[string]func(*Context) (any, error){},
		activities: functions.Activities,
		entities:   map[string]entityBatch{}}
	calls := map[string]external.Orchestrator{}
	// A workflow whose code is elsewhere, as in a function host, is not replayed here: its caller gets the history.
	for name, any := range functions.Orchestrations {
		if elsewhere, ok := any.(external.Orchestrator); ok {
			calls[name] = elsewhere
			continue
		}
		own, ok := any.(orchestrator)
		if !ok {
			return nil, &engine.SetupError{Err: fmt.Errorf(
				"durable: orchestration %q is not one of durable.Register", name)}
		}
		x.workflows[name] = own.run
	}
	for name, any := range functions.Entities {
		if elsewhere, ok := any.(external.Entity); ok { // Those call the app's functions themselves.
			x.entities[strings.ToLower(name)] = externalEntity(elsewhere)
			continue
		}
		own := inside.EntityBatch(any)
		if own == nil {
			return nil, &engine.SetupError{Err: fmt.Errorf("durable: entity %q is not an entity.Kind", name)}
		}
		x.entities[strings.ToLower(name)] = invoked(own, name, functions.Invoke)
	}
	// Without functions the process takes no partition: it would hold back work that it cannot do.
	if len(functions.Orchestrations)+len(functions.Activities)+len(functions.Entities) == 0 {
		return e.startClient(ctx, b)
	}
	names := map[workkind.Kind][]string{
		workkind.Orchestration: slices.Collect(maps.Keys(functions.Orchestrations)),
		workkind.Activity:      slices.Collect(maps.Keys(functions.Activities)),
		workkind.Entity:        slices.Collect(maps.Keys(x.entities)),
	}
	if err := b.Declare(names); err != nil {
		return nil, &engine.SetupError{Err: err}
	}
	var executor backend.Executor = externals{x, calls}
	if len(x.entities) > 0 {
		executor = entityExecutor{executor, x}
	}
	// The worker outlives the context of the start: it ends with Stop, which lets running work end.
	w := b.NewWorker(executor)
	if err := w.Start(context.WithoutCancel(ctx)); errors.Is(err, record.ErrForeignHub) {
		return nil, &engine.SetupError{Err: err}
	} else if err != nil {
		return nil, err
	}
	e.publish(b)
	return &engineRun{b, w}, nil
}

// publish makes the client of an open hub known.
func (e *Engine) publish(b *hub.Backend) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client == nil {
		close(e.ready)
	}
	e.client = &Client{b.Client()}
}

// startClient opens the hub, which it makes if it is absent, for an app that only uses its client. It takes no part in
// the hub's work.
func (e *Engine) startClient(ctx context.Context, b *hub.Backend) (engine.Run, error) {
	if err := b.CreateTaskHub(ctx); err != nil && !errors.Is(err, backend.ErrTaskHubExists) {
		return nil, err
	}
	e.publish(b)
	return clientRun{}, nil
}

// clientRun is the run of an engine without functions.
type clientRun struct{}

// Stop implements engine.Run.
func (clientRun) Stop(context.Context) error { return nil }

// Idle implements engine.Run.
func (clientRun) Idle(context.Context) (bool, error) { return true, nil }

// invoked runs the batches of an entity as calls of the app's function.
func invoked(run func(context.Context, *entitybatch.Batch) *entitybatch.Result, name string,
	invoke func(ctx context.Context, entity string, batch func(context.Context) error) error) entityBatch {
	return func(ctx context.Context, batch *entitybatch.Batch) (*entitybatch.Result, error) {
		var result *entitybatch.Result
		err := invoke(ctx, name, func(ctx context.Context) error {
			result = run(ctx, batch)
			return nil
		})
		if err != nil {
			return nil, err // A stuck operation may still write its result.
		}
		return result, nil
	}
}

type engineRun struct {
	b *hub.Backend
	w backend.TaskHubWorker
}

// Stop implements engine.Run.
func (r *engineRun) Stop(ctx context.Context) error { return r.w.Shutdown(ctx) }

// Idle implements engine.Run.
func (r *engineRun) Idle(ctx context.Context) (bool, error) { return r.b.Idle(ctx) }
