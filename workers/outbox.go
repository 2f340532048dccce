package workers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/tabletrigger"
	"github.com/lazuli-storage/lazuli/workers/internal/timertrigger"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// The moments around the effects of an outbox: those of the program that writes, then those of the role that delivers.
var (
	pointOutboxReminded  = fault.Declare("outbox/after-reminder")
	pointOutboxCommitted = fault.Declare("outbox/after-commit")
	pointOutboxShown     = fault.Declare("outbox/after-show")
	pointOutboxRead      = fault.Declare("outbox/after-read")
	pointOutboxPut       = fault.Declare("outbox/after-put")
	pointOutboxDeleted   = fault.Declare("outbox/after-delete")
)

// outboxQueue is the queue of reminders: which partitions of which tables may have messages to deliver.
const outboxQueue = "lazuli-outbox"

// outboxPrefix begins the RowKeys of messages in a table, and outboxEnd is the first RowKey behind them.
const (
	outboxPrefix = "lazuli-outbox-"
	outboxEnd    = "lazuli-outbox."
)

// outboxHidden is the time for which a reminder is hidden while its transaction is sent. If the sender dies, it
// appears after that, and the rows decide. outboxLeeway is for the difference of clocks: a transaction that is not
// committed that long before is given up.
const (
	outboxHidden = 30 * time.Second
	outboxLeeway = 5 * time.Second
)

// EnqueueIn puts a message into a queue together with the changes of a transaction: both happen, or neither. ctx is a
// handler's context; see [Storage.EnqueueIn].
func EnqueueIn(ctx context.Context, tx *tables.Transaction, queue string, body any, options ...EnqueueOption) error {
	storage, ok := StorageOf(ctx)
	if !ok {
		return outside("EnqueueIn")
	}
	return storage.EnqueueIn(tx, queue, body, options...)
}

// EnqueueIn adds a message to a transaction of a table of the same account, for a queue. Submit writes it as an entity
// of the transaction's partition, and an app with [App.Outbox] puts it into the queue: at least once, and those of one
// partition in the order in which they were committed. A receiver must be idempotent, as every handler.
//
//	tx := orders.Begin()
//	tx.Insert(&order)
//	err := storage.EnqueueIn(tx.Transaction, "invoices", Invoice{Order: order.ID})
//	err = tx.Submit(ctx)
//
// The body and the options are those of [Storage.Enqueue]: the message is in base64, as queue triggers of Azure
// Functions read it by default (messageEncoding in host.json), or with EncodedAs(NoEncoding) in plain text. Its time to
// live and delay begin when it is put. It is no job: options such as [Unique] are refused. A body has at most 45 KiB.
// The entity's RowKey begins with "lazuli-outbox-", and is deleted once the message is put. A transaction has at most
// 100 changes, messages included, and must change something else.
func (s *Storage) EnqueueIn(tx *tables.Transaction, queue string, body any, options ...EnqueueOption) error {
	settings := enqueueSettings{encoding: Base64, ttl: 7 * 24 * time.Hour}
	for _, o := range options {
		o(&settings)
	}
	text, err := encoded(body)
	if err == nil {
		err = errors.Join(settings.validate(), settings.refuseJob(), queues.ValidateName(queue))
	}
	switch {
	case err != nil:
		return fmt.Errorf("workers: enqueue in a transaction: %w", err)
	case s.Queues == nil:
		return errors.New("workers: enqueue in a transaction: the connection string has no queue endpoint")
	case len(text) > maxOutboxBody:
		return fmt.Errorf("workers: enqueue in a transaction: the body has %d bytes; at most %d are allowed", len(text),
			maxOutboxBody)
	}
	companion := tx.Accompany(func() tables.Companion { return &outbox{storage: s} })
	box, ok := companion.(*outbox)
	if !ok {
		return errors.New("workers: enqueue in a transaction: the transaction has another companion")
	}
	box.messages = append(box.messages, outboxMessage{queue, text, settings})
	return nil
}

// maxOutboxBody is what a message of 64 KiB holds in base64, less a traceparent.
const maxOutboxBody = 45 << 10

// outboxMessage is a message of a transaction.
type outboxMessage struct {
	queue    string
	body     []byte
	settings enqueueSettings
}

// outbox is the companion of a transaction with messages. Its order of steps lets no crash lose a message:
//
//  1. a reminder is put, hidden: it names the table and the partition;
//  2. the transaction is committed, with the messages as entities;
//  3. the reminder is shown, and a role delivers.
//
// After a crash before 2, the reminder finds nothing. After one behind it, it appears by itself. A commit that takes so
// long that the reminder may have been handled before is given up, and if its outcome is not known, reminded again.
type outbox struct {
	storage  *Storage
	messages []outboxMessage
}

