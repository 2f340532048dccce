package sidecar_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// received are the messages that the server reads: requests, and the answers of workers.
var received = []proto.Message{&protocol.CreateInstanceRequest{}, &protocol.GetInstanceRequest{},
	&protocol.RewindInstanceRequest{}, &protocol.RaiseEventRequest{}, &protocol.TerminateRequest{},
	&protocol.SuspendRequest{}, &protocol.ResumeRequest{}, &protocol.QueryInstancesRequest{},
	&protocol.ListInstanceIdsRequest{}, &protocol.PurgeInstancesRequest{}, &protocol.RestartInstanceRequest{},
	&protocol.CreateTaskHubRequest{}, &protocol.DeleteTaskHubRequest{}, &protocol.SignalEntityRequest{},
	&protocol.GetEntityRequest{}, &protocol.QueryEntitiesRequest{}, &protocol.CleanEntityStorageRequest{},
	&protocol.GetWorkItemsRequest{}, &protocol.StreamInstanceHistoryRequest{},
	&protocol.SkipGracefulOrchestrationTerminationsRequest{}, &protocol.ActivityResponse{},
	&protocol.OrchestratorResponse{}, &protocol.EntityBatchResult{}, &protocol.AbandonActivityTaskRequest{},
	&protocol.AbandonOrchestrationTaskRequest{}, &protocol.AbandonEntityTaskRequest{}}

