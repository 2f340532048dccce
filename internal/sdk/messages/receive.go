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

// releaseTimeout limits the time in which the service must end a wait. After it the request is cancelled; messages that
// it has received then stay hidden until their lease ends. In a cluster another node may hold the request.
const releaseTimeout = time.Second

// endAt ends the wait when stop is closed.
func (w *wait) endAt(ctx context.Context, stop <-chan struct{}, cancel context.CancelFunc) {
	select {
	case <-stop:
	case <-w.over:
		return
	}
	defer cancel() // last: the request has returned, or the service does not end it
	limit, stopLimit := context.WithTimeout(ctx, releaseTimeout)
	defer stopLimit()
	for pause := time.Millisecond; ; pause *= 2 { // the request may not have arrived yet
		var answer *http.Response
		_, err := w.queue.PeekMessages(policy.WithCaptureResponse(policy.WithHTTPHeader(limit,
			http.Header{longpoll.ReleaseHeader: {w.name}}), &answer), nil)
		if err == nil && answer != nil && answer.Header.Get(longpoll.ReleaseHeader) != "" {
			pause = releaseTimeout
		}
		select {
		case <-w.over:
			return
		case <-time.After(pause):
		case <-limit.Done():
			return
		}
	}
}
