package figures

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
	h := New(time.Now)
	h.Observe(requestOf("q", wire.Touch{Kind: wire.MessagePut}, wire.Touch{Kind: wire.MessagePut}), now)
	h.Observe(requestOf("q", wire.Touch{Kind: wire.MessageReceived, Attempts: 1},
		wire.Touch{Kind: wire.MessageReceived, Attempts: 2}), now.Add(time.Minute))
	h.Observe(requestOf("q", wire.Touch{Kind: wire.MessageDeleted}, wire.Touch{Kind: wire.MessageDeleted}),
		now.Add(2*time.Minute))
	h.Observe(requestOf("q"), now) // a poll
	h.Sampled(Queue{"acc", "q"}, now.Add(time.Minute), 7, 90*time.Second)
	name, at := Queue{"acc", "q"}, now.Add(3*time.Minute)
	last := func(s span, f Figure, n int) []int64 {
		list := h.List(name, s, f, at)
		if len(list) != s.Slots {
			t.Fatalf("%d slots", len(list))
		}
		return list[len(list)-n:]
	}
	for _, tc := range []struct {
		f    Figure
		want []int64
	}{{Put, []int64{2, 0, 0, 0}}, {Received, []int64{0, 2, 0, 0}}, {Again, []int64{0, 1, 0, 0}},
		{Deleted, []int64{0, 0, 2, 0}}, {Depth, []int64{-1, 7, 7, 7}}, {Oldest, []int64{-1, 90, 90, 90}}} {
		if got := last(LastHour, tc.f, 4); !slices.Equal(got, tc.want) {
			t.Errorf("figure %d by the minute: %v, want %v", tc.f, got, tc.want)
		}
	}
	if got := last(LastDay, Put, 2); !slices.Equal(got, []int64{0, 2}) {
		t.Errorf("by five minutes: %v", got)
	}
	at = now.Add(time.Hour)
	if got := total(last(LastHour, Put, hourSlots)); got != 0 {
		t.Errorf("an hour later: %d", got)
	}
	if got := total(last(LastDay, Put, daySlots)); got != 2 {
		t.Errorf("of the day an hour later: %d", got)
	}
}

// Queues are sampled after their messages changed, and those with messages now and then.
func TestSamplesAreDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	h, name := New(time.Now), Queue{"acc", "q"}
	h.Observe(requestOf("q", wire.Touch{Kind: wire.MessagePut}), now)
	for _, tc := range []struct {
		depth      int
		idle, want bool
	}{{3, false, true}, {3, false, false}, {0, true, true}, {0, true, false}} {
		if got := len(h.due(tc.idle)) == 1; got != tc.want {
			t.Errorf("%+v: due %v", tc, got)
		}
		h.Sampled(name, now, tc.depth, 0)
	}
}

// The figures of at most 500 queues are kept, those of the queue that was idle longest are forgotten.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	h := New(time.Now)
	for i := range maxQueues + 3 {
		h.Observe(requestOf("q"+strconv.Itoa(i), wire.Touch{Kind: wire.MessagePut}), now.Add(time.Duration(i)*time.Second))
	}
	if len(h.queues) != maxQueues || h.queues[Queue{"acc", "q2"}] != nil || h.queues[Queue{"acc", "q3"}] == nil {
		t.Errorf("%d queues", len(h.queues))
	}
}

// The figures are those of before after a restart; a file that is damaged is reported.
func TestHistoryIsKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	path, name := filepath.Join(t.TempDir(), datadir.HistoryFile), Queue{"acc", "q"}
	h := New(time.Now)
	check.OK(t, h.load(path))
	h.Observe(requestOf("q", wire.Touch{Kind: wire.MessagePut}), now)
	h.Sampled(name, now, 5, time.Second)
	check.OK(t, h.save(path))
	again := New(time.Now)
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
	if New(time.Now).load(path) == nil {
		t.Error("a damaged file was read")
	}
	for _, p := range [][]byte{{1}, {0, 2, 3}, {9, 2}, {0, 2, 1, 1, 1, 1, 1, 1}} {
		if new(queueHistory).parse(p) == nil {
			t.Errorf("%v was read", p)
		}
	}
}

func total(list []int64) (sum int64) {
	for _, n := range list {
		sum += n
	}
	return sum
}
