package functions

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/engine"
)

// Durable runs the orchestrations, activities and entities of function apps. Package durablefunc has one. It is an
// interface so that this package does not link the libraries that workflows need.
type Durable interface {
	// Open prepares an app. An error means that its settings are invalid.
	Open(DurableSettings) (DurableApp, error)
}

// DurableApp are the workflows of one app.
type DurableApp interface {
	// DurableEngine runs them.
	engine.Durable[workers.Config]
	// Handler is the management API, below /runtime/webhooks/durabletask/.
	http.Handler
	// Orchestrator makes a workflow of a function.
	Orchestrator(form DurableForm, call DurableCall) engine.Orchestrator
	// Entity makes the entities of a name of a function.
	Entity(form DurableForm, call DurableCall) engine.Entity
	// Activities are those that the app has in addition to its own, by name, if it is in a language worker.
	Activities() map[string]engine.Activity
	// Listen opens the gRPC endpoint for the clients of packages that use messages of the Durable Task protocol.
	Listen() (stop func(), err error)
	// Instance returns the ID of the instance whose activity runs with the context.
	Instance(ctx context.Context) string
	// ClientData is the value of a durableClient binding.
	ClientData(c DurableClient) string
}

// DurableClient says how clients reach the workflows of an app.
type DurableClient struct {
	// Origin is that of the host, such as http://localhost:7071.
	Origin string
	// Query is what the addresses of the HTTP API need in their query, a key. Empty if no keys are asked for.
	Query string
	// Calls is the address of the HTTP API for the client itself.
	Calls string
	// Messages: the client calls the endpoint of Listen, and not the HTTP API.
	Messages bool
}

// DurableForm selects the protocol that the functions of a workflow or an entity use.
type DurableForm int

// The forms.
const (
	// DurableMessages: an OrchestratorRequest or EntityBatchRequest of the Durable Task protocol, in base64, and an
	// OrchestratorResponse or EntityBatchResult.
	DurableMessages DurableForm = iota
	// DurablePython and DurableJavaScript: the JSON of azure-functions-durable 1 and of durable-functions 3.
	DurablePython
	DurableJavaScript
)

// DurableCall calls a function with the value of its trigger and returns its result. An error is a FunctionError or one
// of workers.ErrTimeout if the function has failed, otherwise the worker has.
type DurableCall func(ctx context.Context, trigger any) (json.RawMessage, error)

// DurableSettings are extensions.durableTask of host.json. A zero value means the engine's default.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-bindings#host-json
type DurableSettings struct {
	Hub        string
	Connection string // the name of a setting
	// Scheduler: the hub is one of a Durable Task Scheduler, with its rules for names. SchedulerConnection is the name of
	// the setting with its connection string.
	Scheduler           bool
	SchedulerConnection string
	// Workflows are the names of the orchestrations.
	Workflows                                                []string
	Partitions, MaxActivities, MaxOrchestrators, MaxEntities int
	MaxBuffered                                              int // messages of a partition
	Visibility, MaxPolling                                   time.Duration
	// HTTPSleep is the time between two requests of callHttp if the response names none.
	HTTPSleep time.Duration
	// Storage opens the account of the connection.
	Storage func() (*workers.Storage, error)
	Logger  *slog.Logger
	// ReplaceRunning: a start may replace an instance that still runs.
	ReplaceRunning bool
}
