package sidecar_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/sidecar"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// plain is the option for a connection without TLS.
var plain = grpc.WithTransportCredentials(insecure.NewCredentials())

// scheduler is a server with a connection that speaks the protocol without an SDK.
type scheduler struct {
	t      *testing.T
	server *sidecar.Server
	conn   *grpc.ClientConn
}

func newScheduler(t *testing.T) *scheduler {
	t.Helper()
	return newSchedulerIn(t, lazulitest.Start(t).Account(t), sidecar.Options{})
}

func newSchedulerIn(t *testing.T, a *lazulitest.Account, o sidecar.Options) *scheduler {
	t.Helper()
	o.Durable.Storage, o.Logger = a.Storage, slog.New(slog.DiscardHandler)
	s, err := sidecar.New(o)
	check.OK(t, err)
	l, err := s.Listen("127.0.0.1:0")
	check.OK(t, err)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), plain)
	check.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &scheduler{t, s, conn}
}

func (s *scheduler) call(name string, request, answer proto.Message) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), check.Patience)
	defer cancel()
	return s.conn.Invoke(ctx, "/TaskHubSidecarService/"+name, request, answer)
}

// stream begins a call with a stream of answers.
func (s *scheduler) stream(name string, request proto.Message) grpc.ClientStream {
	s.t.Helper()
	stream, err := s.conn.NewStream(s.t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/TaskHubSidecarService/"+name)
	check.OK(s.t, err)
	check.OK(s.t, stream.SendMsg(request))
	check.OK(s.t, stream.CloseSend())
	return stream
}

// history returns the events of an instance.
func (s *scheduler) history(r *protocol.StreamInstanceHistoryRequest) (list []*protocol.HistoryEvent) {
	s.t.Helper()
	for stream := s.stream("StreamInstanceHistory", r); ; {
		chunk := &protocol.HistoryChunk{}
		switch err := stream.RecvMsg(chunk); {
		case errors.Is(err, io.EOF):
			return list
		case err != nil:
			s.t.Fatal(err)
		}
		list = append(list, chunk.Events...)
	}
}

// work connects a worker, which completes each workflow with the version that it was given, or fails it if its name is
// "fails".
func (s *scheduler) work(f *protocol.WorkItemFilters) {
	s.t.Helper()
	stream := s.stream("GetWorkItems", &protocol.GetWorkItemsRequest{WorkItemFilters: f})
	go func() {
		for {
			item := &protocol.WorkItem{}
			if stream.RecvMsg(item) != nil {
				return
			}
			done := &protocol.CompleteOrchestrationAction{
				OrchestrationStatus: protocol.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED}
			r := item.GetOrchestratorRequest()
			for _, e := range append(r.PastEvents, r.NewEvents...) {
				if x := e.GetExecutionStarted(); x != nil {
					done.Result = wrapperspb.String(`"` + x.GetVersion().GetValue() + `"`)
					if x.Name == "fails" {
						done.OrchestrationStatus = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED
						done.FailureDetails = &protocol.TaskFailureDetails{ErrorType: "Failed", ErrorMessage: "as it should"}
					}
				}
			}
			_ = s.conn.Invoke(s.t.Context(), "/TaskHubSidecarService/CompleteOrchestratorTask",
				&protocol.OrchestratorResponse{InstanceId: r.InstanceId, CompletionToken: item.CompletionToken,
					Actions: []*protocol.OrchestratorAction{{Id: 1, OrchestratorActionType: &protocol.
						OrchestratorAction_CompleteOrchestration{CompleteOrchestration: done}}}}, &protocol.CompleteTaskResponse{})
		}
	}()
}

func (s *scheduler) start(r *protocol.CreateInstanceRequest) error {
	return s.call("StartInstance", r, &protocol.CreateInstanceResponse{})
}

func (s *scheduler) get(id string) *protocol.OrchestrationState {
	s.t.Helper()
	a := &protocol.GetInstanceResponse{}
	check.OK(s.t, s.call("GetInstance", &protocol.GetInstanceRequest{InstanceId: id, GetInputsAndOutputs: true}, a))
	return a.OrchestrationState
}

func (s *scheduler) becomes(id string, want protocol.OrchestrationStatus) *protocol.OrchestrationState {
	s.t.Helper()
	check.Eventually(s.t, func() bool { return s.get(id).GetOrchestrationStatus() == want }, "%s becomes %v", id, want)
	return s.get(id)
}

const (
	completed = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED
	failed    = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED
	pending   = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_PENDING
)

// A worker gets the workflows that its filters name, by name and version. Others stay pending, are shown as unmatched,
// and run once a worker takes them.
func TestFiltersAndVersions(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	s.work(&protocol.WorkItemFilters{Orchestrations: []*protocol.OrchestrationFilter{{Name: "hello",
		Versions: []string{"1"}}}})
	for id, r := range map[string]*protocol.CreateInstanceRequest{
		"one":   {Name: "hello", Version: wrapperspb.String("1")},
		"two":   {Name: "hello", Version: wrapperspb.String("2")},
		"plain": {Name: "hello"}, "other": {Name: "other", Version: wrapperspb.String("1")}} {
		r.InstanceId = id
		check.OK(t, s.start(r))
	}
	if i := s.becomes("one", completed); i.Output.GetValue() != `"1"` || i.Version.GetValue() != "1" {
		t.Errorf("the worker that takes version 1 answered %v", i)
	}
	check.Eventually(t, func() bool { return len(s.server.Unmatched("default")) == 3 }, "three are unmatched")
	for _, u := range s.server.Unmatched("default") {
		if u.Name+u.Version == "hello1" || u.Instances != 1 {
			t.Errorf("unmatched: %+v", u)
		}
	}
	for _, id := range []string{"two", "plain", "other"} {
		if i := s.get(id); i.OrchestrationStatus != pending {
			t.Errorf("%s is %v", id, i.OrchestrationStatus)
		}
	}
	s.work(nil)
	for id, version := range map[string]string{"two": "2", "plain": "", "other": "1"} {
		if i := s.becomes(id, completed); i.Output.GetValue() != `"`+version+`"` {
			t.Errorf("%s answered %v", id, i.Output)
		}
	}
	check.Eventually(t, func() bool { return len(s.server.Unmatched("default")) == 0 }, "nothing is unmatched")
}

// An ID is used again if the request's policy lists the instance's status; restart keeps version, input and tags;
// histories and IDs are listed.
func TestReuseRestartAndLists(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	s.work(nil)
	first := &protocol.CreateInstanceRequest{InstanceId: "i/ä ?#%+'^\\", Name: "hello", Version: wrapperspb.String("1"),
		Input: wrapperspb.String("7"), Tags: map[string]string{"shop": "tea"}}
	check.OK(t, s.start(first))
	s.becomes(first.InstanceId, completed)
	none := proto.Clone(first).(*protocol.CreateInstanceRequest)
	none.OrchestrationIdReusePolicy = &protocol.OrchestrationIdReusePolicy{}
	if err := s.start(none); status.Code(err) != codes.AlreadyExists {
		t.Errorf("the same ID, with a policy that replaces none: %v", err)
	}
	check.OK(t, s.start(first)) // Without a policy: the instance has ended.
	s.becomes(first.InstanceId, completed)
	again := proto.Clone(first).(*protocol.CreateInstanceRequest)
	again.Version = wrapperspb.String("2")
	again.OrchestrationIdReusePolicy = &protocol.OrchestrationIdReusePolicy{
		ReplaceableStatus: []protocol.OrchestrationStatus{failed}}
	if err := s.start(again); status.Code(err) != codes.AlreadyExists {
		t.Errorf("the same ID, with another status replaceable: %v", err)
	}
	again.OrchestrationIdReusePolicy.ReplaceableStatus = []protocol.OrchestrationStatus{failed, completed}
	check.OK(t, s.start(again))
	check.Eventually(t, func() bool { return s.get(first.InstanceId).Output.GetValue() == `"2"` }, "the new one runs")

	restarted := &protocol.RestartInstanceResponse{}
	check.OK(t, s.call("RestartInstance", &protocol.RestartInstanceRequest{InstanceId: first.InstanceId,
		RestartWithNewInstanceId: true}, restarted))
	i := s.becomes(restarted.InstanceId, completed)
	if i.Output.GetValue() != `"2"` || i.Input.GetValue() != "7" || i.Tags["shop"] != "tea" ||
		i.Version.GetValue() != "2" ||
		restarted.InstanceId == first.InstanceId {
		t.Errorf("restarted: %v", i)
	}
	ids := &protocol.ListInstanceIdsResponse{}
	check.OK(t, s.call("ListInstanceIds", &protocol.ListInstanceIdsRequest{PageSize: 10,
		RuntimeStatus: []protocol.OrchestrationStatus{completed}}, ids))
	if len(ids.InstanceIds) != 2 || !slices.Contains(ids.InstanceIds, first.InstanceId) {
		t.Errorf("the IDs are %q", ids.InstanceIds)
	}
	pages := &protocol.ListInstanceIdsRequest{PageSize: 1}
	for _, id := range slices.Sorted(slices.Values(ids.InstanceIds)) {
		page := &protocol.ListInstanceIdsResponse{}
		check.OK(t, s.call("ListInstanceIds", pages, page))
		if len(page.InstanceIds) != 1 || page.InstanceIds[0] != id {
			t.Errorf("a page of IDs is %q, want %q", page.InstanceIds, id)
		}
		if pages.LastInstanceKey = page.LastInstanceKey; id == slices.Max(ids.InstanceIds) && page.LastInstanceKey != nil {
			t.Errorf("the last page has the key %q", page.LastInstanceKey.Value)
		}
	}
	kinds := map[string]int{}
	for _, e := range s.history(&protocol.StreamInstanceHistoryRequest{InstanceId: first.InstanceId}) {
		if e.GetExecutionStarted() != nil {
			kinds["started"]++
		}
		if e.GetExecutionCompleted() != nil {
			kinds["completed"]++
		}
	}
	if kinds["started"] != 1 || kinds["completed"] != 1 {
		t.Errorf("the history has %v", kinds)
	}
	for name, request := range map[string]proto.Message{
		"RestartInstance": &protocol.RestartInstanceRequest{InstanceId: "none"},
		"RewindInstance":  &protocol.RewindInstanceRequest{InstanceId: "none"}} {
		if err := s.call(name, request, &protocol.RestartInstanceResponse{}); status.Code(err) != codes.NotFound {
			t.Errorf("%s of nothing: %v", name, err)
		}
	}
	if err := s.call("RewindInstance", &protocol.RewindInstanceRequest{InstanceId: first.InstanceId},
		&protocol.RewindInstanceResponse{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a rewind of an instance that has not failed: %v", err)
	}
	check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: "fails", Name: "fails"}))
	s.becomes("fails", failed)
	check.OK(t, s.call("RewindInstance", &protocol.RewindInstanceRequest{InstanceId: "fails"},
		&protocol.RewindInstanceResponse{}))
	check.Eventually(t, func() bool {
		i := s.get("fails")
		return i.OrchestrationStatus == failed && i.FailureDetails.GetErrorMessage() == "as it should"
	}, "it runs, and fails, again")
}
