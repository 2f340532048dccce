package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/observe/traces"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/otelfunc"
)

type workerFlags struct {
	roles       []string
	create      bool
	lease       time.Duration
	concurrency int
	maxDequeue  int
	drain       time.Duration
	logFormat   string
	admin       string
}

// newWorkerCommand makes `lazuli worker`, which runs built-in roles apart from the server.
func newWorkerCommand(m *Main) *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run built-in worker roles against any storage account",
		Long: `Run built-in worker roles as a process of their own, against Lazuli, Azurite or Azure.

Any number of such processes share the work. SIGINT or SIGTERM lets running handlers finish, within
--drain-timeout; a second signal ends the process at once, and its messages come back when their
leases end.

Roles:
  archive        moves entities out of a table, on request of queue messages {"PartitionKey": ..., "RowKey": ...}
  large-entity   sweeps what writers of large entities that died left behind
  log-storage    keeps log records from a queue, {"service": ..., "level": ..., "message": ...}, as blobs; see lazuli logs

lazuli serve --roles runs them inside the server.`,
		Example: `  lazuli worker --role archive --create
  lazuli worker --role archive --archive-queue leavers --archive-from Current --archive-to container:archive
  lazuli worker --role large-entity --role log-storage --create`,
		Args: cobra.NoArgs,
	}
	connection := accountFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: m.Environ})
		if err != nil {
			return usageError{err}
		}
		account, err := connection()
		if err != nil {
			return err
		}
		return runWorker(cmd.Context(), cmd.ErrOrStderr(), account, f, c.Roles)
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.roles, "role", nil, "role to run, repeatable: "+strings.Join(config.RoleNames, ", "))
	fl.BoolVar(&f.create, "create", false, "create the queue, tables and container of the roles where they do not exist")
	fl.DurationVar(&f.lease, "lease", time.Minute, "how long a received message is hidden, and so how late it comes back if this process dies; whole seconds, renewed at half")
	fl.IntVar(&f.concurrency, "concurrency", 24, "messages in work at once, per role")
	fl.IntVar(&f.maxDequeue, "max-dequeue-count", 5, "attempts before a message goes to the poison queue")
	fl.DurationVar(&f.drain, "drain-timeout", 30*time.Second, "how long running handlers may take to finish at a stop")
	fl.StringVar(&f.logFormat, "log-format", "text", "text or json")
	fl.StringVar(&f.admin, "admin", "", "address for metrics and \"lazuli workers\", host:port; without authentication, so on loopback (default: none)")
	config.AddFlags(fl, config.RoleOptions()...)
	return cmd
}

// runWorker runs until ctx is done.
func runWorker(ctx context.Context, stderr io.Writer, connectionString string, f workerFlags, roles config.Roles) (err error) {
	if len(f.roles) == 0 {
		return usageError{fmt.Errorf("worker: --role is missing; there are: %s", strings.Join(config.RoleNames, ", "))}
	}
	for _, role := range f.roles {
		if !slices.Contains(config.RoleNames, role) {
			return usageError{fmt.Errorf("worker: no role is called %q; there are: %s", role, strings.Join(config.RoleNames, ", "))}
		}
	}
	log, err := workerLog(stderr, f.logFormat)
	if err != nil {
		return usageError{err}
	}
	if err := faultsFromEnvironment(log); err != nil {
		return usageError{err}
	}
	storage, err := workers.OpenStorage(connectionString)
	if err != nil {
		return usageError{err}
	}
	app := workers.New(workers.Config{Storage: storage, HostID: "lazuli", Logger: log, DrainTimeout: f.drain, Defaults: []workers.Option{
		workers.WithLease(f.lease), workers.WithConcurrency(f.concurrency), workers.WithMaxDequeueCount(f.maxDequeue),
	}})
	set := &roleSet{app: app, storage: storage, config: roles, log: log, create: f.create}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.drain)
		defer cancel()
		err = errors.Join(err, set.close(end))
	}()
	if err := set.add(ctx, f.roles); err != nil {
		return err
	}
	stopTraces, err := startTraces(ctx, "lazuli-worker", log)
	if err != nil {
		return err
	}
	defer stopTraces()
	app.Use(otelfunc.Middleware())
	stopAdmin, err := serveWorkerAdmin(f.admin, app, log)
	if err != nil {
		return err
	}
	defer stopAdmin()
	log.Info("worker runs", "roles", f.roles)
	if err := app.Run(ctx); err != nil {
		return err
	}
	for _, s := range app.Stats() {
		log.Info("worker stopped", "function", s.Name, "succeeded", s.Succeeded, "failed", s.Failed, "poisoned", s.Poisoned, "released", s.Released, "lease_lost", s.LeaseLost)
	}
	return nil
}

// startTraces sends OpenTelemetry traces if the environment says where to, until the function that it returns is called.
func startTraces(ctx context.Context, service string, log *slog.Logger) (stop func(), err error) {
	end, err := traces.Start(ctx, service, version, log)
	if err != nil {
		return nil, usageError{err}
	}
	return func() {
		sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := end(sending); err != nil {
			log.Warn("the last traces could not be sent", "err", err)
		}
	}, nil
}

func workerLog(w io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, fmt.Errorf("--log-format is %q, not text or json", format)
}

// faultsFromEnvironment puts a fault plan in force if the environment has one. It says so: nobody should run with one by accident.
func faultsFromEnvironment(log *slog.Logger) error {
	text := os.Getenv(fault.EnvVar)
	if text == "" {
		return nil
	}
	plan, err := fault.ParsePlan(text)
	if err != nil {
		return err
	}
	fault.Activate(plan)
	log.Warn("faults will be injected", "plan", text)
	return nil
}
