package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// Workers of .NET without the Scheduler's options, and function apps in .NET, know no messages to entities. They send
// events to the instance "@name@key" with the names and the JSON that DurableTask.Core has for them, and wait for an
// event whose name is the request's ID. Histories keep such a message as every other one to an entity, with the name of
// the event behind it; the worker gets it back in its own form. So entities, locks and their releases have one
// mechanism, and a worker of either kind can go on with an instance of the other.
//
//	event                       data            message
//	op                          requestMessage  call, signal, or lock request if it has a set of locks
//	op@TIME                     requestMessage  the same at a time
//	release                     releaseMessage  unlock
//	ID of a call or lock        responseMessage result, failure, or the news that all locks are granted
//
// https://github.com/Azure/durabletask/tree/main/src/DurableTask.Core/Entities/EventFormat

// coreName is a field of an event to an entity: the name of the event that a worker has sent.
const coreName protowire.Number = 1002

// Names of events in DurableTask.Core's form.
const (
	coreRequest = "op"
	coreAtTime  = "op@"
	coreRelease = "release"
	// coreGranted is the result of a lock request.
	coreGranted = "Lock Acquisition Completed"
)

// requestMessage is a call, a signal or a lock request.
type requestMessage struct {
	Operation *string        `json:"op"`
	Signal    bool           `json:"signal,omitempty"`
	Input     *string        `json:"input,omitempty"`
	ID        string         `json:"id"`
	Parent    string         `json:"parent,omitempty"`
	Execution string         `json:"parentExecution,omitempty"`
	Due       *coreTime      `json:"due,omitempty"`
	Locks     []coreEntityID `json:"lockset,omitempty"`
	Position  int32          `json:"pos,omitempty"`
	// IsLock repeats what Locks says, as DurableTask.Core writes it.
	IsLock bool `json:"IsLockRequest"`
}

type coreEntityID struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

func (id coreEntityID) String() string { return "@" + id.Name + "@" + id.Key }

// releaseMessage unlocks an entity.
type releaseMessage struct {
	Parent string `json:"parent"`
	ID     string `json:"id"`
}

// responseMessage answers a call or a lock request.
type responseMessage struct {
	Result    *string      `json:"result"`
	ErrorType string       `json:"exceptionType,omitempty"`
	Failure   *CoreFailure `json:"failureDetails,omitempty"`
}

// CoreFailure has the members of DurableTask.Core's FailureDetails.
type CoreFailure struct {
	ErrorType      string
	ErrorMessage   string
	StackTrace     *string
	InnerFailure   *CoreFailure
	IsNonRetriable bool
	Properties     map[string]any `json:",omitempty"`
}

// coreTime is a time as .NET writes it: one without a zone is in UTC.
type coreTime struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (t *coreTime) UnmarshalJSON(text []byte) error {
	var s string
	err := json.Unmarshal(text, &s)
	if err != nil {
		return err
	}
	if t.Time, err = time.Parse(time.RFC3339Nano, s); err != nil {
		t.Time, err = time.Parse("2006-01-02T15:04:05.999999999", s)
	}
	return err
}

// FromCore returns the message to an entity that a worker has sent as an event.
func FromCore(target, name, data string) (*protocol.SendEntityMessageAction, error) {
	to := wrapperspb.String(target)
	if name == coreRelease {
		var r releaseMessage
		if err := json.Unmarshal([]byte(data), &r); err != nil {
			return nil, fmt.Errorf("the event %q to the entity %.100q: %w", name, target, err)
		}
		return &protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityUnlockSent{
			EntityUnlockSent: &protocol.EntityUnlockSentEvent{CriticalSectionId: r.ID, TargetInstanceId: to}}}, nil
	}
	if name != coreRequest && !strings.HasPrefix(name, coreAtTime) {
		return nil, fmt.Errorf("an entity takes operations, and no event %.100q", name)
	}
	var r requestMessage
	if err := json.Unmarshal([]byte(data), &r); err != nil {
		return nil, fmt.Errorf("the event %.100q to the entity %.100q: %w", name, target, err)
	}
	if r.ID == "" {
		return nil, fmt.Errorf("the event %.100q to the entity %.100q has no ID", name, target)
	}
	// DurableTask.Core tells a lock request from a call by the absence of an operation.
	if r.Operation == nil {
		return lockFromCore(target, r)
	}
	at, err := r.at(name)
	if err != nil {
		return nil, err
	}
	if r.Signal {
		return &protocol.SendEntityMessageAction{
			EntityMessageType: &protocol.SendEntityMessageAction_EntityOperationSignaled{
				EntityOperationSignaled: &protocol.EntityOperationSignaledEvent{RequestId: r.ID, Operation: *r.Operation,
					Input: protocol.Text(r.Input), TargetInstanceId: to, ScheduledTime: at}}}, nil
	}
	return &protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityOperationCalled{
		EntityOperationCalled: &protocol.EntityOperationCalledEvent{RequestId: r.ID, Operation: *r.Operation,
			Input: protocol.Text(r.Input), TargetInstanceId: to, ScheduledTime: at}}}, nil
}

