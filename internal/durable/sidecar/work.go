package sidecar

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/results"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
)

// executor runs the work of a hub on the workers that are connected to it.
type executor struct{ h *openHub }

var (
	_ backend.Executor     = executor{}
	_ entitybatch.Executor = executor{}
	_ workkind.Acceptor    = executor{}
)

// Accepts implements workkind.Acceptor.
func (x executor) Accepts(kind workkind.Kind, name, version string) bool {
	return x.h.dispatcher.accepts(kind, name, version)
}

// Shutdown implements backend.Executor.
func (executor) Shutdown(context.Context) error { return nil }

// Numbers of fields of WorkItem.
const (
	itemOrchestrator protowire.Number = 1
	itemToken        protowire.Number = 10
)

// streamFrom is the size of a request in bytes from which on workers that can stream histories fetch the past events
// with StreamInstanceHistory: by default, clients of gRPC receive no message of more than 4 MiB.
const streamFrom = 1 << 20

// raw is a message that is written already.
func raw(text []byte) proto.Message {
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown(text)
	return m
}

// ExecuteOrchestrator implements backend.Executor.
func (x executor) ExecuteOrchestrator(ctx context.Context, id api.InstanceID, old,
	fresh []*record.Event) (*backend.ExecutionResults, error) {
	past, err := event.AppendEvents(nil, protocol.PastEvents, old)
	if err != nil {
		return nil, err
	}
	now, err := event.AppendEvents(nil, protocol.NewEvents, fresh)
	if err != nil {
		return nil, err
	}
	name, version, execution := event.WorkflowOf(old, fresh)
	request := event.NewRequest(ctx, id, execution)
	answer, err := x.h.dispatcher.run(ctx,
		&item{kind: workkind.Orchestration, name: name, version: version, key: string(id), past: old,
			send: func(w *worker, token string) error {
				// This depends on the worker that takes the item, which is known only here.
				request.RequiresHistoryStreaming = w.streams && len(past) >= streamFrom
				text, err := proto.Marshal(request)
				if err != nil {
					return err
				}
				// In the wire format, fields can be appended to a message: the events are written once, whichever worker takes
				// them.
				if !request.RequiresHistoryStreaming {
					text = append(text, past...)
				}
				text = protowire.AppendBytes(protowire.AppendTag(nil, itemOrchestrator, protowire.BytesType), append(text,
					now...))
				return w.send(raw(protowire.AppendString(protowire.AppendTag(text, itemToken, protowire.BytesType), token)))
			}})
	if err != nil {
		return nil, err
	}
	return results.Of(answer)
}

func activityKey(instance string, task int32) string {
	return instance + "/" + strconv.Itoa(int(task))
}

// ExecuteActivity implements backend.Executor.
func (x executor) ExecuteActivity(ctx context.Context, id api.InstanceID, e *record.Event) (*record.Event, error) {
	t := e.GetTaskScheduled()
	request := &protocol.ActivityRequest{Name: t.Name, Version: t.Version, Input: t.Input, TaskId: e.EventId,
		OrchestrationInstance: &protocol.OrchestrationInstance{InstanceId: string(id)}, Tags: event.TaskTags(e)}
	if info, ok := hub.InfoFromContext(ctx); ok && info.Execution != "" {
		request.OrchestrationInstance.ExecutionId = wrapperspb.String(info.Execution)
	}
	if parent := t.GetParentTraceContext(); parent.GetTraceParent() != "" {
		request.ParentTraceContext = &protocol.TraceContext{TraceParent: parent.TraceParent, TraceState: parent.TraceState}
	}
	// Waits until a worker has answered, or the lease of the message is lost; with another worker's answer the message is
	// not settled twice.
	answer, err := x.h.dispatcher.run(ctx,
		&item{kind: workkind.Activity, name: t.Name, version: t.Version.GetValue(),
			key: activityKey(string(id), e.EventId),
			send: func(w *worker, token string) error {
				return w.send(&protocol.WorkItem{CompletionToken: token,
					Request: &protocol.WorkItem_ActivityRequest{ActivityRequest: request}})
			}})
	if err != nil {
		return nil, err
	}
	r := answer.(*protocol.ActivityResponse)
	result := &protocol.HistoryEvent{EventId: -1, Timestamp: timestamppb.Now()}
	if r.FailureDetails != nil {
		result.EventType = &protocol.HistoryEvent_TaskFailed{TaskFailed: &protocol.TaskFailedEvent{TaskScheduledId: e.EventId,
			FailureDetails: r.FailureDetails}}
	} else {
		result.EventType =
			&protocol.HistoryEvent_TaskCompleted{TaskCompleted: &protocol.TaskCompletedEvent{TaskScheduledId: e.EventId,
				Result: r.Result}}
	}
	return event.FromProtocol(result)
}

