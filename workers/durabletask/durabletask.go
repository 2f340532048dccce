// Package durabletask has the names of middleware/durabletask of the Azure Functions worker for Go, so that a program
// moves by changing its imports:
//
//	app := workers.New(workers.Config{Durable: durable.NewEngine(durable.Options{})})
//	app.Use(durabletask.Middleware(
//		durabletask.WithOrchestrator("HelloCities", HelloCities),
//		durabletask.WithActivity("SayHello", SayHello),
//	))
//
// Package task below it has the names of github.com/microsoft/durabletask-go/task that orchestrators use.
//
// What differs: workflows run in the app itself, on the storage account, where Azure Functions has its host run them;
// so there is no gRPC endpoint to name, and the client has no connection to close. New programs have typed functions in
// package durable.
package durabletask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
	"github.com/lazuli-storage/lazuli/workers/durabletask/task"
	"github.com/lazuli-storage/lazuli/workers/engine"
)

// Durable is middleware that brings orchestrators and activities to an app, and a client to its handlers.
type Durable struct {
	register []func(*workers.App)
	closed   bool
}

var _ workers.Middleware = (*Durable)(nil)

// Option configures a Durable.
type Option func(*Durable)

// WithOrchestrator registers an orchestrator.
func WithOrchestrator(name string, o task.Orchestrator) Option {
	return func(d *Durable) { d.Orchestrator(name, o) }
}

// WithActivity registers an activity; see [Durable.Activity].
func WithActivity(name string, fn any) Option { return func(d *Durable) { d.Activity(name, fn) } }

// WithEntity registers the entities of a name.
func WithEntity(name string, e engine.Entity) Option {
	return func(d *Durable) { d.Entity(name, e) }
}

// Middleware returns a Durable for workers.App.Use.
func Middleware(options ...Option) *Durable {
	d := &Durable{}
	for _, o := range options {
		o(d)
	}
	return d
}

// Orchestrator registers an orchestrator, and returns d. It panics once the app has taken d over.
func (d *Durable) Orchestrator(name string, o task.Orchestrator) *Durable {
	d.open(name)
	d.register = append(d.register, func(a *workers.App) { register(a, name, o) })
	return d
}

// register registers an orchestrator, which takes its input from its context.
func register(a *workers.App, name string, o task.Orchestrator) {
	var f func(ctx *durable.Context, _ json.RawMessage) (any, error)
	if o != nil { // The app refuses nil, and names the workflow.
		f = func(ctx *durable.Context, _ json.RawMessage) (any, error) { return o(ctx) }
	}
	durable.Register(a, durable.Workflow[json.RawMessage, any](name), f)
}

// Entity registers the entities of a name, and returns d. It panics once the app has taken d over.
func (d *Durable) Entity(name string, e engine.Entity) *Durable {
	d.open(name)
	d.register = append(d.register, func(a *workers.App) { a.Entity(name, e) })
	return d
}

// Activity registers an activity, and returns d. fn is a func(context.Context, In) (Out, error); In and Out may be left
// out. It panics if it is not, and once the app has taken d over.
func (d *Durable) Activity(name string, fn any) *Durable {
	d.open(name)
	h := activity(name, fn)
	d.register = append(d.register, func(a *workers.App) { a.Activity(name, h) })
	return d
}

func (d *Durable) open(name string) {
	if d.closed {
		panic(fmt.Sprintf("durabletask: %q is registered after App.Use; the app has taken over the functions by then", name))
	}
}

// Register implements workers.Extension.
func (d *Durable) Register(a *workers.App) {
	d.closed = true
	for _, r := range d.register {
		r(a)
	}
}

// Wrap implements workers.Middleware: the app itself gives handlers the client.
func (*Durable) Wrap(next workers.Handler) workers.Handler { return next }

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

