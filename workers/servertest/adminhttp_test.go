package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/adminhttp"
)

// The calls of a function and the app that it is of are shown over HTTP, and a pause ends there, too.
func TestCallsOverHTTP(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	app := workers.New(workers.Config{Storage: account.Storage, HostID: "shop", Logger: slog.New(slog.DiscardHandler)})
	app.Queue("work", func(_ context.Context, m workers.QueueMessage) error {
		if string(m.Body) == "bad" {
			return workers.Permanent(errors.New("no stock"))
		}
		return nil
	})
	for _, body := range []string{"good", "bad", "good"} {
		check.OK(t, account.Enqueue(t.Context(), "work", body))
	}
	account.Run(app)
	account.Drain()
	handler := adminhttp.NewHandler(app)
	ask := func(method, path string) (code int, report adminhttp.Report) {
		t.Helper()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		check.OK(t, json.Unmarshal(w.Body.Bytes(), &report))
		return w.Code, report
	}
	for path, calls := range map[string]int{"/": 0, "/workers": 0, "/work": 3, "/workers/work": 3} {
		code, report := ask(http.MethodGet, path)
		if code != 200 || len(report.Functions) != 1 {
			t.Fatalf("%s: %d %+v", path, code, report)
		}
		if f := report.Functions[0]; f.Host != "shop" || f.Name != "work" || f.Succeeded != 2 || f.Failed != 1 ||
			f.LastError != "no stock" || len(f.Calls) != calls {
			t.Errorf("%s: %+v", path, f)
		}
	}
	for _, step := range []struct {
		path   string
		code   int
		paused bool
	}{{"/work/pause", 200, true}, {"/workers/work/resume", 200, false}, {"/none/pause", 404, false}} {
		code, _ := ask(http.MethodPost, step.path)
		if code != step.code || app.Stats()[0].Paused != step.paused {
			t.Errorf("%s: %d, %+v", step.path, code, app.Stats()[0])
		}
	}
	if code, _ := ask(http.MethodGet, "/none"); code != 404 {
		t.Errorf("an unknown function: %d", code)
	}
}
