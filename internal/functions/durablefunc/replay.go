package durablefunc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// The packages of Durable Functions for Python and JavaScript do not speak the Durable Task protocol: a step's trigger
// is the history as JSON, and its result is all actions that the code has asked for since the beginning, in order. The
// tasks behind them have no IDs in either; both sides number them as the in-process framework would: in the order in
// which they are scheduled, where a task with retries schedules a timer after each failure and then another attempt.
// Sources: azure-functions-durable-python (TaskOrchestrationExecutor), and the extension's OutOfProcOrchestrationShim.

// Versions of the actions. In V2, compound actions keep their children; V4, of the package for JavaScript, has locks of
// entities.
const (
	schemaV2 = 1
	schemaV4 = 3
)

// longestTimer bounds the timers that the package for JavaScript makes at once: there is no bound.
const longestTimer = "3650000.00:00:00"

// errorLabel is what comes before the state in the message of a failed step.
const errorLabel = "\n\n$OutOfProcData$:"

// Kinds of actions.
const (
	actActivity = iota
	actActivityRetry
	actSub
	actSubRetry
	actContinueAsNew
	actTimer
	actWait
	actCallEntity
	actHTTP
	actSignalEntity
	actSignalLater
	actAny
	actAll
	actLock
	actRelease
)

// state is what the code returns for a step.
type state struct {
	IsDone       bool
	Actions      [][]action
	Output       json.RawMessage
	Error        string
	CustomStatus json.RawMessage
}

// message is the reason of a failure: that of the state, or else the function's.
func (s *state) message(failure string) string {
	if s.Error != "" {
		return s.Error
	}
	return failure
}

type action struct {
	ActionType      int
	FunctionName    string
	Input           json.RawMessage
	InstanceID      string `json:"instanceId"`
	FireAt          time.Time
	IsCanceled      bool
	External        string `json:"externalEventName"`
	CompoundActions []action
	RetryOptions    *retryOptions
	Operation       string
	LockSet         []struct{ Name, Key string }
	LockRequestID   string          `json:"lockRequestId"`
	HTTPRequest     json.RawMessage `json:"httpRequest"`
}

type retryOptions struct {
	First       float64 `json:"firstRetryIntervalInMilliseconds"`
	Attempts    int     `json:"maxNumberOfAttempts"`
	Coefficient float64 `json:"backoffCoefficient"`
	Longest     float64 `json:"maxRetryIntervalInMilliseconds"`
	Timeout     float64 `json:"retryTimeoutInMilliseconds"`
}

// delay is the time between an attempt, counted from 1, and the next.
func (o retryOptions) delay(attempt int) time.Duration {
	ms := o.First
	if o.Coefficient > 0 {
		ms *= math.Pow(o.Coefficient, float64(attempt-1))
	}
	if o.Longest > 0 {
		ms = min(ms, o.Longest)
	}
	return time.Duration(min(ms, float64(math.MaxInt64)/1e7) * float64(time.Millisecond))
}

// stepEvent is an event as the code is to see it; played if an earlier step had it.
type stepEvent struct {
	*protocol.HistoryEvent
	played bool
}

// stepsOf returns the events of a request in the order in which the code sees them: those of a suspended instance come
// when it is resumed. terminated is the event that ends the instance, whatever its code does; nil without one.
func stepsOf(r *protocol.OrchestratorRequest) (events []stepEvent, suspended bool,
	terminated *protocol.ExecutionTerminatedEvent) {
	var held []stepEvent
	// The capacity is cut, so that append copies and does not write into the request.
	for i, e := range append(r.PastEvents[:len(r.PastEvents):len(r.PastEvents)], r.NewEvents...) {
		switch {
		case e.GetExecutionSuspended() != nil:
			suspended = true
		case e.GetExecutionResumed() != nil:
			suspended = false
			events, held = append(events, held...), nil
		case e.GetExecutionTerminated() != nil:
			terminated = e.GetExecutionTerminated()
		case suspended && e.GetOrchestratorStarted() == nil:
			held = append(held, stepEvent{e, i < len(r.PastEvents)})
		default:
			events = append(events, stepEvent{e, i < len(r.PastEvents)})
		}
	}
	return events, suspended, terminated
}

