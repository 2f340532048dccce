package sidecar

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// w3c reads trace contexts. https://www.w3.org/TR/trace-context/
var w3c propagation.TraceContext

// traced returns a context with the trace that a client has sent: in the request that starts an instance, or in the
// call's metadata.
func traced(ctx context.Context, parent *protocol.TraceContext) context.Context {
	carrier := propagation.MapCarrier{}
	md, _ := metadata.FromIncomingContext(ctx)
	for _, key := range w3c.Fields() {
		if v := md.Get(key); len(v) > 0 {
			carrier[key] = v[0]
		}
	}
	if parent != nil {
		carrier = propagation.MapCarrier{"traceparent": parent.TraceParent, "tracestate": parent.TraceState.GetValue()}
	}
	return w3c.Extract(ctx, carrier)
}

// reuseAction is the number of the field "action" that older versions of the protocol had in
// OrchestrationIdReusePolicy, and its values. Without it, an instance in one of the listed statuses is replaced.
const (
	reuseAction protowire.Number = 2
	reuseIgnore uint64           = 1
)

// startInstance starts an instance. Without a policy, an instance with the ID that has ended is replaced, and one that
// runs is refused unless the options say otherwise: so do the functions' host and the sidecar of the SDK for .NET. With
// a policy, also an empty one, instances in its statuses are replaced and all others refused.
func startInstance(ctx context.Context, h *openHub,
	r *protocol.CreateInstanceRequest) (*protocol.CreateInstanceResponse,
	error) {
	o := hub.StartOptions{InstanceID: r.InstanceId, Version: r.Version.GetValue(), Tags: r.Tags,
		RawInput: protocol.TextOf(r.Input)}
	// The ID that the SDKs make themselves has this form.
	if o.InstanceID == "" {
		o.InstanceID = strings.ReplaceAll(uuid.NewString(), "-", "")
	}
	if t := r.ScheduledStartTimestamp; t != nil {
		if err := t.CheckValid(); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "scheduledStartTimestamp: %v", err)
		}
		o.At = t.AsTime()
	}
	statuses, err := statusesOf(r.OrchestrationIdReusePolicy.GetReplaceableStatus())
	if err != nil {
		return nil, err
	}
	o.Replaceable = statuses
	if policy := r.OrchestrationIdReusePolicy; policy == nil {
		o.Replace, o.Running = true, h.replaceRunning
	} else {
		// The action is a field that newer SDKs send and the protocol here does not have; it is among the unknown fields.
		if number, _, n := protowire.ConsumeTag(policy.ProtoReflect().GetUnknown()); n > 0 && number == reuseAction {
			if action, _ := protowire.ConsumeVarint(policy.ProtoReflect().GetUnknown()[n:]); action == reuseIgnore {
				o.Replaceable, o.Ignore = nil, statuses
			}
		}
	}
	id, err := h.client.Start(traced(ctx, r.ParentTraceContext), r.Name, o)
	return &protocol.CreateInstanceResponse{InstanceId: id}, err
}

// statusesOf reads statuses, and refuses those that the protocol does not have.
func statusesOf(list []protocol.OrchestrationStatus) ([]record.Status, error) {
	var statuses []record.Status
	for _, s := range list {
		if s.Descriptor().Values().ByNumber(s.Number()) == nil {
			return nil, status.Errorf(codes.InvalidArgument, "unknown status %d", s)
		}
		statuses = append(statuses, record.Status(s))
	}
	return statuses, nil
}

func statusNames(list []protocol.OrchestrationStatus) ([]string, error) {
	statuses, err := statusesOf(list)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range statuses {
		names = append(names, record.StatusName(s))
	}
	return names, nil
}

