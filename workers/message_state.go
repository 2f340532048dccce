package workers

import (
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// messageState is the state of a message within the instance that received it.
//
//	          begin            finish
//	received ───────▶ running ────────▶ settling ───▶ gone
//	   │                 │                 ▲  settled
//	   │ begin, turnAway │ leaseLost       │
//	   ├─────────────────┼─────────────────┘
//	   │ leaseLost       ▼        finish
//	   │              orphaned ────────▶ gone
//	   └──────────────────────────────▶ gone
//
// The queue service decides which instance holds a message, by the pop receipt. This state machine only decides which
// requests this instance sends. Requests of an instance that lost the message have a stale receipt, and fail.
type messageState int

const (
	// received: leased to this instance, no handler called yet.
	received messageState = iota
	// running: the handler runs, and the lease is renewed.
	running
	// orphaned: the handler still runs, but the lease is lost and its context cancelled.
	orphaned
	// settling: the action is decided, and its requests are being sent.
	settling
	// gone: this instance is done with the message.
	gone
)

func (s messageState) String() string {
	return [...]string{"received", "running", "orphaned", "settling", "gone"}[s]
}

// messageEvent is an event in the processing of a message.
type messageEvent int

const (
	// begin: the handler can run.
	begin messageEvent = iota
	// turnAway: the app is stopping; the handler is not called.
	turnAway
	// leaseLost: the service refused the receipt, or the lease expired.
	leaseLost
	// finish: the handler returned, panicked, or was abandoned.
	finish
	// settled: the requests succeeded or failed; they are not repeated.
	settled
)

func (e messageEvent) String() string {
	return [...]string{"begin", "turnAway", "leaseLost", "finish", "settled"}[e]
}

// effectKind is an action of the instance.
type effectKind int

const (
	// doNothing: wait for the next event.
	doNothing effectKind = iota
	// doRun: call the handler.
	doRun
	// doCancel: cancel the handler's context with ErrLeaseLost.
	doCancel
	// doDelete: delete the message, which was handled.
	doDelete
	// doRelease: make the message visible again after delay.
	doRelease
	// doRequeue: put a copy that becomes visible after delay, then delete the message. The copy's dequeue count starts at
	// zero.
	doRequeue
	// doPoison: put the body to the poison queue, then delete the message.
	doPoison
	// doLeave: do nothing; the message stays hidden until its lease ends.
	doLeave
)

func (k effectKind) String() string {
	return [...]string{"nothing", "run", "cancel", "delete", "release", "requeue", "poison", "leave"}[k]
}

// effect is an action with its parameters.
type effect struct {
	kind  effectKind
	delay time.Duration
	// reason describes why a message is moved to the poison queue.
	reason string
}

// messageFacts are the inputs of a decision besides state and event.
type messageFacts struct {
	// dequeueCount is the service's count, which includes this delivery.
	dequeueCount int64
	// undecodable: the body is not valid in the function's encoding.
	undecodable bool
	// outcome is the handler's error; for the event finish only.
	outcome error
	// interrupted: the handler's context was cancelled because the app stops; for the event finish only.
	interrupted bool
	// cancelled: the handler's context was cancelled because its job was; for the event finish only.
	cancelled bool
}

// messagePolicy has the settings that the decisions depend on.
type messagePolicy struct {
	maxDequeueCount int64
	retry           RetryPolicy
	// hasPoison is false for poison queues, and for queues whose names are too long for the suffix.
	hasPoison bool
}

// next is the state machine's transition function. It has no clock, no I/O and no state. It returns an error for a
// transition that is not in the comment of messageState, which is a bug in the caller.
func (p messagePolicy) next(s messageState, e messageEvent, f messageFacts) (messageState, effect, error) {
	switch s {
	case received:
		switch e {
		case begin:
			// Whether the handler is called at all depends on the facts: a message that was tried too often is poison.
			return p.begin(f)
		case turnAway:
			return settling, p.giveBack(f), nil
		case leaseLost:
			return gone, effect{}, nil
		}
	case running:
		switch e {
		case leaseLost:
			// The handler is cancelled and not awaited here: another process may have the message by now, so its result must
			// not settle it.
			return orphaned, effect{kind: doCancel}, nil
		case finish:
			return settling, p.finish(f), nil
		}
	case orphaned:
		switch e {
		case leaseLost:
			return orphaned, effect{}, nil
		case finish:
			// The result of a handler that lost its lease is dropped.
			return gone, effect{}, nil
		}
	case settling:
		switch e {
		case leaseLost:
			return gone, effect{}, nil
		case settled:
			return gone, effect{}, nil
		}
	}
	return s, effect{}, fmt.Errorf("workers: message state machine: event %v in state %v", e, s)
}

// begin decides whether the handler is called:
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-queue-trigger#poison-messages
func (p messagePolicy) begin(f messageFacts) (messageState, effect, error) {
	switch {
	case f.undecodable:
		return settling, p.poison("the body is not base64, which is the default encoding; for plain text set " +
			"workers.WithMessageEncoding(workers.NoEncoding), or in host.json messageEncoding to none"), nil
	case f.dequeueCount > p.maxDequeueCount:
		// The processes of earlier attempts died before they could settle the message.
		return settling, p.poison(fmt.Sprintf("received %d times, more than the maximum of %d", f.dequeueCount,
			p.maxDequeueCount)), nil
	}
	return running, effect{kind: doRun}, nil
}

func (p messagePolicy) finish(f messageFacts) effect {
	var (
		permanent *permanentError
		after     *retryAfterError
		back      *putBackError
		snooze    *snoozeError
	)
	switch {
	case f.outcome == nil:
		return effect{kind: doDelete}
	case f.cancelled:
		return effect{kind: doDelete}
	case errors.As(f.outcome, &back) && !f.interrupted:
		return effect{kind: doRelease, delay: 0} // The time is that of the row; see delivery.putBackUntil.
	case errors.As(f.outcome, &snooze):
		return effect{kind: doRequeue, delay: max(snooze.delay, 0)}
	case errors.As(f.outcome, &permanent):
		return p.poison("permanent failure: " + sdkerr.Text(f.outcome))
	case f.interrupted:
		return p.giveBack(f)
	case f.dequeueCount >= p.maxDequeueCount:
		return p.poison(fmt.Sprintf("failed %d times: %s", f.dequeueCount, sdkerr.Text(f.outcome)))
	case errors.As(f.outcome, &after):
		return effect{kind: doRelease, delay: max(after.delay, 0)}
	}
	return effect{kind: doRelease, delay: max(p.retry.Delay(f.dequeueCount), 0)}
}

// giveBack makes the message available to other instances. On the last attempt it puts a copy: a released message would
// exceed the maximum dequeue count because of the stop alone.
func (p messagePolicy) giveBack(f messageFacts) effect {
	if f.dequeueCount >= p.maxDequeueCount {
		return effect{kind: doRequeue}
	}
	return effect{kind: doRelease}
}

func (p messagePolicy) poison(reason string) effect {
	if !p.hasPoison {
		// As in Azure Functions, the message stays hidden until its lease ends; it would be received in a busy loop
		// otherwise.
		return effect{kind: doLeave, reason: reason}
	}
	return effect{kind: doPoison, reason: reason}
}
