package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// Bounds of what one commit of an entity does. Its transaction has at most 100 operations.
const (
	entityBatch    = 90      // rows that it deletes and adds
	entityInputs   = 4 << 20 // bytes of inputs
	entityPage     = 100     // messages that are read at once
	maxEntitySends = 1000    // messages of one batch
	entityTrim     = 256     // commits between two looks for old marks
)

// entities are the entities that this process works on.
type entities struct {
	b     *Backend
	store entityStore

	mu sync.Mutex // guards open
	// open are the entities whose session here will look into the inbox again before it ends, each with a message that the
	// session holds.
	open map[string]*received
}

func newEntities(b *Backend, store entityStore) *entities {
	return &entities{b: b, store: store, open: map[string]*received{}}
}

func (e *entities) setOpen(id string, held []*received) {
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
	until, held := r.held()
	return held && until.Sub(e.b.clock.Now()) > e.b.options.Visibility/4
}

// deliver sends a message to an entity: into its inbox, and with a message in the queue that wakes it. Copies of a
// message are dropped. One that is not due yet goes into the queue.
func (b *Backend) deliver(ctx context.Context, m outgoing, from sender) error {
	if m.left(b.clock.Now()) > 0 {
		_, err := b.send(ctx, m)
		return err
	}
	m.Due = nil
	_, err := b.entities.store.put(ctx, m.message, b.clock.Now(), from)
	if err != nil && b.remake(ctx, err) {
		_, err = b.entities.store.put(ctx, m.message, b.clock.Now(), from)
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
	_, err := b.send(ctx, outgoing{message: &message{Instance: id,
		event: event.New("orchestratorStarted", -1, b.clock.Now())}})
	return err
}

// runEntities runs entities that have messages until ctx is done.
func (b *Backend) runEntities(ctx context.Context) {
	for {
		s := b.sessions.waitEntity(ctx)
		if s == nil {
			return
		}
		b.runEntity(ctx, s)
	}
}

// runEntity handles all messages of an entity whose session the caller holds.
func (b *Backend) runEntity(ctx context.Context, s *session) {
	var list []*received
	err := func() error {
		defer b.entities.setOpen(s.instance, nil)
		for row := (*entityRow)(nil); ; {
			arrived := b.sessions.take(s)
			list = append(list, arrived...)
			b.entities.setOpen(s.instance, list)
			for _, r := range arrived {
				if err := b.acceptSignal(ctx, r); err != nil {
					return err
				}
			}
			next, more, err := b.stepEntity(ctx, s.instance, row)
			if err != nil {
				return err
			}
			if row = next; more {
				continue
			}
			// Messages that arrive from now on wake the entity; look for those that came before.
			b.entities.setOpen(s.instance, nil)
			if next, more, err = b.stepEntity(ctx, s.instance, row); err != nil {
				return err
			}
			if row = next; !more {
				return b.endEntity(ctx, s.instance, row)
			}
		}
	}()
	switch {
	case errors.Is(err, errNotAccepted):
		b.park(workkind.Entity, entitybatch.NameOf(s.instance), "", list)
		b.sessions.done(s, list)
		b.offerAccepted(workkind.Entity, entitybatch.NameOf(s.instance), "")
	case err != nil:
		if ctx.Err() == nil {
			b.log.Warn("cannot run an entity; trying again", "entity", s.instance, "err", sdkerr.Short(err))
		}
		b.retry(s, list)
	default:
		for _, r := range list {
			b.deleteLater(r, func() {})
		}
		b.sessions.done(s, list)
	}
}

// endEntity notes that the messages of the last commit have been sent, and removes an entity that has nothing to keep.
func (b *Backend) endEntity(ctx context.Context, id string, row *entityRow) error {
	if row.etag == "" || row.HasState || row.LockedBy != "" {
		return b.entities.store.sent(ctx, id, row)
	}
	return b.entities.store.delete(ctx, id, row)
}

// acceptSignal puts a signal that came through the queue, because it was not due, into the inbox.
func (b *Backend) acceptSignal(ctx context.Context, r *received) error {
	if r.message == nil || event.ExtraOf(r.event) == nil || r.ID == "" {
		return nil // It wakes the entity.
	}
	if v, err := b.fill(ctx, r.Instance, r.message); err != nil || v == drop {
		return err
	}
	_, err := b.entities.store.put(ctx, &message{ID: r.ID, Instance: r.Instance, event: r.event}, b.clock.Now(), fromHub)
	return err
}

// stepEntity handles one batch of messages. more is false if there was none. row is what the last step returned.
func (b *Backend) stepEntity(ctx context.Context, id string, row *entityRow) (next *entityRow, more bool, err error) {
	store := b.entities.store
	if row == nil {
		// This is the first step of a session: the owner before it may have died between its commit and its messages.
		if row, err = store.get(ctx, id, true); err != nil {
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
	if len(step.run)+len(step.consumed)+len(bad) == 0 {
		return row, false, nil
	}
	batch := &entitybatch.Batch{ID: id, State: row.state}
	run := step.run
	for _, m := range run {
		batch.Operations = append(batch.Operations, operationOf(m))
	}
	result := &entitybatch.Result{State: row.state}
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
	c := entityCommit{state: result.State, lock: step.lock, note: step.note, forget: step.forget, now: b.clock.Now(),
		delete: bad}
	if len(run) < len(step.run) && step.changed { // What follows an operation that has not run must not overtake it.
		step.consumed, step.forward, c.lock, c.note, c.forget = nil, nil, row.lock(), nil, nil
	}
	done := append(run, step.consumed...)
	for _, m := range done {
		c.delete = append(c.delete, m.key)
	}
	messages, err := b.entityMessages(id, row, batch, result, step)
	if err != nil {
		return nil, false, err
	}
	c.order = row.Order
	for _, m := range messages {
		if isEntity(m.Instance) {
			// The order follows the clock where that is ahead, and goes on from the last message where it is not.
			c.order = c.order.atLeast(c.now).plus(1)
			m.Order = c.order
		}
		text, err := b.payloads.encode(ctx, m)
		if err != nil {
			return nil, false, err
		}
		c.outbox = append(c.outbox, text)
	}
	if err := fault.Point(pointEntityCommit); err != nil {
		return nil, false, err
	}
	if next, err = store.commit(ctx, id, row, c); err != nil {
		if errors.Is(err, errMoved) {
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
	if err := b.sendMessages(ctx, c.outbox); err != nil {
		return nil, false, err
	}
	if err := fault.Point(pointEntitySent); err != nil {
		return nil, false, err
	}
	b.cleanEntity(ctx, row, next, done)
	return next, true, nil
}

// readInbox returns the step that the entity's messages ask for, and the keys of messages that cannot be read.
func (b *Backend) readInbox(ctx context.Context, id string, row *entityRow) (*entityStep, []string, error) {
	step := &entityStep{lock: row.lock(), released: map[string]bool{}, most: entityBatch}
	var bad []string
	var failed error
	bytes := 0
	err := b.entities.store.inbox(ctx, id, entityPage, func(m inboxMessage, err error) bool {
		if err == nil {
			m.x = event.ExtraOf(m.message.event)
			// A release that came before its request has left a note. Such a request must not lock: no release would follow.
			if l := m.x.GetEntityLockRequested(); l != nil && !step.released[l.CriticalSectionId] {
				if step.released[l.CriticalSectionId], failed = b.entities.store.isReleased(ctx, id,
					l.CriticalSectionId); failed != nil {
					return false
				}
			}
			before := len(step.run)
			if step.take(m); len(step.run) == before {
				return !step.full() // Those that wait are not counted: what they wait for is behind them.
			}
			var n int
			n, err, failed = b.readOperation(ctx, id, &step.run[before])
			bytes += n
			if failed != nil {
				return false
			}
			if err != nil {
				if o := operationOf(step.run[before]); o.Caller != "" {
					step.lost = append(step.lost, o)
				}
				step.run = step.run[:before]
			}
		}
		if err != nil {
			b.log.Error("a message to an entity cannot be read; it is dropped", "entity", id, "row", m.key, "err", err)
			b.stats.poisoned.Add(1)
			bad = append(bad, m.key)
			step.most-- // The transaction deletes it, too.
		}
		return !step.full() && bytes < entityInputs
	})
	return step, bad, errors.Join(err, failed)
}

// readOperation reads the payload of an operation and returns its size. bad says that it is lost.
func (b *Backend) readOperation(ctx context.Context, id string, m *inboxMessage) (n int, bad, err error) {
	v, err := b.fill(ctx, id, m.message)
	if err != nil {
		return 0, nil, err
	}
	if v == drop {
		return 0, errNoPayload, nil
	}
	m.x = event.ExtraOf(m.message.event)
	text, _ := event.PayloadOf(m.message.event)
	return len(text.GetValue()), nil, nil
}

func operationOf(m inboxMessage) entitybatch.Operation {
	o := entitybatch.Operation{ID: m.message.ID}
	if s := m.x.GetEntityOperationSignaled(); s != nil {
		o.Name = s.Operation
		if s.Input != nil {
			o.Input = &s.Input.Value
		}
	} else if c := m.x.GetEntityOperationCalled(); c != nil {
		o.ID, o.Name = c.RequestId, c.Operation
		o.Caller, o.Execution = responseTo(m.x)
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
		trimFailure(r.Failure)
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
		return fmt.Errorf("%w: %d messages of one batch; %d are allowed", ErrTooLarge, len(r.Signals)+len(r.Starts),
			maxEntitySends)
	}
	sizes := []*string{r.State}
	for _, o := range r.Results {
		sizes = append(sizes, o.Output)
		trimFailure(o.Failure)
	}
	for _, s := range r.Signals {
		if err := checkEntityID(s.ID); err != nil {
			return err
		}
		sizes = append(sizes, s.Input)
	}
	for _, s := range r.Starts {
		if s.Workflow == "" {
			return errors.New("durable: the workflow has no name")
		}
		if s.InstanceID != "" {
			if err := checkInstanceID(s.InstanceID); err != nil {
				return err
			}
		}
		sizes = append(sizes, s.Input)
	}
	for _, text := range sizes {
		if text != nil && len(*text) > b.options.MaxPayload {
			return fmt.Errorf("%w: %d bytes; %d are allowed", ErrTooLarge, len(*text), b.options.MaxPayload)
		}
	}
	return nil
}

// entityMessages returns what follows from a commit: results for workflows, failures for those whose calls are lost,
// signals, starts, and lock requests that go on. Their IDs are those of the commit, so that receivers recognise copies.
func (b *Backend) entityMessages(id string, row *entityRow, batch *entitybatch.Batch, result *entitybatch.Result,
	step *entityStep) ([]*message, error) {
	// One time for all messages of the commit.
	now := b.clock.Now()
	var list []*message
	add := func(to, execution string, x *protocol.HistoryEvent) error {
		x.Timestamp = timestamppb.New(now)
		e, err := event.FromProtocol(x)
		if err != nil {
			return err
		}
		// The ID is made of the commit and the place in the list: the same commit, carried out again after a crash, makes
		// the same IDs. So the order below must not change.
		m := &message{ID: fmt.Sprintf("%s/%s/%d/%d", id, row.Epoch, row.Commit+1, len(list)), Instance: to,
			Execution: execution, event: e}
		if isEntity(to) {
			m.schedule(x)
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
			EntityOperationCompleted: &protocol.EntityOperationCompletedEvent{RequestId: o.ID, Output: protocol.Text(r.Output)}}}
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
	for _, o := range step.lost {
		lost := event.NewFailure(payloadLost, "the input of the operation cannot be read")
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
	for _, l := range step.forward {
		to, x := nextLock(l.GetEntityLockRequested())
		if err := add(to, "", x); err != nil {
			return nil, err
		}
	}
	for _, s := range result.Starts {
		list = append(list, startMessage(s, fmt.Sprintf("%s/%s/%d/%d", id, row.Epoch, row.Commit+1, len(list)), now))
	}
	return list, nil
}

// operationFailed returns the answer to a call of an operation that has failed.
func operationFailed(request string, f *backend.TaskFailureDetails) (*protocol.HistoryEvent, error) {
	details, err := event.FailureToProtocol(f)
	return &protocol.HistoryEvent{EventId: -1, EventType: &protocol.HistoryEvent_EntityOperationFailed{
		EntityOperationFailed: &protocol.EntityOperationFailedEvent{RequestId: request, FailureDetails: details}}}, err
}

// startMessage returns the message that starts a workflow on behalf of an entity.
func startMessage(s entitybatch.Start, id string, now time.Time) *message {
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
	m := &message{ID: execution, Instance: s.InstanceID, event: e}
	if s.At.After(now) {
		x.ScheduledStartTimestamp, m.Due = timestamppb.New(s.At), &s.At
	}
	return m
}

// sendMessages sends messages of an entity's outbox.
func (b *Backend) sendMessages(ctx context.Context, texts []string) error {
	now := b.clock.Now()
	var list []outgoing
	for _, text := range texts {
		m, err := decode(text)
		if err != nil {
			b.log.Error("a message of an entity cannot be read; it is dropped", "err", err)
			continue
		}
		if isEntity(m.Instance) || m.event.GetExecutionStarted() != nil {
			// These are written in another form, under another name.
			if err := b.payloads.fill(ctx, m); err != nil {
				return err
			}
			m.Blob, m.Field = "", ""
		}
		list = append(list, outgoing{message: m, delay: m.left(now)})
	}
	return b.sendAll(ctx, list)
}

// sendUnsent sends what the last commit of an entity had to send, if its process may not have done so.
func (b *Backend) sendUnsent(ctx context.Context, id string, row *entityRow) error {
	list, err := b.entities.store.unsent(ctx, row)
	if err != nil || len(list) == 0 {
		return err
	}
	if err := b.sendMessages(ctx, list); err != nil {
		return err
	}
	return b.entities.store.sent(ctx, id, row)
}

// cleanEntity deletes payloads that a commit has made obsolete.
func (b *Backend) cleanEntity(ctx context.Context, old, now *entityRow, done []inboxMessage) {
	var errs []error
	for _, blob := range []string{old.StateBlobName, old.OutboxBlobName} {
		if blob != "" {
			errs = append(errs, b.payloads.delete(ctx, blob))
		}
	}
	for _, m := range done {
		if m.message.Blob != "" {
			errs = append(errs, b.payloads.delete(ctx, m.message.Blob))
		}
	}
	if now.Commit%entityTrim == 0 {
		errs = append(errs, b.entities.store.trim(ctx, instanceOf(now.PartitionKey), b.clock.Now()))
	}
	if err := errors.Join(errs...); err != nil {
		b.log.Warn("cannot delete what an entity no longer needs", "entity", instanceOf(now.PartitionKey), "err",
			sdkerr.Short(err))
	}
}
