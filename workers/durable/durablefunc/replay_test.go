package durablefunc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/workers/durable/internal/protocol"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// step describes the actions of a step: "4 Name", "5 timer +1s", "6 completed: JSON".
func step(t *testing.T, r *protocol.OrchestratorRequest, result, failure string) (string, error) {
	t.Helper()
	request, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	_, finish, err := (&app{}).Replay(request, true)
	if err != nil {
		t.Fatal(err)
	}
	text, err := finish([]byte(result), failure)
	if err != nil {
		return "", err
	}
	var response protocol.OrchestratorResponse
	if err := proto.Unmarshal(text, &response); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, a := range response.Actions {
		what := ""
		switch {
		case a.GetScheduleTask() != nil:
			what = a.GetScheduleTask().Name + " " + a.GetScheduleTask().GetInput().GetValue()
		case a.GetCreateTimer() != nil:
			what = "timer +" + a.GetCreateTimer().FireAt.AsTime().Sub(began).String()
		case a.GetCreateSubOrchestration() != nil:
			what = "sub " + a.GetCreateSubOrchestration().InstanceId
		case a.GetCompleteOrchestration() != nil:
			c := a.GetCompleteOrchestration()
			what = strings.TrimPrefix(c.OrchestrationStatus.String(), "ORCHESTRATION_STATUS_") + " " +
				c.GetResult().GetValue() + c.GetFailureDetails().GetErrorMessage() + fmt.Sprint(len(c.CarryoverEvents))
		}
		list = append(list, strings.TrimSpace(fmt.Sprint(a.Id, " ", what)))
	}
	return strings.Join(list, ", "), nil
}

func history(events ...*protocol.HistoryEvent) *protocol.OrchestratorRequest {
	r := &protocol.OrchestratorRequest{InstanceId: "i"}
	first := &protocol.HistoryEvent{EventId: -1, EventType: &protocol.HistoryEvent_ExecutionStarted{
		ExecutionStarted: &protocol.ExecutionStartedEvent{Name: "o", Input: wrapperspb.String("1")}}}
	for _, e := range append([]*protocol.HistoryEvent{first}, events...) {
		e.Timestamp = timestamppb.New(began)
		r.NewEvents = append(r.NewEvents, e)
	}
	return r
}

func scheduled(id int32) *protocol.HistoryEvent {
	return &protocol.HistoryEvent{EventId: id, EventType: &protocol.HistoryEvent_TaskScheduled{
		TaskScheduled: &protocol.TaskScheduledEvent{}}}
}

func timerCreated(id int32) *protocol.HistoryEvent {
	return &protocol.HistoryEvent{EventId: id, EventType: &protocol.HistoryEvent_TimerCreated{
		TimerCreated: &protocol.TimerCreatedEvent{}}}
}

func completed(id int32) *protocol.HistoryEvent {
	return &protocol.HistoryEvent{EventType: &protocol.HistoryEvent_TaskCompleted{
		TaskCompleted: &protocol.TaskCompletedEvent{TaskScheduledId: id}}}
}

func failed(id int32) *protocol.HistoryEvent {
	return &protocol.HistoryEvent{EventType: &protocol.HistoryEvent_TaskFailed{
		TaskFailed: &protocol.TaskFailedEvent{TaskScheduledId: id}}}
}

func fired(id int32) *protocol.HistoryEvent {
	return &protocol.HistoryEvent{EventType: &protocol.HistoryEvent_TimerFired{
		TimerFired: &protocol.TimerFiredEvent{TimerId: id}}}
}

func raised(name string) *protocol.HistoryEvent {
	return &protocol.HistoryEvent{EventType: &protocol.HistoryEvent_EventRaised{
		EventRaised: &protocol.EventRaisedEvent{Name: name}}}
}

const (
	retried = `{"actionType": 1, "functionName": "r", "input": "5", "retryOptions": {"firstRetryIntervalInMilliseconds": 1000, "maxNumberOfAttempts": 2, "backoffCoefficient": 3}}`
	plainA  = `{"actionType": 0, "functionName": "a", "input": "\"x\""}`
	both    = `{"actions": [[{"actionType": 12, "compoundActions": [` + retried + `, ` + plainA + `]}, ` + plainA + `]]}`
)

