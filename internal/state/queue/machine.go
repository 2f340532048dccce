package queue

import (
	"math"
	"time"
)

// State is a message without its identity and text. Times are nanoseconds since 1970, UTC.
type State struct {
	Inserted     int64
	Expires      int64 // Never if the message does not expire
	NextVisible  int64
	DequeueCount uint32
}

// Event is a change of one message that a caller requests.
type Event struct {
	Kind EventKind
	// Visibility is the time from now for which the message is to be invisible; for Put, Claim and Change.
	Visibility time.Duration
	// TTL is the time to live of the message, or Forever; for Put.
	TTL time.Duration
}

// Forever is the TTL of a message that does not expire.
const Forever time.Duration = -1

// EventKind is the kind of an [Event].
type EventKind uint8

// The events, each with its operation of the service.
const (
	Put    EventKind = iota // Put Message
	Claim                   // Get Messages, for each message
	Change                  // Update Message
	Remove                  // Delete Message
)

// phase is the phase of a message's life at a given time.
type phase uint8

const (
	absent  phase = iota // never put, deleted or expired
	hidden               // put with a delay, or claimed
	visible              // may be handed out
)

// phaseAt returns the phase of s; nil is absent.
func (s *State) phaseAt(now int64) phase {
	switch {
	case s == nil || s.Expires != Never && s.Expires <= now:
		return absent
	case s.NextVisible > now:
		return hidden
	default:
		return visible
	}
}

// next is the state machine of a message: it returns the state after an event, the zero State after Remove. current is
// nil if there is no message; now is in nanoseconds since 1970. It has no side effects and reads no clock. The caller
// has checked the pop receipt.
//
//	          Put      Claim         Change     Remove
//	absent    hidden*  NotFound      NotFound   NotFound
//	hidden    -        NotVisible    hidden*    absent
//	visible   -        hidden        hidden*    absent
//
//	*  visible at once if the visibility timeout is 0
//	-  is a defect of the caller, and returns ErrReceiptMismatch: a message is put once
//
// A receipt stays valid when the message becomes visible again. It becomes invalid when the message is dequeued again,
// because there is a new record then.
// https://learn.microsoft.com/rest/api/storageservices/update-message#remarks
func next(current *State, e Event, now int64) (State, error) {
	if e.Kind == Put {
		if current != nil {
			return State{}, ErrReceiptMismatch
		}
		return put(e, now)
	}
	switch phase := current.phaseAt(now); {
	case phase == absent:
		return State{}, ErrMessageNotFound
	case e.Kind == Claim && phase == hidden:
		return State{}, ErrNotVisible
	case e.Kind == Claim:
		return handedOut(*current, e.Visibility, now), nil
	case e.Kind == Change:
		return changed(*current, e.Visibility, now)
	case e.Kind == Remove:
		return State{}, nil
	}
	return State{}, ErrMessageNotFound
}

// put returns the state of a new message.
func put(e Event, now int64) (State, error) {
	s := State{Inserted: now, Expires: Never, NextVisible: after(now, e.Visibility)}
	if e.TTL != Forever {
		s.Expires = after(now, e.TTL)
		if s.NextVisible >= s.Expires {
			return State{}, ErrPastExpiry
		}
	}
	return s, nil
}

// handedOut returns s after another dequeue. It may become visible again only after it has expired.
func handedOut(s State, visibility time.Duration, now int64) State {
	s.NextVisible = after(now, visibility)
	if s.DequeueCount < math.MaxUint32 {
		s.DequeueCount++
	}
	return s
}

// changed returns s with a new visibility timeout.
func changed(s State, visibility time.Duration, now int64) (State, error) {
	s.NextVisible = after(now, visibility)
	if s.Expires != Never && s.NextVisible > s.Expires {
		return State{}, ErrPastExpiry
	}
	return s, nil
}

// after adds without overflow: Azure accepts times to live of up to 68 years.
func after(now int64, d time.Duration) int64 {
	if d > 0 && now > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return now + int64(d)
}
