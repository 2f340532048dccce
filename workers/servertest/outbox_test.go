package servertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// outboxQueue is the queue of reminders.
const outboxQueue = "lazuli-outbox"

// placed is a row that is written together with messages.
type placed struct {
	Shop  string `table:"PartitionKey"`
	Order string `table:"RowKey"`
	Item  string
}

// place submits an order with messages for a queue.
func place(ctx context.Context, s *workers.Storage, o placed, queue string, bodies ...any) error {
	orders, err := tables.New[placed](s.Tables, "Orders", tables.CreateIfMissing())
	if err != nil {
		return err
	}
	tx := orders.Begin()
	tx.Insert(&o)
	for _, b := range bodies {
		if err := s.EnqueueIn(tx.Transaction, queue, b); err != nil {
			return err
		}
	}
	return tx.Submit(ctx)
}

// receiver is an app with an outbox that notes what arrives in the queue "placed".
func receiver(config workers.Config) (app *workers.App, arrived func() []string) {
	config.Logger = slog.New(slog.DiscardHandler)
	app = workers.New(config)
	app.Outbox(workers.WithRetry(workers.Fixed(time.Second)))
	var mu sync.Mutex
	var list []string
	app.Queue("placed", func(_ context.Context, m workers.QueueMessage) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, string(m.Body))
		return nil
	}, workers.WithConcurrency(1))
	return app, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

