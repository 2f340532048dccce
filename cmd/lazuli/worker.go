package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/buildinfo"
	"github.com/lazuli-storage/lazuli/internal/server/config"
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
		Long: `Run built-in worker roles in a separate process, against Lazuli, Azurite or Azure.

Several such processes share the work. On SIGINT or SIGTERM, running handlers finish within
--drain-timeout; a second signal ends the process at once, and its messages are delivered again
when their leases end.

Roles:
  archive        moves entities out of a table; the queue messages are {"PartitionKey": ..., "RowKey": ...}
  large-entity   deletes blobs and reservations that remain after crashes of writers of large entities
  log-storage    writes log records {"service": ..., "level": ..., "message": ...} from a queue to blobs; see lazuli logs
  search-index   maintains a full-text index of a table; see lazuli search
  schedules      puts the messages of schedules; see lazuli schedule
  outbox         delivers the messages that programs wrote in one transaction with rows (workers.EnqueueIn)
  table-index    maintains a table of copies, lists of keys, or counts of another table

lazuli serve --roles runs them inside the server.`,
		Example: `  lazuli worker --role archive --create
  lazuli worker --role archive --archive-queue leavers --archive-from Current --archive-to container:archive
  lazuli worker --role large-entity --role log-storage --create
  lazuli worker --role search-index --search-index-table Employees --search-index-fields Name:text,Town:keyword --admin 127.0.0.1:10013
  lazuli worker --role table-index --table-index-from Employees --table-index-to EmployeesByTown --table-index-by Town`,
		Args: cobra.NoArgs,
	}
	connection := target.AccountFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// Only the options of roles are added below, so files and environment of a server can be used and the rest is
		// ignored.
		c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: m.Environ})
		if err != nil {
			return console.Usage(err)
		}
		account, err := connection()
		if err != nil {
			return err
		}
		return runWorker(cmd.Context(), cmd.ErrOrStderr(), account, f, c.Roles)
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.roles, "role", nil, "role to run, repeatable: "+strings.Join(config.RoleNames, ", "))
	fl.BoolVar(&f.create, "create", false, "create the queues, tables and containers of the roles if they do not exist")
	// A minute: long enough for a slow service to renew it at half, short enough that the work of a dead process is
	// delivered soon.
	fl.DurationVar(&f.lease, "lease", time.Minute,
		"lease of received messages, renewed at half: the time until they are delivered again if this process dies; whole "+
			"seconds")
	fl.IntVar(&f.concurrency, "concurrency", 24, "maximum number of in-flight messages of each role")
	fl.IntVar(&f.maxDequeue, "max-dequeue-count", 5,
		"number of attempts after which a message is moved to the poison queue")
	fl.DurationVar(&f.drain, "drain-timeout", 30*time.Second, "time limit for running handlers when the process stops")
	fl.StringVar(&f.logFormat, "log-format", "text", "text or json")
	fl.StringVar(&f.admin, "admin", "",
		"address for metrics and \"lazuli workers\", host:port; other than a loopback address only with a token in "+
			"LAZULI_ADMIN_TOKEN (default: none)")
	config.AddFlags(fl, config.RoleOptions()...)
	return cmd
}

// runWorker runs until ctx is done.
func runWorker(ctx context.Context, stderr io.Writer, connectionString string, f workerFlags,
	roles config.Roles) (err error) {
	if len(f.roles) == 0 {
		return console.Usagef("worker: --role is missing; the roles are: %s", strings.Join(config.RoleNames, ", "))
	}
	for _, role := range f.roles {
		if !slices.Contains(config.RoleNames, role) {
			return console.Usagef("worker: unknown role %q; the roles are: %s", role, strings.Join(config.RoleNames, ", "))
		}
	}
	log, err := workerproc.NewLog(stderr, f.logFormat, slog.LevelInfo)
	if err != nil {
		return err
	}
	storage, err := workers.OpenStorage(connectionString)
	if err != nil {
		return console.Usage(err)
	}
	app := workers.New(workers.Config{Storage: storage, HostID: "lazuli", Logger: log, DrainTimeout: f.drain,
		About: "lazuli worker " + buildinfo.Current().Version,
		Defaults: []workers.Option{
			workers.WithLease(f.lease), workers.WithConcurrency(f.concurrency), workers.WithMaxDequeueCount(f.maxDequeue),
		}})
	set := &workerproc.Roles{App: app, Storage: storage, Config: roles, Log: log, Creates: f.create,
		SearchFolder: workerproc.WorkerSearchFolder(roles, connectionString),
		SearchTables: func(x *searchproc.Config) { x.ConnectionString = connectionString }}
	// The search process is closed with a time of its own, since ctx has ended at this point.
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.drain)
		defer cancel()
		err = errors.Join(err, set.Close(end))
	}()
	// Before the admin listener opens: it serves the search of a role that has been added.
	if err := set.Add(ctx, f.roles); err != nil {
		return err
	}
	stopTraces, err := workerproc.StartTraces(ctx, "lazuli-worker", log)
	if err != nil {
		return err
	}
	defer stopTraces()
	// After StartTraces, which sets the provider that the middleware takes.
	app.Use(otelfunc.Middleware())
	stopAdmin, err := workerproc.ServeAdmin(f.admin, app, set.SearchHandler(), nil, log)
	if err != nil {
		return err
	}
	defer stopAdmin()
	log.Info("worker started", "roles", f.roles)
	if err := app.Run(ctx); err != nil {
		return err
	}
	for _, s := range app.Stats() {
		log.Info("worker stopped", "function", s.Name, "succeeded", s.Succeeded, "failed", s.Failed, "poisoned", s.Poisoned,
			"released", s.Released, "lease_lost", s.LeaseLost)
	}
	return nil
}
