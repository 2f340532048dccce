package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/results"
	"github.com/lazuli-storage/lazuli/workers/durable/internal/replay"
	"github.com/lazuli-storage/lazuli/workers/engine"
)

// goExecutor runs the workflows, activities and entities of an app, which are functions of this process.
type goExecutor struct {
	workflows  map[string]func(*Context) (any, error)
	activities map[string]engine.Activity
	entities   map[string]entityBatch // by name in lower case
}

var _ backend.Executor = (*goExecutor)(nil)

// Shutdown implements backend.Executor: there is nothing to close.
func (*goExecutor) Shutdown(context.Context) error { return nil }

// ExecuteOrchestrator implements backend.Executor.
func (x *goExecutor) ExecuteOrchestrator(_ context.Context, id api.InstanceID, old,
	fresh []*record.Event) (*backend.ExecutionResults, error) {
	name, version, execution := event.WorkflowOf(old, fresh)
	f := x.workflows[name]
	if f == nil {
		return results.FailedWith(id, "OrchestratorNotRegistered",
			fmt.Sprintf("orchestrator named '%s' is not registered", name)), nil
	}
	h := historyForReplay(string(id), execution, old, fresh)
	outcome, err := replay.Run(h, func(x *replay.Execution) (any, error) {
		return f(newContext(x, string(id), name, version))
	})
	var panicked *replay.PanicError
	if errors.As(err, &panicked) {
		return results.FailedWith(id, "OrchestratorPanic", err.Error()), nil
	}
	if err != nil {
		return results.FailedWith(id, "NonDeterministic",
			fmt.Sprintf("the workflow's code does not match its history: %v", err)), nil
	}
	return answerOf(h, outcome, old, fresh)
}

// ExecuteActivity implements backend.Executor.
func (x *goExecutor) ExecuteActivity(ctx context.Context, _ api.InstanceID, e *record.Event) (result *record.Event,
	err error) {
	s := e.GetTaskScheduled()
	h := x.activities[s.GetName()]
	if h == nil {
		return hub.ActivityFailed(e, event.NewFailure("TaskActivityNotRegistered",
			fmt.Sprintf("no task activity named '%s' was registered", s.GetName()))), nil
	}
	defer func() {
		if p := recover(); p != nil {
			result, err = hub.ActivityFailed(e, event.NewFailure("TaskActivityPanic", fmt.Sprintf("panic: %v", p))), nil
		}
	}()
	out, err := hub.RunActivity(ctx, h, s.GetInput().GetValue())
	if err == nil && len(out) > 0 && !json.Valid(out) {
		err = fmt.Errorf("the result of the activity %q is not JSON", s.GetName())
	}
	if err != nil {
		return hub.ActivityFailed(e, failureOf(err)), nil
	}
	return hub.ActivityCompleted(e, out), nil
}

// entityBatch runs the operations of a batch in their order, for the entities of a name.
type entityBatch func(ctx context.Context, batch *entitybatch.Batch) (*entitybatch.Result, error)

// entityExecutor is the executor of an app with entities.
type entityExecutor struct {
	backend.Executor
	app *goExecutor
}

var _ entitybatch.Executor = entityExecutor{}

// ExecuteEntity implements entitybatch.Executor.
func (x entityExecutor) ExecuteEntity(ctx context.Context, batch *entitybatch.Batch) (*entitybatch.Result, error) {
	e := x.app.entities[strings.ToLower(entitybatch.NameOf(batch.ID))]
	if e == nil {
		return &entitybatch.Result{State: batch.State, Failure: event.NewFailure("EntityNotRegistered",
			fmt.Sprintf("the app has no entity %q", entitybatch.NameOf(batch.ID)))}, nil
	}
	return e(ctx, batch)
}
