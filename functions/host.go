package functions

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/functions/internal/handlerproc"
	"github.com/lazuli-storage/lazuli/functions/internal/keys"
	"github.com/lazuli-storage/lazuli/functions/internal/workerproxy"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/workers"
)

// Host runs the functions of one folder. Its methods may be used by several goroutines.
type Host struct {
	project *project
	config  Config
	log     *slog.Logger
	process *handlerproc.Process // of a custom handler
	invoker invoker
	app     *workers.App
	storage bool       // app has functions
	durable DurableApp // nil: no orchestrations, activities and entities
	// messages: a durable client calls the gRPC endpoint. builtIn: durable's own activities are registered.
	messages, builtIn bool
	origin            string // of the host's own addresses, such as http://localhost:7071
	keys              *keys.Store
	durableSecret     string             // in the address for the app's own clients of workflows
	client            *http.Client       // to the handler
	worker            *workerproxy.Proxy // to the HTTP server of a language worker
	began             time.Time
	warned            sync.Map // *binding: a warning was given
	past              past

	calls sync.WaitGroup // invocations that no trigger of package workers waits for
	// hard is their context, and done when giveUp is called.
	hard   context.Context
	giveUp context.CancelCauseFunc

	// stopping is done when the host begins to stop: what runs ends, and nothing begins.
	stopping  context.Context
	beginStop context.CancelFunc

	// keep keeps the handler running until ctx is done: process.run, but for tests.
	keep func(ctx context.Context) error

	mu       sync.Mutex // guards accounts
	accounts map[string]*workers.Storage
}

// Close ends the processes of a host that was never run.
func (h *Host) Close() {
	if h.project.worker != nil {
		h.project.worker.Close()
	}
}

// connections are the connection strings of all bindings by their names.
func (h *Host) connections() map[string]string {
	all := map[string]string{}
	for _, f := range h.project.functions {
		for _, b := range append(append([]*binding{f.trigger}, f.in...), f.out...) {
			if b.connection != "" {
				all[b.connection], _ = h.project.settings.Connection(b.connection)
			}
		}
	}
	all[connstr.DefaultConnection], _ = h.project.settings.Connection(connstr.DefaultConnection)
	return all
}

// Warnings are about unknown members of the files, which are usually mistakes.
func (h *Host) Warnings() []string { return slices.Clone(h.project.warnings) }

// Notes are about members of the files that have an effect in Azure Functions and none here.
func (h *Host) Notes() []string { return slices.Clone(h.project.notes) }

// App is the runtime of the functions with storage triggers: for its counters, metrics and live state. It is started
// and stopped by Run.
func (h *Host) App() *workers.App { return h.app }
