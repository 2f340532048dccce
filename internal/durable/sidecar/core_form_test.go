package sidecar_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// dotnet connects a client that looks like the SDK for .NET, and a worker of it.
func (s *scheduler) dotnet() grpc.ClientStream {
	s.t.Helper()
	conn, err := grpc.NewClient(s.conn.Target(), plain, grpc.WithUserAgent("grpc-dotnet/2.76.0 (.NET 10.0.0)"))
	check.OK(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	s.conn = conn
	return s.stream("GetWorkItems", &protocol.GetWorkItemsRequest{WorkItemFilters: &protocol.WorkItemFilters{}})
}

// A worker whose filters have no name takes everything. If one kind has names, the worker takes nothing of a kind
// without.
func TestFiltersWithoutNames(t *testing.T) {
	t.Parallel()
	orchestrations := []*protocol.OrchestrationFilter{{Name: "hello"}}
	activities := []*protocol.ActivityFilter{{Name: "hello"}}
	entities := []*protocol.EntityFilter{{Name: "Hello"}}
	for name, test := range map[string]struct {
		filters          *protocol.WorkItemFilters
		workflow, entity bool
	}{
		"none":           {nil, true, true},
		"empty":          {&protocol.WorkItemFilters{}, true, true},
		"orchestrations": {&protocol.WorkItemFilters{Orchestrations: orchestrations}, true, false},
		"activities":     {&protocol.WorkItemFilters{Activities: activities}, false, false},
		"entities":       {&protocol.WorkItemFilters{Entities: entities}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScheduler(t)
			worker := s.stream("GetWorkItems", &protocol.GetWorkItemsRequest{WorkItemFilters: test.filters})
			check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: "i", Name: "hello"}))
			check.OK(t, s.call("SignalEntity", &protocol.SignalEntityRequest{InstanceId: "@hello@a", Name: "add"},
				&protocol.SignalEntityResponse{}))
			want, got := []string{}, []string{}
			if test.workflow {
				want = append(want, "orchestration")
			}
			if test.entity {
				want = append(want, "entity")
			}
			for range want {
				item := s.next(worker)
				if item.GetOrchestratorRequest() != nil {
					got = append(got, "orchestration")
				} else if item.GetEntityRequest() != nil {
					got = append(got, "entity")
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("the worker received %v, want %v", got, want)
			}
			check.Eventually(t, func() bool { return len(s.server.Unmatched("default")) == 2-len(want) },
				"the rest is unmatched")
		})
	}
}

// sendEvent returns an action of a worker.
func sendEvent(id int32, target, name, data string) *protocol.OrchestratorAction {
	return &protocol.OrchestratorAction{Id: id, OrchestratorActionType: &protocol.OrchestratorAction_SendEvent{
		SendEvent: &protocol.SendEventAction{Instance: &protocol.OrchestrationInstance{InstanceId: target}, Name: name,
			Data: wrapperspb.String(data)}}}
}

func completes(id int32, result string) *protocol.OrchestratorAction {
	return &protocol.OrchestratorAction{Id: id, OrchestratorActionType: &protocol.
		OrchestratorAction_CompleteOrchestration{CompleteOrchestration: &protocol.CompleteOrchestrationAction{
		OrchestrationStatus: completed, Result: wrapperspb.String(result)}}}
}

// dotnetWorker answers work items.
type dotnetWorker struct {
	*scheduler
	stream grpc.ClientStream
}

// turn receives a step of the workflow, and answers it.
func (w dotnetWorker) turn(actions ...*protocol.OrchestratorAction) *protocol.OrchestratorRequest {
	w.t.Helper()
	item := w.next(w.stream)
	r := item.GetOrchestratorRequest()
	if r == nil {
		w.t.Fatalf("received %v, want a step of the workflow", item)
	}
	check.OK(w.t, w.call("CompleteOrchestratorTask", &protocol.OrchestratorResponse{InstanceId: r.InstanceId,
		CompletionToken: item.CompletionToken, Actions: actions}, &protocol.CompleteTaskResponse{}))
	return r
}

