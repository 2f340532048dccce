package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/fault"
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
	return b.rewind(ctx, string(id), reason, "")
}

// rewind rewinds an instance, if that is the one of startID unless startID is empty. A message that is hidden meanwhile
// leads on if this process dies after the commit; so does another call.
func (b *Backend) rewind(ctx context.Context, instance, reason, startID string) error {
	h, err := b.histories.read(ctx, instance)
	if err != nil {
		return err
	}
	if h.row, err = b.instances.get(ctx, instance); err != nil {
		return err
	}
	if !h.started() || h.row == nil || startID != "" && h.StartID != startID {
		return api.ErrInstanceNotFound
	}
	reason = cut(reason, failureText)
	wake := outgoing{message: &message{ID: newID(), Instance: instance, event: rewoundEvent(b.clock.Now(), reason)},
		delay: startHidden}
	if h.Rewound && !h.sent() { // A rewind was cut off.
		if err := b.resume(ctx, instance, h); err != nil {
			return err
		}
		wake.delay = 0
		_, err := b.send(ctx, wake)
		return err
	}
	if s := updateOf(h, b.clock.Now()).status; s != api.RUNTIME_STATUS_FAILED {
		return fmt.Errorf("%w: its status is %s", ErrNotFailed, StatusName(s))
	}
	if !h.sent() {
		if err := b.resume(ctx, instance, h); err != nil {
			return err
		}
	}
	s, err := b.send(ctx, wake)
	if err != nil {
		return err
	}
	kept := rewound(h.events)
	rows := make([]newRow, 0, len(kept))
	for _, e := range kept {
		rows = append(rows, newRow{event: e, blob: h.blobs[e]})
	}
	next := h.sentinel.next()
	next.Rewound, next.RewindReason = true, reason
	// The rows of the new history have no IDs of messages: the sentinel has them instead.
	next.Seen = h.Seen.with(b.clock.Now(), h.ids, nil)
	n, err := b.histories.commit(ctx, instance, h, 0, rows, next, b.clock.Now())
	if errors.Is(err, errMoved) {
		s.drop(ctx)
	}
	if err != nil {
		return err
	}
	if err := fault.Point(pointCommitted); err != nil {
		return err
	}
	if err := b.resume(ctx, instance, n); err != nil {
		return err
	}
	if n.stale {
		if err := b.histories.trim(ctx, instance, n, b.clock.Now()); err != nil {
			return err
		}
	}
	held, err := s.show(ctx, 0)
	if err == nil && !held { // It has appeared, maybe before the commit.
		wake.delay = 0
		_, err = b.send(ctx, wake)
	}
	return err
}

func rewoundEvent(at time.Time, reason string) *Event {
	return event.NewExtra(-1, at, func(e *protocol.HistoryEvent) {
		x := &protocol.ExecutionRewoundEvent{}
		if reason != "" {
			x.Reason = wrapperspb.String(reason)
		}
		e.EventType = &protocol.HistoryEvent_ExecutionRewound{ExecutionRewound: x}
	})
}

// rewound returns the history without the events of failed steps. It replaces each removed event by an event without
// effect that keeps it, so that rows keep their numbers: results in flight name the row of the event that scheduled
// them.
func rewound(events []*Event) (kept []*Event) {
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
		// The workflow has seen the failure and has gone on: it is part of its path.
		if i <= last {
			continue
		}
		if x := e.GetTaskFailed(); x != nil {
			drop[i], drop[rows[x.TaskScheduledId]] = true, true
		}
		if e.GetSubOrchestrationInstanceFailed() != nil {
			drop[i] = true
		}
	}
	for i, e := range events {
		if drop[i] {
			e = event.Keep(event.Removed, e)
		}
		kept = append(kept, e)
	}
	return kept
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
	// A workflow with locks is ended by its owner, whose checkpoint also sends their release.
	if !h.started() || h.row == nil || h.completed() || len(b.unlocks(h.events)) > 0 {
		return false, nil
	}
	if !h.sent() {
		if err := b.resume(ctx, instance, h); err != nil {
			return false, err
		}
	}
	e := event.New("executionCompleted", -1, b.clock.Now())
	x := e.GetExecutionCompleted()
	x.OrchestrationStatus = api.RUNTIME_STATUS_TERMINATED
	if reason != "" {
		text, err := json.Marshal(reason)
		if err != nil {
			return false, err
		}
		x.Result = wrapperspb.String(string(text))
	}
	trace, err := b.remind(ctx, instance, h.ExecutionID, startHidden) // It leads on if this process dies.
	if err != nil {
		return false, err
	}
	n, err := b.histories.commit(ctx, instance, h, h.Length, []newRow{{event: e}}, h.sentinel.next(), b.clock.Now())
	if errors.Is(err, errMoved) {
		trace.drop(ctx)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := fault.Point(pointCommitted); err != nil {
		return false, err
	}
	if err := b.resume(ctx, instance, n); err != nil {
		return true, err
	}
	trace.drop(ctx)
	return true, nil
}
