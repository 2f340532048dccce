package trigger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
)

// BatchHandler handles the messages of one call. Its error is the result of those that are not finished.
type BatchHandler func(ctx context.Context, items []*BatchItem) error

// BatchItem is one message of a call.
type BatchItem struct {
	order   uint64 // of the delivery
	Message bindings.QueueMessage
	Ctx     context.Context // of its delivery
	Job     *JobRun         // nil if it is no job

	mu       sync.Mutex // guards the rest
	finished bool
	closed   bool // the handler has returned
	err      error
}

// Finish sets the message's own result, until the handler has returned.
func (i *BatchItem) Finish(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.finished, i.err = true, err
	}
}

// result returns the message's own result, or that of the call.
func (i *BatchItem) result(call error) (err error, own bool) {
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
	l      *QueueListener
	soft   context.Context // done when the app stops
	id     string          // of the invocation
	begun  chan struct{}   // closed when the handler is called
	ended  chan struct{}   // closed when it has returned; err is then final
	err    error
	dumped sync.Once   // a stuck handler is logged once
	logged atomic.Bool // its error is

	mu    sync.Mutex // guards the rest
	wait  int        // deliveries that have neither joined nor left
	items []*BatchItem
	live  int                     // items whose context is not cancelled
	stop  context.CancelCauseFunc // of the handler's context; nil before the call
}

func newBatchCall(l *QueueListener, soft context.Context, messages int) *batchCall {
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
func (b *batchCall) join(ctx context.Context, order uint64, m bindings.QueueMessage, job *JobRun) error {
	item := &BatchItem{order: order, Message: m, Ctx: ctx, Job: job}
	b.arrive(item)
	select {
	case <-b.begun:
	case <-ctx.Done():
		if b.withdraw(item) {
			return calls.ErrNotBegun
		}
		// The call has begun meanwhile.
	}
	select {
	case <-b.ended:
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if !b.lose(cause) && (errors.Is(cause, calls.ErrLeaseLost) || errors.Is(cause, calls.ErrCancelled)) {
			return cause // The handler goes on with the others, and is not stuck.
		}
		<-b.ended
	}
	if b.err == calls.ErrNotBegun {
		return calls.ErrNotBegun
	}
	err, own := item.result(b.err)
	if !own && !b.logged.CompareAndSwap(false, true) {
		return calls.Logged(err) // One delivery logs the error of the call.
	}
	return err
}

// withdraw takes an item out of a call that has not begun, and returns false if it has.
func (b *batchCall) withdraw(item *BatchItem) bool {
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
func (b *batchCall) arrive(item *BatchItem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if item != nil {
		b.items = append(b.items, item)
	}
	if b.wait--; b.wait > 0 || len(b.items) == 0 {
		return
	}
	// The values are those of the app's context; the deliveries' contexts carry their own invocations.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(b.items[0].Ctx))
	b.live, b.stop = len(b.items), cancel
	slices.SortFunc(b.items, func(x, y *BatchItem) int { return cmp.Compare(x.order, y.order) })
	close(b.begun)
	go func() {
		defer cancel(nil)
		if b.err = b.l.limits.AdmitBatch(ctx, b.soft, len(b.items)); b.err == nil {
			b.err = calls.Contain(func() error { return b.run(ctx) })
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
	inv := &Invocation{ID: b.id, Metadata: map[string]string{"BatchSize": strconv.Itoa(len(b.items))}}
	return b.l.env.Invoke(WithInvocation(ctx, inv), inv, func(ctx context.Context) error {
		return calls.WithCause(ctx, b.l.function.Batch(ctx, b.items))
	})
}
