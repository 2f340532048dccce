package workers

import (
	"context"
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// receivedMessage is a message that was received from the queue service.
type receivedMessage struct {
	id, receipt                    string
	text                           string // encoded, as in the queue
	dequeueCount                   int64
	inserted, expires, nextVisible time.Time
}

var (
	// errNoQueue means that the queue does not exist or is being deleted.
	errNoQueue = errors.New("the queue does not exist")
	// errNotHeld means that the message was deleted, or that the receipt is stale.
	errNotHeld = errors.New("the message was deleted or received by another instance")
)

// queueClient has the operations of a queue that the listener uses. Errors wrap errNoQueue or errNotHeld where they
// apply. After any other error, the request may or may not have taken effect.
type queueClient interface {
	// receive receives up to n messages and hides them for the duration of the lease. It waits for messages for the time
	// wait, 0 or whole seconds, until stop is closed; waits is false if the service does not support long polling: it has
	// returned at once then.
	receive(ctx context.Context, n int, lease, wait time.Duration, stop <-chan struct{}) (list []receivedMessage,
		waits bool, err error)
	// update sets when the message becomes visible and returns the new receipt. The text does not change.
	update(ctx context.Context, m receivedMessage, visibleIn time.Duration) (receipt string, err error)
	delete(ctx context.Context, m receivedMessage) error
	// put adds a message that becomes visible after visibleIn and expires after ttl, never if ttl is negative. It returns
	// the message's ID.
	put(ctx context.Context, text string, visibleIn, ttl time.Duration) (id string, err error)
	create(ctx context.Context) error
	// depth returns the approximate number of messages, including hidden ones, and the insertion time of the oldest
	// visible message; zero if no message is visible.
	depth(ctx context.Context) (messages int64, oldest time.Time, err error)
}

// azureQueue implements queueClient with the official SDK.
type azureQueue struct {
	client  *azqueue.QueueClient
	deleter *messages.Deleter
}

var _ queueClient = azureQueue{}

func newAzureQueue(client *azqueue.QueueClient) azureQueue {
	return azureQueue{client, messages.NewDeleter(client, 0)}
}

func (q azureQueue) receive(ctx context.Context, n int, lease, wait time.Duration,
	stop <-chan struct{}) ([]receivedMessage, bool, error) {
	got, waits, err := messages.Receive(ctx, q.client, messages.Request{Most: n, Lease: min(lease, maxLease), Wait: wait,
		Stop: stop})
	if err != nil {
		return nil, waits, queueFailure(err)
	}
	list := make([]receivedMessage, 0, len(got))
	for _, m := range got {
		list = append(list, receivedMessage{
			id: ptr.Value(m.MessageID), receipt: ptr.Value(m.PopReceipt), text: ptr.Value(m.MessageText),
			dequeueCount: ptr.Value(m.DequeueCount),
			inserted:     ptr.Value(m.InsertionTime), expires: ptr.Value(m.ExpirationTime),
			nextVisible: ptr.Value(m.TimeNextVisible),
		})
	}
	return list, waits, nil
}

func (q azureQueue) update(ctx context.Context, m receivedMessage, visibleIn time.Duration) (string, error) {
	got, err := q.client.UpdateMessage(ctx, m.id, m.receipt, m.text,
		&azqueue.UpdateMessageOptions{VisibilityTimeout: seconds(visibleIn)})
	if err != nil {
		return "", queueFailure(err)
	}
	return ptr.Value(got.PopReceipt), nil
}

func (q azureQueue) delete(ctx context.Context, m receivedMessage) error {
	return queueFailure(q.deleter.Delete(ctx, m.id, m.receipt))
}

func (q azureQueue) put(ctx context.Context, text string, visibleIn, ttl time.Duration) (string, error) {
	options := &azqueue.EnqueueMessageOptions{VisibilityTimeout: seconds(visibleIn), TimeToLive: to.Ptr(int32(-1))}
	if ttl >= 0 {
		options.TimeToLive = to.Ptr(max(int32(wholeSeconds(ttl)/time.Second), *options.VisibilityTimeout+1, 1))
	}
	got, err := q.client.EnqueueMessage(ctx, text, options)
	if err != nil || len(got.Messages) == 0 {
		return "", queueFailure(err)
	}
	return ptr.Value(got.Messages[0].MessageID), nil
}

func (q azureQueue) depth(ctx context.Context) (int64, time.Time, error) {
	properties, err := q.client.GetProperties(ctx, nil)
	if err != nil {
		return 0, time.Time{}, queueFailure(err)
	}
	messages := int64(ptr.Value(properties.ApproximateMessagesCount))
	first, err := q.client.PeekMessage(ctx, nil)
	if err != nil || len(first.Messages) == 0 {
		return messages, time.Time{}, queueFailure(err)
	}
	return messages, ptr.Value(first.Messages[0].InsertionTime), nil
}

func (q azureQueue) create(ctx context.Context) error {
	_, err := q.client.Create(ctx, nil)
	if queueerror.HasCode(err, queueerror.QueueAlreadyExists) {
		return nil
	}
	return err
}

func queueFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case queueerror.HasCode(err, queueerror.QueueNotFound, queueerror.QueueBeingDeleted):
		return errors.Join(errNoQueue, err)
	case queueerror.HasCode(err, queueerror.MessageNotFound, queueerror.PopReceiptMismatch):
		return errors.Join(errNotHeld, err)
	}
	return err
}

// seconds rounds up, so that a message does not become visible early. The service accepts at most seven days.
func seconds(d time.Duration) *int32 {
	return to.Ptr(int32(wholeSeconds(min(d, maxLease)) / time.Second))
}
