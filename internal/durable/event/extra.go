package event

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// The engine's version of the protocol has no events of entities and no rewinds. Such an event is an
// OrchestratorCompleted, which has no effect on the engine, with the event's own field behind it as an unknown one. The
// fields belong to one oneof, so that readers with the present protocol see the last one: the event itself.

// FirstExtra is the number of the first field of HistoryEvent that the engine does not know.
const FirstExtra protowire.Number = 23

// Fields of an OrchestratorCompleted that no SDK knows, so that what is in them has no part in a workflow's replay.
const (
	// Carried is an event that is sent to another instance although the workflow's code does not know of it, or no longer:
	// the workflow has continued as new, or completed while it held locks.
	Carried protowire.Number = 1000
	// Removed is an event that a rewind has taken out of the history.
	Removed protowire.Number = 1001
)

// FromProtocol returns an event in the engine's form.
func FromProtocol(x *protocol.HistoryEvent) (*Event, error) {
	text, err := proto.Marshal(x)
	if err != nil {
		return nil, err
	}
	e := &Event{}
	if err := proto.Unmarshal(text, e); err != nil {
		return nil, err
	}
	if body, _ := Body(e); body == nil && len(e.ProtoReflect().GetUnknown()) > 0 {
		Ensure(e, "orchestratorCompleted")
	}
	return e, nil
}

// NewExtra returns an event of a kind that the engine does not know; set chooses the kind.
func NewExtra(id int32, at time.Time, set func(*protocol.HistoryEvent)) *Event {
	x := &protocol.HistoryEvent{EventId: id, Timestamp: timestamppb.New(at)}
	set(x)
	e, err := FromProtocol(x)
	if err != nil {
		panic("durable: an event of valid text cannot be written: " + err.Error())
	}
	return e
}

// ExtraOf returns an event in the present protocol's form if the engine does not know its kind, or nil.
func ExtraOf(e *Event) *protocol.HistoryEvent {
	if e.GetOrchestratorCompleted() == nil {
		return nil
	}
	fields := e.ProtoReflect().GetUnknown()
	number, _, n := protowire.ConsumeTag(fields)
	if n < 0 || number < FirstExtra || number >= Carried {
		return nil
	}
	x := &protocol.HistoryEvent{EventId: e.EventId, Timestamp: e.Timestamp}
	if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(fields, x); err != nil || x.EventType == nil {
		return nil
	}
	return x
}

// Carry returns an event that keeps a sent one in the history, hidden from the workflow.
func Carry(sent *Event) *Event { return Keep(Carried, sent) }

// CarriedBy returns the event that Carry keeps, or nil.
func CarriedBy(e *Event) *Event { return kept(Carried, e) }

// Keep returns an event without effect that has another one in a field.
func Keep(field protowire.Number, e *Event) *Event {
	text, err := proto.Marshal(e)
	if err != nil {
		panic("durable: an event of valid text cannot be written: " + err.Error())
	}
	k := New("orchestratorCompleted", -1, e.Timestamp.AsTime())
	k.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), text))
	return k
}

// kept returns the event that Keep has put into the field, or nil.
func kept(field protowire.Number, e *Event) *Event {
	if e.GetOrchestratorCompleted() == nil {
		return nil
	}
	fields := e.ProtoReflect().GetUnknown()
	number, kind, n := protowire.ConsumeTag(fields)
	if n < 0 || number != field || kind != protowire.BytesType {
		return nil
	}
	text, m := protowire.ConsumeBytes(fields[n:])
	inner := &Event{}
	if m < 0 || proto.Unmarshal(text, inner) != nil {
		return nil
	}
	return inner
}

// Inside returns the event that an event without effect keeps, and the field.
func Inside(e *Event) (protowire.Number, *Event) {
	for _, field := range []protowire.Number{Carried, Removed} {
		if inner := kept(field, e); inner != nil {
			return field, inner
		}
	}
	return 0, nil
}

// extraPayload returns the payload of an event of an entity, and the name of its field: "input", or "result" for an
// output.
func extraPayload(x *protocol.HistoryEvent) (**wrapperspb.StringValue, string) {
	switch e := x.GetEventType().(type) {
	case *protocol.HistoryEvent_EntityOperationSignaled:
		return &e.EntityOperationSignaled.Input, "input"
	case *protocol.HistoryEvent_EntityOperationCalled:
		return &e.EntityOperationCalled.Input, "input"
	case *protocol.HistoryEvent_EntityOperationCompleted:
		return &e.EntityOperationCompleted.Output, "result"
	}
	return nil, ""
}

// setExtra replaces the content of an event by that of x.
func setExtra(e *Event, x *protocol.HistoryEvent) {
	text, err := proto.Marshal(&protocol.HistoryEvent{EventType: x.EventType})
	if err != nil {
		panic("durable: an event of valid text cannot be written: " + err.Error())
	}
	e.ProtoReflect().SetUnknown(append(text, x.ProtoReflect().GetUnknown()...)) // The name of coreName stays.
}
