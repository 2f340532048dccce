package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// jobApp is an app whose function "work" calls h.
func jobApp(a *lazulitest.Account, clock workers.Clock, h workers.QueueHandler,
	options ...workers.QueueOption) *workers.App {
	app := workers.New(workers.Config{Storage: a.Storage, Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	app.Queue("work", h, options...)
	return app
}

// jobStates returns the states of the jobs of the queue "work", as a list shows them.
func jobStates(t *testing.T, a *lazulitest.Account) (all []string) {
	t.Helper()
	for j, err := range a.Jobs(t.Context(), "work") {
		check.OK(t, err)
		all = append(all, string(j.State))
	}
	return all
}

// rowsOf returns the RowKeys of the table of jobs, each as its first letter.
func rowsOf(t *testing.T, a *lazulitest.Account) string {
	t.Helper()
	var kinds []string
	for pager := a.Tables.NewClient("lazulijobs").NewListEntitiesPager(nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		check.OK(t, err)
		for _, text := range page.Entities {
			var e aztables.Entity
			check.OK(t, json.Unmarshal(text, &e))
			kinds = append(kinds, e.RowKey[:1])
		}
	}
	slices.Sort(kinds)
	return strings.Join(kinds, "")
}

// A job is kept with its result, errors and attempts; one that is not kept leaves no row.
func TestJobLifeCycle(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Account(t)
	kept, err := a.EnqueueJob(t.Context(), "work", map[string]int{"n": 1}, workers.Keep(time.Hour))
	check.OK(t, err)
	other, err := a.EnqueueJob(t.Context(), "work", map[string]int{"n": 2})
	check.OK(t, err)
	later, err := a.EnqueueJob(t.Context(), "work", map[string]int{"n": 3}, workers.After(time.Hour))
	check.OK(t, err)
	if got := jobStates(t, a); fmt.Sprint(got) != "[waiting waiting waiting]" {
		t.Errorf("before the app: %v", got)
	}
	var ids sync.Map
	app := jobApp(a, nil, func(ctx context.Context, m workers.QueueMessage) error {
		id, ok := workers.JobID(ctx)
		ids.Store(id, ok)
		if string(m.Body) == `{"n":1}` && m.DequeueCount == 1 {
			return errors.New("not yet")
		}
		check.OK(t, workers.SetProgress(ctx, 50))
		j, err := a.Job(ctx, id)
		if err != nil || j.State != workers.JobRunning || string(j.Progress) != "50" || j.Function != "work" {
			t.Errorf("while it runs: %+v, %v", j, err)
		}
		return workers.SetResult(ctx, map[string]string{"of": string(m.Body)})
	})
	a.Run(app)
	a.Drain()
	j, err := a.Job(t.Context(), kept.ID)
	check.OK(t, err)
	if j.State != workers.JobDone || j.Attempt != 2 || len(j.Errors) != 1 || j.Errors[0].Text != "not yet" ||
		string(j.Result) != `{"of":"{\"n\":1}"}` || j.Expires.Sub(j.Changed) != time.Hour {
		t.Errorf("got %+v", j)
	}
	if _, err := a.Job(t.Context(), other.ID); !errors.Is(err, workers.ErrNoJob) {
		t.Errorf("the job that is not kept: %v", err)
	}
	if j, err := a.Job(t.Context(), later.ID); err != nil || j.RunAt.IsZero() || j.State != workers.JobWaiting {
		t.Errorf("the job of the future: %+v, %v", j, err)
	}
	if _, ok := ids.Load(kept.ID); !ok {
		t.Error("the handler does not know its job")
	}
	// The kept one has its row, one to list, and when it expires. The waiting one has two.
	if got := rowsOf(t, a); got != "iijjx" {
		t.Errorf("rows: %s", got)
	}
	if q, err := a.JobQueues(t.Context()); err != nil || fmt.Sprint(q) != "[work]" {
		t.Errorf("queues: %v, %v", q, err)
	}
}

// Messages that are no jobs write no row and make no table.
func TestJobsCostNothingUnused(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Account(t)
	app := jobApp(a, nil, func(ctx context.Context, _ workers.QueueMessage) error {
		if _, ok := workers.JobID(ctx); ok || !errors.Is(workers.SetResult(ctx, 1), workers.ErrNotAJob) ||
			!errors.Is(workers.SetProgress(ctx, 1), workers.ErrNotAJob) {
			t.Error("a plain message is a job")
		}
		return nil
	})
	a.Run(app)
	check.OK(t, a.Enqueue(t.Context(), "work", "plain"))
	a.Drain()
	for pager := a.Tables.NewListTablesPager(nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		check.OK(t, err)
		if len(page.Tables) > 0 {
			t.Errorf("there is a table %s", *page.Tables[0].Name)
		}
	}
	if got := jobStates(t, a); got != nil {
		t.Errorf("got %v", got)
	}
}

// At most one job with a key waits or runs, of many that are enqueued at the same time; after its end there is another.
func TestUniqueJobs(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Account(t)
	enqueue := func(options ...workers.EnqueueOption) workers.Enqueued {
		e, err := a.EnqueueJob(t.Context(), "work", "x", append(options, workers.Unique("it's/one"))...)
		check.OK(t, err)
		return e
	}
	var fresh atomic.Int64
	var ids sync.Map
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			e := enqueue()
			ids.Store(e.ID, true)
			if !e.Duplicate {
				fresh.Add(1)
			}
		})
	}
	all.Wait()
	different := 0
	ids.Range(func(any, any) bool { different++; return true })
	if fresh.Load() != 1 || different != 1 {
		t.Fatalf("%d were put, with %d IDs", fresh.Load(), different)
	}
	calls := 0
	app := jobApp(a, nil, func(ctx context.Context, m workers.QueueMessage) error {
		if calls++; calls == 1 {
			if e := enqueue(); !e.Duplicate {
				t.Error("a second one beside the one that runs")
			}
			return errors.New("again")
		}
		return nil
	}, workers.WithConcurrency(1))
	a.Run(app)
	a.Drain()
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
	if e := enqueue(workers.UniqueFor(time.Hour)); e.Duplicate {
		t.Error("a job that has ended holds its key")
	}
	a.Drain()
	if e := enqueue(); !e.Duplicate || calls != 3 {
		t.Errorf("within the period: %+v after %d calls", e, calls)
	}
}

