package durable_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
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
	s := record.Histories{Table: storage.Tables.NewClient("History")}
	_, err = s.Table.CreateTable(t.Context(), nil)
	check.OK(t, err)
	now := time.Now()
	rows := func(execution string, n int) (list []record.NewRow) {
		for i := range n {
			e := event.New("eventRaised", -1, now)
			e.GetEventRaised().Name = fmt.Sprint(execution, " ", i)
			list = append(list, record.NewRow{Event: e, ID: fmt.Sprint(execution, i)})
		}
		return list
	}
	names := func(h *record.History) (list []string) {
		for _, e := range h.Events {
			list = append(list, e.GetEventRaised().Name)
		}
		return list
	}
	want := func(h *record.History, parts ...[]record.NewRow) {
		t.Helper()
		var all []string
		for _, part := range parts {
			for _, r := range part {
				all = append(all, r.Event.GetEventRaised().Name)
			}
		}
		if diff := cmp.Diff(all, names(h)); diff != "" {
			t.Fatalf("the history (-want +got):\n%s", diff)
		}
	}
	read := func() *record.History {
		t.Helper()
		h, err := s.Read(t.Context(), "i")
		check.OK(t, err)
		return h
	}
	var h *record.History
	var before, more []record.NewRow
	// The sizes are those of one batch, of several in a free place, and of several where the row 0 is free again.
	for execution, n := range []int{120, 250, 110, 40, 300, 3, 240} {
		next := record.Sentinel{ExecutionID: fmt.Sprint(execution), StartID: "0"}
		list := rows(next.ExecutionID, n)
		for sent := 0; sent*record.BatchRows < n; sent++ {
			c.on, c.batches = true, sent
			if _, err := s.Commit(t.Context(), "i", read(), 0, list, next, now); !errors.Is(err, errCrash) {
				t.Fatalf("execution %d: %v", execution, err)
			}
			c.on = false
			want(read(), before, more)
		}
		if h, err = s.Commit(t.Context(), "i", read(), 0, list, next, now); err != nil {
			t.Fatal(err)
		}
		want(h, list)
		want(read(), list)
		// What is appended goes behind it, and the rest of the old one away.
		before, more = list, rows("more", 5)
		if h, err = s.Commit(t.Context(), "i", h, h.Length, more, h.Sentinel.Next(), now); err != nil {
			t.Fatal(err)
		}
		check.OK(t, s.Trim(t.Context(), "i", h, now))
		if h = read(); h.Stale {
			t.Errorf("execution %d: rows of another one are left", execution)
		}
		want(h, before, more)
	}
	check.OK(t, s.Remove(t.Context(), "i", now))
	if list, err := s.Rows(t.Context(), record.PartitionKey("i")); err != nil || len(list) > 0 {
		t.Errorf("%d rows after the removal, %v", len(list), err)
	}
}
