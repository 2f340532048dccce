package event

import (
	"context"
	"fmt"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// TraceStart makes the span of starting an instance, as the engine's own client does, and hands it to the instance as
// its parent: the engine's spans of workflows and activities then belong to one trace, whichever process makes them.
func TraceStart(ctx context.Context, start interface {
	ProtoReflect() protoreflect.Message
	GetName() string
}) {
	_, span := otel.Tracer("durabletask").Start(ctx, "create_orchestration||"+start.GetName(),
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("durabletask.type", "orchestration"),
			attribute.String("durabletask.task.name", start.GetName())))
	defer span.End()
	s := span.SpanContext()
	if !s.IsValid() {
		return
	}
	m := start.ProtoReflect()
	parent := m.Mutable(m.Descriptor().Fields().ByName("parentTraceContext")).Message()
	parent.Set(parent.Descriptor().Fields().ByName("traceParent"),
		protoreflect.ValueOfString(fmt.Sprintf("00-%s-%s-%s", s.TraceID(), s.SpanID(), s.TraceFlags())))
	if state := s.TraceState().String(); state != "" {
		parent.Set(parent.Descriptor().Fields().ByName("traceState"),
			protoreflect.ValueOfMessage(wrapperspb.String(state).ProtoReflect()))
	}
}

// A worker that makes the span of a workflow itself tells its ID and start in each answer, and gets them with the next
// request, so that all turns of an execution are one span.

// answeredSpan is the field orchestration_trace_context of OrchestratorResponse.
const answeredSpan protowire.Number = 6

// maxSpan bounds what is kept of a worker's span, an ID and a time, in bytes. Of a larger one nothing is kept.
const maxSpan = 128

// SpanOf returns the span that an answer tells, in the protocol's encoding; nil without one, and if the workflow
// continues as new: the next execution has a span of its own.
func SpanOf(r *backend.ExecutionResults) (span []byte) {
	EachField(r.Response.ProtoReflect().GetUnknown(), func(number protowire.Number, _, content []byte) {
		if number == answeredSpan && len(content) <= maxSpan {
			span = content
		}
	})
	for _, a := range r.Response.GetActions() {
		if a.GetCompleteOrchestration().GetOrchestrationStatus() == api.RUNTIME_STATUS_CONTINUED_AS_NEW {
			return nil
		}
	}
	return span
}

type spanKey struct{}

// WithSpan returns a context for a step of a workflow whose worker has told its span.
func WithSpan(ctx context.Context, span []byte) context.Context {
	if len(span) == 0 {
		return ctx
	}
	return context.WithValue(ctx, spanKey{}, span)
}

// requestSpan returns the span of WithSpan; nil without one, and if it cannot be read.
func requestSpan(ctx context.Context) *protocol.OrchestrationTraceContext {
	span, _ := ctx.Value(spanKey{}).([]byte)
	c := &protocol.OrchestrationTraceContext{}
	if len(span) == 0 || proto.Unmarshal(span, c) != nil {
		return nil
	}
	return c
}

// Fields parent_trace_context of ScheduleTaskAction and CreateSubOrchestrationAction: the span that a worker has made
// for what it schedules.
const actionTrace protowire.Number = 5

// TraceOf returns an action's trace context in the protocol's encoding; nil if it has none.
func TraceOf(action protoreflect.Message) (trace []byte) {
	EachField(action.GetUnknown(), func(number protowire.Number, _, content []byte) {
		if number == actionTrace {
			trace = content
		}
	})
	return trace
}

// SetTrace sets the trace context of an event that schedules something.
func SetTrace(event protoreflect.Message, trace []byte) {
	field := event.Descriptor().Fields().ByName("parentTraceContext")
	c := event.NewField(field).Message()
	if err := proto.Unmarshal(trace, c.Interface()); err == nil && c.Has(c.Descriptor().Fields().ByName("traceParent")) {
		event.Set(field, protoreflect.ValueOfMessage(c))
	}
}
