package durable

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/results"
	"github.com/lazuli-storage/lazuli/workers/durable/internal/replay"
)

// What package replay takes and returns, from and to the events and messages of the engine.

// historyForReplay returns a history as package replay takes it. Each event of the engine is one there, so that places
// are the same in both.
func historyForReplay(instance, execution string, old, fresh []*record.Event) replay.History {
	h := replay.History{Instance: instance, Execution: execution, Past: len(old),
		Events: make([]replay.Event, 0, len(old)+len(fresh))}
	// Answers of entities name a request. The number of its task is in the event that asked, which comes before.
	requests := map[string]int32{} // the number of a call or critical section, by its ID
	for _, list := range [2][]*record.Event{old, fresh} {
		for _, e := range list {
			h.Events = append(h.Events, eventForReplay(e, requests))
		}
	}
	return h
}

// eventForReplay translates an event. It notes in requests what entities will answer.
func eventForReplay(e *record.Event, requests map[string]int32) replay.Event {
	r := replay.Event{ID: e.EventId}
	scheduled := func(k replay.ActionKind, name string) { r.Kind, r.Action, r.Name = replay.Scheduled, k, name }
	ended := func(task int32, result *wrapperspb.StringValue) {
		r.Kind, r.Task, r.Data = replay.Completed, task, protocol.TextOf(result)
	}
	failed := func(task int32, d *backend.TaskFailureDetails) {
		r.Kind, r.Task = replay.Failed, task
		if f := failureFrom(d); f != nil {
			r.Failure = f
		}
	}
	// The types behind the getters have no name outside of the engine's library.
	switch {
	case e.GetOrchestratorStarted() != nil:
		r.Kind, r.Time = replay.Turn, e.Timestamp.AsTime()
	case e.GetExecutionStarted() != nil:
		r.Kind, r.Data = replay.Started, protocol.TextOf(e.GetExecutionStarted().Input)
	case e.GetTaskScheduled() != nil:
		scheduled(replay.Activity, e.GetTaskScheduled().Name)
	case e.GetTaskCompleted() != nil:
		ended(e.GetTaskCompleted().TaskScheduledId, e.GetTaskCompleted().Result)
	case e.GetTaskFailed() != nil:
		failed(e.GetTaskFailed().TaskScheduledId, e.GetTaskFailed().FailureDetails)
	case e.GetSubOrchestrationInstanceCreated() != nil:
		scheduled(replay.Workflow, e.GetSubOrchestrationInstanceCreated().Name)
	case e.GetSubOrchestrationInstanceCompleted() != nil:
		x := e.GetSubOrchestrationInstanceCompleted()
		ended(x.TaskScheduledId, x.Result)
	case e.GetSubOrchestrationInstanceFailed() != nil:
		x := e.GetSubOrchestrationInstanceFailed()
		failed(x.TaskScheduledId, x.FailureDetails)
	case e.GetTimerCreated() != nil:
		scheduled(replay.Timer, "")
	case e.GetTimerFired() != nil:
		ended(e.GetTimerFired().TimerId, nil)
	case e.GetEventSent() != nil:
		scheduled(replay.Unsupported, e.GetEventSent().Name)
	case e.GetEventRaised() != nil:
		r.Kind, r.Name = replay.Raised, e.GetEventRaised().Name
		r.Data = protocol.TextOf(e.GetEventRaised().Input)
	case e.GetExecutionSuspended() != nil:
		r.Kind = replay.Suspended
	case e.GetExecutionResumed() != nil:
		r.Kind = replay.Resumed
	case e.GetExecutionTerminated() != nil:
		r.Kind, r.Data = replay.Terminated, protocol.TextOf(e.GetExecutionTerminated().Input)
	default:
		// Events of other kinds have no effect on a replay. They stay in the list as empty ones, because places in both
		// histories must be the same.
		if x := event.ExtraOf(e); x != nil {
			entityEventForReplay(&r, x, requests)
		}
	}
	return r
}

// entityEventForReplay translates an event of an entity.
func entityEventForReplay(r *replay.Event, x *protocol.HistoryEvent, requests map[string]int32) {
	sent := func(k replay.ActionKind, name, request string) {
		// The releases that follow from the end of a workflow have no number: its code does not know of them.
		if r.ID < 0 {
			return
		}
		r.Kind, r.Action, r.Name = replay.Scheduled, k, name
		if request != "" {
			requests[request] = r.ID
		}
	}
	answer := func(k replay.Kind, request string) {
		// An answer to a request that is not in the history has no task.
		if task, ok := requests[request]; ok {
			r.Kind, r.Task = k, task
		}
	}
	switch m := x.EventType.(type) {
	case *protocol.HistoryEvent_EntityOperationSignaled:
		sent(replay.Signal, m.EntityOperationSignaled.Operation, "")
	case *protocol.HistoryEvent_EntityOperationCalled:
		sent(replay.Call, m.EntityOperationCalled.Operation, m.EntityOperationCalled.RequestId)
	case *protocol.HistoryEvent_EntityLockRequested:
		sent(replay.Lock, "", m.EntityLockRequested.CriticalSectionId)
	case *protocol.HistoryEvent_EntityUnlockSent:
		sent(replay.Unlock, "", "")
	case *protocol.HistoryEvent_EntityLockGranted:
		answer(replay.Completed, m.EntityLockGranted.CriticalSectionId)
	case *protocol.HistoryEvent_EntityOperationCompleted:
		answer(replay.Completed, m.EntityOperationCompleted.RequestId)
		r.Data = protocol.TextOf(m.EntityOperationCompleted.Output)
	case *protocol.HistoryEvent_EntityOperationFailed:
		answer(replay.Failed, m.EntityOperationFailed.RequestId)
		if f := failureFromProtocol(m.EntityOperationFailed.FailureDetails); f != nil {
			r.Failure = f
		}
	}
}