// Messages of a partition arrive in the order of their transactions, and of one transaction in the order of the calls.
// Nothing of them stays in the table.
func TestOutboxDeliversInOrder(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	var want []string
	for i := range 8 {
		o := placed{"it's", fmt.Sprint(i), "tea"}
		bodies := []any{fmt.Sprintf("%d first", i), fmt.Sprintf("%d second", i)}
		check.OK(t, place(t.Context(), account.Storage, o, "placed", bodies...))
		want = append(want, bodies[0].(string), bodies[1].(string))
	}
	app, arrived := receiver(workers.Config{Storage: account.Storage})
	account.Run(app)
	account.Drain()
	if d := cmp.Diff(want, arrived()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	// Later ones are delivered at once.
	check.OK(t, place(t.Context(), account.Storage, placed{"it's", "late", "tea"}, "placed", map[string]int{"n": 1}))
	account.Drain()
	if got := arrived(); got[len(got)-1] != `{"n":1}` {
		t.Errorf("got %q", got)
	}
	rows := 0
	orders, err := tables.New[tables.Entity](account.Tables, "Orders")
	check.OK(t, err)
	for e, err := range orders.Query().AllowScan().All(t.Context()) {
		check.OK(t, err)
		if strings.HasPrefix(e.RowKey, "lazuli-outbox-") {
			t.Errorf("%q is left", e.RowKey)
		}
		rows++
	}
	if rows != 9 {
		t.Errorf("%d orders, want 9", rows)
	}
	account.RequireEmpty(outboxQueue)
}

// A crash at each step of the writer and of the deliverer, which an error stands for here: the order and its message
// are both there in the end, or neither is.
func TestOutboxCrashesAtEveryStep(t *testing.T) {
	for _, point := range fault.PointsOf("outbox") {
		t.Run(point, func(t *testing.T) {
			clock := lazulitest.NewClock()
			account := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
			crash := fault.Activate(fault.NewPlan(fault.Rule{Point: fault.Name(point), On: 1,
				Do: fault.Fail(errors.New("a crash"))}))
			stop := sync.OnceFunc(crash)
			defer stop()
			written := place(t.Context(), account.Storage, placed{"a", "1", "tea"}, "placed", "1")
			app, arrived := receiver(workers.Config{Storage: account.Storage, Clock: clock})
			account.Run(app)
			account.Drain()
			stop()
			clock.Advance(31 * time.Second) // The reminder of a writer that has crashed appears.
			account.Drain()
			there := true
			if _, err := account.Tables.NewClient("Orders").GetEntity(t.Context(), "a", "1", nil); err != nil {
				there = false
			}
			got := slices.Compact(arrived())
			if there != (len(got) == 1) || there == (point == "outbox/after-reminder") {
				t.Errorf("the order is there: %v (%v); messages: %q", there, written, got)
			}
			account.RequireEmpty(outboxQueue)
			account.RequireEmpty(outboxQueue + "-poison")
		})
	}
}

// A transaction that is refused puts no message, and leaves no reminder.
func TestOutboxOfARefusedTransaction(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	check.OK(t, place(t.Context(), account.Storage, placed{"a", "1", "tea"}, "placed"))
	if err := place(t.Context(), account.Storage, placed{"a", "1", "tea"}, "placed", "x"); !errors.Is(err,
		tables.ErrExists) {
		t.Errorf("the second insert: %v", err)
	}
	account.RequireEmpty(outboxQueue)
	if n, err := account.SweepOutbox(t.Context(), "Orders"); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
}

// A sweep finds messages without a reminder.
func TestOutboxSweep(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	check.OK(t, place(t.Context(), account.Storage, placed{"a", "1", "tea"}, "placed", "x"))
	check.OK(t, place(t.Context(), account.Storage, placed{"b", "1", "tea"}, "placed", "y", "z"))
	_, err := account.Queues.NewQueueClient(outboxQueue).ClearMessages(t.Context(), nil)
	check.OK(t, err)
	if n, err := account.SweepOutbox(t.Context(), "Orders"); n != 3 || err != nil {
		t.Errorf("swept %d, %v; want 3", n, err)
	}
	if got := account.Messages("placed"); len(got) != 3 {
		t.Errorf("got %q", got)
	}
}

// A message of a transaction is written as any other: in base64, as queue triggers of Azure Functions read it by
// default, or in plain text.
func TestOutboxEncodes(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	orders, err := tables.New[placed](account.Tables, "Orders", tables.CreateIfMissing())
	check.OK(t, err)
	tx := orders.Begin()
	tx.Insert(&placed{"shop", "1", "tea"})
	check.OK(t, account.EnqueueIn(tx.Transaction, "functions", map[string]int{"n": 1}))
	check.OK(t, account.EnqueueIn(tx.Transaction, "plain", map[string]int{"n": 1}, workers.EncodedAs(workers.NoEncoding)))
	check.OK(t, tx.Submit(t.Context()))
	_, err = account.SweepOutbox(t.Context(), "Orders")
	check.OK(t, err)
	for queue, want := range map[string]string{"functions": "eyJuIjoxfQ==", "plain": `{"n":1}`} {
		got, err := account.Queues.NewQueueClient(queue).PeekMessage(t.Context(), nil)
		check.OK(t, err)
		if len(got.Messages) != 1 || *got.Messages[0].MessageText != want {
			t.Errorf("%s has %d messages: %+v, want %s", queue, len(got.Messages), got.Messages, want)
		}
	}
}

func TestOutboxMistakes(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	orders, err := tables.New[placed](account.Tables, "Orders", tables.CreateIfMissing())
	check.OK(t, err)
	tx := orders.Begin()
	for says, err := range map[string]error{
		"not one of a handler":  workers.EnqueueIn(t.Context(), tx.Transaction, "placed", "x"),
		"queue name":            account.EnqueueIn(tx.Transaction, "No", "x"),
		"at most 46080":         account.EnqueueIn(tx.Transaction, "placed", strings.Repeat("x", 45<<10+1)),
		"a delay of":            account.EnqueueIn(tx.Transaction, "placed", "x", workers.After(-1)),
		"a time to live":        account.EnqueueIn(tx.Transaction, "placed", "x", workers.TimeToLive(0)),
		"no queue endpoint":     (&workers.Storage{}).EnqueueIn(tx.Transaction, "placed", "x"),
		"unsupported type":      account.EnqueueIn(tx.Transaction, "placed", make(chan int)),
		"options of EnqueueJob": account.EnqueueIn(tx.Transaction, "placed", "x", workers.Unique("k")),
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	check.OK(t, account.EnqueueIn(tx.Transaction, "placed", "x"))
	if err := tx.Submit(t.Context()); !errors.Is(err, tables.ErrEmptyTransaction) {
		t.Errorf("a transaction of a message alone: %v", err)
	}
	account.RequireEmpty(outboxQueue)
}
