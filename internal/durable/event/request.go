package event

import (
	"context"

	"github.com/google/uuid"
	"github.com/microsoft/durabletask-go/api"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

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
				name, version, execution = x.Name, x.Version.GetValue(), ExecutionOf(e)
			}
		}
	}
	return name, version, execution
}

// RequestID returns the ID of an operation as workers get it: the SDK for .NET reads nothing but UUIDs. Others become
// one; answers are matched by their order.
func RequestID(id string) string {
	if u, err := uuid.Parse(id); err == nil {
		return u.String()
	}
	return uuid.NewSHA1(uuid.Nil, []byte(id)).String()
}
