package servertest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
)

// These tests go through the official SDK to a real server; what depends on time alone is tested on a virtual clock in
// queue_test.go.

// quiet discards what it logs.
var quiet = slog.New(slog.DiscardHandler)

func newApp(a *testaccount.Account) *workers.App {
	return workers.New(workers.Config{
		ConnectionString: a.ConnectionString, HostID: "lazuli",
		Logger:   slog.New(slog.DiscardHandler),
		Defaults: []workers.Option{workers.WithMaxPollingInterval(100 * time.Millisecond)},
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
		if _, err := client.EnqueueMessage(context.Background(), base64.StdEncoding.EncodeToString([]byte(b)),
			nil); err != nil {
			t.Fatal(err)
		}
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	check.Eventually(t, holds, "%s", what)
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
	t.Parallel()
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
	t.Parallel()
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
	peeked, err := a.Queues.NewQueueClient(queue+"-poison").PeekMessages(context.Background(),
		&azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr[int32](32)})
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
// Where the machine stands still for half a lease, the lease is lost, and the other instance is right to take the
// message: of some rounds one without that is enough.
func TestRenewalKeepsMessageFromOthers(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	var rounds []int64
	for range 10 {
		n := callsUntilRenewals(t, a)
		if rounds = append(rounds, n); n == 1 {
			return
		}
	}
	t.Errorf("%v calls until the third renewal of rounds, want 1", rounds)
}

// callsUntilRenewals returns how many calls with a message there were when its lease was renewed three times.
func callsUntilRenewals(t *testing.T, a *testaccount.Account) int64 {
	t.Helper()
	queue := a.Queue("long")
	send(t, a, queue, "m")
	var calls, by atomic.Int64
	apps := []*workers.App{newApp(a), newApp(a)}
	renewed := func() int64 { return apps[0].Stats()[0].LeaseRenewals + apps[1].Stats()[0].LeaseRenewals }
	for _, app := range apps {
		app.Queue(queue, func(ctx context.Context, m workers.QueueMessage) error {
			calls.Add(1)
			for renewed() < 3 && ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			if renewed() >= 3 {
				by.CompareAndSwap(0, calls.Load())
			}
			return ctx.Err()
		}, workers.WithLease(time.Second))
		start(t, app)
	}
	eventually(t, "the queue is empty", func() bool { return length(t, a, queue) == 0 })
	for _, app := range apps {
		check.OK(t, app.Stop(t.Context()))
	}
	return by.Load()
}

// A message taken away under a running handler: its context ends, its result counts for nothing.
func TestStolenMessage(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	queue := a.Queue("stolen")
	send(t, a, queue, "m")
	cause := make(chan error, 1)
	app := newApp(a)
	app.Queue(queue, func(ctx context.Context, m workers.QueueMessage) error {
		client := a.Queues.NewQueueClient(queue)
		if _, err := client.UpdateMessage(ctx, m.Id, m.PopReceipt, "bQ==",
			&azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr[int32](600)}); err != nil {
			return err // The renewal was faster, on a slow machine. Next time.
		}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil
	}, workers.WithLease(2*time.Second), workers.WithMaxDequeueCount(100))
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
	t.Parallel()
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
			// No instance goes on before both instances have a message.
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
	t.Parallel()
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

// Why a message was poisoned stands in a table, beside its copy, whose body is unchanged.
func TestPoisonIsRecorded(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	queue := a.Queue("orders")
	app := newApp(a)
	app.Queue("ship", func(ctx context.Context, m workers.QueueMessage) error {
		if string(m.Body) == "panic" {
			panic("out of reach")
		}
		return fmt.Errorf("no stock for %s", m.Body)
	}, workers.WithQueueName(queue), workers.WithMaxDequeueCount(2))
	send(t, a, queue, "lapis", "panic")
	if _, err := a.Queues.NewQueueClient(queue).EnqueueMessage(t.Context(), "not base64!", nil); err != nil {
		t.Fatal(err)
	}
	start(t, app)
	eventually(t, "three are poisoned", func() bool { return app.Stats()[0].Poisoned == 3 && length(t, a, queue) == 0 })
	records := map[string]*poison.Record{}
	for r, err := range poison.All(t.Context(), a.Tables, queue+"-poison") {
		if err != nil {
			t.Fatal(err)
		}
		records[r.ID] = r
	}
	poisoned, err := a.Queues.NewQueueClient(queue+"-poison").PeekMessages(t.Context(),
		&azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr[int32](32)})
	if err != nil || len(poisoned.Messages) != 3 || len(records) != 3 {
		t.Fatalf("%d messages and %d records, %v", len(poisoned.Messages), len(records), err)
	}
	for _, m := range poisoned.Messages {
		r := records[*m.MessageID]
		ok := r.Function == "ship" && r.Host == "lazuli" && r.Invocation != "" && r.OriginalID != "" &&
			r.OriginalID != r.ID &&
			time.Since(r.Poisoned) < time.Minute && !r.Inserted.After(r.Poisoned.Add(time.Second))
		switch *m.MessageText {
		case base64.StdEncoding.EncodeToString([]byte("lapis")):
			ok = ok && r.Reason == "failed 2 times: no stock for lapis" && r.LastError == "no stock for lapis" &&
				r.Attempts == 2 && r.Stack == ""
		case base64.StdEncoding.EncodeToString([]byte("panic")):
			ok = ok && strings.Contains(r.Stack, "azure_test.go") && strings.Contains(r.LastError, "out of reach") &&
				r.Attempts == 2
		default:
			ok = ok && *m.MessageText == "not base64!" && strings.Contains(r.Reason, "not base64") &&
				strings.Contains(r.Reason, "WithMessageEncoding") && r.LastError == "" && r.Attempts == 1
		}
		if !ok {
			t.Errorf("%s: %+v", *m.MessageText, r)
		}
	}
	// A record goes with its message, and one that is not there goes too.
	for range 2 {
		if err := poison.Remove(t.Context(), a.Tables, queue+"-poison", *poisoned.Messages[0].MessageID); err != nil {
			t.Error(err)
		}
	}
	if r, err := poison.Read(t.Context(), a.Tables, queue+"-poison", *poisoned.Messages[0].MessageID); err != nil ||
		r != nil {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := poison.Read(t.Context(), a.Tables, queue+"-poison", *poisoned.Messages[1].MessageID); err != nil ||
		r == nil || r.Function != "ship" {
		t.Errorf("%+v, %v", r, err)
	}
}

// What a function does can be read as metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	queue := a.Queue("orders")
	app := newApp(a)
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	app.Queue("orders", func(ctx context.Context, m workers.QueueMessage) error {
		if string(m.Body) == "bad" {
			return workers.Permanent(errors.New("bad"))
		}
		entered <- struct{}{}
		<-leave
		return nil
	}, workers.WithQueueName(queue), workers.WithBatchSize(1), workers.WithNewBatchThreshold(0))
	registry := prometheus.NewRegistry()
	registry.MustRegister(app.Collector())
	send(t, a, queue, "bad", "good", "waits")
	start(t, app)
	<-entered
	text := func() string {
		w := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		return w.Body.String()
	}
	labels := `{function="orders",host="lazuli",trigger="queueTrigger"} `
	want := []string{"in_flight" + labels + "1", "queue_messages" + labels + "2", "failed_total" + labels + "1",
		"poisoned_total" + labels + "1", "paused" + labels + "0"}
	got := text()
	for _, line := range want {
		if !strings.Contains(got, "lazuli_worker_"+line+"\n") {
			t.Errorf("no %s in\n%s", line, got)
		}
	}
	close(leave)
	eventually(t, "all are done", func() bool { return app.Stats()[0].Succeeded == 2 })
	eventually(t, "durations are counted",
		func() bool { return strings.Contains(text(), "lazuli_worker_duration_seconds_count"+labels+"3\n") })
}
