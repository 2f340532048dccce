package workerproc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/buildinfo"
	"github.com/lazuli-storage/lazuli/internal/exposure"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/server/observe/traces"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/adminhttp"
)

// ServeAdmin opens the admin listener of a worker process and returns what closes it. An empty address opens
// none. search answers at /search and functions below /functions; nil leaves the path out. With LAZULI_ADMIN_TOKEN in
// the environment, callers have to bring that token.
func ServeAdmin(address string, app *workers.App, search, functions http.Handler, log *slog.Logger) (stop func(),
	err error) {
	if address == "" {
		return func() {}, nil
	}
	token := os.Getenv("LAZULI_ADMIN_TOKEN")
	if err := exposure.Check("--admin", address, token, "set LAZULI_ADMIN_TOKEN"); err != nil {
		return nil, console.Usage(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the admin listener: %w", err)
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		app.Collector())
	server := admin.Start(l, admin.Options{Token: token, Metrics: metrics, Workers: adminhttp.NewHandler(app),
		Search: search, Functions: functions, Log: log})
	log.Info("admin listener", "url", "http://"+exposure.Callable(l.Addr().String()))
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Stop(ctx) // An interrupted scrape is not an error.
	}, nil
}

// traced counts the parts of the process that have started traces: it has one exporter.
var traced struct {
	sync.Mutex
	users int
	end   func(context.Context) error
}

// StartTraces sends OpenTelemetry traces if the environment says where to, until the function that it returns is
// called. Several parts of a process can start them: they end with the last one.
func StartTraces(ctx context.Context, service string, log *slog.Logger) (stop func(), err error) {
	traced.Lock()
	defer traced.Unlock()
	if traced.users == 0 {
		if traced.end, err = traces.Start(ctx, service, buildinfo.Current().Version, log); err != nil {
			return nil, console.Usage(err)
		}
	}
	traced.users++
	return func() {
		traced.Lock()
		defer traced.Unlock()
		if traced.users--; traced.users > 0 {
			return
		}
		sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := traced.end(sending); err != nil {
			log.Warn("the last traces could not be sent", "err", err)
		}
	}, nil
}

// FaultsFromEnvironment activates the fault plan of the environment, and logs it, so that it is not active unnoticed.
func FaultsFromEnvironment(log *slog.Logger) error {
	text := os.Getenv(fault.EnvVar)
	if text == "" {
		return nil
	}
	plan, err := fault.ParsePlan(text)
	if err != nil {
		return console.Usage(err)
	}
	fault.Activate(plan)
	log.Warn("fault injection is active", "plan", text)
	return nil
}

// StorageOver returns clients of an account whose requests t carries to the services.
func StorageOver(t http.RoundTripper, account string, retry policy.RetryOptions,
	url func(wire.Service, string) string) (*workers.Storage, error) {
	o := azcore.ClientOptions{Transport: &http.Client{Transport: t}, Retry: retry}
	queues, err1 := azqueue.NewServiceClientWithNoCredential(url(wire.Queue, account),
		&azqueue.ClientOptions{ClientOptions: o})
	blobs, err2 := azblob.NewClientWithNoCredential(url(wire.Blob, account), &azblob.ClientOptions{ClientOptions: o})
	o.PerCallPolicies = []policy.Policy{emptykey.Policy()}
	tables, err3 := aztables.NewServiceClientWithNoCredential(url(wire.Table, account),
		&aztables.ClientOptions{ClientOptions: o})
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("clients of the account %s: %w", account, err)
	}
	return &workers.Storage{Queues: queues, Blobs: blobs, Tables: tables, Local: true}, nil
}