// outboxReminder is the body of a reminder.
type outboxReminder struct{ Table, PartitionKey string }

// Submit implements tables.Companion.
func (o *outbox) Submit(ctx context.Context, table, partitionKey string,
	send func(ctx context.Context, insert ...*tables.Entity) error) error {
	var rows []*tables.Entity
	for _, m := range o.messages {
		rows = append(rows, m.row(ctx, partitionKey))
	}
	reminders := queues.New(o.storage.Queues.NewQueueClient(outboxQueue))
	text, err := json.Marshal(outboxReminder{table, partitionKey})
	if err != nil {
		return err
	}
	began := time.Now()
	reminder, err := timertrigger.PutHidden(ctx, reminders.Client, string(text), outboxHidden, -1)
	if err != nil {
		return fmt.Errorf("workers: remind of the messages of a transaction: %w", err)
	}
	if err := fault.Point(pointOutboxReminded); err != nil {
		return err
	}
	// A commit behind this time could come after the reminder was handled and had found nothing.
	limited, cancel := context.WithDeadline(ctx, began.Add(outboxHidden-outboxLeeway))
	defer cancel()
	failed := send(limited, rows...)
	if failed != nil && refusedTransaction(failed) {
		_ = reminders.Delete(ctx, reminder) // If it stays, it finds nothing.
		return failed
	}
	if err := fault.Point(pointOutboxCommitted); err != nil {
		return err
	}
	// The transaction is committed, or its outcome is not known: the reminder is needed even if the caller gives up.
	show := context.WithoutCancel(ctx)
	if time.Since(began) < outboxHidden-outboxLeeway {
		// It appears by itself if this fails.
		if _, err := o.storage.Queues.NewQueueClient(outboxQueue).UpdateMessage(show, reminder.ID, reminder.Receipt,
			string(text), &azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr(int32(0))}); err != nil {
			slog.Default().Warn("cannot show the reminder of a transaction's messages; it appears by itself", "table", table,
				"err", sdkerr.Short(err))
		}
	} else if _, err := timertrigger.PutHidden(show, reminders.Client, string(text), 0, -1); err != nil {
		return errors.Join(failed, fmt.Errorf("workers: the messages of a transaction may be late: %w", err))
	}
	return errors.Join(failed, fault.Point(pointOutboxShown))
}

// refusedTransaction reports whether the service has answered that it did not commit. Any other error leaves that open.
func refusedTransaction(err error) bool {
	var e *tables.TransactionError
	return errors.As(err, &e)
}

// outboxSerial numbers the messages of this process: the service gives the entities of a transaction one time.
var outboxSerial atomic.Uint64

// row returns the entity of a message.
func (m outboxMessage) row(ctx context.Context, partitionKey string) *tables.Entity {
	s := m.settings
	return &tables.Entity{PartitionKey: partitionKey,
		RowKey: fmt.Sprintf("%s%020d-%012d-%s", outboxPrefix, time.Now().UnixNano(), outboxSerial.Add(1), rand.Text()[:8]),
		Properties: map[string]any{"Queue": m.queue, "Body": withTraceParent(m.body, TraceParent(ctx)),
			"Encoding": string(s.encoding), "DelaySeconds": int64(queues.WholeSeconds(s.after) / time.Second),
			"TimeToLiveSeconds": s.ttlSeconds()}}
}

// ttlSeconds is the time to live as in the row: -1 for a message that does not expire.
func (s enqueueSettings) ttlSeconds() int64 {
	if s.ttl < 0 {
		return -1
	}
	return int64(queues.WholeSeconds(s.ttl) / time.Second)
}

// Outbox registers the role that delivers the messages of [EnqueueIn] on the account of a connection. Several instances
// and several apps may have it. Its function is called "lazuli-outbox", as its queue.
func (a *App) Outbox(options ...QueueOption) *Function {
	options = append([]QueueOption{WithQueueName(outboxQueue), WithMessageEncoding(NoEncoding),
		// Two that deliver a partition at the same time would put its messages twice.
		ConcurrencyPerKey(func(r outboxReminder) string { return r.Table + "/" + r.PartitionKey }, 1),
		// A reminder is tried until it succeeds: its messages are in no other place.
		WithMaxDequeueCount(1 << 30), WithRetry(Exponential(time.Second, time.Minute))}, options...)
	return Queue(a, outboxQueue, func(ctx context.Context, m *Message[outboxReminder]) error {
		storage, ok := StorageOf(ctx)
		if !ok || storage.Tables == nil {
			return Permanent(errors.New("workers: the outbox needs a table endpoint"))
		}
		n, err := storage.deliver(ctx, m.Body.Table, m.Body.PartitionKey)
		if n > 0 {
			a.wakeAll()
		}
		return err
	}, options...)
}

