package workers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// Fault points around the deletion of a message.
var (
	pointBeforeDelete = fault.Declare("workers/before-delete-message")
	pointAfterDelete  = fault.Declare("workers/after-delete-message")
)

// delivery processes one received message until it is settled. Only the goroutine of run uses its fields.
type delivery struct {
	l       *queueListener
	message receivedMessage // with the current receipt
	body    []byte          // decoded
	facts   messageFacts
	state   messageState
	expires time.Time // when the lease ends unless it is renewed

	order uint64 // number of the message among those that this listener received, from 1

	key  string        // "" if messages are not limited by key
	turn chan struct{} // closed when the key admits the message; nil if it already does

	batch *batchCall // nil if the handler gets one message a call
	job   *jobRun    // nil for a message that is no job

	// With WithRateLimitPerKey, attempt is the dequeue count without putBack, the deliveries that were put back; both are
	// 0 until they are known.
	attempt, putBack atomic.Int64

	invocation *InvocationContext
	log        *slog.Logger
}

func newDelivery(l *queueListener, m receivedMessage, leaseEnd time.Time) *delivery {
	d := &delivery{l: l, message: m, expires: leaseEnd, facts: messageFacts{dequeueCount: m.dequeueCount}}
	job, text := jobIn(l.settings.queueName, m.text)
	d.job = job
	if l.settings.encoding == Base64 {
		body, err := base64.StdEncoding.DecodeString(text)
		d.body, d.facts.undecodable = body, err != nil
	} else {
		d.body = []byte(text)
	}
	return d
}

// step passes an event to the state machine and returns the action to take.
func (d *delivery) step(e messageEvent) effect {
	state, effect, err := d.l.policy.next(d.state, e, d.facts)
	if err != nil {
		panic(err) // A bug in this file: the tests of the state machine cover every pair.
	}
	d.state = state
	return effect
}

// run processes the message from the state received to gone.
func (d *delivery) run(soft, hard context.Context) {
	d.invocation = d.newInvocation()
	d.log = d.l.log.With("invocation_id", d.invocation.InvocationID, "message_id", d.message.id, "dequeue_count",
		d.message.dequeueCount)

	if d.key != "" {
		// The next message of the key begins once this one is settled.
		defer func() { d.l.keys.leave(d.key, d.turn) }()
	}
	if d.job != nil {
		defer d.l.jobs.remove(d.job)
		d.log = d.log.With("job", d.job.mark.ID)
	}
	if d.l.limits != nil && d.l.limits.keyRate != nil {
		// Some deliveries were no attempts: rateLimits.admit counts.
		d.facts.dequeueCount = min(d.facts.dequeueCount, d.l.policy.maxDequeueCount)
	}
	event := begin
	if soft.Err() != nil {
		event = turnAway
	}
	effect := d.step(event)
	if effect.kind == doRun {
		effect = d.runHandler(soft, hard)
	} else {
		d.batch.leave() // The others need not wait until this one is settled.
	}
	if d.state == settling {
		// A stop does not end this: a message that was handled would be delivered again.
		d.settle(context.WithoutCancel(hard), effect)
		d.step(settled)
	}
}