// presence says, for each field of these messages that can be absent or empty, what the two mean. "Same" means that an
// empty one means the same as none.
var presence = map[string]string{
	"ActivityResponse.failure_details": "present, also empty: the activity has failed; absent: it has succeeded",
	"ActivityResponse.result":          "absent: no result; empty: the empty text, which the history keeps apart",

	"CleanEntityStorageRequest.continuation_token": "same: from the beginning",

	"CompleteOrchestrationAction.details":         "same: nothing reads it since failure_details exists",
	"CompleteOrchestrationAction.failure_details": "absent: the workflow has not failed; empty: without a reason",
	"CompleteOrchestrationAction.new_version":     "absent: the version stays; empty: it has none from now on",
	"CompleteOrchestrationAction.result":          "absent: no output; empty: the empty text",

	"CreateInstanceRequest.execution_id":                  "same: the server chooses the ID of each execution",
	"CreateInstanceRequest.input":                         "absent: no input; empty: the empty text",
	"CreateInstanceRequest.orchestration_id_reuse_policy": "absent: the server's rule; empty: no instance is replaced",
	"CreateInstanceRequest.parent_trace_context":          "same: the call's metadata",
	"CreateInstanceRequest.request_time":                  "same: for traces of other servers",
	"CreateInstanceRequest.scheduled_start_timestamp":     "absent, year 1, past: at once",
	"CreateInstanceRequest.version":                       "same: no version",

	"CreateSubOrchestrationAction.input":                "absent: no input; empty: the empty text",
	"CreateSubOrchestrationAction.parent_trace_context": "same: that of the engine",
	"CreateSubOrchestrationAction.version":              "same: no version",
	"CreateTimerAction.fire_at":                         "absent: the action cannot be applied; zero: 1970, at once",

	"EntityBatchResult.entity_state":    "absent: the entity has no state; empty: its state is the empty text",
	"EntityBatchResult.failure_details": "absent: the batch has run; empty: it has not, without a reason",

	"EntityLockRequestedEvent.parent_instance_id":     "same: the instance that answers",
	"EntityOperationCalledEvent.input":                "absent: no input; empty: the empty text",
	"EntityOperationCalledEvent.parent_execution_id":  "same: the execution that answers",
	"EntityOperationCalledEvent.parent_instance_id":   "same: the instance that answers",
	"EntityOperationCalledEvent.scheduled_time":       "same: at once",
	"EntityOperationCalledEvent.target_instance_id":   "same: refused",
	"EntityOperationSignaledEvent.input":              "absent: no input; empty: the empty text",
	"EntityOperationSignaledEvent.scheduled_time":     "absent, year 1, past: at once",
	"EntityOperationSignaledEvent.target_instance_id": "same: refused",
	"EntityUnlockSentEvent.parent_instance_id":        "same: the instance that answers",
	"EntityUnlockSentEvent.target_instance_id":        "same: refused",

	"EntityQuery.continuation_token":      "same: from the beginning",
	"EntityQuery.instance_id_starts_with": "same: all",
	"EntityQuery.last_modified_from":      "absent, year 1: no bound",
	"EntityQuery.last_modified_to":        "absent, year 1: no bound",
	"EntityQuery.page_size":               "absent, 0: 100",

	"GetWorkItemsRequest.work_item_filters": "same: everything",

	"InstanceQuery.continuation_token": "same: from the beginning",
	"InstanceQuery.created_time_from":  "absent, year 1: no bound",
	"InstanceQuery.created_time_to":    "absent, year 1: no bound",
	"InstanceQuery.instance_id_prefix": "same: all",

	"ListInstanceIdsRequest.completed_time_from": "absent, year 1: no bound",
	"ListInstanceIdsRequest.completed_time_to":   "absent, year 1: no bound",
	"ListInstanceIdsRequest.last_instance_key":   "same: from the beginning",

	"OperationAction.send_signal":             "one of them is set, or the batch is refused",
	"OperationAction.start_new_orchestration": "one of them is set, or the batch is refused",
	"OperationInfo.response_destination":      "same: the server knows the callers",
	"OperationResult.failure":                 "present, also empty: the operation has failed",
	"OperationResult.success":                 "absent and no failure: it has succeeded without a result",
	"OperationResultFailure.end_time_utc":     "same: for traces of other servers",
	"OperationResultFailure.failure_details":  "absent: failed without a reason",
	"OperationResultFailure.start_time_utc":   "same: for traces of other servers",
	"OperationResultSuccess.end_time_utc":     "same: for traces of other servers",
	"OperationResultSuccess.result":           "absent: no result; empty: the empty text",
	"OperationResultSuccess.start_time_utc":   "same: for traces of other servers",

	"OrchestrationInstance.execution_id": "same: an event is for the present execution",

	"OrchestrationTraceContext.span_id":         "same: the worker makes no span",
	"OrchestrationTraceContext.span_start_time": "same: the worker makes no span",

	"OrchestratorAction.complete_orchestration":   "one of them is set, or the answer is refused",
	"OrchestratorAction.create_sub_orchestration": "one of them is set, or the answer is refused",
	"OrchestratorAction.create_timer":             "one of them is set, or the answer is refused",
	"OrchestratorAction.rewind_orchestration":     "refused: a rewind is not a worker's",
	"OrchestratorAction.schedule_task":            "one of them is set, or the answer is refused",
	"OrchestratorAction.send_entity_message":      "one of them is set, or the answer is refused",
	"OrchestratorAction.send_event":               "one of them is set, or the answer is refused",
	"OrchestratorAction.terminate_orchestration":  "one of them is set, or the answer is refused",

	"OrchestratorResponse.chunk_index":                 "absent: the first part",
	"OrchestratorResponse.custom_status":               "absent: as it was; empty: the empty text",
	"OrchestratorResponse.num_events_processed":        "same: SDKs send 0 in the later parts of an answer",
	"OrchestratorResponse.orchestration_trace_context": "same: the worker makes no span",

	"PurgeInstanceFilter.created_time_from": "absent, year 1: no bound",
	"PurgeInstanceFilter.created_time_to":   "absent, year 1: no bound",
	"PurgeInstanceFilter.timeout":           "absent, 0: no limit",

	"PurgeInstancesRequest.instance_batch":        "none of the three: refused; empty: none",
	"PurgeInstancesRequest.instance_id":           "none of the three: refused; empty: refused",
	"PurgeInstancesRequest.purge_instance_filter": "none of the three: refused; empty: all that have ended",

	"QueryEntitiesRequest.query":  "same: all",
	"QueryInstancesRequest.query": "same: all",

	"RaiseEventRequest.input":      "same: an event without data",
	"ResumeRequest.reason":         "same: no reason",
	"RewindInstanceRequest.reason": "same: no reason",

	"ScheduleTaskAction.input":                "absent: no input; empty: the empty text",
	"ScheduleTaskAction.parent_trace_context": "same: that of the engine",
	"ScheduleTaskAction.version":              "same: no version",

	"SendEntityMessageAction.entity_lock_requested":               "one of them is set, or the answer is refused",
	"SendEntityMessageAction.entity_operation_called":             "one of them is set, or the answer is refused",
	"SendEntityMessageAction.entity_operation_signaled":           "one of them is set, or the answer is refused",
	"SendEntityMessageAction.entity_unlock_sent":                  "one of them is set, or the answer is refused",
	"SendEventAction.data":                                        "absent: no data; empty: the empty text",
	"SendEventAction.instance":                                    "same: refused",
	"SendSignalAction.input":                                      "absent: no input; empty: the empty text",
	"SendSignalAction.parent_trace_context":                       "same: no trace",
	"SendSignalAction.request_time":                               "same: for traces of other servers",
	"SendSignalAction.scheduled_time":                             "absent, year 1, past: at once",
	"SignalEntityRequest.input":                                   "same: no input",
	"SignalEntityRequest.parent_trace_context":                    "same: no trace",
	"SignalEntityRequest.request_time":                            "same: for traces of other servers",
	"SignalEntityRequest.scheduled_time":                          "absent, year 1, past: at once",
	"SkipGracefulOrchestrationTerminationsRequest.instance_batch": "same: none",
	"SkipGracefulOrchestrationTerminationsRequest.reason":         "same: no reason",
	"StartNewOrchestrationAction.input":                           "absent: no input; empty: the empty text",
	"StartNewOrchestrationAction.parent_trace_context":            "same: no trace",
	"StartNewOrchestrationAction.request_time":                    "same: for traces of other servers",
	"StartNewOrchestrationAction.scheduled_time":                  "absent, year 1, past: at once",
	"StartNewOrchestrationAction.version":                         "same: no version",

	"StreamInstanceHistoryRequest.execution_id": "same: the present execution",
	"SuspendRequest.reason":                     "same: no reason",
	"TaskFailureDetails.inner_failure":          "absent: none; empty: one without a reason",
	"TaskFailureDetails.stack_trace":            "absent: none; empty: the empty text",
	"TerminateOrchestrationAction.reason":       "absent: no output; empty: the empty text",
	"TerminateRequest.output":                   "absent: no output; empty: the empty text",
	"TraceContext.trace_state":                  "same: none",
}

