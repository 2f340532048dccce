package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/locks"
)

func (b *bench) wantLogged(text string, times int) {
	b.Helper()
	if got := strings.Count(b.log.String(), text); got != times {
		b.Errorf("%q is logged %d times, want %d; log:\n%s", text, got, times, b.log)
	}
}

func TestStartLogsWhatTheAppListensTo(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{HostID: "shop"}, func(b *bench) {
		b.app.openHost = func(*Storage) (locks.Store, error) { return newFakeHost(), nil }
		b.app.Queue("ship", func(context.Context, QueueMessage) error { return nil }, WithQueueName("work"))
		b.app.Timer("tick", func(context.Context, TimerInfo) error { return nil }, WithSchedule("0 0 * * * *"))
		b.start(b.app)
		b.wantLogged(`msg=listening function=ship trigger=queueTrigger host=shop queue=work`, 1)
		b.wantLogged(`msg=listening function=tick trigger=timerTrigger host=shop schedule="0 0 * * * *"`, 1)
	})
}

// A function creates its queue, also one that is deleted while it runs, unless that is left to others.
func TestAMissingQueueIsCreated(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.app.Queue("work", func(context.Context, QueueMessage) error { return nil })
		b.start(b.app)
		b.after(time.Minute)
		b.wantLogged("created the queue", 1)
		b.queue.remove()
		b.after(2 * time.Minute)
		b.wantLogged("created the queue", 2)
		b.wantLogged("level=WARN", 0)
	})
}

func TestAMissingQueueIsAwaited(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.app.Queue("work", func(context.Context, QueueMessage) error { return nil }, WithExistingQueue())
		b.start(b.app)
		b.after(time.Minute)
		b.wantLogged("the queue does not exist; waiting for it", 1)
		if b.queue.creates != 0 {
			b.Errorf("the function has created the queue %d times", b.queue.creates)
		}
	})
}

// A handler that returns its context's error after its timeout has failed by the timeout.
func TestATimeoutIsRecordedAsOne(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.app.Queue("work", func(ctx context.Context, _ QueueMessage) error {
			<-ctx.Done()
			return fmt.Errorf("download: %w", ctx.Err())
		}, WithTimeout(time.Second), WithMaxDequeueCount(1))
		b.queue.send("one")
		b.start(b.app)
		b.after(time.Minute)
		if err := b.app.Stats()[0].LastError.Err; !errors.Is(err, ErrTimeout) || !errors.Is(err, context.Canceled) {
			b.Errorf("last error: %v", err)
		}
		// The failure, and the reason for the poison queue.
		b.wantLogged(ErrTimeout.Error()+": download: context canceled", 2)
	})
}

func TestLoggedErrorsAreCountedAndNotLogged(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.app.Queue("work", func(_ context.Context, m QueueMessage) error {
			if string(m.Body) == "logged" {
				return Permanent(Logged(errors.New("boom")))
			}
			return Permanent(errors.New("bang"))
		})
		b.queue.send("logged", "unlogged")
		b.start(b.app)
		b.after(time.Second)
		b.wantLogged(`msg="the handler failed"`, 1)
		if s := b.app.Stats()[0]; s.Failed != 2 || s.Poisoned != 2 {
			b.Errorf("stats: %+v", s)
		}
	})
}

func TestTimerLogsThatAnotherInstanceHasItsLock(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		first := b.app("0 */20 * * * *", nil)
		b.until("00:00:01")
		b.app("0 */20 * * * *", nil)
		b.until("01:00:01")
		if got := strings.Count(b.log.String(),
			`msg="another instance holds the lock; waiting for it" function=tick`); got != 1 {
			b.Errorf("logged %d times:\n%s", got, b.log)
		}
		b.stop(first)
		b.until("01:01:00")
		if !strings.Contains(b.log.String(), `msg="Host lock lease acquired by instance ID`) {
			b.Errorf("log:\n%s", b.log)
		}
	})
}

// Two programs on one account whose timers have the same name both run theirs.
func TestTimersOfTwoProgramsDoNotShareALock(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		b.hostID = hostIDOf("example.com/shop/cmd/worker", "")
		b.app("0 */20 * * * *", nil)
		b.hostID = hostIDOf("example.com/bank/cmd/worker", "")
		b.app("0 */20 * * * *", nil)
		b.until("00:30:00")
		b.want("00:20:00", "00:20:00")
	})
}
