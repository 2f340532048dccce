package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
)

// BatchMessage is one message of a batch, with its body decoded from JSON.
type BatchMessage[T any] struct {
	// Body is the decoded body.
	Body T
	// Raw is the received message.
	Raw QueueMessage

	item *batchItem
}

// Finish sets the result of this message, whatever the handler returns for the batch: nil deletes it, an error lets it
// be tried again, [Permanent], [RetryAfter] and [Snooze] do as in a handler of one message. Of several calls the last
// one counts; those after the handler's return do nothing.
func (m *BatchMessage[T]) Finish(err error) { m.item.finish(err) }

// Lost reports whether this instance has lost its lease on the message: another one may have received it, and a result
// has no effect any more.
func (m *BatchMessage[T]) Lost() bool { return errors.Is(context.Cause(m.item.ctx), ErrLeaseLost) }

// Batch registers a handler that gets several messages of a queue in one call: those that one request has received, at
// most the number of [WithBatchSize], 1 to 32. It does not wait for more. See [Batch] for results.
func (a *App) Batch(name string, h func(ctx context.Context, batch []*BatchMessage[[]byte]) error,
	options ...QueueOption) *Function {
	if h == nil {
		return a.batch(name, nil, options)
	}
	return a.batch(name, func(ctx context.Context, items []*batchItem) error {
		batch := make([]*BatchMessage[[]byte], len(items))
		for i, item := range items {
			batch[i] = &BatchMessage[[]byte]{item.message.Body, item.message, item}
		}
		return h(ctx, batch)
	}, options)
}

// Batch registers a handler that gets several messages in one call, each with a T in JSON as its body. A message whose
// body is not a T is moved to the poison queue, and the handler gets the others.
//
// Each message has its own result, lease and attempts. What the handler returns is the result of those messages for
// which it has not called Finish: nil deletes them, and after an error each is tried again, or moved to the poison
// queue after its last attempt.
//
// Middleware runs once for a call, whose invocation has no message. The context is cancelled when the app stops, after
// [WithTimeout], and when the leases on all messages are lost; for one of them see [BatchMessage.Lost]. Statistics
// count messages. At most batch size + threshold messages are in flight, which can be several calls at the same time:
// with WithNewBatchThreshold(0) it is one. A batch cannot have [ConcurrencyPerKey].
func Batch[T any](a *App, name string, h func(ctx context.Context, batch []*BatchMessage[T]) error,
	options ...QueueOption) *Function {
	if h == nil {
		return a.batch(name, nil, options)
	}
	return a.batch(name, func(ctx context.Context, items []*batchItem) error {
		batch := make([]*BatchMessage[T], 0, len(items))
		for _, item := range items {
			m := &BatchMessage[T]{Raw: item.message, item: item}
			if err := json.Unmarshal(m.Raw.Body, &m.Body); err != nil {
				m.Finish(Permanent(fmt.Errorf("the body is not of type %T: %w", m.Body, err)))
				continue
			}
			batch = append(batch, m)
		}
		if len(batch) == 0 {
			return nil
		}
		return h(ctx, batch)
	}, options)
}

// Context returns the context of this message, which is done when its lease is lost or its job cancelled. [JobID],
// [SetResult] and [SetProgress] take it.
func (m *BatchMessage[T]) Context() context.Context {
	if m.item.job == nil {
		return m.item.ctx
	}
	return context.WithValue(m.item.ctx, jobKey{}, m.item.job)
}

// batchHandler handles the messages of one call. Its error is the result of those that are not finished.
type batchHandler func(ctx context.Context, items []*batchItem) error

func (a *App) batch(name string, h batchHandler, options []QueueOption) *Function {
	// The handler of single messages is never called: a delivery of a batch joins its call instead.
	f := a.Queue(name, func(context.Context, QueueMessage) error { return nil }, options...)
	switch {
	case h == nil:
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: the handler is nil", name))
	case f.settings.keyRate != nil:
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: a batch cannot have WithRateLimitPerKey", name))
	case f.settings.key != nil:
		// Two of one key in a call would wait for each other.
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: a batch cannot have ConcurrencyPerKey", name))
	}
	f.batch = h
	return f
}

// batchItem is one message of a call.
type batchItem struct {
	order   uint64 // of the delivery
	message QueueMessage
	ctx     context.Context // of its delivery
	job     *jobRun         // nil if it is no job

	mu       sync.Mutex // guards the rest
	finished bool
	closed   bool // the handler has returned
	err      error
}

