package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cli/seed"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/server/gctuner"
)

// backend is the running services as this verb needs them.
type backend interface {
	// URL is an account's endpoint of a service.
	URL(service wire.Service, account string) string
	// Path is the data folder.
	Path() string
	// Ready returns nil while the services serve, and otherwise why they do not.
	Ready() error
	// Stop lets running requests end until ctx is done, then closes everything.
	Stop(ctx context.Context) error
	// Transport carries requests to the services without a network.
	Transport() *inproc.Transport

	// Faults are the rules by which requests fail on purpose; nil where they are not allowed.
	Faults() *faultrule.Set

	// Events delivers the events of accounts; nil where that is not allowed.
	Events() *events.Manager
	// EventsElsewhere is the reason if another node of the cluster delivers them; nil otherwise.
	EventsElsewhere() error

	// ClockChanged wakes what waits, after the test clock was set.
	ClockChanged()

	admin.State
	admin.Cluster
}

// starter starts a backend; [startStack] is the real one.
type starter func(ctx context.Context, c *config.Config, sec *security, o startOptions) (backend, error)

// startOptions are what the services share with the process.
type startOptions struct {
	metrics prometheus.Registerer
	log     *slog.Logger
	observe observer
	waiting func(reason string) // called while a node waits for its cluster
	clock   *serverClock        // nil: the system's clock
}

// addServe makes cmd the verb that runs the services. It is `lazuli serve` and `lazuli` alone.
func addServe(cmd *cobra.Command, m *Main) *cobra.Command {
	return addServeOf(cmd, m, "")
}

// addServeOf makes cmd the verb that runs one service, as Azurite's programs azurite-blob, azurite-queue and azurite-table do, or all for "".
func addServeOf(cmd *cobra.Command, m *Main, service string) *cobra.Command {
	cmd.Args = cobra.NoArgs
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		began := time.Now()
		c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: m.Environ, Service: service})
		if err != nil {
			return usageError{err}
		}
		start := m.start
		if start == nil {
			start = startStack
		}
		return serve(cmd.Context(), c, start, m.Stdout, m.Stderr, began)
	}
	return cmd
}

// serve runs the services until ctx is cancelled.
func serve(ctx context.Context, c *config.Result, start starter, stdout, stderr io.Writer, began time.Time) (err error) {
	log, closeLog, err := newLogger(&c.Config, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	for _, note := range c.Notes {
		log.Warn(note)
	}
	sec, err := newSecurity(&c.Config)
	if err != nil {
		return usageError{err}
	}
	defer sec.watch(c.AccountsFile, log)()
	defer gctuner.Default.Start()()

	var services atomic.Pointer[backend]
	var waiting atomic.Pointer[string] // why the start waits
	onWaiting := func(reason string) { waiting.Store(&reason) }
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var seeding *seed.Seed
	if c.Seed != "" {
		if seeding, err = loadSeed(c.Seed, sec.accounts); err != nil {
			return usageError{err}
		}
	}
	adminURL := ""
	var requests *dashboard.Requests // nil without a dashboard
	var clock *serverClock           // nil without --test-clock
	if !c.NoAdmin {
		l, err := listenAdmin(c, log)
		if err != nil {
			return err
		}
		adminURL = "http://" + reachable(l.Addr().String())
		o := admin.Options{Metrics: metrics, Pprof: c.Pprof, AllowHosts: c.AllowHosts, Log: log,
			Ready: func() error {
				if b := services.Load(); b != nil {
					return (*b).Ready()
				}
				if reason := waiting.Load(); reason != nil {
					return fmt.Errorf("waiting for the cluster: %s", *reason)
				}
				return errors.New("starting")
			}}
		if c.AdminState {
			o.State = func() admin.State {
				if b := services.Load(); b != nil {
					return *b
				}
				return nil
			}
		}
		if c.Cluster.Enabled() {
			o.Cluster = func() admin.Cluster {
				if b := services.Load(); b != nil {
					return *b
				}
				return nil
			}
		}
		if c.Faults {
			o.Faults = func() *faultrule.Set {
				if b := services.Load(); b != nil {
					return (*b).Faults()
				}
				return nil
			}
		}
		if c.Events {
			o.Events = func() *events.Manager {
				if b := services.Load(); b != nil {
					return (*b).Events()
				}
				return nil
			}
			if c.Cluster.Enabled() {
				o.EventsElsewhere = func() error {
					if b := services.Load(); b != nil {
						return (*b).EventsElsewhere()
					}
					return nil
				}
			}
			sec.eventURL = func(account, name, code string) string {
				return adminURL + "/admin/events/" + url.PathEscape(account) + "/" + url.PathEscape(name) + "/validate?code=" + url.QueryEscape(code)
			}
		}
		if seeding != nil {
			o.Seed = func(ctx context.Context) error { return applySeed(ctx, seeding, *services.Load()) }
		}
		if len(c.Roles.Enabled) > 0 {
			o.Workers = workersOf(&services)
			if slices.Contains(c.Roles.Enabled, "search-index") {
				o.Search = searchOf(&services)
			}
		}
		if c.TestClock {
			clock = &serverClock{services: &services}
			o.Clock = clock
		}
		if c.Dashboard() {
			requests = dashboard.NewRequests(clock.now())
			o.UI = newDashboard(c, sec, &services, requests, clock, o, log)
		}
		if sec.issuer != nil {
			o.Issuer = sec.issuer
			o.TLS = sec.tls
		}
		server := admin.Start(l, o)
		defer func() { // last: while the services drain, /readyz says so
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = server.Stop(ctx) // an interrupted scrape is not an error
		}()
	}

	b, err := start(ctx, &c.Config, sec, startOptions{metrics, log, requests.Observer(), onWaiting, clock})
	if err != nil {
		return err
	}
	if seeding != nil {
		err := applySeed(ctx, seeding, b)
		if err == nil {
			err = addEvents(ctx, seeding, b, log)
		}
		if err == nil {
			err = addFaults(seeding, b) // last: the seed itself must not meet them
		}
		if err != nil {
			return errors.Join(err, stop(b, c.ShutdownTimeout))
		}
	}
	services.Store(&b)
	writeBanner(stdout, banner{config: c, accounts: sec.accounts.Names(), backend: b, admin: adminURL, took: time.Since(began)})
	if _, err := gctuner.ReleaseProgram(); err != nil {
		log.Debug("the memory of the start could not be released", "err", err)
	}

	<-ctx.Done()
	log.Info("stopping", "wait", c.ShutdownTimeout.String())
	if err := stop(b, c.ShutdownTimeout); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

func stop(b backend, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Stop(ctx); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// newLogger makes the log that the configuration asks for, and a function that closes it.
func newLogger(c *config.Config, stderr io.Writer) (*slog.Logger, func() error, error) {
	w, done := stderr, func() error { return nil }
	if c.LogFile != "" {
		f, err := os.OpenFile(c.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("log file: %w", err)
		}
		w, done = f, f.Close
	}
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.Silent && c.LogFile == "" {
		o.Level = slog.LevelError
	}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), done, nil
	}
	return slog.New(slog.NewTextHandler(w, o)), done, nil
}
