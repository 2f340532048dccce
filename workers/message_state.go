package workers

import (
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// messageState is where a message stands within the instance that received it.
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
// The queue service is the authority: it alone decides who holds a message, by its pop receipt. This machine only decides
// what this instance asks for. A late actor can do no harm, since what it asks for carries a stale receipt.
type messageState int

const (
	// received: leased to this instance, no handler called yet.
	received messageState = iota
	// running: the handler is at work, and the lease is being renewed.
	running
	// orphaned: the handler is still at work, but the lease is lost and its context cancelled.
	orphaned
	// settling: the fate is decided, and is being told to the service.
	settling
	// gone: nothing more for this instance to do.
	gone
)

func (s messageState) String() string {
	return [...]string{"received", "running", "orphaned", "settling", "gone"}[s]
}

// messageEvent is what can happen to a message.
type messageEvent int

const (
	// begin: there is room to run the handler.
	begin messageEvent = iota
	// turnAway: the app is stopping, the handler will not be called.
	turnAway
	// leaseLost: the service refused the receipt, or the lease's time is over without a renewal.
	leaseLost
	// finish: the handler returned, panicked, or was given up as stuck.
	finish
	// settled: the service was told, or could not be told; either way no further attempt is made.
	settled
)

func (e messageEvent) String() string {
	return [...]string{"begin", "turnAway", "leaseLost", "finish", "settled"}[e]
}

// effectKind is what the instance does next.
type effectKind int

const (
	// doNothing: wait for the next event.
	doNothing effectKind = iota
	// doRun: call the handler.
	doRun
	// doCancel: cancel the handler's context with ErrLeaseLost.
	doCancel
	// doDelete: delete the message; its work is done.
	doDelete
	// doRelease: make the message visible again after delay.
	doRelease
	// doRequeue: put a copy that becomes visible after delay, then delete the message. The copy's dequeue count starts anew.
	doRequeue
	// doPoison: put the body to the poison queue, then delete the message.
	doPoison
	// doLeave: let the lease run out, and with it hide the message until then.
	doLeave
)

func (k effectKind) String() string {
	return [...]string{"nothing", "run", "cancel", "delete", "release", "requeue", "poison", "leave"}[k]
}

// effect is an effectKind with what it needs.
type effect struct {
	kind  effectKind
	delay time.Duration
	// reason says why a message is poisoned, for people.
	reason string
}

// messageFacts are what the decision depends on besides state and event.
type messageFacts struct {
	// dequeueCount is as the service gave it, this receipt included.
	dequeueCount int64
	// undecodable: the body is not what the encoding promises.
	undecodable bool
	// outcome is what the handler returned; it counts with finish only.
	outcome error
	// interrupted: the handler's context was cancelled because the app stops; it counts with finish only.
	interrupted bool
}

// messagePolicy is the part of a function's settings that decides fates.
type messagePolicy struct {
	maxDequeueCount int64
	retry           RetryPolicy
	// hasPoison is false for queues that are poison queues themselves or whose name leaves no room for one.
	hasPoison bool
}

// next is the machine: it has no clock, no I/O and no memory. An error means a move that the type's comment does not show,
// which is a fault of the caller.
func (p messagePolicy) next(s messageState, e messageEvent, f messageFacts) (messageState, effect, error) {
	switch s {
	case received:
		switch e {
		case begin:
			return p.begin(f)
		case turnAway:
			return settling, p.giveBack(f), nil
		case leaseLost:
			return gone, effect{}, nil
		}
	case running:
		switch e {
		case leaseLost:
			return orphaned, effect{kind: doCancel}, nil
		case finish:
			return settling, p.finish(f), nil
		}
	case orphaned:
		switch e {
		case leaseLost:
			return orphaned, effect{}, nil
		case finish:
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

// begin decides before the call: https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-queue-trigger#poison-messages
func (p messagePolicy) begin(f messageFacts) (messageState, effect, error) {
	switch {
	case f.undecodable:
		return settling, p.poison("the body is not base64, which is the default encoding; for plain text set workers.WithMessageEncoding(workers.NoEncoding), or in host.json messageEncoding to none"), nil
	case f.dequeueCount > p.maxDequeueCount:
		// Earlier attempts ended without a word: their process died.
		return settling, p.poison(fmt.Sprintf("received %d times, more than the maximum of %d", f.dequeueCount, p.maxDequeueCount)), nil
	}
	return running, effect{kind: doRun}, nil
}

func (p messagePolicy) finish(f messageFacts) effect {
	var (
		permanent *permanentError
		after     *retryAfterError
		snooze    *snoozeError
	)
	switch {
	case f.outcome == nil:
		return effect{kind: doDelete}
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

// giveBack returns a message that is to be handled by another instance, or by this one after a restart. On its last attempt
// a copy goes back: releasing it would let a mere stop push it over the maximum dequeue count.
func (p messagePolicy) giveBack(f messageFacts) effect {
	if f.dequeueCount >= p.maxDequeueCount {
		return effect{kind: doRequeue}
	}
	return effect{kind: doRelease}
}

func (p messagePolicy) poison(reason string) effect {
	if !p.hasPoison {
		// As in Azure Functions: hidden until the lease ends, or it would be received in a hot loop.
		return effect{kind: doLeave, reason: reason}
	}
	return effect{kind: doPoison, reason: reason}
}
