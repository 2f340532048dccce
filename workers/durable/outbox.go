package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/microsoft/durabletask-go/api"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
)

// termination is a message of a checkpoint that does not follow from its events.
type termination struct {
	Instance string
	Reason   *string `json:",omitempty"`
	Recurse  bool
}

// outgoing is a message with its queue.
type outgoing struct {
	*message
	workItem bool
	delay    time.Duration
	rewind   *string // not nil: the sub-orchestration is rewound if it has failed, with this reason
}

// outbox returns the messages that follow from events[from:], and the terminations. The result depends only on its
// arguments: derived again after a crash, the messages are ones that their receivers recognise as copies.
func outbox(instance string, h *history, from int, now time.Time) ([]outgoing, error) {
	open := openTasks(h.events)
	start := h.startEvent()
	var list []outgoing
	send := func(to, execution, id string, e *Event) *message {
		m := &message{ID: id, Instance: to, Execution: execution, event: e}
		list = append(list, outgoing{message: m})
		return m
	}
	place := h.Order.plus(-toEntities(h.events[from:])) // of the message to an entity before
	for i, e := range h.events[from:] {
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
			m.Blob = h.blobs[e]
			list[len(list)-1].workItem = true
		} else if x := e.GetTimerCreated(); x != nil && unfinished {
			fired := event.New("timerFired", -1, at)
			fired.GetTimerFired().TimerId, fired.GetTimerFired().FireAt = e.EventId, x.FireAt
			due := x.FireAt.AsTime()
			m := send(instance, h.ExecutionID, "", fired)
			m.Due, m.Scheduled = &due, row+1
			list[len(list)-1].delay = due.Sub(now)
		} else if x := e.GetSubOrchestrationInstanceCreated(); x != nil && unfinished {
			child := event.New("executionStarted", -1, at)
			s := child.GetExecutionStarted()
			event.SetTags(s.ProtoReflect(), event.StartedTags, event.TagsOf(x.ProtoReflect(), event.CreatedTags))
			s.Name, s.Version, s.Input, s.ParentTraceContext = x.Name, x.Version, x.Input, x.ParentTraceContext
			// It depends on the row alone: tryStartChild recognises by it a child that was started before a crash.
			execution := uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s/%s/%d", instance, h.ExecutionID, row)).String()
			event.Ensure(s, "orchestrationInstance")
			s.OrchestrationInstance.InstanceId, s.OrchestrationInstance.ExecutionId = x.InstanceId, wrapperspb.String(execution)
			event.Ensure(s, "parentInstance")
			s.ParentInstance.TaskScheduledId, s.ParentInstance.Name = e.EventId,
				wrapperspb.String(start.GetExecutionStarted().GetName())
			event.Ensure(s.ParentInstance, "orchestrationInstance")
			p := s.ParentInstance.OrchestrationInstance
			p.InstanceId, p.ExecutionId = instance, wrapperspb.String(parentOf(h.ExecutionID, row+1))
			send(x.InstanceId, "", execution, child).Parent = true
			if h.Rewound {
				list[len(list)-1].rewind = &h.RewindReason
			}
		} else if h.Rewound { // The rest was sent before.
			continue
		} else if x := e.GetEventSent(); x != nil {
			raised := event.New("eventRaised", -1, at)
			raised.GetEventRaised().Name, raised.GetEventRaised().Input = x.Name, x.Input
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
			m.schedule(to)
			place = place.plus(1)
			m.Order = place
			list[len(list)-1].delay = m.left(now)
		} else if e.GetExecutionCompleted() != nil {
			if m := completion(start, e); m != nil {
				list = append(list, outgoing{message: m})
			}
		}
	}
	var ends []termination
	if h.Terminations != "" {
		if err := json.Unmarshal([]byte(h.Terminations), &ends); err != nil {
			return nil, corrupt(instance, nil, fmt.Errorf("terminations: %w", err))
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
		// It has no effect.
		send(instance, "", fmt.Sprintf("%s/%s/%d/wake", instance, h.ExecutionID, h.Checkpoint),
			event.New("orchestratorCompleted", -1, now))
	}
	return list, nil
}

// completion returns the message that reports the result of a sub-orchestration to its parent; nil if it has no parent.
func completion(start, completed *Event) *message {
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
	return toParent(parent.GetOrchestrationInstance(), e)
}

