package messages

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
)

// Request is one Get Messages.
type Request struct {
	// Most is the maximum number of messages, 1 to 32.
	Most int
	// Lease is the time for which the messages are hidden, in whole seconds.
	Lease time.Duration
	// Wait is the time that the request may wait for messages, in whole seconds; with 0 it does not wait.
	Wait time.Duration
	// Stop ends the wait when it is closed. The request then returns what it has received, so that no message is hidden
	// without a receiver. It may be nil.
	Stop <-chan struct{}
}

// Receive receives messages. waits reports whether the service lets requests wait; if not, it has returned at once.
func Receive(ctx context.Context, q *azqueue.QueueClient, r Request) (list []*azqueue.DequeuedMessage, waits bool,
	err error) {
	o := &azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(r.Most)),
		VisibilityTimeout: to.Ptr(int32((r.Lease + time.Second - 1) / time.Second))}
	if r.Wait < time.Second {
		got, err := q.DequeueMessages(ctx, o)
		return got.Messages, false, err
	}
	w := &wait{name: uuid.NewString(), queue: q, over: make(chan struct{})}
	var answer *http.Response
	var cancel context.CancelFunc
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	var ending sync.WaitGroup
	if r.Stop != nil {
		ending.Go(func() { w.endAt(ctx, r.Stop, cancel) })
	}
	got, err := q.DequeueMessages(policy.WithCaptureResponse(policy.WithHTTPHeader(ctx, http.Header{
		longpoll.WaitHeader: {strconv.Itoa(int(r.Wait / time.Second))},
		longpoll.NameHeader: {w.name},
	}), &answer), o)
	close(w.over)
	cancel()
	ending.Wait() // no request of this call is under way after it
	return got.Messages, answer != nil && answer.Header.Get(longpoll.WaitHeader) != "", err
}

// wait is a request that waits at the service.
type wait struct {
	name  string
	queue *azqueue.QueueClient
	over  chan struct{} // closed when the request has returned
}

// Bounds of the end of a wait. A request that is cancelled may have received messages, which then stay hidden until
// their lease ends; so it is cancelled only when the service does not end it.
const (
	// answerTimeout is the time after which a service is taken for unreachable that answers neither the request nor its
	// release. It is far longer than a busy one takes.
	answerTimeout = 10 * time.Second
	// releaseTries is the number of answers that no such request waits, after which another node of a cluster must hold
	// it. The pauses between them add up to a second; a service that is so busy that the request is still on its way takes
	// as much longer for the answers.
	releaseTries = 10
)

// endAt ends the wait when stop is closed.
func (w *wait) endAt(ctx context.Context, stop <-chan struct{}, cancel context.CancelFunc) {
	select {
	case <-stop:
	case <-w.over:
		return
	}
	defer cancel() // last: the request has returned, or the service does not end it
	limit, stopLimit := context.WithTimeout(ctx, answerTimeout)
	defer stopLimit()
	tries := 0
	for pause := time.Millisecond; tries < releaseTries; pause *= 2 { // the request may not have arrived yet
		ended, answered := w.release(limit)
		if ended {
			select {
			case <-w.over: // with what it has received
			case <-limit.Done():
			}
			return
		}
		if answered {
			tries++
		}
		select {
		case <-w.over:
			return
		case <-time.After(min(pause, answerTimeout)):
		case <-limit.Done():
			return
		}
	}
}

// release asks the service to end the wait. ended is true if the request has waited there; answered, if there was any
// answer.
func (w *wait) release(ctx context.Context) (ended, answered bool) {
	var answer *http.Response
	_, _ = w.queue.PeekMessages(policy.WithCaptureResponse(policy.WithHTTPHeader(ctx, // answer has the outcome
		http.Header{longpoll.ReleaseHeader: {w.name}}), &answer), nil)
	return answer != nil && answer.Header.Get(longpoll.ReleaseHeader) != "", answer != nil
}
