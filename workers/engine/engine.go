// Package engine has what an engine of workflows and package workers exchange, as database/sql/driver has for
// databases. A program that registers workflows needs package durable and not this one.
package engine

import "context"

// Durable runs the orchestrations, activities and entities of an app: durable.NewEngine makes one, for
// workers.Config.Durable. It is an interface so that an app without workflows does not link the libraries that
// workflows need. App is workers.Config, which this package cannot import.
type Durable[App any] interface {
	// Start starts functions with the Storage, Clock and Logger of app; without any, it only opens the hub for the client
	// of WithClient. It returns what stops them, or an error after stopping everything it has started.
	Start(ctx context.Context, app App, functions Functions) (Run, error)
	// WithClient returns a context from which handlers can take the engine's client.
	WithClient(ctx context.Context) context.Context
}

// Orchestrator is a workflow in the form of the app's engine: durable.Register makes one of a function.
type Orchestrator interface {
	// OrchestratorOf names the engine, for messages about one that does not fit.
	OrchestratorOf() string
}

// Entity is a kind of entities in the form of the app's engine: *entity.Kind of workers/durable is one.
type Entity interface {
	// EntityOf names the engine, for messages about one that does not fit.
	EntityOf() string
}

// Activity runs a step of workflows: JSON in, JSON out, both empty for nothing. One that was interrupted returns an
// error that wraps workers.ErrStopping or workers.ErrLeaseLost: it is then to run again.
type Activity func(ctx context.Context, input []byte) (output []byte, err error)

// Functions are the functions that an app passes to its engine, by name.
type Functions struct {
	Orchestrations map[string]Orchestrator
	Entities       map[string]Entity
	Activities     map[string]Activity
	// Invoke runs a batch of operations of an entity, by the entity's name, as a call of the app's function: with its
	// middleware, and a context as every handler has it. An error means that nothing of the batch has happened.
	Invoke func(ctx context.Context, entity string, batch func(ctx context.Context) error) error
}

// Run is an engine at work.
type Run interface {
	// Stop takes no new work and returns once what runs has ended.
	Stop(ctx context.Context) error
	// Idle reports whether no work is in progress or ready. An engine that was started without functions is idle.
	Idle(ctx context.Context) (bool, error)
}

// SetupError means that the engine cannot run what it was given, however often it tries.
type SetupError struct{ Err error }

// Error implements error.
func (e *SetupError) Error() string { return "workers: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *SetupError) Unwrap() error { return e.Err }