// answerOf returns the outcome of a step in the form in which workers of other languages answer, which the engine
// reads.
func answerOf(h replay.History, o *replay.Outcome, old, fresh []*record.Event) (*backend.ExecutionResults, error) {
	answer := &protocol.OrchestratorResponse{InstanceId: h.Instance, CustomStatus: wrapperspb.String(o.CustomStatus)}
	for _, a := range o.Actions {
		answer.Actions = append(answer.Actions, actionOf(h, a))
	}
	if o.End == nil {
		return results.Of(answer)
	}
	done := &protocol.CompleteOrchestrationAction{Result: protocol.Text(o.End.Output)}
	switch o.End.Kind {
	case replay.EndCompleted:
		done.OrchestrationStatus = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED
	case replay.EndFailed:
		done.OrchestrationStatus = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED
	case replay.EndContinued:
		done.OrchestrationStatus = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_CONTINUED_AS_NEW
	case replay.EndTerminated:
		done.OrchestrationStatus = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_TERMINATED
	}
	answer.Actions = append(answer.Actions, &protocol.OrchestratorAction{Id: o.End.Number,
		OrchestratorActionType: &protocol.OrchestratorAction_CompleteOrchestration{CompleteOrchestration: done}})
	r, err := results.Of(answer)
	if err != nil {
		return nil, err
	}
	// The rest is set on the engine's message: events that the workflow has kept are the engine's own.
	last := r.Response.Actions[len(r.Response.Actions)-1].GetCompleteOrchestration()
	if o.End.Err != nil {
		last.FailureDetails = failureOf(o.End.Err)
	}
	for _, place := range o.End.Kept {
		if place < len(old) {
			last.CarryoverEvents = append(last.CarryoverEvents, old[place])
		} else {
			last.CarryoverEvents = append(last.CarryoverEvents, fresh[place-len(old)])
		}
	}
	return r, nil
}

// actionOf returns an action as a message of the protocol.
func actionOf(h replay.History, a replay.Action) *protocol.OrchestratorAction {
	m := &protocol.OrchestratorAction{Id: a.Number}
	input := protocol.Text(a.Input)
	switch a.Kind {
	case replay.Activity:
		m.OrchestratorActionType = &protocol.OrchestratorAction_ScheduleTask{
			ScheduleTask: &protocol.ScheduleTaskAction{Name: a.Name, Input: input}}
	case replay.Workflow:
		m.OrchestratorActionType = &protocol.OrchestratorAction_CreateSubOrchestration{
			CreateSubOrchestration: &protocol.CreateSubOrchestrationAction{Name: a.Name, InstanceId: a.Instance,
				Input: input}}
	case replay.Timer:
		m.OrchestratorActionType = &protocol.OrchestratorAction_CreateTimer{
			CreateTimer: &protocol.CreateTimerAction{FireAt: timestamppb.New(a.At)}}
	default:
		m.OrchestratorActionType = &protocol.OrchestratorAction_SendEntityMessage{SendEntityMessage: entityMessageOf(h, a)}
	}
	return m
}

// entityMessageOf returns a message to an entity. Its ID is the same in each replay, and new in each execution.
func entityMessageOf(h replay.History, a replay.Action) *protocol.SendEntityMessageAction {
	// The ID is derived from the action's number, so that an entity drops the copies that a crash leads to.
	id := func(what any) string {
		return uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s/%s/%v", h.Instance, h.Execution, what)).String()
	}
	section := id(fmt.Sprint("lock ", a.Section))
	target, input := wrapperspb.String(a.Instance), protocol.Text(a.Input)
	switch a.Kind {
	case replay.Call:
		return &protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityOperationCalled{
			EntityOperationCalled: &protocol.EntityOperationCalledEvent{RequestId: id(a.Number), Operation: a.Name,
				Input: input, TargetInstanceId: target}}}
	case replay.Signal:
		s := &protocol.EntityOperationSignaledEvent{RequestId: id(a.Number), Operation: a.Name, Input: input,
			TargetInstanceId: target, ScheduledTime: timeOrNone(a.At)}
		return &protocol.SendEntityMessageAction{
			EntityMessageType: &protocol.SendEntityMessageAction_EntityOperationSignaled{EntityOperationSignaled: s}}
	case replay.Lock:
		return &protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityLockRequested{
			EntityLockRequested: &protocol.EntityLockRequestedEvent{CriticalSectionId: section, LockSet: a.Entities}}}
	case replay.Unlock:
		return &protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityUnlockSent{
			EntityUnlockSent: &protocol.EntityUnlockSentEvent{CriticalSectionId: section, TargetInstanceId: target}}}
	}
	panic(fmt.Sprintf("durable: a workflow in Go has no action of the kind %d", a.Kind))
}

func timeOrNone(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}
