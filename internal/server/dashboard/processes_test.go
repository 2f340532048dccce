package dashboard_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// Processes show with their functions, and a function is paused in all of them.
func TestProcesses(t *testing.T) {
	t.Parallel()
	s := open(t)
	const page = base + "workers"
	s.shows(page, "No process with workers uses")
	s.shows("/ui/workers", `href="`+page+`"`)
	storage, err := workers.OpenStorage(s.stack.ConnectionString())
	check.OK(t, err)
	store := hostrow.Open(storage.Tables)
	const name = `<i>o'brien</i> 100%`
	for i, paused := range []bool{false, true} {
		check.OK(t, store.Beat(t.Context(), hostrow.Process{App: "shop", ID: string(rune('a' + i)), About: "shop v1",
			Machine: "<b>here", PID: 7 + i, Every: hostrow.Every, Started: time.Now(), Functions: []hostrow.Function{
				{Name: name, Trigger: "queueTrigger", Source: "orders, orders-low", Paused: paused, ByAccount: paused, InFlight: 2},
				{Name: "flow", Trigger: "orchestrationTrigger", Fixed: true}}}))
	}
	s.shows(page, "&lt;i&gt;o&#39;brien&lt;/i&gt; 100%", "&lt;b&gt;here, PID 7", "shop v1", "1 runs<br>1 resuming",
		base+"queues/orders-low", `class="number">4<`, `value="pause"`)
	if at := s.post(page, "action", "pause", "app", "shop", "function", name); at != page+"?done=pausing" {
		t.Errorf("leads to %s", at)
	}
	s.shows(page, "1 pausing<br>1 paused", `value="resume"`)
	if paused, err := store.Paused(t.Context(), "shop"); err != nil || !paused[name] {
		t.Errorf("%v, %v", paused, err)
	}
	check.OK(t, store.Leave(t.Context(), hostrow.Process{App: "shop", ID: "a"}))
	check.OK(t, store.Leave(t.Context(), hostrow.Process{App: "shop", ID: "b"}))
	s.shows(page, "No process of this app is running.", "paused, no process")
	s.post(page, "action", "resume", "app", "shop", "function", name)
	s.shows(page, "No process with workers uses")

	check.OK(t, store.Beat(t.Context(), hostrow.Process{App: "shop", ID: "a", Every: hostrow.Every,
		Functions: []hostrow.Function{{Name: "flow", Fixed: true}, {Name: "ship"}}}))
	for _, form := range [][]string{{"action", "pause"}, {"action", "pause", "app", "shop", "function", "flow"},
		{"action", "pause", "app", "other", "function", "ship"}, {"action", "x", "app", "shop", "function", "ship"}} {
		status, _, _ := s.send(page, s.token(), form...)
		if status != http.StatusNotFound && status != http.StatusBadRequest {
			t.Errorf("%q: %d", form, status)
		}
	}
	reader := open(t, func(o *dashboard.Options) { o.ReadOnly = true })
	if status, body, _ := reader.send(page, reader.token(), "action", "pause"); status != http.StatusForbidden {
		t.Errorf("read-only: %d %s", status, strings.TrimSpace(body))
	}
}
