package event

import (
	"fmt"
	"time"

	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Event is an entry of a workflow's history.
type Event = backend.HistoryEvent

// The engine keeps the generated types of its messages to itself; only Event has a name outside. So events are made by
// reflection: New sets the kind, and the fields are then reached through the typed getters.

// The kinds of events that the engine does not know are in extra.go.

// New returns an event of a kind, by the name of the field of HistoryEvent: "timerFired".
func New(kind protoreflect.Name, id int32, at time.Time) *Event {
	e := &Event{EventId: id, Timestamp: timestamppb.New(at)}
	Ensure(e, kind)
	return e
}

// Ensure sets a message field to an empty message unless it is set.
func Ensure(m proto.Message, field protoreflect.Name) {
	r := m.ProtoReflect()
	r.Mutable(r.Descriptor().Fields().ByName(field))
}

// Body returns the message inside the event and its kind; nil for an event without one.
func Body(e *Event) (protoreflect.Message, string) {
	r := e.ProtoReflect()
	field := r.WhichOneof(r.Descriptor().Oneofs().ByName("eventType"))
	if field == nil {
		return nil, ""
	}
	return r.Get(field).Message(), string(field.Name())
}

// Type returns the event's type as DurableTask.AzureStorage writes it: "TaskScheduled".
func Type(e *Event) string {
	_, kind := Body(e)
	if x := ExtraOf(e); x != nil {
		r := x.ProtoReflect()
		kind = r.WhichOneof(r.Descriptor().Oneofs().ByName("event_type")).JSONName()
	}
	if kind == "" {
		return "Unknown"
	}
	return string(kind[0]-'a'+'A') + kind[1:]
}

// payloadFields are the fields with inputs and outputs of the user's code.
var payloadFields = []protoreflect.Name{"input", "result", "data"}

// PayloadOf returns the event's payload and the name of its field; nil if it has none. No event has two.
func PayloadOf(e *Event) (*wrapperspb.StringValue, protoreflect.Name) {
	if _, inner := Inside(e); inner != nil {
		return PayloadOf(inner)
	}
	if v, name := extraPayload(ExtraOf(e)); v != nil {
		if *v == nil {
			return nil, ""
		}
		return *v, protoreflect.Name(name)
	}
	body, _ := Body(e)
	if body == nil {
		return nil, ""
	}
	for _, name := range payloadFields {
		field := body.Descriptor().Fields().ByName(name)
		if field == nil || !body.Has(field) {
			continue
		}
		if v, ok := body.Get(field).Message().Interface().(*wrapperspb.StringValue); ok {
			return v, name
		}
	}
	return nil, ""
}

// WithoutPayload returns a copy of the event whose payload field is not set.
func WithoutPayload(e *Event) *Event {
	if field, inner := Inside(e); inner != nil {
		return Keep(field, WithoutPayload(inner))
	}
	c := proto.Clone(e).(*Event)
	if x := ExtraOf(c); x != nil {
		if v, _ := extraPayload(x); v != nil {
			*v = nil
			setExtra(c, x)
		}
		return c
	}
	_, name := PayloadOf(c)
	if name != "" {
		body, _ := Body(c)
		body.Clear(body.Descriptor().Fields().ByName(name))
	}
	return c
}

// SetPayload sets the event's payload.
func SetPayload(e *Event, name protoreflect.Name, text string) error {
	if field, inner := Inside(e); inner != nil {
		if err := SetPayload(inner, name, text); err != nil {
			return err
		}
		e.ProtoReflect().SetUnknown(Keep(field, inner).ProtoReflect().GetUnknown())
		return nil
	}
	if x := ExtraOf(e); x != nil {
		if v, field := extraPayload(x); v != nil && field == string(name) {
			*v = wrapperspb.String(text)
			setExtra(e, x)
			return nil
		}
	}
	body, kind := Body(e)
	if body == nil {
		return fmt.Errorf("the event has no kind")
	}
	field := body.Descriptor().Fields().ByName(name)
	if field == nil || field.Message() == nil {
		return fmt.Errorf("%s has no field %q", kind, name)
	}
	v, ok := body.Mutable(field).Message().Interface().(*wrapperspb.StringValue)
	if !ok {
		return fmt.Errorf("the field %q of %s is no payload", name, kind)
	}
	v.Value = text
	return nil
}

// TaskOf returns the number of the task that the event completes, and whether it completes one.
func TaskOf(e *Event) (int32, bool) {
	if x := e.GetTaskCompleted(); x != nil {
		return x.TaskScheduledId, true
	}
	if x := e.GetTaskFailed(); x != nil {
		return x.TaskScheduledId, true
	}
	if x := e.GetSubOrchestrationInstanceCompleted(); x != nil {
		return x.TaskScheduledId, true
	}
	if x := e.GetSubOrchestrationInstanceFailed(); x != nil {
		return x.TaskScheduledId, true
	}
	if x := e.GetTimerFired(); x != nil {
		return x.TimerId, true
	}
	return 0, false
}

// ExecutionOf returns the execution that a start event begins.
func ExecutionOf(e *Event) string {
	return e.GetExecutionStarted().GetOrchestrationInstance().GetExecutionId().GetValue()
}
