package dashboard

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// requestOf is a request that did something to messages of a queue.
func requestOf(queue string, touched ...wire.Touch) *wire.Request {
	r := &wire.Request{HTTP: httptest.NewRequest("PUT", "/", nil), Account: "acc", RawPath: "/" + queue + "/messages",
		Service: wire.Queue}
	for _, t := range touched {
		r.Touch(t.Kind, t.ID, t.Attempts)
	}
	return r
}

// Messages are counted and not requests: one request can put, receive or delete many.
func TestMessagesAreCounted(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	h := newHistory()
	h.observe(requestOf("q", wire.Touch{Kind: wire.MessagePut}, wire.Touch{Kind: wire.MessagePut}), now)
	h.observe(requestOf("q", wire.Touch{Kind: wire.MessageReceived, Attempts: 1},
		wire.Touch{Kind: wire.MessageReceived, Attempts: 2}), now.Add(time.Minute))
	h.observe(requestOf("q", wire.Touch{Kind: wire.MessageDeleted}, wire.Touch{Kind: wire.MessageDeleted}),
		now.Add(2*time.Minute))
	h.observe(requestOf("q"), now) // a poll
	h.sampled(queueName{"acc", "q"}, now.Add(time.Minute), 7, 90*time.Second)
	name, at := queueName{"acc", "q"}, now.Add(3*time.Minute)
	last := func(s span, f figure, n int) []int64 {
		list := h.list(name, s, f, at)
		if len(list) != s.Slots {
			t.Fatalf("%d slots", len(list))
		}
		return list[len(list)-n:]
	}
	for _, tc := range []struct {
		f    figure
		want []int64
	}{{figPut, []int64{2, 0, 0, 0}}, {figReceived, []int64{0, 2, 0, 0}}, {figAgain, []int64{0, 1, 0, 0}},
		{figDeleted, []int64{0, 0, 2, 0}}, {figDepth, []int64{-1, 7, 7, 7}}, {figOldest, []int64{-1, 90, 90, 90}}} {
		if got := last(lastHourSpan, tc.f, 4); !slices.Equal(got, tc.want) {
			t.Errorf("figure %d by the minute: %v, want %v", tc.f, got, tc.want)
		}
	}
	if got := last(lastDaySpan, figPut, 2); !slices.Equal(got, []int64{0, 2}) {
		t.Errorf("by five minutes: %v", got)
	}
	at = now.Add(time.Hour)
	if got := sumOf(last(lastHourSpan, figPut, hourSlots)); got != 0 {
		t.Errorf("an hour later: %d", got)
	}
	if got := sumOf(last(lastDaySpan, figPut, daySlots)); got != 2 {
		t.Errorf("of the day an hour later: %d", got)
	}
}

// Queues are sampled after their messages changed, and those with messages now and then.
func TestSamplesAreDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	h, name := newHistory(), queueName{"acc", "q"}
	h.observe(requestOf("q", wire.Touch{Kind: wire.MessagePut}), now)
	for _, tc := range []struct {
		depth      int
		idle, want bool
	}{{3, false, true}, {3, false, false}, {0, true, true}, {0, true, false}} {
		if got := len(h.due(tc.idle)) == 1; got != tc.want {
			t.Errorf("%+v: due %v", tc, got)
		}
		h.sampled(name, now, tc.depth, 0)
	}
}

// The figures of at most 500 queues are kept, those of the queue that was idle longest are forgotten.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	h := newHistory()
	for i := range maxQueues + 3 {
		h.observe(requestOf("q"+strconv.Itoa(i), wire.Touch{Kind: wire.MessagePut}), now.Add(time.Duration(i)*time.Second))
	}
	if len(h.queues) != maxQueues || h.queues[queueName{"acc", "q2"}] != nil || h.queues[queueName{"acc", "q3"}] == nil {
		t.Errorf("%d queues", len(h.queues))
	}
}

// The figures are those of before after a restart; a file that is damaged is reported.
func TestHistoryIsKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	path, name := filepath.Join(t.TempDir(), datadir.HistoryFile), queueName{"acc", "q"}
	h := newHistory()
	check.OK(t, h.load(path))
	h.observe(requestOf("q", wire.Touch{Kind: wire.MessagePut}), now)
	h.sampled(name, now, 5, time.Second)
	check.OK(t, h.save(path))
	again := newHistory()
	check.OK(t, again.load(path))
	if *again.queues[name] != *h.queues[name] {
		t.Errorf("%+v, want %+v", again.queues[name], h.queues[name])
	}
	check.OK(t, os.Remove(path))
	check.OK(t, h.save(path)) // nothing has changed
	if _, err := os.Stat(path); err == nil {
		t.Error("the file was written without a change")
	}
	check.OK(t, os.WriteFile(path, []byte("lazuli dashboard history 1\n[]\n"), 0o600))
	if newHistory().load(path) == nil {
		t.Error("a damaged file was read")
	}
	for _, p := range [][]byte{{1}, {0, 2, 3}, {9, 2}, {0, 2, 1, 1, 1, 1, 1, 1}} {
		if new(queueHistory).parse(p) == nil {
			t.Errorf("%v was read", p)
		}
	}
}

func TestNiceTop(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]int64{0: 1, 1: 1, 3: 4, 7: 8, 9: 10, 10: 10, 11: 20, 55: 60, 81: 100, 101: 200} {
		if got := niceTop(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
}
