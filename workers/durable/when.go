package durable

import (
	"errors"
	"fmt"
	"reflect"
	_ "unsafe" // for go:linkname

	"github.com/microsoft/durabletask-go/task"
)

// Task is work that a workflow waits for: an activity, another workflow, a timer, an event, or an entity's operation.
type Task = task.Task

// WhenAll waits for all tasks and returns their results in the order of the tasks. If some have failed, the error joins
// their errors, and their results are zero values.
//
//	var calls []durable.Task
//	for _, city := range cities {
//		calls = append(calls, ctx.CallActivity("forecast", task.WithActivityInput(city)))
//	}
//	forecasts, err := durable.WhenAll[Forecast](calls...)
func WhenAll[Out any](tasks ...Task) ([]Out, error) {
	results := make([]Out, len(tasks))
	var errs []error
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
			if isEnded(t) {
				return i
			}
		}
		more, err := processNextEvent(ctx)
		if err != nil {
			panic(err) // As Await does: the workflow's code does not match its history.
		}
		if !more {
			// The library leaves a workflow that has to wait in this way; see panicking.
			panic(task.ErrTaskBlocked)
		}
	}
}

// processNextEvent is the step of task.Task.Await. The library does not export it, and nothing that it exports stops
// after one event, as a deterministic WhenAny must.
//
//go:linkname processNextEvent github.com/microsoft/durabletask-go/task.(*OrchestrationContext).processNextEvent
func processNextEvent(ctx *Context) (more bool, err error)

// isEnded reports whether Await would return without waiting.
func isEnded(t Task) bool {
	v := reflect.ValueOf(t)
	if v.Kind() != reflect.Pointer {
		return true // A failedTask.
	}
	if d := v.Elem().FieldByName("delegate"); d.IsValid() { // A task with a retry policy.
		v = d.Elem()
	}
	return v.Elem().FieldByName("isCompleted").Bool()
}
