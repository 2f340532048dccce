package state

import (
	"errors"
	"math"
	"time"
)

// Event is a change of one message that a caller requests.
type Event struct {
	Kind EventKind
	// Visibility is the time from now for which the message is to be invisible; for Put, Claim and Change.
	Visibility time.Duration
	// TTL is the time to live of the message, or Forever; for Put.
	TTL time.Duration
	// Current is set if the caller's pop receipt is that of the current record; for Change and Remove.
	Current bool
}

// Forever is the TTL of a message that does not expire.
const Forever time.Duration = -1

// EventKind is the kind of an [Event].
type EventKind uint8

// The events, each with its operation of the service.
const (
	Put    EventKind = iota // Put Message
	Claim                   // Get Messages, for each message
	Look                    // Peek Messages, for each message
	Change                  // Update Message
	Remove                  // Delete Message
)

// Effect is the consequence of an event.
type Effect uint8

// The effects.
const (
	Keep    Effect = iota // the message stays as it is
	Replace               // the returned state replaces the current one
	Erase                 // the message is deleted
)

// Errors for events that are not possible.
var (
	// ErrMessageNotFound: the message does not exist, was deleted, or has expired.
	ErrMessageNotFound = errors.New("message not found")
	// ErrNotVisible: the message may not be handed out now.
	ErrNotVisible = errors.New("message is not visible")
	// ErrReceiptMismatch: the message was dequeued or changed since the pop receipt was issued.
	ErrReceiptMismatch = errors.New("pop receipt does not match")
	// ErrPastExpiry: the message would become visible only after it expired.
	ErrPastExpiry = errors.New("visibility timeout ends after the message expires")
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

// Next is the state machine of a message: it returns the state after an event. current is nil if there is no message;
// now is in nanoseconds since 1970. It has no side effects and reads no clock.
//
//	          Put      Claim         Look          Change            Remove
//	absent    hidden*  NotFound      NotFound      NotFound          NotFound
//	hidden    -        NotVisible    NotVisible    hidden* Mismatch  absent Mismatch
//	visible   -        hidden        visible       hidden* Mismatch  absent Mismatch
//
//	*  visible at once if the visibility timeout is 0
//	-  is a defect of the caller, and returns ErrReceiptMismatch: a message is put once
//
// Mismatch is returned if the pop receipt is not that of the current record. A receipt stays valid when the message
// becomes visible again. It becomes invalid when the message is dequeued again, because there is a new record then.
// https://learn.microsoft.com/rest/api/storageservices/update-message#remarks
func Next(current *State, e Event, now int64) (State, Effect, error) {
	phase := current.phaseAt(now)
	if e.Kind == Put {
		if current != nil {
			return State{}, Keep, ErrReceiptMismatch
		}
		return put(e, now)
	}
	if phase == absent {
		return State{}, Keep, ErrMessageNotFound
	}
	switch e.Kind {
	case Claim, Look:
		if phase == hidden {
			return State{}, Keep, ErrNotVisible
		}
		if e.Kind == Look {
			return *current, Keep, nil
		}
		return handedOut(*current, e.Visibility, now), Replace, nil
	case Change, Remove:
		if !e.Current {
			return State{}, Keep, ErrReceiptMismatch
		}
		if e.Kind == Remove {
			return State{}, Erase, nil
		}
		return changed(*current, e.Visibility, now)
	}
	return State{}, Keep, ErrMessageNotFound
}

// put returns the state of a new message.
func put(e Event, now int64) (State, Effect, error) {
	s := State{Inserted: now, Expires: Never, NextVisible: after(now, e.Visibility)}
	if e.TTL != Forever {
		s.Expires = after(now, e.TTL)
		if s.NextVisible >= s.Expires {
			return State{}, Keep, ErrPastExpiry
		}
	}
	return s, Replace, nil
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
func changed(s State, visibility time.Duration, now int64) (State, Effect, error) {
	s.NextVisible = after(now, visibility)
	if s.Expires != Never && s.NextVisible > s.Expires {
		return State{}, Keep, ErrPastExpiry
	}
	return s, Replace, nil
}

// after adds without overflow: Azure accepts times to live of up to 68 years.
func after(now int64, d time.Duration) int64 {
	if d > 0 && now > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return now + int64(d)
}
