package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A subscription that is made on the page delivers; the page shows what became of its events, flushes and removes it.
func TestEventsPage(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.shows("/ui/events", "There are no subscriptions", "Lazuli.Storage.MessagePut")
	for _, name := range []string{"orders", "news"} {
		s.post(base+"queues", "action", "create", "name", name)
	}
	if to := s.post("/ui/events", "action", "add", "account", "devstoreaccount1", "name", "sub", "endpointType",
		"storagequeue", "endpoint", "news",
		"schema", "cloudeventschemav1_0", "type", "Lazuli.Storage.MessagePut", "type",
		"Lazuli.Storage.MessageDeleted"); to != "/ui/events?done=subscribed" {
		t.Errorf("answer leads to %s", to)
	}
	s.post(base+"queues/orders", "action", "put", "body", "hello")
	s.post("/ui/events", "action", "flush")
	s.shows("/ui/events", "devstoreaccount1/sub", "2 types", "Succeeded",
		`<td data-label="Waiting" class="number">0</td><td data-label="Lag">none</td>`, base+"queues/news")
	s.shows(base+"queues/news", "MessagePut")
	s.post(base+"queues/news", "action", "delete")
	s.post(base+"queues/orders", "action", "put", "body", "to a queue that is gone")
	check.Eventually(t, func() bool { return strings.Contains(s.get("/ui/events"), "<summary>Error ") },
		"the failed delivery is not shown")
	s.post("/ui/events", "action", "remove", "account", "devstoreaccount1", "name", "sub")
	s.shows("/ui/events", "There are no subscriptions")
}

// Wrong input is refused with what helps.
func TestEventsPageRefuses(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, c := range []struct {
		name   string
		pairs  []string
		status int
	}{
		{"short name", []string{"action", "add", "account", "devstoreaccount1", "name", "s", "endpoint",
			"http://localhost:1/"}, http.StatusBadRequest},
		{"no endpoint", []string{"action", "add", "account", "devstoreaccount1", "name", "sub"}, http.StatusBadRequest},
		{"account that does not exist",
			[]string{"action", "add", "account", "other", "name", "sub", "endpoint", "http://localhost:1/"},
			http.StatusBadRequest},
		{"host that is not allowed", []string{"action", "add", "account", "devstoreaccount1", "name", "sub", "endpoint",
			"http://localhost:1/"}, http.StatusForbidden},
		{"queue that does not exist", []string{"action", "add", "account", "devstoreaccount1", "name", "sub", "endpointType",
			"storagequeue", "endpoint", "none"}, http.StatusBadRequest},
		{"removal of what is not there", []string{"action", "remove", "account", "devstoreaccount1", "name", "sub"},
			http.StatusNotFound},
		{"no action", nil, http.StatusBadRequest},
	} {
		if status, body, _ := s.send("/ui/events", s.token(), c.pairs...); status != c.status {
			t.Errorf("%s: %d, want %d\n%s", c.name, status, c.status, body)
		}
	}
	readOnly := open(t, func(o *dashboard.Options) { o.ReadOnly = true })
	readOnly.hides("/ui/events", "New subscription")
	if status, _, _ := readOnly.send("/ui/events", readOnly.token(), "action", "flush"); status != http.StatusForbidden {
		t.Errorf("a read-only dashboard flushes: %d", status)
	}
	without := open(t, func(o *dashboard.Options) {
		with := o.Backend()
		o.Backend = func() dashboard.Backend { return withoutEvents{with} }
	})
	without.shows("/ui/events", "--events")
	if status, _, _ := without.send("/ui/events", without.token(), "action", "flush"); status != http.StatusForbidden {
		t.Errorf("without --events: %d", status)
	}
}

type withoutEvents struct{ dashboard.Backend }

func (withoutEvents) Events() *events.Manager { return nil }
