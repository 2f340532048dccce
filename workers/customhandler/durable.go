package customhandler

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
)

// durablePath is the place where the management API of durable functions is.
const durablePath = "/runtime/webhooks/durabletask/"

// Durable runs the orchestrations and activities of function apps. Package durablefunc has one. It is an interface so
// that this package does not link the libraries that workflows need.
type Durable interface {
	// Open prepares an app. An error means that its settings are invalid.
	Open(DurableSettings) (DurableApp, error)
}

// DurableApp are the workflows of one app.
type DurableApp interface {
	// DurableEngine runs them.
	workers.DurableEngine
	// Handler is the management API, below /runtime/webhooks/durabletask/.
	http.Handler
	// Orchestrator makes a workflow of a function that takes an OrchestratorRequest and returns an OrchestratorResponse of
	// the Durable Task protocol. An error of workers.Permanent fails the instance; after another one the step is run
	// again.
	Orchestrator(call func(ctx context.Context, request []byte) ([]byte, error)) workers.Orchestrator
	// Replay converts an OrchestratorRequest for the packages of Durable Functions for Python and JavaScript: trigger is
	// the JSON that they take, with the input as text of JSON or as JSON. finish makes an OrchestratorResponse of the
	// state that they return, or of the message of the function's failure if that is not empty.
	Replay(request []byte, inputAsText bool) (trigger json.RawMessage,
		finish func(result json.RawMessage, failure string) ([]byte, error), err error)
	// Instance returns the ID of the instance whose activity runs with the context.
	Instance(ctx context.Context) string
	// ClientData is the value of a durableClient binding of a host at an origin such as http://localhost:7071.
	ClientData(origin string) string
}

// DurableSettings are extensions.durableTask of host.json. A zero value means the engine's default.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-bindings#host-json
type DurableSettings struct {
	Hub        string
	Connection string // the name of a setting
	// Workflows are the names of the orchestrations.
	Workflows                                   []string
	Partitions, MaxActivities, MaxOrchestrators int
	MaxBuffered                                 int // messages of a partition
	Visibility, MaxPolling                      time.Duration
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
		return strings.Trim(text, "%")
	}
	d := DurableSettings{Hub: defaultDurableHub, Connection: workers.DefaultConnection,
		MaxActivities: 10 * runtime.GOMAXPROCS(0), MaxOrchestrators: 10 * runtime.GOMAXPROCS(0)}
	if s == nil {
		return d
	}
	d.Hub = expand(s, "hubName", d.Hub)
	d.MaxActivities = s.integer("maxConcurrentActivityFunctions", d.MaxActivities, 1, 10_000)
	d.MaxOrchestrators = s.integer("maxConcurrentOrchestratorFunctions", d.MaxOrchestrators, 1, 10_000)
	d.ReplaceRunning = s.choice("overridableExistingInstanceStates", "NonRunningStates", "NonRunningStates",
		"AnyState") == "AnyState"
	if p := s.object("storageProvider"); p != nil {
		p.choice("type", "AzureStorage", "AzureStorage")
		for _, name := range []string{"connectionName", "connectionStringName"} {
			if p.has(name) {
				d.Connection = expand(p, name, "")
			}
		}
		d.Partitions = p.integer("partitionCount", 0, 1, 16)
		d.MaxBuffered = p.integer("controlQueueBufferThreshold", 0, 1, 1000)
		d.MaxPolling = p.duration("maxQueuePollingInterval", 0, 100*time.Millisecond, time.Hour)
		d.Visibility = p.duration("controlQueueVisibilityTimeout", 0, time.Second, time.Hour)
		if work := p.duration("workItemQueueVisibilityTimeout", d.Visibility, time.Second, time.Hour); d.Visibility != 0 &&
			work != d.Visibility {
			p.fail("workItemQueueVisibilityTimeout",
				"differs from controlQueueVisibilityTimeout, which is not supported: one value is for both")
		} else {
			d.Visibility = work
		}
		p.refuseUnread()
	}
	for _, name := range []string{"extendedSessionsEnabled", "useAppLease"} {
		if s.boolean(name, false) {
			s.fail(name, "true is not supported")
		}
	}
	s.refuseUnread()
	return d
}

// refuseUnread reports members that were not read as errors.
func (s *section) refuseUnread() {
	for _, m := range s.members {
		if !m.known {
			s.fail(m.name, "not supported")
		}
	}
}