// operate receives a batch of one operation in the newer form, and answers it.
func (w dotnetWorker) operate(entity, operation, input string, result *protocol.OperationResult) {
	w.t.Helper()
	item := w.next(w.stream)
	r := item.GetEntityRequestV2()
	if r == nil || r.InstanceId != entity || len(r.OperationRequests) != 1 || item.CompletionToken == "" {
		w.t.Fatalf("received %v, want an operation of %s", item, entity)
	}
	o := r.OperationRequests[0]
	name, in := o.GetEntityOperationCalled().GetOperation(), o.GetEntityOperationCalled().GetInput()
	if o.GetEntityOperationSignaled() != nil {
		name, in = o.GetEntityOperationSignaled().Operation, o.GetEntityOperationSignaled().Input
	}
	if name != operation || in.GetValue() != input || (in == nil) != (input == "") {
		w.t.Errorf("the operation is %q with %q, want %q with %q", name, in, operation, input)
	}
	check.OK(w.t, w.call("CompleteEntityTask", &protocol.EntityBatchResult{CompletionToken: item.CompletionToken,
		EntityState: wrapperspb.String("1"), Results: []*protocol.OperationResult{result}},
		&protocol.CompleteTaskResponse{}))
}

func succeeded(result string) *protocol.OperationResult {
	return &protocol.OperationResult{ResultType: &protocol.OperationResult_Success{
		Success: &protocol.OperationResultSuccess{Result: wrapperspb.String(result)}}}
}

// raisedIn returns the data of an event by its name.
func raisedIn(t *testing.T, events []*protocol.HistoryEvent, name string) map[string]any {
	t.Helper()
	for _, e := range events {
		if x := e.GetEventRaised(); x != nil && x.Name == name {
			var data map[string]any
			check.OK(t, json.Unmarshal([]byte(x.Input.GetValue()), &data))
			return data
		}
	}
	t.Errorf("no event %q was raised: %v", name, events)
	return nil
}

// A worker of .NET sends events to entities in the form of DurableTask.Core, and gets its history and the answers in
// that form.
func TestEntitiesInTheFormOfCore(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	w := dotnetWorker{s, s.dotnet()}
	check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: "i", Name: "flow"}))
	guid := func(n int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", n) }
	request := func(n int, op string, more string) string {
		return fmt.Sprintf(`{"op":%s,%s"id":"%s","parent":"i","Timestamp":"0001-01-01T00:00:00","Predecessor":`+
			`"0001-01-01T00:00:00","IsLockRequest":false,"createTrace":true}`, op, more, guid(n))
	}
	w.turn(sendEvent(0, "@tally@a", "op", request(0, `"Add"`, `"input":"5",`)))
	w.operate("@tally@a", "Add", "5", succeeded("7"))
	r := w.turn(sendEvent(1, "@tally@b", "op", request(1, `"Fail"`, "")))
	if got := raisedIn(t, r.NewEvents, guid(0)); got["result"] != "7" || len(got) != 1 {
		t.Errorf("the call was answered by %v", got)
	}
	sent := r.PastEvents[len(r.PastEvents)-1]
	if x := sent.GetEventSent(); x == nil || sent.EventId != 0 || x.InstanceId != "@tally@a" || x.Name != "op" ||
		!strings.Contains(x.Input.GetValue(), guid(0)) {
		t.Errorf("the history has the call as %v", sent)
	}
	inner := &protocol.TaskFailureDetails{ErrorType: "Inner", ErrorMessage: "below"}
	failure := &protocol.TaskFailureDetails{ErrorType: "System.InvalidOperationException", ErrorMessage: "as it should",
		StackTrace: wrapperspb.String("at Tally.Fail()"), InnerFailure: inner}
	w.operate("@tally@b", "Fail", "", &protocol.OperationResult{ResultType: &protocol.OperationResult_Failure{
		Failure: &protocol.OperationResultFailure{FailureDetails: failure}}})
	locks := `"lockset":[{"name":"tally","key":"b"},{"name":"tally","key":"a"}],`
	due := time.Now().Add(200 * time.Millisecond).UTC().Format("2006-01-02T15:04:05.0000000Z")
	// The signal is sent as late as this: however slow the machine is, it does not come before the steps above.
	r = w.turn(sendEvent(2, "@tally@c", "op@"+due, request(2, `"Later"`, `"signal":true,"input":"\"x\"","due":"`+due+`",`)),
		sendEvent(3, "@tally@b", "op", request(3, "null", locks)))
	got := raisedIn(t, r.NewEvents, guid(1))
	details, _ := got["failureDetails"].(map[string]any)
	below, _ := details["InnerFailure"].(map[string]any)
	if got["result"] != "as it should" || details["ErrorType"] != failure.ErrorType ||
		details["StackTrace"] != "at Tally.Fail()" || below["ErrorMessage"] != "below" {
		t.Errorf("the failed call was answered by %v", got)
	}
	// The scheduled signal and the grant of the locks come in any order.
	granted := func(r *protocol.OrchestratorRequest) {
		if got := raisedIn(t, r.NewEvents, guid(3)); got["result"] != "Lock Acquisition Completed" {
			t.Errorf("the lock request was answered by %v", got)
		}
	}
	release := func(n int32, target string) *protocol.OrchestratorAction {
		return sendEvent(n, target, "release", fmt.Sprintf(`{"parent":"i","id":"%s"}`, guid(3)))
	}
	end := []*protocol.OrchestratorAction{release(4, "@tally@b"), release(5, "@tally@a"), completes(6, `"done"`)}
	item := w.next(w.stream)
	if item.GetEntityRequestV2() != nil {
		o := item.GetEntityRequestV2().OperationRequests[0].GetEntityOperationSignaled()
		if now := time.Now().UTC().Format("2006-01-02T15:04:05.0000000Z"); o.GetOperation() != "Later" || now < due {
			t.Errorf("at %s came %v, which is due at %s", now, o, due)
		}
		check.OK(t, s.call("CompleteEntityTask", &protocol.EntityBatchResult{CompletionToken: item.CompletionToken,
			Results: []*protocol.OperationResult{succeeded("1")}}, &protocol.CompleteTaskResponse{}))
		granted(w.turn(end...))
	} else {
		granted(item.GetOrchestratorRequest())
		check.OK(t, s.call("CompleteOrchestratorTask", &protocol.OrchestratorResponse{InstanceId: "i",
			CompletionToken: item.CompletionToken, Actions: end}, &protocol.CompleteTaskResponse{}))
		w.operate("@tally@c", "Later", `"x"`, succeeded("1"))
	}
	s.becomes("i", completed)
	for _, id := range []string{"@tally@a", "@tally@b"} {
		check.Eventually(t, func() bool {
			a := &protocol.GetEntityResponse{}
			check.OK(t, s.call("GetEntity", &protocol.GetEntityRequest{InstanceId: id}, a))
			return a.Exists && a.Entity.LockedBy == nil
		}, "%s is released", id)
	}
}