func (d *delivery) newInvocation() *InvocationContext {
	m := d.message
	id := uuid.NewString()
	if d.batch != nil {
		id = d.batch.id
	}
	return &InvocationContext{
		messageID:    m.id,
		InvocationID: id,
		FunctionID:   d.l.hostID + "/" + d.l.function.name,
		FunctionName: d.l.function.name,
		TriggerType:  d.l.function.trigger,
		TraceContext: TraceContext{TraceParent: traceIn(d.body)},
		RetryContext: RetryContext{RetryCount: int32(max(m.dequeueCount, 1) - 1),
			MaxRetryCount: int32(d.l.settings.maxDequeueCount - 1)},
		TriggerMetadata: map[string]string{
			"Id": m.id, "PopReceipt": m.receipt, "ReceivedOrder": strconv.FormatUint(d.order, 10),
			"DequeueCount":  strconv.FormatInt(m.dequeueCount, 10),
			"InsertionTime": stamp(m.inserted), "ExpirationTime": stamp(m.expires), "NextVisibleTime": stamp(m.nextVisible),
		},
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// runHandler calls the handler and renews the lease until it returns, also while the app drains.
func (d *delivery) runHandler(soft, hard context.Context) effect {
	// The context does not follow hard: the handler is cancelled only with a cause, by which finish knows what has
	// happened.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(hard))
	defer cancel(nil)
	// It has room for one: the goroutine of a handler that was abandoned as stuck can end.
	returned := make(chan error, 1)
	message := d.queueMessage() // Before renewals, which change the receipt, start.
	begun := make(chan struct{})
	go func() {
		// The loop below renews the lease also while the message waits for its turn.
		if d.turn != nil {
			select {
			case <-d.turn:
			case <-soft.Done():
				returned <- errNotBegun
				return
			case <-ctx.Done():
				returned <- errNotBegun
				return
			}
		}
		if err := d.l.limits.admit(ctx, soft, d); err != nil {
			d.batch.leave()
			returned <- err
			return
		}
		if n := d.attempt.Load(); n > 0 {
			message.DequeueCount = n
			d.invocation.RetryContext.RetryCount = int32(n) - 1
			d.invocation.TriggerMetadata["DequeueCount"] = strconv.FormatInt(n, 10)
		}
		if d.job != nil {
			if err := d.startJob(ctx); err != nil {
				d.batch.leave()
				returned <- err
				return
			}
		}
		close(begun)
		stats := &d.l.function.stats
		stats.age.Observe(max(d.l.clock.Now().Sub(d.message.inserted).Seconds(), 0))
		defer stats.call(d.invocation, d.l.clock)()
		returned <- d.invoke(ctx, message) // The loop below takes the result, and finish makes the next action of it.
	}()

	interval := d.l.settings.lease / 2
	renewal := d.l.clock.NewTimer(interval)
	defer func() { renewal.Stop() }()
	limit, stuck := Timer(never{}), Timer(never{})
	defer func() { limit.Stop(); stuck.Stop() }()
	stopping := hard.Done()
	cancelledJob := d.job.wasCancelled()

	// The first cause sets the time after which the handler counts as stuck; later ones do not extend it.
	cancelled := false
	cancelHandler := func(cause error) {
		cancel(cause)
		if !cancelled {
			cancelled = true
			stuck = timerOf(d.l.clock, d.l.stuck)
		}
	}
	for {
		select {
		case <-begun:
			// The time limit is one of the handler, and does not include the wait for its turn.
			begun = nil
			limit = timerOf(d.l.clock, d.l.settings.timeout)
		case err := <-returned:
			return d.finish(ctx, err)
		case <-renewal.C():
			if interval = d.renew(ctx, interval); interval > 0 {
				renewal = d.l.clock.NewTimer(interval)
			} else if d.step(leaseLost).kind == doCancel {
				d.l.function.stats.leaseLost.Add(1)
				d.log.Warn("lost the lease on the message; cancelling the handler")
				cancelHandler(ErrLeaseLost)
			}
		case <-limit.C():
			cancelHandler(ErrTimeout)
		case <-stopping:
			stopping = nil
			cancelHandler(ErrStopping)
		case <-cancelledJob:
			cancelledJob = nil
			cancelHandler(ErrCancelled)
		case <-stuck.C():
			select {
			case err := <-returned: // while the lease was being renewed, which takes as long as the request
				return d.finish(ctx, err)
			default:
			}
			d.abandon(ctx)
			return d.finish(ctx, ErrStuck)
		}
	}
}

// renew renews the lease and returns the time until the next renewal, or 0 if the lease is lost. After a transient
// error it retries after half the interval, at least a twentieth of the lease, and before the lease ends.
func (d *delivery) renew(ctx context.Context, interval time.Duration) time.Duration {
	lease := d.l.settings.lease
	now := d.l.clock.Now()
	// The request must end with the lease: after that another instance may have the message. The time is that of the
	// app's clock, which a context does not know.
	attempt, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	deadline := timerOf(d.l.clock, max(d.expires.Sub(now), time.Millisecond))
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		defer deadline.Stop()
		select {
		case <-deadline.C():
			cancel()
		case <-finished:
		}
	}()
	receipt, err := d.l.queue.update(attempt, d.message, lease)
	switch {
	case err == nil:
		// The service has started the lease after now, so that this end is early rather than late.
		d.message.receipt, d.expires = receipt, now.Add(lease)
		d.l.function.stats.leaseRenewals.Add(1)
		return lease / 2
	case errors.Is(err, errNotHeld), errors.Is(err, errNoQueue):
		return 0
	}
	d.log.Warn("lease renewal failed; retrying", "err", sdkerr.Short(err))
	left := d.expires.Sub(d.l.clock.Now())
	if left <= 0 {
		return 0
	}
	return min(max(interval/2, lease/20), left)
}

// invoke calls the handler through the middleware and converts a panic to an error.
func (d *delivery) invoke(ctx context.Context, m QueueMessage) error {
	if d.batch != nil {
		return d.batch.join(ctx, d.order, m, d.job)
	}
	ctx = bind(NewContext(ctx, d.invocation), d.l.bound.app, d.l.bound.storage)
	d.invocation.call = func(ctx context.Context) error { return d.l.handler(ctx, m) }
	// Without tracing middleware, messages that the handler sends belong to the trace of this message.
	ctx = WithTraceParent(ctx, d.invocation.TraceContext.TraceParent)
	if d.job != nil {
		ctx = context.WithValue(ctx, jobKey{}, d.job)
	}
	d.l.reasons.describe(ctx, d.invocation, d.log)
	return contain(func() error { return d.l.wrapped(ctx, &MiddlewareContext{d.invocation}) })
}

func (d *delivery) queueMessage() QueueMessage {
	m := d.message
	return QueueMessage{
		Body: d.body, Id: m.id, PopReceipt: m.receipt, DequeueCount: m.dequeueCount,
		InsertionTime: stamp(m.inserted), ExpirationTime: stamp(m.expires), NextVisibleTime: stamp(m.nextVisible),
	}
}

// finish records the handler's result and returns the action that follows.
func (d *delivery) finish(ctx context.Context, err error) effect {
	// Handlers return ctx.Err; why it ended decides whether the attempt counts.
	err = withCause(ctx, err)
	d.facts.outcome = err
	d.facts.interrupted = errors.Is(context.Cause(ctx), ErrStopping) || err == errNotBegun
	d.facts.cancelled = errors.Is(context.Cause(ctx), ErrCancelled)
	// Without the deliveries that a limit of rate put back: those were no attempts.
	if n := d.attempt.Load(); n > 0 {
		d.facts.dequeueCount = n
	}
	stats := &d.l.function.stats
	var (
		snooze *snoozeError
		back   *putBackError
	)
	switch {
	// No statistics: the handler was not called.
	case err == errNotBegun:
	case err == errJobOver:
		d.facts.outcome = nil
		d.log.Debug("dropping a message whose job is over")
	case errors.As(err, &back):
		stats.putBack.Add(1)
	case err == nil:
		stats.end(d.invocation, d.l.clock.Now(), nil)
	case errors.As(err, &snooze):
		stats.snooze(d.invocation, d.l.clock.Now(), err)
	case d.facts.cancelled:
		stats.cancel(d.invocation, d.l.clock.Now(), err)
		d.log.Info("the job was cancelled", "err", sdkerr.Short(err))
	default:
		stats.end(d.invocation, d.l.clock.Now(), err)
		stats.fail(d.l.clock.Now(), err)
		logFailure(d.log, err)
	}
	return d.step(finish)
}

// abandon counts and logs a handler that does not return.
func (d *delivery) abandon(ctx context.Context) {
	d.l.mu.Lock()
	d.l.abandoned++
	d.l.mu.Unlock()
	d.l.function.stats.stuck.Add(1)
	dump := func() { dumpStuck(d.log, context.Cause(ctx)) }
	if d.batch != nil {
		d.batch.dumped.Do(dump)
		return
	}
	dump()
}

// settleTimeout limits the requests that settle a message, so that a stop completes if the service does not respond.
const settleTimeout = 30 * time.Second

// settle carries out an action on the message at the service. If that fails, the lease expires and the message is
// delivered again.
func (d *delivery) settle(ctx context.Context, e effect) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err := d.carryOut(ctx, e)
	switch {
	case err == nil:
		if d.putBack.Load() > 0 && (e.kind == doDelete || e.kind == doPoison || e.kind == doRequeue) {
			if err := d.l.limits.store.forget(ctx, d.message.id); err != nil {
				d.log.Warn("cannot delete the count of a message that was put back; it is deleted in a week", "err",
					sdkerr.Short(err))
			}
		}
	case errors.Is(err, errNotHeld), errors.Is(err, errNoQueue):
		d.log.Warn("cannot settle the message: another instance received it, or it was deleted", "action", e.kind)
	default:
		d.l.function.stats.fail(d.l.clock.Now(), err)
		d.log.Error("cannot settle the message; it is delivered again when its lease ends", "action", e.kind, "err",
			sdkerr.Short(err))
	}
}

