package functions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/failure"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/engine"
)

// durablePath is the place where the management API of durable functions is.
const durablePath = "/runtime/webhooks/durabletask/"

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

// defaultDurableHub is the hub's name on a developer's machine.
const defaultDurableHub = "TestHubName"

// readDurable reads extensions.durableTask. Its members are honoured or refused.
func readDurable(s *section, app *settings) DurableSettings {
	expand := func(o *section, name, fallback string) string {
		text, err := app.expand(o.text(name, fallback), false)
		if err != nil {
			o.fail(name, "%v", err)
		}
		// Of a variable that is not set the name is left, without its signs.
		return strings.Trim(text, "%")
	}
	d := DurableSettings{Hub: defaultDurableHub, Connection: connstr.DefaultConnection,
		MaxActivities: 10 * runtime.GOMAXPROCS(0), MaxOrchestrators: 10 * runtime.GOMAXPROCS(0),
		MaxEntities: 10 * runtime.GOMAXPROCS(0)}
	// An app without the section has the defaults of the extension, and not none: its functions may be workflows all the
	// same.
	if s == nil {
		return d
	}
	d.Hub = expand(s, "hubName", d.Hub)
	d.MaxActivities = s.integer("maxConcurrentActivityFunctions", d.MaxActivities, 1, 10_000)
	d.MaxOrchestrators = s.integer("maxConcurrentOrchestratorFunctions", d.MaxOrchestrators, 1, 10_000)
	d.MaxEntities = s.integer("maxConcurrentEntityFunctions", d.MaxEntities, 1, 10_000)
	if h := s.object("httpSettings"); h != nil {
		ms := h.integer("defaultAsyncRequestSleepTimeMilliseconds", 0, 1, 24*60*60*1000)
		d.HTTPSleep = time.Duration(ms) * time.Millisecond
		if h.boolean("useForwardedHost", false) {
			h.fail("useForwardedHost", "true is not supported")
		}
		h.refuseUnread()
	}
	d.ReplaceRunning = s.choice("overridableExistingInstanceStates", "NonRunningStates", "NonRunningStates",
		"AnyState") == "AnyState"
	if p := s.object("storageProvider"); p != nil {
		connection := ""
		// The member has had both names.
		for _, name := range []string{"connectionName", "connectionStringName"} {
			if p.has(name) {
				connection = expand(p, name, "")
			}
		}
		if p.choice("type", "AzureStorage", "AzureStorage", "azureManaged") == "azureManaged" {
			d.readScheduler(p, s.has("hubName"), connection, app)
		} else if connection != "" {
			d.Connection = connection
		}
		d.Partitions = p.integer("partitionCount", 0, 1, 16)
		d.MaxBuffered = p.integer("controlQueueBufferThreshold", 0, 1, 1000)
		d.MaxPolling = p.duration("maxQueuePollingInterval", 0, 100*time.Millisecond, time.Hour)
		d.Visibility = p.duration("controlQueueVisibilityTimeout", 0, time.Second, time.Hour)
		// One of the two may be given alone. Two values that differ are refused: one of them would be accepted and ignored.
		if work := p.duration("workItemQueueVisibilityTimeout", d.Visibility, time.Second, time.Hour); d.Visibility != 0 &&
			work != d.Visibility {
			p.fail("workItemQueueVisibilityTimeout",
				"differs from controlQueueVisibilityTimeout, which is not supported: one value is for both")
		} else {
			d.Visibility = work
		}
		p.noEffect("the queues of workflows are Lazuli's own", "controlQueueBatchSize", "FetchLargeMessagesAutomatically",
			"QueueClientMessageEncoding", "useLegacyPartitionManagement", "useTablePartitionManagement")
		p.refuseUnread()
	}
	s.noEffect("it is for .NET", "extendedSessionsEnabled", "extendedSessionIdleTimeoutInSeconds")
	s.noEffect("it is for Application Insights", "tracing")
	s.noEffect("a stop lets running functions end in any case", "useGracefulShutdown")
	s.noEffect("any app that names the hub takes part in its work", "useAppLease")
	// Last: each member that was read, or has no effect, is known by now; what remains is misspelled or not supported.
	s.refuseUnread()
	return d
}

