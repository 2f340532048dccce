package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/jobrow"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// Jobs runs the demonstration of unique jobs: each item is enqueued again and again, and has one job.
func Jobs(ctx context.Context, c Config) (*Report, error) { return demonstrate(ctx, c, openJobs) }

// JobPoints returns what a run visits by default.
func JobPoints() []string { return pointsOf(&jobsPattern{}) }

// jobsPattern enqueues a unique job for each item, and notes in a table which jobs have run. It is as the outbox apart
// from that: an item that has arrived needs no row in a table.
type jobsPattern struct{ outboxPattern }

func openJobs(storage *workers.Storage, id string) (pattern, error) {
	if storage.Queues == nil || storage.Tables == nil {
		return nil, errors.New("the connection string must name a queue and a table endpoint")
	}
	return &jobsPattern{outboxPattern{storage: storage, from: "LazuliDemoUnused" + id, to: "LazuliDemoRan" + id,
		queue: "lazuli-demo-" + id}}, nil
}

func (p *jobsPattern) points() []string {
	// No job of a run fails for good.
	steps := slices.DeleteFunc(fault.PointsOf("jobs"), func(name string) bool { return name == "jobs/after-poison-put" })
	return append(steps, "workers/before-delete-message", "workers/after-delete-message")
}
func (p *jobsPattern) holdUp() string        { return "jobs/after-insert" }
func (p *jobsPattern) kind(entityKey) string { return "job" }

// remove also removes the rows of the jobs, which are in a table of the account.
func (p *jobsPattern) remove(ctx context.Context) error {
	err := p.outboxPattern.remove(ctx)
	t, e := tables.New[tables.Entity](p.storage.Tables, jobrow.Table)
	if e != nil {
		return errors.Join(err, e)
	}
	for row, e := range t.Query(tables.PartitionKey.Eq(arrivals(p.queue))).All(ctx) {
		if errors.Is(e, tables.ErrTableNotFound) {
			return err
		}
		if e == nil {
			e = t.DeleteKey(ctx, tables.Key{PartitionKey: row.PartitionKey, RowKey: row.RowKey})
		}
		if e != nil {
			return errors.Join(err, e)
		}
	}
	return err
}

func (p *jobsPattern) load(ctx context.Context, r *run) ([]entityKey, error) {
	keys, err := p.outboxPattern.load(ctx, r)
	if err == nil {
		r.say.line("each is the unique key of a job, which is enqueued twice")
	}
	return keys, err
}

// ran returns the items of the table with the jobs that ran for them.
func (p *jobsPattern) ran(ctx context.Context) (map[entityKey][]string, error) {
	keys, err := p.keysOf(ctx, p.to)
	all := map[entityKey][]string{}
	for k := range keys {
		row, job, _ := strings.Cut(k.row, jobSeparator)
		item := entityKey{k.partition, row}
		all[item] = append(all[item], job)
	}
	return all, err
}

// jobSeparator is between the RowKey of an item and the ID of its job.
const jobSeparator = "~"

func (p *jobsPattern) reset(ctx context.Context, keys []entityKey) error {
	ran, err := p.ran(ctx)
	if err != nil {
		return err
	}
	t, err := tables.New[tables.Entity](p.storage.Tables, p.to)
	if err != nil {
		return err
	}
	store, err := jobrow.Open(p.storage.Tables)
	if err != nil {
		return err
	}
	for _, k := range keys {
		for _, job := range ran[k] {
			key := tables.Key{PartitionKey: k.partition, RowKey: k.row + jobSeparator + job}
			if err := t.DeleteKey(ctx, key); err != nil && !errors.Is(err, tables.ErrNotFound) {
				return err
			}
		}
	}
	// The keys of their jobs are free again.
	for n := 1; n > 0 && err == nil; {
		n, err = store.Sweep(ctx, arrivals(p.queue), time.Now().Add(2*jobPeriod))
	}
	return err
}

// census: two jobs for an item are one too many.
func (p *jobsPattern) census(ctx context.Context, keys []entityKey, _ bool) (census, error) {
	var c census
	ran, err := p.ran(ctx)
	for _, k := range keys {
		switch len(ran[k]) {
		case 0:
			c.Kept = append(c.Kept, k)
		case 1:
			c.Moved = append(c.Moved, k)
		default:
			c.Both = append(c.Both, k)
		}
	}
	return c, err
}

// quiet is the same for workers that make a mistake.
func (p *jobsPattern) quiet(ctx context.Context) (bool, error) { return p.converged(ctx) }

// converged: no job waits or runs.
func (p *jobsPattern) converged(ctx context.Context) (bool, error) {
	for _, err := range p.storage.Jobs(ctx, arrivals(p.queue), workers.JobWaiting, workers.JobRunning,
		workers.JobRetrying) {
		return false, err
	}
	return true, nil
}

func (p *jobsPattern) conclude(ctx context.Context, _ *run) (problems []string, summary string, err error) {
	ran, err := p.ran(ctx)
	if err != nil {
		return nil, "", err
	}
	var missing, many []entityKey
	for _, k := range p.loaded {
		switch len(ran[k]) {
		case 0:
			missing = append(missing, k)
		case 1:
		default:
			many = append(many, k)
		}
	}
	for j, err := range p.storage.Jobs(ctx, arrivals(p.queue)) {
		if err != nil {
			return nil, "", err
		}
		problems = append(problems, fmt.Sprintf("the job %s is %s", j.ID, j.State))
	}
	return append(problems, append(problem("no job ran for", missing), problem("several jobs ran for", many)...)...),
		fmt.Sprintf("%d items, and one job ran for each", len(p.loaded)), nil
}

// jobPeriod is for how long the key of a job is held: longer than a run takes.
const jobPeriod = 24 * time.Hour

// RunJobsWorker works on the messages of the demonstration until ctx is done: it enqueues the job that a message asks
// for, twice, and notes which jobs run.
func RunJobsWorker(ctx context.Context, _ *workers.Storage, app *workers.App, s WorkerSettings) error {
	return runJobs(ctx, app, s, 2, func(item []byte) []workers.EnqueueOption {
		return []workers.EnqueueOption{workers.Unique(string(item)), workers.UniqueFor(jobPeriod)}
	})
}

// runJobs enqueues a job so many times for each message, with options for its item.
func runJobs(ctx context.Context, app *workers.App, s WorkerSettings, times int,
	options func(item []byte) []workers.EnqueueOption) error {
	workers.Queue(app, "place", func(ctx context.Context, m *workers.Message[indexCommand]) error {
		item, err := json.Marshal(m.Body)
		for range times {
			if err == nil {
				_, err = workers.EnqueueJob(ctx, arrivals(s.Queue), m.Body, options(item)...)
			}
		}
		return err
	}, s.Options()...)
	workers.Queue(app, "run", func(ctx context.Context, m *workers.Message[indexCommand]) error {
		id, _ := workers.JobID(ctx)
		_, job, _ := strings.Cut(id, ".")
		return workers.Upsert(ctx, s.Archive,
			&tables.Entity{PartitionKey: m.Body.PartitionKey, RowKey: m.Body.RowKey + jobSeparator + job})
	}, workers.WithQueueName(arrivals(s.Queue)), workers.WithLease(s.Lease),
		workers.WithMaxDequeueCount(s.MaxDequeueCount))
	return app.Run(ctx)
}

func (p *jobsPattern) words() words {
	return words{item: "keys that are to have one job each", done: "one job has run", notYet: "no job has run",
		half: "several jobs have run"}
}
