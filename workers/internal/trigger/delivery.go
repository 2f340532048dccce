package trigger

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
	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/ratelimit"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// Fault points around the deletion of a message.
var (
	pointBeforeDelete = fault.Declare("workers/before-delete-message")
	pointAfterDelete  = fault.Declare("workers/after-delete-message")
)

// delivery processes one received message until it is settled. Only the goroutine of run uses its fields.
type delivery struct {
	l       *QueueListener
	message queues.Message // with the current receipt
	body    []byte         // decoded
	facts   queues.Facts
	state   queues.State
	expires time.Time // when the lease ends unless it is renewed

	order uint64 // number of the message among those that this listener received, from 1

	key  string        // "" if messages are not limited by key
	turn chan struct{} // closed when the key admits the message; nil if it already does

	batch *batchCall // nil if the handler gets one message a call
	job   *JobRun    // nil for a message that is no job

	// With WithRateLimitPerKey, attempt is the dequeue count without putBack, the deliveries that were put back; both are
	// 0 until they are known.
	attempt, putBack atomic.Int64

	invocation *Invocation
	log        *slog.Logger
}

func newDelivery(l *QueueListener, m queues.Message, leaseEnd time.Time) *delivery {
	d := &delivery{l: l, message: m, expires: leaseEnd, facts: queues.Facts{DequeueCount: m.DequeueCount}}
	job, text := jobIn(l.Settings.QueueName, m.Text)
	d.job = job
	if l.Settings.Encoding == Base64Encoding {
		body, err := base64.StdEncoding.DecodeString(text)
		d.body, d.facts.Undecodable = body, err != nil
	} else {
		d.body = []byte(text)
	}
	return d
}

// step passes an event to the state machine and returns the action to take.
func (d *delivery) step(e queues.Event) queues.Effect {
	state, effect, err := d.l.policy.Next(d.state, e, d.facts)
	if err != nil {
		panic(err) // A bug in this file: the tests of the state machine cover every pair.
	}
	d.state = state
	return effect
}

// run processes the message from the state received to gone.
func (d *delivery) run(soft, hard context.Context) {
	d.invocation = d.newInvocation()
	d.log = d.l.log.With("invocation_id", d.invocation.ID, "message_id", d.message.ID, "dequeue_count",
		d.message.DequeueCount)

	if d.key != "" {
		// The next message of the key begins once this one is settled.
		defer func() { d.l.keys.Leave(d.key, d.turn) }()
	}
	if d.job != nil {
		defer d.l.jobs.remove(d.job)
		d.log = d.log.With("job", d.job.mark.ID)
	}
	if d.l.limits.PerKey() {
		// Some deliveries were no attempts: admit counts.
		d.facts.DequeueCount = min(d.facts.DequeueCount, d.l.policy.MaxDequeueCount)
	}
	event := queues.Begin
	if soft.Err() != nil {
		event = queues.TurnAway
	}
	effect := d.step(event)
	if effect.Kind == queues.DoRun {
		effect = d.runHandler(soft, hard)
	} else {
		d.batch.leave() // The others need not wait until this one is settled.
	}
	if d.state == queues.Settling {
		// A stop does not end this: a message that was handled would be delivered again.
		d.settle(context.WithoutCancel(hard), effect)
		d.step(queues.Settled)
	}
}

func (d *delivery) newInvocation() *Invocation {
	m := d.message
	id := uuid.NewString()
	if d.batch != nil {
		id = d.batch.id
	}
	return &Invocation{
		MessageID:     m.ID,
		ID:            id,
		TraceParent:   TraceIn(d.body),
		RetryCount:    int32(max(m.DequeueCount, 1) - 1),
		MaxRetryCount: int32(d.l.Settings.MaxDequeueCount - 1),
		Metadata: map[string]string{
			"Id": m.ID, "PopReceipt": m.Receipt, "ReceivedOrder": strconv.FormatUint(d.order, 10),
			"DequeueCount":  strconv.FormatInt(m.DequeueCount, 10),
			"InsertionTime": stamp(m.Inserted), "ExpirationTime": stamp(m.Expires), "NextVisibleTime": stamp(m.NextVisible),
		},
	}
}

