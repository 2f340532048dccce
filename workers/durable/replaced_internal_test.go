package durable

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// crash is a transport that sends a number of batches, and then none.
type crash struct {
	batches int
	on      bool
}

// errCrash is what the transport answers instead. The SDK does not send the request again.
var errCrash = gone{errors.New("the process is gone")}

type gone struct{ error }

// NonRetriable implements the SDK's errorinfo.NonRetriable.
func (gone) NonRetriable() {}

// Do implements policy.Transporter.
func (c *crash) Do(r *http.Request) (*http.Response, error) {
	if c.on && strings.HasSuffix(r.URL.Path, "/$batch") {
		if c.batches == 0 {
			return nil, errCrash
		}
		c.batches--
	}
	return http.DefaultClient.Do(r)
}

// A history that one of more rows than a batch can have replaces is what it was until the last batch: a crash between
// two batches leaves the old one, and not one with rows of both.
func TestReplacingAHistoryIsAtomic(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	c := new(crash)
	storage, err := workers.OpenStorage(account.ConnectionString(), workers.WithTransport(c))
	check.OK(t, err)
	s := histories{table: storage.Tables.NewClient("History")}
	_, err = s.table.CreateTable(t.Context(), nil)
	check.OK(t, err)
	now := time.Now()
	rows := func(execution string, n int) (list []newRow) {
		for i := range n {
			e := event.New("eventRaised", -1, now)
			e.GetEventRaised().Name = fmt.Sprint(execution, " ", i)
			list = append(list, newRow{event: e, id: fmt.Sprint(execution, i)})
		}
		return list
	}
	names := func(h *history) (list []string) {
		for _, e := range h.events {
			list = append(list, e.GetEventRaised().Name)
		}
		return list
	}
	want := func(h *history, parts ...[]newRow) {
		t.Helper()
		var all []string
		for _, part := range parts {
			for _, r := range part {
				all = append(all, r.event.GetEventRaised().Name)
			}
		}
		if diff := cmp.Diff(all, names(h)); diff != "" {
			t.Fatalf("the history (-want +got):\n%s", diff)
		}
	}
	read := func() *history {
		t.Helper()
		h, err := s.read(t.Context(), "i")
		check.OK(t, err)
		return h
	}
	var h *history
	var before, more []newRow
	// The sizes are those of one batch, of several in a free place, and of several where the row 0 is free again.
	for execution, n := range []int{120, 250, 110, 40, 300, 3, 240} {
		next := sentinel{ExecutionID: fmt.Sprint(execution), StartID: "0"}
		list := rows(next.ExecutionID, n)
		for sent := 0; sent*batchRows < n; sent++ {
			c.on, c.batches = true, sent
			if _, err := s.commit(t.Context(), "i", read(), 0, list, next, now); !errors.Is(err, errCrash) {
				t.Fatalf("execution %d: %v", execution, err)
			}
			c.on = false
			want(read(), before, more)
		}
		if h, err = s.commit(t.Context(), "i", read(), 0, list, next, now); err != nil {
			t.Fatal(err)
		}
		want(h, list)
		want(read(), list)
		// What is appended goes behind it, and the rest of the old one away.
		before, more = list, rows("more", 5)
		if h, err = s.commit(t.Context(), "i", h, h.Length, more, h.sentinel.next(), now); err != nil {
			t.Fatal(err)
		}
		check.OK(t, s.trim(t.Context(), "i", h, now))
		if h = read(); h.stale {
			t.Errorf("execution %d: rows of another one are left", execution)
		}
		want(h, before, more)
	}
	check.OK(t, s.remove(t.Context(), "i", now))
	if list, err := s.rows(t.Context(), partitionKey("i")); err != nil || len(list) > 0 {
		t.Errorf("%d rows after the removal, %v", len(list), err)
	}
}
