package events

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// changeTypes are the types of events of queues and tables. A subscription gets those that it names.
var changeTypes = append(slices.Clone(changes.QueueTypes), changes.TableTypes...)

// Intents stores the events of queues and tables in the event log of their account: as intents before the changes, and
// with their outcome afterwards. The methods are those of [eventlog.Log].
type Intents interface {
	Begin(account string, list []eventlog.Change) (numbers []uint64, err error)
	Settle(account string, list []eventlog.Settled) error
}

// changeLog stores the events of requests. It implements [changes.Log].
type changeLog struct{ intents Intents }

// Logs are the event logs of a server: one for each shard of its blobs.
type Logs struct {
	All []*eventlog.Log
	// Of returns the log with the events of all services of an account, and with its subscriptions; nil if that is on
	// other nodes.
	Of func(account string) *eventlog.Log
}

// Begin implements [Intents].
func (l Logs) Begin(account string, list []eventlog.Change) ([]uint64, error) {
	return l.Of(account).Begin(account, list)
}

// Settle implements [Intents].
func (l Logs) Settle(account string, list []eventlog.Settled) error {
	return l.Of(account).Settle(account, list)
}

func intents(r *wire.Request, list []*changes.Event, confirmed bool) ([]eventlog.Change, error) {
	intents := make([]eventlog.Change, len(list))
	for i, e := range list {
		data, err := json.Marshal(e.Data)
		if err != nil {
			return nil, err
		}
		if e.Data == nil {
			data = []byte("{}")
		}
		intents[i] = eventlog.Change{Origin: eventlog.Origin{Operation: r.Operation, RequestID: r.ID,
			ClientRequestID: r.ClientID, Base: r.Base},
			At: ticks.Of(r.Now), Type: e.Type, Subject: e.Subject, Data: data, Confirmed: confirmed}
	}
	return intents, nil
}

// Begin implements [changes.Log].
func (l changeLog) Begin(r *wire.Request, list []*changes.Event) ([]uint64, error) {
	intents, err := intents(r, list, false)
	if err != nil {
		return nil, err
	}
	return l.intents.Begin(r.Account, intents)
}

// End implements [changes.Log].
func (l changeLog) End(r *wire.Request, numbers []uint64, list []*changes.Event, o changes.Outcome) error {
	intents, err := intents(r, list, o == changes.Made)
	if err != nil {
		return err
	}
	settled := make([]eventlog.Settled, len(list))
	for i, e := range list {
		settled[i] = eventlog.Settled{Number: numbers[i], Removed: o == changes.Refused || o == changes.Made &&
			e.Unchanged, Change: intents[i]}
	}
	return l.intents.Settle(r.Account, settled)
}

// ofChange returns the event of a change of a queue or a table.
func ofChange(n *eventlog.Entry) (e Event, err error) {
	c := n.Change
	var data map[string]any
	if err := json.Unmarshal(c.Data, &data); err != nil {
		return e, fmt.Errorf("event %d: %w", n.Number, err)
	}
	data["api"], data["requestId"], data["sequencer"] = c.Operation, c.RequestID, eventlog.Sequencer(n.Number)
	if c.ClientRequestID != "" {
		data["clientRequestId"] = c.ClientRequestID
	}
	if !c.Confirmed {
		data["unconfirmed"] = true
	}
	return Event{Number: n.Number, ID: eventlog.ID(c.RequestID, n.Number), Topic: eventlog.Topic(n.Account),
		Subject: c.Subject, Type: c.Type, Time: c.At.Time(), Data: mustMarshal(data)}, nil
}

// recordChanges makes the services record what the subscriptions want, after those of an account have changed; "" is
// those of a log. m.changing is held, or m is not in use yet.
func (m *Manager) recordChanges(account string) {
	switch {
	case m.Changed != nil:
		if account != "" {
			m.Changed(account)
		}
	case m.held != nil:
		// Those of the other logs count as well. If they cannot be read, the node reads them again soon.
		if err := Record(m.Changes, m.Logs); err != nil {
			m.Logger.Warn("the event subscriptions cannot be read; trying again", "err", err)
		}
	default:
		var list []Subscription
		for _, r := range m.all() {
			list = append(list, r.sub)
		}
		Configure(m.Changes, m.Logs, interestsOf(list))
	}
}

// Record makes the services of a node that does not deliver events record what the stored subscriptions want. A nil rec
// does nothing.
func Record(rec *changes.Recorder, logs Logs) error {
	all := map[string]changes.Interest{}
	for _, log := range logs.All {
		some, err := Interests(log)
		if err != nil {
			return err
		}
		maps.Copy(all, some) // an account is in one log
	}
	Configure(rec, logs, all)
	return nil
}

// Interests returns what the subscriptions in a log want of the changes of queues and tables, by account.
func Interests(log *eventlog.Log) (map[string]changes.Interest, error) {
	stored, err := log.List()
	if err != nil {
		return nil, err
	}
	list := make([]Subscription, len(stored))
	for i, s := range stored {
		var r record
		if err := json.Unmarshal(s.Config, &r); err != nil {
			return nil, fmt.Errorf("event subscription %s of %s: %w", s.Name, s.Account, err)
		}
		list[i] = r.Subscription
	}
	return interestsOf(list), nil
}

func interestsOf(list []Subscription) map[string]changes.Interest {
	accounts := map[string]changes.Interest{}
	for _, s := range list {
		interest := accounts[s.Account]
		for _, t := range s.IncludedEventTypes {
			if slices.Contains(changeTypes, t) {
				interest.Types = append(interest.Types, t)
			}
		}
		if s.EndpointType == StorageQueue {
			interest.Destinations = append(interest.Destinations, s.Endpoint)
		}
		accounts[s.Account] = interest
	}
	return accounts
}

// Configure makes the services record what subscriptions want. A nil rec does nothing.
func Configure(rec *changes.Recorder, intents Intents, accounts map[string]changes.Interest) {
	if rec != nil {
		rec.Configure(changeLog{intents}, accounts)
	}
}