func (i *batchItem) finish(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.finished, i.err = true, err
	}
}

// result returns the message's own result, or that of the call.
func (i *batchItem) result(call error) (err error, own bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	if i.finished {
		return i.err, true
	}
	return call, false
}

// batchCall is one call for the messages of one poll. Each message has its delivery, which renews the lease and settles
// by the result; the deliveries meet here. The call begins when every delivery has joined or left.
type batchCall struct {
	l      *queueListener
	soft   context.Context // done when the app stops
	id     string          // of the invocation
	begun  chan struct{}   // closed when the handler is called
	ended  chan struct{}   // closed when it has returned; err is then final
	err    error
	dumped sync.Once   // a stuck handler is logged once
	logged atomic.Bool // its error is

	mu    sync.Mutex // guards the rest
	wait  int        // deliveries that have neither joined nor left
	items []*batchItem
	live  int                     // items whose context is not cancelled
	stop  context.CancelCauseFunc // of the handler's context; nil before the call
}

func newBatchCall(l *queueListener, soft context.Context, messages int) *batchCall {
	return &batchCall{l: l, soft: soft, id: uuid.NewString(), wait: messages, begun: make(chan struct{}),
		ended: make(chan struct{})}
}

// leave takes out a delivery that will not join.
func (b *batchCall) leave() {
	if b != nil {
		b.arrive(nil)
	}
}

// join waits for the call and returns the result of a message.
func (b *batchCall) join(ctx context.Context, order uint64, m QueueMessage, job *jobRun) error {
	item := &batchItem{order: order, message: m, ctx: ctx, job: job}
	b.arrive(item)
	select {
	case <-b.begun:
	case <-ctx.Done():
		if b.withdraw(item) {
			return errNotBegun
		}
		// The call has begun meanwhile.
	}
	select {
	case <-b.ended:
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if !b.lose(cause) && (errors.Is(cause, ErrLeaseLost) || errors.Is(cause, ErrCancelled)) {
			return cause // The handler goes on with the others, and is not stuck.
		}
		<-b.ended
	}
	if b.err == errNotBegun {
		return errNotBegun
	}
	err, own := item.result(b.err)
	if !own && !b.logged.CompareAndSwap(false, true) {
		return Logged(err) // One delivery logs the error of the call.
	}
	return err
}

// withdraw takes an item out of a call that has not begun, and returns false if it has.
func (b *batchCall) withdraw(item *batchItem) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wait == 0 {
		return false
	}
	for i, have := range b.items {
		if have == item {
			b.items = append(b.items[:i], b.items[i+1:]...)
		}
	}
	return true
}

// arrive notes that a delivery has joined, or has left if item is nil. The last one begins the call.
func (b *batchCall) arrive(item *batchItem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if item != nil {
		b.items = append(b.items, item)
	}
	if b.wait--; b.wait > 0 || len(b.items) == 0 {
		return
	}
	// The values are those of the app's context; the deliveries' contexts carry their own invocations.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(b.items[0].ctx))
	b.live, b.stop = len(b.items), cancel
	slices.SortFunc(b.items, func(x, y *batchItem) int { return cmp.Compare(x.order, y.order) })
	close(b.begun)
	go func() {
		defer cancel(nil)
		if b.err = b.l.limits.admitBatch(ctx, b.soft, len(b.items)); b.err == nil {
			b.err = contain(func() error { return b.run(ctx) })
		}
		close(b.ended)
	}()
}

// lose notes that the context of an item is cancelled. With the last one it cancels the handler, and returns true.
func (b *batchCall) lose(cause error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live--; b.live > 0 {
		return false
	}
	b.stop(cause)
	return true
}

func (b *batchCall) run(ctx context.Context) error {
	f := b.l.function
	ic := &InvocationContext{InvocationID: b.id, FunctionID: b.l.hostID + "/" + f.name, FunctionName: f.name,
		TriggerType: f.trigger, TriggerMetadata: map[string]string{"BatchSize": strconv.Itoa(len(b.items))}}
	ic.call = func(ctx context.Context) error { return withCause(ctx, f.batch(ctx, b.items)) }
	return b.l.wrapped(bind(NewContext(ctx, ic), b.l.bound.app, b.l.bound.storage), &MiddlewareContext{ic})
}
