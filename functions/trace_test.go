package functions

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/otelfunc"
)

// Middleware wraps all invocations. The handler gets the traceparent of the invocation's span, which is in the trace of
// the caller.
func TestTraces(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	handler, calls := record(`{}`)
	forwarded, answers := record(`{}`)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for name, c := range map[string]struct {
		files   map[string]string
		handler http.Handler
		calls   <-chan asked
	}{
		"called":    {map[string]string{}, handler, calls},
		"forwarded": {map[string]string{"host.json": `{"version": "2.0", "customHandler": {"enableForwardingHttpRequest": true, "description": {"defaultExecutablePath": "x"}}}`}, forwarded, answers},
	} {
		t.Run(name, func(t *testing.T) {
			exporter.Reset()
			c.files["H/function.json"] =
				`{"bindings": [{"type": "httpTrigger", "name": "req"}, {"type": "http", "direction": "out", "name": "res"}]}`
			c.files["Q/function.json"] = queueFunction
			r := runConfig(t, "", Config{Dir: folder(t, c.files), ConnectionString: lazulitest.Start(t).ConnectionString(),
				Middleware: []workers.Middleware{otelfunc.Middleware(otelfunc.WithTracerProvider(provider))}}, c.handler)
			do(t, "POST", r.url+"/api/H", "x", "Traceparent", "00-"+trace+"-b7ad6b7169203331-01",
				"Tracestate", "a=b")
			header := next(t, c.calls).header
			called := header.Get("Traceparent")
			if got := header.Get("Tracestate"); got != "a=b" {
				t.Errorf("the caller's tracestate a=b is %q", got)
			}
			put(t, r.storage, "in-queue", `{"traceparent": "00-`+trace+`-b7ad6b7169203331-01"}`)
			queued := next(t, c.calls).header.Get("Traceparent")
			eventually(t, "there are two spans", func() bool { return len(exporter.GetSpans()) == 2 })
			for _, s := range exporter.GetSpans() {
				want := map[string]string{"H": called, "Q": queued}[s.Name]
				if got := "00-" + trace + "-" + s.SpanContext.SpanID().String() + "-01"; got != want ||
					s.Parent.SpanID().String() != "b7ad6b7169203331" {
					t.Errorf("%s: the handler got %s; the span is %s, in %s", s.Name, want, got, s.Parent.SpanID())
				}
			}
		})
	}
}

// An invocation that belongs to no trace begins one, whose ID is that of the invocation: the handler's requests can be
// found by it. A message is not changed for that.
func TestInvocationsBeginTraces(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{"Outputs": {"out": "{\"n\": 1}"}}`)
	r := runConfig(t, "", Config{ConnectionString: lazulitest.Start(t).ConnectionString(),
		Dir: folder(t, map[string]string{"Q/function.json": `{"bindings": [
			{"type": "queueTrigger", "name": "in", "queueName": "in-queue"},
			{"type": "queue", "direction": "out", "name": "out", "queueName": "out-queue"}]}`})}, handler)
	put(t, r.storage, "in-queue", `{"n": 0}`)
	h := next(t, calls).header
	trace := strings.Split(h.Get("Traceparent"), "-")
	if id := strings.ReplaceAll(h.Get("X-Azure-Functions-Invocationid"), "-", ""); len(trace) != 4 || trace[1] != id ||
		trace[3] != "00" || len(trace[2]) != 16 {
		t.Errorf("the traceparent is %q of the invocation %s", trace, id)
	}
	state, message, _ := strings.Cut(h.Get("Tracestate"), "/")
	if state != "lazuli="+h.Get("X-Azure-Functions-Invocationid") || len(message) != 36 {
		t.Errorf("the tracestate is %q", h.Get("Tracestate"))
	}
	eventually(t, "the output is there", func() bool {
		got, err := r.storage.Queues.NewQueueClient("out-queue").PeekMessages(t.Context(), nil)
		if err != nil || len(got.Messages) == 0 {
			return false
		}
		text, err := base64.StdEncoding.DecodeString(*got.Messages[0].MessageText)
		if err != nil || string(text) != `{"n": 1}` {
			t.Errorf("the message is %s", text)
		}
		return true
	})
}
