package requestlog

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// What runtimes send of their own accord does not stand between the requests of programs, and does not push them out.
func TestRequestsOfRuntimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	l := New(func() time.Time { return now })
	send := func(svc wire.Service, operation, path string, status int, touched ...wire.Touch) *Request {
		t.Helper()
		r := &wire.Request{HTTP: httptest.NewRequest("PUT", "/acc"+path, nil), Account: "acc", RawPath: path,
			URIPath: "/acc" + path, Service: svc, Operation: operation, Now: now}
		for _, t := range touched {
			r.Touch(t.Kind, t.ID, t.Attempts)
		}
		l.Observe(r, frontend.Outcome{Status: status})
		return l.Latest(Filter{Quiet: true}, 1, 0)[0]
	}
	for _, tc := range []struct {
		svc             wire.Service
		operation, path string
		status          int
		quiet           bool
	}{
		{wire.Table, "QueryEntities", "/ShopInstances()", 200, false}, // no hub of this name is known yet
		{wire.Blob, "LeaseBlob", "/azure-webjobs-hosts/locks/a", 201, true},
		{wire.Blob, "LeaseBlob", "/azure-webjobs-hosts/locks/a", 503, false},
		{wire.Blob, "LeaseBlob", "/photos/a", 201, false},
		{wire.Blob, "LeaseBlob", "/shop-leases/default/a", 201, true},
		{wire.Queue, "PutMessage", "/shop-control-00/messages", 201, true},
		{wire.Queue, "PutMessage", "/other-control-00/messages", 201, false},
		{wire.Queue, "PutMessage", "/shop-workitems/messages", 201, true},
		{wire.Table, "QueryEntities", "/ShopInstances()", 200, true},
		{wire.Table, "InsertEntity", "/lazulipoison", 201, true},
		{wire.Queue, "GetMessages", "/orders/messages", 200, true},
		{wire.Queue, "GetMessages", "/orders/messages", 404, true},
		{wire.Queue, "PutMessage", "/orders/messages", 201, false},
	} {
		if q := send(tc.svc, tc.operation, tc.path, tc.status); q.Quiet != tc.quiet {
			t.Errorf("%s %s %d: quiet %v", tc.operation, tc.path, tc.status, q.Quiet)
		}
	}
	if q := send(wire.Queue, "GetMessages", "/orders/messages", 200, wire.Touch{Kind: wire.MessageReceived}); q.Quiet {
		t.Error("a request that received a message is quiet")
	}
	r := &wire.Request{HTTP: httptest.NewRequest("POST", "/acc/$batch", nil), Account: "acc", RawPath: "/$batch",
		URIPath: "/acc/$batch", Service: wire.Table, Operation: "EntityGroupTransaction", BatchTable: "ShopHistory"}
	l.Observe(r, frontend.Outcome{Status: http.StatusAccepted})
	if q := l.Latest(Filter{Quiet: true}, 1, 0)[0]; !q.Quiet {
		t.Error("a transaction on the history of a hub is not quiet")
	}
	n := len(l.Latest(Filter{}, KeptRequests, 0))
	for range KeptQuiet + KeptRequests {
		send(wire.Queue, "GetMessages", "/orders/messages", http.StatusOK)
	}
	if got := len(l.Latest(Filter{}, KeptRequests, 0)); got != n {
		t.Errorf("%d requests of programs are left of %d", got, n)
	}
	both := l.Latest(Filter{Quiet: true}, KeptQuiet+KeptRequests, 0)
	if len(both) != n+KeptQuiet {
		t.Errorf("%d requests, want %d", len(both), n+KeptQuiet)
	}
	for i := 1; i < len(both); i++ {
		if both[i].Number >= both[i-1].Number {
			t.Fatal("not the newest first")
		}
	}
	if limit := len(l.hubs); limit != 1 {
		t.Errorf("%d hubs", limit)
	}
}

func TestRequestFilter(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	blob := &Request{Number: 1, At: at, Service: "blob", Account: "acc", Path: "/acc/photos/2026/a%20b.jpg", Status: 404,
		Client: "azsdk-python", Operation: "GetBlob"}
	table := &Request{Number: 2, At: at, Service: "table", Account: "acc", Path: "/acc/Orders(PartitionKey='a')",
		Status: 204, Operation: "DeleteEntity"}
	for _, tc := range []struct {
		f           Filter
		blob, table bool
	}{
		{Filter{}, true, true},
		{Filter{Container: "photos"}, true, false},
		{Filter{Container: "photo"}, false, false},
		{Filter{Blob: "2026/a b"}, true, false},
		{Filter{Container: "photos", Blob: "2027"}, false, false},
		{Filter{Queue: "photos"}, false, false},
		{Filter{Table: "orders"}, false, true},
		{Filter{Client: "PYTHON"}, true, false},
		{Filter{Status: "4xx"}, true, false},
		{Filter{Status: "204"}, false, true},
		{Filter{From: at}, true, true},
		{Filter{From: at.Add(1)}, false, false},
		{Filter{Until: at.Add(-1)}, false, false},
		{Filter{Text: "deleteentity"}, false, true},
	} {
		if got, want := [2]bool{tc.f.Takes(blob), tc.f.Takes(table)}, [2]bool{tc.blob, tc.table}; got != want {
			t.Errorf("%+v: takes %v, want %v", tc.f, got, want)
		}
	}
}
