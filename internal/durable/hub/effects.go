package hub

import (
	"fmt"
	"slices"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// Fields of OrchestratorAction in newer versions of the protocol.
// https://github.com/microsoft/durabletask-protobuf
const entityAction protowire.Number = 8 // sendEntityMessage

// takeEffects removes from a workflow's answer the actions that the engine cannot apply.
func (b *Backend) takeEffects(id api.InstanceID, r *backend.ExecutionResults) error {
	w := b.inWork.of(string(id))
	if w == nil {
		return nil
	}
	now := b.clock.Now()
	// Each action goes either to rest, which the engine applies, or as an event to the history, which the outbox sends
	// from there. Of an action in rest, tags and traces are kept here: the engine would lose them.
	var events []*record.Event
	tags := map[int32]map[string]string{}
	traces := map[int32][]byte{}
	rest := r.Response.Actions[:0:0]
	continues := false
	for i, a := range r.Response.Actions {
		var sent []byte
		event.EachField(a.ProtoReflect().GetUnknown(), func(number protowire.Number, _, content []byte) {
			if number == entityAction {
				sent = content
			}
		})
		x := &protocol.SendEntityMessageAction{}
		core := ""
		switch s := a.GetSendEvent(); {
		case sent != nil:
			if err := proto.Unmarshal(sent, x); err != nil {
				return fmt.Errorf("%w: action %d: %w", errAction, i+1, err)
			}
		case record.IsEntity(s.GetInstance().GetInstanceId()):
			var err error
			core = s.Name
			if x, err = event.FromCore(s.Instance.InstanceId, core, s.Data.GetValue()); err != nil {
				return fmt.Errorf("%w: action %d: %w", errAction, i+1, err)
			}
		default:
			rest = append(rest, a)
			continues = continues ||
				a.GetCompleteOrchestration().GetOrchestrationStatus() == api.RUNTIME_STATUS_CONTINUED_AS_NEW
			if task := a.GetScheduleTask(); task != nil {
				tags[a.Id] = event.TagsOf(task.ProtoReflect(), event.ActionTags)
				traces[a.Id] = event.TraceOf(task.ProtoReflect())
			} else if child := a.GetCreateSubOrchestration(); child != nil {
				tags[a.Id] = event.TagsOf(child.ProtoReflect(), event.ChildTags)
				traces[a.Id] = event.TraceOf(child.ProtoReflect())
			}
			continue
		}
		if err := checkEntityMessage(x); err != nil {
			return fmt.Errorf("%w: action %d: %w", errAction, i+1, err)
		}
		events = append(events, event.NewExtra(a.Id, now, func(e *protocol.HistoryEvent) {
			if EntityMessage(e, x); core != "" {
				event.MarkCore(e, core)
			}
		}))
	}
	r.Response.Actions = rest
	if !continues {
		w.effects.events = events
		w.effects.tasks = tags
		w.effects.traces = traces
		return nil
	}
	// When a workflow continues as new, the engine drops the events that it sends with the end of the execution. So
	// they are carried into the history of the next one.
	for _, a := range rest {
		if x := a.GetSendEvent(); x != nil {
			e := event.New("eventSent", a.Id, now)
			sent := e.GetEventSent()
			sent.InstanceId = x.Instance.GetInstanceId()
			sent.Name = x.Name
			sent.Input = x.Data
			events = append(events, e)
		}
	}
	// The next execution does not know the locks of this one, which are therefore released with it.
	events = append(events, b.unlocks(append(slices.Clone(w.history.Events), events...))...)
	for _, e := range events {
		w.effects.before = append(w.effects.before, event.Carry(e))
	}
	w.effects.events = nil
	w.effects.tasks = nil
	w.effects.traces = nil
	return nil
}

// completeStarts gives the events that begin an execution what the engine leaves out when a workflow continues as new:
// version and tags.
func (b *Backend) completeStarts(id api.InstanceID, fresh []*record.Event) {
	w := b.inWork.of(string(id))
	if w == nil {
		return
	}
	for _, e := range fresh {
		x := e.GetExecutionStarted()
		if x == nil {
			continue
		}
		if w.continued > 0 && x.Version == nil && w.version != "" {
			x.Version = wrapperspb.String(w.version)
		}
		if w.continued > 0 && len(w.tags) > 0 {
			event.SetTags(x.ProtoReflect(), event.StartedTags, w.tags)
		}
		w.version, w.tags = x.Version.GetValue(), event.TagsOf(x.ProtoReflect(), event.StartedTags)
	}
}

// addEffects adds the effects to the rows of a checkpoint.
func (f *effects) addEffects(rows []record.NewRow) []record.NewRow {
	for _, r := range rows {
		var scheduled protoreflect.Message
		field := event.ScheduledTags
		if x := r.Event.GetTaskScheduled(); x != nil {
			scheduled = x.ProtoReflect()
		} else if x := r.Event.GetSubOrchestrationInstanceCreated(); x != nil {
			scheduled, field = x.ProtoReflect(), event.CreatedTags
		} else {
			continue
		}
		if tags := f.tasks[r.Event.EventId]; len(tags) > 0 {
			event.SetTags(scheduled, field, tags)
		}
		if trace := f.traces[r.Event.EventId]; trace != nil {
			event.SetTrace(scheduled, trace)
		}
	}
	if len(f.before)+len(f.events) == 0 {
		return rows
	}
	all := make([]record.NewRow, 0, len(f.before)+len(rows)+len(f.events))
	for _, e := range f.before {
		all = append(all, record.NewRow{Event: e})
	}
	all = append(all, rows...)
	return insertBeforeEnd(all, f.events)
}

// insertBeforeEnd inserts events before the one that completes the execution, or at the end.
func insertBeforeEnd(rows []record.NewRow, events []*record.Event) []record.NewRow {
	at := slices.IndexFunc(rows, func(r record.NewRow) bool { return r.Event.GetExecutionCompleted() != nil })
	if at < 0 {
		at = len(rows)
	}
	list := make([]record.NewRow, 0, len(events))
	for _, e := range events {
		list = append(list, record.NewRow{Event: e})
	}
	return slices.Insert(rows, at, list...)
}

// checkEntityMessage returns an error unless a message to an entity can be sent.
func checkEntityMessage(x *protocol.SendEntityMessageAction) error {
	switch m := x.EntityMessageType.(type) {
	case *protocol.SendEntityMessageAction_EntityOperationSignaled:
		return record.CheckEntityID(m.EntityOperationSignaled.TargetInstanceId.GetValue())
	case *protocol.SendEntityMessageAction_EntityOperationCalled:
		return record.CheckEntityID(m.EntityOperationCalled.TargetInstanceId.GetValue())
	case *protocol.SendEntityMessageAction_EntityUnlockSent:
		return record.CheckEntityID(m.EntityUnlockSent.TargetInstanceId.GetValue())
	case *protocol.SendEntityMessageAction_EntityLockRequested:
		l := m.EntityLockRequested
		if l.CriticalSectionId == "" || len(l.LockSet) == 0 || len(l.LockSet) > record.MaxLockSet {
			return fmt.Errorf("a lock needs an ID and 1 to %d entities", record.MaxLockSet)
		}
		for _, id := range l.LockSet {
			if err := record.CheckEntityID(id); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("the kind of message to an entity is unknown")
}

// EntityMessage sets an event to the message of an action.
func EntityMessage(e *protocol.HistoryEvent, x *protocol.SendEntityMessageAction) {
	switch m := x.EntityMessageType.(type) {
	case *protocol.SendEntityMessageAction_EntityOperationSignaled:
		e.EventType = &protocol.HistoryEvent_EntityOperationSignaled{EntityOperationSignaled: m.EntityOperationSignaled}
	case *protocol.SendEntityMessageAction_EntityOperationCalled:
		e.EventType = &protocol.HistoryEvent_EntityOperationCalled{EntityOperationCalled: m.EntityOperationCalled}
	case *protocol.SendEntityMessageAction_EntityUnlockSent:
		e.EventType = &protocol.HistoryEvent_EntityUnlockSent{EntityUnlockSent: m.EntityUnlockSent}
	case *protocol.SendEntityMessageAction_EntityLockRequested:
		e.EventType = &protocol.HistoryEvent_EntityLockRequested{EntityLockRequested: m.EntityLockRequested}
	}
}

// unlocks returns the messages that release the entities which a workflow with these events has locked, or waits to
// lock.
func (b *Backend) unlocks(events []*record.Event) []*record.Event {
	type lock struct{ section, entity string }
	var open []lock
	for _, e := range events {
		x := event.ExtraOf(e)
		if l := x.GetEntityLockRequested(); l != nil {
			for _, id := range l.LockSet {
				open = append(open, lock{l.CriticalSectionId, id})
			}
		} else if u := x.GetEntityUnlockSent(); u != nil {
			open = slices.DeleteFunc(open,
				func(l lock) bool { return l == lock{u.CriticalSectionId, u.TargetInstanceId.GetValue()} })
		}
	}
	var list []*record.Event
	for _, l := range open {
		list = append(list, event.NewExtra(-1, b.clock.Now(), func(e *protocol.HistoryEvent) {
			e.EventType = &protocol.HistoryEvent_EntityUnlockSent{EntityUnlockSent: &protocol.EntityUnlockSentEvent{
				CriticalSectionId: l.section, TargetInstanceId: wrapperspb.String(l.entity)}}
		}))
	}
	return list
}

// operationFailed returns the answer to a call of an operation that has failed.
func operationFailed(request string, f *backend.TaskFailureDetails) (*protocol.HistoryEvent, error) {
	details, err := event.FailureToProtocol(f)
	return &protocol.HistoryEvent{EventId: -1, EventType: &protocol.HistoryEvent_EntityOperationFailed{
		EntityOperationFailed: &protocol.EntityOperationFailedEvent{RequestId: request, FailureDetails: details}}}, err
}
