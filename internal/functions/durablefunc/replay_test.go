package durablefunc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// step describes the actions of a step: "4 Name", "5 timer +1s", "6 completed: JSON".
func step(t *testing.T, r *protocol.OrchestratorRequest, result, failure string) (string, error) {
	t.Helper()
	c := &conversion{inputAsText: true, httpSleep: 30 * time.Second}
	if _, err := c.replayed(r); err != nil {
		t.Fatal(err)
	}
	response, err := c.respond(r, []byte(result), failure)
	if err != nil {
		return "", err
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
		case a.GetSendEntityMessage() != nil:
			m := a.GetSendEntityMessage()
			switch {
			case m.GetEntityOperationCalled() != nil:
				c := m.GetEntityOperationCalled()
				what = "call " + c.TargetInstanceId.GetValue() + " " + c.Operation + " " + c.GetInput().GetValue()
			case m.GetEntityOperationSignaled() != nil:
				s := m.GetEntityOperationSignaled()
				what = "signal " + s.TargetInstanceId.GetValue() + " " + s.Operation + " " + s.GetInput().GetValue()
				if s.ScheduledTime != nil {
					what += " at +" + s.ScheduledTime.AsTime().Sub(began).String()
				}
			case m.GetEntityLockRequested() != nil:
				l := m.GetEntityLockRequested()
				what = "lock " + l.CriticalSectionId + " " + strings.Join(l.LockSet, ",")
			case m.GetEntityUnlockSent() != nil:
				u := m.GetEntityUnlockSent()
				what = "unlock " + u.CriticalSectionId + " " + u.TargetInstanceId.GetValue()
			}
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
		{`{"actions": [[{"actionType": 8}]]}`, "", "HTTP"},
		{`{"actions": [[{"actionType": 99}]]}`, "", "action 99"}, {`5`, "", "no state"}, {"", "", "no state"},
		{"", "ImportError", "ImportError"}, {`{"actions": [[{"actionType": 1}]]}`, "", "no retry options"},
	} {
		if got, err := step(t, history(), c.result, c.failure); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %s, %v, want %q", c.result, got, err, c.want)
		}
	}
}

// stated is an event with a number, such as one of entities.
func stated(id int32, set func(e *protocol.HistoryEvent)) *protocol.HistoryEvent {
	e := &protocol.HistoryEvent{EventId: id}
	set(e)
	return e
}

func called(id int32, request string) *protocol.HistoryEvent {
	return stated(id, func(e *protocol.HistoryEvent) {
		e.EventType =
			&protocol.HistoryEvent_EntityOperationCalled{EntityOperationCalled: &protocol.EntityOperationCalledEvent{
				RequestId: request, TargetInstanceId: wrapperspb.String("@c@k")}}
	})
}