// controlled returns the response of a step that needs no code: the instance is terminated or suspended. It is nil for
// others.
func controlled(r *protocol.OrchestratorRequest) *protocol.OrchestratorResponse {
	_, suspended, terminated := stepsOf(r)
	switch {
	case terminated != nil:
		return &protocol.OrchestratorResponse{InstanceId: r.InstanceId, Actions: []*protocol.OrchestratorAction{{
			Id: firstHidden - 1, // No task has it.
			OrchestratorActionType: &protocol.OrchestratorAction_CompleteOrchestration{
				CompleteOrchestration: &protocol.CompleteOrchestrationAction{Result: terminated.Input,
					OrchestrationStatus: protocol.OrchestrationStatus_ORCHESTRATION_STATUS_TERMINATED}}}}}
	case suspended:
		return &protocol.OrchestratorResponse{InstanceId: r.InstanceId}
	}
	return nil
}

// replayed writes the trigger of a step.
func (c *conversion) replayed(r *protocol.OrchestratorRequest) (json.RawMessage, error) {
	trigger := map[string]any{"instanceId": r.InstanceId, "isReplaying": len(r.PastEvents) > 0, "parentInstanceId": nil,
		"upperSchemaVersion": schemaV2, "input": nil}
	if !c.inputAsText {
		trigger["upperSchemaVersionNew"] = schemaV4
		trigger["maximumShortTimerDuration"], trigger["longRunningTimerIntervalDuration"] = longestTimer, longestTimer
		trigger["defaultHttpAsyncRequestSleepTimeMillseconds"] = c.httpSleep.Milliseconds() // The host polls.
	}
	history, polls := []any{}, polls{}
	steps, _, _ := stepsOf(r)
	for _, step := range steps {
		e := polls.shown(step.HistoryEvent)
		if e == nil {
			continue
		}
		h := historyEvent(e)
		if h == nil {
			continue
		}
		h["EventId"], h["IsPlayed"] = e.EventId, step.played
		h["Timestamp"] = e.GetTimestamp().AsTime().Format(time.RFC3339Nano)
		history = append(history, h)
		started := e.GetExecutionStarted()
		if started == nil {
			continue
		}
		if parent := started.GetParentInstance(); parent != nil {
			trigger["parentInstanceId"] = parent.GetOrchestrationInstance().GetInstanceId()
		}
		if started.Input == nil {
			continue
		}
		trigger["input"] = inputValue(started.Input.Value, c.inputAsText)
	}
	trigger["history"] = history
	return json.Marshal(trigger)
}

// inputValue returns the input of an orchestration as the trigger has it: the value, or its JSON as text. The client
// for Python puts JSON into a text; other callers do not.
func inputValue(input string, asText bool) any {
	var text string
	switch {
	case !json.Valid([]byte(input)):
		return input
	case !asText:
		return json.RawMessage(input)
	case json.Unmarshal([]byte(input), &text) == nil && json.Valid([]byte(text)):
		return text
	}
	return input
}

// historyEvent converts an event; nil if the code has no use for it. EventType is the number that the framework has.
func historyEvent(e *protocol.HistoryEvent) map[string]any {
	// null and an empty text differ for the packages: null is "no input".
	text := func(v *wrapperspb.StringValue) any {
		if v == nil {
			return nil
		}
		return v.Value
	}
	failed := func(kind int, id int32, d *protocol.TaskFailureDetails) map[string]any {
		return map[string]any{"EventType": kind, "TaskScheduledId": id, "Reason": d.GetErrorMessage(),
			"Details": d.GetStackTrace().GetValue()}
	}
	switch {
	case e.GetExecutionStarted() != nil:
		s := e.GetExecutionStarted()
		// The numbers of HistoryEventType in the Durable Task Framework, which the packages switch on.
		// https://github.com/Azure/durabletask
		return map[string]any{"EventType": 0, "Name": s.Name, "Input": text(s.Input), "Version": text(s.Version)}
	case e.GetTaskScheduled() != nil:
		return map[string]any{"EventType": 4, "Name": e.GetTaskScheduled().Name, "Input": text(e.GetTaskScheduled().Input)}
	case e.GetTaskCompleted() != nil:
		c := e.GetTaskCompleted()
		return map[string]any{"EventType": 5, "TaskScheduledId": c.TaskScheduledId, "Result": text(c.Result)}
	case e.GetTaskFailed() != nil:
		return failed(6, e.GetTaskFailed().TaskScheduledId, e.GetTaskFailed().FailureDetails)
	case e.GetSubOrchestrationInstanceCreated() != nil:
		c := e.GetSubOrchestrationInstanceCreated()
		return map[string]any{"EventType": 7, "Name": c.Name, "InstanceId": c.InstanceId, "Input": text(c.Input)}
	case e.GetSubOrchestrationInstanceCompleted() != nil:
		c := e.GetSubOrchestrationInstanceCompleted()
		return map[string]any{"EventType": 8, "TaskScheduledId": c.TaskScheduledId, "Result": text(c.Result)}
	case e.GetSubOrchestrationInstanceFailed() != nil:
		f := e.GetSubOrchestrationInstanceFailed()
		return failed(9, f.TaskScheduledId, f.FailureDetails)
	case e.GetTimerCreated() != nil:
		return map[string]any{"EventType": 10, "FireAt": e.GetTimerCreated().FireAt.AsTime().Format(time.RFC3339Nano)}
	case e.GetTimerFired() != nil:
		f := e.GetTimerFired()
		return map[string]any{"EventType": 11, "TimerId": f.TimerId, "FireAt": f.FireAt.AsTime().Format(time.RFC3339Nano)}
	case e.GetOrchestratorStarted() != nil:
		return map[string]any{"EventType": 12}
	case e.GetOrchestratorCompleted() != nil:
		return map[string]any{"EventType": 13}
	case e.GetEventRaised() != nil:
		return map[string]any{"EventType": 15, "Name": e.GetEventRaised().Name, "Input": text(e.GetEventRaised().Input)}
	}
	return entityEvent(e)
}

