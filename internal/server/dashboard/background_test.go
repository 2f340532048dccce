package dashboard

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
	l := NewRequests(func() time.Time { return now })
	send := func(svc wire.Service, operation, path string, status int, touched ...wire.Touch) *Request {
		t.Helper()
		r := &wire.Request{HTTP: httptest.NewRequest("PUT", "/acc"+path, nil), Account: "acc", RawPath: path,
			URIPath: "/acc" + path, Service: svc, Operation: operation, Now: now}
		for _, t := range touched {
			r.Touch(t.Kind, t.ID, t.Attempts)
		}
		l.Observe(r, frontend.Outcome{Status: status})
		return l.Latest(RequestFilter{Quiet: true}, 1, 0)[0]
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
	if q := l.Latest(RequestFilter{Quiet: true}, 1, 0)[0]; !q.Quiet {
		t.Error("a transaction on the history of a hub is not quiet")
	}
	n := len(l.Latest(RequestFilter{}, keptRequests, 0))
	for range keptQuiet + keptRequests {
		send(wire.Queue, "GetMessages", "/orders/messages", http.StatusOK)
	}
	if got := len(l.Latest(RequestFilter{}, keptRequests, 0)); got != n {
		t.Errorf("%d requests of programs are left of %d", got, n)
	}
	both := l.Latest(RequestFilter{Quiet: true}, keptQuiet+keptRequests, 0)
	if len(both) != n+keptQuiet {
		t.Errorf("%d requests, want %d", len(both), n+keptQuiet)
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
		f           RequestFilter
		blob, table bool
	}{
		{RequestFilter{}, true, true},
		{RequestFilter{Container: "photos"}, true, false},
		{RequestFilter{Container: "photo"}, false, false},
		{RequestFilter{Blob: "2026/a b"}, true, false},
		{RequestFilter{Container: "photos", Blob: "2027"}, false, false},
		{RequestFilter{Queue: "photos"}, false, false},
		{RequestFilter{Table: "orders"}, false, true},
		{RequestFilter{Client: "PYTHON"}, true, false},
		{RequestFilter{Status: "4xx"}, true, false},
		{RequestFilter{Status: "204"}, false, true},
		{RequestFilter{From: at}, true, true},
		{RequestFilter{From: at.Add(1)}, false, false},
		{RequestFilter{Until: at.Add(-1)}, false, false},
		{RequestFilter{Text: "deleteentity"}, false, true},
	} {
		if got, want := [2]bool{tc.f.takes(blob), tc.f.takes(table)}, [2]bool{tc.blob, tc.table}; got != want {
			t.Errorf("%+v: takes %v, want %v", tc.f, got, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 0, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{"": "0001-01-01T00:00:00Z", "10m": "2026-03-02T00:20:00Z",
		"00:10": "2026-03-02T00:10:00Z", "23:50:01": "2026-03-01T23:50:01Z",
		"2026-01-01T02:00:00+01:00": "2026-01-01T01:00:00Z"} {
		if got, err := parseTime(text, now); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-5m", "25:00"} {
		if got, err := parseTime(text, now); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
