package events

import (
	"slices"
	"time"
)

// pending is an event that was read from the log and is not finished.
type pending struct {
	Number   uint64 `json:"number"`
	Attempts int    `json:"attempts,omitempty"`
	// Next is the time at which the next attempt is due; the zero value is now. Last is the time of the last one, Outcome
	// its outcome.
	Next    time.Time `json:"next,omitzero"`
	Last    time.Time `json:"last,omitzero"`
	Outcome string    `json:"outcome,omitempty"`
	// Dead is why the event is to be dead-lettered, "" for one that is to be delivered. DeadSince is when that was
	// decided.
	Dead      string    `json:"dead,omitempty"`
	DeadSince time.Time `json:"deadSince,omitzero"`

	event   *Event
	size    int  // of the event as JSON
	busy    bool // an attempt is under way
	hurried bool // the attempt after it is due at once
}

// lane is the state of one subscription's delivery. It does no I/O and has no clock.
type lane struct {
	// Position is the number up to which the log was read.
	Position uint64 `json:"position"`
	// Pending are the events up to Position that are not finished, in their order.
	Pending []*pending `json:"pending,omitempty"`
}

// The reasons of dead letters.
const (
	tooManyAttempts = "MaxDeliveryAttemptsExceeded"
	tooOld          = "TimeToLiveExceeded"
	undeliverable   = "UndeliverableDueTo" // and the outcome
)

// deadLetterPatience is for how long a dead letter is tried; then it is dropped.
const (
	deadLetterPatience = 4 * time.Hour
	deadLetterPause    = time.Minute
)

func (l *lane) add(e *Event, size int) {
	l.Pending = append(l.Pending, &pending{Number: e.Number, event: e, size: size})
}

// finished is the number up to which everything is finished.
func (l *lane) finished() uint64 {
	if len(l.Pending) == 0 {
		return l.Position
	}
	return l.Pending[0].Number - 1
}

// take returns the events of the next attempt, and marks them busy: up to max events of up to size bytes in sum, or a
// single dead letter. An event waits for those before it that have its subject. nil is nothing to do now.
func (l *lane) take(now time.Time, max, size int) (batch []*pending) {
	blocked := map[string]bool{}
	sum := 0
	for _, p := range l.Pending {
		if blocked[p.event.Subject] {
			continue
		}
		// The loop goes on after an event that does not fit: one of another subject may. Later ones of the same subject
		// must not overtake it.
		if p.busy || p.Next.After(now) || len(batch) == max || len(batch) > 0 && (p.Dead != "" || sum+p.size > size) {
			blocked[p.event.Subject] = true
			continue
		}
		batch, sum = append(batch, p), sum+p.size
		p.busy = true
		if p.Dead != "" {
			break
		}
	}
	return batch
}

// due is the time at which take may return something, if time alone decides. ok is false if it does not.
func (l *lane) due() (next time.Time, ok bool) {
	for _, p := range l.Pending {
		if !p.busy && (!ok || p.Next.Before(next)) {
			next, ok = p.Next, true
		}
	}
	return next, ok
}

// hurry makes the next attempts of all events due: an attempt under way may have begun before the endpoint could
// answer.
func (l *lane) hurry() {
	for _, p := range l.Pending {
		p.Next, p.hurried = time.Time{}, p.busy
	}
}

// retryAt makes the next attempt with p due at a time, or at once if it was hurried.
func (p *pending) retryAt(t time.Time) {
	if p.hurried {
		t = time.Time{}
	}
	p.Next, p.hurried = t, false
}

// remove finishes an event.
func (l *lane) remove(p *pending) {
	if i := slices.Index(l.Pending, p); i >= 0 {
		l.Pending = slices.Delete(l.Pending, i, i+1)
	}
}

// verdict holds what becomes of an event after an attempt.
type verdict string

const (
	delivered    verdict = "delivered"
	retried      verdict = "retried"
	deadLettered verdict = "dead-lettered"
	dropped      verdict = "dropped"
)

// expired reports whether the time to deliver p has ended.
func (s *Subscription) expired(p *pending, now time.Time) bool {
	return p.Dead == "" && !now.Before(p.event.Time.Add(s.ttl()))
}

// attempted applies the result of an attempt to deliver p. jitter is from 0 to 1.
func (l *lane) attempted(s *Subscription, p *pending, r result, now time.Time, jitter float64) verdict {
	p.busy = false
	if r.ok() {
		l.remove(p)
		return delivered
	}
	p.Attempts++
	p.Last, p.Outcome = now, r.outcome()
	switch {
	case r.final(s.EndpointType):
		return l.endDelivery(s, p, undeliverable+"Http"+p.Outcome, now)
	case p.Attempts >= s.MaxDeliveryAttempts:
		return l.endDelivery(s, p, tooManyAttempts, now)
	}
	next := now.Add(r.pause(s.EndpointType, p.Attempts, jitter))
	// At the end of its time to live the event is looked at again, and its delivery ends.
	if end := p.event.Time.Add(s.ttl()); next.After(end) {
		next = end
	}
	p.retryAt(next)
	return retried
}

// endDelivery ends the delivery of p: it becomes a dead letter, or is dropped if the subscription has no place for
// those.
func (l *lane) endDelivery(s *Subscription, p *pending, reason string, now time.Time) verdict {
	p.busy = false
	if s.DeadLetterContainer == "" {
		l.remove(p)
		return dropped
	}
	p.Dead, p.DeadSince, p.Next = reason, now, time.Time{}
	return retried
}

// deadLetterStored applies the result of an attempt to store p as a dead letter.
func (l *lane) deadLetterStored(p *pending, err error, now time.Time) verdict {
	p.busy = false
	switch {
	case err == nil:
		l.remove(p)
		return deadLettered
	case now.Sub(p.DeadSince) >= deadLetterPatience:
		l.remove(p)
		return dropped
	}
	p.retryAt(now.Add(deadLetterPause))
	return retried
}

// discard finishes all events up to a number, but for those of attempts under way.
func (l *lane) discard(last uint64) {
	l.Position = max(l.Position, last)
	l.Pending = slices.DeleteFunc(l.Pending, func(p *pending) bool { return !p.busy })
}
