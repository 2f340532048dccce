// Package engine has what an engine of workflows and package workers exchange, apart from the handlers of programs, as
// database/sql/driver has for databases. A program that registers workflows needs package durable and not this one.
package engine

import "context"

// Functions are the functions that an app passes to its engine, by name.
type Functions struct {
	// Orchestrations and Entities hold what the app was given of types workers.Orchestrator and workers.Entity, which the
	// package of the engine has made.
	Orchestrations, Entities map[string]any
	// Activities run a step of a workflow: JSON in, JSON out, both empty for nothing. One that was interrupted returns an
	// error that wraps workers.ErrStopping or workers.ErrLeaseLost: it is then to run again.
	Activities map[string]func(ctx context.Context, input []byte) (output []byte, err error)
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
