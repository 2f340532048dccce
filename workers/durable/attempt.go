package durable

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/microsoft/durabletask-go/task"

	"github.com/lazuli-storage/lazuli/workers"
)

// attempt is one run of an activity in this process.
type attempt struct {
	lost context.Context // is done once the lease on the work item is lost
	lose context.CancelFunc
	// received counts how often the work item was received, from 1; 0 if it is not known.
	received int64
	stopped  error // why the run was interrupted; nil if it came to its end
	failed   error // the handler's error: the library keeps its text and the name of its type alone
}

type attemptKey struct{}

// newAttempt returns the run of an activity that has begun here.
func (a *activities) newAttempt(instance string, task int32) *attempt {
	t := &attempt{}
	t.lost, t.lose = context.WithCancel(context.Background())
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.running[activityName(instance, task)]; n != nil {
		t.received = n.first.attempts
		n.first.onLost(t.lose)
	}
	return t
}

// activityOf makes an activity of the engine's library of a handler. The library cancels the context at the beginning
// of a stop; a handler has until the end of the drain timeout, which cancels it by itself.
//
// A run that was interrupted is no failure of the activity, which would fail the workflow: it runs again.
func activityOf(h workers.ActivityHandler) task.Activity {
	return func(c task.ActivityContext) (any, error) {
		var input json.RawMessage
		if err := c.GetInput(&input); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.Context()))
		defer cancel(nil)
		run, _ := ctx.Value(attemptKey{}).(*attempt)
		if run != nil {
			defer context.AfterFunc(run.lost, func() { cancel(workers.ErrLeaseLost) })()
		}
		out, err := h(ctx, input)
		if run != nil && (errors.Is(err, workers.ErrLeaseLost) || errors.Is(err, workers.ErrStopping)) {
			run.stopped = err
		}
		if run != nil {
			run.failed = err
		}
		if err != nil || len(out) == 0 {
			return nil, err
		}
		return json.RawMessage(out), nil
	}
}
