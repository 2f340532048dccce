package main

import (
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
)

// newDashboard makes the dashboard of a server whose admin listener has the options o.
func newDashboard(c *config.Result, sec *security, services *atomic.Pointer[backend], requests *dashboard.Requests, o admin.Options, log *slog.Logger) http.Handler {
	return dashboard.New(dashboard.Options{
		Backend: func() dashboard.Backend {
			if b := services.Load(); b != nil {
				return *b
			}
			return nil
		},
		Accounts: sec.accounts, Requests: requests, Workers: o.Workers, State: c.AdminState, Seed: o.Seed, ReadOnly: c.AdminUI == "read-only",
		InMemory: c.InMemory, Version: versionText(), Log: log,
	})
}
