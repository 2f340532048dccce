package main

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite"

	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

// job is the job of River.
type job struct {
	Body []byte `json:"body"`
}

func (job) Kind() string { return "job" }

// riverJobs is River on a database.
type riverJobs[TTx any] struct {
	driver riverdriver.Driver[TTx]
	client *river.Client[TTx] // inserts only
}

// measureRiver measures River on a new database. It fetches up to once a millisecond, in place of ten times a second.
func measureRiver[TTx any](ctx context.Context, driver riverdriver.Driver[TTx], m *workbench.Meter) error {
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	j := &riverJobs[TTx]{driver: driver}
	// The interval also limits how often an insert notifies the workers.
	if j.client, err = river.NewClient(driver, &river.Config{FetchCooldown: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	return m.Jobs(ctx, j)
}

// Put implements workbench.Jobs.
func (j *riverJobs[TTx]) Put(ctx context.Context, queue string, due time.Time) error {
	_, err := j.client.Insert(ctx, job{workbench.Body}, &river.InsertOpts{Queue: queue, ScheduledAt: due})
	return err
}

// Work implements workbench.Jobs.
func (j *riverJobs[TTx]) Work(ctx context.Context, queue string, handle func()) (*workbench.Worker, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[job]) error {
		handle()
		return nil
	}))
	c, err := river.NewClient(j.driver, &river.Config{Workers: workers, FetchCooldown: time.Millisecond,
		Queues: map[string]river.QueueConfig{queue: {MaxWorkers: workbench.Parallel}},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return &workbench.Worker{Stop: c.Stop, Idle: idleFor(20 * time.Millisecond)}, c.Start(ctx)
}

// riverOnSQLite has worker and database in one process. SQLite syncs every transaction.
func riverOnSQLite(ctx context.Context, folder string, m *workbench.Meter) error {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "river.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // as River's documentation advises
	return measureRiver(ctx, riversqlite.New(db), m)
}

// riverOnPostgres measures River on a PostgreSQL.
func riverOnPostgres(ctx context.Context, folder string, m *workbench.Meter) error {
	pool, stop, err := startPostgres(ctx, folder, m)
	if err != nil {
		return err
	}
	defer stop()
	return measureRiver(ctx, riverpgxv5.New(pool), m)
}
