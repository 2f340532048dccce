package queues

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// SettleTimeout limits the requests that settle a message, so that a stop completes if the service does not respond.
const SettleTimeout = 30 * time.Second

// PutCreating puts a message that does not expire, and creates the queue if it does not exist. It returns the message's
// ID.
func PutCreating(ctx context.Context, queue Client, text string) (string, error) {
	id, err := queue.Put(ctx, text, 0, -1)
	if errors.Is(err, ErrNoQueue) {
		if err := queue.Create(ctx); err != nil {
			return "", err
		}
		id, err = queue.Put(ctx, text, 0, -1)
	}
	return id, err
}

// WholeSeconds rounds up, from 0 to what the service accepts as a time to live.
func WholeSeconds(d time.Duration) time.Duration {
	d = min(max(d, 0), math.MaxInt32*time.Second)
	return (d + time.Second - 1).Truncate(time.Second)
}

// Message is a message that was received from the queue service.
type Message struct {
	ID, Receipt                    string
	Text                           string // encoded, as in the queue
	DequeueCount                   int64
	Inserted, Expires, NextVisible time.Time
}

// TimeToLive is the time that a copy of the message has to live; -1 for a message that does not expire, for which the
// service reports a date in the far future.
func (m Message) TimeToLive(now time.Time) time.Duration {
	left := m.Expires.Sub(now)
	if left > 365*24*time.Hour {
		return -1
	}
	return max(left, time.Second)
}

var (
	// ErrNoQueue means that the queue does not exist or is being deleted.
	ErrNoQueue = errors.New("the queue does not exist")
	// ErrNotHeld means that the message was deleted, or that the receipt is stale.
	ErrNotHeld = errors.New("the message was deleted or received by another instance")
)

// Client has the operations of a queue that the listener uses. Errors wrap ErrNoQueue or ErrNotHeld where they
// apply. After any other error, the request may or may not have taken effect.
type Client interface {
	// receive receives up to n messages and hides them for the duration of the lease. It waits for messages for the time
	// wait, 0 or whole seconds, until stop is closed; waits is false if the service does not support long polling: it has
	// returned at once then.
	Receive(ctx context.Context, n int, lease, wait time.Duration, stop <-chan struct{}) (list []Message,
		waits bool, err error)
	// update sets when the message becomes visible and returns the new receipt. The text does not change.
	Update(ctx context.Context, m Message, visibleIn time.Duration) (receipt string, err error)
	Delete(ctx context.Context, m Message) error
	// put adds a message that becomes visible after visibleIn and expires after ttl, never if ttl is negative. It returns
	// the message's ID.
	Put(ctx context.Context, text string, visibleIn, ttl time.Duration) (id string, err error)
	Create(ctx context.Context) error
	// depth returns the approximate number of messages, including hidden ones, and the insertion time of the oldest
	// visible message; zero if no message is visible.
	Depth(ctx context.Context) (messages int64, oldest time.Time, err error)
}

// Azure implements Client with the official SDK.
type Azure struct {
	Client  *azqueue.QueueClient
	deleter *messages.Deleter
}

var _ Client = Azure{}

// New returns the queue of a client.
func New(client *azqueue.QueueClient) Azure {
	return Azure{client, messages.NewDeleter(client, 0)}
}

// Receive implements Client.
func (q Azure) Receive(ctx context.Context, n int, lease, wait time.Duration,
	stop <-chan struct{}) ([]Message, bool, error) {
	got, waits, err := messages.Receive(ctx, q.Client, messages.Request{Most: n, Lease: min(lease, MaxLease), Wait: wait,
		Stop: stop})
	if err != nil {
		return nil, waits, Failure(err)
	}
	list := make([]Message, 0, len(got))
	for _, m := range got {
		list = append(list, Message{
			ID: ptr.Value(m.MessageID), Receipt: ptr.Value(m.PopReceipt), Text: ptr.Value(m.MessageText),
			DequeueCount: ptr.Value(m.DequeueCount),
			Inserted:     ptr.Value(m.InsertionTime), Expires: ptr.Value(m.ExpirationTime),
			NextVisible: ptr.Value(m.TimeNextVisible),
		})
	}
	return list, waits, nil
}

// Update implements Client.
func (q Azure) Update(ctx context.Context, m Message, visibleIn time.Duration) (string, error) {
	got, err := q.Client.UpdateMessage(ctx, m.ID, m.Receipt, m.Text,
		&azqueue.UpdateMessageOptions{VisibilityTimeout: Seconds(visibleIn)})
	if err != nil {
		return "", Failure(err)
	}
	return ptr.Value(got.PopReceipt), nil
}

// Delete implements Client.
func (q Azure) Delete(ctx context.Context, m Message) error {
	return Failure(q.deleter.Delete(ctx, m.ID, m.Receipt))
}

// Put implements Client.
func (q Azure) Put(ctx context.Context, text string, visibleIn, ttl time.Duration) (string, error) {
	options := &azqueue.EnqueueMessageOptions{VisibilityTimeout: Seconds(visibleIn), TimeToLive: to.Ptr(int32(-1))}
	if ttl >= 0 {
		options.TimeToLive = to.Ptr(max(int32(WholeSeconds(ttl)/time.Second), *options.VisibilityTimeout+1, 1))
	}
	got, err := q.Client.EnqueueMessage(ctx, text, options)
	if err != nil || len(got.Messages) == 0 {
		return "", Failure(err)
	}
	return ptr.Value(got.Messages[0].MessageID), nil
}

// Depth implements Client.
func (q Azure) Depth(ctx context.Context) (int64, time.Time, error) {
	properties, err := q.Client.GetProperties(ctx, nil)
	if err != nil {
		return 0, time.Time{}, Failure(err)
	}
	messages := int64(ptr.Value(properties.ApproximateMessagesCount))
	first, err := q.Client.PeekMessage(ctx, nil)
	if err != nil || len(first.Messages) == 0 {
		return messages, time.Time{}, Failure(err)
	}
	return messages, ptr.Value(first.Messages[0].InsertionTime), nil
}

// Create implements Client.
func (q Azure) Create(ctx context.Context) error {
	_, err := q.Client.Create(ctx, nil)
	if queueerror.HasCode(err, queueerror.QueueAlreadyExists) {
		return nil
	}
	return err
}

// Failure adds ErrNoQueue or ErrNotHeld to an error of the SDK that means it.
func Failure(err error) error {
	switch {
	case err == nil:
		return nil
	case queueerror.HasCode(err, queueerror.QueueNotFound, queueerror.QueueBeingDeleted):
		return errors.Join(ErrNoQueue, err)
	case queueerror.HasCode(err, queueerror.MessageNotFound, queueerror.PopReceiptMismatch):
		return errors.Join(ErrNotHeld, err)
	}
	return err
}

// Seconds rounds up, so that a message does not become visible early. The service accepts at most seven days.
func Seconds(d time.Duration) *int32 {
	return to.Ptr(int32(WholeSeconds(min(d, MaxLease)) / time.Second))
}