func activity(name string, fn any) engine.Activity {
	f := reflect.ValueOf(fn)
	if fn == nil || f.Kind() != reflect.Func || f.IsNil() {
		panic(fmt.Sprintf("durabletask: activity %q is not a function", name))
	}
	t := f.Type()
	in, out := t.NumIn() == 2, t.NumOut() == 2
	if t.IsVariadic() || t.NumIn() != 1 && !in || t.NumOut() != 1 && !out || t.In(0) != contextType ||
		t.Out(t.NumOut()-1) != errorType {
		panic(fmt.Sprintf("durabletask: activity %q is %v, not a func(context.Context[, In]) ([Out, ]error)", name, t))
	}
	return func(ctx context.Context, input []byte) ([]byte, error) {
		arguments := []reflect.Value{reflect.ValueOf(ctx)}
		if in {
			v := reflect.New(t.In(1))
			if len(input) > 0 {
				if err := json.Unmarshal(input, v.Interface()); err != nil {
					return nil, fmt.Errorf("durabletask: the input is not a %v: %w", t.In(1), err)
				}
			}
			arguments = append(arguments, v.Elem())
		}
		results := f.Call(arguments)
		if err, _ := results[len(results)-1].Interface().(error); err != nil || !out {
			return nil, err
		}
		return json.Marshal(results[0].Interface())
	}
}

// ErrInstanceNotFound: no instance has the ID.
var ErrInstanceNotFound = durable.ErrInstanceNotFound

// Client starts and steers orchestrations.
type Client struct{ inner *durable.Client }

// Close does nothing: the client has no connection of its own.
func (c *Client) Close() error { return nil }

// ClientFromContext returns the client for a handler of the app. It is false outside of handlers, and in an app without
// Config.Durable.
func ClientFromContext(ctx context.Context) (*Client, bool) {
	if ctx == nil {
		return nil, false
	}
	if c, ok := durable.ClientFromContext(ctx); ok {
		return &Client{c}, true
	}
	return nil, false
}

// text returns a value's JSON; "" for nil.
func text(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	b, err := json.Marshal(v)
	return string(b), err
}

// ScheduleNewOrchestration starts an instance with an input that can be written as JSON, and returns its ID.
func (c *Client) ScheduleNewOrchestration(ctx context.Context, name string, input any) (string, error) {
	in, err := text(input)
	if err != nil {
		return "", err
	}
	return c.inner.Start(ctx, name, durable.StartOptions{Input: in})
}

// RaiseEvent sends an event to an instance.
func (c *Client) RaiseEvent(ctx context.Context, instanceID, eventName string, payload any) error {
	data, err := text(payload)
	if err != nil {
		return err
	}
	return c.inner.RaiseEvent(ctx, instanceID, eventName, data)
}

// Terminate ends an instance and its sub-orchestrations.
func (c *Client) Terminate(ctx context.Context, instanceID, reason string) error {
	return c.inner.Terminate(ctx, instanceID, reason, true)
}

// Suspend keeps an instance from going on.
func (c *Client) Suspend(ctx context.Context, instanceID, reason string) error {
	return c.inner.Suspend(ctx, instanceID, reason)
}

// Resume ends a Suspend.
func (c *Client) Resume(ctx context.Context, instanceID, reason string) error {
	return c.inner.Resume(ctx, instanceID, reason)
}

// Purge deletes the history and payloads of an instance that has ended.
func (c *Client) Purge(ctx context.Context, instanceID string) error {
	return c.inner.Purge(ctx, instanceID)
}

// SignalEntity sends an operation to an entity with an input that can be written as JSON. It does not wait for it.
func (c *Client) SignalEntity(ctx context.Context, entityID, operation string, input any) error {
	in, err := text(input)
	if err != nil {
		return err
	}
	return c.inner.SignalEntity(ctx, entityID, operation, entity.SignalOptions{Input: in})
}

// GetEntityState reads an entity's state, JSON, into state. It is false if the entity does not exist or has no state.
func (c *Client) GetEntityState(ctx context.Context, entityID string, state any) (bool, error) {
	e, err := c.inner.Entity(ctx, entityID, true)
	if errors.Is(err, durable.ErrEntityNotFound) || err == nil && e.State == nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal([]byte(*e.State), state)
}

// GetStatus returns the state of an instance, or ErrInstanceNotFound.
func (c *Client) GetStatus(ctx context.Context, instanceID string) (*OrchestrationStatus, error) {
	i, err := c.inner.Get(ctx, instanceID)
	if err != nil {
		return nil, err
	}
	return statusOf(i), nil
}

// WaitForCompletion waits until an instance does not run any more.
func (c *Client) WaitForCompletion(ctx context.Context, instanceID string) (*OrchestrationStatus, error) {
	i, err := c.inner.Wait(ctx, instanceID)
	if err != nil {
		return nil, err
	}
	return statusOf(i), nil
}