func (d *delivery) carryOut(ctx context.Context, e effect) error {
	e, err := d.settleJob(ctx, e)
	if err != nil {
		return err
	}
	switch e.kind {
	case doDelete:
		err := d.deleteMessage(ctx)
		if err == nil {
			d.l.reasons.follow(ctx, d.message.id, "", d.log)
		}
		return err
	case doRelease:
		if back := (*putBackError)(nil); errors.As(d.facts.outcome, &back) && !d.facts.interrupted {
			return d.putBackUntil(ctx, back)
		}
		_, err := d.l.queue.update(ctx, d.message, e.delay)
		if d.facts.interrupted || d.facts.outcome == nil {
			d.l.function.stats.released.Add(1)
		}
		return err
	case doRequeue:
		// The copy is put first: a crash in between leaves two messages, and in the other order none.
		id, err := d.l.queue.put(ctx, d.message.text, e.delay, d.timeToLive())
		if err != nil {
			return fmt.Errorf("put the copy: %w", err)
		}
		d.l.reasons.follow(ctx, d.message.id, id, d.log)
		return d.deleteMessage(ctx)
	case doPoison:
		d.log.Error("message cannot be processed; moving it to the poison queue", "reason", e.reason)
		// As with a copy, the message is deleted only when it is in the other queue.
		id, err := putCreating(ctx, d.l.poison, d.poisonText())
		if err != nil {
			return fmt.Errorf("put to the poison queue: %w", err)
		}
		d.l.function.stats.poisoned.Add(1)
		d.recordPoison(ctx, id, e.reason)
		if err := d.poisonedJob(ctx, e.reason); err != nil {
			return err
		}
		return d.deleteMessage(ctx)
	case doLeave:
		d.log.Error("message cannot be processed and its queue has no poison queue; it stays hidden until its lease ends",
			"reason", e.reason)
	}
	return nil
}

