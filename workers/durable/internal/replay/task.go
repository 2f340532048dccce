package replay

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/durable/failure"
)

// ErrCanceled means that a task for an event has ended without it, after its timeout.
var ErrCanceled = errors.New("the task was canceled")

// TaskError is the error of a task that has failed.
type TaskError struct {
	// Failure is never nil.
	Failure error
}

// Error implements error.
func (e *TaskError) Error() string { return "task failed with an error: " + e.Failure.Error() }

// Unwrap returns the failure.
func (e *TaskError) Unwrap() error { return e.Failure }

// Task is work that a workflow has asked for.
type Task struct {
	x      *Execution
	ended  bool
	result *string
	err    error
	then   func() // is called at the end; nil for none
}

// eventTask is a task for an event from outside.
type eventTask struct {
	Task
	name string // of the event, in the form of eventName
}

// FailedTask returns a task that has failed before it began.
func FailedTask(err error) *Task { return &Task{ended: true, err: err} }

// Ended reports whether Await returns without waiting.
func (t *Task) Ended() bool { return t.ended }

// Await waits for the task's end, and decodes its result, JSON, into v unless v is nil or there is no result. A task
// that has failed returns a *TaskError, one that was cancelled ErrCanceled. If the end is not in the history, Await
// does not return: see [Execution.Wait].
func (t *Task) Await(v any) error {
	for !t.ended {
		t.x.Wait()
	}
	if t.err != nil {
		return t.err
	}
	if v == nil || t.result == nil || *t.result == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(*t.result), v); err != nil {
		return fmt.Errorf("failed to decode task result: %w", err)
	}
	return nil
}

// finish ends the task by an event.
func (t *Task) finish(e *Event) {
	t.ended, t.result = true, e.Data
	if e.Kind == Failed {
		t.err = &TaskError{e.Failure}
		if e.Failure == nil {
			t.err = &TaskError{&failure.Details{Type: failure.Unknown}}
		}
	}
	if t.then != nil {
		t.then()
	}
}
