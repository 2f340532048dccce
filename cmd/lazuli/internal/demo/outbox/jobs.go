package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/jobrow"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// RunJobs runs the demonstration of unique jobs: each item is enqueued many times, and gets one job.
func RunJobs(ctx context.Context, c rig.Config) (*rig.Report, error) {
	return rig.Demonstrate(ctx, c, openJobs)
}

// JobPoints returns what a run visits by default.
func JobPoints() []string { return rig.PointsOf(&JobsPattern{}) }

// JobsPattern enqueues a unique job for each item, and notes in a table which jobs have run. It is as the outbox apart
// from that: an item that has arrived needs no row in a table.
type JobsPattern struct{ Pattern }

func openJobs(storage *workers.Storage, id string) (rig.Pattern, error) {
	if storage.Queues == nil || storage.Tables == nil {
		return nil, errors.New("the connection string must name a queue and a table endpoint")
	}
	return &JobsPattern{Pattern{storage: storage, from: "LazuliDemoUnused" + id, to: "LazuliDemoRan" + id,
		queue: "lazuli-demo-" + id}}, nil
}

func (p *JobsPattern) Points() []string {
	// No job of a run fails for good.
	steps := slices.DeleteFunc(fault.PointsOf("jobs"), func(name string) bool { return name == "jobs/after-poison-put" })
	return append(steps, "workers/before-delete-message", "workers/after-delete-message")
}
func (p *JobsPattern) HoldUp() string      { return "jobs/after-insert" }
func (p *JobsPattern) Kind(rig.Key) string { return "job" }

// Remove also removes the rows of the jobs, which are in a table of the account.
func (p *JobsPattern) Remove(ctx context.Context) error {
	err := p.Pattern.Remove(ctx)
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

func (p *JobsPattern) Load(ctx context.Context, r *rig.Run) ([]rig.Key, error) {
	keys, err := p.Pattern.Load(ctx, r)
	if err == nil {
		r.Say.Line("each is the unique key of a job, which is enqueued twice")
	}
	return keys, err
}

// ran returns the items of the table with the jobs that ran for them.
func (p *JobsPattern) ran(ctx context.Context) (map[rig.Key][]string, error) {
	keys, err := p.keysOf(ctx, p.to)
	all := map[rig.Key][]string{}
	for k := range keys {
		row, job, _ := strings.Cut(k.Row, jobSeparator)
		item := rig.Key{Partition: k.Partition, Row: row}
		all[item] = append(all[item], job)
	}
	return all, err
}

// jobSeparator is between the RowKey of an item and the ID of its job.
const jobSeparator = "~"

func (p *JobsPattern) Reset(ctx context.Context, keys []rig.Key) error {
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
			key := tables.Key{PartitionKey: k.Partition, RowKey: k.Row + jobSeparator + job}
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
func (p *JobsPattern) Census(ctx context.Context, keys []rig.Key, _ bool) (rig.Census, error) {
	var c rig.Census
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

// Quiet is the same for workers that make a mistake.
func (p *JobsPattern) Quiet(ctx context.Context) (bool, error) { return p.Converged(ctx) }

// converged: no job waits or runs.
func (p *JobsPattern) Converged(ctx context.Context) (bool, error) {
	for _, err := range p.storage.Jobs(ctx, arrivals(p.queue), workers.JobWaiting, workers.JobRunning,
		workers.JobRetrying) {
		return false, err
	}
	return true, nil
}

func (p *JobsPattern) Conclude(ctx context.Context, _ *rig.Run) (problems []string, summary string, err error) {
	ran, err := p.ran(ctx)
	if err != nil {
		return nil, "", err
	}
	var missing, many []rig.Key
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
	problems = append(problems, rig.Problem("no job ran for", missing)...)
	return append(problems, rig.Problem("several jobs ran for", many)...),
		fmt.Sprintf("%d items, and one job ran for each", len(p.loaded)), nil
}

// jobPeriod is for how long the key of a job is held: longer than a run takes.
const jobPeriod = 24 * time.Hour

// RunJobsWorker works on the messages of the demonstration until ctx is done: it enqueues the job that a message asks
// for, twice, and notes which jobs run.
func RunJobsWorker(ctx context.Context, _ *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
	return runJobs(ctx, app, s, 2, func(item []byte) []workers.EnqueueOption {
		return []workers.EnqueueOption{workers.Unique(string(item)), workers.UniqueFor(jobPeriod)}
	})
}

// runJobs enqueues a job so many times for each message, with options for its item.
func runJobs(ctx context.Context, app *workers.App, s rig.WorkerSettings, times int,
	options func(item []byte) []workers.EnqueueOption) error {
	workers.Queue(app, "place", func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
		item, err := json.Marshal(m.Body)
		for range times {
			if err == nil {
				_, err = workers.EnqueueJob(ctx, arrivals(s.Queue), m.Body, options(item)...)
			}
		}
		return err
	}, s.Options()...)
	workers.Queue(app, "run", func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
		id, _ := workers.JobID(ctx)
		_, job, _ := strings.Cut(id, ".")
		return workers.Upsert(ctx, s.Archive,
			&tables.Entity{PartitionKey: m.Body.PartitionKey, RowKey: m.Body.RowKey + jobSeparator + job})
	}, workers.WithQueueName(arrivals(s.Queue)), workers.WithLease(s.Lease),
		workers.WithMaxDequeueCount(s.MaxDequeueCount))
	return app.Run(ctx)
}

func (p *JobsPattern) Words() rig.Words {
	return rig.Words{Item: "keys that are to have one job each", Done: "one job has run", NotYet: "no job has run",
		Half: "several jobs have run"}
}
