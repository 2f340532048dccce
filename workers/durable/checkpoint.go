package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

func newID() string { return uuid.NewString() }

func sizeWithoutPayload(e *Event) int {
	n := proto.Size(e)
	v, _ := event.PayloadOf(e)
	return n - len(v.GetValue())
}

// checkpointTimeout bounds a checkpoint. A checkpoint continues while the process stops.
const checkpointTimeout = 2 * time.Minute

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
	instance := w.session.instance
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
		if n.stale || old != w.base {
			b.clean(ctx, instance, n, w.base)
		}
		// This is after clean, which gives n another ETag.
		b.cache.put(instance, n)
	}
	w.settled = true
	b.inWork.remove(w)
	b.finishWork(ctx, w)
	return fault.Point(pointDone)
}

// plan has the writes of a checkpoint.
type plan struct {
	keep int // rows of the history that stay
	rows []newRow
	next sentinel
}

// plan derives a checkpoint from the state that the engine has left.
func (b *Backend) plan(w *work, state *backend.OrchestrationRuntimeState) plan {
	h := w.history
	// The engine hands the events of messages back by their pointers. Their rows keep the ID and the blob of the
	// message.
	byEvent := map[*Event]newRow{}
	for _, r := range w.events {
		byEvent[r.event] = r
	}
	c := plan{keep: h.Length, next: h.sentinel.next()}
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
			r = newRow{event: e}
			trimFailures(e)
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
		for id := range h.ids {
			ids[id] = true
		}
		for _, r := range w.events {
			if r.id != "" {
				ids[r.id] = true
			}
		}
		c.next.Seen = h.Seen.with(b.clock.Now(), ids, h.confirmed.all())
	}
	for _, r := range c.rows {
		if r.event.GetExecutionStarted() != nil {
			c.next.ExecutionID = event.ExecutionOf(r.event)
			// A start that a message has brought begins the instance. One that the engine has made continues it, and StartID
			// stays.
			if _, begun := byEvent[r.event]; begun {
				c.next.StartID = c.next.ExecutionID
			}
		}
	}
	// A start that the engine has continued as new at once is in no row.
	for _, r := range w.events {
		if r.event.GetExecutionStarted() != nil {
			c.next.StartID = event.ExecutionOf(r.event)
		}
	}
	return c
}

// checkCheckpoint returns an error if the checkpoint cannot be stored.
func (b *Backend) checkCheckpoint(c plan) error {
	for _, r := range c.rows {
		if err := b.checkPayload(r.event); err != nil {
			return err
		}
		if x := r.event.GetSubOrchestrationInstanceCreated(); x != nil {
			if err := checkInstanceID(x.InstanceId); err != nil {
				return err
			}
		}
		if x := r.event.GetEventSent(); x != nil {
			if err := checkInstanceID(x.InstanceId); err != nil {
				return err
			}
		}
	}
	if n := len(c.next.CustomStatus); n > maxCustomStatus {
		return fmt.Errorf("%w: the custom status has %d bytes; %d are allowed", ErrTooLarge, n, maxCustomStatus)
	}
	if n := len(c.next.Terminations); n > maxCustomStatus {
		return fmt.Errorf("%w: the terminations of other instances have %d bytes; %d are allowed", ErrTooLarge, n,
			maxCustomStatus)
	}
	return nil
}

// failedPlan returns a plan that fails the instance instead of applying the workflow's actions.
func (b *Backend) failedPlan(w *work, reason error) plan {
	c := plan{keep: w.history.Length, next: w.history.sentinel.next()}
	c.rows = append([]newRow{{event: event.New("orchestratorStarted", -1, b.clock.Now())}}, w.events...)
	e := event.New("executionCompleted", -1, b.clock.Now())
	x := e.GetExecutionCompleted()
	x.OrchestrationStatus = api.RUNTIME_STATUS_FAILED
	x.FailureDetails = event.NewFailure("CheckpointRefused", reason.Error())
	c.rows = b.addUnlocks(w, append(c.rows, newRow{event: e}))
	return c
}

// addUnlocks adds to the rows of a checkpoint the messages that release entities: those that the workflow has locked if
// it completes, and those that the one has locked which it replaces.
func (b *Backend) addUnlocks(w *work, rows []newRow) []newRow {
	var open []*Event
	if w.history != w.base && !w.base.completed() {
		open = b.unlocks(w.base.events)
	}
	if slices.ContainsFunc(rows, func(r newRow) bool { return r.event.GetExecutionCompleted() != nil }) {
		all := slices.Clone(w.history.events)
		for _, r := range rows {
			all = append(all, r.event)
		}
		open = append(open, b.unlocks(all)...)
	}
	var list []*Event
	for _, e := range open {
		list = append(list, event.Carry(e))
	}
	return insertBeforeEnd(rows, list)
}

// cut shortens a text to n bytes at most, between characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}