func getInstance(ctx context.Context, h *openHub, r *protocol.GetInstanceRequest) (*protocol.GetInstanceResponse,
	error) {
	i, err := h.client.Get(ctx, r.InstanceId)
	if errors.Is(err, record.ErrInstanceNotFound) {
		return &protocol.GetInstanceResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &protocol.GetInstanceResponse{Exists: true, OrchestrationState: stateOf(i, r.GetInputsAndOutputs)}, nil
}

func waitForInstanceStart(ctx context.Context, h *openHub,
	r *protocol.GetInstanceRequest) (*protocol.GetInstanceResponse,
	error) {
	return h.wait(ctx, r, h.client.WaitAnyStart)
}

func waitForInstanceCompletion(ctx context.Context, h *openHub,
	r *protocol.GetInstanceRequest) (*protocol.GetInstanceResponse, error) {
	return h.wait(ctx, r, h.client.WaitAny)
}

// wait answers once an instance has begun, or ended. One that does not exist yet is waited for, as the functions' host
// and the sidecar of the SDK for .NET do: a parent may be about to start it.
func (h *openHub) wait(ctx context.Context, r *protocol.GetInstanceRequest,
	wait func(context.Context, string) (*record.Instance, error)) (*protocol.GetInstanceResponse, error) {
	i, err := wait(ctx, r.InstanceId)
	if err != nil {
		return nil, err
	}
	return &protocol.GetInstanceResponse{Exists: true, OrchestrationState: stateOf(i, r.GetInputsAndOutputs)}, nil
}

// stateOf describes an instance. Failure details belong to the outputs, as in the sidecar of the SDK for .NET.
func stateOf(i *record.Instance, payloads bool) *protocol.OrchestrationState {
	s := &protocol.OrchestrationState{InstanceId: i.ID, Name: i.Name, CreatedTimestamp: timestamppb.New(i.Created),
		LastUpdatedTimestamp: timestamppb.New(i.LastUpdated), Tags: i.Tags}
	if v, err := record.ParseStatus(i.Status); err == nil {
		s.OrchestrationStatus = protocol.OrchestrationStatus(v)
	}
	text := func(t string) *wrapperspb.StringValue {
		if t == "" {
			return nil
		}
		return wrapperspb.String(t)
	}
	s.Version, s.ExecutionId, s.ParentInstanceId = text(i.Version), text(i.Execution), text(i.Parent)
	if i.Scheduled != nil {
		s.ScheduledStartTimestamp = timestamppb.New(*i.Scheduled)
	}
	if i.Completed != nil {
		s.CompletedTimestamp = timestamppb.New(*i.Completed)
	}
	if !payloads {
		return s
	}
	// Details of the failure with causes and stack, if the history has them; otherwise what the row of the instance has.
	if d := i.Failure(); d != nil {
		s.FailureDetails, _ = event.FailureToProtocol(d)
	} else if i.FailureMessage != "" {
		s.FailureDetails = &protocol.TaskFailureDetails{ErrorType: i.FailureType, ErrorMessage: i.FailureMessage}
	}
	s.Input, s.Output, s.CustomStatus = text(i.Input), text(i.Output), text(i.CustomStatus)
	return s
}

func raiseEvent(ctx context.Context, h *openHub, r *protocol.RaiseEventRequest) (*protocol.RaiseEventResponse, error) {
	return &protocol.RaiseEventResponse{}, h.client.RaiseEvent(ctx, r.InstanceId, r.Name, r.Input.GetValue())
}

func terminateInstance(ctx context.Context, h *openHub, r *protocol.TerminateRequest) (*protocol.TerminateResponse,
	error) {
	return &protocol.TerminateResponse{}, h.client.TerminateWith(ctx, r.InstanceId, protocol.TextOf(r.Output),
		r.Recursive)
}

func suspendInstance(ctx context.Context, h *openHub, r *protocol.SuspendRequest) (*protocol.SuspendResponse, error) {
	return &protocol.SuspendResponse{}, h.client.Suspend(ctx, r.InstanceId, r.Reason.GetValue())
}

func resumeInstance(ctx context.Context, h *openHub, r *protocol.ResumeRequest) (*protocol.ResumeResponse, error) {
	return &protocol.ResumeResponse{}, h.client.Resume(ctx, r.InstanceId, r.Reason.GetValue())
}

func restartInstance(ctx context.Context, h *openHub,
	r *protocol.RestartInstanceRequest) (*protocol.RestartInstanceResponse, error) {
	id, err := h.client.Restart(ctx, r.InstanceId, r.RestartWithNewInstanceId)
	return &protocol.RestartInstanceResponse{InstanceId: id}, err
}

func rewindInstance(ctx context.Context, h *openHub,
	r *protocol.RewindInstanceRequest) (*protocol.RewindInstanceResponse,
	error) {
	return &protocol.RewindInstanceResponse{}, h.client.Rewind(ctx, r.InstanceId, r.Reason.GetValue())
}

// timeOf reads a time that need not be set.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// pageSize returns the size of a page, 100 if none is given.
func pageSize(n int32) int {
	if n <= 0 {
		return 100
	}
	return min(int(n), 1000)
}

func queryInstances(ctx context.Context, h *openHub,
	r *protocol.QueryInstancesRequest) (*protocol.QueryInstancesResponse,
	error) {
	m := r.GetQuery()
	if names := m.GetTaskHubNames(); len(names) > 0 && !slices.ContainsFunc(names,
		func(n *wrapperspb.StringValue) bool { return strings.EqualFold(n.GetValue(), h.name) }) {
		return &protocol.QueryInstancesResponse{}, nil // A call is for one hub.
	}
	statuses, err := statusNames(m.GetRuntimeStatus())
	if err != nil {
		return nil, err
	}
	page, err := h.client.Query(ctx,
		hub.Query{Status: statuses, From: timeOf(m.GetCreatedTimeFrom()), To: timeOf(m.GetCreatedTimeTo()),
			Prefix: m.GetInstanceIdPrefix().GetValue(), Continuation: m.GetContinuationToken().GetValue(),
			Payloads: m.GetFetchInputsAndOutputs(), Top: pageSize(m.GetMaxInstanceCount())})
	if err != nil {
		return nil, err
	}
	a := &protocol.QueryInstancesResponse{}
	for _, i := range page.Instances {
		a.OrchestrationState = append(a.OrchestrationState, stateOf(i, m.GetFetchInputsAndOutputs()))
	}
	if page.Continuation != "" {
		a.ContinuationToken = wrapperspb.String(page.Continuation)
	}
	return a, nil
}

// listInstanceIDs lists instances that have ended, in the order of their IDs. The key of a page is its last ID.
func listInstanceIDs(ctx context.Context, h *openHub,
	r *protocol.ListInstanceIdsRequest) (*protocol.ListInstanceIdsResponse, error) {
	statuses, err := statusNames(r.RuntimeStatus)
	if err != nil {
		return nil, err
	}
	if len(statuses) == 0 {
		statuses = []string{"Completed", "Failed", "Terminated", "Canceled"}
	}
	q := hub.Query{Status: statuses, CompletedFrom: timeOf(r.CompletedTimeFrom),
		CompletedTo: timeOf(r.CompletedTimeTo),
		Top:         pageSize(r.PageSize), After: r.LastInstanceKey.GetValue()}
	a := &protocol.ListInstanceIdsResponse{}
	for {
		page, err := h.client.Query(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, i := range page.Instances {
			if i.Done() {
				a.InstanceIds = append(a.InstanceIds, i.ID)
			}
		}
		q.Continuation = page.Continuation
		if len(a.InstanceIds) > 0 || q.Continuation == "" {
			break // Clients take an empty page for the last one.
		}
	}
	if q.Continuation != "" {
		a.LastInstanceKey = wrapperspb.String(a.InstanceIds[len(a.InstanceIds)-1])
	}
	return a, nil
}

// maxBatch bounds the instances of one request.
const maxBatch = 500

func purgeInstances(ctx context.Context, h *openHub,
	r *protocol.PurgeInstancesRequest) (*protocol.PurgeInstancesResponse,
	error) {
	n, complete := 0, true
	purge := func(id string) error {
		if strings.HasPrefix(id, "@") && !r.IsOrchestration {
			removed, err := h.client.PurgeEntity(ctx, id)
			if removed {
				n++
			}
			return err
		}
		purged, err := h.client.PurgeTree(ctx, id, r.Recursive)
		n += purged
		if errors.Is(err, record.ErrInstanceNotFound) {
			return nil // The protocol answers with the number.
		}
		return err
	}
	var err error
	switch x := r.Request.(type) {
	case *protocol.PurgeInstancesRequest_PurgeInstanceFilter:
		f := x.PurgeInstanceFilter
		statuses, bad := statusNames(f.RuntimeStatus)
		if bad != nil {
			return nil, bad
		}
		if f.Timeout.IsValid() && f.Timeout.AsDuration() > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, f.Timeout.AsDuration())
			defer cancel()
		}
		n, err = h.client.PurgeAll(ctx,
			hub.Query{Top: 1000, Status: statuses, From: timeOf(f.CreatedTimeFrom), To: timeOf(f.CreatedTimeTo)})
		// What was purged until then counts, and the answer says that there is more.
		if f.Timeout != nil && errors.Is(err, context.DeadlineExceeded) {
			complete, err = false, nil
		}
	case *protocol.PurgeInstancesRequest_InstanceBatch:
		if len(x.InstanceBatch.GetInstanceIds()) > maxBatch {
			return nil, status.Errorf(codes.InvalidArgument, "a batch has at most %d instances", maxBatch)
		}
		for _, id := range x.InstanceBatch.GetInstanceIds() {
			// An instance that still runs is not counted; the others of the batch are purged.
			if err = purge(id); errors.Is(err, record.ErrNotCompleted) {
				err = nil
			}
			if err != nil {
				break
			}
		}
	case *protocol.PurgeInstancesRequest_InstanceId:
		err = purge(x.InstanceId)
	default:
		err = status.Error(codes.InvalidArgument, "the request names no instances")
	}
	if err != nil {
		return nil, err
	}
	return &protocol.PurgeInstancesResponse{DeletedInstanceCount: int32(n), IsComplete: wrapperspb.Bool(complete)}, nil
}

