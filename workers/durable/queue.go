package durable

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

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

// queue is one queue of a hub.
type queue struct {
	client     *azqueue.QueueClient
	putter     *messages.Putter
	deleter    *messages.Deleter
	visibility time.Duration
	clock      workers.Clock
}

// put adds a message that becomes visible after the delay, in whole seconds. It returns what deletes it.
func (q queue) put(ctx context.Context, text string, delay time.Duration) (messages.Put, error) {
	list, err := q.putAll(ctx, []messages.New{{Text: text, Delay: delay}})
	if err != nil {
		return messages.Put{}, err
	}
	return list[0], nil
}

// putAll is put for several messages. After an error any of them may have been put.
func (q queue) putAll(ctx context.Context, list []messages.New) ([]messages.Put, error) {
	for i := range list {
		list[i].Delay = min(max(list[i].Delay, 0), maxDelay)
	}
	got, err := q.putter.Put(ctx, list...)
	if err != nil {
		return nil, fmt.Errorf("durable: send a message: %w", err)
	}
	return got, nil
}

// received is a message that this process holds. It is hidden from others as long as it is renewed.
type received struct {
	*message
	queue     queue
	attempts  int64
	partition int

	mu       sync.Mutex // guards the rest
	id, text string
	receipt  string
	own      *ownResult // not nil: the message is in this process alone
	until    time.Time  // when it becomes visible to others
	gone     bool       // deleted, given back or lost
	lose     func()     // called when another process may have received the message; nil without onLost
}

// onLost calls lose if another process may have received the message while this one holds it.
func (r *received) onLost(lose func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose = lose
}

// expire tells who has asked by onLost if the time is over for which the message was hidden. The message is still held:
// a renewal can succeed as long as no other process has received it.
func (r *received) expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lose != nil && !r.gone && !now.Before(r.until) {
		r.lose()
	}
}

// receive receives up to n messages, and waits for them for most, until stop is closed. Messages that cannot be parsed
// are returned as bad. waited is false if the service lets no request wait; it has then returned at once.
func (q queue) receive(ctx context.Context, n int, most time.Duration, stop <-chan struct{}) (list, bad []*received,
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
	got, waited, err := messages.Receive(ctx, q.client, messages.Request{Most: n,
		Lease: q.visibility, Wait: most, Stop: stop})
	if err != nil {
		return nil, nil, waited, fmt.Errorf("durable: receive messages: %w", err)
	}
	// After a wait the service has hidden the messages just before it answered.
	took := q.clock.Now().Sub(asked)
	until := asked.Add(max(0, took-min(time.Second, q.visibility/4)) + q.visibility)
	for _, m := range got {
		r := &received{queue: q, id: *m.MessageID, receipt: *m.PopReceipt, attempts: *m.DequeueCount,
			until: until}
		if m.MessageText != nil {
			r.text = *m.MessageText
		}
		if r.message, err = decode(r.text); err != nil {
			// setAside logs the type of such a message as the reason.
			r.message = &message{Type: err.Error()}
			bad = append(bad, r)
			continue
		}
		list = append(list, r)
	}
	return list, bad, waited, nil
}

// delete deletes the message. If another process has received it since, delete does nothing.
func (r *received) delete(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return nil
	}
	if r.own != nil {
		r.gone = true
		r.own.end()
		return nil
	}
	err := r.queue.deleter.Delete(ctx, r.id, r.receipt)
	if err != nil && !isLost(err) {
		return fmt.Errorf("durable: delete a message: %w", err)
	}
	r.gone = true
	return nil
}

// deleting are deletions under way that no caller waits for.
type deleting struct {
	count atomic.Int64
	all   sync.WaitGroup
}

// deleteLater deletes a message that was handled, and calls deleted. Until then it is hidden; if the deletion fails it
// comes again, and is dropped then.
func (b *Backend) deleteLater(r *received, deleted func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return
	}
	r.gone = true
	if r.own != nil {
		r.own.end()
		deleted()
		return
	}
	b.deleting.count.Add(1)
	// The message counts as gone, so that no renewal changes its receipt before it is deleted.
	id, receipt := r.id, r.receipt
	b.deleting.all.Go(func() {
		defer b.deleting.count.Add(-1)
		err := fault.Point(pointDelete)
		if err == nil {
			err = r.queue.deleter.Delete(b.life, id, receipt)
		}
		if err != nil && !isLost(err) {
			b.log.Warn("cannot delete a message; it comes again and is dropped then", "instance", r.Instance, "err",
				sdkerr.Short(err))
			return
		}
		deleted()
	})
}

// hide keeps the message hidden for d from now on. Afterwards this process does not hold it any more, unless keep is
// true.
func (r *received) hide(ctx context.Context, d time.Duration, keep bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return nil
	}
	asked := r.queue.clock.Now()
	if r.own != nil {
		if err := r.own.send(ctx, r, d); err != nil {
			return err
		}
		r.until, r.gone = asked.Add(d), !keep
		return nil
	}
	got, err := r.queue.client.UpdateMessage(ctx, r.id, r.receipt, r.text,
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

// release drops the message from memory without a word to the service: it appears again by itself.
func (r *received) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gone && r.own != nil {
		r.own.drop()
	}
	r.gone = true
}

// held reports whether this process holds the message, and until when.
func (r *received) held() (until time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.until, !r.gone
}

// isLost reports whether the receipt does not hold the message any more.
func isLost(err error) bool {
	return queueerror.HasCode(err, queueerror.MessageNotFound, queueerror.PopReceiptMismatch, queueerror.QueueNotFound)
}
