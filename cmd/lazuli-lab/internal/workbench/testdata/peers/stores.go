package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

// The third table is of messages and rows: what a user would pick in place of the Queue and the Table service, by the
// client that its own users have. A message and a row have 1 KiB, each system syncs what it acknowledges, and the
// processor time is that of the single server, since clients differ.

const (
	itemSize   = 1 << 10
	batchOf    = 32 // messages that are put, or got and acknowledged, at once
	pageOf     = 1000
	partitions = 10 // of pageOf rows, which are there before the measurement
	rowsAtOnce = 100
)

// The rows of the table, each with a number of connections.
const (
	putOne      = "put a message"
	takeOne     = "get and acknowledge a message"
	putBatch    = "put messages, 32 at once"
	turnBatch   = "put, get and acknowledge, 32 at once"
	insertOne   = "insert a row"
	getOne      = "get a row"
	page        = "rows by pages of 1,000"
	transaction = "rows by transactions of 100 inserts"
)

// messages is a system of messages. The methods are called for several connections at once, for each by one goroutine.
type messages interface {
	// put puts n messages, together if there are several.
	put(ctx context.Context, conn, n int) error
	// take gets up to n messages and acknowledges them. It returns their number, 0 if no message comes.
	take(ctx context.Context, conn, n int) (int, error)
}

// rows is a system of rows with a partition and a key, as messages is of messages.
type rows interface {
	insert(ctx context.Context, conn int, partition, key string) error
	get(ctx context.Context, conn int, partition, key string) error
	// page reads the rows of a partition and returns their number.
	page(ctx context.Context, conn int, partition string) (int, error)
	// transaction inserts rows of a partition: all or none.
	transaction(ctx context.Context, conn int, partition string, keys []string) error
}

// title is the name of a row.
func title(name string, connections int) string {
	if connections == 1 {
		return name + ", 1 connection"
	}
	return fmt.Sprintf("%s, %d connections", name, connections)
}

