// Package workbench measures workers and workflows on a server in a process of its own that syncs what it acknowledges:
// rates, latencies, and the processor time of server and client together for a job or a workflow.
package workbench

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/internal/gctuner"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
)

// Config configures a run.
type Config struct {
	// Command makes commands of lazuli.
	Command func(args ...string) *exec.Cmd
	Numbers
	// Sleeping is the number of workflows that wait for an event at the same time; 0 leaves them out.
	Sleeping int
	// Entities is the number of entities that a client signals once each; 0 leaves them out.
	Entities int
	// InProcess runs the server in this process, and reaches it without connections.
	InProcess bool
	// Folder is the folder for the server's data; "" is the system's temporary directory.
	Folder string
}

// Row is one measurement.
type Row struct {
	Name string
	// N is the number of what was done.
	N int
	// Rate is what was done in a second.
	Rate float64
	// Processor is the processor time of server and client for one of them; 0 where it was not measured.
	Processor time.Duration
	// Requests are the requests to the server for one of them; 0 where they were not counted.
	Requests float64
	// P50 and P99 are latencies, those of Latencies; 0 where they were not measured.
	P50, P99 time.Duration
	// Latencies are all that were measured, in rising order.
	Latencies []time.Duration
	// Took is the time that all took.
	Took time.Duration
	// Memory is the memory that server and client took meanwhile, without what they can give back at once, in bytes; 0
	// where it was not measured.
	Memory int64
}

// Write writes rows as a table.
func Write(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "work\t/s\tprocessor time\trequests\tp50\tp99\ttook\tmemory\t")
	short := func(d time.Duration) string {
		if d == 0 {
			return "-"
		}
		return d.Round(max(time.Microsecond, d/1000)).String()
	}
	for _, r := range rows {
		memory := "-"
		if r.Memory != 0 {
			memory = fmt.Sprintf("%.1f MiB", float64(r.Memory)/(1<<20))
		}
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%.2f\t%s\t%s\t%s\t%s\t\n", r.Name, r.Rate, short(r.Processor), r.Requests,
			short(r.P50), short(r.P99), short(r.Took), memory)
	}
	return w.Flush()
}

// quiet discards what workers log.
var quiet = slog.New(slog.DiscardHandler)

// run is one run.
type run struct {
	Config
	Meter
	server   *killrig.Server // nil: in this process
	storage  *workers.Storage
	requests atomic.Int64
	failed   atomic.Int64 // requests without an answer, or with one of 5xx
}

// counted is a transport that counts the requests, and those that the server did not answer well.
type counted struct {
	next      *http.Client
	n, failed *atomic.Int64
}

// Do implements policy.Transporter.
func (c counted) Do(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	answer, err := c.next.Do(r)
	if err != nil && r.Context().Err() == nil || err == nil && answer.StatusCode >= http.StatusInternalServerError {
		c.failed.Add(1)
	}
	return answer, err
}