// runHandler calls the handler and renews the lease until it returns, also while the app drains.
func (d *delivery) runHandler(soft, hard context.Context) queues.Effect {
	// The context does not follow hard: the handler is cancelled only with a cause, by which finish knows what has
	// happened.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(hard))
	defer cancel(nil)
	// It has room for one: the goroutine of a handler that was abandoned as stuck can end.
	returned := make(chan error, 1)
	message := queueMessage(d.message, d.body) // Before renewals, which change the receipt, start.
	begun := make(chan struct{})
	go func() {
		// The loop below renews the lease also while the message waits for its turn.
		if d.turn != nil {
			select {
			case <-d.turn:
			case <-soft.Done():
				returned <- calls.ErrNotBegun
				return
			case <-ctx.Done():
				returned <- calls.ErrNotBegun
				return
			}
		}
		if err := d.admit(ctx, soft); err != nil {
			d.batch.leave()
			returned <- err
			return
		}
		if n := d.attempt.Load(); n > 0 {
			message.DequeueCount = n
			d.invocation.RetryCount = int32(n) - 1
			d.invocation.Metadata["DequeueCount"] = strconv.FormatInt(n, 10)
		}
		if d.job != nil {
			if err := d.startJob(ctx); err != nil {
				d.batch.leave()
				returned <- err
				return
			}
		}
		close(begun)
		stats := &d.l.function.Stats
		stats.Age.Observe(max(d.l.clock.Now().Sub(d.message.Inserted).Seconds(), 0))
		defer stats.Call(d.invocation, d.l.clock)()
		returned <- d.invoke(ctx, message) // The loop below takes the result, and finish makes the next action of it.
	}()

	interval := d.l.Settings.Lease / 2
	renewal := d.l.clock.NewTimer(interval)
	defer func() { renewal.Stop() }()
	limit, stuck := calls.Timer(calls.Never{}), calls.Timer(calls.Never{})
	defer func() { limit.Stop(); stuck.Stop() }()
	stopping := hard.Done()
	cancelledJob := d.job.wasCancelled()

	// The first cause sets the time after which the handler counts as stuck; later ones do not extend it.
	cancelled := false
	cancelHandler := func(cause error) {
		cancel(cause)
		if !cancelled {
			cancelled = true
			stuck = calls.TimerOf(d.l.clock, d.l.stuck)
		}
	}
	for {
		select {
		case <-begun:
			// The time limit is one of the handler, and does not include the wait for its turn.
			begun = nil
			limit = calls.TimerOf(d.l.clock, d.l.Settings.Timeout)
		case err := <-returned:
			return d.finish(ctx, err)
		case <-renewal.C():
			if interval = d.renew(ctx, interval); interval > 0 {
				renewal = d.l.clock.NewTimer(interval)
			} else if d.step(queues.LeaseLost).Kind == queues.DoCancel {
				d.l.function.Stats.LeaseLost.Add(1)
				d.log.Warn("lost the lease on the message; cancelling the handler")
				cancelHandler(calls.ErrLeaseLost)
			}
		case <-limit.C():
			cancelHandler(calls.ErrTimeout)
		case <-stopping:
			stopping = nil
			cancelHandler(calls.ErrStopping)
		case <-cancelledJob:
			cancelledJob = nil
			cancelHandler(calls.ErrCancelled)
		case <-stuck.C():
			select {
			case err := <-returned: // while the lease was being renewed, which takes as long as the request
				return d.finish(ctx, err)
			default:
			}
			d.abandon(ctx)
			return d.finish(ctx, calls.ErrStuck)
		}
	}
}