func terminations(state *backend.OrchestrationRuntimeState) string {
	var list []termination
	for _, m := range state.PendingMessages() {
		if x := m.HistoryEvent.GetExecutionTerminated(); x != nil && checkInstanceID(m.TargetInstanceID) == nil {
			t := termination{Instance: m.TargetInstanceID, Recurse: x.Recurse}
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

func (b *Backend) commit(ctx context.Context, instance string, w *work, c plan) (*history, error) {
	if err := fault.Point(pointCommit); err != nil {
		return nil, err
	}
	n, err := b.histories.commit(ctx, instance, w.history, c.keep, c.rows, c.next, b.clock.Now())
	if errors.Is(err, errMoved) {
		b.stats.conflicts.Add(1)
		b.cache.forget(instance)
		b.log.Info("checkpoint refused: another owner has written the history", "instance", instance)
		return nil, fmt.Errorf("%w: %w", backend.ErrWorkItemLockLost, err)
	}
	if err != nil {
		b.cache.forget(instance)
		return nil, err
	}
	b.stats.checkpoints.Add(1)
	return n, fault.Point(pointCommitted)
}

// resume sends the messages of the last checkpoint and records in the row, maybe later, that they have been sent. It
// can be repeated.
func (b *Backend) resume(ctx context.Context, instance string, h *history) error {
	now := b.clock.Now()
	list, err := outbox(instance, h, h.From, now)
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
	h.delivered = h.Checkpoint
	if u := updateOf(h, now); !b.isQuiet(instance, h, u) || !b.late.put(instance, h) {
		if err := b.writeRow(ctx, instance, h, u); err != nil {
			return err
		}
	}
	return fault.Point(pointInstance)
}

// updateOf derives the content of the row from a history.
func updateOf(h *history, now time.Time) update {
	u := update{status: api.RUNTIME_STATUS_RUNNING, now: now}
	if h.CustomStatus != nil {
		text := string(h.CustomStatus)
		u.customStatus = &text
	}
	for _, e := range h.events {
		switch {
		case e.GetExecutionSuspended() != nil:
			u.status = api.RUNTIME_STATUS_SUSPENDED
		case e.GetExecutionResumed() != nil:
			u.status = api.RUNTIME_STATUS_RUNNING
		case e.GetExecutionCompleted() != nil:
			u.completed = e
		}
	}
	if u.completed != nil {
		u.status = u.completed.GetExecutionCompleted().OrchestrationStatus
	}
	if h.From == 0 && h.StartID != h.ExecutionID {
		u.continued = h.startEvent()
	}
	return u
}

// clean deletes the remains of a replaced history: rows beyond the end of the new one, and payloads that only the old
// one had.
func (b *Backend) clean(ctx context.Context, instance string, n, old *history) {
	// Both histories and the row can refer to one blob.
	kept := map[string]bool{}
	for _, blob := range n.blobs {
		kept[blob] = true
	}
	if n.row != nil {
		kept[n.row.InputBlobName], kept[n.row.OutputBlobName] = true, true
	}
	var errs []error
	for _, blob := range old.blobs {
		if !kept[blob] {
			errs = append(errs, b.payloads.delete(ctx, blob))
		}
	}
	err := b.histories.trim(ctx, instance, n, b.clock.Now())
	n.stale = err != nil
	if err := errors.Join(append(errs, err)...); err != nil {
		b.log.Warn("cannot delete what an earlier execution has left", "instance", instance, "err", sdkerr.Short(err))
	}
}

// finishWork ends a work item that is done, and deletes its messages, or has them deleted when the row is written.
func (b *Backend) finishWork(ctx context.Context, w *work) {
	again := map[*received]bool{}
	for _, r := range w.postponed {
		again[r] = true
		if err := r.hide(ctx, postponement, false); err != nil {
			r.release()
		}
	}
	var done []handled
	for _, r := range w.messages {
		if again[r] {
			continue
		}
		deleted := func() {}
		if w.history != nil && r.ID != "" {
			deleted = func() { w.history.confirmed.add(r.ID) }
		}
		done = append(done, handled{r, deleted})
	}
	// As long as the row is behind, the messages stay: they lead the next owner to it.
	if b.late.get(w.session.instance) == nil {
		b.deleteHandled(done)
	} else if !b.late.keep(w.session.instance, done) {
		b.giveBack(w.messages)
	}
	b.sessions.done(w.session, w.messages)
}

// failCorrupt fails an instance whose history cannot be read. It records the reason in the row and sends the failure to
// the parent; the history is not changed.
func (b *Backend) failCorrupt(ctx context.Context, instance string, reason *CorruptError) error {
	b.log.Error("instance failed", "instance", instance, "err", reason)
	row, err := b.instances.get(ctx, instance)
	if err != nil || row == nil || isFinal(row.status()) {
		return err
	}
	e := event.New("executionCompleted", -1, b.clock.Now())
	x := e.GetExecutionCompleted()
	x.OrchestrationStatus, x.FailureDetails = api.RUNTIME_STATUS_FAILED, event.NewFailure("CorruptHistory", reason.Error())
	// The start may be readable although a later row is not. The parent is answered before the row ends: a repetition
	// stops at a row that has ended.
	if h := reason.history; h != nil {
		if start := h.startEvent(); start != nil {
			if m := completion(start, e); m != nil {
				if _, err := b.send(ctx, outgoing{message: m}); err != nil {
					return err
				}
			}
		}
	}
	h := newHistory()
	// write ignores checkpoints that are not newer than the row.
	h.StartID, h.ExecutionID, h.Checkpoint, h.row = row.StartID, row.ExecutionID, row.Checkpoint+1, row
	return b.instances.write(ctx, instance, h, update{status: api.RUNTIME_STATUS_FAILED, completed: e, now: b.clock.Now()})
}