// ExecuteEntity implements entitybatch.Executor.
func (x executor) ExecuteEntity(ctx context.Context, batch *entitybatch.Batch) (*entitybatch.Result, error) {
	answer, err := x.h.dispatcher.run(ctx,
		&item{kind: workkind.Entity, name: entitybatch.NameOf(batch.ID), key: batch.ID,
			send: func(w *worker, token string) error {
				i := &protocol.WorkItem{CompletionToken: token}
				if w.newer {
					i.Request = &protocol.WorkItem_EntityRequestV2{EntityRequestV2: newerBatch(batch)}
				} else {
					i.Request = &protocol.WorkItem_EntityRequest{EntityRequest: entitybatch.ToProtocol(batch)}
				}
				return w.send(i)
			}})
	if err != nil {
		return nil, err
	}
	return entitybatch.FromProtocol(answer.(*protocol.EntityBatchResult))
}

func newerBatch(b *entitybatch.Batch) *protocol.EntityRequest {
	r := &protocol.EntityRequest{InstanceId: b.ID, EntityState: protocol.Text(b.State)}
	for _, o := range b.Operations {
		e := &protocol.HistoryEvent{EventId: -1, Timestamp: timestamppb.Now()}
		if o.Caller == "" {
			e.EventType =
				&protocol.HistoryEvent_EntityOperationSignaled{EntityOperationSignaled: &protocol.EntityOperationSignaledEvent{
					RequestId: event.RequestID(o.ID), Operation: o.Name, Input: protocol.Text(o.Input)}}
		} else {
			e.EventType =
				&protocol.HistoryEvent_EntityOperationCalled{EntityOperationCalled: &protocol.EntityOperationCalledEvent{
					RequestId: event.RequestID(o.ID), Operation: o.Name, Input: protocol.Text(o.Input),
					ParentInstanceId:  wrapperspb.String(o.Caller),
					ParentExecutionId: wrapperspb.String(o.Execution)}}
		}
		r.OperationRequests = append(r.OperationRequests, e)
	}
	return r
}

