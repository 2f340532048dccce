package record

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/microsoft/durabletask-go/api"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
)

// Termination is a message of a checkpoint that does not follow from its events.
type Termination struct {
	Instance string
	Reason   *string `json:",omitempty"`
	Recurse  bool
}

// Outgoing is a message with its queue.
type Outgoing struct {
	*Message
	WorkItem bool
	Delay    time.Duration
	Rewind   *string // not nil: the sub-orchestration is rewound if it has failed, with this reason
}

// Outbox returns the messages that follow from events[from:], and the terminations. The result depends only on its
// arguments: derived again after a crash, the messages are ones that their receivers recognise as copies.
func Outbox(instance string, h *History, from int, now time.Time) ([]Outgoing, error) {
	open := OpenTasks(h.Events)
	start := h.StartEvent()
	var list []Outgoing
	send := func(to, execution, id string, e *Event) *Message {
		m := &Message{ID: id, Instance: to, Execution: execution, Parsed: e}
		list = append(list, Outgoing{Message: m})
		return m
	}
	// h.Order is the place of the last message to an entity. Counted back, it is the place before the first one of
	// these events, so that a derivation after a crash gives each message the same place.
	place := h.Order.Plus(-ToEntities(h.Events[from:]))
	for i, e := range h.Events[from:] {
		row := from + i
		if sent := event.CarriedBy(e); sent != nil {
			e = sent
		}
		at := e.Timestamp.AsTime()
		// A task that has ended needs no message. Its row is compared, because an SDK may use the number again in a later
		// attempt.
		unfinished := open[e.EventId] == row+1
		if x := e.GetTaskScheduled(); x != nil && unfinished {
			m := send(instance, h.ExecutionID, "", e)
			m.Scheduled = row + 1
			m.Blob = h.Blobs[e]
			list[len(list)-1].WorkItem = true
		} else if x := e.GetTimerCreated(); x != nil && unfinished {
			fired := event.New("timerFired", -1, at)
			fired.GetTimerFired().TimerId = e.EventId
			fired.GetTimerFired().FireAt = x.FireAt
			due := x.FireAt.AsTime()
			m := send(instance, h.ExecutionID, "", fired)
			m.Due = &due
			m.Scheduled = row + 1
			list[len(list)-1].Delay = due.Sub(now)
		} else if x := e.GetSubOrchestrationInstanceCreated(); x != nil && unfinished {
			child := event.New("executionStarted", -1, at)
			s := child.GetExecutionStarted()
			event.SetTags(s.ProtoReflect(), event.StartedTags, event.TagsOf(x.ProtoReflect(), event.CreatedTags))
			s.Name = x.Name
			s.Version = x.Version
			s.Input = x.Input
			s.ParentTraceContext = x.ParentTraceContext
			// It depends on the row alone: tryStartChild recognises by it a child that was started before a crash.
			execution := uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s/%s/%d", instance, h.ExecutionID, row)).String()
			event.Ensure(s, "orchestrationInstance")
			s.OrchestrationInstance.InstanceId = x.InstanceId
			s.OrchestrationInstance.ExecutionId = wrapperspb.String(execution)
			event.Ensure(s, "parentInstance")
			s.ParentInstance.TaskScheduledId = e.EventId
			s.ParentInstance.Name = wrapperspb.String(start.GetExecutionStarted().GetName())
			event.Ensure(s.ParentInstance, "orchestrationInstance")
			parent := s.ParentInstance.OrchestrationInstance
			parent.InstanceId = instance
			parent.ExecutionId = wrapperspb.String(parentOf(h.ExecutionID, row+1))
			send(x.InstanceId, "", execution, child).Parent = true
			if h.Rewound {
				list[len(list)-1].Rewind = &h.RewindReason
			}
		} else if h.Rewound { // A rewound history repeats tasks alone: its messages and results were sent before.
			continue
		} else if x := e.GetEventSent(); x != nil {
			raised := event.New("eventRaised", -1, at)
			raised.GetEventRaised().Name = x.Name
			raised.GetEventRaised().Input = x.Input
			send(x.InstanceId, "", fmt.Sprintf("%s/%s/%d", instance, h.ExecutionID, row), raised)
		} else if x := event.ExtraOf(e); x != nil {
			entity, to := toEntity(x, instance, h.ExecutionID)
			if entity == "" {
				continue
			}
			signal, err := event.FromProtocol(to)
			if err != nil {
				return nil, err
			}
			m := send(entity, "", fmt.Sprintf("%s/%s/%d", instance, h.ExecutionID, row), signal)
			m.Schedule(to)
			place = place.Plus(1)
			m.Order = place
			list[len(list)-1].Delay = m.Left(now)
		} else if e.GetExecutionCompleted() != nil {
			if m := Completion(start, e); m != nil {
				list = append(list, Outgoing{Message: m})
			}
		}
	}
	var ends []Termination
	if h.Terminations != "" {
		if err := json.Unmarshal([]byte(h.Terminations), &ends); err != nil {
			return nil, Corrupt(instance, nil, fmt.Errorf("terminations: %w", err))
		}
	}
	// No row stands for a termination, so that its ID has the number of the checkpoint.
	for i, t := range ends {
		e := event.New("executionTerminated", -1, now)
		e.GetExecutionTerminated().Recurse = t.Recurse
		if t.Reason != nil {
			e.GetExecutionTerminated().Input = wrapperspb.String(*t.Reason)
		}
		send(t.Instance, "", fmt.Sprintf("%s/%s/%d/end/%d", instance, h.ExecutionID, h.Checkpoint, i), e)
	}
	if h.Wake {
		// The event has no effect. Its message makes the owner load the instance, and take another turn.
		send(instance, "", fmt.Sprintf("%s/%s/%d/wake", instance, h.ExecutionID, h.Checkpoint),
			event.New("orchestratorCompleted", -1, now))
	}
	return list, nil
}

