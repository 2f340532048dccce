// Package task stands in for durabletask-go's library for workflows while its tests run on the replay of
// workers/durable. See .ci/durable.
package task

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/internal/helpers"

	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durabletask/task"
	"github.com/lazuli-storage/lazuli/workers/engine"
)

type (
	OrchestrationContext = task.OrchestrationContext
	Orchestrator         = task.Orchestrator
	Task                 = task.Task
	RetryPolicy          = task.RetryPolicy
	Activity             = func(ctx ActivityContext) (any, error)
)

var (
	ErrTaskCanceled                 = task.ErrTaskCanceled
	WithActivityInput               = task.WithActivityInput
	WithRawActivityInput            = task.WithRawActivityInput
	WithActivityRetryPolicy         = task.WithActivityRetryPolicy
	WithSubOrchestratorInput        = task.WithSubOrchestratorInput
	WithSubOrchestrationInstanceID  = task.WithSubOrchestrationInstanceID
	WithSubOrchestrationRetryPolicy = task.WithSubOrchestrationRetryPolicy
	WithKeepUnprocessedEvents       = task.WithKeepUnprocessedEvents
)

// ActivityContext is what an activity has.
type ActivityContext interface {
	GetInput(v any) error
	Context() context.Context
}

type activityContext struct {
	ctx   context.Context
	input []byte
}

func (c activityContext) Context() context.Context { return c.ctx }

func (c activityContext) GetInput(v any) error {
	if len(c.input) == 0 {
		return nil
	}
	return json.Unmarshal(c.input, v)
}

// TaskRegistry has functions by name.
type TaskRegistry struct {
	workflows  map[string]func(*durable.Context) (any, error)
	activities map[string]engine.Activity
}

func NewTaskRegistry() *TaskRegistry {
	return &TaskRegistry{map[string]func(*durable.Context) (any, error){}, map[string]engine.Activity{}}
}

func (r *TaskRegistry) AddOrchestrator(o Orchestrator) error {
	return r.AddOrchestratorN(helpers.GetTaskFunctionName(o), o)
}

func (r *TaskRegistry) AddOrchestratorN(name string, o Orchestrator) error {
	if r.workflows[name] != nil {
		return fmt.Errorf("orchestrator named '%s' is already registered", name)
	}
	r.workflows[name] = o
	return nil
}

func (r *TaskRegistry) AddActivity(a Activity) error {
	return r.AddActivityN(helpers.GetTaskFunctionName(a), a)
}

func (r *TaskRegistry) AddActivityN(name string, a Activity) error {
	if r.activities[name] != nil {
		return fmt.Errorf("activity named '%s' is already registered", name)
	}
	r.activities[name] = func(ctx context.Context, input []byte) ([]byte, error) {
		out, err := a(activityContext{ctx, input})
		if err != nil || out == nil {
			return nil, err
		}
		return json.Marshal(out)
	}
	return nil
}

func NewTaskExecutor(r *TaskRegistry) backend.Executor {
	return durable.NewExecutor(r.workflows, r.activities)
}
