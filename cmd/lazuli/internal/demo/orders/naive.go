package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/saga"
)

// Mistakes are those that a worker without the pattern makes. A step that the pattern has too is where it is killed.
var Mistakes = []rig.Mistake{
	{Demonstration: "saga", Name: "no-workflow",
		Does:  "deletes the message, then reserves, charges, writes the receipt, moves the order",
		Point: string(pointNaiveCharged), Shows: rig.DamageHalf, Run: naive(orderWithoutWorkflow),
		Why: "nothing remembers which steps were done: the customer is charged, and there is no order"},
	{Demonstration: "saga", Name: "from-the-beginning",
		Does:  "does all steps again when the message comes again, and the payments have no key",
		Point: string(pointNaiveCharged), Shows: rig.DamageDoubled, From: rig.DamageChanged,
		Says: "charged more than once",
		Run:  naive(orderFromTheBeginning),
		Why:  "the killed worker had charged, and the next one charges again"},
	{Demonstration: "saga", Name: "no-compensation", Always: true,
		Does:  "gives up an order that is refused at the last step",
		Point: string(pointNaiveCharged), Shows: rig.DamageHalf, Run: naive(orderWithoutCompensation),
		Why: "what the steps before the refusal did stays: reserved and charged, without a receipt"},
}

// pointNaiveCharged is the step after the charge of an order that is placed without a workflow.
var pointNaiveCharged = fault.Declare("naive-order/after-charge")

// RunNaive runs a mistake of the saga: orders are placed by the handler of a message, not by a workflow. Teach calls
// it.
func RunNaive(ctx context.Context, c rig.Config) (*rig.Report, error) {
	return rig.Demonstrate(ctx, c, func(storage *workers.Storage, id string) (rig.Pattern, error) {
		if storage.Queues == nil || storage.Tables == nil || storage.Blobs == nil {
			return nil, errors.New("the connection string must name a queue, a table and a blob endpoint")
		}
		queue := "lazuli-demo-" + id
		p := &naivePattern{queue: queue, orders: map[rig.Key]saga.Order{}, paid: map[string]map[string]int{},
			effects: run{storage: storage, settings: Settings{Orders: "LazuliDemoOrders" + id,
				Archive: "LazuliDemoSold" + id, Payments: paymentsOf(queue), Receipts: queue}}}
		p.effects.saga = Of(storage, p.effects.settings)
		return p, nil
	})
}

// paymentsOf is the queue of payments.
func paymentsOf(queue string) string { return queue + "-payments" }

// naivePattern places orders by messages. What they leave is counted as that of the saga.
type naivePattern struct {
	effects run
	queue   string
	orders  map[rig.Key]saga.Order
	paid    map[string]map[string]int // the number of payments, by order and kind
}

func (p *naivePattern) Points() []string                        { return []string{string(pointNaiveCharged)} }
func (p *naivePattern) HoldUp() string                          { return string(pointNaiveCharged) }
func (p *naivePattern) Concurrency() int                        { return 4 }
func (p *naivePattern) Kind(rig.Key) string                     { return "order" }
func (p *naivePattern) Passes(_ string, n int) int              { return n }
func (p *naivePattern) Plan(k rig.Kill) string                  { return k.String() }
func (p *naivePattern) Converged(context.Context) (bool, error) { return true, nil }
func (p *naivePattern) Create(ctx context.Context) error        { return p.effects.saga.Create(ctx) }
func (p *naivePattern) Remove(ctx context.Context) error        { return p.effects.remove(ctx) }
func (p *naivePattern) Message(k rig.Key) ([]byte, error)       { return json.Marshal(p.orders[k]) }

// Reset leaves the orders: a handler that begins again passes its step again.
func (p *naivePattern) Reset(context.Context, []rig.Key) error { return nil }
func (p *naivePattern) Conclude(context.Context, *rig.Run) (problems []string, summary string, err error) {
	return nil, "", nil
}
func (p *naivePattern) Settings() rig.WorkerSettings {
	return rig.WorkerSettings{Queue: p.queue, Current: p.effects.settings.Orders, Archive: p.effects.settings.Archive,
		Container: p.effects.settings.Receipts}
}

func (p *naivePattern) Words() rig.Words {
	return rig.Words{Item: "orders, a third of which is refused at the last step",
		Done:   "complete, or reverted completely",
		NotYet: "nothing of it", Half: "some of its steps have taken effect, and not the others",
		Changed: "charged more than once"}
}

func (p *naivePattern) Load(_ context.Context, r *rig.Run) (keys []rig.Key, err error) {
	for i := range r.Records {
		o := saga.Order{ID: fmt.Sprintf("order-%02d", i), Item: "tea", Refused: i%3 == 2}
		k := rig.Key{Partition: "orders", Row: o.ID}
		p.orders[k] = o
		keys = append(keys, k)
	}
	r.Report.Records, r.Report.Old = len(keys), len(keys)
	r.Say.Line("%d orders are to be placed", len(keys))
	return keys, nil
}

