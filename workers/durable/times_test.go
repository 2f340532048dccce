package durable_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// A timer fires when its time has come, and not when it was set; one that the workflow did not need says so.
func TestTimesOfTimers(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	r := registry(t, workflows{"timers": func(ctx *durable.Context) (any, error) {
		if err := ctx.CreateTimer(200 * time.Millisecond).Await(nil); err != nil {
			return nil, err
		}
		return nil, ctx.WaitForSingleEvent("go", time.Hour).Await(nil)
	}}, nil)
	c := h.run(r)
	id := start(t, c, "timers", hub.StartOptions{})
	steps := func() []record.Step {
		events, err := c.History(t.Context(), id)
		check.OK(t, err)
		return record.Describe(events)
	}
	check.OK(t, c.RaiseEvent(t.Context(), id, "go", ""))
	check.Eventually(t, func() bool {
		for _, s := range steps() {
			if s.Event == "TimerFired" {
				return true
			}
		}
		return false
	}, "the first timer fires")
	ended(t, c, id, "Completed")
	created := map[int32]record.Step{}
	fired := 0
	for _, s := range steps() {
		switch s.Event {
		case "TimerCreated":
			created[s.Task] = s
		case "TimerFired":
			fired++
			if took := s.Time.Sub(created[s.Task].Time); took < 200*time.Millisecond || took > time.Minute {
				t.Errorf("the timer fired %v after it was set", took)
			}
			delete(created, s.Task)
		}
	}
	if fired != 1 {
		t.Errorf("%d timers fired", fired)
	}
	for _, s := range created {
		if !strings.HasSuffix(s.Details, "no longer needed") {
			t.Errorf("the timer that did not fire says %q", s.Details)
		}
	}
}
