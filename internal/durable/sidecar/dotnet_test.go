package sidecar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/sidecar"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// What the SDK for .NET needs; see GrpcDurableTaskWorker.Processor.cs of microsoft/durabletask-dotnet.

// next receives the next work item of a worker.
func (s *scheduler) next(worker grpc.ClientStream) *protocol.WorkItem {
	s.t.Helper()
	item := &protocol.WorkItem{}
	check.OK(s.t, worker.RecvMsg(item))
	return item
}

// A large history is streamed to a worker that can do so, and the worker's answer may come in parts.
func TestLargeHistoriesAndAnswersInParts(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	worker := s.stream("GetWorkItems", &protocol.GetWorkItemsRequest{
		Capabilities: []protocol.WorkerCapability{protocol.WorkerCapability_WORKER_CAPABILITY_HISTORY_STREAMING}})
	input := strings.Repeat("x", 1<<20)
	check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: "large", Name: "large",
		Input: wrapperspb.String(input)}))
	answer := func(r *protocol.OrchestratorResponse) error {
		return s.call("CompleteOrchestratorTask", r, &protocol.CompleteTaskResponse{})
	}
	item := s.next(worker)
	r := item.GetOrchestratorRequest()
	if r.EntityParameters.GetEntityMessageReorderWindow() == nil || r.GetExecutionId().GetValue() == "" ||
		r.RequiresHistoryStreaming || len(r.NewEvents) == 0 {
		t.Errorf("the first request: %v, %v, streamed: %v, %d new events", r.EntityParameters, r.ExecutionId,
			r.RequiresHistoryStreaming, len(r.NewEvents))
	}
	check.OK(t, answer(&protocol.OrchestratorResponse{InstanceId: "large", CompletionToken: item.CompletionToken}))
	check.OK(t, s.call("RaiseEvent", &protocol.RaiseEventRequest{InstanceId: "large", Name: "go"},
		&protocol.RaiseEventResponse{}))

	item = s.next(worker)
	if r = item.GetOrchestratorRequest(); !r.RequiresHistoryStreaming || len(r.PastEvents) > 0 {
		t.Errorf("the second request: streamed: %v, %d past events", r.RequiresHistoryStreaming, len(r.PastEvents))
	}
	started := ""
	for _, e := range s.history(&protocol.StreamInstanceHistoryRequest{InstanceId: "large", ExecutionId: r.ExecutionId,
		ForWorkItemProcessing: true}) {
		if x := e.GetExecutionStarted(); x != nil {
			started = x.Input.GetValue()
		}
		if e.GetEventRaised() != nil {
			t.Error("the past events have the new one")
		}
	}
	if started != input {
		t.Errorf("the history has an input of %d bytes", len(started))
	}

	timer := func(id int32) *protocol.OrchestratorAction {
		return &protocol.OrchestratorAction{Id: id, OrchestratorActionType: &protocol.OrchestratorAction_CreateTimer{
			CreateTimer: &protocol.CreateTimerAction{FireAt: timestamppb.New(time.Now().Add(time.Hour))}}}
	}
	part := func(number int32, partial bool, a *protocol.OrchestratorAction) *protocol.OrchestratorResponse {
		return &protocol.OrchestratorResponse{InstanceId: "large", CompletionToken: item.CompletionToken,
			IsPartial: partial, ChunkIndex: wrapperspb.Int32(number), Actions: []*protocol.OrchestratorAction{a}}
	}
	last := part(2, false, &protocol.OrchestratorAction{Id: 3, OrchestratorActionType: &protocol.
		OrchestratorAction_CompleteOrchestration{CompleteOrchestration: &protocol.CompleteOrchestrationAction{
		OrchestrationStatus: completed}}})
	check.OK(t, answer(part(0, true, timer(1))))
	check.OK(t, answer(part(0, true, timer(1)))) // It is sent again after an error.
	if err := answer(last); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an answer without its second part: %v", err)
	}
	check.OK(t, answer(part(1, true, timer(2))))
	check.OK(t, answer(last))
	s.becomes("large", completed)
	if err := answer(part(0, true, timer(1))); status.Code(err) != codes.NotFound {
		t.Errorf("a part of an answer that is complete: %v", err)
	}
	timers := 0
	for _, e := range s.history(&protocol.StreamInstanceHistoryRequest{InstanceId: "large"}) {
		if e.GetTimerCreated() != nil {
			timers++
		}
	}
	if timers != 2 {
		t.Errorf("the history has %d timers, want 2", timers)
	}
}

// A worker without work receives pings, and takes its connection for lost without them.
func TestIdleWorkersArePinged(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	a := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
	var o sidecar.Options
	o.Durable.Clock = clock
	s := newSchedulerIn(t, a, o)
	conn, err := grpc.NewClient(s.conn.Target(), plain, grpc.WithUserAgent("grpc-dotnet/2.71"))
	check.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s.conn = conn
	worker := s.stream("GetWorkItems", &protocol.GetWorkItemsRequest{})
	pinged := make(chan *protocol.WorkItem)
	go func() {
		item := &protocol.WorkItem{}
		if worker.RecvMsg(item) == nil {
			pinged <- item
		}
	}()
	check.Eventually(t, func() bool {
		clock.Advance(30 * time.Second)
		select {
		case item := <-pinged:
			if item.GetHealthPing() == nil {
				t.Errorf("received %v", item)
			}
			return true
		default:
			return false
		}
	}, "a ping arrives")
}

// The IDs of an entity's operations are UUIDs to a worker, in both forms of the request.
func TestOperationsHaveUUIDs(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	worker := s.stream("GetWorkItems", &protocol.GetWorkItemsRequest{})
	for _, id := range []string{"not a UUID", uuid.NewString()} {
		check.OK(t, s.call("SignalEntity", &protocol.SignalEntityRequest{InstanceId: "@counter@a", Name: "add",
			RequestId: id}, &protocol.SignalEntityResponse{}))
		item := s.next(worker)
		got := item.GetEntityRequest().Operations[0].RequestId
		if _, err := uuid.Parse(got); err != nil || (got == id) != (uuid.Validate(id) == nil) {
			t.Errorf("the operation of the signal %q has the ID %q", id, got)
		}
		check.OK(t, s.call("CompleteEntityTask", &protocol.EntityBatchResult{CompletionToken: item.CompletionToken,
			EntityState: wrapperspb.String("1"), Results: []*protocol.OperationResult{{ResultType: &protocol.
					OperationResult_Success{Success: &protocol.OperationResultSuccess{}}}}}, &protocol.CompleteTaskResponse{}))
	}
}
