package workers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// The calls of a function are kept with their outcome, attempt and duration.
func TestCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		snoozed := false
		b.app.Queue("work", func(_ context.Context, m QueueMessage) error {
			switch time.Sleep(2 * time.Second); {
			case string(m.Body) == "bad":
				return errors.New(strings.Repeat("x", 2*trigger.KeptError))
			case string(m.Body) == "later" && !snoozed:
				snoozed = true
				return Snooze(time.Minute)
			}
			return nil
		}, WithBatchSize(1), WithNewBatchThreshold(0), WithMaxDequeueCount(2))
		b.queue.send("good", "bad", "later")
		b.start(b.app)
		b.after(2 * time.Minute)
		calls, err := b.app.Calls("work")
		check.OK(b.T, err)
		var outcomes []string
		for _, c := range calls {
			outcomes = append(outcomes, c.Outcome)
			if c.Seconds != 2 || c.InvocationID == "" || c.MessageID == "" || c.Began.IsZero() ||
				(c.Error != "") != (c.Outcome == status.Failed) || len(c.Error) > trigger.KeptError+3 {
				b.Errorf("%+v", c)
			}
		}
		got := strings.Join(outcomes, " ")
		if strings.Count(got, status.Failed) != 2 || strings.Count(got, status.Snoozed) != 1 ||
			!strings.HasPrefix(got, status.Succeeded) || !strings.HasSuffix(got, status.Succeeded) || len(calls) != 5 {
			b.Errorf("outcomes, the newest first: %s", got)
		}
		if _, err := b.app.Calls("none"); !errors.Is(err, ErrNoFunction) {
			b.Errorf("an unknown function: %v", err)
		}
	})
}
