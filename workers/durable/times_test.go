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
	history := func() []*record.Event {
		events, err := c.History(t.Context(), id)
		check.OK(t, err)
		return events
	}
	steps := func() []record.Step { return record.Describe(history()) }
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
			delete(created, s.Task)
		}
	}
	// The time of a timer counts from the turn that sets it, which begins before the event of its creation is written:
	// so the two events may be less than 200 ms apart.
	var turn time.Time
	for _, e := range history() {
		switch {
		case e.GetOrchestratorStarted() != nil && turn.IsZero():
			turn = e.Timestamp.AsTime()
		case e.GetTimerFired() != nil:
			due := e.GetTimerFired().FireAt.AsTime()
			if set := due.Sub(turn); set < 200*time.Millisecond || set > time.Minute {
				t.Errorf("the timer is due %v after the turn that set it", set)
			}
			if late := e.Timestamp.AsTime().Sub(due); late < 0 || late > check.Patience {
				t.Errorf("the timer fired %v after it was due", late)
			}
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