// A sub-orchestration keeps of its parent the execution and the row that scheduled it, as one text.
func parentOf(execution string, scheduled int) string {
	return fmt.Sprintf("%s.%d", execution, scheduled)
}

// toParent addresses an event to the parent of a sub-orchestration.
func toParent(i interface {
	GetInstanceId() string
	GetExecutionId() *wrapperspb.StringValue
}, e *Event) *message {
	m := &message{Instance: i.GetInstanceId(), Execution: i.GetExecutionId().GetValue(), event: e}
	if at := strings.LastIndexByte(m.Execution, '.'); at >= 0 {
		m.Scheduled, _ = strconv.Atoi(m.Execution[at+1:])
		m.Execution = m.Execution[:at]
	}
	return m
}

// openTasks returns, for each task that is not completed, one more than the row that scheduled it last.
func openTasks(events []*Event) map[int32]int {
	open := map[int32]int{}
	for i, e := range events {
		if id, ok := event.TaskOf(e); ok {
			delete(open, id)
		} else if e.GetTaskScheduled() != nil || e.GetTimerCreated() != nil || e.GetSubOrchestrationInstanceCreated() != nil {
			open[e.EventId] = i + 1
		}
	}
	return open
}

// sendParallel bounds the requests of one checkpoint that are under way at once.
const sendParallel = 16