// Tasks have the numbers that the packages' code gives them: attempts and their timers come between other tasks.
func TestReplayNumbers(t *testing.T) {
	t.Parallel()
	lastFailure := []*protocol.HistoryEvent{scheduled(0), failed(0), timerCreated(1), fired(1), scheduled(2), failed(2),
		timerCreated(3), fired(3)}
	for _, c := range []struct {
		name, result string
		events       []*protocol.HistoryEvent
		want         string
	}{
		{"the first step", both, nil, `0 r 5, 1 a "x", 2 a "x"`},
		{"after a failure", both, []*protocol.HistoryEvent{scheduled(0), scheduled(1), failed(0)},
			`2 timer +1s, 3 a "x"`},
		{"after the timer", both, []*protocol.HistoryEvent{scheduled(0), scheduled(1), failed(0), timerCreated(2),
			completed(1),
			fired(2)}, `3 r 5, 4 a "x"`},
		{"the second attempt succeeds", both, []*protocol.HistoryEvent{scheduled(0), scheduled(1), failed(0), timerCreated(2),
			completed(1), fired(2), scheduled(3), completed(3)}, `4 a "x"`},
		{"all is done", `{"isDone": true, "output": {"a": 1}, "actions": [[` + plainA + `]]}`,
			[]*protocol.HistoryEvent{scheduled(0), completed(0)}, `1 COMPLETED {"a": 1}0`},
		{"a timer that is cancelled at once",
			`{"actions": [[{"actionType": 5, "fireAt": "2026-01-02T03:05:05Z", "isCanceled": true}, ` +
				plainA + `]]}`, nil, `1 a "x"`},
		{"a timer", `{"actions": [[{"actionType": 5, "fireAt": "2026-01-02T03:05:05Z"}]]}`, nil, `0 timer +1m0s`},
		{"a workflow below", `{"actions": [[{"actionType": 2, "functionName": "b"}]]}`, nil, `0 sub i:0000`},
		{"again, with an event that nobody took",
			`{"isDone": true, "actions": [[{"actionType": 6, "externalEventName": "Go"}, {"actionType": 4, "input": "2"}]]}`,
			[]*protocol.HistoryEvent{raised("go"), raised("GO")}, `0 CONTINUED_AS_NEW "2"1`},
		{"the last failure", `{"actions": [[` + retried + `]]}`, lastFailure[:6], `3 timer +3s`},
		{"after the last timer", `{"actions": [[` + retried + `, ` + plainA + `]]}`, lastFailure, `4 a "x"`},
		{"an event before its task", `{"isDone": true, "actions": [[` + plainA +
			`, {"actionType": 6, "externalEventName": "Go"}, {"actionType": 4}]]}`,
			[]*protocol.HistoryEvent{scheduled(0), raised("go"), completed(0)}, `1 CONTINUED_AS_NEW 0`},
		{"text that holds the state", `"{\"isDone\": true, \"actions\": []}"`, nil, `0 COMPLETED 0`},
	} {
		got, err := step(t, history(c.events...), c.result, "")
		if err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	got, err := step(t, history(), "", "Exception: no"+errorLabel+`{"error": "no", "actions": [[`+plainA+`]]} trailing`)
	if err != nil || got != `0 a "x", 1 FAILED no0` {
		t.Errorf("a failure: %s, %v", got, err)
	}
	for _, c := range []struct{ result, failure, want string }{
		{`{"actions": [[{"actionType": 7}]]}`, "", "entities"}, {`{"actions": [[{"actionType": 8}]]}`, "", "HTTP"},
		{`{"actions": [[{"actionType": 99}]]}`, "", "action 99"}, {`5`, "", "no state"}, {"", "", "no state"},
		{"", "ImportError", "ImportError"}, {`{"actions": [[{"actionType": 1}]]}`, "", "no retry options"},
	} {
		if got, err := step(t, history(), c.result, c.failure); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %s, %v, want %q", c.result, got, err, c.want)
		}
	}
}
