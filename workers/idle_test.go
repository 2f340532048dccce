package workers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// A service that lets requests wait is not polled: a message begins at once, however long the queue was empty.
func TestIdleWaitsAtTheService(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var began []time.Time
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			began = append(began, time.Now())
			return nil
		}, WithMaxPollingInterval(time.Hour))
		b.queue.canWait = true
		b.queue.send()
		var receives atomic.Int64
		b.queue.onReceive = func(context.Context) error { receives.Add(1); return nil }
		b.start(b.app)
		b.after(time.Hour)
		if n, most := receives.Load(), int64(time.Hour/queues.LongWait)+2; n > most {
			b.Errorf("the queue was asked %d times in an idle hour, want at most %d", n, most)
		}
		sent := time.Now()
		b.queue.send("m")
		b.after(time.Millisecond)
		if len(began) != 1 || began[0] != sent {
			b.Errorf("sent at %v, begun at %v", sent, began)
		}
		b.stop(b.app) // also while it waits
		b.wantQueues(none, none)
	})
}

// One that does not is asked once, and then polled.
func TestIdlePolls(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error { return nil },
			WithMaxPollingInterval(time.Second))
		b.queue.send()
		var receives atomic.Int64
		b.queue.onReceive = func(context.Context) error { receives.Add(1); return nil }
		b.start(b.app)
		b.after(time.Minute)
		if n := receives.Load(); n < 55 || n > 70 {
			b.Errorf("%d polls in a minute", n)
		}
		b.queue.send("m")
		b.after(2 * time.Second)
		b.wantQueues(none, none)
	})
}

// Messages that can be seen but not received, because others are faster, must not make the listener spin.
func TestIdleDoesNotSpin(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error { return nil })
		b.queue.canWait = true
		b.queue.send("m")
		var receives atomic.Int64
		b.queue.onReceive = func(context.Context) error { receives.Add(1); return nil }
		b.queue.setHidden(true)
		b.start(b.app)
		b.after(10 * time.Second)
		if n := receives.Load(); n > 310 { // three for each tenth of a second
			b.Errorf("%d polls in ten seconds", n)
		}
		b.queue.setHidden(false)
		b.after(time.Second)
		b.wantQueues(none, none)
	})
}

func TestPause(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var handled []string
		held := make(chan struct{})
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			if string(m.Body) == "long" {
				<-held
			}
			handled = append(handled, string(m.Body))
			return nil
		})
		b.queue.canWait = true
		b.queue.send("long")
		b.start(b.app)
		b.after(time.Second)
		for range 2 {
			if err := b.app.Pause("work"); err != nil {
				b.Fatal(err)
			}
		}
		b.queue.send("while paused")
		b.after(time.Hour)
		if stats := b.app.Stats()[0]; !stats.Paused || stats.InFlight != 1 {
			b.Errorf("%+v", stats)
		}
		close(held) // What is in work goes on.
		b.after(time.Second)
		b.wantQueues([]string{"while paused"}, none)
		b.stop(b.app) // A stop and a start leave it paused.
		b.start(b.app)
		b.after(time.Minute)
		b.wantQueues([]string{"while paused"}, none)
		if err := b.app.Resume("work"); err != nil {
			b.Fatal(err)
		}
		b.after(time.Millisecond)
		b.wantQueues(none, none)
		if err := b.app.Pause("nobody"); !errors.Is(err, ErrNoFunction) {
			b.Error(err)
		}
	})
}