// loop repeats do on each connection for some seconds and adds a row. do returns the number of things that it has done;
// after 0 its connection has nothing more to do.
func loop(ctx context.Context, m *workbench.Meter, name string, connections int, do func(context.Context, int) (int,
	error)) error {
	server := func() time.Duration { return m.Processor() - bench.ProcessorTime(os.Getpid()) }
	used, began, done := server(), time.Now(), atomic.Int64{}
	end := began.Add(*seconds)
	g, ctx := errgroup.WithContext(ctx)
	for conn := range connections {
		g.Go(func() error {
			for time.Now().Before(end) {
				n, err := do(ctx, conn)
				if err != nil || n == 0 {
					return err
				}
				done.Add(int64(n))
			}
			return nil
		})
	}
	name = title(name, connections)
	if err := g.Wait(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	n, took := int(done.Load()), time.Since(began)
	if n == 0 {
		return fmt.Errorf("%s: nothing was done", name)
	}
	m.Rows = append(m.Rows, workbench.Row{Name: name, N: n, Rate: float64(n) / took.Seconds(), Took: took,
		Processor: (server() - used) / time.Duration(n)})
	return nil
}

// measureMessages measures a system of messages whose queue is empty.
func measureMessages(ctx context.Context, m *workbench.Meter, q messages) error {
	putting := func(n int) func(context.Context, int) (int, error) {
		return func(ctx context.Context, conn int) (int, error) { return n, q.put(ctx, conn, n) }
	}
	taking := func(n int) func(context.Context, int) (int, error) {
		return func(ctx context.Context, conn int) (int, error) { return q.take(ctx, conn, n) }
	}
	turning := func(ctx context.Context, conn int) (int, error) {
		if err := q.put(ctx, conn, batchOf); err != nil {
			return 0, err
		}
		for got := 0; got < batchOf; {
			n, err := q.take(ctx, conn, batchOf-got)
			if err != nil {
				return 0, err
			}
			if n == 0 {
				return 0, errors.New("the queue is empty")
			}
			got += n
		}
		return batchOf, nil
	}
	for _, step := range []struct {
		name        string
		connections int
		do          func(context.Context, int) (int, error)
	}{
		{putOne, 1, putting(1)},
		{putOne, workbench.Parallel, putting(1)},
		{putBatch, workbench.Parallel, putting(batchOf)},
		// These have enough messages from those before.
		{turnBatch, workbench.Parallel, turning},
		{takeOne, workbench.Parallel, taking(1)},
	} {
		if err := loop(ctx, m, step.name, step.connections, step.do); err != nil {
			return err
		}
	}
	return nil
}

// measureRows measures a system of rows that has none yet.
func measureRows(ctx context.Context, m *workbench.Meter, r rows) error {
	// Point reads and pages choose a partition at random: each has a page of rows before anything is measured.
	keys := make([]string, rowsAtOnce)
	for p := range partitions {
		for first := 0; first < pageOf; first += rowsAtOnce {
			for i := range keys {
				keys[i] = fmt.Sprintf("r%06d", first+i)
			}
			if err := r.transaction(ctx, 0, fmt.Sprintf("p%06d", p), keys); err != nil {
				return err
			}
		}
	}
	var inserted [workbench.Parallel]int
	inserting := func(ctx context.Context, conn int) (int, error) {
		n := inserted[conn]
		inserted[conn]++
		return 1, r.insert(ctx, conn, fmt.Sprintf("i%05d-%06d", conn, n/pageOf), fmt.Sprintf("r%07d", n))
	}
	getting := func(ctx context.Context, conn int) (int, error) {
		return 1, r.get(ctx, conn, fmt.Sprintf("p%06d", rand.N(partitions)), fmt.Sprintf("r%06d", rand.N(pageOf)))
	}
	paging := func(ctx context.Context, conn int) (int, error) {
		n, err := r.page(ctx, conn, fmt.Sprintf("p%06d", rand.N(partitions)))
		if err == nil && n != pageOf {
			err = fmt.Errorf("a page has %d rows", n)
		}
		return n, err
	}
	transacting := func(ctx context.Context, conn int) (int, error) {
		inserted[conn]++
		return rowsAtOnce, r.transaction(ctx, conn, fmt.Sprintf("t%05d-%06d", conn, inserted[conn]), keys)
	}
	for _, step := range []struct {
		name        string
		connections int
		do          func(context.Context, int) (int, error)
	}{
		{insertOne, 1, inserting},
		{insertOne, workbench.Parallel, inserting},
		{getOne, 1, getting},
		{getOne, workbench.Parallel, getting},
		{page, workbench.Parallel, paging},
		{transaction, workbench.Parallel, transacting},
	} {
		if err := loop(ctx, m, step.name, step.connections, step.do); err != nil {
			return err
		}
	}
	return nil
}

// lazuliStores measures Lazuli by the workloads of `lazuli bench`, whose requests are those of Azure's protocol and, of
// several messages at once, of its extension.
func lazuliStores(ctx context.Context, folder string, m *workbench.Meter) error {
	names := map[string]string{"queue-put": putOne, "queue-get-delete": takeOne, "queue-put-32": putBatch,
		"queue-turnover-32": turnBatch, "entity-insert": insertOne, "point-get": getOne, "query-1000": page,
		"egt-100": transaction}
	for _, run := range []struct {
		connections int
		workloads   []string
	}{
		{1, []string{"queue-put", "entity-insert", "point-get"}},
		{workbench.Parallel, []string{"queue-put", "queue-get-delete", "queue-put-32", "queue-turnover-32",
			"entity-insert", "point-get", "query-1000", "egt-100"}},
	} {
		report, err := bench.Run(ctx, bench.Config{Workloads: run.workloads, Duration: *seconds,
			Slice: 500 * time.Millisecond, Connections: run.connections, Command: lazuliCommand, TempDir: folder, Seed: 1,
			Preload: bench.Preload{Entities: partitions * pageOf, Messages: 20_000}})
		if err != nil {
			return err
		}
		for _, w := range report.Workloads {
			r := w.Results[0]
			if r.Failed != "" || r.Ops == 0 {
				return fmt.Errorf("%s: %s", w.Name, r.Failed)
			}
			items := 1.0
			if r.ItemsPerS > 0 {
				items = r.ItemsPerS / r.OpsPerS
			}
			m.Rows = append(m.Rows, workbench.Row{Name: title(names[w.Name], run.connections),
				N: int(float64(r.Ops) * items), Rate: r.OpsPerS * items,
				Took:      time.Duration(float64(r.Ops) / r.OpsPerS * float64(time.Second)),
				Processor: time.Duration(r.CPUUS / items * float64(time.Microsecond))})
		}
	}
	return nil
}

// noise is the content of messages and rows: text that does not compress.
var noise = func() string {
	b := make([]byte, itemSize)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"[rand.N(64)]
	}
	return string(b)
}()
