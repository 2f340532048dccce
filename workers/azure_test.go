package workers_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
)

// These tests go through the official SDK to a real server; what depends on time alone is tested on a virtual clock in queue_test.go.

func newApp(a *testaccount.Account) *workers.App {
	return workers.New(workers.Config{
		ConnectionString: a.ConnectionString,
		Logger:           slog.New(slog.DiscardHandler),
		Defaults:         []workers.Option{workers.WithMaxPollingInterval(100 * time.Millisecond)},
	})
}

func start(t testing.TB, app *workers.App) {
	t.Helper()
	if err := app.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := app.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func send(t testing.TB, a *testaccount.Account, queue string, bodies ...string) {
	t.Helper()
	client := a.Queues.NewQueueClient(queue)
	for _, b := range bodies {
		if _, err := client.EnqueueMessage(context.Background(), base64.StdEncoding.EncodeToString([]byte(b)), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func length(t testing.TB, a *testaccount.Account, queue string) int {
	t.Helper()
	p, err := a.Queues.NewQueueClient(queue).GetProperties(context.Background(), nil)
	if err != nil {
		return -1
	}
	return int(*p.ApproximateMessagesCount)
}

func TestMessagesAreHandledAndDeleted(t *testing.T) {
	a := testaccount.Open(t)
	queue := a.Queue("orders")
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprintf(`{"order":%02d,"note":"ü <&> 漢"}`, i))
	}
	send(t, a, queue, want...)
	var mu sync.Mutex
	var got []string
	app := newApp(a)
	app.Queue(queue, func(ctx context.Context, m workers.QueueMessage) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(m.Body))
		return nil
	})
	start(t, app)
	eventually(t, "the queue is empty", func() bool { return length(t, a, queue) == 0 })
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("handled %q", got)
	}
}

func TestFailingMessageIsPoisoned(t *testing.T) {
	a := testaccount.Open(t)
	queue := a.Queue("failing")
	send(t, a, queue, "bad")
	if _, err := a.Queues.NewQueueClient(queue).EnqueueMessage(context.Background(), "not base64", nil); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	app := newApp(a)
	app.Queue("f", func(ctx context.Context, m workers.QueueMessage) error {
		if n := calls.Add(1); n != m.DequeueCount {
			t.Errorf("call %d has dequeue count %d", n, m.DequeueCount)
		}
		return errors.New("no")
	}, workers.WithQueueName(queue))
	start(t, app)
	eventually(t, "both are in the poison queue and gone from their own", func() bool {
		return length(t, a, queue+"-poison") == 2 && length(t, a, queue) == 0
	})
	if calls.Load() != 5 {
		t.Errorf("%d attempts, want 5", calls.Load())
	}
	peeked, err := a.Queues.NewQueueClient(queue+"-poison").PeekMessages(context.Background(), &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr[int32](32)})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range peeked.Messages {
		texts = append(texts, *m.MessageText)
	}
	slices.Sort(texts)
	if want := []string{"YmFk", "not base64"}; !slices.Equal(texts, want) {
		t.Errorf("the poison queue holds %q, want %q", texts, want)
	}
}

// The lease is a second, the handler runs until it was renewed three times; a second instance never gets the message.
func TestRenewalKeepsMessageFromOthers(t *testing.T) {
	a := testaccount.Open(t)
	queue := a.Queue("long")
	send(t, a, queue, "m")
	var calls atomic.Int64
	apps := []*workers.App{newApp(a), newApp(a)}
	renewed := func() int64 { return apps[0].Stats()[0].LeaseRenewals + apps[1].Stats()[0].LeaseRenewals }
	for _, app := range apps {
		app.Queue(queue, func(ctx context.Context, m workers.QueueMessage) error {
			calls.Add(1)
			eventually(t, "the lease was renewed three times", func() bool { return renewed() >= 3 })
			return ctx.Err()
		}, workers.WithLease(time.Second))
		start(t, app)
	}
	eventually(t, "the queue is empty", func() bool { return length(t, a, queue) == 0 })
	if calls.Load() != 1 {
		t.Errorf("%d calls, want 1", calls.Load())
	}
}