// lockFromCore returns a lock request. A worker sends it to the first entity of the set.
func lockFromCore(target string, r requestMessage) (*protocol.SendEntityMessageAction, error) {
	l := &protocol.EntityLockRequestedEvent{CriticalSectionId: r.ID}
	for _, id := range r.Locks {
		l.LockSet = append(l.LockSet, id.String())
	}
	if len(l.LockSet) == 0 || l.LockSet[0] != target || r.Position != 0 {
		return nil, fmt.Errorf("a lock request to the entity %.100q must begin with it", target)
	}
	return &protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityLockRequested{
		EntityLockRequested: l}}, nil
}

// at returns the time at which a request may arrive; nil for at once. The event's name has it where the message has
// none. The first of .NET's times stands for none.
func (r requestMessage) at(name string) (*timestamppb.Timestamp, error) {
	due := r.Due
	if text, ok := strings.CutPrefix(name, coreAtTime); ok && due == nil {
		due = &coreTime{}
		if err := due.UnmarshalJSON([]byte(`"` + text + `"`)); err != nil {
			return nil, fmt.Errorf("the event %.100q: %w", name, err)
		}
	}
	if due == nil || due.IsZero() {
		return nil, nil
	}
	at := timestamppb.New(due.Time)
	if err := CheckTime(at); err != nil {
		return nil, fmt.Errorf("the event %.100q is due: %w", name, err)
	}
	return at, nil
}

// MarkCore notes in an event to an entity the name of the event that the worker has sent.
func MarkCore(x *protocol.HistoryEvent, name string) {
	x.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, coreName, protowire.BytesType), name))
}

// coreNameOf returns the name that MarkCore has noted, or "".
func coreNameOf(x *protocol.HistoryEvent) (name string) {
	if x == nil {
		return ""
	}
	EachField(x.ProtoReflect().GetUnknown(), func(number protowire.Number, _, content []byte) {
		if number == coreName {
			name = string(content)
		}
	})
	return name
}

// coreHistory writes the events of one history for its worker.
type coreHistory struct {
	instance, execution string
	requests            map[string]bool // calls and lock requests that were sent in DurableTask.Core's form
}

// events returns events in which the messages to and from entities that the worker has sent in DurableTask.Core's form
// have that form. Without any of them it returns the list itself.
func (c *coreHistory) events(list []*Event) ([]*Event, error) {
	all, copied := list, false
	for i, e := range list {
		if e.GetExecutionStarted() != nil {
			c.execution = ExecutionOf(e)
		}
		x := ExtraOf(e)
		if x == nil {
			continue
		}
		n, err := c.event(e, x)
		if err != nil {
			return nil, err
		}
		if n == nil {
			continue
		}
		if !copied {
			all, copied = append([]*Event(nil), list...), true
		}
		all[i] = n
	}
	return all, nil
}

