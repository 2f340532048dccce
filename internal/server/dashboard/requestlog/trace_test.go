package requestlog

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// A trace goes from the message over the handler to what it wrote, and over the workflow that it started to what that
// wrote; it begins at any of them. Other messages of the same requests are not part of it.
func TestTrace(t *testing.T) {
	t.Parallel()
	const (
		message    = "00000000-0000-0001-0000-000000000001"
		invocation = "11111111-1111-4111-8111-111111111111"
		activity   = "22222222-2222-4222-8222-222222222222"
	)
	one, other := wire.Touch{ID: [16]byte{7: 1, 15: 1}}, wire.Touch{ID: [16]byte{7: 2, 15: 2}}
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	l := New(func() time.Time { return begin })
	n, foreign := 0, ""
	send := func(svc wire.Service, operation, path, client string, kind wire.TouchKind, touched ...wire.Touch) {
		n++
		hr := httptest.NewRequest("PUT", "/acc", nil)
		if foreign != "" {
			hr.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			hr.Header.Set("Tracestate", foreign)
		}
		out := httptest.NewRecorder()
		if operation == "InsertEntity" {
			out.Header().Set("Location", "http://127.0.0.1/acc/ShopInstances(PartitionKey='order-7',RowKey='')")
		}
		r := &wire.Request{HTTP: hr, Out: out, Account: "acc", RawPath: path, URIPath: "/acc" + path, Service: svc,
			Operation: operation, ID: "request-" + operation, ClientID: client,
			Now: begin.Add(time.Duration(n) * time.Second)}
		for _, t := range touched {
			r.Touch(kind, t.ID, map[bool]int{true: 2}[kind == wire.MessageReceived])
		}
		l.Observe(r, frontend.Outcome{Status: 201, Duration: time.Millisecond})
	}
	send(wire.Blob, "LeaseBlob", "/shop-leases/a", "", 0)
	send(wire.Queue, "PutMessage", "/orders/messages", "", wire.MessagePut, one)
	send(wire.Queue, "GetMessages", "/orders/messages", "", wire.MessageReceived, one, other)
	send(wire.Table, "InsertEntity", "/ShopInstances", invocation+"/"+message, 0)
	send(wire.Queue, "DeleteMessage", "/orders/messages/x", "", wire.MessageDeleted, one, other)
	send(wire.Table, "MergeEntity", "/Payments(PartitionKey='p',RowKey='7')", activity+"/order-7", 0)
	send(wire.Blob, "PutBlob", "/labels/other.txt", "another", 0)
	// A worker of another language sends the trace of the message, and which invocation it is.
	foreign = "lazuli=" + invocation + "/" + message + ",a=b"
	send(wire.Blob, "PutBlob", "/labels/7.txt", "random", 0)
	foreign = ""
	want := []string{"PutMessage", "waits", "GetMessages", "is handled", "InsertEntity", "DeleteMessage", "MergeEntity",
		"PutBlob"}
	for _, id := range []string{message, strings.ToUpper(message), invocation, "order-7", activity,
		"request-MergeEntity", "0af7651916cd43dd8448eb211c80319c",
		invocation + "/" + message} {
		trace := l.Trace(id)
		var got []string
		for _, s := range trace.Spans {
			got = append(got, s.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", id, got, want)
			continue
		}
		if s := trace.Spans[len(want)-1]; s.Work != invocation+"/"+message {
			t.Errorf("%s: %+v", id, s)
		}
		if s := trace.Spans[3]; s.Attempt != 2 || s.Took != 2*time.Second || s.Resource != "orders" || s.Message != message {
			t.Errorf("%s: %+v", id, s)
		}
	}
	if got := l.Trace("nothing").Spans; len(got) != 0 {
		t.Errorf("%+v", got)
	}
	for range maxTraced + 5 {
		send(wire.Blob, "PutBlob", "/labels/x", "many", 0)
	}
	if trace := l.Trace("many"); !trace.More || len(trace.Spans) != maxTraced {
		t.Errorf("%d spans, more: %v", len(trace.Spans), trace.More)
	}
}