// sendAll sends messages. When it fails some of them may have been sent.
func (b *Backend) sendAll(ctx context.Context, list []outgoing) error {
	toEntities := map[string][]outgoing{} // What one sender sends to one entity arrives in its order.
	together := map[*messages.Putter][]outgoing{}
	var starts []outgoing
	for _, m := range list {
		if isEntity(m.Instance) && !m.workItem {
			toEntities[m.Instance] = append(toEntities[m.Instance], m)
			continue
		}
		if m.event.GetExecutionStarted() != nil {
			starts = append(starts, m)
			continue
		}
		q := b.queueOf(m)
		together[q.putter] = append(together[q.putter], m)
	}
	// Starts go one by one, because each has a row to write first. Messages for one queue share requests.
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(sendParallel)
	for _, m := range starts {
		g.Go(func() error {
			if err := fault.Point(pointSend); err != nil {
				return err
			}
			return b.startChild(ctx, m)
		})
	}
	for _, same := range together {
		g.Go(func() error {
			for range same {
				if err := fault.Point(pointSend); err != nil {
					return err
				}
			}
			_, err := b.sendTogether(ctx, same)
			return err
		})
	}
	for _, ordered := range toEntities {
		g.Go(func() error {
			for _, m := range ordered {
				if err := fault.Point(pointSend); err != nil {
					return err
				}
				if err := b.deliver(ctx, m, fromHub); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// Bounds of the pauses while a row lags behind its history. If the row's owner has crashed, the row lags until another
// owner receives the messages; the parent's checkpoint is then repeated.
const (
	lagFirst = 20 * time.Millisecond // doubled each time
	lagLast  = 640 * time.Millisecond
)

// errLagging means that an instance has ended and its row does not say so yet.
var errLagging = errors.New("the instance has ended, and its row is not up to date")

// startChild creates a sub-orchestration: its row, then the message. It replaces an instance with the ID that has
// ended. If an instance with the ID is running, it sends a failure to the parent.
func (b *Backend) startChild(ctx context.Context, m outgoing) error {
	err := b.tryStartChild(ctx, m)
	for pause := lagFirst; errors.Is(err, errLagging) && pause <= lagLast; pause *= 2 {
		if !sleep(ctx, systemClock{}, pause) {
			return ctx.Err()
		}
		err = b.tryStartChild(ctx, m)
	}
	return err
}

func (b *Backend) tryStartChild(ctx context.Context, m outgoing) error {
	for range readAttempts {
		row, err := b.instances.get(ctx, m.Instance)
		if err != nil {
			return err
		}
		etag := azcore.ETag("")
		switch {
		case row == nil:
		case row.StartID == m.ID:
			// The row is of this start: a process has written it, and may have died before it sent the message.
			if m.rewind != nil {
				err := b.rewind(ctx, m.Instance, *m.rewind, m.ID)
				if err != nil && !errors.Is(err, ErrNotFailed) && !errors.Is(err, api.ErrInstanceNotFound) {
					return err
				}
			}
			_, err := b.send(ctx, m)
			return err
		case !isFinal(row.status()):
			// The parent may know the result of the instance already and start another under its ID, before the row has
			// followed.
			if ended, err := b.hasEnded(ctx, m.Instance, row.StartID); err != nil {
				return err
			} else if ended {
				return fmt.Errorf("durable: start %q: %w", m.Instance, errLagging)
			}
			if m.event.GetExecutionStarted().ParentInstance == nil {
				b.log.Warn("an entity has started a workflow under an ID that is in use; it is not started", "instance", m.Instance)
				return nil
			}
			return b.refuseChild(ctx, m.message)
		default:
			etag = row.etag
		}
		if v, _ := event.PayloadOf(m.event); v != nil && len(v.Value) > inlineLimit {
			m.Blob = m.payloadName(v.Value)
			if err := b.payloads.put(ctx, m.Blob, v.Value); err != nil {
				return err
			}
		}
		// The row comes first: a start whose row is not there counts as purged, and is dropped.
		_, err = b.instances.start(ctx, m.Instance, m.event, m.Blob, etag)
		if errors.Is(err, errExists) {
			continue // Another request has the row now.
		}
		if err != nil {
			return err
		}
		_, err = b.send(ctx, m)
		return err
	}
	return fmt.Errorf("durable: start %q: %w", m.Instance, errExists)
}

// hasEnded reports whether the history of an instance's start has ended. It is committed, and the parent has the
// result, before the row says so.
func (b *Backend) hasEnded(ctx context.Context, instance, startID string) (bool, error) {
	h, err := b.histories.read(ctx, instance)
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		return false, nil // The row is the only source. The error is not one of the parent's history.
	}
	return err == nil && h.StartID == startID && h.completed(), err
}

// refuseChild reports to a parent that its sub-orchestration cannot start, because an instance with the ID is running.
func (b *Backend) refuseChild(ctx context.Context, m *message) error {
	parent := m.event.GetExecutionStarted().GetParentInstance()
	e := event.New("subOrchestrationInstanceFailed", -1, b.clock.Now())
	x := e.GetSubOrchestrationInstanceFailed()
	x.TaskScheduledId = parent.GetTaskScheduledId()
	x.FailureDetails = event.NewFailure("OrchestrationAlreadyExists",
		fmt.Sprintf("an instance with the ID %q is running", m.Instance))
	_, err := b.send(ctx, outgoing{message: toParent(parent.GetOrchestrationInstance(), e)})
	return err
}

// sent is a message that was put: what its sender needs to change it.
type sent struct {
	queue       queue
	id, receipt string
	text        string
}

// queueOf returns the queue that a message is for.
func (b *Backend) queueOf(m outgoing) queue {
	if m.workItem {
		return b.workItems
	}
	return b.control[partitionOf(m.Instance, len(b.control))]
}

// send sends a message to the queue that it is for.
func (b *Backend) send(ctx context.Context, m outgoing) (sent, error) {
	list, err := b.sendTogether(ctx, []outgoing{m})
	if err != nil {
		return sent{}, err
	}
	return list[0], nil
}

// sendTogether sends messages, one at least, that are for the same queue. When it fails some of them may have been
// sent.
func (b *Backend) sendTogether(ctx context.Context, list []outgoing) ([]sent, error) {
	q, texts := b.queueOf(list[0]), make([]messages.New, len(list))
	g, encoding := errgroup.WithContext(ctx) // large payloads go to blobs
	g.SetLimit(sendParallel)
	for i, m := range list {
		encode := func() (err error) {
			texts[i] = messages.New{Delay: m.delay}
			texts[i].Text, err = b.payloads.encode(encoding, m.message)
			return err
		}
		// The last one is encoded here, so that a single message needs no goroutine.
		if i == len(list)-1 {
			if err := encode(); err != nil {
				_ = g.Wait()
				return nil, err
			}
			continue
		}
		g.Go(encode)
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	put, err := q.putAll(ctx, texts)
	if err != nil && b.remake(ctx, err) {
		put, err = q.putAll(ctx, texts)
	}
	if err != nil {
		return nil, err
	}
	all := make([]sent, len(list))
	for i, p := range put {
		all[i] = sent{queue: q, id: p.ID, receipt: p.Receipt, text: texts[i].Text}
	}
	return all, nil
}
