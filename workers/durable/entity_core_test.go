package durable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// coreStep is one step of the model's workflow as a worker of .NET runs it: what it sends to entities are events in
// DurableTask.Core's form, and it demands them back in that form.
type coreStep struct {
	request *protocol.OrchestratorRequest
	sent    map[int32]*protocol.EventSentEvent
	raised  map[string]string
	results map[int32]bool // tasks that have completed
	tasks   map[int32]bool // that the history has
	input   burst
	started time.Time
	number  int32
	actions []*protocol.OrchestratorAction
	wrong   string // how the history differs from what the workflow has sent
}

// runCoreModel is an external.Orchestrator.
func runCoreModel(_ context.Context, request []byte) ([]byte, error) {
	r := &protocol.OrchestratorRequest{}
	if err := proto.Unmarshal(request, r); err != nil {
		return nil, err
	}
	s := &coreStep{request: r, sent: map[int32]*protocol.EventSentEvent{}, raised: map[string]string{},
		results: map[int32]bool{}, tasks: map[int32]bool{}}
	for _, e := range append(r.PastEvents, r.NewEvents...) {
		switch {
		case e.GetExecutionStarted() != nil:
			s.started = e.Timestamp.AsTime()
			if err := json.Unmarshal([]byte(e.GetExecutionStarted().Input.GetValue()), &s.input); err != nil {
				return nil, err
			}
		case e.GetEventSent() != nil:
			s.sent[e.EventId] = e.GetEventSent()
		case e.GetEventRaised() != nil:
			s.raised[e.GetEventRaised().Name] = e.GetEventRaised().Input.GetValue()
		case e.GetTaskScheduled() != nil:
			s.tasks[e.EventId] = true
		case e.GetTaskCompleted() != nil:
			s.results[e.GetTaskCompleted().TaskScheduledId] = true
		case e.GetEntityOperationCalled() != nil, e.GetEntityLockRequested() != nil, e.GetEntityLockGranted() != nil,
			e.GetEntityOperationCompleted() != nil, e.GetEntityOperationSignaled() != nil,
			e.EventId >= 0 && e.GetEntityUnlockSent() != nil:
			s.wrong = fmt.Sprintf("an event in a form that was not sent: %v", e)
		}
	}
	if done := s.run(); done != nil {
		s.number++
		s.actions = append(s.actions, &protocol.OrchestratorAction{Id: s.number,
			OrchestratorActionType: &protocol.OrchestratorAction_CompleteOrchestration{CompleteOrchestration: done}})
	}
	return proto.Marshal(&protocol.OrchestratorResponse{InstanceId: r.InstanceId, Actions: s.actions})
}

// id returns the ID of the next request, the same in each replay.
func (s *coreStep) id() string {
	return uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s/%d", s.request.InstanceId, s.number)).String()
}

// event sends an event unless the history has it.
func (s *coreStep) event(target, name string, data map[string]any) {
	n := s.number
	s.number++
	if e := s.sent[n]; e != nil {
		if e.InstanceId != target || e.Name != name {
			s.wrong = fmt.Sprintf("event %d is %v, and was sent as %q to %q", n, e, name, target)
		}
		return
	}
	data["parent"] = s.request.InstanceId
	text, _ := json.Marshal(data)
	s.actions = append(s.actions, &protocol.OrchestratorAction{Id: n,
		OrchestratorActionType: &protocol.OrchestratorAction_SendEvent{SendEvent: &protocol.SendEventAction{
			Instance: &protocol.OrchestrationInstance{InstanceId: target}, Name: name,
			Data: wrapperspb.String(string(text))}}})
}

func (s *coreStep) signal(target, operation string, in any, due time.Time) {
	input, _ := json.Marshal(in)
	data, name := map[string]any{"op": operation, "signal": true, "input": string(input), "id": s.id()}, "op"
	if !due.IsZero() {
		data["due"] = due
		name = "op@" + due.UTC().Format("2006-01-02T15:04:05.0000000Z")
	}
	s.event(target, name, data)
}

// ask sends a call or lock request, and returns its result. It is false as long as there is no answer.
func (s *coreStep) ask(target string, data map[string]any) (string, bool) {
	id := s.id()
	data["id"] = id
	s.event(target, "op", data)
	text, ok := s.raised[id]
	var answer struct{ Result string }
	if ok && json.Unmarshal([]byte(text), &answer) != nil {
		s.wrong = "the answer " + text
	}
	return answer.Result, ok
}

func (s *coreStep) call(target, operation string, in any) (string, bool) {
	input, _ := json.Marshal(in)
	return s.ask(target, map[string]any{"op": operation, "input": string(input)})
}

func endsWith(result, failure string) *protocol.CompleteOrchestrationAction {
	c := &protocol.CompleteOrchestrationAction{OrchestrationStatus: protocol.
		OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED, Result: wrapperspb.String(result)}
	if failure != "" {
		c.OrchestrationStatus = protocol.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED
		c.FailureDetails = &protocol.TaskFailureDetails{ErrorType: "Failed", ErrorMessage: failure}
	}
	return c
}

// run does what modelWorkflow does, and returns how it ends; nil if it waits.
func (s *coreStep) run() *protocol.CompleteOrchestrationAction {
	b := s.input
	relay := hub.EntityID("relay", b.Name[:1])
	for n := 1; n <= b.Notes; n++ {
		s.signal(b.Ledger, "note", note{From: b.Name, N: n, Pad: largeText(b.Large && n == 2)}, time.Time{})
		s.signal(relay, "pass", note{From: b.Ledger}, time.Time{})
	}
	s.signal(b.Ledger, "late", note{From: b.Name}, s.started.Add(time.Second))
	task := s.number
	s.number++
	if !s.tasks[task] {
		s.actions = append(s.actions, &protocol.OrchestratorAction{Id: task,
			OrchestratorActionType: &protocol.OrchestratorAction_ScheduleTask{ScheduleTask: &protocol.ScheduleTaskAction{
				Name: "nothing", Input: wrapperspb.String("1")}}})
	}
	if !s.results[task] {
		return s.ifWrong()
	}
	var set []map[string]string
	for _, id := range b.Locks {
		name, key, _ := strings.Cut(id[1:], "@")
		set = append(set, map[string]string{"name": name, "key": key})
	}
	section := s.id()
	if _, ok := s.ask(b.Locks[0], map[string]any{"op": nil, "lockset": set}); !ok {
		return s.ifWrong()
	}
	for i, id := range b.Locks {
		if _, ok := s.call(id, "add", 1-2*(i%2)); !ok {
			return s.ifWrong()
		}
	}
	if b.Notes%3 == 0 {
		return endsWith("", "ends with its locks")
	}
	for _, id := range b.Locks {
		s.event(id, "release", map[string]any{"id": section})
	}
	last, ok := s.call(b.Ledger, "last", b.Name)
	switch {
	case !ok || s.wrong != "":
		return s.ifWrong()
	case last != fmt.Sprint(b.Notes):
		return endsWith("", fmt.Sprintf("a call came before signal %d: %s have", b.Notes, last))
	}
	return endsWith(last, "")
}

// ifWrong ends a workflow whose history is not as it was sent.
func (s *coreStep) ifWrong() *protocol.CompleteOrchestrationAction {
	if s.wrong == "" {
		return nil
	}
	return endsWith("", s.wrong)
}