// event returns an event in DurableTask.Core's form, or nil for one that has none.
func (c *coreHistory) event(e *Event, x *protocol.HistoryEvent) (*Event, error) {
	// Only what the worker has sent has a name. Answers are recognised by the request that they answer.
	name := coreNameOf(x)
	sent := func(target string, data any) (*Event, error) {
		if name == "" {
			return nil, nil
		}
		n := New("eventSent", e.EventId, e.Timestamp.AsTime())
		s := n.GetEventSent()
		s.InstanceId, s.Name = target, name
		text, err := json.Marshal(data)
		s.Input = wrapperspb.String(string(text))
		return n, err
	}
	request := requestMessage{Parent: c.instance, Execution: c.execution}
	ask := func(target string) (*Event, error) {
		// The answer comes later in the history, and then needs the same form.
		if name != "" {
			c.requests[request.ID] = true
		}
		return sent(target, request)
	}
	switch m := x.EventType.(type) {
	case *protocol.HistoryEvent_EntityOperationSignaled:
		s := m.EntityOperationSignaled
		request.ID, request.Operation, request.Signal = s.RequestId, &s.Operation, true
		request.Input, request.Due = protocol.TextOf(s.Input), dueOf(s.ScheduledTime)
		return sent(s.TargetInstanceId.GetValue(), request)
	case *protocol.HistoryEvent_EntityOperationCalled:
		s := m.EntityOperationCalled
		request.ID, request.Operation = s.RequestId, &s.Operation
		request.Input, request.Due = protocol.TextOf(s.Input), dueOf(s.ScheduledTime)
		return ask(s.TargetInstanceId.GetValue())
	case *protocol.HistoryEvent_EntityLockRequested:
		l := m.EntityLockRequested
		request.ID, request.IsLock = l.CriticalSectionId, true
		for _, id := range l.LockSet {
			name, key, _ := strings.Cut(strings.TrimPrefix(id, "@"), "@")
			request.Locks = append(request.Locks, coreEntityID{name, key})
		}
		return ask(l.LockSet[0])
	case *protocol.HistoryEvent_EntityUnlockSent:
		u := m.EntityUnlockSent
		return sent(u.TargetInstanceId.GetValue(), releaseMessage{Parent: c.instance, ID: u.CriticalSectionId})
	case *protocol.HistoryEvent_EntityLockGranted:
		granted := coreGranted
		return c.raised(e, m.EntityLockGranted.CriticalSectionId, responseMessage{Result: &granted})
	case *protocol.HistoryEvent_EntityOperationCompleted:
		done := m.EntityOperationCompleted
		return c.raised(e, done.RequestId, responseMessage{Result: protocol.TextOf(done.Output)})
	case *protocol.HistoryEvent_EntityOperationFailed:
		d := m.EntityOperationFailed.FailureDetails
		text := d.GetErrorMessage()
		return c.raised(e, m.EntityOperationFailed.RequestId, responseMessage{Result: &text, ErrorType: d.GetErrorType(),
			Failure: coreFailureOf(d)})
	}
	return nil, nil
}

// raised returns the event that answers a request; nil if the request was not sent in this form.
func (c *coreHistory) raised(e *Event, request string, answer responseMessage) (*Event, error) {
	if !c.requests[request] {
		return nil, nil
	}
	text, err := json.Marshal(answer)
	n := New("eventRaised", e.EventId, e.Timestamp.AsTime())
	n.GetEventRaised().Name, n.GetEventRaised().Input = request, wrapperspb.String(string(text))
	return n, err
}

func dueOf(t *timestamppb.Timestamp) *coreTime {
	if t == nil {
		return nil
	}
	return &coreTime{t.AsTime()}
}

func coreFailureOf(d *protocol.TaskFailureDetails) *CoreFailure {
	if d == nil {
		return nil
	}
	f := &CoreFailure{ErrorType: d.ErrorType, ErrorMessage: d.ErrorMessage, StackTrace: protocol.TextOf(d.StackTrace),
		InnerFailure: coreFailureOf(d.InnerFailure), IsNonRetriable: d.IsNonRetriable}
	for name, v := range d.Properties {
		if f.Properties == nil {
			f.Properties = map[string]any{}
		}
		f.Properties[name] = v.AsInterface()
	}
	return f
}

// InCoreForm returns a history as its worker has written it.
func InCoreForm(instance string, old, fresh []*Event) (past, now []*Event, err error) {
	c := &coreHistory{instance: instance, requests: map[string]bool{}}
	// old comes first: fresh has answers to its requests.
	if past, err = c.events(old); err == nil {
		now, err = c.events(fresh)
	}
	return past, now, err
}

// Protocol returns a failure in the protocol's form.
func (d *CoreFailure) Protocol() *protocol.TaskFailureDetails {
	if d == nil {
		return nil
	}
	return &protocol.TaskFailureDetails{ErrorType: d.ErrorType, ErrorMessage: d.ErrorMessage,
		StackTrace: protocol.Text(d.StackTrace), InnerFailure: d.InnerFailure.Protocol(), IsNonRetriable: d.IsNonRetriable}
}
