package main

import (
	"context"
	"path/filepath"

	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/backend/sqlite"
	"github.com/microsoft/durabletask-go/task"

	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

// registry has the workflows of package workbench.
func registry() (*task.TaskRegistry, error) {
	r := task.NewTaskRegistry()
	if err := r.AddActivityN("double", func(ctx task.ActivityContext) (any, error) {
		var n int
		err := ctx.GetInput(&n)
		return 2 * n, err
	}); err != nil {
		return nil, err
	}
	nothing := func(*task.OrchestrationContext) (any, error) { return nil, nil }
	if err := r.AddOrchestratorN("nothing", nothing); err != nil {
		return nil, err
	}
	if err := r.AddOrchestratorN(workbench.Chain, func(ctx *task.OrchestrationContext) (any, error) {
		n := 0
		for i := range 3 {
			if err := ctx.CallActivity("double", task.WithActivityInput(i)).Await(&n); err != nil {
				return nil, err
			}
		}
		return n, nil
	}); err != nil {
		return nil, err
	}
	return r, r.AddOrchestratorN(workbench.FanOut, func(ctx *task.OrchestrationContext) (any, error) {
		var all []task.Task
		for i := range 10 {
			all = append(all, ctx.CallActivity("double", task.WithActivityInput(i)))
		}
		for _, t := range all {
			if err := t.Await(nil); err != nil {
				return nil, err
			}
		}
		return len(all), nil
	})
}

// durableTask measures workflows on durabletask-go's SQLite backend, in one process. SQLite syncs every transaction.
func durableTask(ctx context.Context, folder string, m *workbench.Meter) error {
	r, err := registry()
	if err != nil {
		return err
	}
	log := silent{}
	be := sqlite.NewSqliteBackend(sqlite.NewSqliteOptions(filepath.Join(folder, "hub.db")), log)
	executor := task.NewTaskExecutor(r)
	most := backend.WithMaxParallelism(workbench.WorkflowsAtOnce)
	w := backend.NewTaskHubWorker(be, backend.NewOrchestrationWorker(be, executor, log, most),
		backend.NewActivityTaskWorker(be, executor, log, most), log)
	if err := w.Start(ctx); err != nil {
		return err
	}
	c := backend.NewTaskHubClient(be)
	return m.Workflows(ctx, func(ctx context.Context, name string) error {
		id, err := c.ScheduleNewOrchestration(ctx, name)
		if err == nil {
			_, err = c.WaitForOrchestrationCompletion(ctx, id)
		}
		return err
	})
}

// silent is a logger of durabletask-go that discards what it gets.
type silent struct{}

func (silent) Debug(...any)          {}
func (silent) Debugf(string, ...any) {}
func (silent) Info(...any)           {}
func (silent) Infof(string, ...any)  {}
func (silent) Warn(...any)           {}
func (silent) Warnf(string, ...any)  {}
func (silent) Error(...any)          {}
func (silent) Errorf(string, ...any) {}
