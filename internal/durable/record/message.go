package record

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

// Message is an event on its way to an instance, or an activity on its way to a worker (TaskScheduled).
type Message struct {
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
	Function *Function `json:"function,omitempty"`

	Parsed *Event `json:"-"`
}

// Function is a function that work is for.
type Function struct {
	Kind    workkind.Kind `json:"kind"`
	Name    string        `json:"name"`
	Version string        `json:"version,omitempty"`
}

const messageVersion = 1

// Schedule sets when a message to an entity may arrive.
func (m *Message) Schedule(x *protocol.HistoryEvent) {
	if t := x.GetEntityOperationSignaled().GetScheduledTime(); t.IsValid() {
		due := t.AsTime()
		m.Due = &due
	}
}

// Left returns how long the message has to wait until it is due.
func (m *Message) Left(now time.Time) time.Duration {
	if m.Due == nil {
		return 0
	}
	return max(0, m.Due.Sub(now))
}

// ErrBadMessage: the text is not one of ours, or has been damaged.
var ErrBadMessage = errors.New("the message is not readable")

// PayloadName returns the name of the message's payload.
func (m *Message) PayloadName(text string) string {
	scope := m.Execution
	if scope == "" { // It comes from outside.
		h := hashID(m.ID)
		scope = fmt.Sprintf("-%x", h[:8])
	}
	return payloadName(m.Instance, scope, text)
}

// Encode writes the message, and its payload to a blob if it is large.
func (p Payloads) Encode(ctx context.Context, m *Message) (string, error) {
	m.Version, m.Type = messageVersion, event.Type(m.Parsed)
	e := m.Parsed
	if v, field := event.PayloadOf(e); v != nil && (m.Blob != "" || len(v.Value) > InlineLimit) {
		if m.Blob == "" {
			m.Blob = m.PayloadName(v.Value)
			if err := p.Put(ctx, m.Blob, v.Value); err != nil {
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

// Decode reads a message without its payload.
func Decode(text string) (*Message, error) {
	m := &Message{Parsed: &Event{}}
	if err := json.Unmarshal([]byte(text), m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadMessage, err)
	}
	if m.Version != messageVersion {
		return nil, fmt.Errorf("%w: version %d", ErrBadMessage, m.Version)
	}
	if m.Order != "" && (len(m.Order) != 16 || m.Order.Plus(0) != m.Order) {
		return nil, fmt.Errorf("%w: order %q", ErrBadMessage, m.Order)
	}
	if err := checkReceiver(m.Instance); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadMessage, err)
	}
	if err := proto.Unmarshal(m.Event, m.Parsed); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadMessage, err)
	}
	if body, _ := event.Body(m.Parsed); body == nil || m.Parsed.Timestamp == nil {
		return nil, fmt.Errorf("%w: the event has no kind or time", ErrBadMessage)
	}
	return m, nil
}

// Fill reads the message's payload from its blob.
func (p Payloads) Fill(ctx context.Context, m *Message) error {
	if m.Blob == "" {
		return nil
	}
	if v, _ := event.PayloadOf(m.Parsed); v != nil {
		return nil
	}
	text, err := p.Get(ctx, m.Blob)
	if err != nil {
		return err
	}
	if err := event.SetPayload(m.Parsed, protoreflect.Name(m.Field), text); err != nil {
		return fmt.Errorf("%w: %w", ErrBadMessage, err)
	}
	return nil
}

func SizeWithoutPayload(e *Event) int {
	n := proto.Size(e)
	v, _ := event.PayloadOf(e)
	return n - len(v.GetValue())
}