// optional adds the fields of a message that can be absent, and those of the messages in it.
func optional(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool, list *[]string) {
	if seen[m.FullName()] || !strings.HasPrefix(string(m.FullName()), "lazuli.") || m.IsMapEntry() ||
		m.Name() == "HistoryEvent" { // Carried over as it is.
		return
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if f.HasPresence() {
			*list = append(*list, fmt.Sprintf("%s.%s", m.Name(), f.Name()))
		}
		if f.Message() != nil {
			optional(f.Message(), seen, list)
		}
	}
}

// Each field that can be absent is in the list, which says what its absence means, so that no field gets a meaning by
// chance.
func TestPresenceOfEveryFieldIsSaid(t *testing.T) {
	t.Parallel()
	var fields []string
	seen := map[protoreflect.FullName]bool{}
	for _, m := range received {
		optional(m.ProtoReflect().Descriptor(), seen, &fields)
	}
	for _, f := range fields {
		if presence[f] == "" {
			t.Errorf("%s can be absent or empty: say in presence what each means, and test it", f)
		}
	}
	for f := range presence {
		if !slices.Contains(fields, f) {
			t.Errorf("there is no field %s", f)
		}
	}
}

// A time that cannot be is refused in every request.
func TestImpossibleTimesAreRefused(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	bad := &timestamppb.Timestamp{Seconds: 1 << 60}
	for name, request := range map[string]proto.Message{
		"StartInstance":   &protocol.CreateInstanceRequest{Name: "a", ScheduledStartTimestamp: bad},
		"SignalEntity":    &protocol.SignalEntityRequest{InstanceId: "@a@b", Name: "c", ScheduledTime: bad},
		"QueryInstances":  &protocol.QueryInstancesRequest{Query: &protocol.InstanceQuery{CreatedTimeTo: bad}},
		"QueryEntities":   &protocol.QueryEntitiesRequest{Query: &protocol.EntityQuery{LastModifiedFrom: bad}},
		"ListInstanceIds": &protocol.ListInstanceIdsRequest{CompletedTimeFrom: bad},
		"PurgeInstances": &protocol.PurgeInstancesRequest{Request: &protocol.PurgeInstancesRequest_PurgeInstanceFilter{
			PurgeInstanceFilter: &protocol.PurgeInstanceFilter{CreatedTimeFrom: bad}}},
	} {
		err := s.call(name, request, &protocol.CompleteTaskResponse{})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "time") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What clients of the SDK for .NET expect of instances: a wait for one that does not exist yet, no failure without
// outputs, and an ID that is used again.
func TestInstancesAsTheSidecarHasThem(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	s.work(nil)
	waited := make(chan *protocol.GetInstanceResponse, 2)
	for _, name := range []string{"WaitForInstanceStart", "WaitForInstanceCompletion"} {
		go func() {
			a := &protocol.GetInstanceResponse{}
			r := &protocol.GetInstanceRequest{InstanceId: "fails", GetInputsAndOutputs: true}
			if err := s.call(name, r, a); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			waited <- a
		}()
	}
	check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: "other", Name: "hello"}))
	s.becomes("other", completed)
	check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: "fails", Name: "fails"}))
	for range 2 {
		if a := <-waited; !a.GetExists() || a.GetOrchestrationState().GetInstanceId() != "fails" {
			t.Errorf("the wait answers %v", a)
		}
	}
	for _, payloads := range []bool{false, true} {
		a := &protocol.GetInstanceResponse{}
		check.OK(t, s.call("GetInstance", &protocol.GetInstanceRequest{InstanceId: "fails",
			GetInputsAndOutputs: payloads}, a))
		list := &protocol.QueryInstancesResponse{}
		check.OK(t, s.call("QueryInstances", &protocol.QueryInstancesRequest{Query: &protocol.InstanceQuery{
			InstanceIdPrefix: wrapperspb.String("fails"), FetchInputsAndOutputs: payloads}}, list))
		for _, i := range append(list.OrchestrationState, a.OrchestrationState) {
			if got := i.FailureDetails != nil; got != payloads {
				t.Errorf("with inputs and outputs %v, there is a failure: %v", payloads, got)
			}
		}
	}
	check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: "fails", Name: "hello"}))
	s.becomes("fails", completed)
	later := &protocol.CreateInstanceRequest{InstanceId: "later", Name: "hello",
		ScheduledStartTimestamp: timestamppb.New(time.Now().Add(time.Hour))}
	check.OK(t, s.start(later))
	if err := s.start(later); status.Code(err) != codes.AlreadyExists {
		t.Errorf("the ID of an instance that has not ended: %v", err)
	}
	list := &protocol.QueryInstancesResponse{}
	for name, want := range map[string]int{"Default": 3, "other": 0} {
		check.OK(t, s.call("QueryInstances", &protocol.QueryInstancesRequest{Query: &protocol.InstanceQuery{
			TaskHubNames: []*wrapperspb.StringValue{wrapperspb.String(name)}}}, list))
		if len(list.OrchestrationState) != want {
			t.Errorf("of the hub %q there are %d instances, want %d", name, len(list.OrchestrationState), want)
		}
	}
}