// Census says of each order which of its steps have taken effect.
func (p *naivePattern) Census(ctx context.Context, keys []rig.Key, _ bool) (c rig.Census, err error) {
	reserved, err1 := p.effects.entities(ctx, p.effects.settings.Orders)
	sold, err2 := p.effects.entities(ctx, p.effects.settings.Archive)
	receipts, err3 := p.effects.receipts(ctx)
	if err := errors.Join(err1, err2, err3, p.collect(ctx)); err != nil {
		return c, err
	}
	for _, k := range keys {
		o := p.orders[k]
		charged, refunded := p.paid[o.ID]["charge"], p.paid[o.ID]["refund"]
		// In order: reserved, charged, receipt, sold, refunded. The two allowed ends are those of the pattern: charged,
		// with a receipt and sold without a reservation; or charged and refunded and nothing else.
		is := [5]bool{reserved[o.ID], charged > 0, receipts[o.ID], sold[o.ID], refunded > 0}
		switch {
		// Twice charged is damage even if the rest is right, so it comes first.
		case charged > 1 || refunded > 1:
			c.Changed = append(c.Changed, k)
		case is == [5]bool{}:
			c.Kept = append(c.Kept, k)
		case !o.Refused && is == [5]bool{1: true, 2: true, 3: true}, o.Refused && is == [5]bool{1: true, 4: true}:
			c.Moved = append(c.Moved, k)
		default:
			c.Both = append(c.Both, k)
		}
	}
	return c, nil
}

// collect receives the payments, as one does who counts each message.
func (p *naivePattern) collect(ctx context.Context) error {
	q := p.effects.storage.Queues.NewQueueClient(p.effects.settings.Payments)
	for {
		got, err := q.DequeueMessages(ctx,
			&azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(32)), VisibilityTimeout: to.Ptr(int32(60))})
		if err != nil || len(got.Messages) == 0 {
			return err
		}
		for _, m := range got.Messages {
			var pay saga.Payment
			if err := json.Unmarshal([]byte(*m.MessageText), &pay); err != nil {
				return err
			}
			if p.paid[pay.Order] == nil {
				p.paid[pay.Order] = map[string]int{}
			}
			p.paid[pay.Order][pay.Kind]++
			// Deleted after it is counted. The harness is the only receiver here and is not killed, so no payment counts
			// twice by this.
			if _, err := q.DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil); err != nil {
				return err
			}
		}
	}
}

// orderPlacer places orders by one request after the other.
type orderPlacer struct {
	storage *workers.Storage
	s       rig.WorkerSettings
}

// naive makes a worker that places the order of each message by do.
func naive(do func(context.Context, orderPlacer, workers.QueueMessage, saga.Order) error) rig.VariantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
		workers.Queue(app, "order", func(ctx context.Context, m *workers.Message[saga.Order]) error {
			return do(ctx, orderPlacer{storage, s}, m.Raw, m.Body)
		}, s.Options()...)
		return app.Run(ctx)
	}
}

// state writes the order's row in a table.
func (v orderPlacer) state(ctx context.Context, table string, o saga.Order, state string) error {
	t, err := tables.New[tables.Entity](v.storage.Tables, table)
	if err != nil {
		return err
	}
	return t.InsertOrReplace(ctx, &tables.Entity{PartitionKey: o.ID, RowKey: "order",
		Properties: map[string]any{"Item": o.Item, "State": state}})
}

func (v orderPlacer) pay(ctx context.Context, o saga.Order, kind string) error {
	text, err := json.Marshal(saga.Payment{Key: o.ID + "/" + kind, Order: o.ID, Kind: kind})
	if err == nil {
		_, err = v.storage.Queues.NewQueueClient(paymentsOf(v.s.Queue)).EnqueueMessage(ctx, string(text), nil)
	}
	return err
}

// place does the steps of an order in turn. refused handles a refusal at the last one.
func (v orderPlacer) place(ctx context.Context, o saga.Order, refused func() error) error {
	if err := v.state(ctx, v.s.Current, o, saga.Reserved); err != nil {
		return err
	}
	if err := v.pay(ctx, o, "charge"); err != nil {
		return err
	}
	if err := fault.Point(pointNaiveCharged); err != nil {
		return err
	}
	if o.Refused {
		return refused()
	}
	if _, err := v.storage.Blobs.UploadBuffer(ctx, v.s.Container, o.ID+".txt", []byte("Sold: "+o.Item), nil); err != nil {
		return err
	}
	if err := v.state(ctx, v.s.Archive, o, saga.Reserved); err != nil {
		return err
	}
	return v.state(ctx, v.s.Current, o, "archived")
}

// revert reverts a refused order.
func (v orderPlacer) revert(ctx context.Context, o saga.Order) error {
	if err := v.pay(ctx, o, "refund"); err != nil {
		return err
	}
	return v.state(ctx, v.s.Current, o, "released")
}

// orderWithoutWorkflow deletes the message first: nothing remembers at which step the order is.
func orderWithoutWorkflow(ctx context.Context, v orderPlacer, m workers.QueueMessage, o saga.Order) error {
	if err := rig.Acknowledge(ctx, v.storage, v.s.Queue, m); err != nil {
		return err
	}
	return v.place(ctx, o, func() error { return v.revert(ctx, o) })
}

// orderFromTheBeginning does all steps again when the message comes again.
func orderFromTheBeginning(ctx context.Context, v orderPlacer, _ workers.QueueMessage, o saga.Order) error {
	return v.place(ctx, o, func() error { return v.revert(ctx, o) })
}

// orderWithoutCompensation gives a refused order up, and leaves what was done for it.
func orderWithoutCompensation(ctx context.Context, v orderPlacer, _ workers.QueueMessage, o saga.Order) error {
	return v.place(ctx, o, func() error { return nil })
}
