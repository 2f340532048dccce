package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// numbered sends n messages whose bodies begin with a queue's name.
func numbered(q *fakeQueue, n int) {
	for i := range n {
		q.send(fmt.Sprintf("%s %d", q.name, i))
	}
}

// The messages of a queue are received when those before it are empty; one that comes later still goes first.
func TestStrictPriority(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		critical, low := b.account.queue("critical"), b.account.queue("low")
		var got []string
		b.app.Queue("work", func(_ context.Context, m QueueMessage) error {
			got = append(got, string(m.Body))
			if string(m.Body) == "low 1" {
				numbered(critical, 1)
			}
			time.Sleep(time.Second)
			return nil
		}, StrictPriority("critical", "work", "low"), WithConcurrency(1))
		numbered(low, 3)
		numbered(b.queue, 2)
		numbered(critical, 2)
		b.start(b.app)
		b.after(time.Minute)
		want := []string{"critical 0", "critical 1", "work 0", "work 1", "low 0", "low 1", "critical 0", "low 2"}
		if diff := cmp.Diff(want, got); diff != "" {
			b.Errorf("-want +got:\n%s", diff)
		}
		if s := b.app.Stats()[0]; s.Queue != "critical, work, low" {
			b.Errorf("Queue %q", s.Queue)
		}
	})
}

// The shares of the queues are their weights while each has messages, and none is left over.
func TestWeightedPriority(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		weights := map[string]int{"critical": 6, "work": 3, "low": 1}
		var got []string
		b.app.Queue("work", func(_ context.Context, m QueueMessage) error {
			name, _, _ := strings.Cut(string(m.Body), " ")
			got = append(got, name)
			time.Sleep(time.Millisecond)
			return nil
		}, WeightedPriority(weights), WithConcurrency(1))
		for name := range weights {
			numbered(b.account.queue(name), 600)
		}
		b.start(b.app)
		b.after(time.Minute)
		counts := map[string]int{}
		for _, name := range got[:600] {
			counts[name]++
		}
		for name, weight := range weights {
			// Three standard deviations of the rarest are 22.
			if want := 60 * weight; counts[name] < want-40 || counts[name] > want+40 {
				b.Errorf("of 600 messages %d are of %s, want about %d", counts[name], name, want)
			}
		}
		if len(got) != 1800 {
			b.Errorf("%d messages handled", len(got))
		}
	})
}

// Waiting for messages in all queues at once brings no more of them than there is room for, and notices each at once,
// a wake included. A queue that does not exist yet is created.
func TestPriorityWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		names := []string{"critical", "work", "low"}
		var requests atomic.Int64
		for _, name := range names {
			q := b.account.queue(name)
			q.canWait = true
			q.onReceive = func(context.Context) error { requests.Add(1); return nil }
		}
		var mu sync.Mutex // guards the next ones
		now, most := 0, 0
		var took []time.Duration
		b.app.Queue("work", func(_ context.Context, m QueueMessage) error {
			at, err := time.Parse(time.RFC3339, m.InsertionTime)
			mu.Lock()
			took = append(took, time.Since(at))
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(2 * time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return err
		}, StrictPriority(names...), WithConcurrency(4))
		b.start(b.app)
		b.after(time.Minute)
		// Three to find that the queues do not exist, and a wait of each every 30 s with a round in between.
		if n := requests.Load(); n > 24 {
			b.Errorf("%d requests in an idle minute", n)
		}
		for _, name := range names {
			numbered(b.account.queue(name), 4)
		}
		b.after(time.Minute)
		if most > 4 || len(took) != 12 || took[0] > 0 {
			b.Errorf("%d messages at a time, %d in all, the first after %v", most, len(took), took[0])
		}
		for _, name := range names {
			if got := b.account.queue(name).texts(); len(got) > 0 {
				b.Errorf("%s: %v", name, got)
			}
		}
	})
}

// An empty queue costs at most ten requests a second while another has messages.
func TestPriorityRequestsWhileBusy(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		empty := 0
		b.account.queue("critical").onReceive = func(context.Context) error { empty++; return nil }
		b.account.queue("critical").send()
		b.app.Queue("work", func(context.Context, QueueMessage) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}, StrictPriority("critical", "work"), WithConcurrency(1))
		numbered(b.queue, 1000)
		b.start(b.app)
		b.after(10 * time.Second)
		b.wantQueues(none, none)
		if empty > 110 {
			b.Errorf("%d requests for the empty queue in 10 s", empty)
		}
	})
}

// Each queue has its own poison queue, and the queues share the function's pause, stop and limit of a key.
func TestPriorityPoisonPauseAndKeys(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		low := b.account.queue("low")
		running := 0
		b.app.Queue("work", func(_ context.Context, m QueueMessage) error {
			if running++; running > 1 {
				b.Error("two with one key at a time")
			}
			time.Sleep(time.Second)
			running--
			return errBoom
		}, StrictPriority("work", "low"), WithMaxDequeueCount(1),
			ConcurrencyPerKey(func(struct{}) string { return "all" }, 1))
		if err := b.app.Pause("work"); err != nil {
			b.Fatal(err)
		}
		b.start(b.app)
		b.queue.send(`{"a":1}`)
		low.send(`{"b":1}`)
		b.after(time.Minute)
		b.wantQueues([]string{`{"a":1}`}, none)
		if err := b.app.Resume("work"); err != nil {
			b.Fatal(err)
		}
		b.after(time.Minute)
		b.wantQueues(none, []string{`{"a":1}`})
		if got := b.account.queue("low-poison").texts(); !slices.Equal(got, []string{`{"b":1}`}) || len(low.texts()) > 0 {
			b.Errorf("low-poison has %v, low %v", got, low.texts())
		}
	})
}

// A service that fails for one queue does not keep the others from being handled.
func TestPriorityOutageOfOneQueue(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.account.queue("critical").onReceive = func(context.Context) error { return errBoom }
		b.app.Queue("work", func(context.Context, QueueMessage) error { return nil }, StrictPriority("critical", "work"))
		numbered(b.queue, 100)
		b.start(b.app)
		b.after(time.Minute)
		b.wantQueues(none, none)
		if n := strings.Count(b.log.String(), "poll failed"); n != 1 {
			b.Errorf("logged %d times", n)
		}
	})
}

func TestPriorityMistakes(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprint("queue", i))
	}
	for says, option := range map[string]QueueOption{
		"0 queues by priority":              StrictPriority(),
		"17 queues by priority":             StrictPriority(many...),
		`queue "low" has two priorities`:    StrictPriority("low", "low"),
		`the weight 0 of queue "low"`:       WeightedPriority(map[string]int{"low": 0}),
		`the weight 1001 of queue "low"`:    WeightedPriority(map[string]int{"low": 1001}),
		`queue name "No Name" may hold`:     StrictPriority("low", "No Name"),
		`0 queues by priority are not with`: WeightedPriority(nil),
	} {
		app := New(Config{Storage: &Storage{}})
		app.Queue("work", func(context.Context, QueueMessage) error { return nil }, option)
		if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), says) ||
			errors.Is(err, errNoFunctions) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
