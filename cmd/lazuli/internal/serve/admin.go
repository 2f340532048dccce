package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"syscall"

	"github.com/lazuli-storage/lazuli/internal/exposure"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
)

// startAdmin starts the admin listener, which answers from now on, also while the services start.
func (s *serving) startAdmin() (*admin.Server, error) {
	l, err := listenAdmin(s.config, s.log)
	if err != nil {
		return nil, err
	}
	s.adminURL = "http://" + exposure.Callable(l.Addr().String())
	return admin.Start(l, s.adminOptions()), nil
}

// adminOptions returns what the admin listener answers, as far as the configuration has it.
func (s *serving) adminOptions() admin.Options {
	c, b := s.config, &s.backend
	// Accounts with secret keys need a token even on loopback: other users of the machine can connect there, and the
	// dashboard signs.
	s.adminToken, s.tokenMade = c.GuardAdmin()
	o := admin.Options{Token: s.adminToken, Metrics: s.metrics, Pprof: c.Pprof, AllowHosts: c.AllowHosts, Log: s.log,
		Ready: s.ready, Complete: s.complete}
	// The listener answers before the services are up, so that /readyz says "not yet"; what needs them waits until the
	// backend is there.
	o.Backups, o.BackupToken = late(b, func(b Backend) admin.Backups { return b }), c.BackupToken
	if c.AdminState {
		o.State = late(b, func(b Backend) admin.State { return b })
	}
	if c.Cluster.Enabled() {
		o.Cluster = late(b, func(b Backend) admin.Cluster { return b })
	}
	if c.Archive.StandbyOf != "" {
		o.Standby = late(b, func(b Backend) admin.Standby { return b })
	}
	if c.Faults {
		o.Faults = late(b, Backend.Faults)
	}
	if c.ManagedAccounts {
		o.Accounts = late(b, Backend.AccountManager)
	}
	if c.Events {
		o.Events = late(b, Backend.Events)
		// One node delivers events. The others say which one.
		if c.Cluster.Enabled() {
			o.EventsElsewhere = late(b, Backend.EventsElsewhere)
		}
		s.sec.eventURL = s.validationURL
	}
	if s.seed != nil {
		o.Seed = s.seedAgain
	}
	if len(c.Roles.Enabled) > 0 {
		o.Workers = ofRoles(b, (*serverRoles).workersHandler)
		if slices.Contains(c.Roles.Enabled, "search-index") {
			o.Search = ofRoles(b, (*serverRoles).searchHandler)
		}
	}
	if c.TestClock {
		s.clock = &serverClock{services: b}
		o.Clock = s.clock
	}
	// After the clock and the handlers above: the dashboard shows what they offer.
	if c.Dashboard() {
		s.requests = requestlog.New(s.clock.now())
		o.UI = s.newDashboard(o)
	}
	if s.sec.issuer != nil {
		o.Issuer = s.sec.issuer
		o.TLS = s.sec.TLS
	}
	return o
}

// seedAgain creates what is missing of the seed.
func (s *serving) seedAgain(ctx context.Context) error {
	b := s.backend.get()
	if b == nil {
		return errStarting
	}
	return applySeed(ctx, s.seed, b)
}

// validationURL returns the address at which the owner of a webhook confirms an event subscription by hand.
func (s *serving) validationURL(account, name, code string) string {
	return s.adminURL + "/admin/events/" + url.PathEscape(account) + "/" + url.PathEscape(name) + "/validate?code=" +
		url.QueryEscape(code)
}

// listenAdmin opens the admin listener. Azurite has none, so a script that starts two Azurites with different ports, or
// one for each service, names no port for it: if the default port is taken then, a free one is used.
func listenAdmin(c *config.Result, log *slog.Logger) (net.Listener, error) {
	l, err := net.Listen("tcp", c.Admin.Address())
	if errors.Is(err, syscall.EADDRINUSE) && c.Source("admin-port") == config.FromDefault &&
		(len(c.Services) > 0 || c.Source("blob-port") != config.FromDefault && c.Source("queue-port") != config.FromDefault &&
			c.Source("table-port") != config.FromDefault) {
		log.Warn("the default admin port is in use; using another one", "in_use", c.Admin.Port)
		l, err = net.Listen("tcp", net.JoinHostPort(c.Admin.Host, "0"))
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		beside := ""
		if c.Source("admin-port") == config.FromDefault {
			beside = "; to run a second Lazuli, use --blob-port 0 --queue-port 0 --table-port 0 and another --location"
		}
		return nil, fmt.Errorf("the admin listener cannot listen on %s: %w; stop what uses it, or choose another port "+
			"with --admin-port%s",
			c.Admin.Address(), server.ErrPortTaken, beside)
	}
	if err != nil {
		return nil, fmt.Errorf("the admin listener cannot listen on %s: %w", c.Admin.Address(), err)
	}
	return l, nil
}
