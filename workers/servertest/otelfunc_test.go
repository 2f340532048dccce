package servertest

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/otelfunc"
)

// A trace crosses two queues: from a sender that is no handler to a function, and from there to another.
func TestTracesCrossQueues(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	a := lazulitest.Start(t).Account(t)
	app := workers.New(workers.Config{Storage: a.Storage, Logger: slog.New(slog.DiscardHandler)})
	app.Use(otelfunc.Middleware(otelfunc.WithTracerProvider(provider)))
	type order struct{ ID int }
	bodies := make(chan string, 10)
	workers.Queue(app, "orders", func(ctx context.Context, m *workers.Message[order]) error {
		bodies <- string(m.Raw.Body)
		if ic, _ := workers.FromContext(ctx); ic != nil {
			ic.OutboundTraceAttributes = map[string]string{"order": "one"}
		}
		return workers.Enqueue(ctx, "invoices", m.Body)
	})
	workers.Queue(app, "invoices", func(ctx context.Context, m *workers.Message[order]) error {
		return workers.Permanent(errors.New("no paper"))
	})
	app.Queue("panics", func(ctx context.Context, m workers.QueueMessage) error { panic("ouch") },
		workers.WithMaxDequeueCount(1))
	a.Run(app)

	ctx, root := provider.Tracer("test").Start(t.Context(), "root")
	if err := a.Enqueue(otelfunc.Inject(ctx), "orders", order{1}); err != nil {
		t.Fatal(err)
	}
	root.End()
	a.Drain()
	if err := a.Enqueue(t.Context(), "panics", "no JSON, and no trace"); err != nil {
		t.Fatal(err)
	}
	a.Drain()
	if body := <-bodies; !strings.Contains(body, `{"traceparent":"00-`+root.SpanContext().TraceID().String()) ||
		!strings.HasSuffix(body, `","ID":1}`) {
		t.Errorf("the message is %s", body)
	}
	spans := map[string]tracetest.SpanStub{}
	for _, s := range exporter.GetSpans() {
		spans[s.Name] = s
	}
	orders, invoices, panics := spans["orders"], spans["invoices"], spans["panics"]
	if orders.Parent.SpanID() != root.SpanContext().SpanID() ||
		orders.SpanContext.TraceID() != root.SpanContext().TraceID() {
		t.Errorf("orders: parent %v, want %v", orders.Parent, root.SpanContext())
	}
	if invoices.Parent.SpanID() != orders.SpanContext.SpanID() || invoices.Status.Code != codes.Error ||
		invoices.Status.Description != "no paper" {
		t.Errorf("invoices: parent %v, status %v", invoices.Parent, invoices.Status)
	}
	if panics.Parent.IsValid() || panics.Status.Code != codes.Error || len(panics.Events) != 1 {
		t.Errorf("panics: %+v", panics)
	}
	attributes := map[string]string{}
	for _, kv := range orders.Attributes {
		attributes[string(kv.Key)] = kv.Value.String()
	}
	if attributes["faas.trigger"] != "pubsub" || attributes["messaging.message.id"] == "" ||
		attributes["order"] != "one" || attributes["lazuli.attempt"] != "1" {
		t.Errorf("attributes %v", attributes)
	}
}
