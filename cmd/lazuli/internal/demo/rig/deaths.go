package rig

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// LongLease is the lease of a worker that is not killed. A machine too slow to renew it would miss the other time
// limits as well.
const LongLease = 30 * time.Second

// start starts a worker. A worker with a fault uses the run's lease, so that its messages become visible soon after its
// death.
func (r *Run) start(fault string) (*Child, error) {
	lease := r.Lease
	if fault == "" {
		lease = max(lease, LongLease)
	}
	s := r.Pattern.Settings()
	s.ConnectionString, s.Lease, s.Concurrency, s.MaxDequeueCount, s.Fault = r.ConnectionString, lease,
		r.Pattern.Concurrency(), maxDequeueCount, fault
	if r.Mistake != nil {
		s.Mistake = r.Mistake.ID()
	}
	if s.Story = r.teller != nil; s.Story {
		var err error
		if s.ConnectionString, err = r.teller.Connection(); err != nil {
			return nil, err
		}
	}
	return StartChild(r.Worker(s))
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
func (r *Run) runUntilKilled(ctx context.Context, row *Row, number string, keys []Key, k Kill) error {
	for try := 1; ; try++ {
		if err := r.ask(ctx, row, keys, true); err != nil {
			return err
		}
		r.Say.Update("round %s: the worker is running, to be %s", number, k.Text())
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
		if err := r.Pattern.Reset(ctx, keys); err != nil {
			return fmt.Errorf("reset the items: %w", err)
		}
		// The usual cause is a lease that ended before the handler came to the point: the message went to another receiver.
		r.Lease *= 2
		r.Say.Line("round %s: the worker lost its leases and did not reach %s; retrying with leases of %v", number, k.Point,
			r.Lease)
	}
}

// killedOrIdle runs a worker until it is killed. It reports false if the worker becomes idle without reaching its
// point.
func (r *Run) killedOrIdle(ctx context.Context, k Kill) (killed bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("no progress for %v", r.Patience))
	defer cancel()
	worker, err := r.start(r.Pattern.Plan(k))
	if err != nil {
		return false, err
	}
	// Between two messages the worker looks idle for a moment. Only idleness that lasts means that the point was not
	// reached.
	var idleSince time.Time
	err = Every(ctx, 50*time.Millisecond, func() (bool, error) {
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
	// The kill may have come after the last look, so Running is asked again. WaitForKill tells it from another exit of
	// the process, and from the end of patience.
	if !worker.Running() || ctx.Err() != nil {
		return true, worker.WaitForKill(ctx)
	}
	if err != nil {
		worker.Kill()
		return false, err
	}
	return false, worker.Stop(ctx)
}

// left returns the number of messages, including invisible ones, and whether all work is done.
func (r *Run) left(ctx context.Context) (messages int, done bool, err error) {
	messages, err = r.queue.Waiting(ctx)
	if messages > 0 || err != nil {
		return messages, false, err
	}
	if r.Mistake != nil { // what it has damaged never converges
		if q, ok := r.Pattern.(interface {
			Quiet(context.Context) (bool, error)
		}); ok {
			done, err = q.Quiet(ctx)
			return messages, done, err
		}
		return messages, true, nil
	}
	done, err = r.Pattern.Converged(ctx)
	return messages, done, err
}

// heldFor is the delay at the point that lets the other handlers reach it before the first one freezes the process.
const heldFor = 500 * time.Millisecond

// runUntilFrozen runs a worker until it freezes itself with messages in flight, just before an effect.
func (r *Run) runUntilFrozen(ctx context.Context) (_ *Child, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("no progress for %v", r.Patience))
	defer cancel()
	point := r.Pattern.HoldUp()
	worker, err := r.start(fmt.Sprintf("%s=delay:%v,%[1]s=say@1,%[1]s=stop@1", point, heldFor))
	if err != nil {
		return nil, err
	}
	err = Every(ctx, 10*time.Millisecond, func() (bool, error) {
		if !worker.Running() {
			return false, fmt.Errorf("the worker ended: %v\n%s", worker.Err(), worker.Output())
		}
		if strings.Contains(worker.Output(), "fault: "+point) {
			return true, nil
		}
		left, err := r.queue.Waiting(ctx) // If there are few messages, none may reach the point.
		return left == 0, err
	})
	if err != nil {
		worker.Kill()
		return nil, err
	}
	return worker, nil
}

// letGoOn thaws a worker and asks it to stop, which lets its running handlers finish.
func (r *Run) letGoOn(ctx context.Context, worker *Child) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("no progress for %v", r.Patience))
	defer cancel()
	if err := worker.Resume(); err != nil {
		return err
	}
	return worker.Stop(ctx)
}

// runUntilDone runs a worker without faults until no message, visible or not, and no other work is left.
func (r *Run) runUntilDone(ctx context.Context, number string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.StuckAfter,
		fmt.Errorf("%w: work is stuck, messages or orphans are left after %v", ErrInvariant, r.StuckAfter))
	defer cancel()
	isDone := func() (bool, error) {
		messages, done, err := r.left(ctx)
		r.Say.Update("round %s: restarted, %d messages left", number, messages)
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
	err = Every(ctx, 50*time.Millisecond, func() (bool, error) {
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
	return worker.Stop(ctx)
}
