package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// BatchMessage is one message of a batch, with its body decoded from JSON.
type BatchMessage[T any] struct {
	// Body is the decoded body.
	Body T
	// Raw is the received message.
	Raw QueueMessage

	item *trigger.BatchItem
}

// Finish sets the result of this message, whatever the handler returns for the batch: nil deletes it, an error lets it
// be tried again, [Permanent], [RetryAfter] and [Snooze] do as in a handler of one message. Of several calls the last
// one counts; those after the handler's return do nothing.
func (m *BatchMessage[T]) Finish(err error) { m.item.Finish(err) }

// Lost reports whether this instance has lost its lease on the message: another one may have received it, and a result
// has no effect any more.
func (m *BatchMessage[T]) Lost() bool { return errors.Is(context.Cause(m.item.Ctx), ErrLeaseLost) }

// Batch registers a handler that gets several messages of a queue in one call: those that one request has received, at
// most the number of [WithBatchSize], 1 to 32. It does not wait for more. See [Batch] for results.
func (a *App) Batch(name string, h func(ctx context.Context, batch []*BatchMessage[[]byte]) error,
	options ...QueueOption) *Function {
	if h == nil {
		return a.batch(name, nil, options)
	}
	return a.batch(name, func(ctx context.Context, items []*trigger.BatchItem) error {
		batch := make([]*BatchMessage[[]byte], len(items))
		for i, item := range items {
			batch[i] = &BatchMessage[[]byte]{item.Message.Body, item.Message, item}
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
	return a.batch(name, func(ctx context.Context, items []*trigger.BatchItem) error {
		batch := make([]*BatchMessage[T], 0, len(items))
		for _, item := range items {
			m := &BatchMessage[T]{Raw: item.Message, item: item}
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
	if m.item.Job == nil {
		return m.item.Ctx
	}
	return trigger.WithJob(m.item.Ctx, m.item.Job)
}

func (a *App) batch(name string, h trigger.BatchHandler, options []QueueOption) *Function {
	// The handler of single messages is never called: a delivery of a batch joins its call instead.
	f := a.Queue(name, func(context.Context, QueueMessage) error { return nil }, options...)
	switch {
	case h == nil:
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: the handler is nil", name))
	case f.core.Settings.KeyRate != nil:
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: a batch cannot have WithRateLimitPerKey", name))
	case f.core.Settings.Key != nil:
		// Two of one key in a call would wait for each other.
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: a batch cannot have ConcurrencyPerKey", name))
	}
	f.core.Batch = h
	return f
}
