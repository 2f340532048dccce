package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// Event is an entry of a workflow's history.
type Event = backend.HistoryEvent

// Step is an event of a history for people.
type Step struct {
	Time time.Time `json:"time"`
	// Task is the number of the task that the event belongs to; -1 for none.
	Task int32 `json:"task"`
	// Event is the kind: "TaskScheduled".
	Event string `json:"event"`
	// Name is the name of the activity, workflow or event.
	Name string `json:"name,omitempty"`
	// Removed says that a rewind has taken the event out of the history: the workflow does not see it.
	Removed bool `json:"removed,omitempty"`
	// Details are the payload, the time of a timer, or the reason of a failure.
	Details string `json:"details,omitempty"`
}

// Describe returns a history for people, without the events that only mark the beginning of a replay.
func Describe(events []*Event) []Step {
	steps := []Step{}
	unneeded := unneededTimers(events)
	for _, e := range events {
		idle := unneeded[e]
		field, inner := event.Inside(e)
		if inner != nil {
			e = inner
		}
		if e.GetOrchestratorStarted() != nil || e.GetOrchestratorCompleted() != nil && event.ExtraOf(e) == nil {
			continue
		}
		s := Step{Time: e.Timestamp.AsTime(), Task: e.EventId, Event: event.Type(e), Removed: field == event.Removed}
		if id, ok := event.TaskOf(e); ok {
			s.Task = id
		}
		if s.Name, s.Details = details(e); idle {
			s.Details += ", no longer needed"
		}
		steps = append(steps, s)
	}
	return steps
}

// unneededTimers returns the timers that have not fired when their workflow ended.
func unneededTimers(events []*Event) map[*Event]bool {
	var set []*Event
	fired, over := map[int32]bool{}, false
	for _, e := range events {
		switch {
		case e.GetTimerCreated() != nil:
			set = append(set, e)
		case e.GetTimerFired() != nil:
			fired[e.GetTimerFired().TimerId] = true
		case e.GetExecutionCompleted() != nil:
			over = true
		}
	}
	unneeded := map[*Event]bool{}
	for _, e := range set {
		if over && !fired[e.EventId] {
			unneeded[e] = true
		}
	}
	return unneeded
}

func details(e *Event) (name, text string) {
	v, _ := event.PayloadOf(e)
	text = v.GetValue()
	switch {
	case e.GetExecutionStarted() != nil:
		return e.GetExecutionStarted().Name, text
	case e.GetTaskScheduled() != nil:
		return e.GetTaskScheduled().Name, text
	case e.GetTaskFailed() != nil:
		return "", e.GetTaskFailed().FailureDetails.GetErrorMessage()
	case e.GetSubOrchestrationInstanceCreated() != nil:
		x := e.GetSubOrchestrationInstanceCreated()
		return x.Name, fmt.Sprintf("as %s %s", x.InstanceId, text)
	case e.GetSubOrchestrationInstanceFailed() != nil:
		return "", e.GetSubOrchestrationInstanceFailed().FailureDetails.GetErrorMessage()
	case e.GetTimerCreated() != nil:
		return "", "until " + e.GetTimerCreated().FireAt.AsTime().UTC().Format(time.RFC3339)
	case event.ExtraOf(e) != nil:
		return extraDetails(event.ExtraOf(e), text)
	case e.GetEventRaised() != nil:
		return e.GetEventRaised().Name, text
	case e.GetEventSent() != nil:
		return e.GetEventSent().Name, fmt.Sprintf("to %s %s", e.GetEventSent().InstanceId, text)
	case e.GetExecutionCompleted() != nil:
		x := e.GetExecutionCompleted()
		if x.FailureDetails != nil {
			text = x.FailureDetails.ErrorMessage
		}
		return StatusName(x.OrchestrationStatus), text
	}
	return "", text
}

// extraDetails describes events of entities and rewinds.
func extraDetails(x *protocol.HistoryEvent, payload string) (name, text string) {
	switch e := x.EventType.(type) {
	case *protocol.HistoryEvent_EntityOperationSignaled:
		return e.EntityOperationSignaled.Operation,
			fmt.Sprintf("to %s %s", e.EntityOperationSignaled.TargetInstanceId.GetValue(), payload)
	case *protocol.HistoryEvent_EntityOperationCalled:
		return e.EntityOperationCalled.Operation,
			fmt.Sprintf("to %s %s", e.EntityOperationCalled.TargetInstanceId.GetValue(), payload)
	case *protocol.HistoryEvent_EntityOperationFailed:
		return "", e.EntityOperationFailed.FailureDetails.GetErrorMessage()
	case *protocol.HistoryEvent_EntityLockRequested:
		return "", strings.Join(e.EntityLockRequested.LockSet, ", ")
	case *protocol.HistoryEvent_EntityUnlockSent:
		return "", e.EntityUnlockSent.TargetInstanceId.GetValue()
	case *protocol.HistoryEvent_ExecutionRewound:
		return "", e.ExecutionRewound.Reason.GetValue()
	}
	return "", payload
}
