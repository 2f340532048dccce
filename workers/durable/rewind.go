package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/microsoft/durabletask-go/api"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/workers/durable/internal/protocol"
)

// ErrNotFailed means that the instance cannot be rewound because it has not failed.
var ErrNotFailed = errors.New("durable: the instance has not failed")

// Rewind retries the failed steps of a failed instance. It rewrites the history without its end and without the
// failures after which the workflow scheduled no other task. It schedules these tasks again and rewinds failed
// sub-orchestrations. A workflow that failed in its own code runs again from its history, which succeeds if the code
// has been corrected. The history keeps what was removed, for people.
func (b *Backend) Rewind(ctx context.Context, id api.InstanceID, reason string) error {
	if err := b.ready(); err != nil {
		return err
	}
	return b.rewind(ctx, string(id), reason, map[string]bool{})
}

func (b *Backend) rewind(ctx context.Context, instance, reason string, done map[string]bool) error {
	if done[instance] {
		return nil
	}
	done[instance] = true
	h, err := b.histories.read(ctx, instance)
	if err != nil {
		return err
	}
	if h.row, err = b.instances.get(ctx, instance); err != nil {
		return err
	}
	if !h.started() || h.row == nil {
		return api.ErrInstanceNotFound
	}
	if s := updateOf(h, b.clock.Now()).status; s != api.RUNTIME_STATUS_FAILED {
		return fmt.Errorf("%w: its status is %s", ErrNotFailed, statusText(s))
	}
	kept, children := rewound(h.events)
	rows := make([]newRow, 0, len(kept))
	for _, e := range kept {
		rows = append(rows, newRow{event: e, blob: h.blobs[e]})
	}
	next := h.sentinel
	next.Terminations, next.Wake = "", false
	next.Seen = h.Seen.with(b.clock.Now(), h.ids, nil)
	n, err := b.histories.commit(ctx, instance, h, 0, rows, next, b.clock.Now())
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := b.rewind(ctx, child, reason, done); err != nil && !errors.Is(err, ErrNotFailed) &&
			!errors.Is(err, api.ErrInstanceNotFound) {
			return err
		}
	}
	if err := b.resume(ctx, instance, n); err != nil {
		return err
	}
	if n.stale {
		if err := b.histories.trim(ctx, instance, n, b.clock.Now()); err != nil {
			return err
		}
	}
	return b.addEvent(ctx, instance, newExtra(-1, b.clock.Now(), func(e *protocol.HistoryEvent) {
		x := &protocol.ExecutionRewoundEvent{}
		if reason != "" {
			x.Reason = wrapperspb.String(cut(reason, failureText))
		}
		e.EventType = &protocol.HistoryEvent_ExecutionRewound{ExecutionRewound: x}
	}), newID())
}

// rewound returns the history without the events of failed steps, and the failed sub-orchestrations. It replaces each
// removed event by an event without effect that keeps it, so that rows keep their numbers: results in flight name the
// row of the event that scheduled them.
func rewound(events []*Event) (kept []*Event, children []string) {
	last := -1              // of those that schedule something
	rows := map[int32]int{} // that scheduled a task last
	for i, e := range events {
		switch {
		case e.GetTaskScheduled() != nil, e.GetTimerCreated() != nil, e.GetSubOrchestrationInstanceCreated() != nil:
			rows[e.EventId], last = i, i
		case e.GetEventSent() != nil:
			last = i
		}
	}
	drop := map[int]bool{}
	for i, e := range events {
		if e.GetExecutionCompleted() != nil {
			drop[i] = true
		}
		if i <= last {
			continue
		}
		if x := e.GetTaskFailed(); x != nil {
			drop[i], drop[rows[x.TaskScheduledId]] = true, true
		}
		if x := e.GetSubOrchestrationInstanceFailed(); x != nil {
			drop[i] = true
			children = append(children, events[rows[x.TaskScheduledId]].GetSubOrchestrationInstanceCreated().GetInstanceId())
		}
	}
	for i, e := range events {
		if drop[i] {
			e = keep(removed, e)
		}
		kept = append(kept, e)
	}
	return kept, children
}

// terminateNow ends an instance by a commit of its end.
func (b *Backend) terminateNow(ctx context.Context, instance, reason string) (bool, error) {
	h, err := b.histories.read(ctx, instance)
	if err != nil {
		return false, err
	}
	if h.row, err = b.instances.get(ctx, instance); err != nil {
		return false, err
	}
	if !h.started() || h.row == nil || h.completed() || len(b.unlocks(h.events)) > 0 {
		return false, nil
	}
	if !h.sent() {
		if err := b.resume(ctx, instance, h); err != nil {
			return false, err
		}
	}
	e := newEvent("executionCompleted", -1, b.clock.Now())
	x := e.GetExecutionCompleted()
	x.OrchestrationStatus = api.RUNTIME_STATUS_TERMINATED
	if reason != "" {
		text, err := json.Marshal(reason)
		if err != nil {
			return false, err
		}
		x.Result = wrapperspb.String(string(text))
	}
	next := h.sentinel
	next.Terminations, next.Wake = "", false
	n, err := b.histories.commit(ctx, instance, h, h.Length, []newRow{{event: e}}, next, b.clock.Now())
	if errors.Is(err, errMoved) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, b.resume(ctx, instance, n)
}