// readScheduler reads the connection to a Durable Task Scheduler. A scheduler on this machine is Lazuli's
// (serve --durable): the app takes part in its hub, in the storage account of the app, as the workers do that are
// connected to it.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-task-scheduler/quickstart-durable-task-scheduler
func (d *DurableSettings) readScheduler(p *section, named bool, connection string, app *settings) {
	if connection == "" {
		connection = "DURABLE_TASK_SCHEDULER_CONNECTION_STRING"
	}
	text, ok := app.get(connection)
	if !ok || text == "" {
		p.fail("connectionStringName", "%q is set neither in the environment nor in %s (Values)", connection, settingsFile)
		return
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, "=")
		parts[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	endpoint, err := url.Parse(parts["endpoint"])
	if err != nil || endpoint.Hostname() == "" {
		p.fail("connectionStringName", "%s: want Endpoint=http://localhost:8080;Authentication=None", connection)
		return
	}
	if host := endpoint.Hostname(); host != "localhost" && !net.ParseIP(host).IsLoopback() {
		p.fail("connectionStringName", "%s: the scheduler %s is not on this machine, which is not supported: want "+
			"Endpoint=http://localhost:8080;Authentication=None for Lazuli's own", connection, endpoint.Host)
		return
	}
	d.Scheduler, d.SchedulerConnection = true, connection
	if hub := parts["taskhub"]; !named {
		d.Hub = cmp.Or(hub, "default")
	}
	p.report.notes = append(p.report.notes, fmt.Sprintf("%s: the workflows are those of the hub %s in the account of %s, "+
		"which `lazuli serve --durable` serves as a scheduler; the host does not connect to %s", p.at("type"), d.Hub,
		connstr.DefaultConnection, endpoint.Host))
	p.noEffect("large payloads are stored in blobs in any case", "largePayloadStorageEnabled",
		"largePayloadStorageThresholdBytes")
}

// refuseUnread reports members that were not read as errors.
func (s *section) refuseUnread() {
	for _, m := range s.members {
		if !m.known {
			s.fail(m.name, "not supported")
		}
	}
}

// durable reports whether the function is an orchestration, an activity or an entity.
func (f *function) durable() bool {
	return durableKind(f.trigger.kind)
}

func durableKind(trigger string) bool {
	return trigger == kindOrchestrationTrigger || trigger == kindActivityTrigger || trigger == kindEntityTrigger
}

// durableNames are the options by which the triggers' functions have another name in workflows.
var durableNames = map[string]string{kindOrchestrationTrigger: "orchestration", kindActivityTrigger: "activity",
	kindEntityTrigger: "entityName"}

// readDurable reads a binding of the durable extension.
func (b *binding) readDurable(o *section, s *settings, h *hostFile, f *function) {
	b.connection = h.durable.Connection
	if _, err := s.connection(b.connection); err != nil {
		o.fail("type", "%v (host.json: extensions.durableTask.storageProvider)", err)
	}
	switch b.kind {
	case kindDurableClient:
		if hub := strings.Trim(o.text("taskHub", ""), "%"); hub != "" && !strings.EqualFold(hub, h.durable.Hub) {
			o.fail("taskHub", "%q is not supported: the app's own hub is %q", hub, h.durable.Hub)
		}
		if name := o.text("connectionName", ""); name != "" && name != h.durable.Connection &&
			name != h.durable.SchedulerConnection {
			o.fail("connectionName", "%q is not supported: the app's own connection is %q", name, h.durable.Connection)
		}
	default:
		b.durableName = o.text(durableNames[b.kind], "")
		if b.durableName == "" {
			b.durableName = f.name
		}
	}
	b.messages = o.boolean("durableRequiresGrpc", false) || h.runtime == runtimeDotNet || h.runtime == runtimeJava
}

// checkDurable refuses bindings that orchestrations and entities cannot have: they may run many times for one step.
func (f *function) checkDurable(file *section) {
	if f.trigger != nil && (f.trigger.kind == kindOrchestrationTrigger || f.trigger.kind == kindEntityTrigger) &&
		len(f.in)+len(f.out) > 0 {
		file.fail("bindings", "an %s cannot be combined with other bindings: its code may run again for a step; "+
			"activities can have them", f.trigger.kind)
	}
}

// openDurable opens the runtime of workflows if the app needs it.
func (h *Host) openDurable() (DurableApp, error) {
	s := h.project.host.durable
	client, runs := "", false
	for _, f := range h.project.functions {
		runs = runs || f.durable()
		if f.trigger.kind == kindOrchestrationTrigger {
			s.Workflows = append(s.Workflows, f.trigger.durableName)
		}
		for _, b := range f.in {
			if b.kind == kindDurableClient {
				client = f.name
				h.messages = h.messages || b.messages
			}
		}
	}
	switch {
	case !runs && client == "":
		return nil, nil
	case !runs:
		return nil, fmt.Errorf("%s/function.json: a durableClient needs an orchestrationTrigger, activityTrigger or "+
			"entityTrigger in the same app", client)
	case h.config.Durable == nil:
		return nil, errors.New("orchestrations, activities and entities are not supported by this host")
	}
	s.Storage, s.Logger = func() (*workers.Storage, error) { return h.open(s.Connection) }, h.log
	app, err := h.config.Durable.Open(s)
	if err != nil {
		return nil, fmt.Errorf("host.json: extensions.durableTask: %w", err)
	}
	return app, nil
}

// registerDurable hands an orchestration, activity or entity to the runtime.
func (h *Host) registerDurable(f *function) {
	name, connection := f.trigger.durableName, workers.WithConnection(f.trigger.connection)
	form := DurableMessages
	if h.project.worker != nil && !f.trigger.messages {
		form = DurableJavaScript
		if h.project.host.runtime == "python" {
			form = DurablePython
		}
	}
	switch f.trigger.kind {
	case kindOrchestrationTrigger:
		h.app.Orchestration(name, h.durable.Orchestrator(form, h.durableCall(f, "A step of a workflow is to be run.")),
			connection)
	case kindEntityTrigger:
		h.app.Entity(name, h.durable.Entity(form, h.durableCall(f, "Operations of an entity are to be run.")), connection)
	case kindActivityTrigger:
		h.app.Activity(name, func(ctx context.Context, input []byte) ([]byte, error) {
			return h.callActivity(ctx, f, input)
		}, connection)
	}
	if h.builtIn {
		return
	}
	h.builtIn = true
	for name, run := range h.durable.Activities() {
		h.app.Activity(name, run, connection)
	}
}

// durableCall returns what calls the function of an orchestration or entity.
func (h *Host) durableCall(f *function, reason string) DurableCall {
	return func(ctx context.Context, trigger any) (json.RawMessage, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(h.hard, func() { cancel(context.Cause(h.hard)) })()
		inv := h.newInvocation(ctx, f, reason)
		inv.trigger = trigger
		if state, ok := trigger.(json.RawMessage); ok {
			// Functions read the input and the ID there too. The host takes the members of any value that is an object:
			// https://github.com/Azure/azure-functions-host/blob/89dc438/src/WebJobs.Script/Utility.cs (ApplyBindingData)
			inv.data.addPayload(string(state))
		}
		err := h.wrap(ctx, inv, func(ctx context.Context) error {
			_, err := h.call(ctx, inv)
			return err
		})
		return inv.returned.JSON, err
	}
}

// The runtimes all of whose workflows use messages, without durableRequiresGrpc in their bindings.
const (
	runtimeDotNet = "dotnet-isolated"
	runtimeJava   = "java"
)

// soleArgument returns the element of a list of one, as which .NET's workflows schedule the input of an activity.
// https://github.com/Azure/azure-functions-durable-extension (DurableActivityContext)
func soleArgument(input []byte) []byte {
	var list []json.RawMessage
	if json.Unmarshal(input, &list) != nil || len(list) != 1 {
		return input
	}
	return present(list[0])
}

// callActivity runs an activity. Its input is JSON, and so is its result: ReturnValue.
func (h *Host) callActivity(ctx context.Context, f *function, input []byte) ([]byte, error) {
	inv := h.newInvocation(ctx, f, "A workflow has called the activity.")
	if h.project.host.runtime == runtimeDotNet {
		input = soleArgument(input)
	}
	if len(input) > 0 {
		inv.trigger = json.RawMessage(input)
		inv.data.addPayload(string(input))
		inv.data.set("data", json.RawMessage(input))
	}
	if v := present(input); v != nil && h.project.worker != nil {
		inv.data.set(f.trigger.name, v)
	}
	inv.data.set("instanceId", h.durable.Instance(ctx))
	if _, err := h.call(ctx, inv); err != nil {
		if d := (*failure.Details)(nil); f.trigger.messages && errors.As(err, &d) {
			err = workers.Logged(failure.Typed(d))
		}
		return nil, err
	}
	return inv.returned.JSON, nil
}
