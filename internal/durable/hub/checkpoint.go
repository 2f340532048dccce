package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// maxCustomStatus bounds the custom status, as Durable Functions does, in bytes.
const maxCustomStatus = 16 << 10

// CompleteOrchestrationWorkItem implements backend.Backend: it makes the checkpoint whose steps the package comment
// lists.
func (b *Backend) CompleteOrchestrationWorkItem(ctx context.Context, wi *backend.OrchestrationWorkItem) error {
	if err := b.ready(); err != nil {
		return err
	}
	w, ok := wi.Properties[workProperty].(*work)
	if !ok || w.settled || wi.State == nil {
		return backend.ErrWorkItemLockLost
	}
	// The steps after the commit are due even if the process stops meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkpointTimeout)
	defer cancel()
	instance := w.session.Instance
	c := b.plan(w, wi.State)
	c.advance(b.clock.Now())
	if len(c.rows) > 0 {
		// Nothing is sent before the commit: an owner that was deposed learns it here.
		n, err := b.commit(ctx, instance, w, c)
		if err != nil {
			return err
		}
		if err := b.resume(ctx, instance, n); err != nil {
			return err
		}
		old := w.history
		w.history = n
		// base is what was in storage; history is another one if a start in this work replaces an instance that has ended.
		// Then base has payloads that nothing refers to any more.
		if n.Stale || old != w.base {
			b.clean(ctx, instance, n, w.base)
		}
		// This is after clean, which gives n another ETag.
		b.cache.Put(instance, n)
	}
	w.settled = true
	b.inWork.remove(w)
	b.finishWork(ctx, w)
	return fault.Point(pointDone)
}

// plan has the writes of a checkpoint.
type plan struct {
	keep int // rows of the history that stay
	rows []record.NewRow
	next record.Sentinel
}

// plan derives a checkpoint from the state that the engine has left.
func (b *Backend) plan(w *work, state *backend.OrchestrationRuntimeState) plan {
	h := w.history
	// The engine hands the events of messages back by their pointers. Their rows keep the ID and the blob of the
	// message.
	byEvent := map[*record.Event]record.NewRow{}
	for _, r := range w.events {
		byEvent[r.Event] = r
	}
	c := plan{keep: h.Length, next: h.Sentinel.Next()}
	c.next.Terminations, c.next.Wake = terminations(state), w.paused
	if w.answered {
		c.next.Span = w.span
	}
	if s := state.CustomStatus; s != nil {
		c.next.CustomStatus = []byte(s.Value)
	}
	only := true // The engine adds OrchestratorStarted even where it runs nothing.
	for _, e := range state.NewEvents() {
		r, ok := byEvent[e]
		if now := b.clock.Now(); e.GetTimerFired() != nil && e.Timestamp.AsTime().Before(now) {
			e.Timestamp = timestamppb.New(now) // It was made when the timer was set; the history says when it fired.
		}
		if !ok {
			r = record.NewRow{Event: e}
			record.TrimFailures(e)
		}
		only = only && e.GetOrchestratorStarted() != nil
		c.rows = append(c.rows, r)
	}
	if only && len(w.effects.events)+len(w.effects.before) == 0 {
		c.rows = nil
		return c
	}
	c.rows = w.effects.addEffects(c.rows)
	c.rows = b.addUnlocks(w, c.rows)
	// Storage would refuse such a checkpoint whenever its messages come again. So the instance fails instead.
	if err := b.checkCheckpoint(c); err != nil {
		c = b.failedPlan(w, err)
	} else if state.ContinuedAsNew() {
		c.keep = 0
		// The rows go, and with them the IDs of messages that may still come again: the sentinel keeps these.
		ids := map[string]bool{}
		for id := range h.IDs {
			ids[id] = true
		}
		for _, r := range w.events {
			if r.ID != "" {
				ids[r.ID] = true
			}
		}
		c.next.Seen = h.Seen.With(b.clock.Now(), ids, h.Confirmed.All())
	}
	for _, r := range c.rows {
		if r.Event.GetExecutionStarted() != nil {
			c.next.ExecutionID = event.ExecutionOf(r.Event)
			// A start that a message has brought begins the instance. One that the engine has made continues it, and StartID
			// stays.
			if _, begun := byEvent[r.Event]; begun {
				c.next.StartID = c.next.ExecutionID
			}
		}
	}
	// A start that the engine has continued as new at once is in no row.
	for _, r := range w.events {
		if r.Event.GetExecutionStarted() != nil {
			c.next.StartID = event.ExecutionOf(r.Event)
		}
	}
	return c
}

