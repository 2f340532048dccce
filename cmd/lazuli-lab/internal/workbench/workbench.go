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
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/internal/gctuner"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/server"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// Config configures a run.
type Config struct {
	// Command makes commands of lazuli.
	Command func(args ...string) *exec.Cmd
	// Jobs is the number of messages that are put, and then handled.
	Jobs int
	// Delayed is the number of messages that become visible at once.
	Delayed int
	// Workflows is the number of workflows of each kind.
	Workflows int
	// Sleeping is the number of workflows that wait for an event at the same time.
	Sleeping int
	// Entities is the number of entities that a client signals once each.
	Entities int
	// Wakes is the number of messages that are put, one at a time, for an idle worker.
	Wakes int
	// InProcess runs the server in this process, and reaches it without connections.
	InProcess bool
	// Folder is the folder for the server's data; "" is the system's temporary directory.
	Folder string
}

// Row is one measurement.
type Row struct {
	Name string
	// Rate is what was done in a second.
	Rate float64
	// Processor is the processor time of server and client for one of them; 0 where it was not measured.
	Processor time.Duration
	// Requests are the requests to the server for one of them; 0 where they were not counted.
	Requests float64
	// P50 and P99 are latencies; 0 where they were not measured.
	P50, P99 time.Duration
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

// parallel is the number of jobs that clients and workers have in work at once.
const parallel = 32

// workflowsAtOnce is the number of workflows that run at once.
const workflowsAtOnce = 16

// quiet discards what workers log.
var quiet = slog.New(slog.DiscardHandler)

// run is one run.
type run struct {
	Config
	server   *killrig.Server // nil: in this process
	storage  *workers.Storage
	requests atomic.Int64
	rows     []Row
}

// counted is a transport that counts the requests.
type counted struct {
	next *http.Client
	n    *atomic.Int64
}

// Do implements policy.Transporter.
func (c counted) Do(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.next.Do(r)
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
	connection, client, stop, err := r.start(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	defer stop()
	if r.storage, err = workers.OpenStorage(connection, workers.WithTransport(counted{client, &r.requests})); err != nil {
		return nil, err
	}
	for _, measure := range []func(context.Context) error{r.putAndHandle, r.wake, r.delayed, r.workflows} {
		if err := measure(ctx); err != nil {
			return r.rows, err
		}
	}
	return r.rows, nil
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

// measured adds a row for n things that do does.
func (r *run) measured(name string, n int, do func() error) error {
	began, used, asked := time.Now(), r.processor(), r.requests.Load()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(began)
	r.rows = append(r.rows, Row{Name: name, Rate: float64(n) / took.Seconds(),
		Processor: (r.processor() - used) / time.Duration(n), Requests: float64(r.requests.Load()-asked) / float64(n),
		Took: took})
	return nil
}

// queue creates a queue.
func (r *run) queue(ctx context.Context, name string) (*azqueue.QueueClient, error) {
	q := r.storage.Queues.NewQueueClient(name)
	_, err := q.Create(ctx, nil)
	return q, err
}

// body is the text of a message.
var body = make([]byte, 256)

// put puts n messages, some at a time.
func put(ctx context.Context, n int, one func(context.Context) error) error {
	return each(ctx, n, parallel, func(ctx context.Context, _ int) error { return one(ctx) })
}

// handle runs a worker until it has handled n messages of a queue.
func (r *run) handle(ctx context.Context, queue string, n int, each func()) error {
	app := workers.New(workers.Config{Storage: r.storage, Logger: quiet})
	handled, done := atomic.Int64{}, make(chan struct{})
	app.Queue(queue, func(context.Context, workers.QueueMessage) error {
		each()
		if handled.Add(1) == int64(n) {
			close(done)
		}
		return nil
	}, workers.WithBatchSize(parallel), workers.WithNewBatchThreshold(parallel))
	if err := app.Start(ctx); err != nil {
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
	if err := app.Stop(context.WithoutCancel(ctx)); err != nil { // the last deletions
		return err
	}
	return ctx.Err()
}

func (r *run) putAndHandle(ctx context.Context) error {
	q, err := r.queue(ctx, "sdk")
	if err != nil {
		return err
	}
	if _, err := r.queue(ctx, "work"); err != nil {
		return err
	}
	text := base64.StdEncoding.EncodeToString(body)
	for _, way := range []struct {
		name string
		one  func(context.Context) error
	}{
		{"put by azqueue", func(ctx context.Context) error {
			_, err := q.EnqueueMessage(ctx, text, nil)
			return err
		}},
		{"put by Enqueue", func(ctx context.Context) error { return r.storage.Enqueue(ctx, "work", body) }},
	} {
		err := r.measured(fmt.Sprintf("%s, %d at a time", way.name, parallel), r.Jobs, func() error {
			return put(ctx, r.Jobs, way.one)
		})
		if err != nil {
			return err
		}
	}
	return r.measured(fmt.Sprintf("handle %d waiting, %d at a time", r.Jobs, parallel), r.Jobs, func() error {
		return r.handle(ctx, "work", r.Jobs, func() {})
	})
}

// wake measures the time from before a put to the start of the handler of an idle worker.
func (r *run) wake(ctx context.Context) error {
	q, err := r.queue(ctx, "idle")
	if err != nil {
		return err
	}
	app := workers.New(workers.Config{Storage: r.storage, Logger: quiet})
	begun := make(chan time.Time, 1)
	app.Queue("idle", func(context.Context, workers.QueueMessage) error {
		begun <- time.Now()
		return nil
	})
	if err := app.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = app.Stop(context.WithoutCancel(ctx)) }()
	var all []time.Duration
	for range r.Wakes {
		if err := app.WaitIdle(ctx); err != nil {
			return err
		}
		sleep(ctx, 3*time.Millisecond) // it waits at the service again
		at := time.Now()
		if _, err := q.EnqueueMessage(ctx, "eA==", nil); err != nil {
			return err
		}
		select {
		case t := <-begun:
			all = append(all, t.Sub(at))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	slices.Sort(all)
	r.rows = append(r.rows, Row{Name: "put to start of the handler, idle", P50: all[len(all)/2],
		P99: all[len(all)*99/100]})
	return nil
}

// delayed measures when the last of many jobs begins that are due at once.
func (r *run) delayed(ctx context.Context) error {
	if _, err := r.queue(ctx, "delayed"); err != nil {
		return err
	}
	due := time.Now().Add(time.Duration(5+r.Delayed/2000) * time.Second)
	err := put(ctx, r.Delayed, func(ctx context.Context) error {
		return r.storage.Enqueue(ctx, "delayed", body, workers.After(max(0, time.Until(due))))
	})
	if err != nil {
		return err
	}
	sleep(ctx, time.Until(due)) // the last whole second before which some are visible
	last := atomic.Int64{}
	err = r.handle(ctx, "delayed", r.Delayed, func() { last.Store(time.Now().UnixNano()) })
	r.rows = append(r.rows, Row{Name: fmt.Sprintf("%d delayed jobs due at once, the last start", r.Delayed),
		Took: time.Unix(0, last.Load()).Sub(due)})
	return err
}

// workflows measures chains and fan-outs; a client that is not the worker waits for their ends.
func (r *run) workflows(ctx context.Context) error {
	engine := durable.NewEngine(durable.Options{Hub: "Bench"})
	app := workers.New(workers.Config{Storage: r.storage, Durable: engine, Logger: quiet})
	workers.Activity(app, "double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	app.Orchestration("chain", durable.Orchestrator(func(ctx *durable.Context, _ int) (n int, err error) {
		for i := range 3 {
			if n, err = durable.Call[int](ctx, "double", i); err != nil {
				return 0, err
			}
		}
		return n, nil
	}))
	app.Orchestration("fan-out", durable.Orchestrator(func(ctx *durable.Context, _ int) (int, error) {
		var all []durable.Task
		for range 10 {
			all = append(all, ctx.CallActivity("double"))
		}
		results, err := durable.WhenAll[int](all...)
		return len(results), err
	}))
	app.Orchestration("sleep", durable.Orchestrator(func(ctx *durable.Context, _ int) (any, error) {
		return durable.WaitForEvent[any](ctx, "go", -1)
	}))
	app.Entity("counter", durable.Operation(durable.NewEntity[int](), "add",
		func(_ *durable.EntityContext, n *int, by int) (int, error) { *n += by; return *n, nil }))
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
	for _, name := range []string{"chain", "fan-out"} {
		if err := r.workflow(ctx, client, name); err != nil {
			return err
		}
	}
	if err := r.sleeping(ctx, app, client); err != nil {
		return err
	}
	return r.entities(ctx, app, client)
}

// each calls do with 0 to n-1, several at once.
func each(ctx context.Context, n, atOnce int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	next := atomic.Int64{}
	for range atOnce {
		g.Go(func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := do(ctx, int(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// sleeping measures workflows that wait for an event.
func (r *run) sleeping(ctx context.Context, app *workers.App, client *durable.Client) error {
	before := r.memory()
	err := r.measured(fmt.Sprintf("%d workflows begin to wait for an event", r.Sleeping), r.Sleeping, func() error {
		return each(ctx, r.Sleeping, workflowsAtOnce, func(ctx context.Context, i int) error {
			_, err := client.Start(ctx, "sleep", durable.StartOptions{InstanceID: fmt.Sprint("sleep-", i)})
			return err
		})
	})
	if err == nil {
		err = app.WaitIdle(ctx)
	}
	r.rows[len(r.rows)-1].Memory = r.memory() - before
	return err
}

// entities measures signals, each to an entity of its own. The memory is what the last nine tenths take.
func (r *run) entities(ctx context.Context, app *workers.App, client *durable.Client) error {
	signal := func(from, n int) error {
		err := each(ctx, n, workflowsAtOnce, func(ctx context.Context, i int) error {
			return client.SignalEntity(ctx, durable.EntityID("counter", fmt.Sprint(from+i)), "add",
				durable.SignalOptions{Input: "1"})
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
	err := r.measured(fmt.Sprintf("signal %d entities once, %d at a time", r.Entities-first, workflowsAtOnce),
		r.Entities-first, func() error { return signal(first, r.Entities-first) })
	r.rows[len(r.rows)-1].Memory = r.memory() - before
	return err
}

func (r *run) workflow(ctx context.Context, client *durable.Client, name string) error {
	var mu sync.Mutex
	var all []time.Duration
	title := map[string]string{"chain": "chain of 3 activities", "fan-out": "fan-out of 10 activities"}[name]
	err := r.measured(fmt.Sprintf("%s, %d at a time", title, workflowsAtOnce), r.Workflows, func() error {
		return each(ctx, r.Workflows, workflowsAtOnce, func(ctx context.Context, _ int) error {
			at := time.Now()
			id, err := client.Start(ctx, name, durable.StartOptions{})
			if err == nil {
				_, err = client.Wait(ctx, id)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, time.Since(at))
			return err
		})
	})
	if err == nil {
		slices.Sort(all)
		row := &r.rows[len(r.rows)-1]
		row.P50, row.P99 = all[len(all)/2], all[len(all)*99/100]
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
