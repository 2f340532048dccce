package inflight

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers"
)

// maxDelay is the longest time that a message can be hidden at once; the service allows seven days.
// https://learn.microsoft.com/rest/api/storageservices/put-message
const maxDelay = 6 * 24 * time.Hour

// deleteLinger is the time that the deletion of a handled message waits for others to share the request with. The
// message is hidden meanwhile, and a copy is dropped.
const deleteLinger = 50 * time.Millisecond

// pollTimeout limits a request for messages once they are not wanted any more.
const pollTimeout = 10 * time.Second

// Queue is one queue of a hub.
type Queue struct {
	Client     *azqueue.QueueClient
	putter     *messages.Putter
	deleter    *messages.Deleter
	visibility time.Duration
	clock      workers.Clock
}

// NewQueue returns a queue whose messages a receiver hides for visibility each time.
func NewQueue(client *azqueue.QueueClient, visibility time.Duration, clock workers.Clock) Queue {
	return Queue{client, messages.NewPutter(client), messages.NewDeleter(client, deleteLinger), visibility, clock}
}

// Put adds a message that becomes visible after the delay, in whole seconds. It returns what deletes it.
func (q Queue) Put(ctx context.Context, text string, delay time.Duration) (messages.Put, error) {
	list, err := q.PutAll(ctx, []messages.New{{Text: text, Delay: delay}})
	if err != nil {
		return messages.Put{}, err
	}
	return list[0], nil
}

// PutAll is put for several messages. After an error any of them may have been put.
func (q Queue) PutAll(ctx context.Context, list []messages.New) ([]messages.Put, error) {
	for i := range list {
		list[i].Delay = min(max(list[i].Delay, 0), maxDelay)
	}
	got, err := q.putter.Put(ctx, list...)
	if err != nil {
		return nil, fmt.Errorf("durable: send a message: %w", err)
	}
	return got, nil
}

// Received is a message that this process holds. It is hidden from others as long as it is renewed.
type Received struct {
	*record.Message
	Queue     Queue
	Attempts  int64
	Partition int

	mu       sync.Mutex // guards the rest
	id, Text string
	receipt  string
	own      StandIn   // not nil: the message is in this process alone
	until    time.Time // when it becomes visible to others
	gone     bool      // deleted, given back or lost
	lose     func()    // called when another process may have received the message; nil without OnLost
}

// StandIn is what stands for a message that is in this process alone, as the work item of an activity does for its
// result. The caller of its methods holds the message's lock.
type StandIn interface {
	// Send makes a message of the queue of it, which becomes visible after d. End follows.
	Send(ctx context.Context, m *record.Message, d time.Duration) (Sent, error)
	// End deletes what stands for the message, which has had its effect.
	End()
	// Drop forgets the message; what stands for it comes again.
	Drop()
}

// NewOwn returns a message of a partition that is in this process alone, where own stands for it.
func NewOwn(m *record.Message, q Queue, partition int, own StandIn) *Received {
	return &Received{Message: m, Queue: q, Attempts: 1, Partition: partition, own: own}
}

// Sent is a message that was put: what its sender needs to change it.
type Sent struct {
	Queue             Queue
	ID, Receipt, Text string
}

// Show makes a message visible after a delay. held is false if the message has appeared before, and was received.
func (s Sent) Show(ctx context.Context, delay time.Duration) (held bool, err error) {
	r := &Received{Queue: s.Queue, id: s.ID, Text: s.Text, receipt: s.Receipt}
	err = r.Hide(ctx, delay, true)
	_, held = r.Held()
	return held, err
}

// Drop deletes a message.
func (s Sent) Drop(ctx context.Context) {
	_, _ = s.Queue.Client.DeleteMessage(ctx, s.ID, s.Receipt, nil) // The receiver drops a remaining message.
}

// QueueID returns the ID that the queue has given the message.
func (r *Received) QueueID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id
}

// OnLost calls lose if another process may have received the message while this one holds it.
func (r *Received) OnLost(lose func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose = lose
}

// Expire tells who has asked by OnLost if the time is over for which the message was hidden. The message is still held:
// a renewal can succeed as long as no other process has received it.
func (r *Received) Expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lose != nil && !r.gone && !now.Before(r.until) {
		r.lose()
	}
}

