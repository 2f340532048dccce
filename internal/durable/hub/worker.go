package hub

import (
	"context"
	"fmt"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/call"
	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/workers"
)

// NewWorker returns a worker that runs the workflows and activities of x, for instance of task.NewTaskExecutor. It
// makes the hub if it is absent. A workflow that panics fails; the process goes on.
func (b *Backend) NewWorker(x backend.Executor) backend.TaskHubWorker {
	o := b.options
	run, log := executor{x, b}, engineLog{b.log}
	b.mu.Lock()
	b.runsEntities, _ = x.(entitybatch.Executor)
	if b.acceptor, _ = x.(workkind.Acceptor); b.acceptor == nil && b.apps != nil {
		b.acceptor = b.apps
	}
	b.maxEntities = o.MaxEntities
	b.mu.Unlock()
	return settling{b, backend.NewTaskHubWorker(b,
		&drained{TaskWorker: backend.NewOrchestrationWorker(b, run, log,
			backend.WithMaxParallelism(int32(o.MaxOrchestrations)))},
		&drained{TaskWorker: backend.NewActivityTaskWorker(b, run, log,
			backend.WithMaxParallelism(int32(o.MaxActivities)))},
		log)}
}

// settling is a worker whose stop waits for the deletions of handled messages.
type settling struct {
	b *Backend
	backend.TaskHubWorker
}

// Shutdown implements backend.TaskHubWorker.
func (w settling) Shutdown(ctx context.Context) error {
	err := w.TaskHubWorker.Shutdown(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.b.deleting.All.Wait()
	}()
	limit, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	select {
	case <-done:
	case <-limit.Done(): // What is left comes again, and is dropped.
	}
	return err
}

// Logger returns the backend's logger in the form that the engine takes.
func (b *Backend) Logger() backend.Logger { return engineLog{b.log} }

// ActivityInfo says which activity a context belongs to.
type ActivityInfo struct {
	Instance, Execution, Name string
	Task                      int32
}

// Key is the same in every attempt of the activity, and different for every other: for effects that must not happen
// twice.
func (i ActivityInfo) Key() string { return fmt.Sprintf("%s/%s/%d", i.Instance, i.Execution, i.Task) }

type activityInfoKey struct{}

// InfoFromContext returns the activity that runs with the context.
func InfoFromContext(ctx context.Context) (ActivityInfo, bool) {
	i, ok := ctx.Value(activityInfoKey{}).(ActivityInfo)
	return i, ok
}

// ExecuteActivity implements backend.Executor.
func (x executor) ExecuteActivity(ctx context.Context, id api.InstanceID, e *record.Event) (*record.Event, error) {
	info := ActivityInfo{Instance: string(id), Execution: x.b.activities.execution(string(id), e.EventId),
		Name: e.GetTaskScheduled().GetName(), Task: e.EventId}
	run := x.b.activities.newAttempt(string(id), e.EventId)
	defer run.lose()
	ctx = context.WithValue(context.WithValue(ctx, activityInfoKey{}, info), attemptKey{}, run)
	ctx = call.With(ctx, call.Call{Instance: info.Instance, Task: info.Task, Attempt: run.received})
	result, err := x.Executor.ExecuteActivity(ctx, id, e)
	if run.stopped != nil {
		return nil, run.stopped
	}
	return result, err
}

// execution returns the execution that an activity which runs here belongs to.
func (a *activities) execution(instance string, task int32) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.running[activityName(instance, task)]; n != nil {
		return n.first.Execution
	}
	return ""
}

// Clock returns the backend's clock.
func (b *Backend) Clock() workers.Clock { return b.clock }
