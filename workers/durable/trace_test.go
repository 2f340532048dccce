package durable_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// traced has the spans of this process. What makes spans asks for the provider once, and the first one stays its own.
var traced = sync.OnceValues(func() (*tracetest.InMemoryExporter, *sdktrace.TracerProvider) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	otel.SetTracerProvider(provider)
	return exporter, provider
})

// The client's request, the workflow, its activity, timer and sub-orchestration are one trace, though three processes
// make the spans.
func TestWorkflowIsOneTrace(t *testing.T) {
	exporter, provider := traced()
	h := newHub(t, lazulitest.Start(t), nil)
	inActivity := make(chan trace.SpanContext, 1)
	parent := workflows{"parent": func(ctx *durable.Context) (any, error) {
		if err := ctx.CreateTimer(time.Millisecond).Await(nil); err != nil {
			return nil, err
		}
		return nil, ctx.CallSubOrchestrator("child", durable.WithInstanceID("kid")).Await(nil)
	}, "child": func(ctx *durable.Context) (any, error) {
		return nil, ctx.CallActivity("noteTrace").Await(nil)
	}}
	notes := activities{"noteTrace": func(ctx activityContext) (any, error) {
		inActivity <- trace.SpanContextFromContext(ctx)
		return nil, nil
	}}
	h.run(registry(t, parent, notes))
	h.run(registry(t, parent, notes))
	ctx, span := provider.Tracer("test").Start(t.Context(), "request")
	c, err := hub.NewClient(ctx, h.options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(ctx, "parent", hub.StartOptions{InstanceID: "i"}); err != nil {
		t.Fatal(err)
	}
	span.End()
	ended(t, c, "i", "Completed")
	if got := (<-inActivity).TraceID(); got != span.SpanContext().TraceID() {
		t.Errorf("the activity ran in the trace %v, want %v", got, span.SpanContext().TraceID())
	}

	want := map[string]string{ // the parent of each span
		"request": "", "create_orchestration||parent": "request", "orchestration||parent": "create_orchestration||parent",
		"timer": "orchestration||parent", "orchestration||child": "orchestration||parent",
		"activity||noteTrace": "orchestration||child",
	}
	var got map[string]string
	eventually(t, func() bool { // The orchestration's span ends after its row is written.
		got = parents(exporter.GetSpans(), span.SpanContext().TraceID())
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the trace (-want +got):\n%s", diff)
	}
}

// parents returns the name of each span's parent in a trace.
func parents(spans tracetest.SpanStubs, id trace.TraceID) map[string]string {
	names, of := map[trace.SpanID]string{}, map[string]string{}
	for _, s := range spans {
		if s.SpanContext.TraceID() == id {
			names[s.SpanContext.SpanID()] = s.Name
		}
	}
	for _, s := range spans {
		if s.SpanContext.TraceID() == id {
			of[s.Name] = names[s.Parent.SpanID()]
		}
	}
	return of
}
