package demo

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// longLease is the lease of a worker that is not killed. A machine too slow to renew it would miss the other time
// limits as well.
const longLease = 30 * time.Second

// start starts a worker. A worker with a fault uses the run's lease, so that its messages become visible soon after its
// death.
func (r *run) start(fault string) (*child, error) {
	lease := r.Lease
	if fault == "" {
		lease = max(lease, longLease)
	}
	s := r.pattern.settings()
	s.ConnectionString, s.Lease, s.Concurrency, s.MaxDequeueCount, s.Fault = r.ConnectionString, lease,
		r.pattern.concurrency(), maxDequeueCount, fault
	if r.mistake != nil {
		s.Mistake = r.mistake.ID()
	}
	if s.Story = r.teller != nil; s.Story {
		var err error
		if s.ConnectionString, err = r.teller.connection(); err != nil {
			return nil, err
		}
	}
	return startChild(r.Worker(s))
}

// tries is the maximum number of attempts to make a worker reach its fault point. A worker that has been idle for
// idleFor is assumed not to reach it.
const (
	tries   = 6
	idleFor = 2 * time.Second
)

// runUntilKilled puts the messages and runs a worker until it is killed. On a very slow machine, the worker may not
// reach its point, because it loses leases and requests take effect after their timeout. Then runUntilKilled resets the
// items and tries again with longer leases.
func (r *run) runUntilKilled(ctx context.Context, row *Row, number string, keys []entityKey, k kill) error {
	for try := 1; ; try++ {
		if err := r.ask(ctx, row, keys, true); err != nil {
			return err
		}
		r.say.update("round %s: the worker is running, to be %s", number, k.text())
		killed, err := r.killedOrIdle(ctx, k)
		if killed && err == nil {
			// Only a kill at the fault point counts as covered; killed with an error means that patience ended.
			r.noteKill(k)
		}
		if killed || err != nil {
			return err
		}
		// A story follows one item and cannot reset it unseen; tell goes to the next item.
		if r.teller != nil {
			return errNotReached
		}
		if try == tries {
			return fmt.Errorf("the worker finished all its work %d times without reaching its fault point", tries)
		}
		if err := r.pattern.reset(ctx, keys); err != nil {
			return fmt.Errorf("reset the items: %w", err)
		}
		// The usual cause is a lease that ended before the handler came to the point: the message went to another receiver.
		r.Lease *= 2
		r.say.line("round %s: the worker lost its leases and did not reach %s; retrying with leases of %v", number, k.point,
			r.Lease)
	}
}

// killedOrIdle runs a worker until it is killed. It reports false if the worker becomes idle without reaching its
// point.
func (r *run) killedOrIdle(ctx context.Context, k kill) (killed bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("no progress for %v", r.Patience))
	defer cancel()
	worker, err := r.start(r.pattern.plan(k))
	if err != nil {
		return false, err
	}
	// Between two messages the worker looks idle for a moment. Only idleness that lasts means that the point was not
	// reached.
	var idleSince time.Time
	err = every(ctx, 50*time.Millisecond, func() (bool, error) {
		if !worker.Running() {
			return true, nil
		}
		_, idle, err := r.left(ctx)
		switch {
		case !idle || err != nil:
			idleSince = time.Time{}
		case idleSince.IsZero():
			idleSince = time.Now()
		}
		return idle && time.Since(idleSince) > idleFor, err
	})
	// The kill may have come after the last look, so Running is asked again. waitForKill tells it from another exit of
	// the process, and from the end of patience.
	if !worker.Running() || ctx.Err() != nil {
		return true, worker.waitForKill(ctx)
	}
	if err != nil {
		worker.Kill()
		return false, err
	}
	return false, worker.stop(ctx)
}

// left returns the number of messages, including invisible ones, and whether all work is done.
func (r *run) left(ctx context.Context) (messages int, done bool, err error) {
	messages, err = r.queue.waiting(ctx)
	if messages > 0 || err != nil {
		return messages, false, err
	}
	if r.mistake != nil { // what it has damaged never converges
		if q, ok := r.pattern.(interface {
			quiet(context.Context) (bool, error)
		}); ok {
			done, err = q.quiet(ctx)
			return messages, done, err
		}
		return messages, true, nil
	}
	done, err = r.pattern.converged(ctx)
	return messages, done, err
}

// lastInWork is the maximum number of in-flight messages of a frozen worker: the number that it receives in one
// request.
const lastInWork = 10

// heldFor is the delay at the point that lets the other handlers reach it before the first one freezes the process.
const heldFor = 500 * time.Millisecond

// runUntilFrozen runs a worker until it freezes itself with messages in flight, just before an effect.
func (r *run) runUntilFrozen(ctx context.Context) (_ *child, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("no progress for %v", r.Patience))
	defer cancel()
	point := r.pattern.holdUp()
	worker, err := r.start(fmt.Sprintf("%s=delay:%v,%[1]s=say@1,%[1]s=stop@1", point, heldFor))
	if err != nil {
		return nil, err
	}
	err = every(ctx, 10*time.Millisecond, func() (bool, error) {
		if !worker.Running() {
			return false, fmt.Errorf("the worker ended: %v\n%s", worker.Err(), worker.Output())
		}
		if strings.Contains(worker.Output(), "fault: "+point) {
			return true, nil
		}
		left, err := r.queue.waiting(ctx) // If there are few messages, none may reach the point.
		return left == 0, err
	})
	if err != nil {
		worker.Kill()
		return nil, err
	}
	return worker, nil
}

// letGoOn thaws a worker and asks it to stop, which lets its running handlers finish.
func (r *run) letGoOn(ctx context.Context, worker *child) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("no progress for %v", r.Patience))
	defer cancel()
	if err := worker.thaw(); err != nil {
		return err
	}
	return worker.stop(ctx)
}

// runUntilDone runs a worker without faults until no message, visible or not, and no other work is left.
func (r *run) runUntilDone(ctx context.Context, number string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.stuckAfter,
		fmt.Errorf("%w: work is stuck, messages or orphans are left after %v", ErrInvariant, r.stuckAfter))
	defer cancel()
	isDone := func() (bool, error) {
		messages, done, err := r.left(ctx)
		r.say.update("round %s: restarted, %d messages left", number, messages)
		return done, err
	}
	if done, err := isDone(); done || err != nil {
		if err != nil && ctx.Err() != nil { // whatever request noticed it
			err = context.Cause(ctx)
		}
		return err
	}
	worker, err := r.start("")
	if err != nil {
		return err
	}
	err = every(ctx, 50*time.Millisecond, func() (bool, error) {
		if !worker.Running() {
			return false, fmt.Errorf("the worker ended: %v\n%s", worker.Err(), worker.Output())
		}
		return isDone()
	})
	if err != nil {
		worker.Kill()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	return worker.stop(ctx)
}
