package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

func chain(ctx workflow.Context) (n int, err error) {
	for i := range 3 {
		n, err = workflow.ExecuteActivity[int](ctx, workflow.DefaultActivityOptions, double, i).Get(ctx)
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

func fanOut(ctx workflow.Context) (int, error) {
	var all []workflow.Future[int]
	for i := range 10 {
		all = append(all, workflow.ExecuteActivity[int](ctx, workflow.DefaultActivityOptions, double, i))
	}
	for _, f := range all {
		if _, err := f.Get(ctx); err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

// goWorkflows measures workflows on go-workflows' SQLite backend, in one process. SQLite syncs every transaction. The
// workers poll every millisecond in place of every 200.
func goWorkflows(ctx context.Context, folder string, m *workbench.Meter) error {
	b := sqlite.NewSqliteBackend(filepath.Join(folder, "workflows.db"), sqlite.WithBackendOptions(
		backend.WithLogger(slog.New(slog.DiscardHandler))))
	o := worker.DefaultOptions
	o.WorkflowPollingInterval, o.ActivityPollingInterval = time.Millisecond, time.Millisecond
	w := worker.New(b, &o)
	for _, register := range []error{w.RegisterWorkflow(chain), w.RegisterWorkflow(fanOut), w.RegisterActivity(double)} {
		if register != nil {
			return register
		}
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	if err := w.Start(working); err != nil {
		return err
	}
	c := client.New(b)
	return m.Workflows(ctx, func(ctx context.Context, name string) error {
		run := chain
		if name == workbench.FanOut {
			run = fanOut
		}
		i, err := c.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: uuid.NewString()}, run)
		if err == nil {
			_, err = client.GetWorkflowResult[int](ctx, c, i, time.Minute)
		}
		return err
	})
}
