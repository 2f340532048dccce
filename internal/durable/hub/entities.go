package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// Bounds of what one commit of an entity does, besides its rows; see record.EntityBatch.
const (
	entityInputs   = 4 << 20 // bytes of inputs
	entityPage     = 100     // messages that are read at once
	maxEntitySends = 1000    // messages of one batch
	entityTrim     = 256     // commits between two looks for old marks
)

func (e *entities) setOpen(id string, held []*inflight.Received) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(held) > 0 {
		e.open[id] = held[0]
	} else {
		delete(e.open, id)
	}
}

// isOpen reports whether the entity's session here will look into the inbox again. The message that the session holds
// wakes the entity again if the session ends by a fault; a session that may have lost it does not count.
func (e *entities) isOpen(id string) bool {
	e.mu.Lock()
	r := e.open[id]
	e.mu.Unlock()
	if r == nil {
		return false
	}
	until, held := r.Held()
	return held && until.Sub(e.b.clock.Now()) > e.b.options.Visibility/4
}

// deliver sends a message to an entity: into its inbox, and with a message in the queue that wakes it. Copies of a
// message are dropped. One that is not due yet goes into the queue.
func (b *Backend) deliver(ctx context.Context, m record.Outgoing, from record.Sender) error {
	if m.Left(b.clock.Now()) > 0 {
		_, err := b.send(ctx, m)
		return err
	}
	m.Due = nil
	_, err := b.entities.store.Put(ctx, m.Message, b.clock.Now(), from)
	if err != nil && b.remake(ctx, err) {
		_, err = b.entities.store.Put(ctx, m.Message, b.clock.Now(), from)
	}
	if err != nil {
		return err
	}
	// A copy wakes the entity too: the first one's sender may have crashed before it did.
	if err := fault.Point(pointEntityPut); err != nil {
		return err
	}
	return b.wake(ctx, m.Instance)
}

// wake makes sure that the entity's messages are handled, by a message in the queue unless the entity's session here
// looks into the inbox again.
func (b *Backend) wake(ctx context.Context, id string) error {
	if b.entities.isOpen(id) {
		return nil
	}
	_, err := b.send(ctx, record.Outgoing{Message: &record.Message{Instance: id,
		Parsed: event.New("orchestratorStarted", -1, b.clock.Now())}})
	return err
}

// runEntities runs entities that have messages until ctx is done.
func (b *Backend) runEntities(ctx context.Context) {
	for {
		s := b.sessions.WaitEntity(ctx)
		if s == nil {
			return
		}
		b.runEntity(ctx, s)
	}
}

// runEntity handles all messages of an entity whose session the caller holds.
func (b *Backend) runEntity(ctx context.Context, s *inflight.Session) {
	var list []*inflight.Received
	err := func() error {
		defer b.entities.setOpen(s.Instance, nil)
		for row := (*record.EntityRow)(nil); ; {
			arrived := b.sessions.Take(s)
			list = append(list, arrived...)
			b.entities.setOpen(s.Instance, list)
			for _, r := range arrived {
				if err := b.acceptSignal(ctx, r); err != nil {
					return err
				}
			}
			next, more, err := b.stepEntity(ctx, s.Instance, row)
			if err != nil {
				return err
			}
			if row = next; more {
				continue
			}
			// Messages that arrive from now on wake the entity; look for those that came before.
			b.entities.setOpen(s.Instance, nil)
			if next, more, err = b.stepEntity(ctx, s.Instance, row); err != nil {
				return err
			}
			if row = next; !more {
				return b.endEntity(ctx, s.Instance, row)
			}
		}
	}()
	switch {
	case errors.Is(err, errNotAccepted):
		b.park(workkind.Entity, entitybatch.NameOf(s.Instance), "", list)
		b.sessions.Done(s, list)
		b.offerAccepted(workkind.Entity, entitybatch.NameOf(s.Instance), "")
	case err != nil:
		if ctx.Err() == nil {
			b.log.Warn("cannot run an entity; trying again", "entity", s.Instance, "err", sdkerr.Short(err))
		}
		b.retry(s, list)
	default:
		for _, r := range list {
			b.deleteLater(r, func() {})
		}
		b.sessions.Done(s, list)
	}
}

