// Package saga runs an order over a table, a queue and a blob as a durable workflow. The order takes effect completely
// or not at all.
//
// The three services have no common transaction. Each step has a compensation that reverts it; when a step fails
// permanently, the compensations of the steps before it run in reverse order. A successful order is then moved to
// another table, as an eventually consistent transaction: first copied, then marked as moved. The workflow survives any
// crash, so both always complete.
//
// An activity can run more than once, and a later run can start after the workflow has continued or reverted the step.
// So a step has no effect the second time, and a compensation does not delete data but marks it: a late "reserve" finds
// the mark and stops.
package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// Order is the input of the workflow "order".
type Order struct {
	ID   string
	Item string
	// Refused makes the last step fail permanently, so that the order is compensated.
	Refused bool
}

// Payment is a message of the payments queue. Key is the same in each copy of it: the receiver counts a key once.
type Payment struct {
	Key, Order, Kind string
}

// Saga has the resources in which orders take effect.
type Saga struct {
	Storage *workers.Storage
	// Orders has the orders in progress, Archive those that are done; Payments is a queue, Receipts a container.
	Orders, Archive, Payments, Receipts string
}

// Register adds the workflow "order" and its activities to an app with Config.Durable.
func (s *Saga) Register(app *workers.App) {
	durable.Register(app, "order", place)
	durable.Register(app, "archive", archive)
	for name, step := range map[string]func(context.Context, Order) error{
		"reserve": s.reserve, "release": s.mark("released"), "charge": s.pay("charge"), "refund": s.pay("refund"),
		"receipt": s.receipt, "withdraw": s.withdraw,
		"copy": s.copy, "close": s.mark("archived"),
	} {
		workers.Activity(app, name, func(ctx context.Context, o Order) (struct{}, error) { return struct{}{}, step(ctx, o) })
	}
}

// steps are those of an order, each with its compensation.
var steps = []struct{ do, undo string }{{"reserve", "release"}, {"charge", "refund"}, {"receipt", "withdraw"}}

// retry is for transient errors, such as an unreachable service.
var retry = durable.WithRetry(
	durable.RetryPolicy{MaxAttempts: 3, InitialRetryInterval: 100 * time.Millisecond, BackoffCoefficient: 2})

// place is the workflow of an order. It returns "done" or "compensated".
func place(ctx *durable.Context, o Order) (string, error) {
	for i, step := range steps {
		_, err := durable.Call[struct{}](ctx, step.do, o, retry)
		if err == nil {
			continue
		}
		for ; i >= 0; i-- { // The failed step may have taken effect: its compensation runs first.
			if _, err := durable.Call[struct{}](ctx, steps[i].undo, o); err != nil {
				return "", err // An operator must resolve this: lazuli durable rewind continues from here.
			}
		}
		return "compensated", nil
	}
	return durable.CallWorkflow[string](ctx, "archive", o)
}

// archive moves a finished order: it is copied first, and closed where it was then.
func archive(ctx *durable.Context, o Order) (string, error) {
	for _, step := range []string{"copy", "close"} {
		if _, err := durable.Call[struct{}](ctx, step, o, retry); err != nil {
			return "", err
		}
	}
	return "done", nil
}

func hasCode(err error, code string) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && r.ErrorCode == code
}

const row = "order"

// Reserved is the state, in the table of orders, of an order in progress.
const Reserved = "reserved"

func (s *Saga) reserve(ctx context.Context, o Order) error {
	text, err := json.Marshal(map[string]any{"PartitionKey": o.ID, "RowKey": row, "Item": o.Item, "State": Reserved})
	if err != nil {
		return err
	}
	if _, err = s.Storage.Tables.NewClient(s.Orders).AddEntity(ctx, text, nil); hasCode(err, "EntityAlreadyExists") {
		return nil // By an earlier attempt.
	}
	return err
}

// mark ends a reservation, even one that does not exist.
func (s *Saga) mark(state string) func(context.Context, Order) error {
	return func(ctx context.Context, o Order) error {
		text, err := json.Marshal(map[string]any{"PartitionKey": o.ID, "RowKey": row, "Item": o.Item, "State": state})
		if err != nil {
			return err
		}
		_, err = s.Storage.Tables.NewClient(s.Orders).UpsertEntity(ctx, text,
			&aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace})
		return err
	}
}

// pay puts a message. A queue does not detect duplicates; the receiver does, by the key.
func (s *Saga) pay(kind string) func(context.Context, Order) error {
	return func(ctx context.Context, o Order) error {
		text, err := json.Marshal(Payment{Key: o.ID + "/" + kind, Order: o.ID, Kind: kind})
		if err != nil {
			return err
		}
		_, err = s.Storage.Queues.NewQueueClient(s.Payments).EnqueueMessage(ctx, string(text), nil)
		return err
	}
}

func (s *Saga) receiptOf(o Order) *blockblob.Client {
	return s.Storage.Blobs.ServiceClient().NewContainerClient(s.Receipts).NewBlockBlobClient(o.ID + ".txt")
}

func (s *Saga) receipt(ctx context.Context, o Order) error {
	if o.Refused {
		return fmt.Errorf("order %s is refused", o.ID)
	}
	_, err := s.receiptOf(o).UploadBuffer(ctx, []byte("Sold: "+o.Item),
		&blockblob.UploadBufferOptions{AccessConditions: &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}})
	if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		return nil
	}
	return err
}

// withdraw replaces the receipt by an empty blob.
func (s *Saga) withdraw(ctx context.Context, o Order) error {
	_, err := s.receiptOf(o).UploadBuffer(ctx, nil, nil)
	return err
}

// copy copies the order to the archive. An order that is no longer reserved has been copied before.
func (s *Saga) copy(ctx context.Context, o Order) error {
	got, err := s.Storage.Tables.NewClient(s.Orders).GetEntity(ctx, o.ID, row, nil)
	if err != nil {
		return err
	}
	var e struct{ State string }
	if err := json.Unmarshal(got.Value, &e); err != nil || e.State != Reserved {
		return err
	}
	_, err = s.Storage.Tables.NewClient(s.Archive).UpsertEntity(ctx, got.Value, nil)
	return err
}
