package blobsvc

import (
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
)

// Event is an entry of the event log: a change of a blob.
type Event = state.Event

// ForeignEvent is the part of an Event of another service, Intent such an event before its change, and Settled its
// outcome.
type (
	ForeignEvent = state.ForeignEvent
	Intent       = state.Intent
	Settled      = state.Settled
	Origin       = state.Origin
)

// Subscription is an event subscription as it is stored.
type Subscription = state.Subscription

// The errors of event subscriptions.
var (
	ErrSubscriptionExists   = state.ErrSubscriptionExists
	ErrSubscriptionNotFound = state.ErrSubscriptionNotFound
)

// ErrNotWorker means that another node of the cluster delivers the events now.
var ErrNotWorker = state.ErrNotWorker

// ClaimWork reports whether this node does the work that one node of the cluster does for all, after it has tried to
// become that if no other node is. A server alone always does.
func (s *Service) ClaimWork(now time.Time) (bool, error) { return s.state.Claim(now) }

// Worker returns the data folder of the node that does that work, as far as this node knows; "" for none.
func (s *Service) Worker() string { return s.state.Worker() }

// Node returns the name of this node's data folder; "" for a service of a single machine.
func (s *Service) Node() string { return s.state.Node() }

// Topic is an account as Azure Resource Manager names it, the source of its events.
func Topic(account string) string { return state.Topic(account) }

// Subscriptions returns all event subscriptions, by account and name.
func (s *Service) Subscriptions() ([]Subscription, error) { return s.state.Subscriptions() }

// AddSubscription stores a subscription that does not exist. It begins with the next event: progress makes its initial
// progress from the number of the last one, and may be called twice. It fails with [ErrSubscriptionExists].
func (s *Service) AddSubscription(account, name string, config []byte, progress func(last uint64) []byte) error {
	return s.state.AddSubscription(account, name, config, progress)
}

// RemoveSubscription deletes a subscription. It fails with [ErrSubscriptionNotFound].
func (s *Service) RemoveSubscription(account, name string) error {
	return s.state.RemoveSubscription(account, name)
}

// SetSubscription stores what is not nil of config and progress. It fails with [ErrSubscriptionNotFound].
func (s *Service) SetSubscription(account, name string, config, progress []byte) error {
	return s.state.SetSubscription(account, name, config, progress)
}

// LastEvent returns a number that no event committed so far exceeds.
func (s *Service) LastEvent() (uint64, error) { return s.state.LastEvent() }

// LoggedEvents returns the events of an account's log that follow the number after: at most n, and no more after size
// bytes. upTo is the number up to which list is complete; it is before the first event about which a request still
// decides.
func (s *Service) LoggedEvents(account string, after uint64, n, size int) (list []Event, upTo uint64, err error) {
	return s.state.LoggedEvents(account, after, n, size)
}

// LoggedEvent returns one event of an account's log. ok is false if the log does not have it.
func (s *Service) LoggedEvent(account string, number uint64) (e Event, ok bool, err error) {
	return s.state.LoggedEvent(account, number)
}

// TrimEvents removes the events of an account's log up to a number, some at a time. more is set if there are others.
func (s *Service) TrimEvents(account string, upTo uint64) (more bool, err error) {
	return s.state.TrimEvents(account, upTo)
}

// LogIntents durably adds events of other services to the log of an account, before the changes that they describe, and
// returns their numbers. Each must be settled.
func (s *Service) LogIntents(account string, list []Intent) ([]uint64, error) {
	return s.state.LogIntents(account, list)
}

// SettleIntents stores the outcome of intents. After an error, the events are delivered with an unknown outcome.
func (s *Service) SettleIntents(account string, list []Settled) error {
	return s.state.SettleIntents(account, list)
}
