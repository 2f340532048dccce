package durable

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/workers/engine"
)

// orchestrator is an engine.Orchestrator of this engine.
type orchestrator struct {
	run func(ctx *Context) (any, error)
}

// OrchestratorOf implements engine.Orchestrator.
func (orchestrator) OrchestratorOf() string { return "durable" }

// orchestratorOf makes a workflow of a function.
func orchestratorOf[In, Out any](f func(ctx *Context, in In) (Out, error)) engine.Orchestrator {
	if f == nil {
		return nil // The app refuses it, and names the workflow.
	}
	return orchestrator{func(ctx *Context) (any, error) {
		var in In
		if err := ctx.GetInput(&in); err != nil {
			return nil, fmt.Errorf("the input is not a %T: %w", in, err)
		}
		return f(ctx, in)
	}}
}

// Call runs an activity and waits for its result.
func Call[Out any](ctx *Context, activity string, in any, options ...CallOption) (Out, error) {
	return Await[Out](ctx.CallActivity(activity, withInput(in, options)...))
}

// withInput puts the input first, so that an option WithInput of the caller replaces it. The caller's slice is not
// written to.
func withInput(in any, options []CallOption) []CallOption {
	return slices.Insert(slices.Clone(options), 0, WithInput(in))
}

// CallWorkflow runs another workflow as part of this one and waits for its result.
func CallWorkflow[Out any](ctx *Context, workflow string, in any, options ...CallOption) (Out, error) {
	return Await[Out](ctx.CallSubOrchestrator(workflow, withInput(in, options)...))
}

// WaitForEvent waits for an event; with a negative timeout, it waits without a limit. After the timeout it returns
// ErrTimeout.
func WaitForEvent[T any](ctx *Context, name string, timeout time.Duration) (T, error) {
	return Await[T](ctx.WaitForSingleEvent(name, timeout))
}

// CallEntity runs an operation of an entity and waits for its result. It returns an error if the operation has failed.
func CallEntity[Out any](ctx *Context, id, operation string, in any) (Out, error) {
	return Await[Out](ctx.CallEntity(id, operation, in))
}

// Await waits for a task and returns its result.
func Await[Out any](t Task) (Out, error) {
	var out Out
	err := t.Await(&out)
	return out, err
}

// WhenAll waits for all tasks and returns their results in the order of the tasks. If some have failed, the error joins
// their errors, and their results are zero values.
//
//	var calls []durable.Task
//	for _, city := range cities {
//		calls = append(calls, ctx.CallActivity("forecast", durable.WithInput(city)))
//	}
//	forecasts, err := durable.WhenAll[Forecast](calls...)
func WhenAll[Out any](tasks ...Task) ([]Out, error) {
	results := make([]Out, len(tasks))
	var errs []error
	// The tasks run already: to wait for one after the other takes as long as the slowest of them.
	for i, t := range tasks {
		if err := t.Await(&results[i]); err != nil {
			errs = append(errs, fmt.Errorf("task %d: %w", i, err))
		}
	}
	return results, errors.Join(errs...)
}