// A worker that makes spans gets its span back with each step, and what it schedules keeps the trace context that it
// was given, also one that is not sampled.
func TestSpansOfWorkers(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	w := s.dotnet()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: "i", Name: "flow",
		ParentTraceContext: &protocol.TraceContext{TraceParent: parent, TraceState: wrapperspb.String("a=b")}}))
	span := &protocol.OrchestrationTraceContext{SpanId: wrapperspb.String("00f067aa0ba902b7"),
		SpanStartTime: timestamppb.New(time.Unix(1, 0))}
	step := func(actions ...*protocol.OrchestratorAction) *protocol.OrchestratorRequest {
		item := s.next(w)
		r := item.GetOrchestratorRequest()
		check.OK(t, s.call("CompleteOrchestratorTask", &protocol.OrchestratorResponse{InstanceId: "i",
			CompletionToken: item.CompletionToken, Actions: actions, OrchestrationTraceContext: span},
			&protocol.CompleteTaskResponse{}))
		return r
	}
	const child = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b8-00"
	r := step(&protocol.OrchestratorAction{Id: 0, OrchestratorActionType: &protocol.OrchestratorAction_ScheduleTask{
		ScheduleTask: &protocol.ScheduleTaskAction{Name: "a",
			ParentTraceContext: &protocol.TraceContext{TraceParent: child}}}})
	if r.OrchestrationTraceContext != nil {
		t.Errorf("the first step has the span %v", r.OrchestrationTraceContext)
	}
	for _, e := range r.NewEvents {
		if x := e.GetExecutionStarted(); x != nil && (x.ParentTraceContext.GetTraceParent() != parent ||
			x.ParentTraceContext.GetTraceState().GetValue() != "a=b") {
			t.Errorf("the workflow has the parent %v", x.ParentTraceContext)
		}
	}
	item := s.next(w)
	if got := item.GetActivityRequest().GetParentTraceContext().GetTraceParent(); got != child {
		t.Errorf("the activity has the parent %q, want %q", got, child)
	}
	check.OK(t, s.call("CompleteActivityTask", &protocol.ActivityResponse{InstanceId: "i",
		CompletionToken: item.CompletionToken}, &protocol.CompleteTaskResponse{}))
	if r = step(completes(1, "1")); !proto.Equal(r.OrchestrationTraceContext, span) {
		t.Errorf("the second step has the span %v, want %v", r.OrchestrationTraceContext, span)
	}
	s.becomes("i", completed)
}