// A message taken away under a running handler: its context ends, its result counts for nothing.
func TestStolenMessage(t *testing.T) {
	a := testaccount.Open(t)
	queue := a.Queue("stolen")
	send(t, a, queue, "m")
	cause := make(chan error, 1)
	app := newApp(a)
	app.Queue(queue, func(ctx context.Context, m workers.QueueMessage) error {
		client := a.Queues.NewQueueClient(queue)
		if _, err := client.UpdateMessage(ctx, m.Id, m.PopReceipt, "bQ==", &azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr[int32](600)}); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil
	}, workers.WithLease(time.Second))
	start(t, app)
	if err := <-cause; !errors.Is(err, workers.ErrLeaseLost) {
		t.Errorf("the context ended with %v", err)
	}
	if err := app.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if n := length(t, a, queue); n != 1 {
		t.Errorf("%d messages in the queue, want the stolen one", n)
	}
}

func TestInstancesShareWork(t *testing.T) {
	a := testaccount.Open(t)
	queue := a.Queue("shared")
	const messages = 200
	for i := range messages {
		send(t, a, queue, fmt.Sprint(i))
	}
	var handled sync.Map
	var both sync.WaitGroup
	both.Add(2)
	apps := []*workers.App{newApp(a), newApp(a)}
	for _, app := range apps {
		var first sync.Once
		app.Queue(queue, func(ctx context.Context, m workers.QueueMessage) error {
			// Nobody goes on before both instances have a message.
			first.Do(func() { both.Done(); both.Wait() })
			if _, twice := handled.LoadOrStore(string(m.Body), true); twice {
				t.Errorf("message %s was handled twice", m.Body)
			}
			return nil
		}, workers.WithConcurrency(8))
		start(t, app)
	}
	eventually(t, "the queue is empty", func() bool { return length(t, a, queue) == 0 })
	n := 0
	handled.Range(func(any, any) bool { n++; return true })
	if n != messages {
		t.Errorf("%d messages handled, want %d", n, messages)
	}
}

func TestWrongKeyIsReported(t *testing.T) {
	a := testaccount.Open(t)
	queue := a.Queue("secret")
	before, after, ok := strings.Cut(a.ConnectionString, "AccountKey=")
	if !ok {
		t.Skip("the account is not opened by a key")
	}
	_, after, _ = strings.Cut(after, ";")
	a.ConnectionString = before + "AccountKey=d3Jvbmc=;" + after
	app := newApp(a)
	app.Queue(queue, func(context.Context, workers.QueueMessage) error { return nil })
	start(t, app)
	eventually(t, "the failure shows", func() bool { return app.Stats()[0].LastError != nil })
	if text := app.Stats()[0].LastError.Err.Error(); !strings.Contains(text, "403") || strings.Contains(text, "d3Jvbmc=") {
		t.Errorf("last error: %s", text)
	}
}

// BenchmarkEmptyHandler measures messages per second from a full queue to an empty one, through the SDK.
func BenchmarkEmptyHandler(b *testing.B) {
	a := testaccount.Open(b)
	queue := a.Queue("bench")
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := w; i < b.N; i += 32 {
				send(b, a, queue, "x")
			}
		})
	}
	wg.Wait()
	done := make(chan struct{}, 1024)
	app := newApp(a)
	app.Queue(queue, func(context.Context, workers.QueueMessage) error { done <- struct{}{}; return nil }, workers.WithBatchSize(32), workers.WithNewBatchThreshold(32))
	b.ResetTimer()
	start(b, app)
	for range b.N {
		<-done
	}
	if err := app.Stop(context.Background()); err != nil { // Until every message is deleted.
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