// respond makes the response of a step from what the code returned, or the message with which it failed.
func (c *conversion) respond(r *protocol.OrchestratorRequest, result json.RawMessage,
	failure string) (*protocol.OrchestratorResponse, error) {
	var s state
	text := string(result)
	if failure != "" {
		// The code of an orchestration that fails still says its state, after the label. Without one, it is the step that
		// failed.
		message, rest, ok := strings.Cut(failure, errorLabel)
		if !ok {
			return nil, errors.New(failure)
		}
		failure, text = message, rest
	}
	var quoted string
	if json.Unmarshal([]byte(text), &quoted) == nil {
		text = quoted
	}
	// What follows the state in a message is not a part of it.
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&s); err != nil {
		return nil, fmt.Errorf("the function returned no state of an orchestration: %w", err)
	}
	response := &protocol.OrchestratorResponse{InstanceId: r.InstanceId}
	if len(s.CustomStatus) > 0 && string(s.CustomStatus) != "null" {
		response.CustomStatus = wrapperspb.String(string(s.CustomStatus))
	}
	m := &simulation{conversion: c, instance: r.InstanceId, tasks: map[int32]*task{}, requests: map[string]int32{},
		scheduled: map[int32]bool{}, early: map[string][]*protocol.HistoryEvent{}, hidden: firstHidden}
	for _, list := range s.Actions {
		for _, a := range list {
			if a.ActionType == actContinueAsNew {
				// This is no task and has no number. It decides how the execution ends.
				m.again = &a
				continue
			}
			t, err := newTask(a)
			if err != nil {
				return nil, err
			}
			m.yields = append(m.yields, t)
		}
	}
	steps, _, _ := stepsOf(r)
	actions := m.run(steps)
	complete := &protocol.CompleteOrchestrationAction{}
	switch {
	case failure != "":
		complete.OrchestrationStatus = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED
		complete.FailureDetails = &protocol.TaskFailureDetails{ErrorType: "OrchestratorFailed",
			ErrorMessage: s.message(failure)}
	case m.again != nil:
		complete.OrchestrationStatus = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_CONTINUED_AS_NEW
		complete.Result = m.input(m.again)
		// Events for which nothing has waited go on to the next execution.
		for _, list := range m.early {
			complete.CarryoverEvents = append(complete.CarryoverEvents, list...)
		}
	case s.IsDone:
		complete.OrchestrationStatus = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED
		if len(s.Output) > 0 {
			complete.Result = wrapperspb.String(string(s.Output))
		}
	default:
		response.Actions = actions
		return response, nil
	}
	response.Actions = append(actions, &protocol.OrchestratorAction{Id: m.next,
		OrchestratorActionType: &protocol.OrchestratorAction_CompleteOrchestration{CompleteOrchestration: complete}})
	return response, nil
}

// input returns the input for another orchestration, which gets it by inputValue.
func (m *simulation) input(a *action) *wrapperspb.StringValue {
	if m.inputAsText && len(a.Input) > 0 && string(a.Input) != "null" {
		return wrapperspb.String(string(a.Input))
	}
	return a.input()
}

