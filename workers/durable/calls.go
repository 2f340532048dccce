package durable

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
)

// orchestrator is a workers.Orchestrator of this engine.
type orchestrator struct {
	run func(ctx *Context) (any, error)
}

// OrchestratorOf implements workers.Orchestrator.
func (orchestrator) OrchestratorOf() string { return "durable" }

// Orchestrator makes a workflow of a function whose input and output are a Go value's JSON. The function runs again
// from its beginning at every step: it must be deterministic, take the time from Context.CurrentTimeUtc, and use
// activities for all effects.
func Orchestrator[In, Out any](f func(ctx *Context, in In) (Out, error)) workers.Orchestrator {
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
	return Await[Out](CallTask(ctx, activity, in, options...))
}

// CallTask begins an activity without waiting for its result: [Await], [WhenAll] and [WhenAny] do.
func CallTask(ctx *Context, activity string, in any, options ...CallOption) Task {
	// The input comes first, so that an option WithInput of the caller replaces it. The caller's slice is not written to.
	return ctx.CallActivity(activity, slices.Insert(slices.Clone(options), 0, WithInput(in))...)
}

// CallWorkflow runs another workflow as part of this one and waits for its result.
func CallWorkflow[Out any](ctx *Context, workflow string, in any, options ...CallOption) (Out, error) {
	return Await[Out](ctx.CallSubOrchestrator(workflow, slices.Insert(slices.Clone(options), 0, WithInput(in))...))
}

// WaitForEvent waits for an event; with a negative timeout, it waits without a limit. After the timeout it returns
// ErrTimeout.
func WaitForEvent[T any](ctx *Context, name string, timeout time.Duration) (T, error) {
	return Await[T](ctx.WaitForSingleEvent(name, timeout))
}

// Sleep waits for d, however long.
func Sleep(ctx *Context, d time.Duration) error { return ctx.CreateTimer(d).Await(nil) }

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
//		calls = append(calls, durable.CallTask(ctx, "forecast", city))
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

// WhenAny waits until one of the tasks has ended and returns its index; its result or error is then at hand by
// [Await]. If several have ended, it returns the first of them in the order of the arguments. A task with a retry
// policy counts as ended after its first attempt: Await makes the others. It panics without tasks.
func WhenAny(ctx *Context, tasks ...Task) int {
	if len(tasks) == 0 {
		panic("durable: WhenAny without tasks")
	}
	for {
		// All tasks are looked at after each single event: so every replay finds the same one first.
		for i, t := range tasks {
			if t.Ended() {
				return i
			}
		}
		ctx.run.Wait()
	}
}
