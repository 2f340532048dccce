package hub

import (
	"context"
	"errors"
	"time"

	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/engine"
)

// attempt is one run of an activity in this process.
type attempt struct {
	lost context.Context // is done once the lease on the work item is lost
	lose context.CancelFunc
	// received counts how often the work item was received, from 1; 0 if it is not known.
	received int64
	stopped  error // why the run was interrupted; nil if it came to its end
}

type attemptKey struct{}

// newAttempt returns the run of an activity that has begun here.
func (a *activities) newAttempt(instance string, task int32) *attempt {
	t := &attempt{}
	t.lost, t.lose = context.WithCancel(context.Background())
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.running[activityName(instance, task)]; n != nil {
		t.received = n.first.Attempts
		n.first.OnLost(t.lose)
	}
	return t
}

// RunActivity runs the handler of an activity. The engine cancels the context at the beginning of a stop; a handler has
// until the end of the drain timeout, which cancels it by itself.
//
// A run that was interrupted is no failure of the activity, which would fail the workflow: it runs again.
func RunActivity(ctx context.Context, h engine.Activity, input string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	run, _ := ctx.Value(attemptKey{}).(*attempt)
	if run != nil {
		defer context.AfterFunc(run.lost, func() { cancel(workers.ErrLeaseLost) })()
	}
	out, err := h(ctx, []byte(input))
	if run != nil && (errors.Is(err, workers.ErrLeaseLost) || errors.Is(err, workers.ErrStopping)) {
		run.stopped = err
	}
	return out, err
}

// ActivityCompleted returns the event of the result of an activity, JSON; empty for none.
func ActivityCompleted(scheduled *record.Event, result []byte) *record.Event {
	e := event.New("taskCompleted", -1, time.Now())
	x := e.GetTaskCompleted()
	x.TaskScheduledId = scheduled.EventId
	if len(result) > 0 {
		x.Result = wrapperspb.String(string(result))
	}
	return e
}

// ActivityFailed returns the event of the failure of an activity.
func ActivityFailed(scheduled *record.Event, d *backend.TaskFailureDetails) *record.Event {
	e := event.New("taskFailed", -1, time.Now())
	x := e.GetTaskFailed()
	x.TaskScheduledId, x.FailureDetails = scheduled.EventId, d
	return e
}
