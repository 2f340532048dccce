package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/webhook"
)

// newDashboard makes the dashboard of a server whose admin listener has the options o.
func newDashboard(c *config.Result, sec *security, services *atomic.Pointer[backend], requests *dashboard.Requests, clock *serverClock, o admin.Options, log *slog.Logger) http.Handler {
	return dashboard.New(dashboard.Options{
		Backend: func() dashboard.Backend {
			if b := services.Load(); b != nil {
				return *b
			}
			return nil
		},
		Accounts: sec.accounts, Requests: requests, Workers: o.Workers, State: c.AdminState, Seed: o.Seed, ReadOnly: c.AdminUI == "read-only",
		Workflows: func(ctx context.Context, account, hub string) (http.Handler, error) {
			return workflowsOf(ctx, *services.Load(), account, hub, log)
		},
		InMemory: c.InMemory, Version: versionText(), Now: clock.now(), Clock: o.Clock, Log: log,
	})
}

// workflowsOf returns the management API of a task hub for requests of the dashboard, or nil if the account has no such hub.
func workflowsOf(ctx context.Context, b backend, account, hub string, log *slog.Logger) (http.Handler, error) {
	storage, err := storageOver(b.Transport(), account, inProcessRetries, b.URL)
	if err != nil {
		return nil, err
	}
	if durable.CheckHubName(hub) != nil {
		return nil, nil
	}
	client, err := durable.NewClient(ctx, durable.Options{Storage: storage, Hub: hub, Logger: log})
	if errors.Is(err, durable.ErrHubNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return webhook.New(webhook.Options{Client: func() (*durable.Client, error) { return client, nil }, Hub: hub, Logger: log}), nil
}
