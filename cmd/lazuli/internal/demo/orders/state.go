package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/workers/roles/saga"
)

// partitions is the number of partitions of the demonstration's hub.
const partitions = 4

// disturb does what else can happen when a process has died: messages are delivered twice, and leases are taken.
func (r *run) disturb(ctx context.Context) error {
	return errors.Join(r.duplicate(ctx), r.breakLeases(ctx))
}

// duplicate puts a copy of messages that are visible now.
func (r *run) duplicate(ctx context.Context) error {
	hub := strings.ToLower(r.settings.Hub)
	// All queues of the hub: work items and the messages to orchestrations may both come twice.
	names := []string{hub + "-workitems"}
	for i := range partitions {
		names = append(names, fmt.Sprintf("%s-control-%02d", hub, i))
	}
	for _, name := range names {
		q := r.storage.Queues.NewQueueClient(name)
		// Peek leaves the originals visible with their receipts; a dequeue would hide the message that is to compete with
		// its copy.
		got, err := q.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(32))})
		if err != nil {
			return fmt.Errorf("look into %s: %w", name, err)
		}
		for i, m := range got.Messages {
			// A third: enough that each kind of message is copied, and few enough that the copies do not become the load.
			if i%3 != 0 {
				continue
			}
			if _, err := q.EnqueueMessage(ctx, *m.MessageText,
				&azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr(int32(-1))}); err != nil {
				return fmt.Errorf("copy a message of %s: %w", name, err)
			}
		}
	}
	return nil
}

func (r *run) leases() *container.Client {
	return r.storage.Blobs.ServiceClient().NewContainerClient(strings.ToLower(r.settings.Hub) + "-leases")
}

func (r *run) breakLeases(ctx context.Context) error {
	for i := range partitions {
		c, err := lease.NewBlobClient(
			r.leases().NewBlobClient(fmt.Sprintf("default/%s-control-%02d", strings.ToLower(r.settings.Hub), i)), nil)
		if err != nil {
			return err
		}
		_, err = c.BreakLease(ctx, &lease.BlobBreakOptions{BreakPeriod: to.Ptr(int32(0))})
		if err != nil && !bloberror.HasCode(err, bloberror.LeaseNotPresentWithLeaseOperation) {
			return fmt.Errorf("take the lease of partition %d: %w", i, err)
		}
	}
	return nil
}

// census says of each order of a round whether it took effect wholly, or not at all.
func (r *run) census(ctx context.Context, prefix string, row *Row) error {
	// Read from tables, queue and blobs, not from the history: a step that the history has and the store does not is what
	// is searched for.
	orders, err := r.entities(ctx, r.settings.Orders)
	if err != nil {
		return err
	}
	archived, err := r.entities(ctx, r.settings.Archive)
	if err != nil {
		return err
	}
	receipts, err := r.receipts(ctx)
	if err != nil {
		return err
	}
	if err := r.collectPayments(ctx); err != nil {
		return err
	}
	for i := row.first; i < row.first+row.Orders; i++ {
		id := fmt.Sprint(prefix, i)
		instance, err := r.client.Get(ctx, id)
		if err != nil {
			return fmt.Errorf("order %s: %w", id, err)
		}
		paid := r.payments[id]
		refused := i%3 == 2
		// The whole state as one text, compared with the two texts that are allowed. Anything between them is half, and
		// prints as it is.
		is := fmt.Sprintf("%s %s: reserved %t, archived %t, receipt %t, charged %t, refunded %t", id, instance.Output,
			orders[id], archived[id], receipts[id], paid["charge"], paid["refund"])
		switch is {
		case fmt.Sprintf(`%s "done": reserved false, archived true, receipt true, charged true, refunded false`, id):
			row.Done++
			refused = !refused
		case fmt.Sprintf(`%s "compensated": reserved false, archived false, receipt false, charged true, refunded true`, id):
			row.Compensated++
		default:
			row.Half = append(row.Half, is)
			continue
		}
		// A whole outcome can be the wrong one: a refused order that is done, or a compensated one that was not refused.
		if !refused {
			row.Half = append(row.Half, is+", and should not be")
		}
	}
	return nil
}

// receipts returns the orders that have a receipt.
func (r *run) receipts(ctx context.Context) (map[string]bool, error) {
	receipts := map[string]bool{}
	for pager := r.storage.Blobs.NewListBlobsFlatPager(r.settings.Receipts, nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, b := range page.Segment.BlobItems {
			if *b.Properties.ContentLength > 0 { // An empty one was withdrawn.
				receipts[strings.TrimSuffix(*b.Name, ".txt")] = true
			}
		}
	}
	return receipts, nil
}

func (r *run) entities(ctx context.Context, table string) (map[string]bool, error) {
	keys := map[string]bool{}
	pager := r.storage.Tables.NewClient(table).NewListEntitiesPager(
		&aztables.ListEntitiesOptions{Filter: to.Ptr("State eq '" + saga.Reserved + "'"), Select: to.Ptr("PartitionKey")})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, text := range page.Entities {
			var e struct{ PartitionKey string }
			if err := json.Unmarshal(text, &e); err != nil {
				return nil, err
			}
			keys[e.PartitionKey] = true
		}
	}
	return keys, nil
}

// collectPayments receives the payments. As any receiver of a queue, it may get one twice, and counts each key once.
func (r *run) collectPayments(ctx context.Context) error {
	q := r.storage.Queues.NewQueueClient(r.settings.Payments)
	for {
		got, err := q.DequeueMessages(ctx,
			&azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(32)), VisibilityTimeout: to.Ptr(int32(60))})
		if err != nil {
			return err
		}
		if len(got.Messages) == 0 {
			return nil
		}
		for _, m := range got.Messages {
			var p saga.Payment
			if err := json.Unmarshal([]byte(*m.MessageText), &p); err != nil {
				return err
			}
			if r.payments[p.Order] == nil {
				r.payments[p.Order] = map[string]bool{}
			}
			// A key, not a counter: payments are delivered at least once, and their key makes them idempotent for the
			// receiver.
			r.payments[p.Order][p.Kind] = true
			if _, err := q.DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil); err != nil {
				return err
			}
		}
	}
}

func (r *run) remove(ctx context.Context) error {
	_, err1 := r.storage.Tables.DeleteTable(ctx, r.settings.Orders, nil)
	_, err2 := r.storage.Tables.DeleteTable(ctx, r.settings.Archive, nil)
	_, err3 := r.storage.Queues.DeleteQueue(ctx, r.settings.Payments, nil)
	_, err4 := r.storage.Blobs.DeleteContainer(ctx, r.settings.Receipts, nil)
	return errors.Join(err1, err2, err3, err4)
}
