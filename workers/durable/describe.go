package durable

import (
	"fmt"
	"time"
)

// Step is an event of a history for people.
type Step struct {
	Time time.Time `json:"time"`
	// Task is the number of the task that the event belongs to; -1 for none.
	Task int32 `json:"task"`
	// Event is the kind: "TaskScheduled".
	Event string `json:"event"`
	// Name is the name of the activity, workflow or event.
	Name string `json:"name,omitempty"`
	// Details are the payload, the time of a timer, or the reason of a failure.
	Details string `json:"details,omitempty"`
}

// Describe returns a history for people, without the events that only mark the beginning of a replay.
func Describe(events []*Event) []Step {
	steps := []Step{}
	for _, e := range events {
		if e.GetOrchestratorStarted() != nil || e.GetOrchestratorCompleted() != nil {
			continue
		}
		s := Step{Time: e.Timestamp.AsTime(), Task: e.EventId, Event: eventType(e)}
		if id, ok := taskOf(e); ok {
			s.Task = id
		}
		s.Name, s.Details = details(e)
		steps = append(steps, s)
	}
	return steps
}

func details(e *Event) (name, text string) {
	v, _ := payload(e)
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
	case e.GetEventRaised() != nil:
		return e.GetEventRaised().Name, text
	case e.GetEventSent() != nil:
		return e.GetEventSent().Name, fmt.Sprintf("to %s %s", e.GetEventSent().InstanceId, text)
	case e.GetExecutionCompleted() != nil:
		x := e.GetExecutionCompleted()
		if x.FailureDetails != nil {
			text = x.FailureDetails.ErrorMessage
		}
		return statusText(x.OrchestrationStatus), text
	}
	return "", text
}