// Receive receives up to n messages, and waits for them for most, until stop is closed. Messages that cannot be parsed
// are returned as bad. waited is false if the service lets no request wait; it has then returned at once.
func (q Queue) Receive(ctx context.Context, n int, most time.Duration, stop <-chan struct{}) (list, bad []*Received,
	waited bool, err error) {
	asked := q.clock.Now()
	// A request that is cancelled may have received messages, which then stay hidden: stop ends one that waits, and one
	// that does not wait is answered soon.
	end := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if most == 0 {
		defer context.AfterFunc(end, func() {
			limit := time.NewTimer(pollTimeout)
			defer limit.Stop()
			select {
			case <-limit.C:
				cancel()
			case <-ctx.Done():
			}
		})()
	}
	got, waited, err := messages.Receive(ctx, q.Client, messages.Request{Most: n,
		Lease: q.visibility, Wait: most, Stop: stop})
	if err != nil {
		return nil, nil, waited, fmt.Errorf("durable: receive messages: %w", err)
	}
	// After a wait the service has hidden the messages just before it answered.
	took := q.clock.Now().Sub(asked)
	until := asked.Add(max(0, took-min(time.Second, q.visibility/4)) + q.visibility)
	for _, m := range got {
		r := &Received{Queue: q, id: *m.MessageID, receipt: *m.PopReceipt, Attempts: *m.DequeueCount,
			until: until}
		if m.MessageText != nil {
			r.Text = *m.MessageText
		}
		if r.Message, err = record.Decode(r.Text); err != nil {
			// setAside logs the type of such a message as the reason.
			r.Message = &record.Message{Type: err.Error()}
			bad = append(bad, r)
			continue
		}
		list = append(list, r)
	}
	return list, bad, waited, nil
}

// Delete deletes the message. If another process has received it since, delete does nothing.
func (r *Received) Delete(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return nil
	}
	if r.own != nil {
		r.gone = true
		r.own.End()
		return nil
	}
	err := r.Queue.deleter.Delete(ctx, r.id, r.receipt)
	if err != nil && !isLost(err) {
		return fmt.Errorf("durable: delete a message: %w", err)
	}
	r.gone = true
	return nil
}

// pointDelete is reached before the deletion of each message that was handled.
var pointDelete = fault.Declare("durable/before-delete-message")

// Deleting are deletions under way that no caller waits for.
type Deleting struct {
	Count atomic.Int64
	All   sync.WaitGroup
}

// Later deletes a message that was handled, and calls deleted. Until then it is hidden; if the deletion fails it comes
// again, and is dropped then. ctx is that of the process, as the caller does not wait.
func (d *Deleting) Later(ctx context.Context, log *slog.Logger, r *Received, deleted func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return
	}
	r.gone = true
	if r.own != nil {
		r.own.End()
		deleted()
		return
	}
	d.Count.Add(1)
	// The message counts as gone, so that no renewal changes its receipt before it is deleted.
	id, receipt := r.id, r.receipt
	d.All.Go(func() {
		defer d.Count.Add(-1)
		err := fault.Point(pointDelete)
		if err == nil {
			err = r.Queue.deleter.Delete(ctx, id, receipt)
		}
		if err != nil && !isLost(err) {
			log.Warn("cannot delete a message; it comes again and is dropped then", "instance", r.Instance, "err",
				sdkerr.Short(err))
			return
		}
		deleted()
	})
}

// Hide keeps the message hidden for d from now on. Afterwards this process does not hold it any more, unless keep is
// true.
func (r *Received) Hide(ctx context.Context, d time.Duration, keep bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return nil
	}
	asked := r.Queue.clock.Now()
	if r.own != nil {
		put, err := r.own.Send(ctx, r.Message, d)
		if err != nil {
			return err
		}
		// From here on r is a message of the queue, and what stood for it may go.
		own := r.own
		r.id, r.receipt, r.Text, r.own = put.ID, put.Receipt, put.Text, nil
		own.End()
		r.until, r.gone = asked.Add(d), !keep
		return nil
	}
	got, err := r.Queue.Client.UpdateMessage(ctx, r.id, r.receipt, r.Text,
		&azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr(int32(min(max(d, 0), maxDelay) / time.Second))})
	switch {
	case isLost(err):
		r.gone = true
		if r.lose != nil {
			r.lose()
		}
		return nil
	case err != nil:
		return fmt.Errorf("durable: hide a message: %w", err)
	}
	r.receipt, r.until, r.gone = *got.PopReceipt, asked.Add(d), !keep
	return nil
}

// Release drops the message from memory without a word to the service: it appears again by itself.
func (r *Received) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gone && r.own != nil {
		r.own.Drop()
	}
	r.gone = true
}

// Held reports whether this process holds the message, and until when.
func (r *Received) Held() (until time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.until, !r.gone
}

// isLost reports whether the receipt does not hold the message any more.
func isLost(err error) bool {
	return queueerror.HasCode(err, queueerror.MessageNotFound, queueerror.PopReceiptMismatch, queueerror.QueueNotFound)
}
