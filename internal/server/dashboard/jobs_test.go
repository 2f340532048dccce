package dashboard_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

func TestJobPages(t *testing.T) {
	t.Parallel()
	s := open(t)
	storage, err := workers.OpenStorage(s.stack.ConnectionString())
	check.OK(t, err)
	const page = base + "queues/orders/jobs"
	if body := s.get(page); !strings.Contains(body, "There are no jobs") {
		t.Errorf("without the table: %s", body)
	}
	enqueue := func(body string, o ...workers.EnqueueOption) string {
		e, err := storage.EnqueueJob(t.Context(), "orders", body, o...)
		check.OK(t, err)
		return e.ID
	}
	done := enqueue("works", workers.Keep(time.Hour))
	failed := enqueue("fails")
	waits := enqueue("waits", workers.After(time.Hour), workers.Unique("<b>one"))
	app := workers.New(workers.Config{Storage: storage, Logger: slog.New(slog.DiscardHandler)})
	app.Queue("orders", func(ctx context.Context, m workers.QueueMessage) error {
		if string(m.Body) == "fails" {
			return workers.Permanent(errors.New("the printer is <on> fire"))
		}
		check.OK(t, workers.SetProgress(ctx, "half"))
		return workers.SetResult(ctx, map[string]int{"orders": 12})
	})
	check.OK(t, app.Start(t.Context()))
	check.OK(t, app.WaitIdle(t.Context()))
	check.OK(t, app.Stop(t.Context()))

	for query, wants := range map[string][]string{
		"":                                  {done, failed, waits, "&lt;b&gt;one", "the printer is &lt;on&gt; fire"},
		"?state=waiting":                    {waits},
		"?state=running":                    {"There are no jobs that are running"},
		"?id=" + done:                       {"&#34;orders&#34;: 12", "half", "orders</dd>"},
		"?id=" + failed:                     {"poisoned", "the printer is &lt;on&gt; fire"},
		"?state=done&done=cancelled":        {done, "Cancelled."},
		"?id=" + waits + "&done=everything": {"Unique key", `value="cancel"`},
	} {
		body := s.get(page + query)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %q: %s", query, want, body)
			}
		}
	}
	if body := s.get(page + "?state=waiting"); strings.Contains(body, done) {
		t.Error("a list of one state has another")
	}
	s.post(page, "action", "cancel", "chosen", waits, "chosen", done)
	if job, err := storage.Job(t.Context(), waits); err != nil || job.State != workers.JobCancelled {
		t.Errorf("got %+v, %v", job, err)
	}
	for path, want := range map[string]int{
		page + "?id=x": http.StatusNotFound, page + "?id=orders.aaaaaaaaaaaaaaaaaaaaaaaaaa": http.StatusNotFound,
		page + "?state=waitin": http.StatusBadRequest, base + "queues/other/jobs?id=" + done: http.StatusNotFound,
	} {
		if status, _, _ := s.do(http.MethodGet, path, nil, nil); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	for _, form := range [][]string{{"action", "cancel"}, {"action", "remove", "chosen", done},
		{"action", "cancel", "chosen", "other." + strings.Repeat("a", 26)},
		{"action", "cancel", "chosen", "orders." + strings.Repeat("a", 26)}} {
		if status, _, _ := s.send(page, s.token(), form...); status != http.StatusBadRequest &&
			status != http.StatusNotFound {
			t.Errorf("%q: %d", form, status)
		}
	}
}
