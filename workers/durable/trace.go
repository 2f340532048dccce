package durable

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// traceStart makes the span of starting an instance, as the engine's own client does, and hands it to the instance as
// its parent: the engine's spans of workflows and activities then belong to one trace, whichever process makes them.
func traceStart(ctx context.Context, start interface {
	ProtoReflect() protoreflect.Message
	GetName() string
}) {
	_, span := otel.Tracer("durabletask").Start(ctx, "create_orchestration||"+start.GetName(),
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("durabletask.type", "orchestration"),
			attribute.String("durabletask.task.name", start.GetName())))
	defer span.End()
	s := span.SpanContext()
	if !s.IsValid() || !s.IsSampled() {
		return
	}
	m := start.ProtoReflect()
	parent := m.Mutable(m.Descriptor().Fields().ByName("parentTraceContext")).Message()
	parent.Set(parent.Descriptor().Fields().ByName("traceParent"),
		protoreflect.ValueOfString(fmt.Sprintf("00-%s-%s-%s", s.TraceID(), s.SpanID(), s.TraceFlags())))
}
