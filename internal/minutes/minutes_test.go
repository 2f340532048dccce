package minutes

import (
	"slices"
	"testing"
	"time"
)

func TestRing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	var r Ring
	r.Add(now, 0, 2)
	r.Add(now.Add(29*time.Second), 0, 1)
	r.Add(now.Add(time.Minute), 1, 5)
	at := func(after time.Duration, kind int) []int64 { return r.List(now.Add(after), kind) }
	last := func(list []int64, n int) []int64 { return list[len(list)-n:] }
	if got := last(at(time.Minute, 0), 3); !slices.Equal(got, []int64{0, 3, 0}) {
		t.Errorf("a minute later: %v", got)
	}
	if got := last(at(time.Minute, 1), 2); !slices.Equal(got, []int64{0, 5}) {
		t.Errorf("the other kind: %v", got)
	}
	if got := at(59*time.Minute, 0); got[0] != 3 {
		t.Errorf("59 minutes later: %v", got)
	}
	if got := at(time.Hour, 0); slices.Max(got) != 0 {
		t.Errorf("an hour later: %v", got)
	}
	r.Add(now.Add(time.Hour), 0, 1) // the slot of the first minute
	if got := at(time.Hour, 0); got[Kept-1] != 1 || got[0] != 0 {
		t.Errorf("the next round: %v", got)
	}
}