// endEntity notes that the messages of the last commit have been sent, and removes an entity that has nothing to keep.
func (b *Backend) endEntity(ctx context.Context, id string, row *record.EntityRow) error {
	if row.ETag == "" || row.HasState || row.LockedBy != "" {
		return b.entities.store.Sent(ctx, id, row)
	}
	return b.entities.store.Delete(ctx, id, row)
}

// acceptSignal puts a signal that came through the queue, because it was not due, into the inbox.
func (b *Backend) acceptSignal(ctx context.Context, r *inflight.Received) error {
	if r.Message == nil || event.ExtraOf(r.Parsed) == nil || r.ID == "" {
		return nil // It wakes the entity.
	}
	if v, err := b.fill(ctx, r.Instance, r.Message); err != nil || v == Drop {
		return err
	}
	_, err := b.entities.store.Put(ctx, &record.Message{ID: r.ID, Instance: r.Instance, Parsed: r.Parsed}, b.clock.Now(),
		record.FromHub)
	return err
}

// stepEntity handles one batch of messages. more is false if there was none. row is what the last step returned.
func (b *Backend) stepEntity(ctx context.Context, id string, row *record.EntityRow) (next *record.EntityRow, more bool,
	err error) {
	store := b.entities.store
	if row == nil {
		// This is the first step of a session: the owner before it may have died between its commit and its messages.
		if row, err = store.Get(ctx, id, true); err != nil {
			return nil, false, err
		}
		if err := b.sendUnsent(ctx, id, row); err != nil {
			return nil, false, err
		}
	}
	step, bad, err := b.readInbox(ctx, id, row)
	if err != nil {
		return nil, false, err
	}
	if len(step.Run)+len(step.Consumed)+len(bad) == 0 {
		return row, false, nil
	}
	batch := &entitybatch.Batch{ID: id, State: row.Content}
	run := step.Run
	for _, m := range run {
		batch.Operations = append(batch.Operations, operationOf(m))
	}
	result := &entitybatch.Result{State: row.Content}
	if len(run) > 0 {
		if !b.accepts(workkind.Entity, entitybatch.NameOf(id), "") {
			return nil, false, errNotAccepted
		}
		if result, err = b.executeEntity(ctx, batch); err != nil {
			return nil, false, err
		}
		// A worker may have run the first operations only. The others stay in the inbox.
		run = run[:len(result.Results)]
	}
	c := record.EntityCommit{State: result.State, Lock: step.Lock, Note: step.Note, Forget: step.Forget,
		Now:    b.clock.Now(),
		Delete: bad}
	if len(run) < len(step.Run) && step.Changed { // What follows an operation that has not run must not overtake it.
		step.Consumed, step.Forward, c.Lock, c.Note, c.Forget = nil, nil, row.Lock(), nil, nil
	}
	done := append(run, step.Consumed...)
	for _, m := range done {
		c.Delete = append(c.Delete, m.Key)
	}
	messages, err := b.entityMessages(id, row, batch, result, step)
	if err != nil {
		return nil, false, err
	}
	c.Order = row.Order
	for _, m := range messages {
		if record.IsEntity(m.Instance) {
			// The order follows the clock where that is ahead, and goes on from the last message where it is not.
			c.Order = c.Order.AtLeast(c.Now).Plus(1)
			m.Order = c.Order
		}
		text, err := b.payloads.Encode(ctx, m)
		if err != nil {
			return nil, false, err
		}
		c.Outbox = append(c.Outbox, text)
	}
	if err := fault.Point(pointEntityCommit); err != nil {
		return nil, false, err
	}
	if next, err = store.Commit(ctx, id, row, c); err != nil {
		if errors.Is(err, record.ErrMoved) {
			b.stats.conflicts.Add(1)
		}
		return nil, false, err
	}
	b.stats.entityBatches.Add(1)
	b.stats.entityOperations.Add(int64(len(run)))
	if err := fault.Point(pointEntityCommitted); err != nil {
		return nil, false, err
	}
	// Messages follow the commit, as with workflows: a process that was deposed has sent nothing.
	if err := b.sendMessages(ctx, c.Outbox); err != nil {
		return nil, false, err
	}
	if err := fault.Point(pointEntitySent); err != nil {
		return nil, false, err
	}
	b.cleanEntity(ctx, row, next, done)
	return next, true, nil
}

