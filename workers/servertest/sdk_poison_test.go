package servertest

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
)

// Messages are chosen by what was recorded of them, and their records go with them.
func TestReasonsOfPoison(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	name := a.Queue("work")
	work, poisonQueue := a.Queues.NewQueueClient(name), a.Queues.NewQueueClient(name+"-poison")
	if _, err := poisonQueue.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	put(t, poisonQueue, "a", "b", "c", "without a record")
	now := time.Now()
	messages, err := queuetool.Peek(t.Context(), poisonQueue, 32)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		r := poison.Record{Queue: name + "-poison", ID: m.ID, Poisoned: now, Reason: "failed 5 times: boom",
			LastError: "boom", Attempts: 5, Function: "f"}
		switch m.Body {
		case "b":
			r.Function, r.Poisoned = "g", now.Add(-time.Hour)
		case "c":
			r.Reason, r.LastError = "permanent failure: no stock", "no stock"
		case "without a record":
			continue
		}
		if err := poison.Write(t.Context(), a.Tables, r); err != nil {
			t.Fatal(err)
		}
	}
	reasons := func() *queuetool.Reasons {
		t.Helper()
		r := queuetool.NewReasons(a.Tables, name+"-poison")
		if err := r.ReadOf(t.Context(), messages); err != nil {
			t.Fatal(err)
		}
		return r
	}
	records := func() (n int) {
		t.Helper()
		for _, err := range poison.All(t.Context(), a.Tables, name+"-poison") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	for what, tc := range map[string]struct {
		f    queuetool.Filter
		want int
	}{
		"everything":          {queuetool.Filter{}, 4},
		"reason":              {queuetool.Filter{Reason: regexp.MustCompile("boom")}, 2},
		"function":            {queuetool.Filter{Function: "g"}, 1},
		"older than a minute": {queuetool.Filter{Before: now.Add(-time.Minute)}, 1},
		"two at once":         {queuetool.Filter{Reason: regexp.MustCompile("boom"), Function: "f"}, 1},
		"none":                {queuetool.Filter{Function: "nobody"}, 0},
		"body":                {queuetool.Filter{Match: regexp.MustCompile("^[ab]$"), Limit: 1}, 1},
		"id":                  {queuetool.Filter{IDs: []string{messages[0].ID}}, 1},
		"two ids":             {queuetool.Filter{IDs: []string{messages[0].ID, messages[1].ID, "none"}}, 2},
	} {
		tc.f.Reasons = reasons()
		if got := tc.f.Of(messages); len(got) != tc.want {
			t.Errorf("%s: %d messages, want %d", what, len(got), tc.want)
		}
	}
	n, err := queuetool.Requeue(t.Context(), poisonQueue, work, queuetool.Filter{Function: "g", Reasons: reasons()}, 0)
	if err != nil || n != 1 {
		t.Errorf("moved %d, %v", n, err)
	}
	want(t, work, "b")
	if n, err = queuetool.Purge(t.Context(), poisonQueue,
		queuetool.Filter{Reason: regexp.MustCompile("stock"), Reasons: reasons()}); err != nil || n != 1 {
		t.Errorf("purged %d, %v", n, err)
	}
	want(t, poisonQueue, "a", "without a record")
	if left := records(); left != 1 {
		t.Errorf("%d records are left", left)
	}
	if _, err := queuetool.Purge(t.Context(), poisonQueue, queuetool.Filter{Reasons: reasons()}); err != nil {
		t.Error(err)
	}
	if left := records(); left != 0 {
		t.Errorf("%d records of a cleared queue", left)
	}
	// A connection without tables knows of no reasons.
	none := queuetool.NewReasons(nil, name+"-poison")
	if err := none.ReadOf(t.Context(), messages); err != nil {
		t.Error(err)
	}
	if f := (queuetool.Filter{Function: "f", Reasons: none}); len(f.Of(messages)) != 0 {
		t.Error("without tables, messages have functions")
	}
}

// Lazuli shows hidden messages; other services say that they do not.
func TestPeekAllPoison(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	client := a.Queues.NewQueueClient(a.Queue("hidden"))
	put(t, client, "in work", "visible")
	if _, err := client.DequeueMessages(t.Context(),
		&azqueue.DequeueMessagesOptions{VisibilityTimeout: new(int32(600))}); err != nil {
		t.Fatal(err)
	}
	if err := queuetool.Put(t.Context(), client, []byte("later"), queuetool.PutOptions{Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	got, err := queuetool.PeekAll(t.Context(), client, 100)
	if os.Getenv(testaccount.EnvVar) != "" && errors.Is(err, queuetool.ErrNoHidden) {
		return // The account is not Lazuli's.
	}
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	in := func(m queuetool.Message) time.Duration { return time.Until(m.NextVisible).Round(10 * time.Minute) }
	if in(got[0]) != 0 || in(got[1]) != 10*time.Minute || got[1].Attempts != 1 || got[2].Body != "later" ||
		in(got[2]) != time.Hour {
		t.Errorf("%+v", got)
	}
	if got, err := queuetool.PeekAll(t.Context(), client, 2); err != nil || len(got) != 2 {
		t.Errorf("%d, %v", len(got), err)
	}

	// The same by pages.
	var pages []queuetool.Message
	after, calls := "", 0
	for calls = 1; ; calls++ {
		page, next, err := queuetool.PeekPage(t.Context(), client, 2, after)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page...)
		if after = next; after == "" {
			break
		}
	}
	if calls != 2 || len(pages) != 3 || pages[0].ID != got[0].ID || pages[1].ID != got[1].ID || pages[2].ID != got[2].ID {
		t.Errorf("%d pages: %+v, want %+v", calls, pages, got)
	}
	if _, _, err := queuetool.PeekPage(t.Context(), client, 2, "x"); !strings.Contains(fmt.Sprint(err),
		"InvalidHeaderValue") {
		t.Errorf("a wrong position: %v", err)
	}
}
