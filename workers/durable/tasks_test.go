package durable

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// The SDK for Python schedules the attempts of one activity under one number.
func TestTaskNumbersAreUsedAgain(t *testing.T) {
	t.Parallel()
	scheduled := event.New("taskScheduled", 1, time.Now())
	failed := event.New("taskFailed", -1, time.Now())
	failed.GetTaskFailed().TaskScheduledId = 1
	events := []*record.Event{event.New("executionStarted", -1, time.Now()), scheduled, failed,
		event.New("taskScheduled", 1, time.Now()), event.New("timerCreated", 2, time.Now())}
	if diff := cmp.Diff(map[int32]int{1: 4, 2: 5}, record.OpenTasks(events)); diff != "" {
		t.Errorf("open tasks (-want +got):\n%s", diff)
	}
	h := record.NewHistory()
	h.Events, h.ExecutionID, h.Length = events, "e", len(events)
	for _, c := range []struct {
		scheduled int
		want      hub.Verdict
	}{{2, hub.Drop}, {4, hub.Accept}, {4, hub.Drop}} {
		f := hub.NewFilter(nil, "i", h, false)
		if c.want == hub.Drop && c.scheduled == 4 {
			delete(f.Open, 1)
		}
		if v, err := f.Judge(t.Context(), &record.Message{Execution: "e", Scheduled: c.scheduled,
			Parsed: failed}); v != c.want ||
			err != nil {
			t.Errorf("the result of the attempt in row %d: %v, %v, want %v", c.scheduled-1, v, err, c.want)
		}
	}
}

func TestSeenListIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	var l record.SeenList
	for i := range 3 * record.SeenMost {
		l = l.With(now, map[string]bool{string(rune(i)): true}, map[string]bool{string(rune(i)): i%2 == 0})
	}
	if len(l) > record.SeenMost {
		t.Errorf("%d entries", len(l))
	}
	if !l.Has(string(rune(3*record.SeenMost - 1))) {
		t.Error("the latest one is forgotten")
	}
	old := record.SeenList(nil).With(now, map[string]bool{"deleted": true, "unsure": true},
		map[string]bool{"deleted": true})
	later := old.With(now.Add(2*record.SeenFor), nil, nil)
	if later.Has("deleted") || !later.Has("unsure") {
		t.Errorf("after %v: %v", 2*record.SeenFor, later)
	}
	if n := len(later.With(now.Add(2*record.SeenUnsure), nil, nil)); n != 0 {
		t.Errorf("%d entries after %v", n, 2*record.SeenUnsure)
	}
}

func TestPartitionKeysAreReversible(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"plain", `a/b\c#d?e'f%g+h^i`, "^0", "é ü 世界", "@entity@key"} {
		if got := record.InstanceOf(record.PartitionKey(id)); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
}