func skipGracefulTerminations(ctx context.Context, h *openHub,
	r *protocol.SkipGracefulOrchestrationTerminationsRequest) (*protocol.SkipGracefulOrchestrationTerminationsResponse,
	error) {
	ids := r.GetInstanceBatch().GetInstanceIds()
	if len(ids) > maxBatch {
		return nil, status.Errorf(codes.InvalidArgument, "a batch has at most %d instances", maxBatch)
	}
	a := &protocol.SkipGracefulOrchestrationTerminationsResponse{}
	for _, id := range ids {
		done, err := h.client.TerminateNow(ctx, id, r.Reason.GetValue())
		if err != nil {
			return nil, err
		}
		if !done {
			a.UnterminatedInstanceIds = append(a.UnterminatedInstanceIds, id)
		}
	}
	return a, nil
}

// chunkBytes bounds a part of a streamed history, in bytes, apart from its last event.
const chunkBytes = 1 << 20

// streamInstanceHistory streams a history in parts.
func streamInstanceHistory(r *protocol.StreamInstanceHistoryRequest, h *openHub, stream grpc.ServerStream) error {
	i, err := h.client.Get(stream.Context(), r.InstanceId)
	if err != nil {
		return err
	}
	if want := r.ExecutionId.GetValue(); want != "" && want != i.Execution {
		return status.Errorf(codes.NotFound, "the instance has no execution %q any more", want)
	}
	events, working := h.dispatcher.past(r.InstanceId)
	// A worker has to replay the events that its work item was made with, and no later ones.
	if !working || !r.ForWorkItemProcessing {
		if events, err = h.client.History(stream.Context(), r.InstanceId); err != nil {
			return err
		}
	}
	var chunk []byte
	for n := range events {
		if chunk, err = event.AppendEvents(chunk, protocol.ChunkEvents, events[n:n+1]); err != nil {
			return err
		}
		if len(chunk) >= chunkBytes || n == len(events)-1 {
			if err := stream.SendMsg(raw(chunk)); err != nil {
				return err
			}
			chunk = nil
		}
	}
	return nil
}
