package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
)

// message is an event on its way to an instance, or an activity on its way to a worker (TaskScheduled).
type message struct {
	// Version is the version of the format.
	Version int `json:"v"`
	// ID is the same in every copy of the message. Empty where the event itself says whether it is a copy: it completes a
	// task.
	ID string `json:"id,omitempty"`
	// Instance is the receiver; for an activity the instance that waits for it.
	Instance string `json:"instance"`
	// Execution is the execution that the event belongs to; empty for events from outside.
	Execution string `json:"execution,omitempty"`
	// Scheduled is, for what completes a task, one more than the row of the event that scheduled it: some SDKs use a
	// task's number again when they try it again.
	Scheduled int `json:"scheduled,omitempty"`
	// Type is for people who look into the queue.
	Type string `json:"type"`
	// Event is the event in the protocol's encoding, without its payload if that is in a blob.
	Event []byte `json:"event"`
	// Blob is the blob of the payload, and Field the event's field that it belongs to.
	Blob  string `json:"blob,omitempty"`
	Field string `json:"field,omitempty"`
	// Due is the time at which the event may happen: a timer beyond the longest delay of a queue's message is delayed
	// several times.
	Due *time.Time `json:"due,omitempty"`
	// Order is, for a message to an entity, its place among those of its sender; empty for those of clients.
	Order order `json:"order,omitempty"`
	// Parent is, for the start of a sub-orchestration, true: its ID need not be unused.
	Parent bool `json:"parent,omitempty"`
	// Function is, for a message in the queue that several apps share, the function that it is work of.
	Function *function `json:"function,omitempty"`

	event *Event
}

// function is a function that work is for.
type function struct {
	Kind    workkind.Kind `json:"kind"`
	Name    string        `json:"name"`
	Version string        `json:"version,omitempty"`
}

const messageVersion = 1

// schedule sets when a message to an entity may arrive.
func (m *message) schedule(x *protocol.HistoryEvent) {
	if t := x.GetEntityOperationSignaled().GetScheduledTime(); t.IsValid() {
		due := t.AsTime()
		m.Due = &due
	}
}

// left returns how long the message has to wait until it is due.
func (m *message) left(now time.Time) time.Duration {
	if m.Due == nil {
		return 0
	}
	return max(0, m.Due.Sub(now))
}

// errBadMessage: the text is not one of ours, or has been damaged.
var errBadMessage = errors.New("the message is not readable")

// payloadName returns the name of the message's payload.
func (m *message) payloadName(text string) string {
	scope := m.Execution
	if scope == "" { // It comes from outside.
		h := hashID(m.ID)
		scope = fmt.Sprintf("-%x", h[:8])
	}
	return payloadName(m.Instance, scope, text)
}

// encode writes the message, and its payload to a blob if it is large.
func (p payloads) encode(ctx context.Context, m *message) (string, error) {
	m.Version, m.Type = messageVersion, event.Type(m.event)
	e := m.event
	if v, field := event.PayloadOf(e); v != nil && (m.Blob != "" || len(v.Value) > inlineLimit) {
		if m.Blob == "" {
			m.Blob = m.payloadName(v.Value)
			if err := p.put(ctx, m.Blob, v.Value); err != nil {
				return "", err
			}
		}
		m.Field, e = string(field), event.WithoutPayload(e)
	}
	var err error
	if m.Event, err = proto.Marshal(e); err != nil {
		return "", fmt.Errorf("durable: write a message: %w", err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("durable: write a message: %w", err)
	}
	return string(text), nil
}

// decode reads a message without its payload.
func decode(text string) (*message, error) {
	m := &message{event: &Event{}}
	if err := json.Unmarshal([]byte(text), m); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadMessage, err)
	}
	if m.Version != messageVersion {
		return nil, fmt.Errorf("%w: version %d", errBadMessage, m.Version)
	}
	if m.Order != "" && (len(m.Order) != 16 || m.Order.plus(0) != m.Order) {
		return nil, fmt.Errorf("%w: order %q", errBadMessage, m.Order)
	}
	if err := checkReceiver(m.Instance); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadMessage, err)
	}
	if err := proto.Unmarshal(m.Event, m.event); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadMessage, err)
	}
	if body, _ := event.Body(m.event); body == nil || m.event.Timestamp == nil {
		return nil, fmt.Errorf("%w: the event has no kind or time", errBadMessage)
	}
	return m, nil
}

// fill reads the message's payload from its blob.
func (p payloads) fill(ctx context.Context, m *message) error {
	if m.Blob == "" {
		return nil
	}
	if v, _ := event.PayloadOf(m.event); v != nil {
		return nil
	}
	text, err := p.get(ctx, m.Blob)
	if err != nil {
		return err
	}
	if err := event.SetPayload(m.event, protoreflect.Name(m.Field), text); err != nil {
		return fmt.Errorf("%w: %w", errBadMessage, err)
	}
	return nil
}