// renew renews the lease and returns the time until the next renewal, or 0 if the lease is lost. After a transient
// error it retries after half the interval, at least a twentieth of the lease, and before the lease ends.
func (d *delivery) renew(ctx context.Context, interval time.Duration) time.Duration {
	lease := d.l.Settings.Lease
	now := d.l.clock.Now()
	// The request must end with the lease: after that another instance may have the message. The time is that of the
	// app's clock, which a context does not know.
	attempt, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	deadline := calls.TimerOf(d.l.clock, max(d.expires.Sub(now), time.Millisecond))
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
	receipt, err := d.l.Queue.Update(attempt, d.message, lease)
	switch {
	case err == nil:
		// The service has started the lease after now, so that this end is early rather than late.
		d.message.Receipt, d.expires = receipt, now.Add(lease)
		d.l.function.Stats.LeaseRenewals.Add(1)
		return lease / 2
	case errors.Is(err, queues.ErrNotHeld), errors.Is(err, queues.ErrNoQueue):
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
func (d *delivery) invoke(ctx context.Context, m bindings.QueueMessage) error {
	if d.batch != nil {
		return d.batch.join(ctx, d.order, m, d.job)
	}
	ctx = WithInvocation(ctx, d.invocation)
	if d.job != nil {
		ctx = WithJob(ctx, d.job)
	}
	d.l.reasons.describe(ctx, d.invocation, d.log)
	return calls.Contain(func() error {
		// The app's middleware, and in it the handler.
		return d.l.env.Invoke(ctx, d.invocation, func(ctx context.Context) error { return d.l.handler(ctx, m) })
	})
}

// admit returns when the handler may be called by the function's limits of rate. The error is ErrNotBegun, or says that
// the message is to be put back.
func (d *delivery) admit(ctx, soft context.Context) error {
	limits, key, putBack := d.l.limits, "", int64(0)
	if limits.PerKey() {
		key = d.l.Settings.RateKey(d.body)
		var err error
		if putBack, err = limits.PutBack(ctx, soft, d.message.ID, d.message.DequeueCount); err != nil {
			return err
		}
		// A delivery that was put back was no attempt.
		attempt := max(d.message.DequeueCount-putBack, 1)
		d.attempt.Store(attempt)
		d.putBack.Store(putBack)
		if most := d.l.Settings.MaxDequeueCount; attempt > most {
			return calls.Permanent(fmt.Errorf("received %d times, more than the maximum of %d", attempt, most))
		}
	}
	return limits.Admit(ctx, soft, key, putBack, d.batch != nil)
}

// queueMessage is a message with its decoded body, as a handler gets it.
func queueMessage(m queues.Message, decoded []byte) bindings.QueueMessage {
	return bindings.QueueMessage{
		Body: decoded, Id: m.ID, PopReceipt: m.Receipt, DequeueCount: m.DequeueCount,
		InsertionTime: stamp(m.Inserted), ExpirationTime: stamp(m.Expires), NextVisibleTime: stamp(m.NextVisible),
	}
}

// finish records the handler's result and returns the action that follows.
func (d *delivery) finish(ctx context.Context, err error) queues.Effect {
	// Handlers return ctx.Err; why it ended decides whether the attempt counts.
	err = calls.WithCause(ctx, err)
	d.facts.Outcome = err
	d.facts.Interrupted = errors.Is(context.Cause(ctx), calls.ErrStopping) || err == calls.ErrNotBegun
	d.facts.Cancelled = errors.Is(context.Cause(ctx), calls.ErrCancelled)
	// Without the deliveries that a limit of rate put back: those were no attempts.
	if n := d.attempt.Load(); n > 0 {
		d.facts.DequeueCount = n
	}
	stats := &d.l.function.Stats
	var (
		snooze *calls.SnoozeError
		back   *calls.PutBackError
	)
	switch {
	// No statistics: the handler was not called.
	case err == calls.ErrNotBegun:
	case err == errJobOver:
		d.facts.Outcome = nil
		d.log.Debug("dropping a message whose job is over")
	case errors.As(err, &back):
		stats.PutBack.Add(1)
	case err == nil:
		stats.End(d.invocation, d.l.clock.Now(), nil)
	case errors.As(err, &snooze):
		stats.snooze(d.invocation, d.l.clock.Now(), err)
	case d.facts.Cancelled:
		stats.cancel(d.invocation, d.l.clock.Now(), err)
		d.log.Info("the job was cancelled", "err", sdkerr.Short(err))
	default:
		stats.End(d.invocation, d.l.clock.Now(), err)
		stats.Fail(d.l.clock.Now(), err)
		calls.LogFailure(d.log, err)
	}
	return d.step(queues.Finish)
}

// abandon counts and logs a handler that does not return.
func (d *delivery) abandon(ctx context.Context) {
	d.l.mu.Lock()
	d.l.abandoned++
	d.l.mu.Unlock()
	d.l.function.Stats.Stuck.Add(1)
	dump := func() { calls.DumpStuck(d.log, context.Cause(ctx)) }
	if d.batch != nil {
		d.batch.dumped.Do(dump)
		return
	}
	dump()
}

// settle carries out an action on the message at the service. If that fails, the lease expires and the message is
// delivered again.
func (d *delivery) settle(ctx context.Context, e queues.Effect) {
	ctx, cancel := context.WithTimeout(ctx, queues.SettleTimeout)
	defer cancel()
	err := d.carryOut(ctx, e)
	switch {
	case err == nil:
		if d.putBack.Load() > 0 && (e.Kind == queues.DoDelete || e.Kind == queues.DoPoison || e.Kind == queues.DoRequeue) {
			if err := d.l.limits.Forget(ctx, d.message.ID); err != nil {
				d.log.Warn("cannot delete the count of a message that was put back; it is deleted in a week", "err",
					sdkerr.Short(err))
			}
		}
	case errors.Is(err, queues.ErrNotHeld), errors.Is(err, queues.ErrNoQueue):
		d.log.Warn("cannot settle the message: another instance received it, or it was deleted", "action", e.Kind)
	default:
		d.l.function.Stats.Fail(d.l.clock.Now(), err)
		d.log.Error("cannot settle the message; it is delivered again when its lease ends", "action", e.Kind, "err",
			sdkerr.Short(err))
	}
}

func (d *delivery) carryOut(ctx context.Context, e queues.Effect) error {
	e, err := d.settleJob(ctx, e)
	if err != nil {
		return err
	}
	switch e.Kind {
	case queues.DoDelete:
		err := d.deleteMessage(ctx)
		if err == nil {
			d.l.reasons.follow(ctx, d.message.ID, "", d.log)
		}
		return err
	case queues.DoRelease:
		if back := (*calls.PutBackError)(nil); errors.As(d.facts.Outcome, &back) && !d.facts.Interrupted {
			// The row says how often and until when, before the message goes back.
			if err := d.l.limits.Postpone(ctx, d.message.ID, back); err != nil {
				return err
			}
			if _, err := d.l.Queue.Update(ctx, d.message, d.l.limits.Until(back)); err != nil {
				return err
			}
			return fault.Point(ratelimit.PointRatePostponed)
		}
		_, err := d.l.Queue.Update(ctx, d.message, e.Delay)
		if d.facts.Interrupted || d.facts.Outcome == nil {
			d.l.function.Stats.Released.Add(1)
		}
		return err
	case queues.DoRequeue:
		// The copy is put first: a crash in between leaves two messages, and in the other order none.
		id, err := d.l.Queue.Put(ctx, d.message.Text, e.Delay, d.message.TimeToLive(d.l.clock.Now()))
		if err != nil {
			return fmt.Errorf("put the copy: %w", err)
		}
		d.l.reasons.follow(ctx, d.message.ID, id, d.log)
		return d.deleteMessage(ctx)
	case queues.DoPoison:
		d.log.Error("message cannot be processed; moving it to the poison queue", "reason", e.Reason)
		// As with a copy, the message is deleted only when it is in the other queue.
		id, err := queues.PutCreating(ctx, d.l.Poison, d.job.poisonText(d.message.Text))
		if err != nil {
			return fmt.Errorf("put to the poison queue: %w", err)
		}
		d.l.function.Stats.Poisoned.Add(1)
		d.recordPoison(ctx, id, e.Reason)
		if err := d.poisonedJob(ctx, e.Reason); err != nil {
			return err
		}
		return d.deleteMessage(ctx)
	case queues.DoLeave:
		d.log.Error("message cannot be processed and its queue has no poison queue; it stays hidden until its lease ends",
			"reason", e.Reason)
	}
	return nil
}

func (d *delivery) deleteMessage(ctx context.Context) error {
	if err := fault.Point(pointBeforeDelete); err != nil {
		return err
	}
	if err := d.l.Queue.Delete(ctx, d.message); err != nil {
		return err
	}
	return fault.Point(pointAfterDelete)
}

// recordPoison stores the reason for the copy in the poison queue; see package poison. An error is logged only: the
// message is moved even if its record cannot be written.
func (d *delivery) recordPoison(ctx context.Context, id, reason string) {
	r := poison.Record{
		Queue: d.l.PoisonName, ID: id, Source: d.l.Settings.QueueName, Reason: reason, Attempts: d.facts.DequeueCount,
		Function: d.l.function.Name, Host: d.l.env.HostID,
		Invocation: d.invocation.ID, OriginalID: d.message.ID, Inserted: d.message.Inserted,
		Poisoned:    d.l.clock.Now(),
		TraceParent: d.invocation.TraceParent,
	}
	d.l.Record(ctx, r, d.facts.Outcome, d.log)
}

// Record stores why a message is in the poison queue, with the last error of its handler.
func (l *QueueListener) Record(ctx context.Context, r poison.Record, last error, log *slog.Logger) {
	if l.records == nil {
		return
	}
	if last != nil {
		r.LastError = sdkerr.Text(last)
		var panicked *status.PanicError
		if errors.As(last, &panicked) {
			r.Stack = string(panicked.Stack)
		}
	}
	if err := l.records(ctx, r); err != nil {
		log.Warn("cannot record why the message was moved to the poison queue; `lazuli queue peek` will not show the reason",
			"err", sdkerr.Short(err))
	}
}
