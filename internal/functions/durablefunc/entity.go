package durablefunc

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
)

// sentToEntity reports whether an event is an action of the workflow's code that was sent to an entity. What is sent at
// the workflow's end has no number.
func sentToEntity(e *protocol.HistoryEvent) bool {
	return e.EventId >= 0 && (e.GetEntityOperationCalled() != nil || e.GetEntityOperationSignaled() != nil ||
		e.GetEntityLockRequested() != nil || e.GetEntityUnlockSent() != nil)
}

// entityEvent converts an event of entities, which the packages know as events that are sent and raised: a call and a
// lock have a request ID, which names the event of the response.
func entityEvent(e *protocol.HistoryEvent) map[string]any {
	sent := func(target, id string) map[string]any {
		// A negative ID marks an event that the orchestration did not send itself.
		if e.EventId < 0 {
			return nil
		}
		// 14 is EventSent and 15 is EventRaised; the packages wait for a raised event whose name is the ID of the request.
		return map[string]any{"EventType": 14, "InstanceId": target, "Name": "op", "Input": object("id", id)}
	}
	raised := func(id string, input any) map[string]any {
		return map[string]any{"EventType": 15, "Name": id, "Input": input}
	}
	switch {
	case e.GetEntityOperationCalled() != nil:
		c := e.GetEntityOperationCalled()
		return sent(c.TargetInstanceId.GetValue(), c.RequestId)
	case e.GetEntityLockRequested() != nil:
		return sent("", e.GetEntityLockRequested().CriticalSectionId)
	case e.GetEntityLockGranted() != nil:
		return raised(e.GetEntityLockGranted().CriticalSectionId, "null")
	case e.GetEntityOperationCompleted() != nil:
		c := e.GetEntityOperationCompleted()
		output := "null"
		if c.Output != nil {
			output = c.Output.Value
		}
		return raised(c.RequestId, object("result", output))
	case e.GetEntityOperationFailed() != nil:
		f := e.GetEntityOperationFailed()
		message, _ := json.Marshal(f.FailureDetails.GetErrorMessage())
		return raised(f.RequestId, object("result", string(message), "exceptionType", "Error"))
	}
	return nil
}

// object returns the JSON of an object with members of text.
func object(members ...string) string {
	all := map[string]string{}
	for i := 0; i < len(members); i += 2 {
		all[members[i]] = members[i+1]
	}
	text, _ := json.Marshal(all)
	return string(text)
}

// toEntity numbers an action on entities. Calls and locks have an answer; the others are done at once.
func (m *simulation) toEntity(t *task) {
	send := func(s *protocol.SendEntityMessageAction) {
		id := m.next
		m.next++
		if !m.scheduled[id] {
			m.actions = append(m.actions, &protocol.OrchestratorAction{Id: id,
				OrchestratorActionType: &protocol.OrchestratorAction_SendEntityMessage{SendEntityMessage: s}})
		}
	}
	target, request := wrapperspb.String(t.InstanceID), m.requestID()
	var input *wrapperspb.StringValue
	if len(t.Input) > 0 && string(t.Input) != "null" {
		input = wrapperspb.String(string(t.Input))
	}
	switch t.ActionType {
	case actCallEntity:
		// send takes this number. The answer names the request, and by it finds the task.
		m.tasks[m.next], m.requests[request] = t, m.next
		send(&protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityOperationCalled{
			EntityOperationCalled: &protocol.EntityOperationCalledEvent{RequestId: request, Operation: t.Operation,
				Input: input, TargetInstanceId: target}}})
	case actSignalEntity, actSignalLater:
		t.done = true
		s := &protocol.EntityOperationSignaledEvent{RequestId: request, Operation: t.Operation, Input: input,
			TargetInstanceId: target}
		if t.ActionType == actSignalLater {
			s.ScheduledTime = timestamppb.New(t.FireAt)
		}
		send(&protocol.SendEntityMessageAction{
			EntityMessageType: &protocol.SendEntityMessageAction_EntityOperationSignaled{EntityOperationSignaled: s}})
	case actLock:
		m.section, m.locked = t.LockRequestID, nil
		if m.section == "" {
			m.section = request
		}
		for _, e := range t.LockSet {
			m.locked = append(m.locked, entity.ID(e.Name, e.Key))
		}
		m.tasks[m.next], m.requests[m.section] = t, m.next
		send(&protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityLockRequested{
			EntityLockRequested: &protocol.EntityLockRequestedEvent{CriticalSectionId: m.section, LockSet: m.locked}}})
	case actRelease:
		t.done = true
		for _, id := range m.locked {
			send(&protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityUnlockSent{
				EntityUnlockSent: &protocol.EntityUnlockSentEvent{CriticalSectionId: m.section,
					TargetInstanceId: wrapperspb.String(id)}}})
		}
		m.locked = nil
	}
}