// Completion returns the message that reports the result of a sub-orchestration to its parent; nil if it has no parent.
func Completion(start, completed *Event) *Message {
	parent := start.GetExecutionStarted().GetParentInstance()
	if parent == nil {
		return nil
	}
	x := completed.GetExecutionCompleted()
	var e *Event
	if x.OrchestrationStatus == api.RUNTIME_STATUS_COMPLETED {
		e = event.New("subOrchestrationInstanceCompleted", -1, completed.Timestamp.AsTime())
		c := e.GetSubOrchestrationInstanceCompleted()
		c.TaskScheduledId, c.Result = parent.TaskScheduledId, x.Result
	} else {
		e = event.New("subOrchestrationInstanceFailed", -1, completed.Timestamp.AsTime())
		f := e.GetSubOrchestrationInstanceFailed()
		f.TaskScheduledId, f.FailureDetails = parent.TaskScheduledId, x.FailureDetails
		if f.FailureDetails == nil {
			f.FailureDetails = event.NewFailure("OrchestrationTerminated", "the sub-orchestration was terminated")
		}
	}
	return ToParent(parent.GetOrchestrationInstance(), e)
}

// A sub-orchestration keeps of its parent the execution and the row that scheduled it, as one text.
func parentOf(execution string, scheduled int) string {
	return fmt.Sprintf("%s.%d", execution, scheduled)
}

// ToParent addresses an event to the parent of a sub-orchestration.
func ToParent(i interface {
	GetInstanceId() string
	GetExecutionId() *wrapperspb.StringValue
}, e *Event) *Message {
	m := &Message{Instance: i.GetInstanceId(), Execution: i.GetExecutionId().GetValue(), Parsed: e}
	if at := strings.LastIndexByte(m.Execution, '.'); at >= 0 {
		m.Scheduled, _ = strconv.Atoi(m.Execution[at+1:])
		m.Execution = m.Execution[:at]
	}
	return m
}

// OpenTasks returns, for each task that is not completed, one more than the row that scheduled it last.
func OpenTasks(events []*Event) map[int32]int {
	open := map[int32]int{}
	for i, e := range events {
		if id, ok := event.TaskOf(e); ok {
			delete(open, id)
		} else if e.GetTaskScheduled() != nil || e.GetTimerCreated() != nil ||
			e.GetSubOrchestrationInstanceCreated() != nil {
			open[e.EventId] = i + 1
		}
	}
	return open
}
