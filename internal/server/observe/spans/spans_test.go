package spans

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The spans of a message: put, waits, received, is handled, deleted, with links to the put; and what its handler wrote,
// in the trace that the handler sent. Requests that belong to nothing are no spans.
func TestSpans(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	s := New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	const invocation = "0af76519-16cd-43dd-8448-eb211c80319c"
	send := func(operation, parent, state string, kind wire.TouchKind, touched ...byte) {
		hr := httptest.NewRequest("PUT", "/acc/x", nil)
		hr.Header.Set("Traceparent", parent)
		hr.Header.Set("Tracestate", state)
		r := &wire.Request{HTTP: hr, Account: "acc", URIPath: "/acc/x", Operation: operation, ID: "r"}
		for _, id := range touched {
			r.Touch(kind, [16]byte{15: id}, map[bool]int{true: 2}[kind == wire.MessageReceived])
		}
		s.Observe(r, frontend.Outcome{Status: 201, Duration: time.Millisecond})
	}
	const recorded = "00-11111111111111111111111111111111-2222222222222222-01"
	send("ListBlobs", "", "", 0)
	send("PutMessage", recorded, "", wire.MessagePut, 1)
	send("PutMessage", "", "", wire.MessagePut, 2)
	send("GetMessages", "", "", wire.MessageReceived, 1, 2)
	send("PutBlob", "00-0af7651916cd43dd8448eb211c80319c-0af7651916cd43dd-00", "lazuli="+invocation+"/m,a=b", 0)
	send("PutBlob", "00-0af7651916cd43dd8448eb211c80319d-0af7651916cd43dd-00", "", 0) // its sender records nothing
	send("UpdateMessage", "", "", wire.MessageUpdated, 1)
	send("DeleteMessage", "", "", wire.MessageDeleted, 1)
	send("DeleteMessage", "", "", wire.MessageDeleted, 3) // put before the start
	puts := map[string]string{}                           // by the ID of the span
	var got []string
	for _, span := range exporter.GetSpans() {
		text := span.Name
		if span.Name == "PutMessage" {
			puts[span.SpanContext.SpanID().String()] = fmt.Sprint("put", len(puts)+1)
			if span.EndTime.Sub(span.StartTime) != time.Millisecond {
				t.Errorf("%s took %v", span.Name, span.EndTime.Sub(span.StartTime))
			}
		}
		if p := span.Parent; p.IsValid() {
			text += " in " + cmp.Or(puts[p.SpanID().String()], p.TraceID().String()[:4])
		}
		for _, l := range span.Links {
			text += " of " + puts[l.SpanContext.SpanID().String()]
		}
		got = append(got, text)
	}
	want := []string{"PutMessage in 1111", "PutMessage", "GetMessages of put1 of put2", "waits in put1", "waits in put2",
		"PutBlob in 0af7", "UpdateMessage of put1", "DeleteMessage of put1", "is handled in put1", "DeleteMessage"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	for range maxMessages + 1 {
		s.remember(&message{id: [16]byte(fmt.Appendf(nil, "%016d", len(s.order)))})
	}
	if len(s.messages) > maxMessages || len(s.order) > maxMessages {
		t.Errorf("%d messages are remembered", len(s.messages))
	}
}