// requestID returns the ID of the next request, the same in each replay.
func (m *simulation) requestID() string {
	return uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s/%s/%d", m.instance, m.execution, m.next)).String()
}

// answered notes the answer of an entity.
func (m *simulation) answered(request string, failed bool) {
	if id, ok := m.requests[request]; ok {
		m.complete(id, failed, "")
	}
}

// batchTrigger returns a batch of operations as the packages take it. The package for Python reads every input, also
// none.
func (c *conversion) batchTrigger(b *entitybatch.Batch) (json.RawMessage, error) {
	name, key, _ := strings.Cut(strings.TrimPrefix(b.ID, "@"), "@")
	batch := []any{}
	for _, o := range b.Operations {
		var input any
		switch {
		case o.Input != nil && *o.Input != "":
			input = *o.Input
		case c.inputAsText:
			input = "null"
		}
		batch = append(batch, map[string]any{"name": o.Name, "input": input, "isSignal": o.Caller == "", "id": o.ID})
	}
	return json.Marshal(map[string]any{"self": map[string]string{"name": name, "key": key}, "exists": b.State != nil,
		"state": b.State, "batch": batch})
}

// batchState is what the packages return for a batch.
type batchState struct {
	EntityExists bool
	EntityState  *string
	Results      []struct {
		IsError bool
		Result  *string
	}
	Signals []struct {
		Target     struct{ Name, Key string }
		Name       string
		Input      *string
		ScheduleAt time.Time `json:"scheduledTime"`
	}
}

// batchResult reads what the packages return for a batch.
func batchResult(b *entitybatch.Batch, text json.RawMessage) (*entitybatch.Result, error) {
	var s batchState
	var quoted string
	if json.Unmarshal(text, &quoted) == nil {
		text = json.RawMessage(quoted)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("the function returned no state of an entity: %w", err)
	}
	if len(s.Results) != len(b.Operations) {
		return nil, fmt.Errorf("the function returned %d results for %d operations of an entity", len(s.Results),
			len(b.Operations))
	}
	r := &entitybatch.Result{}
	if s.EntityExists {
		r.State = s.EntityState
	}
	for i, one := range s.Results {
		if !one.IsError {
			r.Results = append(r.Results, entitybatch.OperationResult{Output: one.Result})
			continue
		}
		message := ""
		if one.Result != nil && json.Unmarshal([]byte(*one.Result), &message) != nil && *one.Result != "{}" {
			message = *one.Result
		}
		if message == "" { // The package for JavaScript writes errors as {}.
			message = fmt.Sprintf("the operation %s of the entity %s failed", b.Operations[i].Name, b.ID)
		}
		r.Results = append(r.Results,
			entitybatch.OperationResult{Failure: event.NewFailure("OperationFailed", message)})
	}
	for _, signal := range s.Signals {
		x := entitybatch.Signal{ID: entity.ID(signal.Target.Name, signal.Target.Key), Operation: signal.Name,
			At: signal.ScheduleAt}
		if signal.Input != nil && *signal.Input != "" {
			x.Input = signal.Input
		}
		r.Signals = append(r.Signals, x)
	}
	return r, nil
}
