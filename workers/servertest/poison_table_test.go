package servertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
)

// A poisoned change of a table has its reason, whatever the trigger, and is handled after it was moved back.
func TestPoisonedChangeMovesBack(t *testing.T) {
	t.Parallel()
	lazuliOnly(t)
	const shared = "webjobs-tabletrigger-poison"
	for name, options := range map[string][]workers.TableOption{"shared": nil, "in order": {workers.InOrder()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := testaccount.Open(t)
			table := a.Table("Moves")
			var broken atomic.Bool
			broken.Store(true)
			var got seen
			app := newApp(a)
			app.Table(table, func(ctx context.Context, c workers.TableChange) error {
				if broken.Load() {
					return errors.New("broken")
				}
				got.add(fmt.Sprintf("%s %s", c.Change, c.RowKey))
				return nil
			}, append([]workers.TableOption{workers.WithMaxDequeueCount(2),
				workers.WithMaxPollingInterval(100 * time.Millisecond)}, options...)...)
			start(t, app)
			upsert(t, a.Tables.NewClient(table), "p", "r", 1)
			eventually(t, "the change is poisoned", func() bool { return app.Stats()[0].Poisoned == 1 })
			var record *poison.Record
			eventually(t, "the reason is recorded", func() bool {
				for r, err := range poison.All(t.Context(), a.Tables, shared) {
					if err != nil {
						t.Fatal(err)
					}
					record = r
				}
				return record != nil
			})
			if record.Reason == "" || record.LastError != "broken" || record.Attempts != 2 || record.Function != table ||
				record.Source == "" {
				t.Errorf("%+v", record)
			}
			broken.Store(false)
			f := queuetool.Filter{Reasons: queuetool.NewReasons(a.Tables, shared)}
			if n, err := queuetool.RequeueToSources(t.Context(), a.Queues, shared, f, 0); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			eventually(t, "the change is handled", func() bool { return got.has("insert r") })
			for r := range poison.All(t.Context(), a.Tables, shared) {
				t.Errorf("the record is left: %+v", r)
			}
		})
	}
}

// The handler of a poison queue gets the reason, and the record goes when it has handled the message.
func TestPoisonHandlerGetsTheReason(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	queue := a.Queue("reasons")
	var got seen
	app := newApp(a)
	app.Queue("work", func(ctx context.Context, m workers.QueueMessage) error {
		return workers.Permanent(errors.New("no such customer"))
	}, workers.WithQueueName(queue))
	app.Queue("poisoned", func(ctx context.Context, m workers.QueueMessage) error {
		ic, _ := workers.FromContext(ctx)
		if ic.TriggerMetadata["PoisonReason"] == "" {
			return errors.New("not recorded yet") // The record is written after the message.
		}
		got.add(ic.TriggerMetadata["PoisonLastError"] + "; " + ic.TriggerMetadata["PoisonFunction"] + "; " +
			ic.TriggerMetadata["PoisonAttempts"])
		return nil
	}, workers.WithQueueName(queue+"-poison"))
	start(t, app)
	send(t, a, queue, "x")
	eventually(t, "the poisoned message is handled", func() bool { return got.has("no such customer; work; 1") })
	eventually(t, "the record is removed", func() bool {
		for range poison.All(t.Context(), a.Tables, queue+"-poison") {
			return false
		}
		return true
	})
}
