package events

import (
	"encoding/json"
	"time"
)

// Event is an event as a subscriber gets it.
type Event struct {
	// Number is the event's number in the log of its account.
	Number                   uint64
	ID, Topic, Subject, Type string
	Time                     time.Time
	// Data is the event's data as JSON.
	Data json.RawMessage
}

// timeFormat is the form of an event's time: ISO 8601 with seven decimals.
const timeFormat = "2006-01-02T15:04:05.0000000Z"

// gridEvent is an event in the Event Grid schema.
// https://learn.microsoft.com/azure/event-grid/event-schema
type gridEvent struct {
	Topic           string          `json:"topic"`
	Subject         string          `json:"subject"`
	EventType       string          `json:"eventType"`
	ID              string          `json:"id"`
	Data            json.RawMessage `json:"data"`
	DataVersion     string          `json:"dataVersion"`
	MetadataVersion string          `json:"metadataVersion"`
	EventTime       string          `json:"eventTime"`
}

// metadataVersion is the version of the Event Grid schema.
const metadataVersion = "1"

func (e *Event) grid() gridEvent {
	return gridEvent{Topic: e.Topic, Subject: e.Subject, EventType: e.Type, ID: e.ID, Data: e.Data,
		MetadataVersion: metadataVersion,
		EventTime:       e.Time.UTC().Format(timeFormat)}
}

// cloudEvent is an event of CloudEvents 1.0.
// https://learn.microsoft.com/azure/event-grid/cloud-event-schema
type cloudEvent struct {
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	SpecVersion string          `json:"specversion"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject"`
	Time        string          `json:"time"`
	Data        json.RawMessage `json:"data"`
}

func (e *Event) cloud() cloudEvent {
	return cloudEvent{ID: e.ID, Source: e.Topic, SpecVersion: "1.0", Type: e.Type, Subject: e.Subject,
		Time: e.Time.UTC().Format(timeFormat), Data: e.Data}
}

// render returns the event as JSON in a schema.
func (e *Event) render(schema string) json.RawMessage {
	if schema == CloudEvents {
		return mustMarshal(e.cloud())
	}
	return mustMarshal(e.grid())
}

// mustMarshal is for values of this package's own types, which always have a form in JSON.
func mustMarshal(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("events: " + err.Error())
	}
	return text
}