// durable reports whether the function is an orchestration or an activity.
func (f *function) durable() bool {
	return f.trigger.kind == kindOrchestrationTrigger || f.trigger.kind == kindActivityTrigger
}

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
		if name := o.text("connectionName", ""); name != "" && name != h.durable.Connection {
			o.fail("connectionName", "%q is not supported: the app's own connection is %q", name, h.durable.Connection)
		}
	case kindOrchestrationTrigger:
		if name := o.text("orchestration", ""); name != "" && name != f.name {
			o.fail("orchestration", "%q is not supported: the name of a workflow is that of its folder", name)
		}
	case kindActivityTrigger:
		if name := o.text("activity", ""); name != "" && name != f.name {
			o.fail("activity", "%q is not supported: the name of an activity is that of its folder", name)
		}
	}
}

// checkDurable refuses bindings that an orchestration cannot have: it runs many times for one step.
func (f *function) checkDurable(file *section) {
	if f.trigger != nil && f.trigger.kind == kindOrchestrationTrigger && len(f.in)+len(f.out) > 0 {
		file.fail("bindings", "an orchestrationTrigger cannot be combined with other bindings: its code runs again at "+
			"each step; activities can have them")
	}
}

// openDurable opens the runtime of workflows if the app needs it.
func (h *Host) openDurable() (DurableApp, error) {
	s := h.project.host.durable
	client, runs := "", false
	for _, f := range h.project.functions {
		runs = runs || f.durable()
		if f.trigger.kind == kindOrchestrationTrigger {
			s.Workflows = append(s.Workflows, f.name)
		}
		for _, b := range f.in {
			if b.kind == kindDurableClient {
				client = f.name
			}
		}
	}
	switch {
	case !runs && client == "":
		return nil, nil
	case !runs:
		return nil, fmt.Errorf("%s/function.json: a durableClient needs an orchestrationTrigger or activityTrigger in the "+
			"same app", client)
	case h.config.Durable == nil:
		return nil, errors.New("orchestrations and activities are not supported by this host")
	}
	app, err := h.config.Durable.Open(s)
	if err != nil {
		return nil, fmt.Errorf("host.json: extensions.durableTask: %w", err)
	}
	return app, nil
}

// callOrchestrator runs one step of a workflow: it sends the history to the handler, which responds with the actions to
// take.
func (h *Host) callOrchestrator(ctx context.Context, f *function, request []byte) (response []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.hard, func() { cancel(context.Cause(h.hard)) })()
	inv := h.newInvocation(ctx, f, "A step of a workflow is to be run.")
	finish := finishHandler
	if h.project.worker == nil {
		inv.trigger = base64.StdEncoding.EncodeToString(request)
	} else if inv.trigger, finish, err = h.durable.Replay(request, h.project.host.runtime == "python"); err != nil {
		return nil, workers.Permanent(err)
	}
	err = h.wrap(ctx, inv, func(ctx context.Context) error {
		_, err := h.call(ctx, inv)
		return err
	})
	var answered *FunctionError
	switch {
	case errors.As(err, &answered) && h.project.worker != nil:
		return finish(nil, answered.Error())
	case errors.As(err, &answered), errors.Is(err, workers.ErrTimeout):
		return nil, workers.Permanent(err)
	case err != nil:
		return nil, err
	}
	return finish(inv.returned.JSON, "")
}

// finishHandler reads the response of a custom handler.
func finishHandler(result json.RawMessage, _ string) ([]byte, error) {
	response, err := base64.StdEncoding.DecodeString(rawText(result))
	if err != nil || len(response) == 0 {
		return nil, workers.Permanent(errors.New("the handler's ReturnValue is not an OrchestratorResponse in base64"))
	}
	return response, nil
}

// callActivity runs an activity. Its input is JSON, and so is its result: ReturnValue.
func (h *Host) callActivity(ctx context.Context, f *function, input []byte) ([]byte, error) {
	inv := h.newInvocation(ctx, f, "A workflow has called the activity.")
	if len(input) > 0 {
		inv.trigger = json.RawMessage(input)
		inv.data.addPayload(string(input))
		inv.data.set("data", json.RawMessage(input))
	}
	inv.data.set("instanceId", h.durable.Instance(ctx))
	if _, err := h.call(ctx, inv); err != nil {
		return nil, err
	}
	return inv.returned.JSON, nil
}