// An event to an entity that DurableTask.Core does not have fails the workflow, and says why.
func TestBadEventsToEntities(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	w := dotnetWorker{s, s.dotnet()}
	const id = `"id":"00000000-0000-0000-0000-000000000001"`
	for i, test := range []struct{ target, name, data, says string }{
		{"@tally@a", "go", "{}", "takes operations"},
		{"@tally@a", "op", "5", "cannot unmarshal"},
		{"@tally@a", "op", `{"op":"Add"}`, "has no ID"},
		{"@tally@a", "op", `{"op":null,` + id + `}`, "must begin with it"},
		{"@tally@a", "op", `{"op":null,"lockset":[{"name":"tally","key":"b"}],` + id + `}`, "must begin with it"},
		{"@tally@a", "op@noon", `{"op":"Add",` + id + `}`, "noon"},
		{"@tally@a", "op", `{"op":"Add","due":"1815-12-10T00:00:00Z",` + id + `}`, "is due"},
		{"@tally", "op", `{"op":"Add",` + id + `}`, "@name@key"},
		{"@tally@a", "release", "5", "cannot unmarshal"},
	} {
		instance := fmt.Sprint(i)
		check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: instance, Name: "flow"}))
		w.turn(sendEvent(0, test.target, test.name, test.data))
		i := s.becomes(instance, failed)
		if text := i.FailureDetails.GetErrorMessage(); !strings.Contains(text, test.says) {
			t.Errorf("%q to %q with %q: %q does not say %q", test.name, test.target, test.data, text, test.says)
		}
	}
	if err := s.call("RaiseEvent", &protocol.RaiseEventRequest{InstanceId: "@tally@a", Name: "op"},
		&protocol.RaiseEventResponse{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a client's event to an entity: %v", err)
	}
}