// wakeAll makes all functions look into their queues.
func (a *App) wakeAll() {
	for _, f := range a.functions {
		if f.core.Trigger == trigger.QueueTrigger {
			a.Wake(f.core.Settings.QueueName)
		}
	}
}

// SweepOutbox delivers the messages of all partitions of a table, and returns how many there were. It reads the whole
// table. No crash makes it necessary. It is for a table whose queue of reminders was deleted or restored from a backup.
func (s *Storage) SweepOutbox(ctx context.Context, table string) (delivered int, err error) {
	rows, err := s.outboxRows(ctx, table, "")
	if err != nil {
		return 0, err
	}
	partitions := map[string]bool{}
	for _, r := range rows {
		if partitions[r.PartitionKey] {
			continue
		}
		// The messages of a partition are delivered together, in the order of their commits.
		partitions[r.PartitionKey] = true
		n, err := s.deliver(ctx, table, r.PartitionKey)
		if delivered += n; err != nil {
			return delivered, err
		}
	}
	return delivered, nil
}

// deliver puts the messages of a partition into their queues, in the order in which they were committed, and returns
// how many. Each is deleted before the next one is put: of several that deliver, each puts all messages before a
// later one, so that the first copy of each comes in order.
func (s *Storage) deliver(ctx context.Context, table, partitionKey string) (delivered int, err error) {
	rows, err := s.outboxRows(ctx, table, partitionKey)
	if err != nil {
		return 0, err
	}
	if err := fault.Point(pointOutboxRead); err != nil {
		return 0, err
	}
	client := s.Tables.NewClient(table)
	for _, r := range rows {
		queue, body, options, err := outboxContent(&r)
		if err != nil {
			return delivered, fmt.Errorf("workers: the message (%q, %q) of table %s: %w", r.PartitionKey, r.RowKey, table, err)
		}
		if err := s.Enqueue(ctx, queue, body, options...); err != nil {
			return delivered, err
		}
		// Counted as soon as it is put: a failure of the delete means a second copy, not a message less.
		delivered++
		if err := fault.Point(pointOutboxPut); err != nil {
			return delivered, err
		}
		if _, err := client.DeleteEntity(ctx, r.PartitionKey, r.RowKey, nil); err != nil &&
			!tabletrigger.HasTableCode(err, aztables.ResourceNotFound) {
			return delivered, fmt.Errorf("workers: delete a message that was delivered: %w", err)
		}
		if err := fault.Point(pointOutboxDeleted); err != nil {
			return delivered, err
		}
	}
	return delivered, nil
}

// outboxRows returns the messages of a partition, or of the table if the partition is empty, in the order in which
// they were committed: by the service's time, and within a transaction by their number. A table that does not exist
// has none.
func (s *Storage) outboxRows(ctx context.Context, table, partitionKey string) ([]tables.Entity, error) {
	filter := fmt.Sprintf("RowKey ge '%s' and RowKey lt '%s'", outboxPrefix, outboxEnd)
	if partitionKey != "" {
		filter = fmt.Sprintf("PartitionKey eq '%s' and %s", strings.ReplaceAll(partitionKey, "'", "''"), filter)
	}
	var rows []tables.Entity
	pager := s.Tables.NewClient(table).NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if tabletrigger.HasTableCode(err, aztables.TableNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("workers: read the messages of table %s: %w", table, err)
		}
		for _, text := range page.Entities {
			var e tables.Entity
			if err := e.UnmarshalJSON(text); err != nil {
				return nil, fmt.Errorf("workers: a message of table %s: %w", table, err)
			}
			rows = append(rows, e)
		}
	}
	// The service lists by key. Rows of one transaction have one timestamp and a number in their key.
	slices.SortFunc(rows, func(a, b tables.Entity) int {
		if c := a.Timestamp.Compare(b.Timestamp); c != 0 {
			return c
		}
		return strings.Compare(a.RowKey, b.RowKey)
	})
	return rows, nil
}

// outboxContent reads the entity of a message.
func outboxContent(e *tables.Entity) (queue string, body []byte, options []EnqueueOption, err error) {
	queue, err = tables.Value[string](e, "Queue")
	body, bodyErr := tables.Value[[]byte](e, "Body")
	encoding, encodingErr := tables.Value[string](e, "Encoding")
	delay, delayErr := tables.Value[int64](e, "DelaySeconds")
	ttl, ttlErr := tables.Value[int64](e, "TimeToLiveSeconds")
	return queue, body, []EnqueueOption{EncodedAs(Encoding(encoding)), After(time.Duration(delay) * time.Second),
		TimeToLive(time.Duration(ttl) * time.Second)}, errors.Join(err, bodyErr, encodingErr, delayErr, ttlErr)
}