// getWorkItems streams work to a worker until it disconnects.
func (s *Server) getWorkItems(request *protocol.GetWorkItemsRequest, h *openHub, stream grpc.ServerStream) error {
	w := &worker{send: func(m proto.Message) error { return stream.SendMsg(m) },
		filters: filtersOf(request.WorkItemFilters),
		newer:   takesNewer(stream.Context()),
		streams: slices.Contains(request.Capabilities, protocol.WorkerCapability_WORKER_CAPABILITY_HISTORY_STREAMING),
		pings:   takesPings(first(stream.Context(), "user-agent")), limits: map[workkind.Kind]int{},
		running: map[workkind.Kind]int{}, wake: make(chan struct{}, 1)}
	for kind, limit := range map[workkind.Kind]int32{
		workkind.Orchestration: request.MaxConcurrentOrchestrationWorkItems,
		workkind.Activity:      request.MaxConcurrentActivityWorkItems,
		workkind.Entity:        request.MaxConcurrentEntityWorkItems} {
		if limit > 0 {
			w.limits[kind] = int(limit)
		}
	}
	if slices.Contains(request.Capabilities, protocol.WorkerCapability_WORKER_CAPABILITY_LARGE_PAYLOADS) {
		h.log.Debug("a worker keeps large payloads outside of the server")
	}
	h.dispatcher.join(w)
	defer h.dispatcher.leave(w)
	leave, err := h.connect()
	if err != nil {
		return err
	}
	defer leave()
	s.report(stream.Context(), h, w)
	go h.backend.Offer()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() {
		select {
		case <-h.gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := h.dispatcher.serve(ctx, h.backend.Clock(), w); err != nil || stream.Context().Err() != nil {
		return err
	}
	return errHubClosed // The worker connects again, and makes the hub.
}

var healthPing = &protocol.WorkItem{Request: &protocol.WorkItem_HealthPing{HealthPing: &protocol.HealthPing{}}}

// takesPings reports whether a worker's SDK knows health pings. Those for Go and Java write a warning for each.
func takesPings(agent string) bool {
	return !strings.HasPrefix(agent, "grpc-go/") && !strings.HasPrefix(agent, "grpc-java")
}

// takesNewer reports whether a worker takes entities' work items in the newer form. Workers of the Scheduler name
// themselves. The SDK for .NET knows both forms in every configuration, and answers the older one without the item's
// token, so that its answer belongs to no item.
// https://github.com/microsoft/durabletask-dotnet/blob/main/src/Worker/Grpc/GrpcDurableTaskWorker.Processor.cs
func takesNewer(ctx context.Context) bool {
	return first(ctx, "workerid") != "" || strings.HasPrefix(first(ctx, "user-agent"), "grpc-dotnet/")
}

func notAtWorker(key string) error {
	return status.Errorf(codes.NotFound, "the work item of %q is not at this worker any more", key)
}

func (h *openHub) completed(token, key string, answer proto.Message) (*protocol.CompleteTaskResponse, error) {
	if !h.dispatcher.complete(token, key, outcome{answer: answer}) {
		return nil, notAtWorker(key)
	}
	return &protocol.CompleteTaskResponse{}, nil
}

func completeActivityTask(_ context.Context, h *openHub, r *protocol.ActivityResponse) (*protocol.CompleteTaskResponse,
	error) {
	return h.completed(r.CompletionToken, activityKey(r.InstanceId, r.TaskId), r)
}

func completeOrchestratorTask(_ context.Context, h *openHub,
	r *protocol.OrchestratorResponse) (*protocol.CompleteTaskResponse, error) {
	if r.RequiresHistory {
		// It has no answer without the past events, which every request has: the step is run again.
		return &protocol.CompleteTaskResponse{}, h.abandon(r.CompletionToken)
	}
	whole, err := h.dispatcher.assemble(r)
	if whole == nil {
		return &protocol.CompleteTaskResponse{}, err
	}
	return h.completed(r.CompletionToken, r.InstanceId, whole)
}

func completeEntityTask(_ context.Context, h *openHub, r *protocol.EntityBatchResult) (*protocol.CompleteTaskResponse,
	error) {
	return h.completed(r.CompletionToken, "", r)
}

func (h *openHub) abandon(token string) error {
	if !h.dispatcher.complete(token, "", outcome{err: errAbandoned}) {
		return status.Error(codes.NotFound, "the work item is not at this worker any more")
	}
	return nil
}

func abandonActivity(_ context.Context, h *openHub,
	r *protocol.AbandonActivityTaskRequest) (*protocol.AbandonActivityTaskResponse, error) {
	return &protocol.AbandonActivityTaskResponse{}, h.abandon(r.CompletionToken)
}

func abandonOrchestrator(_ context.Context, h *openHub,
	r *protocol.AbandonOrchestrationTaskRequest) (*protocol.AbandonOrchestrationTaskResponse, error) {
	return &protocol.AbandonOrchestrationTaskResponse{}, h.abandon(r.CompletionToken)
}

func abandonEntity(_ context.Context, h *openHub,
	r *protocol.AbandonEntityTaskRequest) (*protocol.AbandonEntityTaskResponse, error) {
	return &protocol.AbandonEntityTaskResponse{}, h.abandon(r.CompletionToken)
}
