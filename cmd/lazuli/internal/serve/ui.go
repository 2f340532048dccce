package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/buildinfo"
	taskhub "github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/hubname"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/webhook"
	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
)

// newDashboard makes the dashboard of a server whose admin listener has the options o.
func (s *serving) newDashboard(o admin.Options) http.Handler {
	return dashboard.New(dashboard.Options{
		Backend: late(&s.backend, func(b Backend) dashboard.Backend { return b }), Accounts: s.sec.accounts,
		Requests: s.requests,
		Workers:  o.Workers, WorkersAccount: rolesAccount(&s.config.Config, s.sec), State: s.config.AdminState,
		Seed: o.Seed, ReadOnly: s.config.AdminUI == "read-only",
		Workflows: func(ctx context.Context, account, hub string) (http.Handler, error) {
			b := s.backend.get()
			if b == nil {
				return nil, errStarting
			}
			return workflowsOf(ctx, b, account, hub, s.log)
		},
		FunctionHosts: s.config.FunctionHosts,
		Cluster:       s.config.Cluster.Enabled() && !s.config.Cluster.Front,
		InMemory:      s.config.InMemory, Version: buildinfo.Current().String(), Now: s.clock.now(), Clock: o.Clock,
		Log: s.log,
	})
}

// workflowsOf returns the management API of a task hub for requests of the dashboard, or nil if the account has no such
// hub.
func workflowsOf(ctx context.Context, b Backend, account, hub string, log *slog.Logger) (http.Handler, error) {
	storage, err := workerproc.StorageOver(b.Transport(), account, inProcessRetries, b.URL)
	if err != nil {
		return nil, err
	}
	if hubname.Check(hub) != nil {
		return nil, nil
	}
	client, err := taskhub.NewClient(ctx, taskhub.Options{Storage: storage, Hub: hub, Logger: log})
	if errors.Is(err, record.ErrHubNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o := webhook.Options{Hub: hub, Logger: log,
		Client: func(context.Context) (*taskhub.Client, error) { return client, nil }}
	if w, ok := b.(*workerBackend); ok && w.durable != nil && w.durable.account == account {
		o.Unmatched = func() []inflight.Unmatched { return w.durable.server.Load().Unmatched(hub) }
	}
	return webhook.New(o), nil
}
