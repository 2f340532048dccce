package durable

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
)

// The SDK for Python schedules the attempts of one activity under one number.
func TestTaskNumbersAreUsedAgain(t *testing.T) {
	t.Parallel()
	scheduled := event.New("taskScheduled", 1, time.Now())
	failed := event.New("taskFailed", -1, time.Now())
	failed.GetTaskFailed().TaskScheduledId = 1
	events := []*Event{event.New("executionStarted", -1, time.Now()), scheduled, failed,
		event.New("taskScheduled", 1, time.Now()), event.New("timerCreated", 2, time.Now())}
	if diff := cmp.Diff(map[int32]int{1: 4, 2: 5}, openTasks(events)); diff != "" {
		t.Errorf("open tasks (-want +got):\n%s", diff)
	}
	h := newHistory()
	h.events, h.ExecutionID, h.Length = events, "e", len(events)
	for _, c := range []struct {
		scheduled int
		want      verdict
	}{{2, drop}, {4, accept}, {4, drop}} {
		f := newFilter(nil, "i", h, false)
		if c.want == drop && c.scheduled == 4 {
			delete(f.open, 1)
		}
		if v, err := f.judge(t.Context(), &message{Execution: "e", Scheduled: c.scheduled, event: failed}); v != c.want ||
			err != nil {
			t.Errorf("the result of the attempt in row %d: %v, %v, want %v", c.scheduled-1, v, err, c.want)
		}
	}
}

func TestSeenListIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	var l seenList
	for i := range 3 * seenMost {
		l = l.with(now, map[string]bool{string(rune(i)): true}, map[string]bool{string(rune(i)): i%2 == 0})
	}
	if len(l) > seenMost {
		t.Errorf("%d entries", len(l))
	}
	if !l.has(string(rune(3*seenMost - 1))) {
		t.Error("the latest one is forgotten")
	}
	old := seenList(nil).with(now, map[string]bool{"deleted": true, "unsure": true}, map[string]bool{"deleted": true})
	later := old.with(now.Add(2*seenFor), nil, nil)
	if later.has("deleted") || !later.has("unsure") {
		t.Errorf("after %v: %v", 2*seenFor, later)
	}
	if n := len(later.with(now.Add(2*seenUnsure), nil, nil)); n != 0 {
		t.Errorf("%d entries after %v", n, 2*seenUnsure)
	}
}

func TestPartitionKeysAreReversible(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"plain", `a/b\c#d?e'f%g+h^i`, "^0", "é ü 世界", "@entity@key"} {
		if got := instanceOf(partitionKey(id)); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
}