// checkCheckpoint returns an error if the checkpoint cannot be stored.
func (b *Backend) checkCheckpoint(c plan) error {
	for _, r := range c.rows {
		if err := b.checkPayload(r.Event); err != nil {
			return err
		}
		if x := r.Event.GetSubOrchestrationInstanceCreated(); x != nil {
			if err := record.CheckInstanceID(x.InstanceId); err != nil {
				return err
			}
		}
		if x := r.Event.GetEventSent(); x != nil {
			if err := record.CheckInstanceID(x.InstanceId); err != nil {
				return err
			}
		}
	}
	if n := len(c.next.CustomStatus); n > maxCustomStatus {
		return fmt.Errorf("%w: the custom status has %d bytes; %d are allowed", record.ErrTooLarge, n, maxCustomStatus)
	}
	if n := len(c.next.Terminations); n > maxCustomStatus {
		return fmt.Errorf("%w: the terminations of other instances have %d bytes; %d are allowed", record.ErrTooLarge, n,
			maxCustomStatus)
	}
	return nil
}

// failedPlan returns a plan that fails the instance instead of applying the workflow's actions.
func (b *Backend) failedPlan(w *work, reason error) plan {
	c := plan{keep: w.history.Length, next: w.history.Sentinel.Next()}
	c.rows = append([]record.NewRow{{Event: event.New("orchestratorStarted", -1, b.clock.Now())}}, w.events...)
	e := event.New("executionCompleted", -1, b.clock.Now())
	x := e.GetExecutionCompleted()
	x.OrchestrationStatus = api.RUNTIME_STATUS_FAILED
	x.FailureDetails = event.NewFailure("CheckpointRefused", reason.Error())
	c.rows = b.addUnlocks(w, append(c.rows, record.NewRow{Event: e}))
	return c
}

// addUnlocks adds to the rows of a checkpoint the messages that release entities: those that the workflow has locked if
// it completes, and those that the one has locked which it replaces.
func (b *Backend) addUnlocks(w *work, rows []record.NewRow) []record.NewRow {
	var open []*record.Event
	if w.history != w.base && !w.base.Completed() {
		open = b.unlocks(w.base.Events)
	}
	if slices.ContainsFunc(rows, func(r record.NewRow) bool { return r.Event.GetExecutionCompleted() != nil }) {
		all := slices.Clone(w.history.Events)
		for _, r := range rows {
			all = append(all, r.Event)
		}
		open = append(open, b.unlocks(all)...)
	}
	var list []*record.Event
	for _, e := range open {
		list = append(list, event.Carry(e))
	}
	return insertBeforeEnd(rows, list)
}

