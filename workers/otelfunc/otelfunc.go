// Package otelfunc is middleware that creates an OpenTelemetry span for every call of a handler:
//
//	app.Use(otelfunc.Middleware())
//
// A message with the JSON property traceparent, which workers.Enqueue and CloudEvents add, continues that trace; other
// messages start a trace. Messages that the handler sends with workers.Enqueue belong to its span. Programs set a
// tracer provider with otel.SetTracerProvider or [WithTracerProvider]; without one, spans are not recorded.
//
// The package has the name and the API of the middleware of the Azure Functions worker for Go.
package otelfunc

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lazuli-storage/lazuli/workers"
)

// Option is an option of Middleware.
type Option func(*settings)

type settings struct{ provider trace.TracerProvider }

// WithTracerProvider sets the tracer provider. Default: otel.GetTracerProvider.
func WithTracerProvider(p trace.TracerProvider) Option { return func(s *settings) { s.provider = p } }

// name is the name of the instrumentation.
const name = "github.com/lazuli-storage/lazuli/workers"

var w3c propagation.TraceContext

// Middleware returns the middleware. Add it first, so that the span covers the rest.
func Middleware(options ...Option) workers.Middleware {
	var s settings
	for _, o := range options {
		o(&s)
	}
	return workers.MiddlewareFunc(func(next workers.Handler) workers.Handler {
		return func(ctx context.Context, mc *workers.MiddlewareContext) error {
			provider := s.provider
			if provider == nil {
				provider = otel.GetTracerProvider()
			}
			if parent := mc.TraceContext.TraceParent; parent != "" {
				ctx = w3c.Extract(ctx, propagation.MapCarrier{"traceparent": parent, "tracestate": mc.TraceContext.TraceState})
			}
			ctx, span := provider.Tracer(name).Start(ctx, mc.FunctionName, trace.WithSpanKind(kind(mc)),
				trace.WithAttributes(attributes(mc)...))
			defer span.End(trace.WithStackTrace(true)) // It records a panic and continues it.
			returned := false
			defer func() {
				if !returned {
					span.SetStatus(codes.Error, "the handler panicked")
				}
			}()
			err := next(Inject(ctx), mc)
			returned = true
			for key, value := range mc.OutboundTraceAttributes {
				span.SetAttributes(attribute.String(key, value))
			}
			if err != nil {
				span.SetStatus(codes.Error, err.Error())
				span.RecordError(err)
			}
			return err
		}
	})
}

// Inject returns a context under which Storage.Enqueue sends messages of the trace of ctx, for senders outside of
// handlers.
func Inject(ctx context.Context) context.Context {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return workers.WithTraceParent(ctx, carrier["traceparent"])
}

// kind returns the span kind for a trigger.
func kind(mc *workers.MiddlewareContext) trace.SpanKind {
	switch mc.TriggerType {
	case "httpTrigger":
		return trace.SpanKindServer
	case "timerTrigger":
		return trace.SpanKindInternal
	}
	return trace.SpanKindConsumer
}

// attributes are those of https://opentelemetry.io/docs/specs/semconv/ for functions and messaging.
func attributes(mc *workers.MiddlewareContext) []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.String("faas.name", mc.FunctionName),
		attribute.String("faas.invocation_id", mc.InvocationID),
		attribute.Int("lazuli.attempt", int(mc.RetryContext.RetryCount)+1),
	}
	switch mc.TriggerType {
	case "timerTrigger":
		return append(list, attribute.String("faas.trigger", "timer"))
	case "httpTrigger":
		return append(list, attribute.String("faas.trigger", "http"))
	case "queueTrigger":
		list = append(list, attribute.String("faas.trigger", "pubsub"))
	default:
		list = append(list, attribute.String("faas.trigger", "datasource"))
	}
	return append(list,
		attribute.String("messaging.system", "azure_storage_queue"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.message.id", mc.TriggerMetadata["Id"]))
}