// Calls, signals and locks of entities have numbers as well: a signal and each release of a lock one, at once.
func TestReplayEntities(t *testing.T) {
	t.Parallel()
	const call = `{"actionType": 7, "instanceId": "@c@k", "operation": "add", "input": "\"5\""}`
	const signal = `{"actionType": 9, "instanceId": "@c@k", "operation": "reset"}`
	const lock = `{"actionType": 13, "lockRequestId": "s", "lockSet": [{"name": "C", "key": "k"}, {"name": "c", "key": "m"}]}`
	request := (&simulation{instance: "i"}).requestID()
	answer := stated(-1, func(e *protocol.HistoryEvent) {
		e.EventType =
			&protocol.HistoryEvent_EntityOperationCompleted{EntityOperationCompleted: &protocol.EntityOperationCompletedEvent{
				RequestId: request, Output: wrapperspb.String("7")}}
	})
	asked := stated(0, func(e *protocol.HistoryEvent) {
		e.EventType = &protocol.HistoryEvent_EntityLockRequested{EntityLockRequested: &protocol.EntityLockRequestedEvent{
			CriticalSectionId: "s"}}
	})
	granted := stated(-1, func(e *protocol.HistoryEvent) {
		e.EventType = &protocol.HistoryEvent_EntityLockGranted{EntityLockGranted: &protocol.EntityLockGrantedEvent{
			CriticalSectionId: "s"}}
	})
	for _, c := range []struct {
		name, result string
		events       []*protocol.HistoryEvent
		want         string
	}{
		{"a call", `{"actions": [[` + call + `]]}`, nil, `0 call @c@k add "\"5\""`},
		{"a call that is under way", `{"actions": [[` + call + `]]}`, []*protocol.HistoryEvent{called(0, request)}, ""},
		{"a call with its answer", `{"isDone": true, "output": 7, "actions": [[` + call + `, ` + signal + `]]}`,
			[]*protocol.HistoryEvent{called(0, request), answer}, `1 signal @c@k reset, 2 COMPLETED 70`},
		{"signals do not wait", `{"actions": [[` + signal + `, ` + signal + `, ` + plainA + `]]}`, nil,
			`0 signal @c@k reset, 1 signal @c@k reset, 2 a "x"`},
		{"a signal for later",
			`{"actions": [[{"actionType": 10, "instanceId": "@c@k", "operation": "o", "input": 1, "fireAt":` +
				`"2026-01-02T03:04:06Z"}]]}`, nil, `0 signal @c@k o 1 at +1s`},
		{"a lock", `{"actions": [[` + lock + `]]}`, nil, `0 lock s @c@k,@c@m`},
		{"a lock that is released", `{"actions": [[` + lock + `, {"actionType": 14}, ` + plainA + `]]}`,
			[]*protocol.HistoryEvent{asked, granted}, `1 unlock s @c@k, 2 unlock s @c@m, 3 a "x"`},
	} {
		if got, err := step(t, history(c.events...), c.result, ""); err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
}

func requested(id int32, input string) *protocol.HistoryEvent {
	return stated(id, func(e *protocol.HistoryEvent) {
		e.EventType = &protocol.HistoryEvent_TaskScheduled{TaskScheduled: &protocol.TaskScheduledEvent{Name: httpActivity,
			Input: wrapperspb.String(input)}}
	})
}

func responded(id int32, result string) *protocol.HistoryEvent {
	e := completed(id)
	e.GetTaskCompleted().Result = wrapperspb.String(result)
	return e
}

// An HTTP call is one task for the code: the timers and further requests after a response 202 have numbers of their
// own, and the last response is that of the task.
func TestReplayHTTP(t *testing.T) {
	t.Parallel()
	const call = `{"actionType": 8, "httpRequest": {"method": "POST", "uri": "http://h/start", "headers": {"X-Functions-Key": "k", "A": "b"}}}`
	const first = `{"method": "POST", "uri": "http://h/start", "headers": {"A": "b"}}`
	const second = `{"method": "GET", "uri": "http://h/status", "task": 0}`
	const accepted = `{"statusCode": 202, "headers": {"location": "/status", "Retry-After": "5"}, "content": ""}`
	const done = `{"statusCode": 200, "headers": {}, "content": "done"}`
	const hidden = firstHidden
	both := `{"actions": [[{"actionType": 12, "compoundActions": [` + call + `, ` + plainA + `]}`
	began := []*protocol.HistoryEvent{requested(0, first), scheduled(1), responded(0, accepted)}
	polled := append(began[:3:3], timerCreated(hidden), completed(1), fired(hidden))
	for _, c := range []struct {
		name   string
		events []*protocol.HistoryEvent
		want   string
	}{
		{"the first step", nil, `0 BuiltIn::HttpActivity {"method":"POST","uri":"http://h/start",` +
			`"headers":{"A":"b","X-Functions-Key":"k"}}, 1 a "x"`},
		{"a response 202", began, fmt.Sprint(hidden, " timer +5s")},
		{"the timer has fired", polled, fmt.Sprint(hidden+1,
			` BuiltIn::HttpActivity {"method":"GET","uri":"http://h/status","headers":{"A":"b"},"task":0}`)},
		{"another response 202", append(polled[:6:6], requested(hidden+1, second), responded(hidden+1, accepted)),
			fmt.Sprint(hidden+2, " timer +5s")},
		{"the last response", append(polled[:6:6], requested(hidden+1, second), responded(hidden+1, done)), `2 a "x"`},
	} {
		result := both + "]]}"
		if c.name == "the last response" {
			result = both + "," + plainA + "]]}"
		}
		if got, err := step(t, history(c.events...), result, ""); err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	c := &conversion{inputAsText: true}
	trigger, err := c.replayed(history(append(polled[:6:6], requested(hidden+1, second), responded(hidden+1, done))...))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`statusCode\": 202`, "TimerId", fmt.Sprint(hidden)} {
		if strings.Contains(string(trigger), bad) {
			t.Errorf("the code sees %q: %s", bad, trigger)
		}
	}
	if n := strings.Count(string(trigger), `"TaskScheduledId":0`); n != 1 || !strings.Contains(string(trigger), "done") {
		t.Errorf("%d results of the call: %s", n, trigger)
	}
}
