package workers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Each message of a call has its own result; the others have the handler's. One that does not fit is left out.
func TestBatchResults(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var calls [][]int
		var metadata []string
		Batch(b.app, "work", func(ctx context.Context, batch []*BatchMessage[int]) error {
			var got []int
			for _, m := range batch {
				got = append(got, m.Body)
				switch {
				case m.Body%10 == 1 && m.Raw.DequeueCount == 1:
					m.Finish(errBoom) // tried again
				case m.Body%10 == 2:
					m.Finish(Permanent(errBoom))
				case m.Body%10 == 3:
					m.Finish(errBoom)
					m.Finish(nil) // the last one counts
				}
			}
			calls = append(calls, got)
			ic, _ := FromContext(ctx)
			metadata = append(metadata, ic.TriggerMetadata["BatchSize"])
			return nil
		}, WithBatchSize(32), WithNewBatchThreshold(0))
		bodies := []string{`"no number"`}
		for i := range 20 {
			bodies = append(bodies, fmt.Sprint(i))
		}
		b.queue.send(bodies...)
		b.start(b.app)
		b.after(time.Second)
		b.poison.sort()
		b.wantQueues(none, []string{`"no number"`, "12", "2"})
		if len(calls) != 2 || len(calls[0]) != 20 || cmp.Diff(calls[1], []int{1, 11}) != "" ||
			cmp.Diff(metadata, []string{"21", "2"}) != "" {
			b.Errorf("calls %v, batch sizes %v", calls, metadata)
		}
		s := b.app.Stats()[0]
		if s.Succeeded != 18 || s.Failed != 5 || s.Poisoned != 3 {
			b.Errorf("%d succeeded, %d failed, %d poisoned", s.Succeeded, s.Failed, s.Poisoned)
		}
	})
}

// The handler's error is the result of those that are not finished, and is logged once; so is a panic.
func TestBatchFailsAsAWhole(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errBoom }, "panic": func() error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, Config{}, func(b *bench) {
				calls := 0
				b.app.Batch("work", func(_ context.Context, batch []*BatchMessage[[]byte]) error {
					calls++
					for _, m := range batch {
						if string(m.Body) == "good" {
							m.Finish(nil)
						}
					}
					return fail()
				}, WithMaxDequeueCount(2), WithNewBatchThreshold(0))
				b.queue.send("good", "a", "b", "c")
				b.start(b.app)
				b.after(time.Second)
				b.poison.sort()
				b.wantQueues(none, []string{"a", "b", "c"})
				if n := strings.Count(b.log.String(), "the handler failed"); calls != 2 || n != 2 {
					b.Errorf("%d calls, %d logged; want 2 of each\n%s", calls, n, b.log)
				}
			})
		})
	}
}

// Every message's lease is renewed while the handler runs. A message that is lost does not end the call; a stop does,
// and gives the messages back.
func TestBatchLeasesAndStop(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var cause error
		lost := -1
		b.app.Batch("work", func(ctx context.Context, batch []*BatchMessage[[]byte]) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			lost = 0
			for _, m := range batch {
				if m.Lost() {
					lost++
				}
			}
			return ctx.Err()
		})
		b.queue.send("a", "b", "c")
		b.start(b.app)
		b.after(5 * time.Minute)
		if s := b.app.Stats()[0]; s.InFlight != 3 || s.LeaseRenewals != 30 {
			b.Errorf("%d in flight, %d renewals", s.InFlight, s.LeaseRenewals)
		}
		b.queue.stealOne("b", time.Hour)
		b.after(time.Minute)
		if s := b.app.Stats()[0]; s.LeaseLost != 1 || lost >= 0 {
			b.Errorf("%d leases lost; the handler ended: %v", s.LeaseLost, lost >= 0)
		}
		now, cancel := context.WithCancel(context.Background())
		cancel()
		b.stopBy(now)
		if !errors.Is(cause, ErrStopping) || lost != 1 {
			b.Errorf("cause %v, %d lost", cause, lost)
		}
		if got := b.queue.visibleIn(); got[0] != 0 || got[1] == 0 || got[2] != 0 {
			b.Errorf("visible in %v", got)
		}
		b.wantQueues([]string{"a", "b", "c"}, none)
	})
}

// When the leases on all messages are lost, the handler is cancelled.
func TestBatchOfLostMessages(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var cause error
		b.app.Batch("work", func(ctx context.Context, batch []*BatchMessage[[]byte]) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		b.queue.send("a", "b")
		b.start(b.app)
		b.after(time.Second)
		b.queue.steal(time.Hour)
		b.after(time.Minute)
		if !errors.Is(cause, ErrLeaseLost) {
			b.Errorf("cause %v", cause)
		}
		b.wantQueues([]string{"a", "b"}, none)
	})
}

// A stuck handler is abandoned once, for all its messages.
func TestBatchStuck(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{StuckTimeout: time.Second}, func(b *bench) {
		release := make(chan struct{})
		b.app.Batch("work", func(context.Context, []*BatchMessage[[]byte]) error {
			<-release
			return nil
		}, WithTimeout(time.Minute), WithMaxDequeueCount(1))
		b.queue.send("a", "b")
		if err := b.app.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.after(2 * time.Minute)
		b.poison.sort()
		b.wantQueues(none, []string{"a", "b"})
		if n := strings.Count(b.log.String(), "abandoning it"); n != 1 {
			b.Errorf("logged %d times\n%s", n, b.log)
		}
		if err := b.app.Stop(context.Background()); !errors.Is(err, ErrStuck) {
			b.Errorf("Stop: %v", err)
		}
		close(release)
		b.after(time.Second)
	})
}

func TestBatchMistakes(t *testing.T) {
	t.Parallel()
	h := func(context.Context, []*BatchMessage[int]) error { return nil }
	for says, register := range map[string]func(*App){
		"the handler is nil": func(a *App) { Batch[int](a, "work", nil) },
		"handler is nil":     func(a *App) { a.Batch("work", nil) },
		"cannot have ConcurrencyPerKey": func(a *App) {
			Batch(a, "work", h, ConcurrencyPerKey(func(int) string { return "" }, 1))
		},
		"batch size 33 is not within 1 to 32": func(a *App) { Batch(a, "work", h, WithBatchSize(33)) },
	} {
		app := New(Config{Storage: &Storage{}})
		register(app)
		if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// stealOne is steal for the messages with one body.
func (q *fakeQueue) stealOne(body string, d time.Duration) {
	texts := q.texts()
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	i := slices.Index(texts, body)
	q.renew(q.messages[i], time.Now().Add(d))
}

// sort orders the messages by their texts.
func (q *fakeQueue) sort() {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	decoded := func(m *fakeMessage) string {
		body, _ := base64.StdEncoding.DecodeString(m.Text)
		return string(body)
	}
	slices.SortFunc(q.messages, func(x, y *fakeMessage) int { return strings.Compare(decoded(x), decoded(y)) })
}
