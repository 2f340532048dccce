package durable

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/workers"
)

// What a server of the protocol needs of this package (package sidecar).

// ErrBadRequest means that a request is not valid.
var ErrBadRequest = errors.New("durable: the request is not valid")

// Clock returns the backend's clock.
func (b *Backend) Clock() workers.Clock { return b.clock }

// Results returns the answer of a workflow's worker in the engine's form.
func Results(answer proto.Message) (*backend.ExecutionResults, error) {
	text, err := proto.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return resultsOf(text)
}

// resultsOf reads an OrchestratorResponse.
func resultsOf(text []byte) (*backend.ExecutionResults, error) {
	r := &backend.ExecutionResults{}
	fill(&r.Response)
	return r, proto.Unmarshal(text, r.Response)
}

// NewRequest returns the request for a step of a workflow without its events. The SDK for .NET refuses entities without
// their parameters, which ask it to leave messages in the order in which they come.
func NewRequest(ctx context.Context, id api.InstanceID, execution string) *protocol.OrchestratorRequest {
	r := &protocol.OrchestratorRequest{InstanceId: string(id), EntityParameters: &protocol.OrchestratorEntityParameters{
		EntityMessageReorderWindow: durationpb.New(0)}, OrchestrationTraceContext: requestSpan(ctx)}
	if execution != "" {
		r.ExecutionId = wrapperspb.String(execution)
	}
	return r
}

// AppendEvents writes events behind a message, as a repeated field of it: they stay as they are, without another copy
// in memory.
func AppendEvents(text []byte, field protowire.Number, events []*Event) (_ []byte, err error) {
	for _, e := range events {
		text = protowire.AppendVarint(protowire.AppendTag(text, field, protowire.BytesType), uint64(proto.Size(e)))
		if text, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(text, e); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// WorkflowOf returns the name and version of the workflow that histories are of, and the ID of its execution.
func WorkflowOf(histories ...[]*Event) (name, version, execution string) {
	for _, events := range histories {
		for _, e := range events {
			if x := e.GetExecutionStarted(); x != nil {
				name, version, execution = x.Name, x.Version.GetValue(), executionOf(e)
			}
		}
	}
	return name, version, execution
}

// TaskTags returns the tags of an activity's event TaskScheduled.
func TaskTags(e *Event) map[string]string {
	return tagsOf(e.GetTaskScheduled().ProtoReflect(), scheduledTags)
}

// FailureFromProtocol converts failure details from the present protocol's.
func FailureFromProtocol(p *protocol.TaskFailureDetails) (*backend.TaskFailureDetails, error) {
	text, err := proto.Marshal(p)
	if err != nil {
		return nil, err
	}
	d := &backend.TaskFailureDetails{}
	return d, proto.Unmarshal(text, d)
}

// RequestID returns the ID of an operation as workers get it: the SDK for .NET reads nothing but UUIDs. Others become
// one; answers are matched by their order.
func RequestID(id string) string {
	if u, err := uuid.Parse(id); err == nil {
		return u.String()
	}
	return uuid.NewSHA1(uuid.Nil, []byte(id)).String()
}

// BatchToProtocol returns a batch of operations as the request to a worker.
func BatchToProtocol(b *EntityBatch) *protocol.EntityBatchRequest {
	r := &protocol.EntityBatchRequest{InstanceId: b.ID, EntityState: protocol.Text(b.State)}
	for _, o := range b.Operations {
		r.Operations = append(r.Operations,
			&protocol.OperationRequest{Operation: o.Name, RequestId: RequestID(o.ID), Input: protocol.Text(o.Input)})
	}
	return r
}

// BatchResult reads the answer of a worker. Time stamps of its actions that are zero mean at once.
func BatchResult(r *protocol.EntityBatchResult) (*EntityResult, error) {
	result := &EntityResult{State: protocol.TextOf(r.EntityState)}
	var err error
	for _, o := range r.Results {
		one := EntityOperationResult{}
		if f := o.GetFailure(); f != nil {
			if one.Failure, err = FailureFromProtocol(f.FailureDetails); err != nil {
				return nil, err
			}
		} else {
			one.Output = protocol.TextOf(o.GetSuccess().GetResult())
		}
		result.Results = append(result.Results, one)
	}
	for _, a := range r.Actions {
		if s := a.GetSendSignal(); s != nil {
			signal := EntitySignal{ID: s.InstanceId, Operation: s.Name, Input: protocol.TextOf(s.Input)}
			if s.ScheduledTime.IsValid() {
				signal.At = s.ScheduledTime.AsTime()
			}
			result.Signals = append(result.Signals, signal)
		} else if s := a.GetStartNewOrchestration(); s != nil {
			start := EntityStart{InstanceID: s.InstanceId, Workflow: s.Name, Version: s.Version.GetValue(),
				Input: protocol.TextOf(s.Input)}
			if s.ScheduledTime.IsValid() {
				start.At = s.ScheduledTime.AsTime()
			}
			result.Starts = append(result.Starts, start)
		} else {
			return nil, errors.New("durable: an action of an entity is of an unknown kind")
		}
	}
	if r.FailureDetails != nil {
		if result.Failure, err = FailureFromProtocol(r.FailureDetails); err != nil {
			return nil, err
		}
	}
	return result, nil
}