// input returns the input of an action: the packages write JSON within text, or JSON.
func (a action) input() *wrapperspb.StringValue {
	if len(a.Input) == 0 || string(a.Input) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(a.Input, &text) == nil && json.Valid([]byte(text)) {
		return wrapperspb.String(text)
	}
	return wrapperspb.String(string(a.Input))
}

// task is one action, and what the history says of it.
type task struct {
	action
	children     []*task // of a compound action
	done, failed bool
	attempt      int  // the number of the present attempt, from 1
	waits        bool // for the timer before the next attempt, or before the next look at an HTTP operation
	number       int32
	request      *httpRequest // of an HTTP call, at present
}

// newTask refuses actions that are not supported.
func newTask(a action) (*task, error) {
	t := &task{action: a, attempt: 1}
	switch a.ActionType {
	case actHTTP:
		if err := json.Unmarshal(a.HTTPRequest, &t.request); err != nil || t.request == nil {
			return nil, fmt.Errorf("the HTTP call of the orchestration has no request that can be read: %.200s", a.HTTPRequest)
		}
	case actAll, actAny:
		for _, c := range a.CompoundActions {
			child, err := newTask(c)
			if err != nil {
				return nil, err
			}
			t.children = append(t.children, child)
		}
	case actActivity, actSub, actTimer, actWait, actCallEntity, actSignalEntity, actSignalLater, actLock, actRelease:
	case actActivityRetry, actSubRetry:
		if a.RetryOptions == nil || a.RetryOptions.Attempts < 1 {
			return nil, fmt.Errorf("the call of %s with retries has no retry options", a.FunctionName)
		}
	default:
		return nil, fmt.Errorf("the action %d of an orchestration is not supported", a.ActionType)
	}
	return t, nil
}

// resolved reports whether code that waits for the task goes on.
func (t *task) resolved() bool {
	switch t.ActionType {
	case actAll:
		all := true
		for _, c := range t.children {
			if c.failed {
				return true
			}
			all = all && c.resolved()
		}
		return all
	case actAny:
		for _, c := range t.children {
			if c.resolved() {
				return true
			}
		}
		return len(t.children) == 0
	}
	return t.done
}

// simulation numbers the tasks of an orchestration as its code does, by what has happened so far.
type simulation struct {
	*conversion
	instance, execution string
	yields              []*task // in the order in which the code waits for them
	again               *action // continue as new
	index               int     // of the first of yields without a number
	next                int32   // number
	hidden              int32   // the next number of what the code does not know of
	tasks               map[int32]*task
	scheduled           map[int32]bool   // numbers in the history
	requests            map[string]int32 // numbers of calls and locks of entities, by their IDs
	section             string           // the critical section that the code is in
	locked              []string         // its entities
	waiting             []*task          // for events
	early               map[string][]*protocol.HistoryEvent
	actions             []*protocol.OrchestratorAction
	now                 time.Time
}

// run goes through the history, and returns the actions that are not in it.
func (m *simulation) run(history []stepEvent) []*protocol.OrchestratorAction {
	// The numbers in the whole history are collected first: emit makes no action for them, and it comes to a task before
	// the loop below comes to the event that says that the task was scheduled.
	for _, e := range history {
		if e.GetTaskScheduled() != nil || e.GetTimerCreated() != nil || e.GetSubOrchestrationInstanceCreated() != nil ||
			sentToEntity(e.HistoryEvent) {
			m.scheduled[e.EventId] = true
		}
	}
	for _, step := range history {
		e := step.HistoryEvent
		m.now = e.GetTimestamp().AsTime()
		switch {
		case e.GetTaskCompleted() != nil:
			m.complete(e.GetTaskCompleted().TaskScheduledId, false, e.GetTaskCompleted().Result.GetValue())
		case e.GetTaskFailed() != nil:
			m.complete(e.GetTaskFailed().TaskScheduledId, true, "")
		case e.GetSubOrchestrationInstanceCompleted() != nil:
			m.complete(e.GetSubOrchestrationInstanceCompleted().TaskScheduledId, false, "")
		case e.GetSubOrchestrationInstanceFailed() != nil:
			m.complete(e.GetSubOrchestrationInstanceFailed().TaskScheduledId, true, "")
		case e.GetTimerFired() != nil:
			m.complete(e.GetTimerFired().TimerId, false, "")
		case e.GetEntityOperationCompleted() != nil:
			m.answered(e.GetEntityOperationCompleted().RequestId, false)
		case e.GetEntityOperationFailed() != nil:
			m.answered(e.GetEntityOperationFailed().RequestId, true)
		case e.GetEntityLockGranted() != nil:
			m.answered(e.GetEntityLockGranted().CriticalSectionId, false)
		case e.GetEventRaised() != nil:
			m.raise(e)
		case e.GetExecutionStarted() != nil:
			m.execution = e.GetExecutionStarted().GetOrchestrationInstance().GetExecutionId().GetValue()
		default:
			continue
		}
		m.schedule(false)
	}
	m.schedule(true) // The code may wait for a task again: then later ones have no task before them.
	return m.actions
}