// readInbox returns the step that the entity's messages ask for, and the keys of messages that cannot be read.
func (b *Backend) readInbox(ctx context.Context, id string, row *record.EntityRow) (*record.EntityStep, []string,
	error) {
	step := &record.EntityStep{Lock: row.Lock(), Released: map[string]bool{}, Most: record.EntityBatch}
	var bad []string
	var failed error
	bytes := 0
	err := b.entities.store.Inbox(ctx, id, entityPage, func(m record.InboxMessage, err error) bool {
		if err == nil {
			m.X = event.ExtraOf(m.Message.Parsed)
			// A release that came before its request has left a note. Such a request must not lock: no release would follow.
			if l := m.X.GetEntityLockRequested(); l != nil && !step.Released[l.CriticalSectionId] {
				if step.Released[l.CriticalSectionId], failed = b.entities.store.IsReleased(ctx, id,
					l.CriticalSectionId); failed != nil {
					return false
				}
			}
			before := len(step.Run)
			if step.Take(m); len(step.Run) == before {
				return !step.Full() // Those that wait are not counted: what they wait for is behind them.
			}
			var n int
			n, err, failed = b.readOperation(ctx, id, &step.Run[before])
			bytes += n
			if failed != nil {
				return false
			}
			if err != nil {
				if o := operationOf(step.Run[before]); o.Caller != "" {
					step.Lost = append(step.Lost, o)
				}
				step.Run = step.Run[:before]
			}
		}
		if err != nil {
			b.log.Error("a message to an entity cannot be read; it is dropped", "entity", id, "row", m.Key, "err", err)
			b.stats.poisoned.Add(1)
			bad = append(bad, m.Key)
			step.Most-- // The transaction deletes it, too.
		}
		return !step.Full() && bytes < entityInputs
	})
	return step, bad, errors.Join(err, failed)
}

// readOperation reads the payload of an operation and returns its size. bad says that it is lost.
func (b *Backend) readOperation(ctx context.Context, id string, m *record.InboxMessage) (n int, bad, err error) {
	v, err := b.fill(ctx, id, m.Message)
	if err != nil {
		return 0, nil, err
	}
	if v == Drop {
		return 0, record.ErrNoPayload, nil
	}
	m.X = event.ExtraOf(m.Message.Parsed)
	text, _ := event.PayloadOf(m.Message.Parsed)
	return len(text.GetValue()), nil, nil
}

func operationOf(m record.InboxMessage) entitybatch.Operation {
	o := entitybatch.Operation{ID: m.Message.ID}
	if s := m.X.GetEntityOperationSignaled(); s != nil {
		o.Name = s.Operation
		if s.Input != nil {
			o.Input = &s.Input.Value
		}
	} else if c := m.X.GetEntityOperationCalled(); c != nil {
		o.ID, o.Name = c.RequestId, c.Operation
		o.Caller, o.Execution = record.ResponseTo(m.X)
		if c.Input != nil {
			o.Input = &c.Input.Value
		}
	}
	return o
}

// executeEntity runs a batch and checks its result.
func (b *Backend) executeEntity(ctx context.Context, batch *entitybatch.Batch) (*entitybatch.Result, error) {
	x := b.entityExecutor()
	if x == nil {
		return nil, errNotAccepted
	}
	if err := fault.Point(pointEntityRun); err != nil {
		return nil, err
	}
	r, err := x.ExecuteEntity(ctx, batch)
	if err != nil {
		return nil, err
	}
	if err := b.checkEntityResult(batch, r); err != nil {
		r = &entitybatch.Result{State: batch.State, Failure: event.NewFailure("EntityResultRefused", err.Error())}
	}
	if r.Failure != nil {
		record.TrimFailure(r.Failure)
		// Each call of a failed batch gets an answer. Without one, its workflow would wait without a limit.
		for len(r.Results) < len(batch.Operations) {
			r.Results = append(r.Results, entitybatch.OperationResult{Failure: r.Failure})
		}
	}
	if len(r.Results) == 0 {
		return nil, errors.New("durable: the worker has run none of the operations")
	}
	return r, nil
}

