package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/fault"
)

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
	h, err := b.histories.Read(ctx, instance)
	if err != nil {
		return err
	}
	if h.Row, err = b.instances.Get(ctx, instance); err != nil {
		return err
	}
	if !h.Started() || h.Row == nil || startID != "" && h.StartID != startID {
		return api.ErrInstanceNotFound
	}
	reason = record.Cut(reason, record.FailureText)
	wake := record.Outgoing{Message: &record.Message{ID: record.NewID(), Instance: instance,
		Parsed: rewoundEvent(b.clock.Now(), reason)},
		Delay: startHidden}
	if h.Rewound && !h.Sent() { // A rewind was cut off.
		if err := b.resume(ctx, instance, h); err != nil {
			return err
		}
		wake.Delay = 0
		_, err := b.send(ctx, wake)
		return err
	}
	if s := record.UpdateOf(h, b.clock.Now()).Status; s != api.RUNTIME_STATUS_FAILED {
		return fmt.Errorf("%w: its status is %s", record.ErrNotFailed, record.StatusName(s))
	}
	if !h.Sent() {
		if err := b.resume(ctx, instance, h); err != nil {
			return err
		}
	}
	s, err := b.send(ctx, wake)
	if err != nil {
		return err
	}
	kept := rewound(h.Events)
	rows := make([]record.NewRow, 0, len(kept))
	for _, e := range kept {
		rows = append(rows, record.NewRow{Event: e, Blob: h.Blobs[e]})
	}
	next := h.Sentinel.Next()
	next.Rewound, next.RewindReason = true, reason
	// The rows of the new history have no IDs of messages: the sentinel has them instead.
	next.Seen = h.Seen.With(b.clock.Now(), h.IDs, nil)
	n, err := b.histories.Commit(ctx, instance, h, 0, rows, next, b.clock.Now())
	if errors.Is(err, record.ErrMoved) {
		s.Drop(ctx)
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
	if n.Stale {
		if err := b.histories.Trim(ctx, instance, n, b.clock.Now()); err != nil {
			return err
		}
	}
	held, err := s.Show(ctx, 0)
	if err == nil && !held { // It has appeared, maybe before the commit.
		wake.Delay = 0
		_, err = b.send(ctx, wake)
	}
	return err
}

func rewoundEvent(at time.Time, reason string) *record.Event {
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
func rewound(events []*record.Event) (kept []*record.Event) {
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
