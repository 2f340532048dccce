package durable_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/results"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// answering is an executor whose workflows answer with actions in JSON, as SDKs of other languages do. The name is that
// of a key of answers.
type answering map[string]string

// ExecuteOrchestrator implements backend.Executor.
func (a answering) ExecuteOrchestrator(_ context.Context, _ api.InstanceID, old,
	fresh []*record.Event) (*backend.ExecutionResults, error) {
	r := results.New()
	for _, e := range append(old, fresh...) {
		if x := e.GetExecutionStarted(); x != nil {
			if err := (protojson.UnmarshalOptions{}).Unmarshal([]byte(`{"actions":[`+a[x.Name]+`]}`),
				r.Response); err != nil {
				return nil, err
			}
			tags := strings.Repeat("x", 10_000)
			switch x.Name { // Fields that the engine's version of the protocol does not have.
			case "entity":
				r.Response.Actions[0].ProtoReflect().SetUnknown([]byte{8<<3 | 2, 0})
			case "activityTags":
				r.Response.Actions[0].GetScheduleTask().ProtoReflect().SetUnknown(tag(4, tags))
			case "childTags":
				r.Response.Actions[0].GetCreateSubOrchestration().ProtoReflect().SetUnknown(tag(6, tags))
			}
		}
	}
	return r, nil
}

// tag returns a field with a map's entry of the key "k".
func tag(number protowire.Number, value string) []byte {
	entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "k")
	entry = protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), value)
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), entry)
}

// ExecuteActivity implements backend.Executor.
func (answering) ExecuteActivity(context.Context, api.InstanceID, *record.Event) (*record.Event, error) {
	return nil, nil
}

// Shutdown implements backend.Executor.
func (answering) Shutdown(context.Context) error { return nil }

// An answer with an action that the engine cannot apply fails its instance, and does not end the process.
func TestActionsThatCannotBeApplied(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	b := h.backend()
	answers := answering{
		"activityTags": `{"scheduleTask":{"name":"a"}}`,
		"childTags":    `{"createSubOrchestration":{"name":"a","instanceId":"x"}}`,
		"entity":       `{"id":1}`, "unknown": `{"id":1}`, "noReceiver": `{"sendEvent":{"name":"go"}}`,
		"entitySignal": `{"sendEvent":{"instance":{"instanceId":"@counter@a"},"name":"op"}}`,
		"status":       `{"completeOrchestration":{"orchestrationStatus":99}}`,
		"running":      `{"completeOrchestration":{"orchestrationStatus":"ORCHESTRATION_STATUS_RUNNING"}}`,
		"carryover":    `{"completeOrchestration":{"orchestrationStatus":"ORCHESTRATION_STATUS_CONTINUED_AS_NEW","carryoverEvents":[{"eventId":1}]}}`,
		"noTime":       `{"createTimer":{}}`, "pastTime": `{"createTimer":{"fireAt":"0001-01-01T00:00:00Z"}}`,
	}
	w := b.NewWorker(answers)
	if err := w.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Shutdown(context.Background()) })
	c := b.Client()
	for name, says := range map[string]string{
		"activityTags": "tags have 10001 bytes", "childTags": "tags have 10001 bytes",
		"entity": "message to an entity is unknown", "unknown": "kind is unknown", "noReceiver": "it is empty",
		"entitySignal": "unexpected end of JSON",
		"status":       "status 99", "running": "status 0", "carryover": "unknown kind", "noTime": "Timestamp",
		"pastTime": "1970",
	} {
		start(t, c, name, hub.StartOptions{InstanceID: name})
		if i := ended(t, c, name, "Failed"); !strings.Contains(i.FailureMessage, says) {
			t.Errorf("%s: the failure says %q, want %q in it", name, i.FailureMessage, says)
		}
	}
}

// A workflow that uses one event at a time and continues as new gets through a list of events that is longer than the
// engine lets it continue in one work item.
func TestBurstOfEventsWithContinueAsNew(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	const events = 70
	b := h.backend()
	c := b.Client()
	start(t, c, "count", hub.StartOptions{InstanceID: "i", Input: "0"})
	for range events {
		if err := c.RaiseEvent(t.Context(), "i", "one", ""); err != nil {
			t.Fatal(err)
		}
	}
	c = h.run(registry(t, workflows{"count": func(ctx *durable.Context) (any, error) {
		var n int
		if err := ctx.GetInput(&n); err != nil {
			return nil, err
		}
		if n == 0 {
			if err := ctx.WaitForSingleEvent("begin", time.Hour).Await(nil); err != nil {
				return nil, err
			}
		}
		if n == events {
			return n, nil
		}
		if err := ctx.WaitForSingleEvent("one", time.Hour).Await(nil); err != nil {
			return nil, err
		}
		ctx.ContinueAsNew(n+1, durable.KeepEvents())
		return nil, nil
	}}, nil))
	eventually(t, func() bool {
		history, err := c.History(t.Context(), "i")
		return err == nil && len(history) > events
	})
	if err := c.RaiseEvent(t.Context(), "i", "begin", ""); err != nil {
		t.Fatal(err)
	}
	if i := ended(t, c, "i", "Completed"); i.Output != "70" {
		t.Errorf("the output is %s", i.Output)
	}
}