func terminations(state *backend.OrchestrationRuntimeState) string {
	var list []record.Termination
	for _, m := range state.PendingMessages() {
		if x := m.HistoryEvent.GetExecutionTerminated(); x != nil && record.CheckInstanceID(m.TargetInstanceID) == nil {
			t := record.Termination{Instance: m.TargetInstanceID, Recurse: x.Recurse}
			if x.Input != nil {
				t.Reason = &x.Input.Value
			}
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return ""
	}
	text, _ := json.Marshal(list) // Plain values.
	return string(text)
}

func (b *Backend) commit(ctx context.Context, instance string, w *work, c plan) (*record.History, error) {
	if err := fault.Point(pointCommit); err != nil {
		return nil, err
	}
	n, err := b.histories.Commit(ctx, instance, w.history, c.keep, c.rows, c.next, b.clock.Now())
	if errors.Is(err, record.ErrMoved) {
		b.stats.conflicts.Add(1)
		b.cache.Forget(instance)
		b.log.Info("checkpoint refused: another owner has written the history", "instance", instance)
		return nil, fmt.Errorf("%w: %w", backend.ErrWorkItemLockLost, err)
	}
	if err != nil {
		b.cache.Forget(instance)
		return nil, err
	}
	b.stats.checkpoints.Add(1)
	return n, fault.Point(pointCommitted)
}

// resume sends the messages of the last checkpoint and records in the row, maybe later, that they have been sent. It
// can be repeated.
func (b *Backend) resume(ctx context.Context, instance string, h *record.History) error {
	now := b.clock.Now()
	list, err := record.Outbox(instance, h, h.From, now)
	if err != nil {
		return err
	}
	if err := b.sendAll(ctx, list); err != nil {
		return err
	}
	if err := fault.Point(pointSent); err != nil {
		return err
	}
	// If the row cannot be written, this process need not send again. Another one goes by the row, and does.
	h.Delivered = h.Checkpoint
	if u := record.UpdateOf(h, now); !b.isQuiet(instance, h, u) || !b.late.Put(instance, h) {
		if err := b.writeRow(ctx, instance, h, u); err != nil {
			return err
		}
	}
	return fault.Point(pointInstance)
}

// clean deletes the remains of a replaced history: rows beyond the end of the new one, and payloads that only the old
// one had.
func (b *Backend) clean(ctx context.Context, instance string, n, old *record.History) {
	// Both histories and the row can refer to one blob.
	kept := map[string]bool{}
	for _, blob := range n.Blobs {
		kept[blob] = true
	}
	if n.Row != nil {
		kept[n.Row.InputBlobName], kept[n.Row.OutputBlobName] = true, true
	}
	var errs []error
	for _, blob := range old.Blobs {
		if !kept[blob] {
			errs = append(errs, b.payloads.Delete(ctx, blob))
		}
	}
	err := b.histories.Trim(ctx, instance, n, b.clock.Now())
	n.Stale = err != nil
	if err := errors.Join(append(errs, err)...); err != nil {
		b.log.Warn("cannot delete the data of an earlier execution", "instance", instance, "err", sdkerr.Short(err))
	}
}

// finishWork ends a work item that is done, and deletes its messages, or has them deleted when the row is written.
func (b *Backend) finishWork(ctx context.Context, w *work) {
	again := map[*inflight.Received]bool{}
	for _, r := range w.postponed {
		again[r] = true
		if err := r.Hide(ctx, postponement, false); err != nil {
			r.Release()
		}
	}
	var done []inflight.Handled
	for _, r := range w.messages {
		if again[r] {
			continue
		}
		deleted := func() {}
		switch {
		case w.history == nil:
		case r.ID != "":
			deleted = func() { w.history.Confirmed.Add(r.ID) }
		case r.Execution != "" && r.Execution != w.history.ExecutionID:
			kept := slices.Collect(maps.Values(w.history.Blobs))
			deleted = func() { b.deletePayload(r, kept) }
		}
		done = append(done, inflight.Handled{Received: r, Deleted: deleted})
	}
	// As long as the row is behind, the messages stay: they lead the next owner to it.
	if b.late.Get(w.session.Instance) == nil {
		b.deleteHandled(done)
	} else if !b.late.Keep(w.session.Instance, done) {
		b.giveBack(w.messages)
	}
	b.sessions.Done(w.session, w.messages)
}

// deletePayload deletes the payload of a message of an earlier execution that was handled and is gone, unless it is one
// of kept. A result that became a message while its workflow ran may have written it after clean.
func (b *Backend) deletePayload(r *inflight.Received, kept []string) {
	if r.Text == "" { // the result has stayed in memory
		return
	}
	m, err := record.Decode(r.Text)
	if err != nil || m.Blob == "" || slices.Contains(kept, m.Blob) {
		return
	}
	ctx, cancel := context.WithTimeout(b.life, checkpointTimeout)
	defer cancel()
	if err := b.payloads.Delete(ctx, m.Blob); err != nil {
		b.log.Warn("cannot delete the data of an earlier execution", "instance", r.Instance, "err", sdkerr.Short(err))
	}
}

// failCorrupt fails an instance whose history cannot be read. It records the reason in the row and sends the failure to
// the parent; the history is not changed.
func (b *Backend) failCorrupt(ctx context.Context, instance string, reason *record.CorruptError) error {
	b.log.Error("instance failed", "instance", instance, "err", reason)
	row, err := b.instances.Get(ctx, instance)
	if err != nil || row == nil || record.IsFinal(row.Status()) {
		return err
	}
	e := event.New("executionCompleted", -1, b.clock.Now())
	x := e.GetExecutionCompleted()
	x.OrchestrationStatus, x.FailureDetails = api.RUNTIME_STATUS_FAILED, event.NewFailure("CorruptHistory",
		reason.Error())
	// The start may be readable although a later row is not. The parent is answered before the row ends: a repetition
	// stops at a row that has ended.
	if h := reason.History; h != nil {
		if start := h.StartEvent(); start != nil {
			if m := record.Completion(start, e); m != nil {
				if _, err := b.send(ctx, record.Outgoing{Message: m}); err != nil {
					return err
				}
			}
		}
	}
	h := record.NewHistory()
	// write ignores checkpoints that are not newer than the row.
	h.StartID, h.ExecutionID, h.Checkpoint, h.Row = row.StartID, row.ExecutionID, row.Checkpoint+1, row
	return b.instances.Write(ctx, instance, h, record.Update{Status: api.RUNTIME_STATUS_FAILED, Completed: e,
		Now: b.clock.Now()})
}

// advance moves the sentinel's order on by the messages to entities that follow from the plan's events.
func (c *plan) advance(now time.Time) {
	events := make([]*record.Event, len(c.rows))
	for i, r := range c.rows {
		events[i] = r.Event
	}
	if n := record.ToEntities(events); n > 0 {
		c.next.Order = c.next.Order.AtLeast(now).Plus(n)
	}
}
