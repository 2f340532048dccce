package queues

import (
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
)

// State is the state of a message within the instance that received it.
//
//	          begin            finish
//	received ───────▶ running ────────▶ settling ───▶ gone
//	   │                 │                 ▲  settled
//	   │ begin, TurnAway │ LeaseLost       │
//	   ├─────────────────┼─────────────────┘
//	   │ LeaseLost       ▼        finish
//	   │              orphaned ────────▶ gone
//	   └──────────────────────────────▶ gone
//
// The queue service decides which instance holds a message, by the pop receipt. This state machine only decides which
// requests this instance sends. Requests of an instance that lost the message have a stale receipt, and fail.
type State int

const (
	// received: leased to this instance, no handler called yet.
	received State = iota
	// running: the handler runs, and the lease is renewed.
	running
	// orphaned: the handler still runs, but the lease is lost and its context cancelled.
	orphaned
	// settling: the action is decided, and its requests are being sent.
	Settling
	// gone: this instance is done with the message.
	gone
)

// String implements fmt.Stringer.
func (s State) String() string {
	return [...]string{"received", "running", "orphaned", "settling", "gone"}[s]
}

// Event is an event in the processing of a message.
type Event int

const (
	// begin: the handler can run.
	Begin Event = iota
	// TurnAway: the app is stopping; the handler is not called.
	TurnAway
	// LeaseLost: the service refused the receipt, or the lease expired.
	LeaseLost
	// finish: the handler returned, panicked, or was abandoned.
	Finish
	// settled: the requests succeeded or failed; they are not repeated.
	Settled
)

// String implements fmt.Stringer.
func (e Event) String() string {
	return [...]string{"begin", "turnAway", "leaseLost", "finish", "settled"}[e]
}

// effectKind is an action of the instance.
type effectKind int

const (
	// doNothing: wait for the next event.
	doNothing effectKind = iota
	// DoRun: call the handler.
	DoRun
	// DoCancel: cancel the handler's context with ErrLeaseLost.
	DoCancel
	// DoDelete: delete the message, which was handled.
	DoDelete
	// DoRelease: make the message visible again after delay.
	DoRelease
	// DoRequeue: put a copy that becomes visible after delay, then delete the message. The copy's dequeue count starts at
	// zero.
	DoRequeue
	// DoPoison: put the body to the poison queue, then delete the message.
	DoPoison
	// DoLeave: do nothing; the message stays hidden until its lease ends.
	DoLeave
)

func (k effectKind) String() string {
	return [...]string{"nothing", "run", "cancel", "delete", "release", "requeue", "poison", "leave"}[k]
}

// Effect is an action with its parameters.
type Effect struct {
	Kind  effectKind
	Delay time.Duration
	// reason describes why a message is moved to the poison queue.
	Reason string
}

// Facts are the inputs of a decision besides state and event.
type Facts struct {
	// dequeueCount is the service's count, which includes this delivery.
	DequeueCount int64
	// undecodable: the body is not valid in the function's encoding.
	Undecodable bool
	// outcome is the handler's error; for the event finish only.
	Outcome error
	// interrupted: the handler's context was cancelled because the app stops; for the event finish only.
	Interrupted bool
	// cancelled: the handler's context was cancelled because its job was; for the event finish only.
	Cancelled bool
}

// Policy has the settings that the decisions depend on.
type Policy struct {
	MaxDequeueCount int64
	Retry           interface {
		Delay(attempts int64) time.Duration
	}
	// hasPoison is false for poison queues, and for queues whose names are too long for the suffix.
	HasPoison bool
}

// Next is the state machine's transition function. It has no clock, no I/O and no state. It returns an error for a
// transition that is not in the comment of State, which is a bug in the caller.
func (p Policy) Next(s State, e Event, f Facts) (State, Effect, error) {
	switch s {
	case received:
		switch e {
		case Begin:
			// Whether the handler is called at all depends on the facts: a message that was tried too often is poison.
			return p.begin(f)
		case TurnAway:
			return Settling, p.giveBack(f), nil
		case LeaseLost:
			return gone, Effect{}, nil
		}
	case running:
		switch e {
		case LeaseLost:
			// The handler is cancelled and not awaited here: another process may have the message by now, so its result must
			// not settle it.
			return orphaned, Effect{Kind: DoCancel}, nil
		case Finish:
			return Settling, p.finish(f), nil
		}
	case orphaned:
		switch e {
		case LeaseLost:
			return orphaned, Effect{}, nil
		case Finish:
			// The result of a handler that lost its lease is dropped.
			return gone, Effect{}, nil
		}
	case Settling:
		switch e {
		case LeaseLost:
			return gone, Effect{}, nil
		case Settled:
			return gone, Effect{}, nil
		}
	}
	return s, Effect{}, fmt.Errorf("workers: message state machine: event %v in state %v", e, s)
}

// begin decides whether the handler is called:
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-queue-trigger#poison-messages
func (p Policy) begin(f Facts) (State, Effect, error) {
	switch {
	case f.Undecodable:
		return Settling, p.poison("the body is not base64, which is the default encoding; for plain text set " +
			"workers.WithMessageEncoding(workers.NoEncoding), or in host.json messageEncoding to none"), nil
	case f.DequeueCount > p.MaxDequeueCount:
		// The processes of earlier attempts died before they could settle the message.
		return Settling, p.poison(fmt.Sprintf("received %d times, more than the maximum of %d", f.DequeueCount,
			p.MaxDequeueCount)), nil
	}
	return running, Effect{Kind: DoRun}, nil
}

func (p Policy) finish(f Facts) Effect {
	var (
		permanent *calls.PermanentError
		after     *calls.RetryAfterError
		back      *calls.PutBackError
		snooze    *calls.SnoozeError
	)
	switch {
	case f.Outcome == nil:
		return Effect{Kind: DoDelete}
	case f.Cancelled:
		return Effect{Kind: DoDelete}
	case errors.As(f.Outcome, &back) && !f.Interrupted:
		return Effect{Kind: DoRelease, Delay: 0} // The time is that of the row; see delivery.putBackUntil.
	case errors.As(f.Outcome, &snooze):
		return Effect{Kind: DoRequeue, Delay: max(snooze.Delay, 0)}
	case errors.As(f.Outcome, &permanent):
		return p.poison("permanent failure: " + sdkerr.Text(f.Outcome))
	case f.Interrupted:
		return p.giveBack(f)
	case f.DequeueCount >= p.MaxDequeueCount:
		return p.poison(fmt.Sprintf("failed %d times: %s", f.DequeueCount, sdkerr.Text(f.Outcome)))
	case errors.As(f.Outcome, &after):
		return Effect{Kind: DoRelease, Delay: max(after.Delay, 0)}
	}
	return Effect{Kind: DoRelease, Delay: max(p.Retry.Delay(f.DequeueCount), 0)}
}

// giveBack makes the message available to other instances. On the last attempt it puts a copy: a released message would
// exceed the maximum dequeue count because of the stop alone.
func (p Policy) giveBack(f Facts) Effect {
	if f.DequeueCount >= p.MaxDequeueCount {
		return Effect{Kind: DoRequeue}
	}
	return Effect{Kind: DoRelease}
}

func (p Policy) poison(reason string) Effect {
	if !p.HasPoison {
		// As in Azure Functions, the message stays hidden until its lease ends; it would be received in a busy loop
		// otherwise.
		return Effect{Kind: DoLeave, Reason: reason}
	}
	return Effect{Kind: DoPoison, Reason: reason}
}