func (d *delivery) deleteMessage(ctx context.Context) error {
	if err := fault.Point(pointBeforeDelete); err != nil {
		return err
	}
	if err := d.l.queue.delete(ctx, d.message); err != nil {
		return err
	}
	return fault.Point(pointAfterDelete)
}

// putCreating puts a message that does not expire, and creates the queue if it does not exist. It returns the message's
// ID.
func putCreating(ctx context.Context, queue queueClient, text string) (string, error) {
	id, err := queue.put(ctx, text, 0, -1)
	if errors.Is(err, errNoQueue) {
		if err := queue.create(ctx); err != nil {
			return "", err
		}
		id, err = queue.put(ctx, text, 0, -1)
	}
	return id, err
}

// recordPoison stores the reason for the copy in the poison queue; see package poison. An error is logged only: the
// message is moved even if its record cannot be written.
func (d *delivery) recordPoison(ctx context.Context, id, reason string) {
	r := poison.Record{
		Queue: d.l.poisonName, ID: id, Source: d.l.settings.queueName, Reason: reason, Attempts: d.facts.dequeueCount,
		Function: d.l.function.name, Host: d.l.hostID,
		Invocation: d.invocation.InvocationID, OriginalID: d.message.id, Inserted: d.message.inserted,
		Poisoned:    d.l.clock.Now(),
		TraceParent: d.invocation.TraceContext.TraceParent,
	}
	d.l.record(ctx, r, d.facts.outcome, d.log)
}

// record stores why a message is in the poison queue, with the last error of its handler.
func (l *queueListener) record(ctx context.Context, r poison.Record, last error, log *slog.Logger) {
	if l.records == nil {
		return
	}
	if last != nil {
		r.LastError = sdkerr.Text(last)
		var panicked *PanicError
		if errors.As(last, &panicked) {
			r.Stack = string(panicked.Stack)
		}
	}
	if err := l.records(ctx, r); err != nil {
		log.Warn("cannot record why the message was moved to the poison queue; `lazuli queue peek` will not show the reason",
			"err", sdkerr.Short(err))
	}
}

// timeToLive is the message's remaining time to live; -1 for a message that does not expire, for which the service
// reports a date in the far future.
func (d *delivery) timeToLive() time.Duration {
	left := d.message.expires.Sub(d.l.clock.Now())
	if left > 365*24*time.Hour {
		return -1
	}
	return max(left, time.Second)
}
