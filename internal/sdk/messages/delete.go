package messages

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
)

// deleteTimeout limits a request that deletes messages of several callers.
const deleteTimeout = 30 * time.Second

// Deleter deletes messages of one queue. One request at a time is under way; what is to be deleted meanwhile shares the
// next one, where the service supports it. It is safe for concurrent use.
type Deleter struct {
	queue   *azqueue.QueueClient
	linger  time.Duration
	full    chan struct{} // has a token when a request can have no more messages
	single  atomic.Bool   // the service deletes one message a request
	sharing sharing[*deletion]
}

// deletion is one message to delete.
type deletion struct {
	id, receipt string
	done        chan error // has room for the outcome
}

// NewDeleter returns a Deleter of a queue. A request waits up to linger for more messages to delete.
func NewDeleter(q *azqueue.QueueClient, linger time.Duration) *Deleter {
	d := &Deleter{queue: q, linger: linger, full: make(chan struct{}, 1)}
	d.sharing.gather, d.sharing.send = d.gather, d.together
	d.sharing.next = func(waiting []*deletion) int { return min(len(waiting), longpoll.MaxAlso+1) }
	return d
}

// Delete deletes a message. It returns the errors of Delete Message. When ctx is done, the outcome is unknown.
func (d *Deleter) Delete(ctx context.Context, id, receipt string) error {
	if d.single.Load() {
		return d.one(ctx, id, receipt)
	}
	x := &deletion{id, receipt, make(chan error, 1)}
	if d.sharing.add(ctx, x) > longpoll.MaxAlso {
		select {
		case d.full <- struct{}{}:
		default:
		}
	}
	select {
	case err := <-x.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *Deleter) one(ctx context.Context, id, receipt string) error {
	_, err := d.queue.DeleteMessage(ctx, id, receipt, nil)
	return err
}

// gather waits for more messages to delete.
func (d *Deleter) gather() {
	n := d.sharing.count()
	if d.linger == 0 || n == 0 || n > longpoll.MaxAlso || d.single.Load() {
		return
	}
	timer := time.NewTimer(d.linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.full:
	}
}

// together deletes several messages with one request.
func (d *Deleter) together(ctx context.Context, list []*deletion) {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	first, also := list[0], list[1:]
	if len(also) == 0 {
		first.done <- d.one(ctx, first.id, first.receipt)
		return
	}
	var text strings.Builder
	for i, x := range also {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(x.id + ":" + x.receipt)
	}
	var answer *http.Response
	err := d.one(policy.WithCaptureResponse(policy.WithHTTPHeader(ctx, http.Header{longpoll.AlsoHeader: {text.String()}}),
		&answer), first.id, first.receipt)
	first.done <- err
	codes := []string(nil)
	if answer != nil {
		if value := answer.Header.Get(longpoll.AlsoHeader); value != "" {
			codes = strings.Split(value, ",")
		}
	}
	switch {
	case len(codes) == len(also):
		for i, x := range also {
			x.done <- outcome(codes[i])
		}
	case answer == nil || answer.StatusCode >= http.StatusInternalServerError:
		for _, x := range also { // what was done is unknown
			x.done <- shared(err)
		}
	default: // the service has ignored the header, or refused the request before it looked
		if err == nil {
			d.single.Store(true)
		}
		var all sync.WaitGroup
		for _, x := range also {
			all.Go(func() { x.done <- d.one(ctx, x.id, x.receipt) })
		}
		all.Wait()
	}
}

// shared returns an error for one of several callers. It has no response: reading the text of an answer changes it.
func shared(err error) error {
	var answered *azcore.ResponseError
	if errors.As(err, &answered) {
		return &azcore.ResponseError{ErrorCode: answered.ErrorCode, StatusCode: answered.StatusCode}
	}
	return err
}

// outcome returns the error for an outcome in [longpoll.AlsoHeader].
func outcome(code string) error {
	status := http.StatusServiceUnavailable
	switch queueerror.Code(code) {
	case longpoll.AlsoDeleted:
		return nil
	case queueerror.MessageNotFound, queueerror.QueueNotFound:
		status = http.StatusNotFound
	case queueerror.PopReceiptMismatch:
		status = http.StatusBadRequest
	}
	return &azcore.ResponseError{ErrorCode: code, StatusCode: status}
}