// schedule numbers the tasks that the code has come to.
func (m *simulation) schedule(all bool) {
	for m.index < len(m.yields) && (all || m.index == 0 || m.yields[m.index-1].resolved()) {
		m.number(m.yields[m.index])
		m.index++
	}
}

// number numbers a task and those below it.
func (m *simulation) number(t *task) {
	switch t.ActionType {
	case actAll, actAny:
		for _, c := range t.children {
			m.number(c)
		}
	case actWait:
		if name := strings.ToLower(t.External); len(m.early[name]) > 0 {
			m.early[name], t.done = m.early[name][1:], true
			return
		}
		m.waiting = append(m.waiting, t)
	case actTimer:
		m.emit(t, t.FireAt)
	case actCallEntity, actSignalEntity, actSignalLater, actLock, actRelease:
		m.toEntity(t)
	default:
		m.emit(t, time.Time{})
	}
}

// emit gives a task the next number, and adds its action if the history does not have it. With a time it is a timer.
func (m *simulation) emit(t *task, at time.Time) {
	id := m.next
	m.next++
	m.tasks[id], t.number = t, id
	// The number is taken in any case. The code counts this task too, and the later ones must have the same numbers in
	// every step.
	if m.scheduled[id] || t.ActionType == actTimer && t.IsCanceled {
		return
	}
	a := &protocol.OrchestratorAction{Id: id}
	switch {
	case !at.IsZero():
		a.OrchestratorActionType = timerAction(at)
	case t.ActionType == actHTTP:
		a.OrchestratorActionType = t.request.action()
	case t.ActionType == actSub || t.ActionType == actSubRetry:
		instance := t.InstanceID
		if instance == "" {
			instance = fmt.Sprintf("%s:%04x", m.instance, id)
		}
		a.OrchestratorActionType = &protocol.OrchestratorAction_CreateSubOrchestration{
			CreateSubOrchestration: &protocol.CreateSubOrchestrationAction{InstanceId: instance, Name: t.FunctionName,
				Input: m.input(&t.action)}}
	default:
		a.OrchestratorActionType = &protocol.OrchestratorAction_ScheduleTask{
			ScheduleTask: &protocol.ScheduleTaskAction{Name: t.FunctionName, Input: t.input()}}
	}
	m.actions = append(m.actions, a)
}

func timerAction(at time.Time) *protocol.OrchestratorAction_CreateTimer {
	return &protocol.OrchestratorAction_CreateTimer{CreateTimer: &protocol.CreateTimerAction{FireAt: timestamppb.New(at)}}
}

// complete notes the end of what has a number: a task, an attempt of it, or the timer between attempts.
func (m *simulation) complete(id int32, failed bool, result string) {
	t := m.tasks[id]
	if t == nil || t.done {
		return
	}
	delete(m.tasks, id)
	switch {
	case t.ActionType == actHTTP && !failed:
		m.poll(t, result)
	case t.waits:
		t.waits = false
		if t.attempt >= t.RetryOptions.Attempts {
			t.done, t.failed = true, true
			return
		}
		t.attempt++
		m.emit(t, time.Time{})
	case failed && t.RetryOptions != nil:
		// After the last attempt as well: the code waits for that timer too.
		t.waits = true
		m.emit(t, m.now.Add(t.RetryOptions.delay(t.attempt)))
	default:
		t.done, t.failed = true, failed
	}
}

// raise gives an event to the first task that waits for its name.
func (m *simulation) raise(e *protocol.HistoryEvent) {
	name := strings.ToLower(e.GetEventRaised().Name)
	for i, t := range m.waiting {
		if strings.ToLower(t.External) == name {
			t.done = true
			m.waiting = append(m.waiting[:i:i], m.waiting[i+1:]...)
			return
		}
	}
	m.early[name] = append(m.early[name], e)
}
