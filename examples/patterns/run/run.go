// Package run is the frame of the examples: it opens a storage account, counts what each way of doing something costs,
// and prints that.
package run

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// Env is the environment of an example.
type Env struct {
	*workers.Storage
	// Service is Storage.Tables.
	Service *aztables.ServiceClient
	out     io.Writer
	suffix  string
	meter   *meter
	names   []string // of what was made
	undo    []func(context.Context) error
}

// Main runs an example against the storage account of workers.ConnectionFromEnvironment. Unknown flags are errors.
func Main(example func(context.Context, *Env) error) {
	log.SetFlags(0)
	keep, err := parse(flag.CommandLine, os.Args[1:])
	if err != nil {
		log.Print(err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, workers.ConnectionFromEnvironment(), os.Stdout, keep, example); err != nil {
		log.Fatal(err)
	}
}

// parse reads the arguments of a program.
func parse(fl *flag.FlagSet, args []string) (keep bool, err error) {
	fl.BoolVar(&keep, "keep", false, "keep the tables, queues and containers, and print their names")
	if err := fl.Parse(args); err != nil {
		return false, err
	}
	if fl.NArg() > 0 {
		return false, fmt.Errorf("unexpected argument %q; the program has the flag --keep alone", fl.Arg(0))
	}
	return keep, nil
}

// run runs an example, and removes the tables, queues and containers that it has made, or says their names.
func run(ctx context.Context, connection string, out io.Writer, keep bool,
	example func(context.Context, *Env) error) (err error) {
	m := &meter{client: &http.Client{Transport: http.DefaultTransport}}
	// More attempts than the SDK's three: a limited partition answers 503 for seconds.
	storage, err := workers.OpenStorage(connection, workers.WithTransport(m),
		workers.WithClientRetry(policy.RetryOptions{MaxRetries: 8, MaxRetryDelay: 2 * time.Second}))
	if err != nil {
		return err
	}
	e := &Env{Storage: storage, Service: storage.Tables, out: out, suffix: strconv.FormatInt(time.Now().UnixNano(), 36),
		meter: m}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if keep {
			fmt.Fprintf(os.Stderr, "kept: %s\n", strings.Join(e.names, ", "))
			return
		}
		for _, f := range e.undo {
			err = errors.Join(err, f(clean))
		}
	}()
	return example(ctx, e)
}

// Name returns a table's name that no other run has, and deletes the table at the end.
func (e *Env) Name(name string) string {
	name += e.suffix
	e.names = append(e.names, "table "+name)
	e.Later(func(ctx context.Context) error {
		t, err := tables.New[tables.Entity](e.Service, name)
		if err != nil {
			return err
		}
		return t.Drop(ctx)
	})
	return name
}

// Queue returns the name of a new queue, and deletes it at the end.
func (e *Env) Queue(ctx context.Context, name string) (string, error) {
	name += "-" + e.suffix
	_, err := e.Queues.CreateQueue(ctx, name, nil)
	e.names = append(e.names, "queue "+name)
	e.Later(func(ctx context.Context) error { _, err := e.Queues.DeleteQueue(ctx, name, nil); return err })
	return name, err
}

// Container returns the name of a new container, and deletes it at the end.
func (e *Env) Container(ctx context.Context, name string) (string, error) {
	name += "-" + e.suffix
	_, err := e.Blobs.CreateContainer(ctx, name, nil)
	e.names = append(e.names, "container "+name)
	e.Later(func(ctx context.Context) error { _, err := e.Blobs.DeleteContainer(ctx, name, nil); return err })
	return name, err
}

// Later calls f at the end.
func (e *Env) Later(f func(context.Context) error) { e.undo = append(e.undo, f) }

// New returns a new table.
func New[T any](ctx context.Context, e *Env, name string, options ...tables.Option) (*tables.Table[T], error) {
	t, err := tables.New[T](e.Service, e.Name(name), options...)
	if err != nil {
		return nil, err
	}
	return t, t.Create(ctx)
}

// Say prints a line.
func (e *Env) Say(format string, args ...any) { fmt.Fprintf(e.out, format+"\n", args...) }

// Cost is the cost of an operation.
type Cost struct {
	// Requests were sent, retries included.
	Requests int
	// Scanned entities were read by the service for queries.
	Scanned int
	// Untold is the number of queries of which the service did not say how many entities it read: only Lazuli does.
	Untold int
}

// Costs runs one way of doing something, which returns its result in words, and prints what it cost.
func (e *Env) Costs(way string, do func() (string, error)) error {
	cost, result, err := e.Measure(do)
	if err != nil {
		return fmt.Errorf("%s: %w", way, err)
	}
	e.Say("%-62s %4d requests, %5s entities scanned: %s", way, cost.Requests, cost.scanned(), result)
	return nil
}

// scanned is a question mark if the number is not known.
func (c Cost) scanned() string {
	if c.Untold > 0 {
		return "?"
	}
	return strconv.Itoa(c.Scanned)
}

// Measure is Costs without the line.
func (e *Env) Measure(do func() (string, error)) (cost Cost, result string, err error) {
	e.meter.reset()
	result, err = do()
	return e.meter.total(), result, err
}

// meter counts requests, and asks Lazuli for the cost of each query (docs/tables.md). It is a transport, so that its
// header does not have to be signed.
type meter struct {
	client *http.Client

	mu   sync.Mutex // guards cost
	cost Cost
}

func (m *meter) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-Lazuli-Explain", "true")
	answer, err := m.client.Do(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cost.Requests++
	if err == nil {
		n, missing := strconv.Atoi(answer.Header.Get("X-Lazuli-Entities-Scanned"))
		m.cost.Scanned += n
		if missing != nil && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ")") &&
			answer.StatusCode == http.StatusOK {
			m.cost.Untold++ // a query of entities: only its path ends so
		}
	}
	return answer, err
}

func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cost = Cost{}
}

func (m *meter) total() Cost {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cost
}
