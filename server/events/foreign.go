package events

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// changeTypes are the types of events of queues and tables. A subscription gets those that it names.
var changeTypes = append(slices.Clone(changes.QueueTypes), changes.TableTypes...)

// changeLog stores the events of queues and tables in the event log. It implements [changes.Log].
type changeLog struct{ log Log }

func intents(r *wire.Request, list []*changes.Event, confirmed bool) ([]blobsvc.Intent, error) {
	intents := make([]blobsvc.Intent, len(list))
	for i, e := range list {
		data, err := json.Marshal(e.Data)
		if err != nil {
			return nil, err
		}
		if e.Data == nil {
			data = []byte("{}")
		}
		intents[i] = blobsvc.Intent{Origin: blobsvc.Origin{Operation: r.Operation, RequestID: r.ID,
			ClientRequestID: r.ClientID, Base: r.Base},
			At: ticks.Of(r.Now), ForeignEvent: blobsvc.ForeignEvent{Type: e.Type, Subject: e.Subject, Data: data,
				Confirmed: confirmed}}
	}
	return intents, nil
}

// Begin implements [changes.Log].
func (l changeLog) Begin(r *wire.Request, list []*changes.Event) ([]uint64, error) {
	intents, err := intents(r, list, false)
	if err != nil {
		return nil, err
	}
	return l.log.LogIntents(r.Account, intents)
}

// End implements [changes.Log].
func (l changeLog) End(r *wire.Request, numbers []uint64, list []*changes.Event, o changes.Outcome) error {
	intents, err := intents(r, list, o == changes.Made)
	if err != nil {
		return err
	}
	settled := make([]blobsvc.Settled, len(list))
	for i, e := range list {
		settled[i] = blobsvc.Settled{Number: numbers[i], Removed: o == changes.Refused || o == changes.Made &&
			e.Unchanged, Intent: intents[i]}
	}
	return l.log.SettleIntents(r.Account, settled)
}

// ofForeign returns the event of a change of a queue or a table.
func ofForeign(b *blobsvc.Event) (e Event, ok bool) {
	var data map[string]any
	if json.Unmarshal(b.Foreign.Data, &data) != nil || data == nil {
		return e, false // cannot happen: the log checks it
	}
	data["api"], data["requestId"], data["sequencer"] = b.Operation, b.RequestID, b.Sequencer()
	if b.ClientRequestID != "" {
		data["clientRequestId"] = b.ClientRequestID
	}
	if !b.Foreign.Confirmed {
		data["unconfirmed"] = true
	}
	return Event{Number: b.Sequence, ID: b.ID(), Topic: b.Topic(), Subject: b.Foreign.Subject, Type: b.Foreign.Type,
		Time: b.At.Time(), Data: mustMarshal(data)}, true
}

// recordChanges makes the services record what the subscriptions want. m.changing is held, or m is not in use yet.
func (m *Manager) recordChanges() {
	var list []Subscription
	for _, r := range m.all() {
		list = append(list, r.sub)
	}
	recordFor(m.Changes, m.Log, list)
}

// Record makes the services of a node that does not deliver events record what the stored subscriptions want. A nil rec
// does nothing.
func Record(rec *changes.Recorder, log Log) error {
	stored, err := log.Subscriptions()
	if err != nil {
		return err
	}
	list := make([]Subscription, len(stored))
	for i, s := range stored {
		var r record
		if err := json.Unmarshal(s.Config, &r); err != nil {
			return fmt.Errorf("event subscription %s of %s: %w", s.Name, s.Account, err)
		}
		list[i] = r.Subscription
	}
	recordFor(rec, log, list)
	return nil
}

func recordFor(rec *changes.Recorder, log Log, list []Subscription) {
	if rec == nil {
		return
	}
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
	rec.Configure(changeLog{log}, accounts)
}