// Run measures all rows.
func Run(ctx context.Context, c Config) (rows []Row, err error) {
	defer gctuner.Default.Start()() // as App.Run does
	dir, err := os.MkdirTemp(c.Folder, "lazuli-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &run{Config: c}
	r.Meter = Meter{N: c.Numbers, Processor: r.processor, Requests: r.requests.Load}
	connection, client, stop, err := r.start(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	defer stop()
	if r.storage, err = workers.OpenStorage(connection, workers.WithTransport(counted{client, &r.requests,
		&r.failed})); err != nil {
		return nil, err
	}
	jobs := func(ctx context.Context) error { return r.Jobs(ctx, r) }
	for _, measure := range []func(context.Context) error{r.putByAzqueue, jobs, r.workflows} {
		if err := measure(ctx); err != nil {
			return r.Rows, err
		}
	}
	if n := r.failed.Load(); n > 0 {
		err = fmt.Errorf("%d of %d requests failed or were answered 5xx", n, r.requests.Load())
	}
	return r.Rows, err
}

// start starts the server, and returns a client of it.
func (r *run) start(ctx context.Context, folder string) (connection string, client *http.Client, stop func(),
	err error) {
	ended := context.WithoutCancel(ctx)
	if r.InProcess {
		s, err := server.StartContext(ctx, server.Config{Location: folder, Log: quiet})
		if err != nil {
			return "", nil, nil, err
		}
		return s.ConnectionString(), s.Client(), func() { _ = s.Stop(ended) }, nil
	}
	if r.server, err = killrig.StartServer(ctx, r.Command, folder); err != nil {
		return "", nil, nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.DisableCompression = 0, 256, true
	return r.server.Connection, &http.Client{Transport: t}, func() { _ = r.server.Stop(ended) }, nil
}

// processor returns the processor time of server and client so far.
func (r *run) processor() time.Duration {
	own := bench.ProcessorTime(os.Getpid())
	if r.server == nil {
		return own
	}
	return own + bench.ProcessorTime(r.server.Pid())
}

// memory returns the memory that server and client have. What this process can give back does not count, what the
// server can does.
func (r *run) memory() int64 {
	debug.FreeOSMemory()
	n := bench.ReadMemory(os.Getpid()).Anon
	if r.server != nil {
		n += bench.ReadMemory(r.server.Pid()).Anon
	}
	return n
}

// queue creates a queue.
func (r *run) queue(ctx context.Context, name string) (*azqueue.QueueClient, error) {
	q := r.storage.Queues.NewQueueClient(name)
	_, err := q.Create(ctx, nil)
	return q, err
}

// maxByAzqueue is the most messages that are put by the SDK.
const maxByAzqueue = 20_000

// putByAzqueue measures Put Message by the SDK, a message a request.
func (r *run) putByAzqueue(ctx context.Context) error {
	q, err := r.queue(ctx, "sdk")
	if err != nil {
		return err
	}
	text := base64.StdEncoding.EncodeToString(Body)
	n := min(r.N.Jobs, maxByAzqueue)
	return r.measured(fmt.Sprintf("put by azqueue, %d at a time", Parallel), n, func() error {
		return each(ctx, n, Parallel, func(ctx context.Context, _ int) error {
			_, err := q.EnqueueMessage(ctx, text, nil)
			return err
		})
	})
}

// Put implements Jobs.
func (r *run) Put(ctx context.Context, queue string, due time.Time) error {
	if due.IsZero() {
		return r.storage.Enqueue(ctx, queue, Body)
	}
	return r.storage.Enqueue(ctx, queue, Body, workers.After(max(0, time.Until(due))))
}

// Work implements Jobs.
func (r *run) Work(ctx context.Context, queue string, handle func()) (*Worker, error) {
	if _, err := r.queue(ctx, queue); err != nil {
		return nil, err
	}
	app := workers.New(workers.Config{Storage: r.storage, Logger: quiet})
	app.Queue(queue, func(context.Context, workers.QueueMessage) error {
		handle()
		return nil
	}, workers.WithBatchSize(Parallel), workers.WithNewBatchThreshold(Parallel))
	return &Worker{Stop: app.Stop, Idle: func(ctx context.Context) error {
		err := app.WaitIdle(ctx)
		sleep(ctx, 3*time.Millisecond) // it waits at the service again
		return err
	}}, app.Start(ctx)
}

// workflows measures chains and fan-outs; a client that is not the worker waits for their ends.
func (r *run) workflows(ctx context.Context) error {
	engine := durable.NewEngine(durable.Options{Hub: "Bench"})
	app := workers.New(workers.Config{Storage: r.storage, Durable: engine, Logger: quiet})
	workers.Activity(app, "double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	durable.Register(app, Chain, func(ctx *durable.Context, _ int) (n int, err error) {
		for i := range 3 {
			if n, err = durable.Call[int](ctx, "double", i); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	durable.Register(app, FanOut, func(ctx *durable.Context, _ int) (int, error) {
		var all []durable.Task
		for range 10 {
			all = append(all, ctx.CallActivity("double"))
		}
		results, err := durable.WhenAll[int](all...)
		return len(results), err
	})
	durable.Register(app, "sleep", func(ctx *durable.Context, _ int) (any, error) {
		return durable.WaitForEvent[any](ctx, "go", -1)
	})
	app.Entity("counter", entity.Operation(new(entity.Kind[int]), "add",
		func(_ *entity.Context, n *int, by int) (int, error) { *n += by; return *n, nil }))
	if err := app.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = app.Stop(context.WithoutCancel(ctx)) }()
	if _, err := engine.WaitClient(ctx); err != nil { // the hub exists
		return err
	}
	client, err := durable.NewClient(ctx, durable.Options{Storage: r.storage, Hub: "Bench"})
	if err != nil {
		return err
	}
	if err := r.Workflows(ctx, func(ctx context.Context, name string) error {
		id, err := client.Start(ctx, name, durable.StartOptions{})
		if err == nil {
			_, err = client.Wait(ctx, id)
		}
		return err
	}); err != nil {
		return err
	}
	if r.Sleeping > 0 {
		if err := r.sleeping(ctx, app, client); err != nil {
			return err
		}
	}
	if r.Entities > 0 {
		return r.entities(ctx, app, client)
	}
	return nil
}

// sleeping measures workflows that wait for an event.
func (r *run) sleeping(ctx context.Context, app *workers.App, client *durable.Client) error {
	before := r.memory()
	err := r.measured(fmt.Sprintf("%d workflows begin to wait for an event", r.Sleeping), r.Sleeping, func() error {
		return each(ctx, r.Sleeping, WorkflowsAtOnce, func(ctx context.Context, i int) error {
			_, err := client.Start(ctx, "sleep", durable.StartOptions{InstanceID: fmt.Sprint("sleep-", i)})
			return err
		})
	})
	if err == nil {
		err = app.WaitIdle(ctx)
	}
	r.Rows[len(r.Rows)-1].Memory = r.memory() - before
	return err
}

// entities measures signals, each to an entity of its own. The memory is what the last nine tenths take.
func (r *run) entities(ctx context.Context, app *workers.App, client *durable.Client) error {
	signal := func(from, n int) error {
		err := each(ctx, n, WorkflowsAtOnce, func(ctx context.Context, i int) error {
			return client.SignalEntity(ctx, entity.ID("counter", fmt.Sprint(from+i)), "add",
				entity.SignalOptions{Input: "1"})
		})
		if err == nil {
			err = app.WaitIdle(ctx)
		}
		return err
	}
	first := r.Entities / 10
	if err := signal(0, first); err != nil {
		return err
	}
	before := r.memory()
	err := r.measured(fmt.Sprintf("signal %d entities once, %d at a time", r.Entities-first, WorkflowsAtOnce),
		r.Entities-first, func() error { return signal(first, r.Entities-first) })
	r.Rows[len(r.Rows)-1].Memory = r.memory() - before
	return err
}