func (b *Backend) checkEntityResult(batch *entitybatch.Batch, r *entitybatch.Result) error {
	if len(r.Results) > len(batch.Operations) {
		return fmt.Errorf("durable: %d results of %d operations", len(r.Results), len(batch.Operations))
	}
	if len(r.Signals)+len(r.Starts) > maxEntitySends {
		return fmt.Errorf("%w: %d messages of one batch; %d are allowed", record.ErrTooLarge, len(r.Signals)+len(r.Starts),
			maxEntitySends)
	}
	// All is checked before anything is stored: a batch is committed whole or refused whole.
	sizes := []*string{r.State}
	for _, o := range r.Results {
		sizes = append(sizes, o.Output)
		record.TrimFailure(o.Failure)
	}
	for _, s := range r.Signals {
		if err := record.CheckEntityID(s.ID); err != nil {
			return err
		}
		sizes = append(sizes, s.Input)
	}
	for _, s := range r.Starts {
		if s.Workflow == "" {
			return errors.New("durable: the workflow has no name")
		}
		if s.InstanceID != "" {
			if err := record.CheckInstanceID(s.InstanceID); err != nil {
				return err
			}
		}
		sizes = append(sizes, s.Input)
	}
	for _, text := range sizes {
		if text != nil && len(*text) > b.options.MaxPayload {
			return fmt.Errorf("%w: %d bytes; %d are allowed", record.ErrTooLarge, len(*text), b.options.MaxPayload)
		}
	}
	return nil
}

// entityMessages returns what follows from a commit: results for workflows, failures for those whose calls are lost,
// signals, starts, and lock requests that go on. Their IDs are those of the commit, so that receivers recognise copies.
func (b *Backend) entityMessages(id string, row *record.EntityRow, batch *entitybatch.Batch, result *entitybatch.Result,
	step *record.EntityStep) ([]*record.Message, error) {
	// One time for all messages of the commit.
	now := b.clock.Now()
	var list []*record.Message
	add := func(to, execution string, x *protocol.HistoryEvent) error {
		x.Timestamp = timestamppb.New(now)
		e, err := event.FromProtocol(x)
		if err != nil {
			return err
		}
		// The ID is made of the commit and the place in the list: the same commit, carried out again after a crash, makes
		// the same IDs. So the order below must not change.
		m := &record.Message{ID: fmt.Sprintf("%s/%s/%d/%d", id, row.Epoch, row.Commit+1, len(list)), Instance: to,
			Execution: execution, Parsed: e}
		if record.IsEntity(to) {
			m.Schedule(x)
		}
		list = append(list, m)
		return nil
	}
	answer := func(o entitybatch.Operation, r entitybatch.OperationResult) error {
		// A signal has no caller and wants no answer.
		if o.Caller == "" {
			return nil
		}
		x := &protocol.HistoryEvent{EventId: -1, EventType: &protocol.HistoryEvent_EntityOperationCompleted{
			EntityOperationCompleted: &protocol.EntityOperationCompletedEvent{RequestId: o.ID,
				Output: protocol.Text(r.Output)}}}
		if r.Failure != nil {
			var err error
			if x, err = operationFailed(o.ID, r.Failure); err != nil {
				return err
			}
		}
		return add(o.Caller, o.Execution, x)
	}
	for i, r := range result.Results {
		if err := answer(batch.Operations[i], r); err != nil {
			return nil, err
		}
	}
	// The caller waits: a failure is better than no answer.
	for _, o := range step.Lost {
		lost := event.NewFailure(record.PayloadLost, "the input of the operation cannot be read")
		if err := answer(o, entitybatch.OperationResult{Failure: lost}); err != nil {
			return nil, err
		}
	}
	for _, s := range result.Signals {
		x := &protocol.EntityOperationSignaledEvent{RequestId: fmt.Sprintf("%s/%s/%d/%d", id, row.Epoch, row.Commit+1,
			len(list)), Operation: s.Operation, Input: protocol.Text(s.Input)}
		if !s.At.IsZero() {
			x.ScheduledTime = timestamppb.New(s.At)
		}
		if err := add(s.ID, "", &protocol.HistoryEvent{EventId: -1,
			EventType: &protocol.HistoryEvent_EntityOperationSignaled{EntityOperationSignaled: x}}); err != nil {
			return nil, err
		}
	}
	for _, l := range step.Forward {
		to, x := record.NextLock(l.GetEntityLockRequested())
		if err := add(to, "", x); err != nil {
			return nil, err
		}
	}
	for _, s := range result.Starts {
		list = append(list, startMessage(s, fmt.Sprintf("%s/%s/%d/%d", id, row.Epoch, row.Commit+1, len(list)), now))
	}
	return list, nil
}

