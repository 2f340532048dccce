package durable

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A workflow's logger writes a line once, in the step that first reaches it, however often the code runs again; the IDs
// that the workflow makes stay the same. A task with a policy keeps its last error.
func TestContextOverSeveralSteps(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	ids := map[string]bool{}
	var kept bool
	x := &goExecutor{workflows: map[string]func(*Context) (any, error){"w": func(c *Context) (any, error) {
		l := c.Logger(logger).With("instance", c.ID).WithGroup("g")
		l.Info("begins")
		ids[c.NewUUID().String()] = true
		a := c.CallActivity("a", WithRetry(RetryPolicy{MaxAttempts: 1, InitialRetryInterval: time.Second}))
		err := a.Await(nil)
		l.Info("goes on")
		kept = err != nil && errors.Is(a.Await(nil), err) && a.Ended()
		return nil, c.CallActivity("b").Await(nil)
	}}}
	history := []*record.Event{}
	for _, fresh := range [][]*record.Event{
		{event.New("orchestratorStarted", -1, time.Now()), startedEvent(time.Now())},
		{event.New("taskScheduled", 0, time.Now()), event.New("orchestratorStarted", -1, time.Now()),
			hub.ActivityFailed(&record.Event{EventId: 0}, event.NewFailure("Broken", "no a"))},
		{event.New("taskScheduled", 1, time.Now()), event.New("orchestratorStarted", -1, time.Now())},
	} {
		// What an earlier step has scheduled is in its history.
		if fresh[0].GetTaskScheduled() != nil {
			history, fresh = append(history, fresh[0]), fresh[1:]
		}
		s := backend.NewOrchestrationRuntimeState("i", history)
		_, err := x.ExecuteOrchestrator(t.Context(), "i", s.OldEvents(), fresh)
		check.OK(t, err)
		history = append(history, fresh...)
	}
	for _, line := range []string{"begins", "goes on"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%q is written %d times:\n%s", line, n, log.String())
		}
	}
	if len(ids) != 1 || !kept || !strings.Contains(log.String(), "instance=i") {
		t.Errorf("%d IDs, the error is kept: %v, the log %s", len(ids), kept, log.String())
	}
}
