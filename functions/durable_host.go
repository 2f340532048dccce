package functions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
	"github.com/lazuli-storage/lazuli/internal/durable/failure"
	"github.com/lazuli-storage/lazuli/workers"
)

// openDurable opens the runtime of workflows if the app needs it.
func (h *Host) openDurable() (DurableApp, error) {
	s := h.project.host.durable
	client, runs := "", false
	for _, f := range h.project.functions {
		runs = runs || f.isDurable()
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
			inv.data.AddPayload(string(state))
		}
		err := h.wrap(ctx, inv, func(ctx context.Context) error {
			_, err := h.call(ctx, inv)
			return err
		})
		return inv.returned.JSON, err
	}
}

// soleArgument returns the element of a list of one, as which .NET's workflows schedule the input of an activity.
// https://github.com/Azure/azure-functions-durable-extension (DurableActivityContext)
func soleArgument(input []byte) []byte {
	var list []json.RawMessage
	if json.Unmarshal(input, &list) != nil || len(list) != 1 {
		return input
	}
	return jsonvalue.Present(list[0])
}

// callActivity runs an activity. Its input is JSON, and so is its result: ReturnValue.
func (h *Host) callActivity(ctx context.Context, f *function, input []byte) ([]byte, error) {
	inv := h.newInvocation(ctx, f, "A workflow has called the activity.")
	if h.project.host.runtime == runtimeDotNet {
		input = soleArgument(input)
	}
	if len(input) > 0 {
		inv.trigger = json.RawMessage(input)
		inv.data.AddPayload(string(input))
		inv.data.Set("data", json.RawMessage(input))
	}
	if v := jsonvalue.Present(input); v != nil && h.project.worker != nil {
		inv.data.Set(f.trigger.name, v)
	}
	inv.data.Set("instanceId", h.durable.Instance(ctx))
	if _, err := h.call(ctx, inv); err != nil {
		if d := (*failure.Details)(nil); f.trigger.messages && errors.As(err, &d) {
			err = workers.Logged(failure.Typed(d))
		}
		return nil, err
	}
	return inv.returned.JSON, nil
}