// startMessage returns the message that starts a workflow on behalf of an entity.
func startMessage(s entitybatch.Start, id string, now time.Time) *record.Message {
	execution := uuid.NewSHA1(uuid.Nil, []byte(id)).String()
	if s.InstanceID == "" {
		s.InstanceID = uuid.NewSHA1(uuid.Nil, []byte(id+"/instance")).String()
	}
	e := event.New("executionStarted", -1, now)
	x := e.GetExecutionStarted()
	x.Name, x.Input = s.Workflow, protocol.Text(s.Input)
	if s.Version != "" {
		x.Version = wrapperspb.String(s.Version)
	}
	event.Ensure(x, "orchestrationInstance")
	x.OrchestrationInstance.InstanceId, x.OrchestrationInstance.ExecutionId = s.InstanceID, wrapperspb.String(execution)
	m := &record.Message{ID: execution, Instance: s.InstanceID, Parsed: e}
	if s.At.After(now) {
		x.ScheduledStartTimestamp, m.Due = timestamppb.New(s.At), &s.At
	}
	return m
}

// sendMessages sends messages of an entity's outbox.
func (b *Backend) sendMessages(ctx context.Context, texts []string) error {
	now := b.clock.Now()
	var list []record.Outgoing
	for _, text := range texts {
		m, err := record.Decode(text)
		if err != nil {
			b.log.Error("a message of an entity cannot be read; it is dropped", "err", err)
			continue
		}
		if record.IsEntity(m.Instance) || m.Parsed.GetExecutionStarted() != nil {
			// These are written in another form, under another name.
			if err := b.payloads.Fill(ctx, m); err != nil {
				return err
			}
			m.Blob, m.Field = "", ""
		}
		list = append(list, record.Outgoing{Message: m, Delay: m.Left(now)})
	}
	return b.sendAll(ctx, list)
}

// sendUnsent sends what the last commit of an entity had to send, if its process may not have done so.
func (b *Backend) sendUnsent(ctx context.Context, id string, row *record.EntityRow) error {
	list, err := b.entities.store.Unsent(ctx, row)
	if err != nil || len(list) == 0 {
		return err
	}
	if err := b.sendMessages(ctx, list); err != nil {
		return err
	}
	return b.entities.store.Sent(ctx, id, row)
}

// cleanEntity deletes payloads that a commit has made obsolete.
func (b *Backend) cleanEntity(ctx context.Context, old, now *record.EntityRow, done []record.InboxMessage) {
	var errs []error
	for _, blob := range []string{old.StateBlobName, old.OutboxBlobName} {
		if blob != "" {
			errs = append(errs, b.payloads.Delete(ctx, blob))
		}
	}
	for _, m := range done {
		if m.Message.Blob != "" {
			errs = append(errs, b.payloads.Delete(ctx, m.Message.Blob))
		}
	}
	if now.Commit%entityTrim == 0 {
		errs = append(errs, b.entities.store.Trim(ctx, record.InstanceOf(now.PartitionKey), b.clock.Now()))
	}
	if err := errors.Join(errs...); err != nil {
		b.log.Warn("cannot delete what an entity no longer needs", "entity", record.InstanceOf(now.PartitionKey), "err",
			sdkerr.Short(err))
	}
}
