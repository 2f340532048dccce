package webhook

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// state is an instance as the API shows it.
type state struct {
	Name            string `json:"name"`
	InstanceID      string `json:"instanceId"`
	RuntimeStatus   string `json:"runtimeStatus"`
	Input           any    `json:"input"`
	CustomStatus    any    `json:"customStatus"`
	Output          any    `json:"output"`
	CreatedTime     string `json:"createdTime"`
	LastUpdatedTime string `json:"lastUpdatedTime"`
	HistoryEvents   []item `json:"historyEvents,omitempty"`
	// Version, Parent and Scheduled are Lazuli's, and shown with details=true only.
	Version   string     `json:"version,omitempty"`
	Parent    string     `json:"parentInstanceId,omitempty"`
	Scheduled *time.Time `json:"scheduledTime,omitempty"`
}

// detail adds what only Lazuli shows.
func (s *state) detail(i *record.Instance) {
	s.Version, s.Parent, s.Scheduled = i.Version, i.Parent, i.Scheduled
}

// wholeSeconds describes how the API writes the times of an instance.
const wholeSeconds = "2006-01-02T15:04:05Z"

func newState(i *record.Instance, input bool) state {
	s := state{Name: i.Name, InstanceID: i.ID, RuntimeStatus: i.Status, CustomStatus: asJSON(i.CustomStatus),
		Output:      asJSON(i.Output),
		CreatedTime: i.Created.UTC().Format(wholeSeconds), LastUpdatedTime: i.LastUpdated.UTC().Format(wholeSeconds)}
	if input {
		s.Input = asJSON(i.Input)
	}
	if i.FailureMessage != "" {
		s.Output = i.FailureMessage
	}
	return s
}

// asJSON returns a payload as a JSON value: itself, or as a string if it is not JSON, as the reason of a failure is
// not.
func asJSON(text string) any {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return text
}

// item is an event of a history as the API shows it.
type item map[string]any

// historyOf converts a history: the start of a task is left out once its end is there, which then has its name and
// time. Payloads are shown if output is true, the IDs of sub-orchestrations that have ended if details is.
func historyOf(events []*record.Event, output, details bool) []item {
	var list []item
	scheduled := map[int32]int{} // by the number of the task, its place in list
	for _, e := range events {
		steps := record.Describe([]*record.Event{e})
		if len(steps) == 0 {
			continue
		}
		i := item{"EventType": steps[0].Event, "Timestamp": steps[0].Time.UTC().Format(time.RFC3339Nano)}
		task, ends := i.describe(e, steps[0], output)
		switch {
		case ends:
			if at, ok := scheduled[task]; ok {
				i["ScheduledTime"], i["FunctionName"] = list[at]["Timestamp"], list[at]["Name"]
				if id := list[at]["InstanceId"]; details && id != nil {
					i["InstanceId"] = id
				}
				list[at] = nil
				delete(scheduled, task)
			}
		case e.GetTaskScheduled() != nil, e.GetSubOrchestrationInstanceCreated() != nil:
			scheduled[e.EventId] = len(list)
		}
		list = append(list, i)
	}
	kept := list[:0]
	for _, i := range list {
		if i != nil {
			kept = append(kept, i)
		}
	}
	return kept
}

// describe adds what the event's kind has. It returns the number of the activity or workflow that the event ends, if it
// ends one.
func (i item) describe(e *record.Event, step record.Step, output bool) (task int32, ends bool) {
	result := func(text string) {
		if output {
			i["Result"] = asJSON(text)
		}
	}
	switch {
	case e.GetExecutionStarted() != nil:
		i["FunctionName"] = e.GetExecutionStarted().Name
	case e.GetExecutionCompleted() != nil:
		x := e.GetExecutionCompleted()
		i["OrchestrationStatus"] = step.Name
		if x.FailureDetails != nil {
			i["Result"] = x.FailureDetails.ErrorMessage
		} else {
			result(x.Result.GetValue())
		}
	case e.GetTaskScheduled() != nil:
		i["Name"] = e.GetTaskScheduled().Name
	case e.GetTaskCompleted() != nil:
		result(e.GetTaskCompleted().Result.GetValue())
		return e.GetTaskCompleted().TaskScheduledId, true
	case e.GetTaskFailed() != nil:
		i["Reason"] = e.GetTaskFailed().FailureDetails.GetErrorMessage()
		return e.GetTaskFailed().TaskScheduledId, true
	case e.GetSubOrchestrationInstanceCreated() != nil:
		i["Name"], i["InstanceId"] = e.GetSubOrchestrationInstanceCreated().Name,
			e.GetSubOrchestrationInstanceCreated().InstanceId
	case e.GetSubOrchestrationInstanceCompleted() != nil:
		result(e.GetSubOrchestrationInstanceCompleted().Result.GetValue())
		return e.GetSubOrchestrationInstanceCompleted().TaskScheduledId, true
	case e.GetSubOrchestrationInstanceFailed() != nil:
		i["Reason"] = e.GetSubOrchestrationInstanceFailed().FailureDetails.GetErrorMessage()
		return e.GetSubOrchestrationInstanceFailed().TaskScheduledId, true
	case e.GetTimerCreated() != nil:
		i["FireAt"] = e.GetTimerCreated().FireAt.AsTime().UTC().Format(time.RFC3339Nano)
	case e.GetTimerFired() != nil:
		i["FireAt"] = e.GetTimerFired().FireAt.AsTime().UTC().Format(time.RFC3339Nano)
	case e.GetEventRaised() != nil:
		i["Name"] = e.GetEventRaised().Name
		if output {
			i["Input"] = asJSON(e.GetEventRaised().Input.GetValue())
		}
	case e.GetEventSent() != nil:
		i["Name"], i["InstanceId"] = e.GetEventSent().Name, e.GetEventSent().InstanceId
	default: // of an entity
		if step.Name != "" {
			i["Name"] = step.Name
		}
		if output && step.Details != "" {
			i["Input"] = asJSON(step.Details)
		}
	}
	return 0, false
}