// A job that waits is cancelled at once, and one that runs through its context, by another process.
func TestCancelJob(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	l := lazulitest.Start(t, lazulitest.WithFakeClock(clock))
	a := l.Account(t)
	// As another process has.
	other, err := workers.OpenStorage(a.ConnectionString(), workers.WithTransport(l.Client()))
	check.OK(t, err)
	waits, err := a.EnqueueJob(t.Context(), "work", "waits", workers.Unique("k"), workers.After(time.Second))
	check.OK(t, err)
	state, err := other.CancelJob(t.Context(), waits.ID)
	if state != workers.JobCancelled || err != nil {
		t.Fatalf("got %v, %v", state, err)
	}
	if _, err := other.CancelJob(t.Context(), waits.ID); !errors.Is(err, workers.ErrJobEnded) {
		t.Errorf("again: %v", err)
	}
	e, err := a.EnqueueJob(t.Context(), "work", "runs", workers.Unique("k"))
	if err != nil || e.Duplicate {
		t.Fatalf("after the cancellation: %+v, %v", e, err)
	}
	begun, cause := make(chan bool, 1), make(chan error, 1)
	app := jobApp(a, clock, func(ctx context.Context, m workers.QueueMessage) error {
		if string(m.Body) != "runs" {
			t.Errorf("%s is handled", m.Body)
		}
		begun <- true
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	a.Run(app)
	<-begun
	if state, err := other.CancelJob(t.Context(), e.ID); state != workers.JobCancelling || err != nil {
		t.Errorf("got %v, %v", state, err)
	}
	clock.Advance(2 * time.Second) // the interval at which an app looks; it also shows the message of the first job
	if err := <-cause; !errors.Is(err, workers.ErrCancelled) {
		t.Errorf("the cause is %v", err)
	}
	a.Drain()
	j, err := other.Job(t.Context(), e.ID)
	if err != nil || j.State != workers.JobCancelled || len(j.Errors) > 0 {
		t.Errorf("got %+v, %v", j, err)
	}
	a.RequireEmpty("work")
	a.RequireEmpty("work-poison")
	if s := app.Stats()[0]; s.Failed != 0 || s.Poisoned != 0 {
		t.Errorf("a cancellation counts as a failure: %+v", s)
	}
	if c, err := app.Calls("work"); err != nil || len(c) != 1 || c[0].Outcome != status.Cancelled {
		t.Errorf("calls: %+v, %v", c, err)
	}
}

// A job that failed for good is poisoned; put back, it runs again under its ID and key.
func TestPoisonedJobIsPutBack(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Account(t)
	e, err := a.EnqueueJob(t.Context(), "work", "x", workers.Unique("k"), workers.Keep(time.Hour))
	check.OK(t, err)
	var works atomic.Bool
	app := jobApp(a, nil, func(context.Context, workers.QueueMessage) error {
		if !works.Load() {
			return workers.Permanent(errors.New("broken"))
		}
		return nil
	})
	a.Run(app)
	a.Drain()
	j, err := a.Job(t.Context(), e.ID)
	if err != nil || j.State != workers.JobPoisoned || j.Errors[0].Text != "broken" {
		t.Fatalf("got %+v, %v", j, err)
	}
	works.Store(true)
	_, err = queuetool.Requeue(t.Context(), a.Queues.NewQueueClient("work-poison"), a.Queues.NewQueueClient("work"),
		queuetool.Filter{}, 0)
	check.OK(t, err)
	app.Wake("work")
	a.Drain()
	if j, err = a.Job(t.Context(), e.ID); err != nil || j.State != workers.JobDone || j.Attempt != 2 {
		t.Errorf("got %+v, %v", j, err)
	}
	if got := rowsOf(t, a); got != "ijx" {
		t.Errorf("rows: %s", got)
	}
}

// A crash at each step, which an error stands for: in the end no job is left that waits for a message, the key is free,
// and a job whose caller got its ID was handled.
func TestJobCrashesAtEveryStep(t *testing.T) {
	for _, point := range append(fault.PointsOf("jobs"), "workers/before-delete-message") {
		t.Run(point, func(t *testing.T) {
			clock := lazulitest.NewClock()
			a := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
			stop := sync.OnceFunc(fault.Activate(fault.NewPlan(fault.Rule{Point: fault.Name(point), On: 1,
				Do: fault.Fail(errors.New("a crash"))})))
			defer stop()
			_, enqueued := a.EnqueueJob(t.Context(), "work", "x", workers.Unique("k"))
			calls := 0
			a.Run(jobApp(a, clock, func(context.Context, workers.QueueMessage) error {
				calls++
				if point == "jobs/after-poison-put" && calls == 1 {
					return workers.Permanent(errors.New("broken"))
				}
				return nil
			}))
			a.Drain()
			stop()
			for range 4 { // The message of a sender that has crashed appears, and that of a worker.
				clock.Advance(31 * time.Second)
				a.Drain()
			}
			inserted := point != "jobs/after-put"
			if enqueued == nil != (point != "jobs/after-put" && point != "jobs/after-insert" && point != "jobs/after-show") ||
				inserted != (calls > 0) {
				t.Errorf("%v; %d calls", enqueued, calls)
			}
			if got := jobStates(t, a); got != nil {
				t.Errorf("left: %v", got)
			}
			a.RequireEmpty("work")
			e, err := a.EnqueueJob(t.Context(), "work", "x", workers.Unique("k"))
			if err != nil || e.Duplicate {
				t.Errorf("the key is not free: %+v, %v", e, err)
			}
		})
	}
}

func TestJobMistakes(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Account(t)
	tx := func() error {
		_, err := workers.EnqueueJob(t.Context(), "work", "x")
		return err
	}
	job := func(queue string, body any, o ...workers.EnqueueOption) error {
		_, err := a.EnqueueJob(t.Context(), queue, body, o...)
		return err
	}
	for says, err := range map[string]error{
		"not one of a handler":    tx(),
		"queue name":              job("No", "x"),
		"has a poison queue":      job("work-poison", "x"),
		"a delay of":              job("work", "x", workers.After(-1)),
		"does not expire":         job("work", "x", workers.TimeToLive(time.Hour)),
		"UniqueFor needs Unique":  job("work", "x", workers.UniqueFor(time.Hour)),
		"a unique key of 0 bytes": job("work", "x", workers.Unique("")),
		"of 1025 bytes":           job("work", "x", workers.Unique(strings.Repeat("k", 1025))),
		"negative time":           job("work", "x", workers.Keep(-1)),
		"at most 3650 days":       job("work", "x", workers.Keep(1<<62)),
		"unsupported type":        job("work", make(chan int)),
		"options of EnqueueJob":   a.Enqueue(t.Context(), "work", "x", workers.Unique("k")),
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	for _, id := range []string{"", "x", "work.", "work.UPPERCASEUPPERCASEUP", "work.aaaaaaaaaaaaaaaaaaaaaaaaaa",
		"it's.aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		if _, err := a.Job(t.Context(), id); !errors.Is(err, workers.ErrNoJob) {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := a.CancelJob(t.Context(), id); !errors.Is(err, workers.ErrNoJob) {
			t.Errorf("cancel %q: %v", id, err)
		}
	}
	// A text that names a job that it is not the message of does not touch it.
	e, err := a.EnqueueJob(t.Context(), "work", "x", workers.After(time.Hour))
	check.OK(t, err)
	forged := "lazuli-job/1 " + e.ID + " FORGED\neA=="
	check.OK(t, a.Enqueue(t.Context(), "work", forged, workers.EncodedAs(workers.NoEncoding)))
	a.Run(jobApp(a, nil, func(context.Context, workers.QueueMessage) error {
		t.Error("the handler is called")
		return nil
	}))
	a.Drain()
	if j, err := a.Job(t.Context(), e.ID); err != nil || j.State != workers.JobWaiting {
		t.Errorf("got %+v, %v", j, err)
	}
	if n := len(a.Messages("work-poison")); n != 1 {
		t.Errorf("%d messages are poisoned", n)
	}
}

// Jobs of a batch have results of their own, and one of them can be cancelled.
func TestJobsOfABatch(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	a := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
	var ids []string
	for i := range 3 {
		e, err := a.EnqueueJob(t.Context(), "work", i, workers.Keep(time.Hour))
		check.OK(t, err)
		ids = append(ids, e.ID)
	}
	app := workers.New(workers.Config{Storage: a.Storage, Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	workers.Batch(app, "work", func(ctx context.Context, batch []*workers.BatchMessage[int]) error {
		if _, ok := workers.JobID(ctx); ok || len(batch) != 3 {
			t.Errorf("the call of %d messages is a job: %v", len(batch), ok)
		}
		for _, m := range batch {
			id, _ := workers.JobID(m.Context())
			if m.Body == 2 {
				_, err := a.CancelJob(ctx, id)
				check.OK(t, err)
				clock.Advance(2 * time.Second)
				<-m.Context().Done()
				continue
			}
			check.OK(t, workers.SetResult(m.Context(), id))
		}
		return nil
	})
	a.Run(app)
	a.Drain()
	for i, id := range ids {
		j, err := a.Job(t.Context(), id)
		check.OK(t, err)
		want, result := workers.JobDone, fmt.Sprintf("%q", id)
		if i == 2 {
			want, result = workers.JobCancelled, ""
		}
		if j.State != want || string(j.Result) != result {
			t.Errorf("%d: %+v", i, j)
		}
	}
}
